//! An answer leaves before the acknowledgement that came with its question is read.

use super::*;

const US: Duration = Duration::from_micros(1);
/// A round trip of the conversation.
const ROUND: Duration = Duration::from_micros(10);

/// One end that has just been handed a message which acknowledges the only packet it had in flight.
fn asked(service: Service) -> Pair {
    let config = Config::new(service, 1_444);
    let mut pair = Pair::open(&config, &config);
    pair.run(20 * MS, false);
    pair.client.send(b"to be answered").unwrap();
    let now = pair.now;
    let question = outputs(&mut pair.client, now);
    assert_eq!(question.len(), 1);
    pair.server().handle_packet(now + ROUND / 2, question[0].clone());
    let mut buffer = [0; 100];
    assert_eq!(pair.server().recv(&mut buffer).unwrap().len, 14);
    pair.server().send(b"an answer").unwrap();
    let answer = outputs(pair.server(), now + ROUND / 2);
    assert_eq!(answer.len(), 1);
    pair.now = now + ROUND;
    pair.client.handle_packet(pair.now, answer[0].clone());
    pair
}

/// The smoothed round trip of one that reads at once what `client` has been handed at `now`.
fn read_at_once(client: &Connection, now: Instant) -> Option<Duration> {
    let (mut twin, before) = (client.clone(), client.path_stats().srtt);
    assert!(outputs(&mut twin, now).is_empty() && !twin.has_unread_ack());
    let srtt = twin.path_stats().srtt;
    assert_ne!(srtt, before);
    srtt
}

#[test]
fn the_answer_leaves_first_and_the_measures_follow() {
    for service in [Service::Datagram, Service::Stream] {
        let mut pair = asked(service);
        let (client, came_at) = (&mut pair.client, pair.now);
        assert!(client.has_unread_ack() && client.is_readable());
        assert_eq!(
            (client.is_flushed(), client.buffered_bytes()),
            (true, 0),
            "for the user it is acknowledged"
        );
        let (before, expected) = (client.path_stats(), read_at_once(client, came_at));
        assert_eq!(client.recv(&mut [0; 100]).unwrap().len, 9);
        client.send(b"the next question").unwrap();
        assert_eq!((client.is_flushed(), client.buffered_bytes()), (false, client.waiting().0));

        let left_at = came_at + 20 * US;
        let mut head = Vec::new();
        let next = client.poll_transmit(left_at, &mut head).unwrap();
        assert!(client.has_unread_ack() && client.path_stats().srtt == before.srtt);
        let next = parse(head[next.head].to_vec());
        assert_eq!((next.kind(), &next.payload()[..]), (Kind::Data, &b"the next question"[..]));
        assert_eq!(next.header().ack, client.receiver.nxt().low32(), "it acknowledges the answer");

        assert!(client.poll_transmit(left_at, &mut Vec::new()).is_none());
        let stats = client.path_stats();
        assert!(!client.has_unread_ack() && stats.in_flight == 1);
        assert_eq!(stats.srtt, expected, "when it came counts, not when it was read");
        let due = client.poll_timeout().unwrap();
        assert!(due > left_at + ROUND, "the timer counts from when the packet left");
    }
}

#[test]
fn without_an_answer_it_is_read_when_our_own_acknowledgement_is_due() {
    let mut pair = asked(Service::Datagram);
    let (client, now) = (&mut pair.client, pair.now);
    let expected = read_at_once(client, now);
    let due = client.await_answer(now);
    assert_eq!(due, now + MS);
    client.handle_timeout(due);
    assert!(!client.has_unread_ack());
    assert_eq!(kinds(&outputs(client, due)), [Kind::Ack]);
    assert_eq!((client.path_stats().in_flight, client.path_stats().srtt), (0, expected));
}

#[test]
fn a_late_answer_waits_for_it() {
    let mut pair = asked(Service::Datagram);
    let (client, now) = (&mut pair.client, pair.now + 60 * US);
    let expected = read_at_once(client, pair.now);
    client.send(b"after some thought").unwrap();
    assert!(client.poll_transmit(now, &mut Vec::new()).is_some());
    assert!(!client.has_unread_ack());
    assert_eq!((client.path_stats().in_flight, client.path_stats().srtt), (1, expected));
}

#[test]
fn an_answer_of_several_packets_is_not_ahead_with_more_than_the_first() {
    let mut pair = asked(Service::Stream);
    let (client, now) = (&mut pair.client, pair.now);
    client.send(&[7; 5_000]).unwrap();
    assert!(client.poll_transmit(now, &mut Vec::new()).is_some() && client.has_unread_ack());
    assert!(client.poll_transmit(now, &mut Vec::new()).is_some() && !client.has_unread_ack());
    assert_eq!(outputs(client, now).len(), 2);
}

#[test]
fn whatever_else_happens_reads_it_first() {
    type Happening = fn(&mut Connection, Instant);
    let happenings: [(&str, Happening); 4] = [
        ("a close", |client, now| {
            client.close(now);
            assert_eq!(kinds(&outputs(client, now)), [Kind::Ack, Kind::Fin]);
        }),
        ("an end", |client, now| {
            client.abort(now);
            assert_eq!(outputs(client, now).len(), 1, "a reset");
            let (result, stats) = (client.close_result().unwrap(), client.stats(now));
            assert_eq!(
                (result.undelivered, stats.numbers_dropped),
                (0, 0),
                "what was acknowledged was delivered"
            );
        }),
        ("a time-out", |client, now| {
            client.handle_timeout(now + 10 * MS);
            assert_eq!(client.stats(now).timeouts, 0, "what was acknowledged has not timed out");
        }),
        ("nothing", |client, now| assert!(outputs(client, now).is_empty())),
    ];
    for (name, happen) in happenings {
        let mut pair = asked(Service::Datagram);
        happen(&mut pair.client, pair.now);
        assert!(!pair.client.has_unread_ack(), "{name}");
    }
}

#[test]
fn what_is_no_conversation_is_read_at_once() {
    // two packets in flight, of which the first is acknowledged with data
    let mut pair = Pair::of(Service::Datagram);
    pair.run(20 * MS, false);
    let now = pair.now;
    pair.client.send(b"one").unwrap();
    let first = outputs(&mut pair.client, now);
    pair.client.send(b"two").unwrap();
    let second = outputs(&mut pair.client, now);
    assert_eq!((first.len(), second.len()), (1, 1));
    pair.server().handle_packet(now, first[0].clone());
    pair.server().send(b"answer").unwrap();
    let answer = outputs(pair.server(), now);
    pair.client.handle_packet(now + ROUND, answer[0].clone());
    assert!(!pair.client.has_unread_ack());
    assert_eq!(pair.client.path_stats().in_flight, 1);

    // nothing in flight
    let mut pair = Pair::of(Service::Datagram);
    pair.run(20 * MS, false);
    let now = pair.now;
    pair.server().send(b"unasked").unwrap();
    let unasked = outputs(pair.server(), now);
    pair.client.handle_packet(now, unasked[0].clone());
    assert!(!pair.client.has_unread_ack() && pair.client.is_readable());
}
