use super::*;

fn end(node: u32, port: u16) -> Address {
    Address { node: NodeId::new(node).unwrap(), port: Port::new(port).unwrap() }
}

fn data() -> Header {
    let flow = FlowKey { local: end(0x01_0203, 49_152), remote: end(0x00_ABCD, 7) };
    Header {
        length: 33,
        window: 1024,
        seq: Seq::new(0x0123_4567_89AB_CDEF),
        ack: 0x2345_6789,
        ..Header::new(Kind::Data, flow)
    }
}

const DATA: [u8; HEADER_LEN] = [
    0x10, 0x00, 0xAB, 0xCD, 0x18, 0x01, 0x02, 0x03, 0x00, 0x07, 0xC0, 0x00, 0x00, 0x21, 0x04, 0x00, 0x01,
    0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF, 0x23, 0x45, 0x67, 0x89,
];

/// [CDP-HDR-1] [CDP-HDR-7] The header lies exactly as drawn, and a sender's CE and HOP are 0.
#[test]
fn the_picture_holds() {
    assert_eq!(data().emit(), DATA);
    assert_eq!(Header::parse(&DATA), Ok(data()));
}

/// [CDP-HDR-1] Byte 0 and byte 4 bit by bit.
#[test]
fn bits_are_where_their_masks_are() {
    let first = |header: Header| header.emit()[0];
    assert_eq!(first(Header { rtx: true, ..data() }), 0x18);
    assert_eq!(first(Header { ce: true, ..data() }), 0x14);
    assert_eq!(first(Header { hop: 3, ..data() }), 0x13);
    assert_eq!(Header { eom: true, ..data() }.emit()[4], 0x98);
    assert_eq!(Header { ece: true, ..data() }.emit()[4], 0x58);
}

/// [CDP-FLG-1] The fourteen sets of section 2.1 and no other.
#[test]
fn legal_flag_sets_are_those_of_the_table() {
    let legal = [0x02, 0x12, 0x10, 0x50, 0x18, 0x58, 0x98, 0xD8, 0x11, 0x51, 0x30, 0x70, 0x04, 0x14];
    for flags in 0..=255 {
        let parsed = Header::parse(&with(&[(4, flags)]));
        assert_eq!(parsed.is_ok(), legal.contains(&flags), "flags {flags:02x}");
        assert!(parsed.is_ok_and(|header| header.flags() == flags) || !legal.contains(&flags));
    }
}

/// [CDP-HDR-13] Without the ACK flag the ACK number is 0, except in an echo-form RST.
#[test]
fn a_syn_acknowledges_nothing() {
    let ack = |kind| Header { kind, ..data() }.emit()[24..].to_vec();
    assert_eq!(ack(Kind::Syn), [0; 4]);
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Syn) {
        assert_eq!(ack(kind), [0x23, 0x45, 0x67, 0x89], "{kind:?}");
    }
}

/// EOM and ECE are not written where no legal set has them.
#[test]
fn every_emitted_flag_set_is_legal() {
    for kind in Kind::ALL {
        let header = Header { kind, eom: true, ece: true, ..data() };
        assert!(Header::parse(&header.emit()).is_ok(), "{kind:?}");
    }
}

/// [CDP-HDR-15] [CDP-HDR-16] Node 0 and 0xFFFFFF, port 0, and an end that talks to itself.
#[test]
fn impossible_addresses_are_refused() {
    let wrong: [&[(usize, u8)]; 7] = [
        &[(2, 0), (3, 0)],
        &[(1, 0xFF), (2, 0xFF), (3, 0xFF)],
        &[(5, 0), (6, 0), (7, 0)],
        &[(5, 0xFF), (6, 0xFF), (7, 0xFF)],
        &[(9, 0)],
        &[(10, 0)],
        &[(5, 0), (6, 0xAB), (7, 0xCD), (10, 0), (11, 7)],
    ];
    for changes in wrong {
        assert_eq!(Header::parse(&with(changes)), Err(DropReason::Address), "{changes:?}");
    }
    assert!(Header::parse(&with(&[(5, 0), (6, 0xAB), (7, 0xCD)])).is_ok(), "the same node, other ports");
}

/// [CDP-HDR-12] SYN, DAT and FIN take a number.
#[test]
fn kinds_know_what_they_take() {
    let taking: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| kind.takes_number()).collect();
    assert_eq!(taking, [Kind::Syn, Kind::SynAck, Kind::Data, Kind::Fin]);
}

/// [CDP-SEAL-2] [CDP-SEAL-4] ACK, DAT, FIN, PIN and RST|ACK are sealed; SYN, SYN|ACK and echo-form RST are not.
#[test]
fn kinds_know_whether_they_are_sealed() {
    let sealed: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| kind.is_sealed()).collect();
    assert_eq!(sealed, [Kind::Ack, Kind::Data, Kind::Fin, Kind::Pin, Kind::Reset]);
}

#[test]
fn a_header_is_one_line_of_a_trace() {
    let header = Header { eom: true, rtx: true, ..data() };
    assert_eq!(
        header.to_string(),
        "0x00abcd:7 < 0x010203:49152 DAT|ACK|EOM RTX seq=0123456789abcdef ack=23456789 window=1024 length=33"
    );
}

fn with(changes: &[(usize, u8)]) -> [u8; HEADER_LEN] {
    let mut bytes = DATA;
    for (at, byte) in changes {
        bytes[*at] = *byte;
    }
    bytes
}

#[test]
fn packets_of_a_flow_share_their_hint_and_flows_spread() {
    let hint = |header: Header| flow_hint(&header.emit());
    let first = hint(data());
    let other = Header { seq: Seq::new(7), ack: 9, window: 3, ..Header::new(Kind::Pin, data().flow()) };
    assert_eq!(
        hint(Header { seq: Seq::new(7), ack: 9, window: 3, length: 1400, rtx: true, ..data() }),
        first
    );
    assert_ne!(hint(other), first, "the other way is another flow");
    assert_eq!(flow_hint(&DATA[..HEADER_LEN - 1]), 0);
    // Connections of one peer differ in a port only.
    let mut halves = [0; 2];
    for port in 49_152..49_152 + 256 {
        let flow = FlowKey { local: end(1, port), remote: end(2, 7) };
        halves[usize::from(hint(Header::new(Kind::Data, flow)) >= 1 << 31)] += 1;
    }
    assert!(halves.iter().all(|half| *half > 100), "{halves:?}");
}
