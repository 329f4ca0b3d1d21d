//! Parts of a message that go to the user before they are taken apart: the connection ends where the ordinary way would have led it.

use std::num::NonZeroU32;

use bytes::Bytes;
use weft_wire::{HEADER_LEN, JoinedParts};

use super::handover::assert_same;
use super::trains::join;
use super::*;

const US: Duration = Duration::from_micros(1);

fn configs() -> [Config; 2] {
    let datagrams = Config::new(Service::Datagram, 1_444);
    [datagrams.clone(), Config { coalesce: false, ..datagrams }]
}

fn message(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

/// What has come to the client when the server has sent `messages` at `now`, end to end, and the size of its packets.
fn sent(pair: &mut Pair, now: Instant, messages: &[&[u8]]) -> (usize, Bytes) {
    for message in messages {
        pair.server().send(message).unwrap();
    }
    let packets: Vec<Bytes> =
        outputs(pair.server(), now).iter().map(|packet| packet.bytes().clone()).collect();
    let joined = join(&packets);
    assert_eq!(joined.len(), 1, "the kernel joins them");
    joined.into_iter().next().unwrap()
}

/// The message, if it goes to the user at once.
fn take(connection: &mut Connection, now: Instant, size: usize, bytes: &[u8]) -> Option<Vec<u8>> {
    take_part(connection, now, size, bytes, 0)
}

/// What these packets have of a message whose first `ahead` bytes the user has, if that goes to him at once.
fn take_part(
    connection: &mut Connection,
    now: Instant,
    size: usize,
    bytes: &[u8],
    ahead: u32,
) -> Option<Vec<u8>> {
    let joined = JoinedParts::new_checked(bytes, size, connection.flow(), Encapsulation::Simulated)?;
    let mut to = vec![0; 100_000];
    let len = connection.take_joined(now, &joined, ahead, |bytes| to.get_mut(..bytes))?;
    to.truncate(len);
    Some(to)
}

fn take_one_by_one(connection: &mut Connection, now: Instant, size: usize, bytes: &[u8]) {
    for packet in bytes.chunks(size) {
        connection.take_packet_by(now, &mut parse(packet.to_vec()), 0);
    }
}

/// A pair whose client has asked something, of which it knows nothing yet, and what the server answers.
fn answered(config: &Config, question: usize, answer: &[u8]) -> (Pair, usize, Bytes) {
    let mut pair = Pair::open(config, config);
    pair.run(20 * MS, false);
    let now = pair.now;
    if question > 0 {
        pair.client.send(&message(question)).unwrap();
    }
    for packet in outputs(&mut pair.client, now) {
        pair.server().handle_packet(now + 5 * US, packet);
    }
    if question > 0 {
        assert_eq!(pair.server().recv(&mut vec![0; question]).unwrap().len, question);
    }
    let (size, bytes) = sent(&mut pair, now + 6 * US, &[answer]);
    pair.now = now + 11 * US;
    (pair, size, bytes)
}

#[test]
fn what_came_together_leaves_the_connection_as_if_it_had_been_queued_and_read() {
    let mut settled = 0;
    for config in configs() {
        for question in [0, 64, 1_445, 16_384] {
            for len in [1_445, 2_048, 2_884, 2_888, 16_384, 40_000] {
                let case = format!("{question} bytes asked, {len} answered, coalesce {}", config.coalesce);
                let (mut pair, mut size, mut bytes) = answered(&config, question, &message(len));
                events(&mut pair.client);
                // of later answers each is one to a question that was answered at once
                for round in 0..4 {
                    let case = format!("{case}, round {round}");
                    let (now, client) = (pair.now, &mut pair.client);
                    let mut ordinary = client.clone();
                    take_one_by_one(&mut ordinary, now, size, &bytes);
                    assert_eq!(ordinary.recv(&mut vec![0; len]).unwrap().len, len, "{case}");

                    assert!(take(client, now, size, &bytes) == Some(message(len)), "{case}");
                    assert!(!client.has_unread_ack() && !client.is_readable(), "{case}");
                    let mut twin = client.clone();
                    let [left, other] = [&mut twin, &mut ordinary].map(|end| outputs(end, now));
                    assert_eq!(left, other, "{case}");
                    assert_same(&twin, &ordinary, &case);
                    // who is settled has nothing to send, and nothing else to say
                    let mut twin = client.clone();
                    let (is_settled, timeout) = (twin.is_settled(), client.await_answer(now));
                    assert!(!is_settled || (events(&mut twin).is_empty() && left.is_empty()), "{case}");
                    assert!(!is_settled || client.poll_timeout() == Some(timeout), "{case}");
                    settled += u32::from(is_settled);

                    client.send(&message(question.max(1))).unwrap();
                    let questions = outputs(client, now + US);
                    for packet in questions {
                        pair.server().handle_packet(now + 5 * US, packet);
                    }
                    assert_eq!(
                        pair.server().recv(&mut vec![0; 20_000]).unwrap().len,
                        question.max(1),
                        "{case}"
                    );
                    (size, bytes) = sent(&mut pair, now + 6 * US, &[&message(len)]);
                    pair.now = now + 11 * US;
                }
            }
        }
    }
    assert!(settled > 0);
}

/// Of a message that comes in several pieces, of which the user takes each as it comes. In the first rounds its sender waits for
/// acknowledgements, in later ones these are left to the answer.
#[test]
fn parts_that_came_together_leave_the_connection_as_if_they_had_been_queued_and_read_ahead() {
    let mut left = 0;
    for config in configs().map(|config| Config { pacing: false, ..config }) {
        for len in [61_000, 70_000, 150_000] {
            let mut pair = Pair::open(&config, &config);
            pair.run(20 * MS, false);
            let message = message(len);
            for round in 0..6 {
                let mut now = pair.now;
                pair.server().send(&message).unwrap();
                let (mut read, mut ends) = (Vec::new(), false);
                while !ends {
                    now += 5 * US;
                    let packets = outputs(pair.server(), now);
                    let packets: Vec<Bytes> = packets.iter().map(|packet| packet.bytes().clone()).collect();
                    assert!(!packets.is_empty(), "its sender waits for what is not to come");
                    for (size, bytes) in join(&packets) {
                        let case = format!("{} of {len} bytes, coalesce {}", read.len(), config.coalesce);
                        let ahead = u32::try_from(read.len()).unwrap();
                        let mut ordinary = pair.client.clone();
                        take_one_by_one(&mut ordinary, now, size, &bytes);
                        let more = ordinary.read_ahead(ahead, |_| true);
                        let part = take_part(&mut pair.client, now, size, &bytes, ahead);
                        let part = part.unwrap_or_else(|| panic!("{case}: it takes the ordinary way"));
                        ends = more == 0;
                        assert!(ends || more as usize == part.len(), "{case}");
                        let [answers, expected] =
                            [&mut pair.client, &mut ordinary].map(|end| outputs(end, now));
                        if ends {
                            let ahead = NonZeroU32::new(ahead).expect("of several pieces");
                            let rest = ordinary.recv_rest(ahead).unwrap();
                            assert_eq!(rest.map(|rest| rest.len()), Some(part.len()), "{case}");
                        }
                        left += u32::from(answers.is_empty());
                        if ends && !answers.is_empty() {
                            // what is acknowledged by itself before it was read leaves less room
                            let told = |packets: &[Packet]| {
                                packets.iter().map(|it| (it.kind(), it.header().ack)).collect::<Vec<_>>()
                            };
                            assert_eq!(told(&answers), told(&expected), "{case}");
                        } else {
                            assert_eq!(answers, expected, "{case}");
                            assert_same(&pair.client, &ordinary, &case);
                        }
                        assert!(!pair.client.is_readable() && pair.client.is_read_ahead() != ends, "{case}");
                        for packet in answers {
                            pair.server().handle_packet(now, packet);
                        }
                        read.extend_from_slice(&part);
                    }
                }
                assert!(read == message, "other bytes than were sent, round {round}");
                pair.now = now + 5 * US;
                pair.client.send(b"an answer").unwrap();
                for packet in outputs(&mut pair.client, now + US) {
                    pair.server().handle_packet(now + 2 * US, packet);
                }
                assert_eq!(pair.server().recv(&mut [0; 16]).unwrap().len, 9);
            }
        }
    }
    assert!(left > 0, "no acknowledgement was left to an answer");
}

/// Of which the user has another beginning, or none, and where he has not read what came before.
#[test]
fn parts_of_a_message_that_the_user_has_not_all_before_take_the_ordinary_way() {
    let config = Config { pacing: false, message_bytes: Some(60_000), ..configs()[0].clone() };
    let mut pair = Pair::open(&config, &config);
    pair.run(20 * MS, false);
    let now = pair.now;
    pair.server().send(&message(60_000)).unwrap();
    let packets: Vec<Bytes> =
        outputs(pair.server(), now).iter().map(|packet| packet.bytes().clone()).collect();
    assert!(packets.len() >= 4, "{} packets", packets.len());
    let pieces: Vec<(usize, Bytes)> = packets.chunks(2).flat_map(join).collect();
    let [(size, first), (_, second), ..] = &pieces[..] else { panic!("{} pieces", pieces.len()) };
    let client = &mut pair.client;
    let refuses = |connection: &Connection, bytes: &[u8], ahead: u32, name: &str| {
        let mut twin = connection.clone();
        assert!(take_part(&mut twin, now, *size, bytes, ahead).is_none(), "{name}");
        assert_same(&twin, connection, name);
    };
    refuses(client, first, 1, "of a message that has not begun");
    refuses(client, second, 0, "without the beginning");
    let mut queued = client.clone();
    take_one_by_one(&mut queued, now, *size, first);
    refuses(&queued, second, 0, "behind what was not read");
    let ahead = u32::try_from(take(client, now, *size, first).unwrap().len()).unwrap();
    refuses(client, second, ahead, "before what is due was acknowledged");
    let mut acknowledgements = outputs(client, now);
    for others in [0, ahead - 1, ahead + 1] {
        refuses(client, second, others, "for another reader");
    }
    refuses(client, first, ahead, "the same once more");
    for bit in [8, 8 * HEADER_LEN, 8 * (size + HEADER_LEN) + 1, 8 * second.len() - 1] {
        let mut damaged = second.to_vec();
        damaged[bit / 8] ^= 0x80 >> (bit % 8);
        refuses(client, &damaged, ahead, "damaged");
    }
    assert!(take_part(client, now, *size, second, ahead).is_some());
    // what was taken is put back, and another reader has all of it
    client.put_back(&message(2 * ahead as usize));
    for (size, bytes) in &pieces[2..] {
        take_one_by_one(client, now, *size, bytes);
    }
    acknowledgements.extend(outputs(client, now));
    acknowledgements.into_iter().for_each(|packet| pair.server().handle_packet(now, packet));
    pair.settle();
    assert!(read(&mut pair.client) == message(60_000), "other bytes than were sent");
}

#[test]
fn a_message_that_is_not_whole_or_not_the_next_takes_the_ordinary_way() {
    type Change = fn(&mut Connection, Instant);
    let (pair, size, bytes) = answered(&configs()[0], 64, &message(3_000));
    let (client, now) = (&pair.client, pair.now);
    let refuses = |connection: &Connection, bytes: &[u8], name: &str| {
        let mut twin = connection.clone();
        assert!(take(&mut twin, now, size, bytes).is_none(), "{name}");
        assert_same(&twin, connection, name);
    };
    let (heads, body) = (0..HEADER_LEN + 2, bytes.len() - 1);
    for bit in
        heads.clone().chain(size..size + heads.end).chain([body / 2, body]).flat_map(|at| at * 8..at * 8 + 8)
    {
        let mut damaged = bytes.to_vec();
        damaged[bit / 8] ^= 0x80 >> (bit % 8);
        refuses(client, &damaged, &format!("bit {bit}"));
    }
    refuses(client, &bytes[size..], "without its beginning");
    let mut behind = client.clone();
    take_one_by_one(&mut behind, now, size, &bytes);
    refuses(&behind, &bytes, "the same once more");

    let cases: [(&str, Change); 5] = [
        ("the user waits for room to send", |client, _| while client.send(&[7; 60_000]).is_ok() {}),
        ("more is in flight than it acknowledges", |client, now| {
            client.send(b"one more").unwrap();
            assert_eq!(outputs(client, now).len(), 1);
        }),
        ("closing", |client, now| client.close(now)),
        ("an acknowledgement is due", |client, _| client.receiver.request_ack()),
        ("what is held", |client, _| {
            let next = client.receiver.nxt() + 9;
            client.receiver.store(next, true, Bytes::from_static(b"later")).unwrap();
        }),
    ];
    for (name, change) in cases {
        let mut changed = client.clone();
        change(&mut changed, now);
        refuses(&changed, &bytes, name);
    }
    // behind what was not read
    let (mut pair, size, bytes) = answered(&configs()[0], 64, &message(3_000));
    take_one_by_one(&mut pair.client, now, size, &bytes);
    let (_, more) = sent(&mut pair, now, &[&message(3_000)]);
    refuses(&pair.client, &more, "behind an unread one");

    let mut twin = client.clone();
    let joined = JoinedParts::new_checked(&bytes, size, client.flow(), Encapsulation::Simulated).unwrap();
    assert_eq!(twin.take_joined(now, &joined, 0, |_| None), None);
    assert_same(&twin, client, "no room");
}
