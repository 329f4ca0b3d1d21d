//! Any bytes through the packet parser; what it accepts must come back the same when it is emitted again.

use bytes::Bytes;
use weft_base::Seq;
use weft_wire::records::{RECORD_HEAD, Records};
use weft_wire::tlv::RawTlvs;
use weft_wire::{Emit, Encapsulation, HEADER_LEN, Header, Kind, Packet, Reason, Refused, emit};

#[path = "repair.rs"]
mod repair;

/// Judges `data` as each underlay would hand it over, as it is and with the fields repaired that a mutation
/// seldom hits.
pub(crate) fn run(data: &[u8]) {
    let repaired = repair::repair(data);
    for frame in [data, &repaired] {
        for underlay in [Encapsulation::Udp, Encapsulation::Ethernet, Encapsulation::Simulated] {
            match Packet::new_checked(Bytes::copy_from_slice(frame), underlay) {
                Ok(packet) => check_packet(frame, &packet),
                Err(Refused::Answer(_, trigger)) => {
                    let mut answer = Vec::new();
                    assert!(emit::echo_reset(&mut answer, trigger, Reason::VERSION, None));
                    assert!(answer.len() <= frame.len());
                    assert!(reparse(&answer).tlvs().versions.is_some());
                }
                Err(Refused::Drop(_)) => {}
            }
        }
    }
}

fn check_packet(frame: &[u8], packet: &Packet) {
    let header = packet.header();
    assert_eq!(packet.bytes(), &frame[..usize::from(header.length)]);
    let head = header.emit();
    let acknowledges = header.kind != Kind::Syn;
    assert_eq!(head[..24], frame[..24]);
    assert!(!acknowledges || head[24..] == frame[24..HEADER_LEN]);
    assert_eq!(packet.flow().reversed().reversed(), packet.flow());
    if header.kind == Kind::Data {
        check_data(packet);
    } else {
        check_control(packet);
    }
    check_echo(packet);
}

fn check_data(packet: &Packet) {
    let payload = packet.payload();
    assert_eq!(payload.len(), packet.payload_len());
    for sealed in [false, true] {
        let header = Header { seq: packet.seq(sealed), ..*packet.header() };
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&emit::data_head(&header, &payload, sealed));
        bytes.extend_from_slice(&payload);
        assert_eq!(bytes[..], packet.bytes()[..], "emitted again, sealed {sealed}");
    }
    if let Ok(records) = Records::new_checked(&payload, true) {
        let records: Vec<_> = records.collect();
        let total: usize = records.iter().map(|record| RECORD_HEAD + record.range.len()).sum();
        assert_eq!(total, payload.len());
        let goes_on = records.iter().any(|record| record.more);
        assert_eq!(Records::new_checked(&payload, false).is_ok(), !goes_on);
    }
}

fn check_control(packet: &Packet) {
    let tlvs = packet.tlvs();
    assert!(RawTlvs::new(&packet.bytes()[HEADER_LEN..]).all(|tlv| tlv.is_ok()));
    if tlvs.refusal.is_some() || tlvs.unknown_critical.is_some() {
        return;
    }
    for sealed in [false, true] {
        let seq = packet.seq(sealed);
        let mut bytes = Vec::new();
        emit::emit_control(&mut bytes, &Header { seq, ..*packet.header() }, &tlvs, &Emit::sealed(sealed));
        let again = reparse(&bytes);
        assert_eq!((again.tlvs(), again.seq(sealed), again.kind()), (tlvs.clone(), seq, packet.kind()));
    }
}

fn check_echo(packet: &Packet) {
    for (reason, detail) in [(Reason::NONE, None), (Reason::UNKNOWN, None), (Reason::OPTION, Some(99))] {
        let mut answer = Vec::new();
        let answered = emit::echo_reset(&mut answer, packet, reason, detail);
        assert_eq!(answered, !packet.kind().is_reset());
        if !answered {
            assert!(answer.is_empty());
            continue;
        }
        assert!(answer.len() <= packet.bytes().len());
        let echo = reparse(&answer);
        assert_eq!(echo.flow(), packet.flow().reversed());
        let sealed = packet.kind().is_sealed();
        assert_eq!(echo.echoed_seq(sealed), packet.seq(sealed));
        assert_eq!(echo.echoed_seq(false), Seq::new(packet.header().seq.get()));
    }
}

fn reparse(bytes: &[u8]) -> Packet {
    Packet::new_checked(Bytes::copy_from_slice(bytes), Encapsulation::Udp).expect("what was emitted is legal")
}
