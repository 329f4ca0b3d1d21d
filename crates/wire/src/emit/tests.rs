use weft_base::{Address, NodeId, Port, Seq};

use super::*;
use crate::Encapsulation;

fn header(kind: Kind) -> Header {
    let end = |node, port| Address { node: NodeId::new(node).unwrap(), port: Port::new(port).unwrap() };
    let flow = FlowKey { local: end(0x01_0203, 49_152), remote: end(0x00_ABCD, 7) };
    Header { seq: Seq::new(7), ack: 0x2345_6789, ..Header::new(kind, flow) }
}

fn packet(bytes: &[u8]) -> Packet {
    Packet::new_checked(Bytes::copy_from_slice(bytes), Encapsulation::Udp).unwrap()
}

fn data(len: usize) -> Packet {
    let body = vec![0xAA; len];
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&data_head(&header(Kind::Data), &body, true));
    bytes.extend_from_slice(&body);
    packet(&bytes)
}

/// [CDP-LIM-11] The longest packet has 65535 bytes.
#[test]
fn the_longest_packet_passes() {
    let longest = data(usize::from(MSS_MAX));
    assert_eq!(longest.bytes().len(), 65_535);
    assert_eq!(longest.seq(true), Seq::new(7));
}

/// [CDP-LIM-11] A longer one is never made.
#[test]
#[should_panic(expected = "65508 bytes")]
fn a_longer_packet_is_refused() {
    _ = data_head(&header(Kind::Data), &[0; 65_508], false);
}

/// [CDP-SEAL-7] [CDP-SEQ-7] The seal is computed again for each transmission: another window, another seal.
#[test]
fn each_transmission_has_its_own_seal() {
    let emitted = |window, rtx| {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&data_head(&Header { window, rtx, ..header(Kind::Data) }, b"", true));
        bytes
    };
    let (first, again) = (emitted(100, false), emitted(99, true));
    assert_ne!(first[16..20], again[16..20]);
    assert_eq!((packet(&first).seq(true), packet(&again).seq(true)), (Seq::new(7), Seq::new(7)));
}

/// [CDP-SEAL-4] [CDP-SEAL-5] SYN, SYN|ACK and echo-form RST carry the number itself, and so does everything on a
/// connection without integrity.
#[test]
fn what_is_not_sealed_carries_the_number_itself() {
    for kind in Kind::ALL.into_iter().filter(|kind| kind.has_tlvs()) {
        for sealed in [false, true] {
            let mut bytes = Vec::new();
            emit_control(&mut bytes, &header(kind), &Tlvs::default(), &Emit::sealed(sealed));
            let plain = bytes[16..24] == 7_u64.to_be_bytes();
            assert_eq!(plain, !(sealed && kind.is_sealed()), "{kind:?}, sealed {sealed}");
        }
    }
}

/// [CDP-MTU-2] A probe is filled up to the size that it proves.
#[test]
fn a_probe_has_the_size_that_was_asked_for() {
    let tlvs = Tlvs { time: Some(crate::Time { own: 5, echoed: 0 }), ..Tlvs::default() };
    let mut bytes = Vec::new();
    emit_control(&mut bytes, &header(Kind::Pin), &tlvs, &Emit { pad_to: 1500, ..Emit::sealed(true) });
    assert_eq!(bytes.len(), 1500);
    assert_eq!((packet(&bytes).tlvs(), packet(&bytes).seq(true)), (tlvs, Seq::new(7)));
}

/// [CDP-RST-3] An echo-form RST is never longer than its trigger; REASON and VERSIONS go in as far as room allows.
#[test]
fn an_echo_fits_its_trigger() {
    let answer = |len, reason, detail| {
        let mut bytes = Vec::new();
        assert!(echo_reset(&mut bytes, &data(len), reason, detail));
        assert!(bytes.len() <= 28 + len);
        let tlvs = packet(&bytes).tlvs();
        (bytes.len(), tlvs.reason, tlvs.versions.is_some())
    };
    let option = Reason::OPTION;
    assert_eq!(answer(3, Reason::UNKNOWN, None), (28, None, false));
    assert_eq!(answer(4, Reason::UNKNOWN, None), (32, Some((Reason::UNKNOWN, None)), false));
    assert_eq!(answer(7, option, Some(99)), (32, Some((option, None)), false));
    assert_eq!(answer(8, option, Some(99)), (36, Some((option, Some(99))), false));
    assert_eq!(answer(7, Reason::VERSION, None), (32, Some((Reason::VERSION, None)), false));
    assert_eq!(answer(8, Reason::VERSION, None), (36, Some((Reason::VERSION, None)), true));
    assert_eq!(answer(100, Reason::NONE, None), (28, None, false));
}

/// [CDP-RST-2] The addresses are swapped, and the trigger's SEQ, checksum and ACK number come back.
#[test]
fn an_echo_tells_what_it_refuses() {
    let trigger = data(10);
    let mut bytes = b"before".to_vec();
    assert!(echo_reset(&mut bytes, &trigger, Reason::UNKNOWN, None));
    let answer = packet(&bytes[6..]);
    assert_eq!(answer.flow(), trigger.flow().reversed());
    assert_eq!(answer.header().seq, trigger.header().seq);
    assert_eq!(answer.header().ack, trigger.checksum());
    assert_eq!(answer.header().window, 0x2345);
    assert_eq!(Trigger::from(&trigger).flow(), Some(trigger.flow()));
}

/// [CDP-RST-4] An RST of either form is not answered.
#[test]
fn a_reset_is_not_answered() {
    for kind in [Kind::EchoReset, Kind::Reset] {
        let mut bytes = Vec::new();
        emit_control(&mut bytes, &header(kind), &Tlvs::default(), &Emit::default());
        let mut answer = Vec::new();
        assert!(!echo_reset(&mut answer, &packet(&bytes), Reason::UNKNOWN, None));
        assert!(answer.is_empty());
    }
}

/// [CDP-SYN-4] Offers are left out, last first, until a SYN|ACK fits.
#[test]
fn the_last_offer_is_left_out_first() {
    let tlvs = Tlvs {
        mss: Some(1444),
        cookie: Some([7; 32].into_iter().collect()),
        wscale: Some(3),
        sack_ok: true,
        message: Some(1 << 20),
        confirm: true,
        ..Tlvs::default()
    };
    let kept = |max_len| {
        let options = Emit { max_len: Some(max_len), grease: Grease::new(0x9A, &[1]), ..Emit::default() };
        let mut bytes = Vec::new();
        emit_control(&mut bytes, &header(Kind::SynAck), &tlvs, &options);
        assert!(bytes.len() <= usize::from(max_len));
        let kept = packet(&bytes).tlvs();
        assert_eq!((kept.mss, &kept.cookie), (tlvs.mss, &tlvs.cookie));
        (bytes.len(), kept.wscale.is_some(), kept.sack_ok, kept.message.is_some(), kept.confirm)
    };
    assert_eq!(kept(200), (100, true, true, true, true));
    assert_eq!(kept(99), (96, true, true, true, true));
    assert_eq!(kept(95), (92, true, true, true, false));
    assert_eq!(kept(91), (84, true, true, false, false));
    assert_eq!(kept(80), (80, true, false, false, false));
    assert_eq!(kept(79), (76, false, false, false, false));
}

/// [CDP-TLV-9] Every random choice is a type of the reserved form with at most four bytes.
#[test]
fn grease_is_of_the_reserved_form() {
    for random in 0..1024_u64 {
        let grease = Grease::random(random.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        assert!(registry::is_grease(grease.kind));
    }
    assert_eq!(Grease::new(0x8B, &[]), None);
    assert_eq!(Grease::new(0x0A, &[]), None);
    assert_eq!(Grease::new(0x8A, &[0; 5]), None);
}
