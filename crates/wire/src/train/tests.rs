use proptest::prelude::*;
use weft_base::{Address, NodeId, Port};

use super::*;
use crate::{DropReason, Reason, Tlvs, emit};

const BODY: usize = 100;
const SIZE: usize = HEADER_LEN + BODY;

fn header() -> Header {
    let end = |node, port| Address { node: NodeId::new(node).unwrap(), port: Port::new(port).unwrap() };
    let flow = FlowKey { local: end(0x01_0203, 49_152), remote: end(0x00_ABCD, 7) };
    // the low half wraps around after two packets
    Header { seq: Seq::new(0x0123_4567_FFFF_FFFE), ack: 9, window: 8, ..Header::new(Kind::Data, flow) }
}

fn data(header: &Header, body: &[u8]) -> Vec<u8> {
    [&emit::data_head(header, body, true)[..], body].concat()
}

/// So many packets of a flow, sealed, with consecutive numbers and data that names them.
fn packets(count: u8) -> Vec<Vec<u8>> {
    let first = header();
    (0..count).map(|at| data(&Header { seq: first.seq + u64::from(at), ..first }, &[at; BODY])).collect()
}

fn take(bytes: &mut Bytes) -> Result<Train, Refused> {
    Train::split_checked(bytes, SIZE, Encapsulation::Udp)
}

/// The lengths of the trains that come out of packets laid end to end, 0 for one that was refused.
fn lengths(packets: &[Vec<u8>]) -> Vec<usize> {
    let mut bytes = Bytes::from(packets.concat());
    let mut lengths = Vec::new();
    while !bytes.is_empty() {
        lengths.push(take(&mut bytes).map_or(0, |train| train.len()));
    }
    lengths
}

#[test]
fn packets_that_count_up_are_one_train_and_the_short_last_one_is_another() {
    let mut packets = packets(6);
    assert_eq!(lengths(&packets), [6]);
    assert_eq!(lengths(&packets[..1]), [1]);
    packets[5] = data(&Header { seq: header().seq + 5, ..header() }, &[5; BODY - 1]);
    assert_eq!(lengths(&packets), [5, 1]);
}

/// Everything that a receiver asks once must be the same in all of them.
#[test]
fn what_differs_in_its_header_begins_another_train() {
    let other = |change: fn(&mut Header)| {
        let mut header = Header { seq: header().seq + 3, ..header() };
        change(&mut header);
        let mut packets = packets(6);
        packets[3] = data(&header, &[3; BODY]);
        lengths(&packets)
    };
    assert_eq!(other(|_| ()), [6]);
    let changes: [fn(&mut Header); 12] = [
        |header| header.eom = true,
        |header| header.ece = true,
        |header| header.rtx = true,
        |header| header.ce = true,
        |header| header.hop = 1,
        |header| header.window += 1,
        |header| header.ack += 1,
        |header| header.seq += 1,
        |header| header.source.port = Port::new(8).unwrap(),
        |header| header.source.node = NodeId::new(8).unwrap(),
        |header| header.destination.port = Port::new(8).unwrap(),
        |header| header.destination.node = NodeId::new(8).unwrap(),
    ];
    for change in changes {
        assert_eq!(other(change), [3, 1, 2]);
    }
}

#[test]
fn what_is_refused_takes_nothing_with_it() {
    let mut packets = packets(5);
    packets[2][0] ^= 0xF0;
    assert_eq!(lengths(&packets), [2, 0, 2]);
    packets[2] = vec![0; SIZE];
    assert_eq!(lengths(&packets), [2, 0, 2]);
    let mut bytes = Bytes::from(packets[2..].concat());
    assert_eq!(take(&mut bytes).unwrap_err().reason(), DropReason::Version);
    assert_eq!(lengths(&[vec![]]), [0; 0]);
    let tlvs = Tlvs { reason: Some((Reason::DONE, None)), ..Tlvs::default() };
    let mut fin = Vec::new();
    emit::emit_control(&mut fin, &Header { kind: Kind::Fin, ..header() }, &tlvs, &crate::Emit::sealed(true));
    let (size, mut bytes) = (fin.len(), Bytes::from(fin.repeat(3)));
    let train = Train::split_checked(&mut bytes, size, Encapsulation::Udp).unwrap();
    assert_eq!((train.len(), bytes.len()), (1, 2 * size), "a control packet is by itself");
}

/// How many are in order, with nowhere to copy them to.
fn count_from(train: &Train, seq: Seq, sealed: bool, most: u32) -> u32 {
    let (count, copied) = train.copy_from(seq, sealed, most, &mut []);
    assert_eq!(copied, 0);
    count
}

/// [CDP-SEAL-3] A packet that was damaged on its way has another number.
#[test]
fn numbers_are_counted_up_to_what_is_damaged() {
    let train = |damaged: Option<usize>| {
        let mut packets = packets(6);
        if let Some(at) = damaged {
            packets[at][SIZE - 1] ^= 1;
        }
        take(&mut Bytes::from(packets.concat())).unwrap()
    };
    let first = header().seq;
    assert_eq!(count_from(&train(None), first, true, 9), 6);
    assert_eq!(count_from(&train(None), first, true, 4), 4);
    assert_eq!(count_from(&train(None), first + 1, true, 9), 0);
    assert_eq!(count_from(&train(None), first + (1 << 32), true, 9), 0);
    assert_eq!(count_from(&train(Some(4)), first, true, 9), 4);
    assert_eq!(count_from(&train(Some(0)), first, true, 9), 0);
    assert_eq!(count_from(&train(None), first, false, 9), 0, "sealed numbers are no plain ones");
}

/// [CDP-SEAL-5] Without integrity the number is what it says.
#[test]
fn plain_numbers_are_counted_without_a_checksum() {
    let first = header();
    let plain = |at: u64| {
        let header = Header { seq: first.seq + at, ..first };
        [&emit::data_head(&header, &[7; BODY], false)[..], &[8; BODY]].concat()
    };
    let mut bytes = Bytes::from((0..4).flat_map(plain).collect::<Vec<u8>>());
    assert_eq!(count_from(&take(&mut bytes).unwrap(), first.seq, false, 9), 4);
}

/// What was copied is passed over when the rest is taken.
#[test]
fn data_is_copied_as_far_as_whole_segments_fit() {
    let whole: Vec<u8> = (0..6).flat_map(|at| [at; BODY]).collect();
    let first = header().seq;
    for (room, most, damaged, expected) in [
        (0, 9, None, (6, 0)),
        (BODY - 1, 9, None, (6, 0)),
        (BODY, 9, None, (6, 1)),
        (4 * BODY + 1, 9, None, (6, 4)),
        (9 * BODY, 9, None, (6, 6)),
        (9 * BODY, 2, None, (2, 2)),
        (9 * BODY, 9, Some(3), (3, 3)),
        (2 * BODY, 9, Some(3), (3, 2)),
    ] {
        for sealed in [false, true] {
            let head = |at: u8| {
                let header = Header { seq: first + u64::from(at), ..header() };
                emit::data_head(&header, &[at; BODY], sealed)
            };
            let mut packets: Vec<_> = (0..6).map(|at| [&head(at)[..], &[at; BODY]].concat()).collect();
            if let Some(at) = damaged {
                // the high half of its number, sealed or not
                packets[at][16] ^= 1;
            }
            let size = packets[0].len();
            let mut bytes = Bytes::from(packets.concat());
            let mut train = Train::split_checked(&mut bytes, size, Encapsulation::Udp).unwrap();
            let mut to = vec![0xEE; room];
            let (count, copied) = train.copy_from(first, sealed, most, &mut to);
            assert_eq!((count, copied), expected, "{room} bytes, {most} at most, {damaged:?} damaged");
            let copied_bytes = copied as usize * BODY;
            assert_eq!(to[..copied_bytes], whole[..copied_bytes]);
            let mut rest = train.take_segments(count);
            rest.drop_first(copied);
            assert_eq!(rest.len(), count - copied);
            assert_eq!(rest.flatten().collect::<Vec<_>>(), whole[copied_bytes..count as usize * BODY]);
        }
    }
    let mut segments = take(&mut Bytes::from(packets(6).concat())).unwrap().take_segments(6);
    segments.copy_to(&mut [0; BODY / 2]);
    segments.drop_first(0);
    assert_eq!(segments.bytes(), 5 * BODY + BODY / 2);
    segments.drop_first(2);
    assert_eq!(segments.flatten().collect::<Vec<_>>(), whole[2 * BODY..]);
}

#[test]
fn data_is_taken_in_pieces_of_any_size_and_numbers_go_on_behind_it() {
    let whole: Vec<u8> = (0..6).flat_map(|at| [at; BODY]).collect();
    for piece in [1, 7, BODY - 1, BODY, BODY + 1, 250, 1_000] {
        let mut segments = take(&mut Bytes::from(packets(6).concat())).unwrap().take_segments(6);
        assert_eq!((segments.len(), segments.bytes()), (6, 600));
        let (mut got, mut ended) = (Vec::new(), 0);
        while !segments.is_empty() {
            let mut buffer = vec![0xEE; piece];
            let (len, more) = segments.copy_to(&mut buffer);
            got.extend_from_slice(&buffer[..len]);
            ended += more;
            assert_eq!((segments.len() + ended, segments.bytes()), (6, 600 - got.len()));
        }
        assert_eq!(got, whole, "{piece}");
    }
    let mut train = take(&mut Bytes::from(packets(6).concat())).unwrap();
    assert_eq!(train.take_segments(2).collect::<Vec<_>>(), [vec![0; BODY], vec![1; BODY]]);
    assert_eq!(count_from(&train, header().seq + 2, true, 9), 4);
    let mut rest = train.take_segments(9);
    assert_eq!(rest.copy_to(&mut [0; BODY + 30]), (BODY + 30, 1));
    assert_eq!(rest.map(|segment| segment.len()).collect::<Vec<_>>(), [BODY - 30, BODY, BODY]);
    assert!(train.is_empty() && train.split_first().is_none());
}

#[test]
fn segments_without_bytes_are_segments() {
    let first = header();
    let empty = |at| data(&Header { seq: first.seq + at, ..first }, b"");
    let mut bytes = Bytes::from((0..3).flat_map(empty).collect::<Vec<u8>>());
    let train = || Train::split_checked(&mut bytes.clone(), HEADER_LEN, Encapsulation::Udp).unwrap();
    assert_eq!((train().len(), count_from(&train(), first.seq, true, 9)), (3, 3));
    let mut segments = train().take_segments(3);
    assert_eq!((segments.bytes(), segments.copy_to(&mut [])), (0, (0, 3)));
    assert_eq!(train().take_segments(3).count(), 3);
    assert!(Train::split_checked(&mut bytes, HEADER_LEN, Encapsulation::Udp).is_ok() && bytes.is_empty());
}

proptest! {
    /// Trains hold the packets that there are if each is cut off and checked by itself.
    #[test]
    fn trains_are_the_packets_that_are_cut_off_one_by_one(
        changes in proptest::collection::vec((0_usize..8, 0_usize..SIZE, 1_u8..=255), 0..4),
        cut in 0_usize..SIZE,
    ) {
        let mut all = packets(8).concat();
        changes.into_iter().for_each(|(packet, at, bits)| all[packet * SIZE + at] ^= bits);
        all.truncate(all.len() - cut);
        let all = Bytes::from(all);
        let one_by_one: Vec<_> = (0..all.len())
            .step_by(SIZE)
            .map(|at| Packet::new_checked(all.slice(at..all.len().min(at + SIZE)), Encapsulation::Udp))
            .collect();
        let (mut bytes, mut by_train) = (all, Vec::new());
        while !bytes.is_empty() {
            match take(&mut bytes) {
                Err(refused) => by_train.push(Err(refused)),
                Ok(mut train) => by_train.extend(std::iter::from_fn(|| train.split_first()).map(Ok)),
            }
        }
        prop_assert_eq!(by_train, one_by_one);
    }
}
