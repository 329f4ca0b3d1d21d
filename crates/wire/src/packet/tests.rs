use weft_base::{Address, NodeId, Port};

use super::*;
use crate::{Emit, Reason, emit};

fn flow() -> FlowKey {
    let end = |node, port| Address { node: NodeId::new(node).unwrap(), port: Port::new(port).unwrap() };
    FlowKey { local: end(0x01_0203, 49_152), remote: end(0x00_ABCD, 7) }
}

fn header(kind: Kind) -> Header {
    Header { seq: Seq::new(0x0123_4567_89AB_CDEF), ack: 0x2345_6789, ..Header::new(kind, flow()) }
}

fn control(kind: Kind, tlvs: &Tlvs) -> Vec<u8> {
    let mut bytes = Vec::new();
    emit::emit_control(&mut bytes, &header(kind), tlvs, &Emit::sealed(true));
    bytes
}

fn check(bytes: &[u8]) -> Result<Packet, Refused> {
    Packet::new_checked(Bytes::copy_from_slice(bytes), Encapsulation::Udp)
}

fn dropped(bytes: &[u8]) -> DropReason {
    check(bytes).unwrap_err().reason()
}

/// [CDP-CHK-1] A packet with several faults is refused for the first in the order of the checks.
#[test]
fn the_first_check_that_fails_names_the_reason() {
    let mut bytes = control(Kind::Syn, &Tlvs { sack_ok: true, ..Tlvs::default() });
    bytes[30] ^= 1;
    let mut expected = vec![DropReason::Crc];
    assert_eq!(dropped(&bytes), DropReason::Crc);
    bytes.truncate(124);
    bytes[13] = 124;
    expected.push(dropped(&bytes));
    bytes[37] = 250;
    expected.push(dropped(&bytes));
    bytes[8..12].fill(0);
    expected.push(dropped(&bytes));
    bytes[4] = 0xFF;
    expected.push(dropped(&bytes));
    bytes[13] = 123;
    expected.push(dropped(&bytes));
    bytes[13] = 125;
    expected.push(dropped(&bytes));
    bytes[0] = 0xF0;
    expected.push(dropped(&bytes));
    bytes.truncate(27);
    expected.push(dropped(&bytes));
    expected.reverse();
    assert_eq!(expected, DropReason::ALL);
}

/// [CDP-SYN-2] A SYN or SYN|ACK with a wrong CRC or none, and an echo-form RST with a wrong one.
#[test]
fn a_wrong_crc_is_dropped() {
    for kind in [Kind::Syn, Kind::SynAck] {
        let good = control(kind, &Tlvs::default());
        assert!(check(&good).is_ok());
        for bit in (0..good.len() * 8).filter(|bit| bit / 8 != 4) {
            let mut bad = good.clone();
            bad[bit / 8] ^= 0x80 >> (bit % 8);
            let outside = (5..8).contains(&bit);
            assert_eq!(check(&bad).is_ok(), outside, "{kind:?}, bit {bit}");
        }
    }
    let mut reset = control(Kind::EchoReset, &Tlvs::default());
    reset.extend_from_slice(&[1, 4, 1, 2, 3, 4, 0, 0]);
    reset[13] = 36;
    assert_eq!(dropped(&reset), DropReason::Crc);
}

/// [CDP-SYN-3] A SYN has at least 128 bytes; a SYN|ACK may be shorter.
#[test]
fn a_syn_is_filled_up() {
    assert_eq!(control(Kind::Syn, &Tlvs::default()).len(), 128);
    assert_eq!(control(Kind::SynAck, &Tlvs::default()).len(), 36);
}

/// [CDP-HDR-9] [CDP-HDR-10] The padding of a short frame is ignored, and LENGTH alone is the end.
#[test]
fn the_padding_of_a_frame_is_not_data() {
    let mut frame = Vec::new();
    frame.extend_from_slice(&emit::data_head(&header(Kind::Data), b"hi", true));
    frame.extend_from_slice(b"hi");
    frame.resize(46, 0xEE);
    let packet = Packet::new_checked(Bytes::from(frame.clone()), Encapsulation::Ethernet).unwrap();
    assert_eq!(
        (packet.payload(), packet.payload_len(), packet.bytes().len()),
        (Bytes::from_static(b"hi"), 2, 30)
    );
    assert_eq!(packet.seq(true), header(Kind::Data).seq);
    frame.push(0xEE);
    let longer = Packet::new_checked(Bytes::from(frame), Encapsulation::Ethernet);
    assert_eq!(longer.unwrap_err().reason(), DropReason::Trailing);
}

/// [CDP-TLV-1] What follows the header of a DAT packet is data, even if it looks like a bad TLV.
#[test]
fn a_data_segment_is_never_read_as_tlvs() {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&emit::data_head(&header(Kind::Data), &[147, 250, 1], false));
    bytes.extend_from_slice(&[147, 250, 1]);
    let packet = check(&bytes).unwrap();
    assert!(packet.tlvs().is_empty());
    assert_eq!(packet.payload(), &[147, 250, 1][..]);
}

/// [CDP-HDR-2] [CDP-HDR-3] [CDP-HDR-4] Only versions 2..14, only from 36 bytes on, only without RST, and only
/// between possible ends.
#[test]
fn other_versions_are_answered_or_dropped() {
    let original = control(Kind::Syn, &Tlvs::default());
    let answered = |bytes: &[u8]| matches!(check(bytes), Err(Refused::Answer(DropReason::Version, _)));
    for version in (0..16).filter(|version| *version != 1) {
        let mut bytes = original.clone();
        bytes[0] = version << 4;
        assert_eq!(answered(&bytes), (2..=14).contains(&version), "version {version}");
        assert_eq!(dropped(&bytes), DropReason::Version);
        assert_eq!(answered(&bytes[..36]), (2..=14).contains(&version));
        assert!(!answered(&bytes[..35]));
        bytes[4] |= 0x04;
        assert!(!answered(&bytes));
        bytes[4] = 0x02;
        bytes[8..10].fill(0);
        assert!(!answered(&bytes));
    }
}

/// [CDP-RST-9] The number that an echo-form RST refuses comes out of SEQ and the echoed checksum.
#[test]
fn an_echo_gives_back_the_number_it_refuses() {
    for sealed in [false, true] {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&emit::data_head(&header(Kind::Data), b"", sealed));
        let packet = check(&bytes).unwrap();
        let mut answer = Vec::new();
        assert!(emit::echo_reset(&mut answer, &packet, Reason::UNKNOWN, None));
        let echo = check(&answer).unwrap();
        assert_eq!(echo.echoed_seq(sealed), header(Kind::Data).seq);
        assert_eq!(echo.header().window, 0x2345);
        assert_eq!(echo.flow(), flow());
    }
}

#[test]
fn a_packet_is_small() {
    assert!(size_of::<Packet>() <= 80, "{}", size_of::<Packet>());
}

/// [CDP-SEAL-3] Data may be copied in the pass that the checksum takes; what is damaged has another number, and is copied all the same.
#[test]
fn data_is_copied_as_the_number_is_told() {
    let header = header(Kind::Data);
    let data: Vec<u8> = (0..=255).cycle().take(20_000).collect();
    for sealed in [false, true] {
        let mut bytes = emit::data_head(&header, &data, sealed).to_vec();
        bytes.extend_from_slice(&data);
        let packet = check(&bytes).unwrap();
        let mut to = vec![0; data.len()];
        let mut copied = packet.clone();
        assert_eq!(copied.copy_data(sealed, &mut to), header.seq, "sealed: {sealed}");
        assert!(to == data);
        assert_eq!(copied.seq(sealed), header.seq, "it is known");
        assert_eq!(copied.bytes(), packet.bytes());
        let mut elsewhere = [0; 100];
        assert_eq!(packet.clone().copy_data(sealed, &mut elsewhere), header.seq);
        assert_eq!(elsewhere, [0; 100], "no room for all");

        *bytes.last_mut().unwrap() ^= 1;
        let mut damaged = check(&bytes).unwrap();
        assert_eq!(damaged.copy_data(sealed, &mut to) != header.seq, sealed, "sealed: {sealed}");
        assert_eq!(damaged.seq(sealed) != header.seq, sealed);
    }
}
