//! Repair: what is lost, what is sent again and when, and what that says of the path (section 9).

use std::time::Duration;

use weft_base::{Service, limits};
use weft_proto::Config;
use weft_proto::congestion::{Kind as CongestionKind, Settings};
use weft_wire::{FarSack, Kind, Packet, Sack, Time, Tlvs};

use crate::peer::{MS, Script, datagrams, generous_stream, numbers, stream};

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

/// The answer to losses is taken back when they prove to be errors, and not when another number does, long after all of them arrived.
#[test]
fn an_error_of_later_does_not_take_back_the_answer_to_losses() {
    const WINDOW: u32 = 32;
    let settings = Settings { initial_window: Some(WINDOW), ..Settings::default() };
    let config =
        Config { pacing: false, congestion_settings: settings, ..Config::new(Service::Stream, 1_444) };
    let window = |script: &Script| script.own.path_stats().congestion_window;
    let mut script = Script::embryo(&config, &generous_stream());
    script.now += MS / 2;
    script.say(Kind::Ack);
    script.own.send(&vec![1; WINDOW as usize * 1_444]).unwrap();
    let sent = numbers(&script.take());
    assert_eq!(sent.len(), WINDOW as usize);
    // The first is lost, and repaired.
    script.now += MS;
    let tlvs = Tlvs { sack: Some(Sack::from_held(0..WINDOW - 1)), ..Tlvs::default() };
    let packet = script.control(&script.header(Kind::Ack), &tlvs);
    let mut repaired = numbers(&script.hear(packet));
    repaired.extend(numbers(&script.pass(MS)));
    assert_eq!((repaired, script.own.stats(script.now).lost), (vec![sent[0]], 1));
    script.ack = sent[sent.len() - 1] + 1;
    script.say(Kind::Ack);
    let answered = window(&script);
    assert!(answered < WINDOW, "{answered}");
    // A tail probe is answered before it can have arrived: what it repeats was late.
    script.own.send(&[1; 1_444]).unwrap();
    let probed = numbers(&script.take());
    assert_eq!(numbers(&script.next_timer()), probed);
    script.ack = probed[0] + 1;
    script.say(Kind::Ack);
    assert_eq!(script.own.stats(script.now).spurious, 1);
    assert!(window(&script) <= answered + 1, "{:?}", script.own.stats(script.now));
    // Nor does the start go on, which doubles the window.
    for _ in 0..4 {
        script.own.send(&vec![1; 2 * WINDOW as usize * 1_444]).unwrap();
        while let Some(last) = numbers(&script.take()).last() {
            script.now += MS;
            script.ack = *last + 1;
            script.own.handle_packet(script.now, script.control(&script.header(Kind::Ack), &Tlvs::default()));
        }
    }
    assert!(window(&script) < WINDOW + 8, "{:?}", script.own.stats(script.now));
}

/// Without SACK, a time-out ends the recovery that three duplicates began (RFC 6582, section 4): what it declared lost is sent again as
/// the window lets it, and none of it is lost anew for being in flight.
#[test]
fn a_time_out_without_sack_ends_the_recovery_before_it() {
    let settings = Settings { initial_window: Some(32), ..Settings::default() };
    let config = Config {
        sack: false,
        pacing: false,
        congestion_settings: settings,
        probe_mtu: false,
        ..Config::new(Service::Stream, 1_444)
    };
    let data = |packets: Vec<Packet>| {
        let data = packets.iter().filter(|packet| packet.kind() == Kind::Data);
        data.map(|packet| packet.seq(true)).collect::<Vec<_>>()
    };
    let mut script = Script::server_to(&config, &Tlvs { sack_ok: false, ..generous_stream() });
    script.own.send(&vec![1; 20 * 1_444]).unwrap();
    let sent = data(script.take());
    assert_eq!(sent.len(), 20);
    script.now += MS;
    let repeated: Vec<_> = (0..3).flat_map(|_| data(script.say(Kind::Ack))).collect();
    assert_eq!(repeated, sent[..1], "three duplicates");
    let mut again = Vec::new();
    while script.own.stats(script.now).timeouts == 0 {
        again = data(script.next_timer());
    }
    assert_eq!(again, sent[..1]);
    let lost = script.own.stats(script.now).lost;
    let mut next = 0;
    while script.ack != sent[19] + 1 {
        script.now += MS;
        script.ack += 1;
        let repeated = data(script.say(Kind::Ack));
        let first = repeated.first().map_or(next + 1, |first| first.distance_from(sent[0]));
        assert_eq!(first, next + 1, "nothing is sent a third time: {repeated:?}");
        next += repeated.len() as u64;
    }
    assert_eq!(script.own.stats(script.now).lost, lost);
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
    let mut script = stream();
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
