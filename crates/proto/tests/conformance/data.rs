//! Data, acknowledgements, windows and loss (sections 4 to 9).

use std::time::Duration;

use weft_base::{Service, limits};
use weft_proto::congestion::{Kind as CongestionKind, Settings};
use weft_proto::{Config, Error, SendError, State};
use weft_wire::{FarSack, Header, Kind, Reason, Sack, Time, Tlvs};

use crate::peer::{MS, PEER_ISS, Script, generous, generous_stream, kinds, numbers};

fn datagrams() -> Config {
    Config::new(Service::Datagram, 1_444)
}

fn stream() -> Script {
    Script::server_to(&Config::new(Service::Stream, 1_444), &generous_stream())
}

/// [CDP-HDR-6] [CDP-SEQ-13] RTX decides nothing, and what is stored for a number is not replaced.
#[test]
fn rtx_decides_nothing_and_the_first_packet_stays() {
    let mut script = Script::server(&datagrams());
    let header = |script: &Script, ahead: u64, rtx| Header {
        seq: script.seq + ahead,
        eom: true,
        rtx,
        ..script.header(Kind::Data)
    };
    let first = script.data_with(header(&script, 1, true), b"second, as first told");
    let again = script.data_with(header(&script, 1, false), b"second, told otherwise");
    script.hear(first);
    script.hear(again);
    let gap = script.data_with(header(&script, 0, true), b"first");
    script.hear(gap);
    assert_eq!(script.read().unwrap(), b"first");
    assert_eq!(script.read().unwrap(), b"second, as first told");
    assert_eq!(script.read(), None);
}

/// [CDP-CHK-4] [CDP-ACK-5] A sound seal and a false ACK number: nothing is acted on, and it is challenged.
#[test]
fn a_false_acknowledgement_takes_its_data_with_it() {
    let mut script = Script::server(&datagrams());
    script.now += MS * 20;
    let header = Header { ack: script.ack.low32().wrapping_add(1), eom: true, ..script.header(Kind::Data) };
    let packet = script.data_with(header, b"never read");
    assert_eq!(kinds(&script.hear(packet)), [Kind::Ack]);
    assert_eq!((script.read(), script.own.stats(script.now).false_acks), (None, 1));
}

/// [CDP-TLV-6] An unknown critical TLV in a sealed packet: dropped, and no answer even to a PIN.
#[test]
fn an_unknown_critical_tlv_drops_the_packet() {
    let mut script = Script::server(&datagrams());
    let ignorable = script.raw(Kind::Pin, &[200, 1, 7, 0]);
    assert_eq!(kinds(&script.hear(ignorable)), [Kind::Ack], "[CDP-TLV-7]");
    let critical = script.raw(Kind::Pin, &[99, 1, 7, 0]);
    assert_eq!(script.hear(critical), []);
    assert_eq!(script.own.stats(script.now).unexpected, 1);
}

/// [CDP-SEQ-8] [CDP-SEQ-10] [CDP-SEQ-11] Before, within, at the edge, near and far: five answers to a number.
#[test]
fn a_number_is_judged_by_where_it_lies() {
    let mut script = Script::server(&Config { receive_slots: 100, ..datagrams() });
    script.send(true, b"read");
    let (nxt, edge) = (script.seq, script.seq + 99);
    // (number, is it answered, is it held)
    let cases = [
        (nxt - 1, true, false),
        (nxt - 64, true, false),
        (nxt + 5, true, true),
        (edge - 1, true, true),
        (edge, true, false),
        (edge + 2, true, false),
        (nxt + (1 << 30), true, false),
        (nxt + (1 << 31), false, false),
        (nxt - (1 << 31), false, false),
    ];
    for (number, answered, held) in cases {
        script.now += MS * 20;
        let before = script.own.stats(script.now).out_of_order;
        let packet = script.data_at(number, true, b"x");
        let answer = script.hear(packet);
        assert_eq!(kinds(&answer), if answered { vec![Kind::Ack] } else { vec![] }, "{number:?}");
        assert_eq!(script.own.stats(script.now).out_of_order - before, u64::from(held), "{number:?}");
    }
    script.now += MS * 20;
    let pin = Header { seq: nxt + (1 << 20), ..script.header(Kind::Pin) };
    let pin = script.control(&pin, &Tlvs::default());
    assert_eq!(script.hear(pin), [], "only DAT and FIN are challenged");
}

/// [CDP-ACK-8] Every second DAT, a gap, its filling, a duplicate, a FIN: at once. [CDP-ACK-9] Else within ACK_DELAY.
#[test]
fn acknowledgements_come_when_they_must() {
    let config = datagrams();
    let mut script = Script::server(&config);
    assert_eq!(script.send(true, b"1"), []);
    let begin = script.now;
    assert_eq!(kinds(&script.next_timer()), [Kind::Ack]);
    assert_eq!(script.now - begin, config.ack_delay);
    assert_eq!(script.send(true, b"2"), []);
    let second = script.send(true, b"3");
    assert_eq!(kinds(&second), [Kind::Ack], "every second");
    assert_eq!(second[0].header().ack, script.seq.low32(), "[CDP-ACK-1] [CDP-HDR-14]");
    let gap = script.data_at(script.seq + 1, true, b"5");
    let answer = script.hear(gap);
    assert_eq!(answer[0].tlvs().sack, Some(Sack::from_held([0])), "[CDP-SACK-1] [CDP-SACK-2]");
    assert_eq!(kinds(&script.send(true, b"4")), [Kind::Ack], "the gap is filled");
    script.seq += 1;
    let old = script.data_at(script.seq - 1, true, b"5");
    assert_eq!(kinds(&script.hear(old)), [Kind::Ack], "a duplicate");
    assert_eq!(kinds(&script.say(Kind::Fin)), [Kind::Ack], "a FIN");
}

/// [CDP-SACK-6] What SACK cannot reach is named by FARSACK, [CDP-SACK-7] one piece after another.
#[test]
fn what_is_held_far_away_is_named_piece_by_piece() {
    let mut script = Script::server(&Config { receive_slots: 8_192, ..datagrams() });
    let mut hold = |ahead: u64| {
        let packet = script.data_at(script.seq + ahead, true, b"held");
        let tlvs = script.hear(packet)[0].tlvs();
        (tlvs.sack, tlvs.far_sack)
    };
    assert_eq!(hold(512), (Some(Sack::from_held([511])), None), "as far as SACK reaches");
    let (near, far) = hold(700);
    assert_eq!(near, Some(Sack::from_held([511])));
    let far = far.unwrap();
    assert_eq!((far.offset(), far.bits(), far.held().collect::<Vec<_>>()), (512, 192, vec![699]));
    let pieces = [5_000, 5_001, 5_002, 5_003].map(|ahead| hold(ahead).1.unwrap());
    let shape = pieces.each_ref().map(|piece| (piece.offset(), piece.bits(), piece.held().count()));
    assert_eq!(shape, [(704, 1_984, 0), (2_688, 1_984, 0), (4_672, 384, 3), (512, 1_984, 1)]);
}

/// [CDP-RTX-5] A number that the latest bitmaps did not name is not lost for want of a bit; [CDP-SACK-4] nor do bits beyond
/// SND.NXT matter.
#[test]
fn what_the_latest_bitmaps_left_out_is_not_lost() {
    let settings = Settings { initial_window: Some(1_100), ..Settings::default() };
    let config =
        Config { pacing: false, congestion_settings: settings, ..Config::new(Service::Stream, 1_444) };
    let mut script = Script::server_to(&config, &generous_stream());
    script.own.send(&vec![1; 1_000 * 1_444]).unwrap();
    let sent = numbers(&script.take());
    assert_eq!(sent.len(), 1_000);
    script.now += MS;
    let mut repeated = |far_sack| {
        let tlvs =
            Tlvs { sack: Some(Sack::from_words([u64::MAX; 8])), far_sack: Some(far_sack), ..Tlvs::default() };
        let packet = script.control(&script.header(Kind::Ack), &tlvs);
        numbers(&script.hear(packet))
    };
    assert_eq!(
        repeated(FarSack::new(800, [u64::MAX; 31])),
        sent[..1],
        "of those from 513 to 800 nothing is known"
    );
    assert_eq!(repeated(FarSack::new(512, [u64::MAX; 4])), sent[769..801], "and now it is");
}

/// [CDP-ACK-8] [CDP-CC-4] A change of CE is acknowledged at once, with ECE once, and CECOUNT from then on.
#[test]
fn congestion_marks_are_echoed_once() {
    let mut script = Script::server(&datagrams());
    let marked = Header { ce: true, eom: true, ..script.header(Kind::Data) };
    let marked = script.data_with(marked, b"marked");
    script.seq += 1;
    let answer = script.hear(marked);
    assert!(answer[0].header().ece && answer[0].tlvs().ce_count == Some(1));
    let answer = script.send(true, b"not marked");
    assert!(!answer[0].header().ece, "0 in those that follow");
    assert_eq!(script.own.stats(script.now).ce_received, 1);
}

/// [CDP-CC-5] A sender that sees ECE reacts as to one loss, once per round trip.
#[test]
fn an_echo_of_congestion_shrinks_the_window_once() {
    let mut script = stream();
    script.own.send(&vec![1; 40 * 1_444]).unwrap();
    let sent = script.take();
    script.ack = sent[9].seq(true) + 1;
    script.now += MS;
    script.say(Kind::Ack);
    let before = script.own.path_stats().congestion_window;
    let mut echo = script.header(Kind::Ack);
    echo.ece = true;
    for _ in 0..3 {
        let packet = script.control(&echo, &Tlvs::default());
        script.hear(packet);
    }
    let after = script.own.path_stats().congestion_window;
    assert!(after < before && after >= before / 2, "from {before} to {after}");
}

/// [CDP-RTX-3] What was sent again gives no sample, so after an outage the round trip that the pacer goes by is old: a repair
/// with nothing else in flight does not wait for it.
#[test]
fn a_repair_that_is_alone_waits_for_no_pacer() {
    const LONG: Duration = Duration::from_secs(4);
    for congestion in [CongestionKind::Cubic, CongestionKind::Model] {
        let config = Config { congestion, ..Config::new(Service::Stream, 1_444) };
        let mut script = Script::server_to(&config, &generous_stream());
        script.own.send(&vec![1; 1_444]).unwrap();
        script.ack = script.take()[0].seq(true) + 1;
        script.now += LONG;
        script.say(Kind::Ack);
        script.own.send(&vec![1; 16 * 1_444]).unwrap();
        let mut sent = numbers(&script.take());
        sent.extend(numbers(&script.pass(LONG / 2)));
        assert!(sent.len() > 12, "{congestion:?}: only {} are lost", sent.len());
        let end = sent[sent.len() - 1] + 1;
        let mut repaired = Vec::new();
        while repaired.is_empty() {
            repaired = numbers(&script.next_timer());
        }
        while script.ack != end {
            script.now += MS;
            script.ack = repaired[repaired.len() - 1] + 1;
            repaired = numbers(&script.say(Kind::Ack));
            assert!(
                !repaired.is_empty() || script.ack == end,
                "{congestion:?}: nothing after {:?}",
                script.ack
            );
        }
    }
}

/// [CDP-RTX-5] On a path that has become quicker than it ever was every answer seems to be of an earlier transmission. Then
/// what was sent again and lost again is not repaired one number a time-out.
#[test]
fn a_path_that_became_quick_is_no_reason_to_repair_by_time_outs() {
    const LONG: Duration = Duration::from_millis(1_340);
    const SENT: usize = 600;
    let settings = Settings { initial_window: Some(1_100), ..Settings::default() };
    let config =
        Config { pacing: false, congestion_settings: settings, ..Config::new(Service::Stream, 1_444) };
    let mut script = Script::embryo(&config, &generous_stream());
    script.now += LONG;
    script.say(Kind::Ack);
    script.own.send(&vec![1; SENT * 1_444]).unwrap();
    let sent = numbers(&script.take());
    assert_eq!(sent.len(), SENT);
    // The peer holds the numbers from 474 to 512, and none of what is sent again at first.
    let mut arrived = [false; SENT];
    arrived[474..=512].fill(true);
    let answer = |script: &mut Script, arrived: &[bool; SENT]| {
        let una = arrived.iter().position(|arrived| !arrived).unwrap_or(SENT);
        script.ack = sent[0] + una as u64;
        let held = (0..limits::SACK_BITS).filter(|&bit| arrived.get(una + 1 + bit as usize) == Some(&true));
        let tlvs = Tlvs { sack: Some(Sack::from_held(held)), ..Tlvs::default() };
        let packet = script.control(&script.header(Kind::Ack), &tlvs);
        numbers(&script.hear(packet))
    };
    script.now += LONG;
    answer(&mut script, &arrived);
    let again = script.pass(LONG / 2);
    assert!(again.len() > 400, "{} are sent again, and lost", again.len());
    // Two, and the tail probe before each.
    let mut time_outs = 0;
    while arrived.contains(&false) {
        let mut told = numbers(&script.next_timer());
        time_outs += u32::from(!told.is_empty());
        assert!(time_outs < 5, "after {time_outs} {} have arrived", arrived.iter().filter(|&&at| at).count());
        while !told.is_empty() {
            script.now += MS;
            arrived.iter_mut().zip(&sent).for_each(|(arrived, number)| *arrived |= told.contains(number));
            told = answer(&mut script, &arrived);
        }
    }
}

/// [CDP-SEQ-6] [CDP-SEQ-7] [CDP-HDR-5] A number is repeated with the same data, and with the present ACK and seal.
#[test]
fn a_repetition_says_the_same_with_a_fresh_head() {
    let mut script = Script::server(&datagrams());
    script.own.send(b"say it twice").unwrap();
    let first = script.take().remove(0);
    assert!(!first.header().rtx);
    script.send(true, b"meanwhile");
    script.send(true, b"two came in");
    let again = loop {
        let packets = script.next_timer();
        if let Some(packet) = packets.into_iter().find(|packet| packet.kind() == Kind::Data) {
            break packet;
        }
    };
    assert!(again.header().rtx);
    assert_eq!(again.seq(true), first.seq(true));
    assert_eq!((again.payload(), again.header().eom), (first.payload(), first.header().eom));
    assert_eq!(again.header().ack, script.seq.low32());
    assert_ne!(again.header().seq, first.header().seq, "[CDP-SEAL-7] a fresh seal");
}

/// [CDP-WND-5] The greatest edge rules: an acknowledgement that came late cannot shrink the window.
/// [CDP-WND-6] No DAT at or after the edge. [CDP-CC-1] Whatever the congestion controller would allow.
#[test]
fn the_greatest_edge_rules() {
    let mut script = stream();
    script.window = 10;
    script.say(Kind::Ack);
    assert_eq!(script.own.path_stats().send_window, 1_000, "the SYN promised 1000, a smaller edge is late");
    let mut script = Script::server_to(&Config { coalesce: false, ..datagrams() }, &generous());
    script.own.send(b"x").unwrap();
    let edge = script.ack + 1_000;
    for _ in 0..1_100 {
        let _ = script.own.send(&[0; 100]);
    }
    let mut highest = script.ack;
    while highest + 1 != edge {
        let sent = numbers(&script.take());
        assert!(sent.iter().all(|number| number.is_before(edge)));
        highest = sent.into_iter().fold(highest, weft_base::Seq::later);
        script.ack = highest + 1;
        script.window = u16::try_from(edge.distance_from(script.ack)).unwrap();
        script.now += MS;
        let packet = script.control(&script.header(Kind::Ack), &Tlvs::default());
        script.own.handle_packet(script.now, packet);
    }
    assert!(numbers(&script.pass(MS * 50)).iter().all(|number| number.is_at_or_before(edge)));
    assert_eq!(script.own.path_stats().send_window, 0);
}

/// [CDP-WND-5] Who has nothing in flight hears of a larger window from the peer's data as well.
#[test]
fn data_of_the_peer_opens_the_window_of_who_has_nothing_in_flight() {
    let mut script = stream();
    assert_eq!(script.own.path_stats().send_window, 1_000, "the SYN promised 1000");
    for window in [1_000, 900, 1_200, 1_500] {
        script.window = window;
        script.send(false, b"some");
        assert_eq!(script.own.path_stats().send_window, window.max(1_000).into(), "the greatest edge");
    }
}

/// [CDP-WND-3] [CDP-WND-4] Our own edge never moves back, also when scaling rounds the window down.
#[test]
fn our_edge_never_moves_back() {
    let mut script = Script::server(&Config { receive_slots: 100_001, ..datagrams() });
    assert_eq!(script.own.agreed().receive_scale, 1);
    let mut told = PEER_ISS;
    for round in 0..50 {
        script.send(true, b"a");
        for packet in script.send(true, b"b") {
            let edge = script.seq + (u64::from(packet.header().window) << 1);
            assert!(told.is_at_or_before(edge), "round {round}");
            told = edge;
        }
        if round % 3 == 0 {
            script.read();
        }
    }
}

/// [CDP-LIM-5] [CDP-LIM-6] [CDP-ACK-7] The slots are a promise: all of them are stored, and not one more.
#[test]
fn every_promised_slot_is_there_and_no_more() {
    let config = datagrams();
    assert_eq!(config.receive_slots, limits::RECEIVE_SLOTS);
    let mut script = Script::server(&config);
    let edge = script.seq + u64::from(config.receive_slots);
    // out of order first, so that all but one are held
    for ahead in 1..u64::from(config.receive_slots) {
        let packet = script.data_at(script.seq + ahead, true, &ahead.to_be_bytes());
        script.hear(packet);
    }
    script.now += MS * 20;
    let beyond = script.data_at(edge, true, b"beyond");
    script.hear(beyond);
    let first = script.data_at(script.seq, true, &0_u64.to_be_bytes());
    let answer = script.hear(first);
    assert_eq!(answer[0].header().ack, edge.low32());
    assert_eq!(answer[0].header().window, 0);
    for ahead in 0..u64::from(config.receive_slots) {
        assert_eq!(script.read().unwrap(), ahead.to_be_bytes());
    }
    assert_eq!(script.read(), None);
}

/// [CDP-WND-12] Answers to PINs are no duplicate acknowledgements.
#[test]
fn answers_to_probes_are_no_duplicates() {
    let config = Config { sack: false, probe_mtu: false, ..Config::new(Service::Stream, 1_444) };
    let tlvs = Tlvs { sack_ok: false, ..generous_stream() };
    for probes in [0, 3] {
        let mut script = Script::server_to(&config, &tlvs);
        script.own.send(&[1; 5 * 1_444]).unwrap();
        script.take();
        for _ in 0..3 {
            let time = (probes > 0).then_some(Time { own: 0, echoed: 77 });
            let packet = script.control(&script.header(Kind::Ack), &Tlvs { time, ..Tlvs::default() });
            script.own.handle_packet(script.now, packet);
        }
        let lost = script.own.stats(script.now).lost;
        assert_eq!(lost, u64::from(probes == 0), "three duplicates are a loss, three answers are not");
    }
}

/// [CDP-RTX-5] Where new data waits for more of it, the tail probe repeats what the peer does not hold.
#[test]
fn a_corked_tail_is_probed_by_what_was_sent() {
    let mut script = Script::server_to(&Config::new(Service::Stream, 1_444), &generous_stream());
    script.own.send(&[1; 2 * 1_444]).unwrap();
    let sent = numbers(&script.take());
    script.own.send(&[2; 100]).unwrap();
    script.own.cork(1_000);
    assert_eq!(script.take(), []);
    let probe = script.next_timer();
    assert_eq!(script.own.stats(script.now).tail_probes, 1);
    assert_eq!(numbers(&probe), [sent[1]]);
}

/// [CDP-RTX-5] Without SACK the third duplicate declares the oldest number lost, and each partial acknowledgement of what was sent by
/// then the next one; more duplicates, and numbers sent later, say nothing. With SACK duplicates say nothing at all.
#[test]
fn duplicates_count_where_there_is_no_sack_and_only_the_third() {
    for sack in [false, true] {
        let config = Config { sack, probe_mtu: false, ..Config::new(Service::Stream, 1_444) };
        let mut script = Script::server_to(&config, &Tlvs { sack_ok: sack, ..generous_stream() });
        script.own.send(&[1; 6 * 1_444]).unwrap();
        let sent = numbers(&script.take());
        assert_eq!(sent.len(), 6);
        let lost_after = |script: &mut Script, ack, times| {
            script.ack = ack;
            for _ in 0..times {
                script.say(Kind::Ack);
            }
            script.own.stats(script.now).lost
        };
        let unit = u64::from(!sack);
        assert_eq!(lost_after(&mut script, sent[0], 2), 0);
        assert_eq!(lost_after(&mut script, sent[0], 1), unit);
        assert_eq!(lost_after(&mut script, sent[0], 8), unit);
        script.own.send(&[2; 3 * 1_444]).unwrap();
        assert_eq!(numbers(&script.take()).len(), 3);
        assert_eq!(lost_after(&mut script, sent[3], 1), 2 * unit, "a partial one");
        assert_eq!(lost_after(&mut script, sent[5], 1), 3 * unit, "another");
        assert_eq!(lost_after(&mut script, sent[5] + 1, 1), 3 * unit, "all that was sent by the third");
        assert_eq!(lost_after(&mut script, sent[5] + 2, 1), 3 * unit, "of what was sent later");
    }
}

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

/// [CDP-RTX-3] A number that was sent twice gives no sample. [CDP-RTX-4] A sample ends the back-off.
#[test]
fn repeated_numbers_give_no_sample() {
    let mut script = stream();
    script.own.send(b"x").unwrap();
    let sent = script.take();
    script.ack = sent[0].seq(true) + 1;
    script.now += MS * 8;
    script.say(Kind::Ack);
    let before = script.own.path_stats().srtt;
    script.own.send(b"y").unwrap();
    script.take();
    let repeated = script.pass(MS * 400);
    assert!(repeated.iter().all(|packet| packet.header().rtx));
    script.ack += 1;
    script.say(Kind::Ack);
    assert_eq!(script.own.path_stats().srtt, before);
    assert!(script.own.is_flushed());
}

/// [CDP-SACK-4] Bits beyond SND.NXT are ignored. [CDP-SACK-5] What is held is kept until it is acknowledged.
/// [CDP-SACK-3] And is not repeated as if it had been given up, unless a time-out asks for everything.
#[test]
fn held_numbers_are_kept_and_not_repeated() {
    let mut script = stream();
    script.own.send(&[3; 6 * 1_444]).unwrap();
    let sent = numbers(&script.take());
    assert_eq!(sent.len(), 6);
    script.now += MS;
    let tlvs = Tlvs { sack: Some(Sack::from_held([0, 1, 3, 200, 511])), ..Tlvs::default() };
    let packet = script.control(&script.header(Kind::Ack), &tlvs);
    let mut repeated = script.hear(packet);
    repeated.extend(script.pass(MS));
    let mut lost = numbers(&repeated);
    lost.dedup();
    assert_eq!(lost, [sent[0], sent[3]], "what lies before a held number");
    assert_eq!(script.own.buffered_bytes(), 6 * 1_444);
    script.ack = sent[5] + 1;
    script.say(Kind::Ack);
    assert_eq!((script.own.buffered_bytes(), script.own.is_flushed()), (0, true));
}

/// [CDP-MTU-3] A token other than 0 comes back. [CDP-ST-23] [CDP-WND-10] Every PIN is answered.
#[test]
fn a_token_comes_back() {
    let mut script = Script::server(&datagrams());
    let tlvs = Tlvs { time: Some(Time { own: 0xBAD_CAFE, echoed: 0 }), ..Tlvs::default() };
    let packet = script.control(&script.header(Kind::Pin), &tlvs);
    let answer = script.hear(packet);
    assert_eq!(answer[0].tlvs().time, Some(Time { own: 0, echoed: 0xBAD_CAFE }));
    assert_eq!(script.say(Kind::Pin)[0].tlvs().time, None);
}

/// [CDP-LIM-15] A hundred answers to PINs a second, and then silence.
#[test]
fn a_flood_of_pins_is_not_answered_for_ever() {
    let mut script = Script::server(&datagrams());
    let answers: usize = (0..1_000).map(|_| script.say(Kind::Pin).len()).sum();
    assert!((80..=limits::PIN_ANSWERS_PER_SECOND as usize).contains(&answers), "{answers}");
}

/// [CDP-LIM-8] A full send queue takes nothing more, and says so.
#[test]
fn a_full_send_queue_says_so() {
    let mut script = stream();
    let data = vec![0; 1 << 20];
    let mut taken = 0;
    let refusal = loop {
        match script.own.send(&data) {
            Ok(len) => taken += len,
            Err(error) => break error,
        }
    };
    assert_eq!((taken, refusal), (limits::SEND_QUEUE_BYTES, SendError::WouldBlock));
    let mut script = Script::server_to(&Config { coalesce: false, ..datagrams() }, &generous());
    let taken = std::iter::from_fn(|| script.own.send(b"x").ok()).count();
    assert_eq!(taken, limits::SEND_QUEUE_PACKETS);
}

/// [CDP-ACK-6] Whatever the peer grants, fewer than 2^30 numbers are ever in flight.
#[test]
fn the_flight_is_bounded_whatever_is_granted() {
    let mut script = Script::server_to(&datagrams(), &Tlvs { wscale: Some(14), ..generous() });
    script.window = u16::MAX;
    script.say(Kind::Ack);
    assert!(
        u64::from(u16::MAX) << 14 < limits::IN_FLIGHT_MAX,
        "the greatest window is below the bound by itself"
    );
    assert_eq!(script.own.path_stats().send_window, u64::from(u16::MAX) << 14);
    assert_eq!(script.own.state(), State::Established);
}

/// [CDP-ST-21] [CDP-ST-22] An acknowledgement releases what it covers and lets more go.
#[test]
fn an_acknowledgement_releases_and_lets_go() {
    let mut script = stream();
    script.own.send(&vec![8; 100 * 1_444]).unwrap();
    let first = script.take();
    assert!(first.len() < 100, "the first window");
    script.ack = first.last().unwrap().seq(true) + 1;
    script.now += MS;
    let more = script.say(Kind::Ack);
    assert!(!more.is_empty());
    assert_eq!(more[0].seq(true), script.ack);
    assert_eq!(script.own.buffered_bytes(), (100 - first.len()) * 1_444);
}
