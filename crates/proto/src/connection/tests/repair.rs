//! Losses, silence and keep-alive.

use super::*;

/// NO_PROGRESS: a peer that never reads is dropped with REASON 7.
#[test]
fn a_peer_that_never_reads_is_dropped() {
    let client = Config { no_progress: Some(Duration::from_secs(20)), ..Config::new(Service::Stream, 1_444) };
    let server = Config { receive_slots: 2, ..client };
    let mut pair = Pair::open(&client, &server);
    pair.client.send(&[1; 10_000]).unwrap();
    pair.run(Duration::from_secs(30), false);
    assert_eq!(pair.client.error(), Some(Error::TimedOut(Waited::Reader)));
    assert_eq!(pair.server().error(), Some(Error::Reset(Reason::STALLED)));
}

/// [CDP-RTX-1] [CDP-TMR-2] [CDP-ST-32] A silent peer is given up after both time and tries, and not before.
#[test]
fn a_silent_peer_is_given_up() {
    let mut pair = Pair::of(Service::Stream);
    pair.client.send(b"hello").unwrap();
    pair.run(MS * 10, false);
    pair.client.send(b"anyone?").unwrap();
    let begin = pair.now;
    pair.collect();
    pair.to_server.clear();
    pair.run(Duration::from_secs(99), true);
    assert_eq!(pair.client.error(), None);
    pair.run(Duration::from_secs(10), true);
    assert_eq!(pair.client.error(), Some(Error::TimedOut(Waited::Acknowledgement)));
    assert!(pair.now - begin < Duration::from_secs(110));
    let now = pair.now;
    assert!(pair.client.stats(now).timeouts >= 20, "[CDP-TMR-4]");
}

/// [CDP-KA-2] [CDP-KA-4] PINs are sent and answered. [CDP-KA-3] [CDP-KA-5] Silence for EXPIRY drops both ends.
#[test]
fn keep_alive_keeps_and_drops() {
    let mut pair = Pair::of(Service::Stream);
    pair.run(Duration::from_secs(1_000), false);
    assert_eq!((pair.client.state(), pair.server().state()), (State::Established, State::Established));
    let pins = pair.client.stats(pair.now).pins_sent;
    assert!((14..=19).contains(&pins), "{pins} PINs in 1000 s");
    assert_eq!(pair.server().stats(Instant::ZERO).pins_sent, 0, "[CDP-KA-1] only the client");
    pair.run(Duration::from_secs(400), true);
    for connection in [&pair.client, pair.server.as_ref().unwrap()] {
        assert_eq!(connection.error(), Some(Error::TimedOut(Waited::KeepAlive)));
    }
}

/// [CDP-RTX-5] [CDP-SACK-2] One lost packet among many is sent again within a round trip, and alone.
#[test]
fn a_single_loss_is_repaired_by_sack() {
    let mut pair = Pair::of(Service::Stream);
    pair.client.send(&[9; 20 * 1_444]).unwrap();
    pair.collect();
    assert_eq!(pair.to_server.len(), 20);
    pair.to_server.remove(3);
    pair.now += MS;
    pair.settle();
    pair.run(MS, false);
    let stats = pair.client.stats(pair.now);
    assert_eq!((stats.retransmitted, stats.lost, stats.timeouts), (1, 1, 0));
    assert_eq!(read(pair.server()).len(), 20 * 1_444);
}

/// [CDP-RTX-5] Without SACK three duplicate acknowledgements do it.
#[test]
fn a_single_loss_is_repaired_by_duplicate_acknowledgements() {
    let config = Config { sack: false, ..Config::new(Service::Stream, 1_444) };
    let mut pair = Pair::open(&config, &config);
    pair.client.send(&[9; 8 * 1_444]).unwrap();
    pair.collect();
    pair.to_server.remove(2);
    let packets = std::mem::take(&mut pair.to_server);
    for packet in packets {
        // one turn a packet, so that each is acknowledged
        pair.deliver_to_server(packet);
        pair.collect();
    }
    pair.settle();
    let stats = pair.client.stats(pair.now);
    assert_eq!((stats.retransmitted, stats.timeouts, stats.tail_probes), (1, 0, 0));
    assert_eq!(read(pair.server()).len(), 8 * 1_444);
}

/// [CDP-RTX-5] An acknowledgement that names what is held beyond a SACK is no duplicate: what is only late is not sent again.
#[test]
fn what_is_overtaken_by_many_is_not_sent_again_at_once() {
    const PACKETS: usize = 640;
    let settings = Settings { initial_window: Some(700), ..Settings::default() };
    let config = Config {
        receive_slots: 1_024,
        send_bytes: 2 << 20,
        pacing: false,
        probe_mtu: false,
        congestion_settings: settings,
        ..Config::new(Service::Stream, 1_444)
    };
    let mut pair = Pair::new(&config, &config);
    pair.collect();
    pair.now += 10 * MS;
    pair.settle();
    pair.client.send(&vec![9; PACKETS * 1_444]).unwrap();
    pair.collect();
    pair.now += 10 * MS;
    let early = pair.to_server.split_off(PACKETS - 8);
    let late = std::mem::take(&mut pair.to_server);
    for packet in early.into_iter().chain(late) {
        pair.deliver_to_server(packet);
        pair.collect();
        for packet in std::mem::take(&mut pair.to_client) {
            pair.client.handle_packet(pair.now, packet);
        }
        pair.collect();
    }
    pair.settle();
    let stats = pair.client.stats(pair.now);
    assert_eq!((stats.retransmitted, stats.lost), (0, 0), "{stats:?}");
}

/// [CDP-RTX-5] A lost tail is found by a probe, long before the time-out.
#[test]
fn a_lost_tail_is_probed() {
    let mut pair = Pair::of(Service::Stream);
    pair.client.send(b"warm up").unwrap();
    pair.settle();
    pair.run(MS * 5, false);
    pair.client.send(b"lost").unwrap();
    pair.collect();
    pair.to_server.clear();
    pair.run(MS * 2, false);
    let stats = pair.client.stats(pair.now);
    assert_eq!((stats.tail_probes, stats.timeouts), (1, 0));
    assert_eq!(read(pair.server()), b"warm uplost");
}

/// [CDP-RTX-6] Beyond what a bitmap names lie numbers that arrived long ago. That they did is no sign that a time-out was in
/// error, and while they count as in flight they keep nothing from being sent again.
#[test]
fn what_no_bitmap_names_does_not_hold_up_repair() {
    let stats = repair_of_many(without_far_sack);
    assert!(stats.timeouts <= 10, "{stats:?}");
}

/// [CDP-SACK-6] Where the rest is named as well, what is lost is found at once, and nothing else is sent again.
#[test]
fn what_a_far_sack_names_is_repaired_at_once_and_nothing_else() {
    let stats = repair_of_many(|packet| packet);
    assert!(stats.timeouts <= 2 && stats.spurious == 0, "{stats:?}");
    assert!((750..760).contains(&stats.retransmitted), "{stats:?}");
}

/// 3,000 numbers at once, one in four of which is lost, and so is all that the first acknowledgements have sent again. `change`
/// is what becomes of these on their way.
fn repair_of_many(change: fn(Packet) -> Packet) -> Stats {
    const PACKETS: usize = 3_000;
    let config = Config {
        receive_slots: 8_192,
        send_bytes: 8 << 20,
        pacing: false,
        probe_mtu: false,
        congestion_settings: Settings { initial_window: Some(3_000), ..Settings::default() },
        ..Config::new(Service::Stream, 1_444)
    };
    let mut pair = Pair::open(&config, &config);
    pair.now += 10 * MS;
    assert_eq!(pair.client.send(&vec![9; PACKETS * 1_444]).unwrap(), PACKETS * 1_444);
    pair.collect();
    assert_eq!(pair.to_server.len(), PACKETS);
    let mut number = 0;
    pair.to_server.retain(|_| {
        number += 1;
        number % 4 != 1
    });
    pair.now += 10 * MS;
    for packet in std::mem::take(&mut pair.to_server) {
        pair.deliver_to_server(packet);
        pair.collect();
    }
    for packet in std::mem::take(&mut pair.to_client) {
        pair.client.handle_packet(pair.now, change(packet));
    }
    pair.run(20 * MS, true);
    pair.change = change;
    pair.run(Duration::from_secs(2), false);
    let mut received = 0;
    while pair.server().is_readable() {
        received += read(pair.server()).len();
    }
    let stats = pair.client.stats(pair.now);
    assert_eq!(received, PACKETS * 1_444, "{stats:?}");
    stats
}

/// The packet of a peer that does not know FARSACK.
fn without_far_sack(packet: Packet) -> Packet {
    let mut tlvs = packet.tlvs();
    if tlvs.far_sack.take().is_none() {
        return packet;
    }
    let header = Header { seq: packet.seq(true), ..*packet.header() };
    let mut bytes = Vec::new();
    weft_wire::emit::emit_control(&mut bytes, &header, &tlvs, &Emit::sealed(true));
    parse(bytes)
}

/// [CDP-RTX-6] Everything in flight is lost, and the path has become quicker than it ever was: the answers to what is sent again
/// seem to be of first transmissions, one after each time-out. The second of these is not taken in.
#[test]
fn a_path_that_became_quick_is_not_repaired_one_number_a_time_out() {
    let config = Config { pacing: false, ..Config::new(Service::Datagram, 1_444) };
    let mut pair = Pair::open(&config, &config);
    pair.run(20 * MS, false);
    let round = Duration::from_secs(2);
    for _ in 0..8 {
        pair.client.send(b"by a long way").unwrap();
        let packets = outputs(&mut pair.client, pair.now);
        pair.now += round;
        packets.into_iter().for_each(|packet| pair.deliver_to_server(packet));
        let (came_at, now) = (pair.now, pair.now + MS);
        assert!(outputs(pair.server(), came_at).is_empty());
        pair.server().handle_timeout(now);
        let answers = outputs(pair.server(), now);
        answers.into_iter().for_each(|answer| pair.client.handle_packet(now, answer));
        pair.now = now;
        assert!(outputs(&mut pair.client, now).is_empty() && pair.client.is_flushed());
    }
    assert!(pair.client.path_stats().min_rtt.unwrap() > round / 2);
    for _ in 0..10 {
        pair.client.send(&[7; 1_000]).unwrap();
        let lost = outputs(&mut pair.client, pair.now);
        assert_eq!(lost.len(), 1);
    }
    let before = pair.client.stats(pair.now).timeouts;
    pair.run(Duration::from_secs(60), false);
    let stats = pair.client.stats(pair.now);
    assert!(pair.client.is_flushed());
    assert!(stats.timeouts - before <= 2, "{} time-outs", stats.timeouts - before);
}

/// [CDP-ACK-4] [CDP-CC-4] An acknowledgement that is overtaken by a later one says once what no other says.
#[test]
fn a_mark_in_an_old_acknowledgement_counts() {
    let mut pair = Pair::of(Service::Datagram);
    let now = pair.now;
    let mut acknowledgements = Vec::new();
    for is_marked in [true, false] {
        pair.client.send(b"message").unwrap();
        for packet in outputs(&mut pair.client, now) {
            let mut bytes = packet.bytes().to_vec();
            bytes[0] |= if is_marked { 4 } else { 0 };
            pair.server().handle_packet(now, parse(bytes));
        }
        acknowledgements.extend(outputs(pair.server(), now));
    }
    let marked: Vec<_> = acknowledgements.iter().map(|packet| packet.header().ece).collect();
    assert_eq!(marked, [true, false]);
    for packet in acknowledgements.into_iter().rev() {
        pair.client.handle_packet(now, packet);
    }
    assert_eq!((pair.client.stats(now).ece_received, pair.client.path_stats().in_flight), (1, 0));
}
