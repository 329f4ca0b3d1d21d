//! Closes, aborts and resets.

use super::*;

/// [CDP-ST-28] [CDP-ST-30] [CDP-ST-35] [CDP-ST-45] [CDP-ST-49] The two-way close, data first.
/// [CDP-ST-E] Both ends learn the result.
#[test]
fn a_close_sends_what_is_queued_and_is_confirmed() {
    let mut pair = Pair::of(Service::Stream);
    pair.client.send(b"last words").unwrap();
    pair.client.close(pair.now);
    assert_eq!(pair.client.send(b"more"), Err(SendError::Closed), "[CDP-ST-42]");
    pair.settle();
    assert_eq!(pair.client.state(), State::Quiet);
    assert!(pair.client.close_result().unwrap().confirmed);
    assert_eq!(pair.server().state(), State::CloseWait);
    assert_eq!(read(pair.server()), b"last words");
    assert!(pair.server().recv(&mut [0]).unwrap().end_of_file, "[CDP-ST-41]");
    assert_eq!(pair.server().send(b"x"), Err(SendError::Closed), "[CDP-ST-42]");
    let now = pair.now;
    pair.server().close(now);
    assert_eq!(pair.server().state(), State::Quiet);
    pair.run(Duration::from_secs(70), false);
    assert!(pair.client.is_finished() && pair.server().is_finished());
}

/// [CDP-ST-37] [CDP-ST-B] When both close at once neither is stuck.
#[test]
fn a_simultaneous_close_is_confirmed_at_both_ends() {
    let mut pair = Pair::of(Service::Datagram);
    let now = pair.now;
    pair.client.send(b"a").unwrap();
    pair.server().send(b"b").unwrap();
    pair.client.close(now);
    pair.server().close(now);
    pair.settle();
    for connection in [&pair.client, pair.server.as_ref().unwrap()] {
        assert_eq!(connection.state(), State::Quiet);
        let result = connection.close_result().unwrap();
        assert!(result.confirmed);
        // [CDP-ST-36] [CDP-ST-D] what came after the close was acknowledged, discarded and told
        assert_eq!((result.discarded, result.discarded_by_peer), (1, 1));
    }
}

/// [CDP-ST-D] Data of a peer that closes too acknowledges the FIN and cannot say what was discarded: the result waits for what can.
#[test]
fn a_close_is_not_confirmed_by_what_cannot_tell_of_its_losses() {
    let config = Config { coalesce: false, ..Config::new(Service::Datagram, 1_444) };
    let mut pair = Pair::open(&config, &config);
    pair.client.send(b"thrown away").unwrap();
    (0..60).for_each(|_| _ = pair.server().send(&[7; 1_444]));
    let now = pair.now;
    pair.client.close(now);
    pair.server().close(now);
    pair.collect();
    // the acknowledgement that tells of it is lost
    let (of_client, of_server) = (std::mem::take(&mut pair.to_server), std::mem::take(&mut pair.to_client));
    of_client.into_iter().for_each(|packet| pair.deliver_to_server(packet));
    let lost = outputs(pair.server(), now);
    assert!(lost.iter().any(|packet| packet.tlvs().discarded == Some(1)), "{lost:?}");
    of_server.into_iter().for_each(|packet| pair.client.handle_packet(now, packet));
    for packet in outputs(&mut pair.client, now) {
        pair.server().handle_packet(now, packet);
    }
    let data = outputs(pair.server(), now).into_iter().filter(|packet| packet.kind() == Kind::Data);
    let data: Vec<_> = data.collect();
    assert!(!data.is_empty());
    data.into_iter().for_each(|packet| pair.client.handle_packet(now, packet));
    assert_eq!((pair.client.state(), pair.client.close_result().is_none()), (State::FinWait, true));
    pair.run(Duration::from_secs(5), false);
    let result = pair.client.close_result().unwrap();
    assert_eq!((result.confirmed, result.discarded_by_peer), (true, 1));
}

/// [CDP-ST-9] [CDP-ST-27] [CDP-ST-29] [CDP-ERR-2] An abort resets; readable data stays, then the error.
#[test]
fn an_abort_reaches_the_peer_after_its_data() {
    let mut pair = Pair::of(Service::Datagram);
    pair.client.send(b"read me").unwrap();
    pair.settle();
    pair.client.abort(pair.now);
    pair.settle();
    assert_eq!(pair.server().state(), State::Closed);
    assert_eq!(read(pair.server()), b"read me");
    let error = RecvError::Failed(Error::Reset(Reason::ABORT));
    assert_eq!(pair.server().recv(&mut [0]), Err(error));
    assert_eq!(pair.client.error(), Some(Error::Aborted));
}

/// [CDP-DG-10] The parts of an unfinished message are dropped and counted, however the connection ends; what is finished stays.
#[test]
fn an_end_drops_an_unfinished_message_and_what_is_held() {
    let config = Config { coalesce: false, ..Config::new(Service::Datagram, 1_000) };
    let mut pair = Pair::open(&config, &config);
    pair.client.send(b"whole").unwrap();
    pair.client.send(&[2; 5_000]).unwrap();
    pair.collect();
    // the third of five parts is lost
    pair.to_server.remove(3);
    let last = pair.to_server.pop();
    for packet in std::mem::take(&mut pair.to_server) {
        pair.deliver_to_server(packet);
    }
    assert!(last.is_some() && pair.server().unread_bytes_max() > 0);
    let now = pair.now;
    pair.server().abort_with(now, Reason::DIED);
    assert_eq!(pair.server().stats(now).discarded, 2);
    assert_eq!(pair.server().bytes_beyond_window(), 0);
    assert_eq!(read(pair.server()), b"whole");
    assert_eq!(pair.server().unread_bytes_max(), 0);
}

/// [CDP-WND-3] [CDP-ST-F] While the acknowledgement of a FIN is held back, the right edge does not move back: the parts
/// of an unfinished message need no slots, and take them when it is complete.
#[test]
fn a_held_fin_does_not_move_the_edge_back() {
    let config = Config { confirm: true, receive_slots: 16, ..Config::new(Service::Datagram, 1_444) };
    let mut pair = Pair::open(&config, &config);
    let now = pair.now;
    let edge = |packet: &Packet| packet.header().ack.wrapping_add(u32::from(packet.header().window));
    pair.client.send(&[7; 4_000]).unwrap();
    pair.client.close(now);
    pair.collect();
    let mut parts = std::mem::take(&mut pair.to_server);
    let rest = parts.split_off(2);
    assert_eq!(kinds(&rest), [Kind::Data, Kind::Fin]);
    parts.into_iter().for_each(|packet| pair.deliver_to_server(packet));
    let before = outputs(pair.server(), now).iter().map(edge).max().unwrap();
    rest.into_iter().for_each(|packet| pair.deliver_to_server(packet));
    let answers = outputs(pair.server(), now);
    assert!(
        !answers.is_empty() && answers.iter().all(|packet| edge(packet) >= before),
        "{before} {answers:?}"
    );
}

/// [CDP-ST-F] [CDP-ST-38] [CDP-ST-43] A confirmed close waits until the peer's user has read everything. [CDP-RTX-1] So it does where
/// the FIN came before the data and was named as held: it is repeated, as only so the two ends learn that they are there.
#[test]
fn a_confirmed_close_waits_for_the_reader() {
    let config = Config { confirm: true, ..Config::new(Service::Datagram, 1_444) };
    for is_data_lost in [false, true] {
        let mut pair = Pair::open(&config, &config);
        pair.client.send(b"must be read").unwrap();
        pair.client.close(pair.now);
        pair.collect();
        assert_eq!(kinds(&pair.to_server), [Kind::Data, Kind::Fin]);
        if is_data_lost {
            pair.to_server.remove(0);
        }
        pair.run(Duration::from_secs(1_800), false);
        assert_eq!(pair.client.state(), State::FinWait, "[CDP-ST-38] PINs restart the FIN give-up");
        assert_eq!(read(pair.server()), b"must be read");
        pair.settle();
        assert_eq!(pair.client.state(), State::Quiet);
        assert!(pair.client.close_result().unwrap().confirmed);
    }
}

/// [CDP-ST-40] A FIN that nobody acknowledges ends unconfirmed, not in an error.
#[test]
fn a_close_without_an_answer_is_unconfirmed() {
    let mut pair = Pair::of(Service::Stream);
    pair.client.close(pair.now);
    pair.collect();
    pair.to_server.clear();
    pair.run(Duration::from_secs(61), true);
    assert_eq!((pair.client.state(), pair.client.error()), (State::Closed, None));
    assert!(!pair.client.close_result().unwrap().confirmed);
}

/// [CDP-RST-5] [CDP-RST-6] A reset that is current but not exact is challenged, not believed.
#[test]
fn an_inexact_reset_is_challenged() {
    let mut pair = Pair::of(Service::Stream);
    let nxt = pair.client.sender.nxt();
    let reset = |seq| {
        let mut header = Header::new(Kind::Reset, flow());
        (header.seq, header.ack) = (seq, Seq::new(78).low32());
        let mut head = Vec::new();
        let options = weft_wire::Emit::sealed(true);
        weft_wire::emit::emit_control(&mut head, &header, &weft_wire::Tlvs::default(), &options);
        parse(head)
    };
    let now = pair.now + Duration::from_secs(1);
    for seq in [nxt + 1, nxt - 1, nxt + 1_000] {
        pair.server().handle_packet(now, reset(seq));
    }
    assert_eq!(pair.server().state(), State::Established);
    // [CDP-LIM-2] three within 10 ms are answered once
    assert_eq!(kinds(&outputs(pair.server(), now)), [Kind::Ack]);
    pair.server().handle_packet(now, reset(nxt));
    assert_eq!(pair.server().error(), Some(Error::Reset(Reason::NONE)));
}

/// What a client has of an end that echoes its data with a reset for that reason.
fn refused_with(reason: Reason) -> Option<Error> {
    let mut pair = Pair::of(Service::Stream);
    pair.client.send(b"still there?").unwrap();
    pair.collect();
    let data = pair.to_server.remove(0);
    let mut head = Vec::new();
    assert!(weft_wire::emit::echo_reset(&mut head, &data, reason, None));
    pair.client.handle_packet(pair.now, parse(head));
    pair.client.error()
}

/// Only a FIN says that a connection was closed. A reset that does gives no reason, or its receiver would take the error for success.
#[test]
fn a_reset_is_no_ordinary_close() {
    assert_eq!(refused_with(Reason::DONE), Some(Error::Reset(Reason::NONE)));
}

/// [CDP-RST-9] An end without the connection refuses a packet, and the other end believes the echo.
#[test]
fn an_echo_resets_a_connection_whose_peer_forgot_it() {
    assert_eq!(refused_with(Reason::UNKNOWN), Some(Error::Reset(Reason::UNKNOWN)));
}

/// [CDP-SVC-3] Memory is promised for segments of the size that was announced. Alone, among others, and as an answer.
#[test]
fn a_segment_that_is_longer_than_was_announced_ends_the_connection() {
    for (count, is_answer) in [(1, false), (3, false), (1, true)] {
        let mut pair = Pair::of(Service::Stream);
        pair.run(Duration::from_millis(20), false);
        let now = pair.now;
        if is_answer {
            pair.client.send(b"question").unwrap();
            pair.collect();
            let question = std::mem::take(&mut pair.to_server);
            question.into_iter().for_each(|packet| pair.deliver_to_server(packet));
        }
        pair.server().send(&vec![7; 1_444 * count]).unwrap();
        let packets = outputs(pair.server(), now);
        let small = Config::clone(&pair.client.config);
        pair.client.config = Config { link_mss: 1_443, ..small }.into();
        if is_answer {
            let lone =
                weft_wire::Lone::new_checked(packets[0].bytes(), flow(), Encapsulation::Simulated).unwrap();
            assert!(pair.client.take_answer(now, &lone).is_none());
        }
        let mut bytes = packets.iter().flat_map(|packet| packet.bytes().to_vec()).collect::<Vec<_>>().into();
        let size = packets[0].bytes().len();
        let mut train = weft_wire::Train::split_checked(&mut bytes, size, Encapsulation::Simulated).unwrap();
        pair.client.take_train_by(now, &mut train, 0, &mut []);
        assert_eq!(pair.client.error(), Some(Error::Violation(Reason::PROTOCOL)), "{count}, {is_answer}");
    }
}
