//! Opening, and what stands in its way (sections 3.2, 8 and 10).

use std::time::Duration;

use weft_base::{Seq, limits};
use weft_proto::{Config, Connection, Error, Event, Listener, PeerWindow, Secret, State, Verdict, Waited};
use weft_wire::emit::echo_reset;
use weft_wire::{Header, Kind, Packet, Reason, Tlvs};

use crate::peer::{MS, OWN_ISS, PEER_ISS, Script, datagrams, flow, generous, kinds, parse, syn};

fn secret() -> Secret {
    Secret { iss: OWN_ISS, entropy: 3 }
}

/// The echo-form RST that an end without state gives to `trigger`.
fn echo_of(trigger: &Packet, reason: Reason) -> Packet {
    let mut bytes = Vec::new();
    assert!(echo_reset(&mut bytes, trigger, reason, None));
    parse(bytes)
}

/// The same packet with another field or two.
fn changed(packet: &Packet, change: impl FnOnce(&mut Header)) -> Packet {
    let mut header = *packet.header();
    change(&mut header);
    let mut bytes = header.emit().to_vec();
    bytes.extend_from_slice(&packet.bytes()[28..]);
    parse(bytes)
}

/// [CDP-RST-7] [CDP-ST-13] In SYN_SENT an echo must return ISS in all 64 bits and WINDOW 0.
#[test]
fn only_an_exact_echo_refuses_a_syn() {
    let config = datagrams();
    let mut script = Script::opening(&config);
    let mut own = Connection::connect(script.now, flow(), &config, secret());
    let mut bytes = Vec::new();
    own.poll_transmit(script.now, &mut bytes).unwrap();
    let good = echo_of(&parse(bytes), Reason::REFUSED);
    for bit in [0, 31, 32, 63] {
        let wrong = changed(&good, |header| header.seq = Seq::new(header.seq.get() ^ (1 << bit)));
        assert_eq!(script.hear(wrong), []);
        assert_eq!(script.own.state(), State::SynSent, "bit {bit}");
    }
    script.hear(changed(&good, |header| header.window = 1));
    assert_eq!(script.own.state(), State::SynSent);
    script.hear(good);
    assert_eq!(script.own.error(), Some(Error::Refused(Reason::REFUSED)));
}

/// [CDP-RST-11] REASON 11 is ignored unless it carries VERSIONS without the version in use.
#[test]
fn a_version_refusal_from_our_own_version_is_ignored() {
    let mut script = Script::opening(&datagrams());
    let refusal = |versions: &[u8]| {
        let mut header = Header::new(Kind::EchoReset, flow().reversed());
        header.seq = OWN_ISS;
        let versions = (!versions.is_empty()).then(|| versions.iter().copied().collect());
        let tlvs = Tlvs { reason: Some((Reason::VERSION, None)), versions, ..Tlvs::default() };
        (header, tlvs)
    };
    for versions in [&[][..], &[1], &[2, 1]] {
        let (header, tlvs) = refusal(versions);
        let packet = script.control(&header, &tlvs);
        script.hear(packet);
        assert_eq!(script.own.state(), State::SynSent, "{versions:?}");
    }
    let (header, tlvs) = refusal(&[2, 3]);
    let packet = script.control(&header, &tlvs);
    script.hear(packet);
    assert_eq!(script.own.error(), Some(Error::Refused(Reason::VERSION)));
}

/// [CDP-ST-12] A SYN|ACK with another ACK number, or DAT, FIN, PIN, ACK in SYN_SENT: echo-form RST, REASON 2.
#[test]
fn a_stray_packet_in_syn_sent_is_refused() {
    let mut script = Script::opening(&datagrams());
    let wrong = Header { seq: PEER_ISS, ack: OWN_ISS.low32(), ..script.header(Kind::SynAck) };
    let strays = [
        script.control(&wrong, &generous()),
        script.data_at(PEER_ISS + 1, true, b"long enough for a REASON"),
        script.control(
            &script.header(Kind::Fin),
            &Tlvs { reason: Some((Reason::DONE, None)), ..Tlvs::default() },
        ),
        script.control(&script.header(Kind::Pin), &Tlvs { discarded: Some(1), ..Tlvs::default() }),
    ];
    for stray in strays {
        let answer = script.hear(stray);
        assert_eq!(kinds(&answer), [Kind::EchoReset]);
        assert_eq!(answer[0].tlvs().reason.unwrap().0, Reason::UNKNOWN);
        assert_eq!(script.own.state(), State::SynSent);
    }
}

/// [CDP-ST-15] close() in SYN_SENT ends it without a packet.
#[test]
fn closing_a_connect_ends_it() {
    let mut script = Script::opening(&datagrams());
    script.own.close(script.now);
    assert_eq!((script.own.state(), script.take()), (State::Closed, vec![]));
}

/// [CDP-ST-25] [CDP-ST-26] The SYN timer goes on until the first current packet, and gives up after SYN_TIME.
#[test]
fn a_client_probes_until_it_hears_its_server() {
    let config = datagrams();
    for heard in [false, true] {
        let mut script = Script::opening(&config);
        let answer = script.syn_ack(&generous());
        script.hear(answer);
        script.seq = PEER_ISS + 1;
        assert_eq!(kinds(&script.next_timer()), [Kind::Pin]);
        if heard {
            script.say(Kind::Ack);
        }
        let pins = script.pass(config.syn_time).len();
        if heard {
            assert_eq!((pins, script.own.error()), (1, None), "only the keep-alive");
        } else {
            assert!(pins > 10);
            assert_eq!(script.own.error(), Some(Error::TimedOut(Waited::Open)));
        }
    }
}

/// [CDP-CKE-5] [CDP-CKE-9] [CDP-ST-24] [CDP-ST-25] The COOKIE comes back unchanged until the server is heard.
#[test]
fn a_cookie_is_returned_unchanged() {
    let mut script = Script::opening(&datagrams());
    let cookie: weft_wire::Cookie = (0..32).collect();
    let answer = script.syn_ack(&Tlvs { cookie: Some(cookie.clone()), ..generous() });
    let echoes_cookie = |packets: &[Packet]| {
        kinds(packets) == [Kind::Ack] && packets[0].tlvs().cookie.as_ref() == Some(&cookie)
    };
    assert!(echoes_cookie(&script.hear(answer.clone())));
    assert!(echoes_cookie(&script.next_timer()), "repeated by row 26");
    script.now += MS * 20;
    assert!(echoes_cookie(&script.hear(answer)), "and by the challenge of row 24");
    script.seq = PEER_ISS + 1;
    script.say(Kind::Ack);
    let answer = script.say(Kind::Pin);
    assert_eq!(answer[0].tlvs().cookie, None, "forgotten");
}

/// [CDP-ST-17] A SYN in SYN_RCVD repeats the SYN|ACK, within [CDP-LIM-2]. [CDP-CKE-4] No timer does.
#[test]
fn a_repeated_syn_repeats_the_answer() {
    let mut script = Script::embryo(&datagrams(), &generous());
    script.now += MS * 20;
    let again = script.hear(syn(&generous()));
    assert_eq!(kinds(&again), [Kind::SynAck]);
    assert!(again[0].header().rtx, "[CDP-HDR-5]");
    assert_eq!(script.hear(syn(&generous())), [], "[CDP-LIM-2]");
    assert_eq!(script.pass(MS * 10_000), []);
}

/// [CDP-ST-20] An embryo whose open never ends is dropped after SYN_TIME.
#[test]
fn an_abandoned_embryo_is_dropped() {
    let config = datagrams();
    let mut script = Script::embryo(&config, &generous());
    assert_eq!(script.pass(config.syn_time), []);
    assert_eq!((script.own.state(), script.own.is_finished()), (State::Closed, true));
}

/// [CDP-ST-I] In SYN_RCVD a wrong ACK number is dropped without an answer. [CDP-ST-16] The right one opens.
#[test]
fn an_embryo_wants_its_number_acknowledged() {
    let mut script = Script::embryo(&datagrams(), &generous());
    let honest = script.ack;
    for wrong in [honest - 1, honest + 1] {
        script.ack = wrong;
        for kind in [Kind::Ack, Kind::Pin, Kind::Fin] {
            assert_eq!(script.say(kind), []);
            assert_eq!(script.own.state(), State::SynReceived);
        }
    }
    script.ack = honest;
    script.say(Kind::Ack);
    assert_eq!(script.own.state(), State::Established);
    assert_eq!(script.own.poll_event(), Some(Event::Connected));
}

/// [CDP-ST-J] An embryo gives way to a packet whose number fits and which acknowledges another's, and to nothing else.
#[test]
fn an_embryo_gives_way_to_who_took_the_answer_of_another() {
    let mut script = Script::embryo(&datagrams(), &generous());
    let (honest, current) = (script.ack, script.seq);
    let kinds = [Kind::Ack, Kind::Pin, Kind::Fin, Kind::Data];
    let yields = |script: &Script, kind| {
        let is_data = kind == Kind::Data;
        let control = || script.control(&script.header(kind), &Tlvs::default());
        let packet = if is_data { script.data_at(script.seq, true, b"to another") } else { control() };
        script.own.yields_to(&packet)
    };
    for kind in kinds {
        assert!(!yields(&script, kind), "{kind:?}: it completes the open");
    }
    script.ack = honest + 0x5EED;
    for kind in kinds {
        assert!(yields(&script, kind), "{kind:?}");
    }
    for kind in [Kind::Syn, Kind::Reset, Kind::EchoReset] {
        assert!(!yields(&script, kind), "{kind:?}");
    }
    script.seq = current + (1 << 32);
    assert!(!kinds.into_iter().any(|kind| yields(&script, kind)), "another upper half of SEQ");
    script.own.forget();
    assert!(script.own.is_finished());
    assert_eq!(script.pass(MS * 100), [], "it answers its SYN no more");

    let mut script = Script::opening(&datagrams());
    script.hear(syn(&generous()));
    assert_eq!(script.own.state(), State::SynReceived);
    (script.seq, script.ack) = (PEER_ISS + 1, honest + 0x5EED);
    assert!(
        !kinds.into_iter().any(|kind| yields(&script, kind)),
        "one half of a simultaneous open has a user"
    );
}

/// [CDP-ST-K] A SYN of somebody who has not seen ours keeps the answer to ours out for no longer than that takes to come, and
/// leaves nothing behind: neither its options, nor its window, nor a round trip.
#[test]
fn the_answer_to_our_syn_takes_the_place_of_a_syn_that_came_before() {
    let forged = Tlvs { mss: Some(512), sack_ok: false, coalesce: false, ..generous() };
    let mut script = Script::opening(&datagrams());
    assert_eq!(kinds(&script.hear(syn(&forged))), [Kind::SynAck]);
    assert_eq!(script.own.state(), State::SynReceived);
    script.window = 10;
    let far = PEER_ISS + 0x5EED_0000_0000;
    let honest = script.syn_ack_from(far, &generous());
    script.ack += 1;
    let blind = script.syn_ack_from(far, &generous());
    script.ack = OWN_ISS + 1;
    assert_eq!(script.hear(blind), []);
    assert_eq!(script.own.state(), State::SynReceived, "it has not seen our number");
    assert_eq!(kinds(&script.hear(honest)), [Kind::Ack]);
    assert_eq!(script.own.state(), State::Established);
    let path = script.own.path_stats();
    assert_eq!((path.mss, path.send_window, path.min_rtt), (1_444, 10, None));
    assert!(script.own.agreed().peer_sack && script.own.agreed().coalesce);
    script.seq = far + 1;
    script.send(true, b"from the server");
    assert_eq!(script.read().unwrap(), b"from the server");
}

/// [CDP-RST-8] [CDP-ST-19] An echo must return ISS and the high half of IRS + 1. [CDP-RST-5] RST|ACK its number.
#[test]
fn an_embryo_is_reset_only_exactly() {
    let config = datagrams();
    let mut script = Script::embryo(&config, &generous());
    let mut echo = Header::new(Kind::EchoReset, flow().reversed());
    echo.seq = OWN_ISS;
    let high = u16::try_from((PEER_ISS + 1).low32() >> 16).unwrap();
    for (seq, window) in [(OWN_ISS + 1, high), (OWN_ISS, high + 1)] {
        (echo.seq, echo.window) = (seq, window);
        let packet = script.control(&echo, &Tlvs::default());
        script.hear(packet);
        assert_eq!(script.own.state(), State::SynReceived);
    }
    (echo.seq, echo.window) = (OWN_ISS, high);
    let packet = script.control(&echo, &Tlvs::default());
    script.hear(packet);
    assert_eq!(script.own.state(), State::Closed);

    let mut script = Script::embryo(&config, &generous());
    script.seq = PEER_ISS + 2;
    script.say(Kind::Reset);
    assert_eq!(script.own.state(), State::SynReceived);
    script.seq = PEER_ISS + 1;
    script.say(Kind::Reset);
    assert_eq!(script.own.state(), State::Closed);
}

/// [CDP-SYN-9] The windows of SYN and SYN|ACK are not scaled; [CDP-WND-1] later ones are.
#[test]
fn scaling_begins_after_the_open() {
    let config = Config { receive_slots: 1 << 20, ..datagrams() };
    let mut script = Script::opening(&config);
    let answer = script.syn_ack(&Tlvs { wscale: Some(3), ..generous() });
    let ack = script.hear(answer);
    assert_eq!(script.own.path_stats().send_window, 1_000);
    // ours: 2^20 slots need a shift of 5, and the field is rounded down
    assert_eq!(script.own.agreed().receive_scale, 5);
    assert_eq!(u32::from(ack[0].header().window) << 5, 1 << 20);
    script.seq = PEER_ISS + 1;
    script.say(Kind::Ack);
    assert_eq!(script.own.path_stats().send_window, 8_000, "the peer's window is shifted by its 3");
}

/// [CDP-LIM-1] [CDP-ST-5] Up to the threshold embryos, beyond it cookies, [CDP-CKE-A] while one is good. [CDP-ST-4]
/// [CDP-ST-2] From the first on.
#[test]
fn embryos_end_where_cookies_begin() {
    let config = datagrams();
    assert_eq!(config.embryos_max, limits::EMBRYOS_MAX);
    let mut script = Script::opening(&config);
    let mut listener = Listener::new(script.now, &config, [1; 32]);
    let mut head = Vec::new();
    for _ in 0..limits::EMBRYOS_MAX {
        let verdict = listener.handle_packet(script.now, &syn(&generous()), secret(), &mut head);
        assert!(matches!(verdict, Verdict::Embryo(_)));
    }
    let verdict = listener.handle_packet(script.now, &syn(&generous()), secret(), &mut head);
    assert!(matches!(verdict, Verdict::Answer));
    assert!(parse(head).tlvs().cookie.is_some());
    // An embryo for a client that has a good cookie would refuse the echo of it.
    listener.note_embryo_gone();
    let verdict = listener.handle_packet(script.now, &syn(&generous()), secret(), &mut Vec::new());
    assert!(matches!(verdict, Verdict::Answer), "[CDP-CKE-A]");
    let later = script.now + Duration::from_secs(128);
    let verdict = listener.handle_packet(later, &syn(&generous()), secret(), &mut Vec::new());
    assert!(matches!(verdict, Verdict::Embryo(_)));
    script.take();
}

/// [CDP-LIM-4] [CDP-ST-6] A full accept queue drops SYNs and good cookies in silence.
#[test]
fn a_full_accept_queue_says_nothing() {
    let config = Config { accept_limit: 1, embryos_max: 0, ..datagrams() };
    let mut script = Script::opening(&config);
    let mut listener = Listener::new(script.now, &config, [1; 32]);
    let mut head = Vec::new();
    listener.handle_packet(script.now, &syn(&generous()), secret(), &mut head);
    let syn_ack = parse(head);
    script.seq = PEER_ISS + 1;
    script.ack = syn_ack.seq(false) + 1;
    let echo = Tlvs { cookie: syn_ack.tlvs().cookie, ..Tlvs::default() };
    let echo = script.control(&script.header(Kind::Ack), &echo);
    let verdict = listener.handle_packet(script.now, &echo, secret(), &mut Vec::new());
    let Verdict::Established(own) = verdict else { panic!("{verdict:?}") };
    assert_eq!(own.state(), State::Established, "[CDP-ST-7]");
    for packet in [echo, syn(&generous())] {
        let verdict = listener.handle_packet(script.now, &packet, secret(), &mut Vec::new());
        assert!(matches!(verdict, Verdict::Drop));
    }
    listener.note_accepted();
    let verdict = listener.handle_packet(script.now, &syn(&generous()), secret(), &mut Vec::new());
    assert!(matches!(verdict, Verdict::Answer));
}

/// [CDP-LIM-13] Windows of new connections become smaller, [CDP-WND-3] and yet none falls short of what a cookie promised
/// before.
#[test]
fn a_window_may_shrink_between_the_cookie_and_its_echo() {
    let config = Config { embryos_max: 0, receive_slots: 500, ..datagrams() };
    let mut script = Script::opening(&config);
    let mut listener = Listener::new(script.now, &config, [1; 32]);
    let mut head = Vec::new();
    listener.handle_packet(script.now, &syn(&generous()), secret(), &mut head);
    let syn_ack = parse(head);
    let promised = syn_ack.header().window;
    assert_eq!(u32::from(promised), limits::RECEIVE_SLOTS_MIN);

    assert_eq!(listener.set_receive_slots(1), limits::RECEIVE_SLOTS_MIN);
    script.seq = PEER_ISS + 1;
    script.ack = syn_ack.seq(false) + 1;
    let echo = Tlvs { cookie: syn_ack.tlvs().cookie, ..Tlvs::default() };
    let echo = script.control(&script.header(Kind::Ack), &echo);
    let window_after_echo = |listener: &mut Listener| {
        let verdict = listener.handle_packet(script.now, &echo, secret(), &mut Vec::new());
        let Verdict::Established(mut own) = verdict else { panic!("{verdict:?}") };
        let mut head = Vec::new();
        own.poll_transmit(script.now, &mut head).unwrap();
        u32::from(parse(head).header().window)
    };
    assert_eq!(window_after_echo(&mut listener), limits::RECEIVE_SLOTS_MIN);
    assert_eq!(listener.set_receive_slots(100), 100);
    assert_eq!(window_after_echo(&mut listener), 100, "more than was promised");
    assert_eq!(listener.set_receive_slots(u32::MAX), 500, "no more than the settings say");
    let modest = Config { receive_slots: 3, ..config };
    assert_eq!(Listener::new(script.now, &modest, [1; 32]).set_receive_slots(1), 3, "they may say less");
    script.take();
}

/// A listener announces to a peer that is near what the links carry there; with a cookie, of which nothing is kept, what holds for
/// all.
#[test]
fn a_listener_announces_what_the_links_to_the_peer_carry() {
    let config = Config { link_mss: 1_444, embryos_max: 3, ..datagrams() };
    let script = Script::opening(&config);
    let mut listener = Listener::new(script.now, &config, [1; 32]);
    let mut announced = |near| {
        listener.set_peer_window(near);
        let mut head = Vec::new();
        match listener.handle_packet(script.now, &syn(&generous()), secret(), &mut head) {
            Verdict::Embryo(mut own) => {
                own.poll_transmit(script.now, &mut head).unwrap();
                (parse(head).tlvs().mss, own.window_bytes())
            }
            Verdict::Answer => (parse(head).tlvs().mss, 0),
            verdict @ (Verdict::Drop | Verdict::Refuse(..) | Verdict::Established(_)) => {
                panic!("{verdict:?}")
            }
        }
    };
    let usual = config.receive_slots as usize * 1_444;
    let near = Some(PeerWindow { link_mss: 9_000, is_one_link: true, receive_slots: 20 });
    assert_eq!(announced(None), (Some(1_444), usual));
    assert_eq!(announced(near), (Some(9_000), 180_000));
    assert_eq!(announced(None), (Some(1_444), usual));
    assert_eq!(announced(near), (Some(1_444), 0), "with a cookie");
}

/// [CDP-ST-8] A bad COOKIE is refused with REASON 19, any other packet with REASON 2; [CDP-RST-4] an RST never.
#[test]
fn a_listener_refuses_what_is_not_an_open() {
    let config = datagrams();
    let mut script = Script::opening(&config);
    let mut listener = Listener::new(script.now, &config, [1; 32]);
    let forged = Tlvs { cookie: Some((0..34).collect()), ..Tlvs::default() };
    let forged = script.control(&script.header(Kind::Ack), &forged);
    let mut judge = |packet: &Packet| listener.handle_packet(script.now, packet, secret(), &mut Vec::new());
    assert!(matches!(judge(&forged), Verdict::Refuse(Reason::COOKIE, None)));
    for kind in [Kind::Ack, Kind::Fin, Kind::Pin] {
        let packet = script.control(&script.header(kind), &Tlvs::default());
        assert!(matches!(judge(&packet), Verdict::Refuse(Reason::UNKNOWN, None)));
    }
    for kind in [Kind::Reset, Kind::EchoReset] {
        let packet = script.control(&script.header(kind), &Tlvs::default());
        assert!(matches!(judge(&packet), Verdict::Drop));
        assert_eq!(weft_proto::refusal_of(&packet), None);
    }
    script.take();
}

/// [CDP-CKE-7] A cookie echo for a connection that exists is a plain ACK, and is acknowledged.
#[test]
fn a_late_cookie_echo_is_acknowledged() {
    let mut script = Script::server(&datagrams());
    let echo = Tlvs { cookie: Some((0..34).collect()), ..Tlvs::default() };
    let echo = script.control(&script.header(Kind::Ack), &echo);
    assert_eq!(kinds(&script.hear(echo)), [Kind::Ack]);
    // [CDP-ACK-10] a plain one is not
    assert_eq!(script.say(Kind::Ack), []);
}

/// [CDP-SYN-6] [CDP-TLV-5] A refused SYN|ACK fails the connect and is answered by an echo-form RST.
#[test]
fn a_refused_answer_fails_the_connect() {
    let mut script = Script::opening(&datagrams());
    let answer = script.syn_ack(&crate::peer::generous_stream());
    let refusal = script.hear(answer);
    assert_eq!(kinds(&refusal), [Kind::EchoReset]);
    assert_eq!(refusal[0].tlvs().reason.unwrap().0, Reason::SERVICE);
    assert_eq!(script.own.error().unwrap().errno(), weft_proto::Errno::PrototypeMismatch);
}
