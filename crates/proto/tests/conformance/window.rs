//! Windows and room: what the peer grants, what is promised to it, what the send queue takes (sections 5 and 13).

use weft_base::limits;
use weft_proto::{Config, SendError, State};
use weft_wire::{Kind, Tlvs};

use crate::peer::{MS, PEER_ISS, Script, datagrams, generous, numbers, stream};

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
