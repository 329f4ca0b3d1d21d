//! Messages, records and streams: what a data segment holds (section 7).

use weft_base::{Service, limits};
use weft_proto::{Config, Error};
use weft_wire::{Kind, Reason, Tlvs};

use crate::peer::{Script, datagrams, generous_stream, kinds, stream};

/// [CDP-SVC-3] No data segment is longer than the peer's MSS or than our link's.
#[test]
fn data_segments_keep_to_both_limits() {
    for (ours, theirs) in [(1_444, 600), (700, 1_444)] {
        let tlvs = Tlvs { mss: Some(theirs), ..generous_stream() };
        let mut script = Script::server_to(&Config::new(Service::Stream, ours), &tlvs);
        script.own.send(&[5; 10_000]).unwrap();
        let longest = script.take().iter().map(weft_wire::Packet::payload_len).max();
        assert_eq!(longest, Some(usize::from(ours.min(theirs))));
    }
}

/// [CDP-DG-7] Parts leave their slots for the message: a message larger than all slots comes in without a read.
#[test]
fn a_message_larger_than_the_window_comes_in_unread() {
    let mut script =
        Script::server(&Config { receive_slots: 4, message_bytes: Some(100_000), ..datagrams() });
    for _ in 0..60 {
        let mut record = vec![0x85, 0x9A];
        record.resize(2 + 0x059A, 7);
        script.send(false, &record);
    }
    script.send(true, b"end");
    assert_eq!(script.read().unwrap().len(), 60 * 0x059A + 3);
}

/// [CDP-DG-7] What its parts cost is bounded by the bytes they bring, however short they are.
#[test]
fn a_message_of_many_short_parts_is_kept_in_few_pieces() {
    let mut script = Script::server(&Config { coalesce: false, ..datagrams() });
    let expected: Vec<u8> = (0..4_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    for part in expected.chunks(3) {
        script.send(false, part);
    }
    script.send(false, &[7; 1_444]);
    script.send(true, &[8]);
    let message = script.own.recv_message().unwrap().expect("a message");
    assert!(message.parts().len() <= 4_000 / 256 + 3, "{} pieces", message.parts().len());
    assert_eq!(message.into_bytes(), [&expected[..], &[7; 1_444], &[8]].concat());
}

/// [CDP-DG-8] [CDP-LIM-9] A message that outgrows what was announced ends the connection with REASON 12.
#[test]
fn a_message_that_outgrows_its_limit_ends_the_connection() {
    assert_eq!(datagrams().message_bytes, Some(limits::MESSAGE_BYTES));
    let config = Config { message_bytes: Some(2_000), coalesce: false, ..datagrams() };
    let mut script = Script::server(&config);
    assert_eq!(script.send(false, &[0; 1_444]), []);
    let end = script.send(true, &[0; 557]);
    assert_eq!(kinds(&end), [Kind::Reset]);
    assert_eq!(end[0].tlvs().reason.unwrap().0, Reason::TOO_BIG);
    assert_eq!(script.own.error(), Some(Error::Violation(Reason::TOO_BIG)));
}

/// [CDP-DG-9] EOM=0 without MESSAGE and without COALESCE ends the connection with REASON 8.
#[test]
fn an_open_message_nobody_offered_ends_the_connection() {
    let config = Config { message_bytes: None, coalesce: false, ..datagrams() };
    let end = Script::server(&config).send(false, b"half");
    assert_eq!(end[0].tlvs().reason.unwrap().0, Reason::PROTOCOL);
}

/// [CDP-COA-5] A broken list of records ends the connection before it is acknowledged.
/// [CDP-COA-3] [CDP-COA-4] A sound one is taken apart.
#[test]
fn records_are_taken_apart_or_end_the_connection() {
    let mut script = Script::server(&datagrams());
    script.send(false, b"\x00\x01a\x00\x00\x80\x02xy");
    script.send(false, b"\x00\x01z\x00\x02bc");
    let messages: Vec<_> = std::iter::from_fn(|| script.read()).collect();
    assert_eq!(messages, [&b"a"[..], b"", b"xyz", b"bc"]);
    let number = script.seq;
    let end = script.send(false, b"\x00\x01a\x07hello");
    assert_eq!(kinds(&end), [Kind::Reset]);
    assert_eq!(end[0].header().ack, number.low32(), "not acknowledged");
    assert_eq!(end[0].tlvs().reason.unwrap().0, Reason::PROTOCOL);
}

/// [CDP-STR-2] [CDP-STR-3] A stream ignores EOM, and acknowledges and ignores empty segments.
#[test]
fn a_stream_ignores_ends_and_emptiness() {
    let mut script = stream();
    script.send(true, b"a");
    script.send(false, b"");
    script.send(true, b"b");
    assert_eq!(script.read().unwrap(), b"ab");
    script.own.send(b"out").unwrap();
    assert!(script.take().iter().all(|packet| !packet.header().eom));
}
