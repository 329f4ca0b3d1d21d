//! A message of several packets that goes to the user before it is taken apart: the connection ends where the ordinary way would have led it.

use bytes::Bytes;
use weft_wire::{HEADER_LEN, JoinedMessage};

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
    let joined = JoinedMessage::new_checked(bytes, size, connection.flow(), Encapsulation::Simulated)?;
    let mut to = vec![0; 100_000];
    let len = connection.take_message(now, &joined, |bytes| to.get_mut(..bytes))?;
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

#[test]
fn a_message_that_is_not_whole_or_not_the_next_takes_the_ordinary_way() {
    type Change = fn(&mut Connection, Instant);
    let (pair, size, bytes) = answered(&configs()[0], 64, &message(3_000));
    let (client, now) = (&pair.client, pair.now);
    let refuses = |connection: &Connection, bytes: &[u8], name: &str| {
        let mut twin = connection.clone();
        assert_eq!(take(&mut twin, now, size, bytes), None, "{name}");
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
    refuses(client, &bytes[..2 * size], "without its end");
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
    let joined = JoinedMessage::new_checked(&bytes, size, client.flow(), Encapsulation::Simulated).unwrap();
    assert_eq!(twin.take_message(now, &joined, |_| None), None);
    assert_same(&twin, client, "no room");
}
