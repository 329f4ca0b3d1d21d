//! Packets that came together are looked at once.

use bytes::Bytes;
use weft_wire::{Lone, Train};

use super::*;

/// Numbers that look random and are the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Bytes that the kernel would join: of packets of one size, and one that is shorter; and the size.
pub(super) fn join(packets: &[Bytes]) -> Vec<(usize, Bytes)> {
    let mut joined: Vec<(usize, Vec<u8>)> = Vec::new();
    for packet in packets {
        match joined.last_mut() {
            Some((size, bytes))
                if bytes.len() % *size == 0 && packet.len() <= *size && bytes.len() < 60_000 =>
            {
                bytes.extend_from_slice(packet);
            }
            _ => joined.push((packet.len(), packet.to_vec())),
        }
    }
    joined.into_iter().map(|(size, bytes)| (size, bytes.into())).collect()
}

/// What becomes of packets on a bad way: some are lost, repeated, overtaken, marked or damaged.
fn disturb(packets: Vec<Packet>, dice: &mut Dice) -> Vec<Bytes> {
    let mut arrived: Vec<Bytes> = Vec::new();
    for packet in packets {
        let mut bytes = packet.bytes().to_vec();
        match dice.roll(40) {
            0 => continue,
            1 => arrived.push(packet.bytes().clone()),
            2 => bytes[0] |= 4,
            3 => *bytes.last_mut().unwrap() ^= 1,
            4 => {
                let mut damaged = bytes.clone();
                *damaged.last_mut().unwrap() ^= 1;
                arrived.push(damaged.into());
            }
            _ => {}
        }
        arrived.push(bytes.into());
        if dice.roll(40) == 0 && arrived.len() > 1 {
            let last = arrived.len() - 1;
            arrived.swap(last, last - 1);
        }
    }
    arrived
}

/// The length of the longest train, and how many bytes of `to` were filled.
fn take_together(
    connection: &mut Connection,
    now: Instant,
    joined: &[(usize, Bytes)],
    to: &mut [u8],
) -> (usize, usize) {
    let (mut longest, mut read) = (0, 0);
    for (size, bytes) in joined {
        let mut bytes = bytes.clone();
        while !bytes.is_empty() {
            let mut train = Train::split_checked(&mut bytes, *size, Encapsulation::Simulated).unwrap();
            longest = longest.max(train.len());
            read += connection.take_train_by(now, &mut train, 0, &mut to[read..]);
        }
    }
    if read > 0 {
        connection.note_read();
    }
    (longest, read)
}

/// Has the data of packets laid in `to`, one behind the other, before anything is known of them, until one is not taken so. Tells how many
/// bytes of `to` were filled.
fn take_placed(connection: &mut Connection, now: Instant, joined: &[(usize, Bytes)], to: &mut [u8]) -> usize {
    let (mut read, mut is_over) = (0, false);
    for (size, bytes) in joined {
        for at in (0..bytes.len()).step_by(*size) {
            let packet = bytes.slice(at..bytes.len().min(at + size));
            let (head, data) = packet.split_first_chunk().unwrap();
            let place = to[read..].get_mut(..data.len()).filter(|_| !is_over);
            let taken = place.and_then(|place| {
                place.copy_from_slice(data);
                connection.take_placed(now, &Lone::of_parts(head, place, flow().reversed())?, 0)
            });
            read += taken.unwrap_or(0);
            is_over |= taken != Some(data.len());
            if taken.is_none() {
                take_one_by_one(connection, now, &[(packet.len(), packet)]);
            }
        }
    }
    read += connection.read_unread(&mut to[read..]);
    if read > 0 {
        connection.note_read();
    }
    read
}

fn take_one_by_one(connection: &mut Connection, now: Instant, joined: &[(usize, Bytes)]) {
    for (size, bytes) in joined {
        for at in (0..bytes.len()).step_by(*size) {
            let packet = bytes.slice(at..bytes.len().min(at + size));
            let packet = Packet::new_checked(packet, Encapsulation::Simulated).unwrap();
            connection.handle_packet_by(now, packet, 0);
        }
    }
}

/// What a read of up to `len` bytes gives: a copy, or the message where it lies.
fn take(connection: &mut Connection, len: usize, is_lent: bool) -> Result<Vec<u8>, RecvError> {
    if is_lent {
        let message = connection.recv_message()?;
        return Ok(message.map_or_else(Vec::new, |message| message.into_bytes().to_vec()));
    }
    let mut buffer = vec![0; len];
    let received = connection.recv(&mut buffer)?;
    buffer.truncate(received.len);
    Ok(buffer)
}

/// All that a connection knows, but for where the last data lay in memory.
fn state(connection: &Connection) -> String {
    let whole = format!("{connection:?}");
    let (before, rest) = whole.split_once("last_end: ").unwrap();
    format!("{before}{}", rest.trim_start_matches(|digit: char| digit.is_ascii_digit()))
}

/// A train leaves the machine as its packets do that come one by one, on a good way and on a bad one, whether the user is behind or not,
/// or waits with a buffer; and so do packets whose data was laid there before they were looked at.
#[test]
fn packets_that_are_taken_together_are_those_that_are_taken_one_by_one() {
    let (mut longest, mut bytes_read, mut bytes_waited_for, mut bytes_placed) = (0, 0, 0, 0);
    for case in 0..192_u64 {
        let (case, is_placed) = if case < 128 { (case, false) } else { (case - 64, true) };
        let config = Config {
            integrity: case & 2 == 0,
            receive_slots: if case & 4 == 0 { 1_024 } else { 20 },
            coalesce: case & 8 != 0,
            ..Config::new(if case & 1 == 0 { Service::Stream } else { Service::Datagram }, 1_444)
        };
        let (is_bad, is_slow, waits) = (case & 16 != 0, case & 32 != 0, case & 64 != 0);
        let mut dice = Dice(case);
        let mut pair = Pair::open(&config, &config);
        pair.run(20 * MS, false);
        let mut twin = pair.server().clone();
        let sizes: &[usize] = if case & 1 == 0 { &[100_000, 3_000] } else { &[1_444, 1_444, 64, 6_000] };
        for round in 0..30_u8 {
            for size in sizes.repeat(10) {
                let _ = pair.client.send(&vec![round; size]);
            }
            let sent = outputs(&mut pair.client, pair.now);
            let arrived = match is_bad {
                true => disturb(sent, &mut dice),
                false => sent.iter().map(|packet| packet.bytes().clone()).collect(),
            };
            let joined = join(&arrived);
            let now = pair.now;
            let waiting =
                if waits { [1, 1_444, 30_000, 200_000][usize::try_from(dice.roll(4)).unwrap()] } else { 0 };
            let mut buffer = vec![0; waiting];
            let (len, read) = if is_placed {
                (0, take_placed(pair.server(), now, &joined, &mut buffer))
            } else {
                take_together(pair.server(), now, &joined, &mut buffer)
            };
            longest = longest.max(len);
            take_one_by_one(&mut twin, now, &joined);
            if read > 0 {
                let got = take(&mut twin, waiting, false);
                assert_eq!(got.as_deref(), Ok(&buffer[..read]), "case {case}, round {round}");
                *(if is_placed { &mut bytes_placed } else { &mut bytes_waited_for }) += read;
            }
            if dice.roll(3) == 0 {
                let _ = (pair.server().send(b"answer"), twin.send(b"answer"));
            }
            if !is_slow || round % 4 == 3 {
                let is_lent = dice.roll(2) == 0;
                loop {
                    let len = [700, 1_444, 20_000][usize::try_from(dice.roll(3)).unwrap()];
                    let got = take(pair.server(), len, is_lent);
                    assert_eq!(got, take(&mut twin, len, is_lent), "case {case}, round {round}");
                    let Ok(got) = got else { break };
                    bytes_read += got.len();
                }
                let [own, other] = [&*pair.server(), &twin].map(state);
                let alike = own.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
                let rest = own.get(alike.saturating_sub(60)..(alike + 20).min(own.len()));
                assert!(own == other, "case {case}, round {round}: another state at {rest:?}");
            }
            assert_eq!(pair.server().poll_timeout(), twin.poll_timeout(), "case {case}, round {round}");
            assert_eq!(pair.server().stats(now), twin.stats(now), "case {case}, round {round}");
            assert_eq!(events(pair.server()), events(&mut twin), "case {case}, round {round}");
            let answers = outputs(pair.server(), now);
            assert_eq!(answers, outputs(&mut twin, now), "case {case}, round {round}");
            answers.into_iter().for_each(|packet| pair.client.handle_packet(now, packet));
            pair.now += 5 * MS;
            let later = pair.now;
            [&mut pair.client, pair.server.as_mut().unwrap(), &mut twin]
                .into_iter()
                .for_each(|connection| connection.handle_timeout(later));
        }
    }
    assert!(longest >= 32 && bytes_read > 10 << 20, "{longest} packets, {bytes_read} bytes");
    assert!(bytes_waited_for.min(bytes_placed) > 1 << 20, "{bytes_waited_for} and {bytes_placed} bytes");
}
