//! Several paths: by which of them each packet goes, and what is reported of them.

use super::*;
use crate::{PathReport, Paths, congestion};

/// All that a connection sends now, each with its path.
fn sent(connection: &mut Connection, now: Instant) -> Vec<(u8, Packet)> {
    let mut packets = Vec::new();
    loop {
        let mut head = Vec::new();
        let Some(transmit) = connection.poll_transmit(now, &mut head) else { return packets };
        head.extend_from_slice(&transmit.body);
        packets.push((transmit.path, parse(head)));
    }
}

fn paths_of(packets: &[(u8, Packet)], kind: Kind) -> Vec<u8> {
    packets.iter().filter(|(_, packet)| packet.kind() == kind).map(|(path, _)| *path).collect()
}

/// Lets the client's timers fire for `time` while nothing arrives; everything it sends, with when.
fn silence(pair: &mut Pair, time: Duration) -> Vec<(Instant, u8, Packet)> {
    let until = pair.now + time;
    let mut all = Vec::new();
    while let Some(due) = pair.client.poll_timeout().filter(|due| *due <= until) {
        pair.now = pair.now.max(due);
        pair.client.handle_timeout(pair.now);
        let now = pair.now;
        all.extend(sent(&mut pair.client, now).into_iter().map(|(path, packet)| (now, path, packet)));
    }
    pair.now = until;
    all
}

fn open(paths: Paths) -> Pair {
    let config = Config { probe_mtu: false, ..Config::new(Service::Stream, 1_444) };
    let mut pair = Pair::open(&config, &config);
    pair.client.set_paths(pair.now, paths);
    pair.server().set_paths(Instant::ZERO, paths);
    pair.settle();
    pair
}

fn of(count: u8, default: u8) -> Paths {
    Paths::new(count, default).unwrap()
}

/// One round trip of a millisecond, so that the RTO is known.
fn exchange(pair: &mut Pair) {
    for _ in 0..40 {
        pair.client.send(&[7; 2_888]).unwrap();
        pair.collect();
        pair.now += MS;
        pair.settle();
    }
    while pair.client.take_path_report().is_some() {}
    assert!(pair.client.is_flushed());
}

/// [CDP-IO-2] A number goes first through the default d, and retransmission k through (d + k) mod n: tail probe and
/// time-outs alike, DAT and FIN.
#[test]
fn retransmissions_go_around() {
    let mut pair = open(of(3, 1));
    exchange(&mut pair);
    pair.client.send(b"data").unwrap();
    pair.client.close(pair.now);
    let now = pair.now;
    let first = sent(&mut pair.client, now);
    assert_eq!((paths_of(&first, Kind::Data), paths_of(&first, Kind::Fin)), (vec![1], vec![1]));
    let again: Vec<_> = silence(&mut pair, Duration::from_millis(500)).into_iter().collect();
    let ways =
        |kind| again.iter().filter(|sent| sent.2.kind() == kind).map(|sent| sent.1).collect::<Vec<_>>();
    assert_eq!(ways(Kind::Data)[..6], [2, 0, 1, 2, 0, 1]);
    assert_eq!(ways(Kind::Fin)[..2], [2, 0], "once the first is in doubt two go at a time");
}

/// [CDP-IO-3] With n members the RTO does not double before the number was tried by each, and then with each time-out.
#[test]
fn the_time_out_doubles_when_each_member_was_tried() {
    for (count, steady) in [(1_u8, 1), (2, 1), (3, 2), (5, 4)] {
        let mut pair = open(of(count, 0));
        exchange(&mut pair);
        pair.client.send(b"data").unwrap();
        let now = pair.now;
        sent(&mut pair.client, now);
        let sent = silence(&mut pair, Duration::from_secs(2));
        let times: Vec<_> = sent.iter().map(|sent| sent.0).collect();
        // the first is the tail probe, after which a time-out is counted
        let waits: Vec<_> = times.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(waits[..steady].iter().all(|wait| *wait == waits[0]), "{count}: {waits:?}");
        assert!(waits[steady..steady + 3].windows(2).all(|two| two[1] == two[0] * 2), "{count}: {waits:?}");
        assert_eq!(waits[steady], waits[0] * 2, "{count}: {waits:?}");
    }
}

/// [CDP-IO-2] [CDP-IO-3] So does a SYN, whose timer doubles when each member was tried. [CDP-IO-4] Its losses are reported.
#[test]
fn a_syn_goes_around() {
    let config = Config::new(Service::Stream, 1_444);
    let mut pair = Pair::new(&config, &config);
    pair.client.set_paths(pair.now, of(3, 2));
    let begin = pair.now;
    assert_eq!(paths_of(&sent(&mut pair.client, begin), Kind::Syn), [2]);
    let again = silence(&mut pair, Duration::from_secs(4));
    let times: Vec<_> = again.iter().map(|sent| (sent.0 - begin).as_millis()).collect();
    assert_eq!(times, [250, 500, 750, 1_250, 2_250]);
    assert_eq!(again.iter().map(|sent| sent.1).collect::<Vec<_>>(), [0, 1, 2, 0, 1]);
    assert_eq!(pair.client.take_path_report(), None, "there may be no peer");
    pair.client.set_paths(pair.now, of(3, 1));
    let now = pair.now;
    assert_eq!(paths_of(&sent(&mut pair.client, now), Kind::Syn), [1], "at once by the new default");
    pair.to_server = vec![again[4].2.clone()];
    pair.settle();
    assert_eq!(pair.client.state(), State::Established);
    let report = |path, lost| PathReport { path, was_cleared: false, lost, answered_after: None };
    let reports: Vec<_> = std::iter::from_fn(|| pair.client.take_path_report()).collect();
    assert_eq!(reports, [0, 1, 2].map(|path| report(path, 1)));
}

/// [CDP-IO-14] A dead peer loses nothing by any member, and its connection is none to probe with.
#[test]
fn a_peer_that_died_is_no_loss_of_its_paths() {
    let mut pair = open(of(3, 0));
    exchange(&mut pair);
    assert!(pair.client.is_in_touch());
    pair.client.send(&[1; 40_000]).unwrap();
    let now = pair.now;
    sent(&mut pair.client, now);
    let again = silence(&mut pair, Duration::from_secs(5));
    assert!(again.len() > 10 && !pair.client.is_in_touch());
    assert_eq!(pair.client.take_path_report(), None);
    // it was only away
    let now = pair.now;
    let (_, by, packet) = again.into_iter().next_back().unwrap();
    pair.server().handle_packet_by(now, packet, by);
    for (path, packet) in sent(pair.server(), now) {
        pair.client.handle_packet_by(now, packet, path);
    }
    let lost: Vec<_> =
        std::iter::from_fn(|| pair.client.take_path_report()).map(|report| report.lost).collect();
    assert!(lost[1..] == [1, 1] && lost[0] >= 1 && pair.client.is_in_touch(), "{lost:?}");
}

/// [CDP-IO-12] Where the default is dead, an open costs one RTO_INIT, and the first data that goes by it a tail probe of
/// the round trip by which the SYN was answered, not another.
#[test]
fn what_follows_an_open_by_another_member_is_probed_in_its_round_trip() {
    const TRIP: Duration = Duration::from_millis(4);
    let config = Config { probe_mtu: false, ..Config::new(Service::Stream, 1_444) };
    let mut pair = Pair::new(&config, &config);
    pair.client.set_paths(pair.now, of(2, 0));
    let begin = pair.now;
    assert_eq!(paths_of(&sent(&mut pair.client, begin), Kind::Syn), [0], "by the default, which is dead");
    let (at, by, syn) = silence(&mut pair, Duration::from_millis(250)).remove(0);
    assert_eq!((at - begin, by), (config.rto_init, 1));
    pair.deliver_to_server(syn);
    pair.server().note_came_by(1);
    let now = pair.now;
    let answer = outputs(pair.server(), now);
    pair.now += TRIP;
    let now = pair.now;
    for packet in answer {
        pair.client.handle_packet_by(now, packet, 1);
    }
    pair.client.send(b"data").unwrap();
    let first = sent(&mut pair.client, now);
    assert_eq!(paths_of(&first, Kind::Data), [0]);
    let (at, by, _) = silence(&mut pair, Duration::from_millis(100)).remove(0);
    assert!(by == 1 && at - now <= TRIP * 2 + MS * 2, "by {by} after {:?}", at - now);
}

/// [CDP-IO-11] What has no number goes where the peer's latest packet came from, and data by the default.
#[test]
fn answers_go_by_the_path_of_the_latest_packet() {
    let mut pair = open(of(3, 0));
    for path in [2, 1, 0] {
        pair.client.send(b"data").unwrap();
        let now = pair.now;
        for (_, packet) in sent(&mut pair.client, now) {
            pair.server().handle_packet_by(now, packet, path);
        }
        pair.now += MS * 2;
        let now = pair.now;
        pair.server().handle_timeout(now);
        pair.server().send(b"reply").unwrap_or_default();
        let answers = sent(pair.server(), now);
        assert_eq!(paths_of(&answers, Kind::Data), [0]);
        assert!(paths_of(&answers, Kind::Ack).iter().all(|by| *by == path));
        for (_, packet) in answers {
            pair.client.handle_packet_by(now, packet, 0);
        }
    }
    let now = pair.now;
    pair.server().abort(now);
    assert_eq!(paths_of(&sent(pair.server(), now), Kind::Reset), [0]);
}

/// [CDP-IO-11] A PIN that is not answered goes around as well, or a closed window would hide that the default is dead.
#[test]
fn a_probe_of_the_window_goes_around() {
    let client = Config { probe_mtu: false, ..Config::new(Service::Stream, 1_444) };
    let mut pair = Pair::open(&client, &Config { receive_slots: 2, ..client.clone() });
    pair.client.set_paths(pair.now, of(2, 1));
    pair.client.send(&[1; 10_000]).unwrap();
    pair.settle();
    pair.now += MS * 5;
    pair.settle();
    let pins: Vec<_> = silence(&mut pair, Duration::from_secs(3)).into_iter().map(|sent| sent.1).collect();
    assert_eq!(pins[..4], [1, 0, 1, 0]);
}

/// [CDP-IO-4] Losses by their path; a delivery of a number that was sent once clears; one by another path does not.
#[test]
fn what_becomes_of_numbers_is_reported() {
    let mut pair = open(of(2, 0));
    exchange(&mut pair);
    let reports =
        |pair: &mut Pair| -> Vec<_> { std::iter::from_fn(|| pair.client.take_path_report()).collect() };
    let report = |path| PathReport { path, was_cleared: false, lost: 0, answered_after: None };

    pair.client.send(b"arrives").unwrap();
    pair.now += MS;
    pair.settle();
    pair.now += MS;
    pair.run(MS, false);
    assert_eq!(reports(&mut pair), [PathReport { was_cleared: true, ..report(0) }]);

    // four packets by the default are lost, and the answer to the tail probe shows it
    pair.client.send(&[3; 4 * 1_444]).unwrap();
    let now = pair.now;
    assert_eq!(paths_of(&sent(&mut pair.client, now), Kind::Data), [0; 4]);
    let probe = silence(&mut pair, MS * 3).remove(0);
    assert_eq!(probe.1, 1);
    let now = pair.now;
    pair.server().handle_packet_by(now, probe.2, 1);
    assert!(sent(pair.server(), now).is_empty(), "it is one number in order");
    pair.now += MS;
    let now = pair.now;
    pair.server().handle_timeout(now);
    for (path, packet) in sent(pair.server(), now) {
        assert_eq!(path, 1);
        pair.client.handle_packet_by(now, packet, 1);
    }
    assert_eq!(reports(&mut pair), [PathReport { lost: 4, ..report(0) }]);
    assert_eq!(paths_of(&sent(&mut pair.client, now), Kind::Data), [1; 3], "the next member");
}

/// [CDP-IO-9] Likewise where losses wait for room: in flight is more than a new path may have.
#[test]
fn a_loss_that_waits_for_room_is_repeated_on_a_new_default_at_once() {
    let mut pair = open(of(2, 0));
    exchange(&mut pair);
    for _ in 0..4 {
        pair.client.send(&[7; 120 * 1_444]).unwrap();
        pair.collect();
        pair.now += MS;
        pair.settle();
        let mut buffer = [0; 120 * 1_444];
        pair.server().recv(&mut buffer).unwrap();
        pair.settle();
    }
    pair.client.send(&[7; 120 * 1_444]).unwrap();
    let now = pair.now;
    let packets = sent(&mut pair.client, now);
    assert_eq!(packets.len(), 120);
    pair.now += MS;
    let now = pair.now;
    for (path, packet) in packets.into_iter().skip(40).take(4) {
        pair.server().handle_packet_by(now, packet, path);
    }
    for (path, packet) in sent(pair.server(), now) {
        pair.client.handle_packet_by(now, packet, path);
    }
    let repeated = sent(&mut pair.client, now);
    let lost = pair.client.stats(now).lost;
    assert!(lost > repeated.len() as u64, "{lost} lost, {} repeated", repeated.len());
    pair.client.set_paths(now, of(2, 1));
    let repeated = paths_of(&sent(&mut pair.client, now), Kind::Data);
    assert!(!repeated.is_empty() && repeated.iter().all(|path| *path == 1), "{repeated:?}");
}

/// [CDP-IO-2] [CDP-IO-9] A new default: what is in flight begins its round there at once, the back-off is over, and window and
/// round trip begin anew, whatever is found lost on the path that was left.
#[test]
fn a_new_default_begins_anew() {
    let mut pair = open(of(2, 0));
    exchange(&mut pair);
    pair.client.send(&[3; 20 * 1_444]).unwrap();
    let now = pair.now;
    assert_eq!(paths_of(&sent(&mut pair.client, now), Kind::Data), [0; 20]);
    silence(&mut pair, Duration::from_secs(3));
    let rto = pair.client.path_stats().rto;
    pair.client.set_paths(pair.now, of(2, 1));
    assert!(pair.client.path_stats().rto * 8 < rto, "{rto:?}");
    let now = pair.now;
    let probe = sent(&mut pair.client, now);
    assert_eq!(paths_of(&probe, Kind::Data)[..1], [1]);
    let window = pair.client.path_stats().congestion_window;
    assert_eq!(window, congestion::INITIAL_WINDOW);
    pair.now += MS;
    let now = pair.now;
    for (path, packet) in probe {
        pair.server().handle_packet_by(now, packet, path);
    }
    for (path, packet) in sent(pair.server(), now) {
        pair.client.handle_packet_by(now, packet, path);
    }
    assert!(pair.client.stats(now).lost > 15);
    assert!(pair.client.path_stats().congestion_window >= window, "losses of the path that was left");
    assert!(paths_of(&sent(&mut pair.client, now), Kind::Data).iter().all(|path| *path == 1));
    pair.settle();
    pair.run(MS * 50, false);
    assert!(pair.client.is_flushed());
}

/// [CDP-IO-6] A probe is a PIN|ACK with TIME token by its path; only an answer by the same path counts, and once.
#[test]
fn a_probe_is_answered_by_its_path() {
    let mut pair = open(of(3, 0));
    exchange(&mut pair);
    for (answer_by, counts) in [(2, true), (0, false)] {
        pair.client.probe_path(pair.now, 2);
        pair.client.probe_path(pair.now, 3);
        let now = pair.now;
        let probes = sent(&mut pair.client, now);
        assert_eq!(paths_of(&probes, Kind::Pin), [2], "there is no path 3");
        let (_, probe) = probes.into_iter().find(|(_, packet)| packet.kind() == Kind::Pin).unwrap();
        assert_ne!(probe.tlvs().time.unwrap().own, 0);
        pair.server().handle_packet_by(now, probe, 2);
        let answers = sent(pair.server(), now);
        assert_eq!(answers.iter().map(|(path, _)| *path).collect::<Vec<_>>(), [2]);
        for _ in 0..2 {
            pair.client.handle_packet_by(now, answers[0].1.clone(), answer_by);
            let answered = std::iter::from_fn(|| pair.client.take_path_report())
                .any(|report| report.answered_after.is_some());
            assert_eq!(answered, counts && answer_by == 2, "answered by {answer_by}");
            if answered {
                break;
            }
        }
    }
}

/// [CDP-MTU-3] [CDP-IO-6] Probes that come in one batch are answered one by one, each by its path.
#[test]
fn probes_that_come_together_are_all_answered() {
    let mut pair = open(of(3, 0));
    exchange(&mut pair);
    for path in [1, 2] {
        pair.client.probe_path(pair.now, path);
    }
    let now = pair.now;
    for (path, probe) in sent(&mut pair.client, now) {
        pair.server().handle_packet_by(now, probe, path);
    }
    pair.server().send(&[5; 20_000]).unwrap();
    for (path, answer) in sent(pair.server(), now) {
        pair.client.handle_packet_by(now, answer, path);
    }
    let answered: Vec<_> = std::iter::from_fn(|| pair.client.take_path_report())
        .filter(|report| report.answered_after.is_some())
        .map(|report| report.path)
        .collect();
    assert_eq!(answered, [1, 2]);
}

/// [CDP-IO-6] [CDP-MTU-7] A new default that does not carry larger packets is no silence of the peer: a connection that is
/// idle after its search still probes the members that were left.
#[test]
fn a_size_that_does_not_pass_is_no_silence() {
    let config = Config { message_bytes: None, ..Config::new(Service::Datagram, 8_944) };
    let mut pair = Pair::open(&config, &config);
    pair.client.set_paths(pair.now, of(2, 0));
    pair.settle();
    pair.client.set_paths(pair.now, of(2, 1));
    let probes = silence(&mut pair, Duration::from_secs(20));
    assert!(
        probes.iter().all(|(_, path, _)| *path == 1) && probes.len() == 9,
        "three of each size: {probes:?}"
    );
    assert!(pair.client.is_in_touch());
}

/// A connection with one path has nothing to report and sends by path 0.
#[test]
fn one_path_is_no_choice() {
    let mut pair = Pair::of(Service::Stream);
    pair.client.send(b"data").unwrap();
    let now = pair.now;
    assert!(sent(&mut pair.client, now).iter().all(|(path, _)| *path == 0));
    silence(&mut pair, MS * 500);
    assert_eq!(pair.client.take_path_report(), None);
}
