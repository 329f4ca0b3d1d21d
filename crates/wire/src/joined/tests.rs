use weft_base::{Address, NodeId, Port};

use super::*;
use crate::emit::data_head;
use crate::{Header, Kind};

const FIRST: u64 = 0x0123_4567_FFFF_FFFE;

fn flow() -> FlowKey {
    let end = |node, port| Address { node: NodeId::new(node).unwrap(), port: Port::new(port).unwrap() };
    FlowKey { local: end(0x00AB_CDEF, 50_000), remote: end(0x0012_3456, 7) }
}

fn packet(seq: u64, eom: bool, sealed: bool, body: &[u8]) -> Vec<u8> {
    let mut header = Header::new(Kind::Data, flow().reversed());
    (header.eom, header.window, header.ack, header.seq) = (eom, 513, 0xFEDC_BA98, Seq::new(seq));
    [&data_head(&header, body, sealed)[..], body].concat()
}

fn message(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

/// The packets of a message whose parts have so many bytes, end to end.
fn packets(message: &[u8], part_bytes: usize, sealed: bool, coalesce: bool) -> Vec<Vec<u8>> {
    let parts = message.chunks(part_bytes);
    let last = parts.len() - 1;
    let records = parts.enumerate().map(|(at, part)| match coalesce && at < last {
        true => [&record_head(true, part.len()).unwrap()[..], part].concat(),
        false => part.to_vec(),
    });
    (FIRST..).zip(records).zip(0..).map(|((seq, body), at)| packet(seq, at == last, sealed, &body)).collect()
}

fn look(bytes: &[u8], size: usize) -> Option<JoinedParts<'_>> {
    JoinedParts::new_checked(bytes, size, flow(), Encapsulation::Udp)
}

/// What they have of the message, if they are as they were.
fn read(bytes: &[u8], size: usize, sealed: bool, coalesce: bool) -> Option<Vec<u8>> {
    let joined = look(bytes, size)?;
    let mut to = vec![0; joined.message_bytes(coalesce)];
    joined.copy_to(Seq::new(FIRST), sealed, coalesce, &mut to).then_some(to)
}

#[test]
fn a_message_is_what_its_parts_are() {
    for (len, part_bytes) in
        [(2, 1), (257, 256), (2_048, 1_442), (2_884, 1_442), (16_384, 1_442), (60_000, 8_914)]
    {
        for (sealed, coalesce) in [(true, true), (true, false), (false, true), (false, false)] {
            let case = format!("{len} bytes in parts of {part_bytes}, sealed {sealed}, records {coalesce}");
            let (message, packets) = (message(len), packets(&message(len), part_bytes, sealed, coalesce));
            let (bytes, size) = (packets.concat(), packets[0].len());
            let joined = look(&bytes, size).unwrap_or_else(|| panic!("{case}"));
            assert_eq!(joined.packets() as usize, packets.len(), "{case}");
            assert_eq!(joined.data_bytes(), bytes.len() - packets.len() * HEADER_LEN, "{case}");
            assert_eq!(joined.first().ack(), 0xFEDC_BA98);
            assert!(
                joined.has_end() && read(&bytes, size, sealed, coalesce).as_ref() == Some(&message),
                "{case}"
            );
            // those without the end have what is before it
            let before = (packets.len() - 1) * part_bytes;
            let joined = look(&bytes[..(packets.len() - 1) * size], size).unwrap_or_else(|| panic!("{case}"));
            assert!(!joined.has_end() && joined.packets() as usize == packets.len() - 1, "{case}");
            let part = read(&bytes[..(packets.len() - 1) * size], size, sealed, coalesce);
            assert!(part.as_deref() == Some(&message[..before]), "{case}");
            assert!(!joined.copy_to(Seq::new(FIRST + 1), sealed, coalesce, &mut vec![0; len]), "{case}");
            assert!(!joined.copy_to(Seq::new(FIRST), sealed, coalesce, &mut vec![0; len + 1]), "{case}");
            assert!(read(&bytes, size, sealed, !coalesce).as_ref() != Some(&message), "{case}");
        }
    }
}

/// What is damaged is refused, but for bits that forwarders may change, which make the packets unlike, or no plain ones.
#[test]
fn every_damage_shows() {
    let packets = packets(&message(1_000), 400, true, true);
    let (bytes, size) = (packets.concat(), packets[0].len());
    assert!(read(&bytes, size, true, true).is_some());
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 0x80 >> (bit % 8);
        assert!(read(&damaged, size, true, true).is_none(), "bit {bit}");
    }
    for len in 0..bytes.len() {
        let is_whole = len > 0 && len.is_multiple_of(size);
        assert_eq!(read(&bytes[..len], size, true, true).is_some(), is_whole, "{len} bytes of it");
    }
    for other in (0..2 * size).filter(|other| *other != size) {
        assert!(read(&bytes, other, true, true).is_none(), "as packets of {other} bytes");
    }
}

#[test]
fn what_is_not_of_one_message_is_refused() {
    let part = |seq, body: &[u8]| packet(seq, false, true, body);
    let end = |seq, body: &[u8]| packet(seq, true, true, body);
    let filled = [&record_head(true, 98).unwrap()[..], &[7; 98]].concat();
    let short = [&record_head(true, 97).unwrap()[..], &[7; 97], &[0]].concat();
    let ended = [&record_head(false, 98).unwrap()[..], &[7; 98]].concat();
    let cases: [(&str, &[Vec<u8>]); 9] = [
        ("a message behind the end", &[end(FIRST, &filled), part(FIRST + 1, &filled)]),
        ("a last part that does not go on", &[part(FIRST, &filled), part(FIRST + 1, &ended)]),
        ("an empty end", &[part(FIRST, &filled), end(FIRST + 1, b"")]),
        ("two ends", &[end(FIRST, &filled), end(FIRST + 1, &filled)]),
        ("a gap", &[part(FIRST, &filled), end(FIRST + 2, b"end")]),
        ("one twice", &[part(FIRST, &filled), part(FIRST, &filled), end(FIRST + 1, b"end")]),
        ("a part that does not go on", &[part(FIRST, &ended), end(FIRST + 1, b"end")]),
        ("a part that does not fill its packet", &[part(FIRST, &short), end(FIRST + 1, b"end")]),
        (
            "a second part that does not go on",
            &[part(FIRST, &filled), part(FIRST + 1, &ended), end(FIRST + 2, b"end")],
        ),
    ];
    let whole = [part(FIRST, &filled), part(FIRST + 1, &filled), end(FIRST + 2, b"end")].concat();
    assert_eq!(read(&whole, 128, true, true), Some([&[7; 196][..], b"end"].concat()));
    assert_eq!(read(&whole[..128], 128, true, true), Some(vec![7; 98]));
    assert_eq!(read(&end(FIRST, b"end"), 128, true, true), Some(b"end".to_vec()));
    for (name, packets) in cases {
        assert_eq!(read(&packets.concat(), 128, true, true), None, "{name}");
    }
    // a record of so many bytes does not tell how many
    let long = |head: [u8; 2]| {
        let body = [&head[..], &[7; 40_000]].concat();
        [part(FIRST, &body), end(FIRST + 1, b"end")].concat()
    };
    let read_long = |head, coalesce| read(&long(head), HEADER_LEN + 40_002, true, coalesce);
    assert_eq!(read_long([0x80, 0], true), Some([&[7; 40_000][..], b"end"].concat()));
    assert_eq!((read_long([0, 0], true), read_long([0xFF, 0xFF], true)), (None, None));
    assert!(read_long([0, 0], false).is_some());
    // a record of no bytes
    let empty = [part(FIRST, &record_head(true, 0).unwrap()), end(FIRST + 1, b"e")].concat();
    assert_eq!(read(&empty, HEADER_LEN + 2, true, true), None);
}
