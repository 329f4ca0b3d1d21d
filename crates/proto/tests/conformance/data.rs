//! What a packet with a number does: whether it is taken, and how it is acknowledged (sections 2 to 9).

use std::time::Duration;

use weft_base::{Service, limits};
use weft_proto::Config;
use weft_wire::{Header, Kind, Sack, Time, Tlvs};

use crate::peer::{MS, Script, datagrams, kinds, stream};

const US: Duration = Duration::from_micros(1);

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

/// The user has read what came, and answers it so much later: that acknowledges it.
fn answer(script: &mut Script, after: Duration) {
    script.now += after;
    script.own.recv(&mut [0; 1_000]).expect("something to read");
    script.own.send(b"answer").expect("room to send");
    let sent = script.take();
    script.ack += 1;
    assert_eq!((kinds(&sent), sent[0].header().ack), (vec![Kind::Data], script.seq.low32()));
}

/// [CDP-ACK-11] What is answered at once is acknowledged by its answer, or by ACK_DELAY if none comes.
#[test]
fn an_answer_acknowledges_its_question() {
    let config = Config { coalesce: false, ..datagrams() };
    let mut script = Script::server(&config);
    // a message of two packets, and what is said to the last
    let ask = |script: &mut Script| {
        script.now += MS * 10;
        script.send(false, b"one ");
        script.send(true, b"two")
    };
    assert_eq!(kinds(&ask(&mut script)), [Kind::Ack], "nobody has answered yet");
    answer(&mut script, US * 200);
    for _ in 0..3 {
        assert_eq!(ask(&mut script), []);
        answer(&mut script, US * 20);
    }
    assert_eq!(ask(&mut script), []);
    let begin = script.now;
    assert_eq!(kinds(&script.next_timer()), [Kind::Ack], "[CDP-ACK-9] no answer came");
    assert_eq!(script.now - begin, config.ack_delay);
    answer(&mut script, US);
    assert_eq!(kinds(&ask(&mut script)), [Kind::Ack], "and it did not come at once");
    answer(&mut script, US * 201);
    assert_eq!(kinds(&ask(&mut script)), [Kind::Ack], "nor did this");
    answer(&mut script, US);
    script.now += US;
    script.send(false, b"one ");
    assert_eq!(script.send(false, b"two "), [], "a part of a message is one of its question");
    script.now += US * 100;
    assert_eq!(script.send(true, b"three"), [], "and so is the rest");
    answer(&mut script, US);
    script.own.send(b"on its way").unwrap();
    script.take();
    assert_eq!(kinds(&ask(&mut script)), [Kind::Ack], "an acknowledgement of ours is waited for");
}

/// [CDP-ACK-11] Of a stream what is little is a question, whether it comes together or not, and more is not.
#[test]
fn an_answer_acknowledges_what_a_stream_brought_before_it() {
    let mut script = stream();
    // what is said to so many packets, which come 5 µs after each other, each of them in a turn of its own
    let ask = |script: &mut Script, count| {
        script.now += MS * 10;
        let said = (0..count).map(|_| {
            script.now += US * 5;
            kinds(&script.send(false, b"some of it"))
        });
        said.collect::<Vec<_>>().concat()
    };
    assert_eq!(ask(&mut script, 2), [Kind::Ack], "nobody has answered yet");
    answer(&mut script, US * 200);
    for count in [2, 3, 24] {
        assert_eq!(ask(&mut script, count), [], "{count} packets");
        answer(&mut script, US * 20);
    }
    assert_eq!(ask(&mut script, 26), [Kind::Ack], "many");
    answer(&mut script, US * 20);
    assert_eq!(ask(&mut script, 26), [], "as many as were answered before");
    answer(&mut script, US * 20);
    assert_eq!(ask(&mut script, 28), [Kind::Ack], "more");
    answer(&mut script, US * 20);
    assert_eq!(ask(&mut script, 3), []);
    let begin = script.now;
    assert_eq!(kinds(&script.next_timer()), [Kind::Ack], "[CDP-ACK-9] no answer came");
    assert!(script.now - begin <= MS);
    assert_eq!(ask(&mut script, 4), [Kind::Ack, Kind::Ack], "nor is one expected");
    answer(&mut script, US * 201);
    assert_eq!(ask(&mut script, 2), [Kind::Ack], "it did not come at once");
}

/// [CDP-ACK-11] Of a long message as much waits for the answer as a question had that was answered, and none of it for 16 ms after its sender
/// had to wait for the acknowledgement.
#[test]
fn a_long_message_is_a_question_where_one_was_answered() {
    let mut script = Script::server(&Config { coalesce: false, ..datagrams() });
    // what is said to the parts of a message, each of which comes in a turn of its own
    let ask = |script: &mut Script, parts: std::ops::Range<u32>, is_whole| {
        let last = parts.end - 1;
        let said = parts.map(|part| {
            script.now += US;
            kinds(&script.send(is_whole && part == last, b"part"))
        });
        said.collect::<Vec<_>>().concat()
    };
    assert_eq!(ask(&mut script, 0..4, true), [Kind::Ack; 2], "nobody has answered yet");
    answer(&mut script, US * 20);
    assert_eq!(
        ask(&mut script, 0..40, true),
        [Kind::Ack; 8],
        "more than a sender may have in flight from the beginning"
    );
    answer(&mut script, US * 20);
    assert_eq!(ask(&mut script, 0..40, true), []);
    answer(&mut script, US * 20);
    assert_eq!(ask(&mut script, 0..41, true), [], "the last is whole");
    answer(&mut script, US * 20);
    assert_eq!(ask(&mut script, 0..43, true), [Kind::Ack], "no question had so many");
    answer(&mut script, US * 20);

    assert_eq!(ask(&mut script, 0..30, false), []);
    assert_eq!(kinds(&script.next_timer()), [Kind::Ack], "[CDP-ACK-9] its sender may have to wait for that");
    ask(&mut script, 30..43, true);
    for round in 0..3 {
        answer(&mut script, US * 20);
        script.now += MS * 5;
        assert_eq!(ask(&mut script, 0..2, true), [Kind::Ack], "round {round}");
    }
    answer(&mut script, US * 20);
    script.now += MS;
    ask(&mut script, 0..2, true);
    answer(&mut script, US * 20);
    assert_eq!(ask(&mut script, 0..2, true), []);
}

/// [CDP-ACK-11] Whose sender has to wait again and again does so seldom: all is acknowledged at once for twice as long each time, up to a second,
/// and for half of that after 255 questions were left to their answers.
#[test]
fn who_waits_for_an_acknowledgement_again_waits_less_often() {
    let mut script = Script::server(&Config { coalesce: false, ..datagrams() });
    // what is said to a message of two packets, or to its beginning
    let ask = |script: &mut Script, is_whole| {
        script.now += US;
        script.send(false, b"one ");
        kinds(&script.send(is_whole, b"two"))
    };
    // questions are left to their answers
    let settle = |script: &mut Script| {
        ask(script, true);
        answer(script, US * 20);
        assert_eq!(ask(script, true), []);
        answer(script, US * 20);
    };
    // a sender has to wait, after which all is acknowledged at once for so long
    let pause = |script: &mut Script, pause: Duration| {
        ask(script, false);
        assert_eq!(kinds(&script.next_timer()), [Kind::Ack], "its sender waits");
        let begin = script.now;
        ask(script, true);
        answer(script, US * 20);
        for passed in [pause / 2, pause - US * 100] {
            script.now = begin + passed;
            assert_eq!(ask(script, true), [Kind::Ack], "{passed:?} of {pause:?}");
            answer(script, US * 20);
        }
        script.now = begin + pause;
        settle(script);
    };
    settle(&mut script);
    for doubled in [1, 2, 4, 8, 16, 32, 64, 64] {
        pause(&mut script, MS * 16 * doubled);
    }
    // one was left before
    for _ in 1..255 {
        assert_eq!(ask(&mut script, true), []);
        answer(&mut script, US * 20);
    }
    pause(&mut script, MS * 16 * 32);
}

/// [CDP-ACK-11] A sender that would soon wait for room is not left without an acknowledgement.
#[test]
fn what_fills_half_the_window_is_no_question() {
    let mut script = Script::server(&Config { coalesce: false, receive_slots: 8, ..datagrams() });
    let ask = |script: &mut Script, count: u32| {
        script.now += US;
        let said = (1..=count).map(|part| kinds(&script.send(part == count, b"part")));
        said.collect::<Vec<_>>().concat()
    };
    for expected in [&[Kind::Ack][..], &[]] {
        assert_eq!(ask(&mut script, 2), expected);
        answer(&mut script, US * 20);
    }
    assert_eq!(ask(&mut script, 4), []);
    answer(&mut script, US * 20);
    assert_eq!(ask(&mut script, 6), [Kind::Ack], "the fifth leaves three");
}

/// [CDP-ACK-11] Where a sender held back the rest of a question until the beginning was acknowledged, nothing is left to answers for 16 ms.
#[test]
fn a_question_that_was_not_whole_is_the_last_that_waits_for_a_while() {
    for config in [Config { coalesce: false, ..datagrams() }, Config::new(Service::Stream, 1_444)] {
        let is_message = config.service == Service::Datagram;
        let mut script = if is_message { Script::server(&config) } else { stream() };
        let ask = |script: &mut Script| {
            script.now += US * 5;
            script.send(false, b"one ");
            kinds(&script.send(is_message, b"two"))
        };
        let answer = |script: &mut Script| {
            script.now += US * 20;
            while script.own.recv(&mut [0; 1_000]).is_ok() {}
            script.own.send(b"answer").unwrap();
            script.take();
            script.ack += 1;
        };
        ask(&mut script);
        answer(&mut script);
        assert_eq!(ask(&mut script), []);
        script.now += US * 21;
        assert_eq!(kinds(&script.send(is_message, b"three")), [Kind::Ack], "{is_message}");
        for round in 0..3 {
            answer(&mut script);
            script.now += MS * 5;
            assert_eq!(ask(&mut script), [Kind::Ack], "{is_message}, round {round}");
        }
        answer(&mut script);
        script.now += MS * 2;
        ask(&mut script);
        answer(&mut script);
        assert_eq!(ask(&mut script), [], "{is_message}");
    }
}

/// [CDP-ACK-11] [CDP-RTX-5] Who was answered waits with the probe of a tail as for one number alone, until an ACK alone acknowledges all.
#[test]
fn a_tail_that_may_be_answered_is_probed_later() {
    // how long after it was sent the tail of a message of three packets is probed, where the answer takes 20 µs
    let probed_after = |answer: Kind| {
        let mut script = Script::client(&datagrams());
        script.own.send(&[1; 4_000]).unwrap();
        assert_eq!(script.take().len(), 3);
        script.ack += 3;
        script.now += US * 20;
        if answer == Kind::Data {
            script.send(true, b"an answer")
        } else {
            script.say(answer)
        };
        script.own.send(&[1; 4_000]).unwrap();
        assert_eq!(script.take().len(), 3);
        let sent_at = script.now;
        while script.own.stats(script.now).tail_probes == 0 {
            assert!(script.now - sent_at < MS * 10, "it is never probed");
            script.next_timer();
        }
        script.now - sent_at
    };
    let (alone, answered) = (probed_after(Kind::Ack), probed_after(Kind::Data));
    assert!(alone < US * 100, "{alone:?}");
    assert!((MS..MS * 2).contains(&answered), "{answered:?}");
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

/// [CDP-CC-4] A probe that goes before the acknowledgement carries ECE, and that one does not.
#[test]
fn a_probe_echoes_a_congestion_mark() {
    let mut script = Script::client(&datagrams());
    script.now = script.own.poll_timeout().expect("the keep-alive");
    let marked = Header { ce: true, eom: true, ..script.header(Kind::Data) };
    let marked = script.data_with(marked, b"marked");
    script.own.handle_timeout(script.now);
    let sent = script.hear(marked);
    assert_eq!(kinds(&sent), [Kind::Pin, Kind::Ack]);
    let echoes: Vec<_> = sent.iter().map(|packet| packet.header().ece).collect();
    assert_eq!((echoes, sent[1].tlvs().ce_count), (vec![true, false], Some(1)));
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
