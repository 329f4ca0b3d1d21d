//! Closing, resetting, and silence (sections 8, 10 and 11).

use std::time::Duration;

use weft_base::{Seq, Service};
use weft_proto::{Config, Error, Event, RecvError, State, Waited};
use weft_wire::{Header, Kind, Packet, Reason, Tlvs};

use crate::peer::{MS, PEER_ISS, Script, flow, generous, kinds, numbers, syn};

fn datagrams() -> Config {
    Config { probe_mtu: false, ..Config::new(Service::Datagram, 1_444) }
}

/// An echo-form RST that returns `seq` and `window`, for a sealed trigger.
fn echo(script: &Script, seq: Seq, window: u16) -> Packet {
    let mut header = Header::new(Kind::EchoReset, flow().reversed());
    (header.seq, header.window) = (seq, window);
    script.control(&header, &Tlvs::default())
}

/// [CDP-ST-A] [CDP-ST-31] A FIN after a gap waits for it. [CDP-SEQ-12] It needs no slot.
#[test]
fn a_fin_takes_effect_in_order() {
    let mut script = Script::server(&Config { receive_slots: 2, ..datagrams() });
    let fin = Header { seq: script.seq + 2, ..script.header(Kind::Fin) };
    let fin = script.control(&fin, &Tlvs::default());
    let answer = script.hear(fin);
    assert_eq!(answer[0].header().ack, script.seq.low32(), "RCV.NXT has not moved");
    assert_eq!(script.own.state(), State::Established);
    script.send(true, b"one");
    assert_eq!(script.own.state(), State::Established);
    let answer = script.send(true, b"two");
    assert_eq!(answer[0].header().ack, (script.seq + 1).low32());
    assert_eq!(script.own.state(), State::CloseWait);
    assert_eq!(script.read().unwrap(), b"one");
    assert_eq!(script.read().unwrap(), b"two");
}

/// [CDP-DG-10] Parts of a message whose end never comes are discarded and counted. [CDP-ST-D] And told.
#[test]
fn an_unfinished_message_is_discarded_and_counted() {
    let mut script = Script::server(&Config { coalesce: false, ..datagrams() });
    script.send(false, b"part one");
    script.send(false, b"part two");
    let answer = script.say(Kind::Fin);
    assert_eq!(answer[0].tlvs().discarded, Some(2));
    assert_eq!(script.read(), None);
    script.own.close(script.now);
    assert_eq!(script.own.close_result().unwrap().discarded, 2);
}

/// [CDP-ST-30] [CDP-ST-B] After the peer's FIN no DAT is sent, and what was not acknowledged is counted.
#[test]
fn nothing_is_sent_after_the_peers_fin() {
    let mut script = Script::server(&datagrams());
    script.own.send(b"on its way").unwrap();
    script.take();
    script.say(Kind::Fin);
    assert_eq!(script.pass(Duration::from_secs(20)), []);
    script.own.close(script.now);
    assert_eq!(script.own.close_result().unwrap().undelivered, 1);
    assert!(kinds(&script.take()).iter().all(|kind| *kind == Kind::Ack), "[CDP-ST-45] no FIN");
}

/// [CDP-ST-46] [CDP-ST-C] QUIET still receives: it advances, discards, acknowledges and waits again.
#[test]
fn quiet_still_answers() {
    let config = datagrams();
    let mut script = Script::server(&config);
    script.own.close(script.now);
    let fin = script.take();
    assert_eq!(kinds(&fin), [Kind::Fin]);
    assert_eq!(fin[0].tlvs().reason.unwrap().0, Reason::DONE);
    script.ack += 1;
    script.say(Kind::Ack);
    assert_eq!(script.own.state(), State::Quiet);
    script.send(true, b"late");
    let answer = script.send(true, b"later");
    assert_eq!(answer[0].header().ack, script.seq.low32());
    assert_eq!(answer[0].tlvs().discarded, Some(2));
    // [CDP-LIM-2] duplicates within the limit of challenges
    let old = script.data_at(script.seq - 1, true, b"later");
    script.now += MS * 20;
    assert_eq!(script.hear(old.clone()).len(), 1);
    assert_eq!(script.hear(old).len(), 0);
    // [CDP-ST-46] a DAT restarts the quiet timer
    let quiet = config.rto_max * 2;
    script.pass(quiet * 3 / 4);
    script.send(true, b"once more");
    script.pass(quiet * 3 / 4);
    assert_eq!(script.own.state(), State::Quiet);
    script.pass(quiet);
    assert_eq!(script.own.state(), State::Closed, "[CDP-ST-49]");
}

/// [CDP-ST-47] [CDP-ST-44] A reset ends neither QUIET nor CLOSE_WAIT.
#[test]
fn late_resets_end_nothing() {
    let mut script = Script::server(&datagrams());
    script.send(true, b"keep me");
    script.say(Kind::Fin);
    script.seq += 1;
    script.say(Kind::Reset);
    assert_eq!(script.own.state(), State::CloseWait);
    assert_eq!(script.read().unwrap(), b"keep me");
    script.own.close(script.now);
    script.say(Kind::Reset);
    assert_eq!(script.own.state(), State::Quiet);
}

/// [CDP-ST-48] [CDP-ST-G] In QUIET and CLOSED a new SYN takes the place at once; in a live connection it does not, and the SYN
/// that began the connection never does.
#[test]
fn only_a_dead_connection_yields_and_only_to_a_new_syn() {
    let mut script = Script::server(&datagrams());
    let begin = syn(&generous());
    let header = Header { seq: PEER_ISS + 1_000, ..*begin.header() };
    let new = script.control(&header, &generous());
    assert!(!script.own.yields_to(&new));
    script.say(Kind::Fin);
    assert!(!script.own.yields_to(&new));
    script.own.close(script.now);
    let data = script.data_at(script.seq, true, b"no SYN");
    assert!(script.own.yields_to(&new) && !script.own.yields_to(&begin) && !script.own.yields_to(&data));
    script.take();
    assert_eq!(script.hear(begin), [], "it says nothing new");
    script.now += MS * 100;
    assert_eq!(kinds(&script.say(Kind::Fin)), [Kind::Ack], "and QUIET goes on");
    script.own.forget();
    assert!(script.own.yields_to(&new));
}

/// [CDP-ST-39] A reset in FIN_WAIT makes the close unconfirmed, which is not an error.
#[test]
fn a_reset_during_the_close_is_no_error() {
    let mut script = Script::server(&datagrams());
    script.own.close(script.now);
    script.take();
    script.say(Kind::Reset);
    assert_eq!((script.own.state(), script.own.error()), (State::Closed, None));
    let result = script.own.close_result().unwrap();
    assert_eq!((result.confirmed, result.undelivered), (false, 0), "the FIN was nothing to deliver");
}

/// [CDP-ST-E] What the peer has discarded only grows, in whatever order its acknowledgements come.
#[test]
fn the_peers_count_of_what_it_discarded_does_not_go_back() {
    let mut script = Script::server(&datagrams());
    script.own.close(script.now);
    let fin = numbers(&script.take())[0];
    for discarded in [5, 2] {
        let tlvs = Tlvs { discarded: Some(discarded), ..Tlvs::default() };
        let packet = script.control(&script.header(Kind::Ack), &tlvs);
        script.hear(packet);
    }
    script.ack = fin + 1;
    script.say(Kind::Ack);
    let result = script.own.close_result().unwrap();
    assert_eq!((result.confirmed, result.discarded_by_peer), (true, 5));
}

/// [CDP-RST-9] An echo must lie between SND.UNA − 1 and SND.NXT, and its WINDOW near RCV.NXT.
#[test]
fn an_echo_must_be_near_on_both_sides() {
    let high = |seq: Seq| u16::try_from(seq.low32() >> 16).unwrap();
    let config = datagrams();
    let cases =
        [(-2_i64, 0_u16, false), (-1, 0, true), (0, 0, true), (1, 0, false), (0, 1, true), (0, 2, false)];
    for (offset, behind, believed) in cases {
        let mut script = Script::server(&config);
        let s =
            if offset < 0 { script.ack - offset.unsigned_abs() } else { script.ack + offset.unsigned_abs() };
        let window = high(script.seq).wrapping_sub(behind);
        let packet = echo(&script, s, window);
        assert_eq!(script.hear(packet), [], "[CDP-RST-4] never answered");
        let expected = if believed { State::Closed } else { State::Established };
        assert_eq!(script.own.state(), expected, "{offset} {behind}");
    }
}

/// [CDP-RST-10] Nothing but an accepted RST, a time-out, a violation or the user ends a connection: no legal packet
/// with wrong numbers does.
#[test]
fn wrong_numbers_never_end_a_connection() {
    let mut script = Script::server(&datagrams());
    let (seq, ack) = (script.seq, script.ack);
    for kind in Kind::ALL {
        for (seq, ack) in
            [(seq + 2_000, ack), (seq - 2_000, ack), (seq, ack + 5), (seq + (1 << 40), ack - (1 << 31))]
        {
            if kind == Kind::SynAck || kind == Kind::Syn {
                continue;
            }
            let header = Header { seq, ack: ack.low32(), ..script.header(kind) };
            let packet = if kind == Kind::Data {
                script.data_with(header, b"x")
            } else {
                script.control(&header, &Tlvs::default())
            };
            script.now += MS * 20;
            script.hear(packet);
            assert_eq!(script.own.state(), State::Established, "{kind:?} {seq:?} {ack:?}");
        }
    }
    script.hear(syn(&generous()));
    assert_eq!(script.own.state(), State::Established);
}

/// [CDP-ST-33] [CDP-KA-3] [CDP-KA-5] A server that hears nothing for EXPIRY says REASON 5 once and is gone.
#[test]
fn a_silent_client_is_dropped_by_its_server() {
    let mut script = Script::server(&datagrams());
    let last = script.pass(Duration::from_secs(299));
    assert_eq!(last, [], "[CDP-KA-2] a server sends no PIN");
    let last = script.pass(Duration::from_secs(2));
    assert_eq!(kinds(&last), [Kind::Reset]);
    assert_eq!(last[0].tlvs().reason.unwrap().0, Reason::IDLE);
    assert_eq!(script.own.error(), Some(Error::TimedOut(Waited::KeepAlive)));
    assert_eq!(script.own.recv(&mut [0]), Err(RecvError::Failed(Error::TimedOut(Waited::KeepAlive))));
}

/// [CDP-ST-34] [CDP-KA-2] A silent client sends PINs. [CDP-KA-4] With an answer it stays, without one it goes.
#[test]
fn a_client_pins_and_waits_for_answers() {
    let mut script = Script::client(&datagrams());
    for _ in 0..20 {
        let pins = script.pass(Duration::from_secs(67));
        assert!(!pins.is_empty() && pins.iter().all(|packet| packet.kind() == Kind::Pin));
        script.say(Kind::Ack);
    }
    assert_eq!(script.own.state(), State::Established);
    let last = script.pass(Duration::from_secs(400));
    assert_eq!(last.last().map(Packet::kind), Some(Kind::Reset));
    assert_eq!(script.own.error(), Some(Error::TimedOut(Waited::KeepAlive)));
}

/// [CDP-KA-6] Neither PINs nor expiry run outside ESTABLISHED.
#[test]
fn keep_alive_runs_only_in_established() {
    let mut script = Script::server(&datagrams());
    script.say(Kind::Fin);
    assert_eq!(script.pass(Duration::from_secs(3_600)), []);
    assert_eq!(script.own.state(), State::CloseWait);
    while script.own.poll_event().is_some() {}
    script.own.close(script.now);
    assert_eq!(script.own.poll_event(), Some(Event::Closed));
}

/// [CDP-ST-F] While the FIN is held back each FIN is answered by PIN|ACK that acknowledges all before it.
#[test]
fn a_held_fin_is_answered_by_a_pin() {
    let mut script = Script::server(&Config { confirm: true, ..datagrams() });
    script.send(true, b"unread");
    for _ in 0..2 {
        let answer = script.say(Kind::Fin);
        let pin = answer.iter().find(|packet| packet.kind() == Kind::Pin).expect("a PIN|ACK");
        assert_eq!(pin.header().ack, script.seq.low32(), "the FIN itself is not acknowledged");
    }
    assert_eq!(script.read().unwrap(), b"unread");
    let answer = script.take();
    assert_eq!(answer[0].header().ack, (script.seq + 1).low32());
}

/// [CDP-ST-30] [CDP-ST-45] A FIN is acknowledged once: neither the end of the file nor a close of one's own says it again, unless the
/// close has discards to tell ([CDP-ST-D]) or the acknowledgement was held back ([CDP-ST-F]).
#[test]
fn a_fin_is_not_acknowledged_again_by_reading_or_closing() {
    for confirm in [false, true] {
        let config = Config { confirm, ..datagrams() };
        let mut script = Script::server(&config);
        assert_eq!(kinds(&script.say(Kind::Fin)), [Kind::Ack], "confirm {confirm}");
        for _ in 0..2 {
            assert_eq!(script.read(), None);
            assert_eq!(script.take(), [], "confirm {confirm}");
        }
        script.own.close(script.now);
        assert_eq!(script.take(), [], "confirm {confirm}");
        assert_eq!(script.own.state(), State::Quiet);

        let mut script = Script::server(&config);
        script.send(true, b"unread");
        script.say(Kind::Fin);
        script.own.close(script.now);
        let answer = script.take();
        assert_eq!(
            (kinds(&answer), answer[0].tlvs().discarded),
            (vec![Kind::Ack], Some(1)),
            "confirm {confirm}"
        );
        assert_eq!(answer[0].header().ack, (script.seq + 1).low32());
    }
}

/// [CDP-ST-H] The end of a process is told with REASON 4.
#[test]
fn a_dying_process_says_so() {
    let mut script = Script::server(&datagrams());
    script.own.abort_with(script.now, Reason::DIED);
    let last = script.take();
    assert_eq!((last[0].kind(), last[0].tlvs().reason.unwrap().0), (Kind::Reset, Reason::DIED));
    // [CDP-HDR-12] [CDP-RST-1] SEQ is SND.NXT
    assert_eq!(last[0].seq(true), script.ack);
}
