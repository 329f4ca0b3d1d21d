use weft_wire::records;

use super::*;

fn datagrams(mss: u16, coalesce: bool) -> SendQueue {
    let mut queue = SendQueue::new(Service::Datagram, mss);
    queue.configure(mss, coalesce, true, true);
    queue
}

/// All packets, of which each is still there when those before it are acknowledged.
fn drain(queue: &mut SendQueue) -> Vec<(Vec<u8>, bool)> {
    let sent: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
    let read = |Outgoing { piece, eom, .. }: Outgoing| {
        queue.release(Some(piece));
        (queue.get(piece).to_vec(), eom)
    };
    sent.into_iter().map(read).collect()
}

/// [CDP-DG-2] A message alone travels plain, also where coalescing is agreed; so a full MSS fits one packet.
#[test]
fn a_message_alone_travels_plain() {
    for len in [0, 1, 509, 510, 511, 512] {
        let mut queue = datagrams(512, true);
        queue.push(&vec![7; len]);
        assert_eq!(drain(&mut queue), [(vec![7; len], true)], "{len} bytes");
        assert_eq!(queue.bytes(), 0);
    }
}

/// [CDP-COA-1] [CDP-COA-2] [CDP-COA-3] Small messages share a packet as records that fill it exactly.
#[test]
fn small_messages_share_a_packet() {
    let mut queue = datagrams(512, true);
    for message in [&b"a"[..], b"", b"hello"] {
        queue.push(message);
    }
    let expected = b"\x00\x01a\x00\x00\x00\x05hello".to_vec();
    assert_eq!(drain(&mut queue), [(expected, false)]);
}

/// [CDP-COA-4] [CDP-DG-4] [CDP-DG-5] A long message goes on with MORE in full packets.
#[test]
fn a_long_message_spans_packets_as_records() {
    let mut queue = datagrams(512, true);
    queue.push(&[9; 1100]);
    let packets = drain(&mut queue);
    assert_eq!(packets.len(), 3);
    assert_eq!(packets[0].0[..2], [0x81, 0xFE]);
    assert_eq!((packets[0].0.len(), packets[0].1), (512, false));
    assert_eq!((packets[2].0.len(), packets[2].1), (80, true), "the last part is alone, so plain");
}

/// [CDP-DG-4] [CDP-COA-2] What is left of a message travels plain where it fills a packet, or is more than a record has: no packet follows
/// with the few bytes that the head of a record displaced.
#[test]
fn the_last_part_of_a_message_has_no_head_of_a_record() {
    let sizes = |mss, len| {
        let mut queue = datagrams(mss, true);
        queue.push(&vec![7; len]);
        let packets = drain(&mut queue);
        assert!(packets.iter().rev().skip(1).all(|(_, eom)| !eom));
        packets.iter().map(|(data, _)| data.len()).collect::<Vec<_>>()
    };
    assert_eq!(sizes(65_479, 65_479), [65_479]);
    assert_eq!(sizes(65_479, 65_536), [65_479, 59]);
    assert_eq!(sizes(65_479, 65_477 + 40_000), [65_479, 40_000]);
    assert_eq!(sizes(32_769, 65_536), [32_769, 32_769]);
    assert_eq!(sizes(512, 510 + 512), [512, 512]);
    assert_eq!(sizes(512, 510 + 513), [512, 512, 3]);
}

/// [CDP-COA-2] A record that ends a message tells its length: one that is too long for that is plain, whatever room there is.
#[test]
fn a_message_too_long_for_a_record_has_its_packet_for_itself() {
    for (short, len) in [(100, 40_000), (100, 32_768), (30_000, 65_000)] {
        let mut queue = datagrams(65_479, true);
        let messages = [vec![1; short], vec![2; len], vec![3; short]];
        messages.iter().for_each(|message| queue.push(message));
        let packets = drain(&mut queue);
        assert_eq!(whole(&packets, true), messages, "{short} and {len} bytes");
        assert_eq!(packets.len(), 3);
    }
}

/// As many bytes as fill packets that leave together fill just these.
#[test]
fn the_part_of_a_message_that_fills_packets_is_as_long_as_they_are() {
    for (coalesce, bytes) in [(false, 44 * 1_444), (true, 44 * 1_442)] {
        let mut queue = datagrams(1_444, coalesce);
        assert_eq!(queue.full_bytes(65_000), bytes);
        assert_eq!((queue.push_part(&vec![7; 200_000], bytes), queue.packets()), (bytes, 44));
        assert_eq!(queue.full_bytes(0), bytes / 44);
    }
}

/// [CDP-DG-5] A message that is taken in parts fills the same packets as one that is taken at once, and what a part has is complete packets.
#[test]
fn a_message_in_parts_fills_the_same_packets() {
    for coalesce in [false, true] {
        for (len, most) in [(1100, 1), (5000, 512), (5100, 1000), (5120, 513), (300, 1), (0, 1)] {
            let message: Vec<u8> = (0..=250).cycle().take(len).collect();
            let (mut whole, mut parts) = (datagrams(512, coalesce), datagrams(512, coalesce));
            for queue in [&mut whole, &mut parts] {
                queue.push(&[1; 100]);
            }
            whole.push(&message);
            let mut packets = Vec::new();
            let mut taken = 0;
            loop {
                taken += parts.push_part(&message[taken..], most);
                if taken == len {
                    break;
                }
                assert!(parts.is_mid_message() && !parts.takes_whole(1));
                packets.extend(drain(&mut parts));
                assert!(packets.iter().all(|(_, eom)| !eom || !coalesce), "an open packet left");
            }
            assert!(!parts.is_mid_message());
            packets.extend(drain(&mut parts));
            assert_eq!(packets, drain(&mut whole), "{len} bytes, {most} at a time, records: {coalesce}");
        }
    }
}

/// [CDP-COA-4] Messages follow each other without a gap: every packet but the last is full.
#[test]
fn long_messages_begin_where_the_last_one_ended() {
    for len in [300, 400, 513, 700, 1100] {
        let mut queue = datagrams(512, true);
        let messages: Vec<Vec<u8>> = (0..40).map(|n| vec![n; len]).collect();
        messages.iter().for_each(|message| queue.push(message));
        let packets = drain(&mut queue);
        let (last, full) = packets.split_last().unwrap();
        // a packet with less room than a record's head is as full as can be
        assert!(full.iter().all(|(data, eom)| data.len() >= 510 && !eom), "{len}");
        assert_eq!(joined(full, last), messages, "{len}");
        assert_eq!(queue.bytes(), 0);
    }
}

/// A buffer that is lent is not copied, and what was sent before and after it keeps its place.
#[test]
fn lent_bytes_lie_where_they_lay() {
    let lent = Bytes::from(vec![2; 1300]);
    let within = |part: &[u8]| lent.as_ptr_range().contains(&part.as_ptr());
    let mut queue = SendQueue::new(Service::Stream, 512);
    queue.push(&[1; 100]);
    queue.push_lent(lent.clone());
    queue.push(&[3; 100]);
    assert_eq!(queue.bytes(), 1500);
    let pieces: Vec<Piece> = std::iter::from_fn(|| queue.pop().map(|out| out.piece)).collect();
    let parts: Vec<&[u8]> = pieces.iter().map(|&piece| queue.get(piece)).collect();
    let lens: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    assert_eq!(lens, [512, 512, 476], "none is short, so what fills the first and the last is copied");
    assert_eq!(parts.concat(), [vec![1; 100], vec![2; 1300], vec![3; 100]].concat());
    assert_eq!(parts.iter().map(|part| within(part)).collect::<Vec<_>>(), [false, true, false]);
    assert!(pieces.iter().zip(parts).all(|(&piece, part)| queue.lent(piece).is_some() == within(part)));
}

/// Whatever the sizes of what is lent and copied, all packets but the last are full and nothing is lost.
#[test]
fn a_stream_of_lent_and_copied_bytes_has_no_short_packet() {
    let mut queue = SendQueue::new(Service::Stream, 512);
    queue.configure(512, true, false, true);
    let mut sent = Vec::new();
    for (nth, len) in [1300, 300, 256, 100, 511, 512, 513, 90, 5_000, 700, 1].into_iter().enumerate() {
        let data: Vec<u8> = (0..len).map(|at| (at + nth).to_le_bytes()[0]).collect();
        sent.extend_from_slice(&data);
        if nth % 4 == 3 {
            queue.push(&data);
        } else {
            queue.push_lent(data.into());
        }
        assert_eq!(queue.bytes(), sent.len());
    }
    let packets = drain(&mut queue);
    assert_eq!(packets.iter().position(|(data, _)| data.len() != 512), Some(packets.len() - 1));
    assert_eq!(packets.concat_payloads(), sent);
}

/// [CDP-DG-2] [CDP-DG-4] Lent messages travel plain, cut where they exceed a packet, unless records do better.
#[test]
fn lent_messages_travel_plain_or_as_records() {
    let lent = Bytes::from(vec![2; 1100]);
    let mut queue = datagrams(512, false);
    queue.push_lent(lent.clone());
    let packets = drain(&mut queue);
    assert_eq!(
        packets.iter().map(|(data, eom)| (data.len(), *eom)).collect::<Vec<_>>(),
        [(512, false), (512, false), (76, true)]
    );
    let mut queue = datagrams(512, true);
    queue.push(&[1; 10]);
    queue.push_lent(lent.slice(..500));
    queue.push_lent(lent.slice(..3));
    queue.push_lent(lent.slice(..0));
    let expected = b"\x00\x03\x02\x02\x02\x00\x00".to_vec();
    assert_eq!(drain(&mut queue), [(vec![1; 10], true), (vec![2; 500], true), (expected, false)]);
    queue.push_lent(lent);
    assert!(drain(&mut queue).iter().rev().skip(1).all(|(_, eom)| !eom), "records go on with MORE");
}

/// What a receiver makes of the packets: by the records of all but the last, which may be plain.
fn joined(full: &[(Vec<u8>, bool)], last: &(Vec<u8>, bool)) -> Vec<Vec<u8>> {
    let (mut messages, mut open) = (Vec::new(), Vec::new());
    for (packet, _) in full.iter().chain(std::iter::once(last).filter(|(_, eom)| !eom)) {
        let mut rest = &packet[..];
        while let [a, b, tail @ ..] = rest {
            let head = u16::from_be_bytes([*a, *b]);
            // [CDP-COA-2] MORE without a length: all that follows
            let len = if head == 0x8000 { tail.len() } else { usize::from(head & 0x7FFF) };
            let (part, after) = tail.split_at(len);
            open.extend_from_slice(part);
            if head & 0x8000 == 0 {
                messages.push(std::mem::take(&mut open));
            } else {
                assert!(after.is_empty(), "[CDP-COA-4] only the last record of a packet goes on");
            }
            rest = after;
        }
    }
    if last.1 {
        open.extend_from_slice(&last.0);
        messages.push(open);
    }
    messages
}

/// [CDP-SVC-3] Not even the head of an empty message goes where it does not fit.
#[test]
fn an_empty_message_needs_room_for_its_head() {
    for filled in 505..=510 {
        let mut queue = datagrams(512, true);
        queue.push(&vec![1; filled - 2 * records::RECORD_HEAD - 100]);
        queue.push(&[2; 100]);
        queue.push(&[]);
        queue.push(&[]);
        let packets = drain(&mut queue);
        assert!(packets.iter().all(|(data, _)| data.len() <= 512), "{filled} bytes");
    }
}

/// [CDP-COA-4] Small messages are not split, nor any where the peer announced no MESSAGE.
#[test]
fn what_is_not_split_keeps_to_one_packet() {
    for (len, may_split) in [(200, true), (400, false)] {
        let mut queue = SendQueue::new(Service::Datagram, 512);
        queue.configure(512, true, may_split, true);
        (0..40).for_each(|n| queue.push(&vec![n; len]));
        let packets = drain(&mut queue);
        let per_packet = 512 / (len + records::RECORD_HEAD);
        assert_eq!(packets.len(), 40_usize.div_ceil(per_packet), "{len} bytes");
    }
}

/// [CDP-DG-4] Without coalescing a long message travels plain with EOM only in the last packet.
#[test]
fn a_long_message_spans_packets_plain() {
    let mut queue = datagrams(512, false);
    queue.push(&[9; 1024]);
    let eoms: Vec<_> = drain(&mut queue).into_iter().map(|(data, eom)| (data.len(), eom)).collect();
    assert_eq!(eoms, [(512, false), (512, true)]);
}

/// [CDP-STR-2] [CDP-STR-3] A stream is cut into full segments without EOM, none empty.
#[test]
fn a_stream_is_cut_into_full_packets() {
    let mut queue = SendQueue::new(Service::Stream, 512);
    queue.configure(512, true, false, true);
    let data: Vec<u8> = (0..200_000_u32).map(|i| i.to_le_bytes()[0]).collect();
    for piece in data.chunks(777) {
        queue.push(piece);
    }
    assert_eq!(queue.bytes(), data.len());
    let packets = drain(&mut queue);
    assert!(packets.iter().all(|(data, eom)| !eom && !data.is_empty() && data.len() <= 512));
    assert_eq!(packets.concat_payloads(), data);
    assert_eq!(queue.bytes(), 0);
}

/// While more comes, a stream leaves in full packets, whatever the sizes of the sends.
#[test]
fn a_stream_that_is_never_drained_has_no_short_packet() {
    let mut queue = SendQueue::new(Service::Stream, 1444);
    queue.configure(1444, true, false, true);
    queue.push(&[0; 20]);
    assert_eq!(queue.pop().map(|out| out.piece.len()), Some(20));
    for round in 0..100 {
        queue.push(&vec![round; 131_072]);
        while queue.bytes() >= 62 << 10 {
            assert_eq!(queue.pop().map(|out| out.piece.len()), Some(1444), "round {round}");
        }
    }
}

/// Where packets may be large, who says little holds no room for one, and who goes on soon fills some.
#[test]
fn memory_for_large_packets_grows_with_what_is_said() {
    const MSS: u16 = 65_479;
    for (service, coalesce) in
        [(Service::Stream, false), (Service::Datagram, true), (Service::Datagram, false)]
    {
        let mut queue = SendQueue::new(service, MSS);
        queue.configure(MSS, coalesce, true, true);
        for len in [1, 64, 1_000, 20_000] {
            queue.push(&vec![7; len]);
            assert!(
                queue.chunks.capacity() <= 2_048 + len,
                "{service:?}, {len} bytes: {}",
                queue.chunks.capacity()
            );
            drain(&mut queue);
            queue.release(None);
            queue.rest();
        }
        let said: Vec<Vec<u8>> =
            (0..2_000_usize).map(|n| vec![n.to_le_bytes()[0]; n * 7 % 911 + 1]).collect();
        said.iter().for_each(|message| queue.push(message));
        let packets = drain(&mut queue);
        match service {
            Service::Stream => assert!(packets.concat_payloads() == said.concat()),
            Service::Datagram => assert!(whole(&packets, coalesce) == said, "coalesce: {coalesce}"),
        }
        if service == Service::Stream || coalesce {
            let large = packets.iter().filter(|(bytes, _)| bytes.len() > 60_000).count();
            assert!(large > 10 && packets.len() < large + 8, "{service:?}: {large} of {}", packets.len());
        }
        queue.release(None);
        queue.rest();
        assert!(queue.chunks.capacity() > 60_000);
        queue.rest_longer();
        assert_eq!(queue.chunks.capacity(), 0);
    }
}

/// Also the packet that begins with the few bytes which the last large send had left, and where memory of the heap might be used
/// again.
#[test]
fn packets_of_large_sends_lie_in_pages_and_are_summed_on_their_way() {
    const MSS: u16 = 65_479;
    for (service, bytes) in [(Service::Stream, usize::from(MSS) + 100), (Service::Datagram, 8_192)] {
        let mut queue = SendQueue::new(service, MSS);
        queue.configure(MSS, true, true, true);
        queue.is_summed = true;
        (0..100).for_each(|_| queue.push(&[7; 1_000]));
        drain(&mut queue);
        queue.release(None);
        (0..200).for_each(|byte| queue.push(&vec![byte; bytes]));
        (0..12).for_each(|_| _ = queue.pop());
        for nth in 0..10 {
            let packet = queue.pop().unwrap();
            let frame = queue.chunks.lay_head(packet.piece, &[0; HEADER_LEN]).unwrap();
            assert!(queue.frame(frame).unwrap().to_frames().is_pages(), "{service:?}, packet {nth}");
            assert!(packet.sum.is_some(), "{service:?}, packet {nth}");
        }
    }
}

/// [CDP-MTU-7] When the limit falls, what waits of a stream leaves in shorter packets, and what comes in full ones; only those
/// that begin where a packet began have room for a head.
#[test]
fn a_stream_is_cut_once_more_when_the_limit_falls() {
    let mut queue = SendQueue::new(Service::Stream, 1_444);
    let data: Vec<u8> = (0..10_000_u32).map(|i| i.to_le_bytes()[0]).collect();
    queue.push(&data[..5_000]);
    queue.set_mss(600);
    queue.push(&data[5_000..]);
    let mut heads = Vec::new();
    let packets: Vec<(Vec<u8>, bool)> = std::iter::from_fn(|| {
        let Outgoing { piece, eom, .. } = queue.pop()?;
        let packet = queue.get(piece).to_vec();
        heads.push(queue.lay_head(piece, &[b'h'; HEADER_LEN]).is_some());
        queue.freeze(piece);
        assert_eq!(queue.get(piece), packet);
        Some((packet, eom))
    })
    .collect();
    let lens: Vec<usize> = packets.iter().map(|(data, _)| data.len()).collect();
    assert_eq!(lens[..11], [600, 600, 244, 600, 600, 244, 600, 600, 244, 600, 68]);
    assert_eq!(lens[11..], [600, 600, 600, 600, 600, 600, 600, 600, 200]);
    assert_eq!(heads[..11], [[true, false, false]; 4].concat()[..11]);
    assert!(heads[11..].iter().all(|&has| has));
    assert_eq!(packets.concat_payloads(), data);
}

trait Payloads {
    fn concat_payloads(&self) -> Vec<u8>;
}

impl Payloads for Vec<(Vec<u8>, bool)> {
    fn concat_payloads(&self) -> Vec<u8> {
        self.iter().flat_map(|(data, _)| data.clone()).collect()
    }
}

/// [CDP-MTU-7] [CDP-DG-4] [CDP-COA-4] When the limit falls, what waits is cut again: no packet is longer, and the messages are the
/// same.
#[test]
fn what_waits_is_cut_again_when_the_limit_falls() {
    let messages: Vec<Vec<u8>> = [9_000, 3, 0, 600, 8_900, 1_422, 1_424, 20_000, 5, 200_000, 40_000]
        .iter()
        .zip(1..)
        .map(|(&len, fill)| vec![fill; len])
        .collect();
    let limits = [(8_944, 1_424), (8_944, 512), (65_479, 49_000), (65_479, 36_000), (65_479, 1_424)];
    for ((mss, limit), coalesce) in limits.iter().flat_map(|&limit| [(limit, true), (limit, false)]) {
        // what is lent ends the packet before it, which may be too short to be cut again
        for lends in [|_| false, |len| len > 8_000, |_| true] {
            let mut queue = datagrams(mss, coalesce);
            for message in &messages {
                if lends(message.len()) {
                    queue.push_lent(message.clone().into());
                } else {
                    queue.push(message);
                }
            }
            queue.set_mss(limit);
            let packets = drain(&mut queue);
            assert!(packets.iter().all(|(data, _)| data.len() <= usize::from(limit)));
            assert_eq!((whole(&packets, coalesce), queue.bytes()), (messages.clone(), 0), "{mss}, {limit}");
        }
    }
}

/// The messages in these packets.
fn whole(packets: &[(Vec<u8>, bool)], coalesce: bool) -> Vec<Vec<u8>> {
    let (mut messages, mut open) = (Vec::new(), Vec::new());
    let mut take = |data: &[u8], ends: bool| {
        open.extend_from_slice(data);
        if ends {
            messages.push(std::mem::take(&mut open));
        }
    };
    for (data, eom) in packets {
        if *eom || !coalesce {
            take(data, *eom);
            continue;
        }
        for record in records::Records::new_checked(data, true).unwrap() {
            take(&data[record.range.clone()], !record.more);
        }
    }
    messages
}

/// What is known of a packet's checksum before it leaves is that of what it holds, however it was filled; of small messages nothing is.
#[test]
fn the_sum_of_a_packet_is_that_of_its_bytes() {
    let mut summed = 0;
    for case in 0..60_usize {
        let service = if case % 2 == 0 { Service::Datagram } else { Service::Stream };
        let mut queue = SendQueue::new(service, 1_444);
        queue.configure(1_444, case % 4 == 0, true, true);
        queue.is_summed = true;
        for nth in 0..30 {
            let len = [1, 64, 255, 256, 700, 1_442, 1_444, 5_000][(case + nth * nth) % 8];
            queue.push(&(0..len).map(|at| (at + nth).to_le_bytes()[0]).collect::<Vec<_>>());
        }
        while let Some(packet) = queue.pop() {
            let bytes = queue.get(packet.piece);
            let sum = BodySum::default().copy(bytes, &mut vec![0; bytes.len()]);
            assert!(packet.sum.is_none_or(|known| known == sum), "case {case}: {} bytes", bytes.len());
            summed += usize::from(packet.sum.is_some());
        }
    }
    assert!(summed > 500, "{summed} packets");
    let mut queue = datagrams(1_444, true);
    queue.is_summed = true;
    (0..30).for_each(|_| queue.push(&[7; 64]));
    assert!(queue.pop().is_some_and(|packet| packet.sum.is_none()));
}
