//! An answer that leaves before it is queued, and a message that goes to the user before it is: the connection ends where the
//! ordinary way would have led it.

use weft_wire::{HEADER_LEN, Lone};

use super::*;

const US: Duration = Duration::from_micros(1);

/// All that a connection is, but for what it tells who asks: where the last data lay in memory, and events that are still to be polled.
fn state(connection: &Connection) -> String {
    let mut twin = connection.clone();
    events(&mut twin);
    let text = format!("{twin:#?}");
    text.lines().filter(|line| !line.trim_start().starts_with("last_end:")).collect::<Vec<_>>().join("\n")
}

pub(super) fn assert_same(left: &Connection, right: &Connection, when: &str) {
    let (left, right) = (state(left), state(right));
    for (left, right) in left.lines().zip(right.lines()) {
        assert_eq!(left, right, "{when}");
    }
    assert_eq!(left.len(), right.len(), "{when}");
}

fn bytes(packets: &[Packet]) -> Vec<u8> {
    let [packet] = packets else { panic!("{} packets instead of one", packets.len()) };
    packet.bytes().to_vec()
}

/// Two ends in the midst of a conversation in which the server has just been asked and has read it, and what it was asked.
fn conversation(config: &Config) -> Pair {
    let mut pair = Pair::open(config, config);
    pair.run(20 * MS, false);
    for _ in 0..3 {
        pair.client.send(b"a question").unwrap();
        let now = pair.now;
        let question = outputs(&mut pair.client, now);
        pair.server().handle_packet(now + 5 * US, question[0].clone());
        assert_eq!(read(pair.server()), b"a question");
        if pair.server().has_unread_ack() {
            pair.now = now + 5 * US;
            return pair;
        }
        pair.server().send(b"an answer").unwrap();
        let answer = outputs(pair.server(), now + 6 * US);
        pair.client.handle_packet(now + 11 * US, answer[0].clone());
        assert_eq!(read(&mut pair.client), b"an answer");
        pair.now = now + 12 * US;
    }
    panic!("no acknowledgement stays unread");
}

fn configs() -> [Config; 3] {
    let datagrams = Config::new(Service::Datagram, 1_444);
    [datagrams.clone(), Config { coalesce: false, ..datagrams }, Config::new(Service::Stream, 1_444)]
}

#[test]
fn what_leaves_before_it_is_queued_is_what_would_have_left() {
    for config in configs() {
        for len in [0, 1, 64, 228, 511, 512, 1_440] {
            if len == 0 && config.service == Service::Stream {
                continue;
            }
            let case = format!("{len} bytes, {:?}, coalesce {}", config.service, config.coalesce);
            let mut pair = conversation(&config);
            let now = pair.now + US;
            let data: Vec<u8> = (0..len).map(|i| u8::try_from(i % 251).unwrap()).collect();
            let server = pair.server();
            let mut ordinary = server.clone();
            ordinary.send(&data).unwrap();
            let expected = bytes(&outputs(&mut ordinary, now));

            let head = server.head_of_answer(now, &data).unwrap_or_else(|| panic!("{case}"));
            assert_eq!([&head[..], &data[..]].concat(), expected, "{case}");
            server.note_answered(now, &data);
            assert!(outputs(server, now).is_empty(), "{case}");
            assert_same(server, &ordinary, &case);

            pair.client.handle_packet(now + 5 * US, parse(expected));
            assert_eq!(pair.client.recv(&mut vec![0; 2_000]).unwrap().len, len, "{case}");
        }
    }
}

#[test]
fn what_did_not_leave_is_sent_as_if_nothing_had_been() {
    for config in configs() {
        let mut pair = conversation(&config);
        let now = pair.now + US;
        let server = pair.server();
        let mut ordinary = server.clone();
        assert!(server.head_of_answer(now, b"refused by the link").is_some());
        for end in [&mut *server, &mut ordinary] {
            end.send(b"refused by the link").unwrap();
        }
        assert_eq!(bytes(&outputs(server, now)), bytes(&outputs(&mut ordinary, now)));
        assert_same(server, &ordinary, "after it");
    }
}

#[test]
fn what_is_no_answer_takes_the_ordinary_way() {
    type Change = fn(&mut Connection, Instant);
    let cases: [(&str, Duration, usize, Change); 6] = [
        ("late", 60 * US, 10, |_, _| {}),
        ("more than a packet", US, 1_445, |_, _| {}),
        ("behind data that waits", US, 10, |server, _| {
            server.send(b"first").unwrap();
        }),
        ("the acknowledgement was read", US, 10, |server, now| assert!(outputs(server, now).is_empty())),
        ("closing", US, 10, |server, now| server.close(now)),
        ("an acknowledgement is due at once", US, 10, |server, _| server.receiver.request_ack()),
    ];
    for (name, after, len, change) in cases {
        let mut pair = conversation(&configs()[0]);
        let now = pair.now + after;
        let server = pair.server();
        change(server, now);
        let before = state(server);
        assert!(server.head_of_answer(now, &vec![7; len]).is_none(), "{name}");
        assert_eq!(state(server), before, "{name}");
    }
    // of a stream nothing is no message
    let mut pair = conversation(&configs()[2]);
    let now = pair.now + US;
    assert!(pair.server().head_of_answer(now, b"").is_none());
}

/// A pair whose client waits for the answer, and that answer as it comes.
fn answered(config: &Config, answer: &[u8]) -> (Pair, Vec<u8>) {
    let mut pair = conversation(config);
    let now = pair.now + US;
    pair.server().send(answer).unwrap();
    let packet = bytes(&outputs(pair.server(), now));
    pair.now = now + 5 * US;
    (pair, packet)
}

#[test]
fn what_goes_to_the_user_at_once_leaves_the_connection_as_if_it_had_been_queued_and_read() {
    for config in configs() {
        for len in [0, 1, 64, 1_440] {
            if len == 0 && config.service == Service::Stream {
                continue;
            }
            let case = format!("{len} bytes, {:?}, coalesce {}", config.service, config.coalesce);
            let data = vec![0x5A; len];
            let (mut pair, packet) = answered(&config, &data);
            let (now, client) = (pair.now, &mut pair.client);
            let mut ordinary = client.clone();
            ordinary.take_packet_by(now, &mut parse(packet.clone()), 0);
            assert_eq!(ordinary.recv(&mut vec![0; 2_000]).unwrap().len, len, "{case}");
            assert!(ordinary.has_unread_ack(), "{case}");

            let lone = Lone::new_checked(&packet, client.flow(), Encapsulation::Simulated).unwrap();
            assert_eq!(client.take_answer(now, &lone), Some(&data[..]), "{case}");
            assert_same(client, &ordinary, &case);

            for end in [client, &mut ordinary] {
                assert_eq!(end.await_answer(now), now + MS);
                assert!(outputs(end, now + 2 * US).is_empty());
                assert!(!end.has_unread_ack() && end.is_flushed());
            }
            assert_same(&pair.client, &ordinary, &case);
        }
    }
}

#[test]
fn a_long_conversation_goes_the_short_way_at_both_ends() {
    for config in configs() {
        let mut pair = conversation(&config);
        let mut now = pair.now;
        for round in 0..10_000_u32 {
            now += US;
            let data = round.to_le_bytes();
            let (from, to) = match &mut pair {
                Pair { client, server: Some(server), .. } if round % 2 == 0 => (server, client),
                Pair { client, server: Some(server), .. } => (client, server),
                Pair { .. } => unreachable!(),
            };
            let head = from.head_of_answer(now, &data).unwrap_or_else(|| panic!("{round}"));
            from.note_answered(now, &data);
            assert!(outputs(from, now).is_empty());
            now += 5 * US;
            let packet = [&head[..], &data[..]].concat();
            let lone = Lone::new_checked(&packet, to.flow(), Encapsulation::Simulated).unwrap();
            assert_eq!(to.take_answer(now, &lone), Some(&data[..]), "{round}");
            // the window goes on as the user reads
            let urgent = to.has_urgent_output();
            assert!(!urgent, "{round}: what is read at once keeps the window open");
        }
        let stats = pair.client.stats(now);
        assert_eq!((stats.retransmitted, stats.timeouts, stats.duplicates), (0, 0, 0));
        assert!(stats.messages_sent >= 5_000 && stats.messages_received >= 5_000);
    }
}

#[test]
fn what_is_not_the_next_of_a_conversation_takes_the_ordinary_way() {
    let (pair, packet) = answered(&configs()[0], b"an answer");
    let (client, now) = (&pair.client, pair.now);
    let refuses = |connection: &Connection, packet: &[u8], name: &str| {
        let mut twin = connection.clone();
        if let Some(lone) = Lone::new_checked(packet, connection.flow(), Encapsulation::Simulated) {
            assert_eq!(twin.take_answer(now, &lone), None, "{name}");
        }
        assert_same(&twin, connection, name);
    };
    // every damage shows
    for bit in 0..packet.len() * 8 {
        let mut damaged = packet.clone();
        damaged[bit / 8] ^= 0x80 >> (bit % 8);
        refuses(client, &damaged, &format!("bit {bit}"));
    }
    refuses(client, &packet[..HEADER_LEN - 1], "short");
    refuses(client, &packet[..packet.len() - 1], "cut off");

    let mut twin = client.clone();
    twin.handle_packet(now, parse(packet.clone()));
    refuses(&twin, &packet, "the same once more");

    // behind what was not read, which acknowledges the same
    let mut pair = pair;
    pair.server().send(b"and one more").unwrap();
    let more = bytes(&outputs(pair.server(), now));
    refuses(&twin, &more, "behind an unread one");
    assert_eq!(read(&mut twin), b"an answer");
    refuses(&twin, &more, "while the acknowledgement of the last is unread");
    refuses(&pair.client, &more, "behind a gap");

    // while more than the question is under way
    let mut busy = pair.client.clone();
    busy.send(b"another question").unwrap();
    assert_eq!(outputs(&mut busy, now).len(), 1);
    refuses(&busy, &packet, "two in flight");

    let mut closing = pair.client.clone();
    closing.close(now);
    refuses(&closing, &packet, "closing");
}

#[test]
fn what_is_no_whole_message_takes_the_ordinary_way() {
    // two messages that share a packet, and the first part of a long one
    for data in [&[&b"one"[..], b"two"][..], &[&[7; 3_000]]] {
        let mut pair = conversation(&configs()[0]);
        let now = pair.now + US;
        for message in data {
            pair.server().send(message).unwrap();
        }
        let packet = outputs(pair.server(), now)[0].bytes().to_vec();
        let lone = Lone::new_checked(&packet, pair.client.flow(), Encapsulation::Simulated).unwrap();
        assert!(pair.client.take_answer(now + 5 * US, &lone).is_none());
    }
}
