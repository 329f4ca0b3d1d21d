//! First transmissions leave from where they lie.

use bytes::Bytes;

use super::*;

/// A packet that lies in the connection's memory, or else a copy.
type Polled = Result<Bytes, Packet>;

fn in_place(connection: &mut Connection, now: Instant) -> Vec<Polled> {
    in_place_by(connection, now, 0).0
}

/// Those of one size come together, up to `room` bytes; tells how many at most.
fn in_place_by(connection: &mut Connection, now: Instant, room: usize) -> (Vec<Polled>, u32) {
    let (mut packets, mut longest) = (Vec::new(), 0);
    loop {
        let mut head = Vec::new();
        let Some(transmit) = connection.poll_transmit_in_place(now, &mut head, room) else {
            return (packets, longest);
        };
        longest = longest.max(transmit.packets);
        match connection.frame(&transmit) {
            Some(frame) => {
                assert!(head.is_empty() && transmit.head.is_empty() && transmit.body.is_empty());
                assert!(transmit.packets == 1 || frame.len() <= room);
                let size = frame.len() / transmit.packets as usize;
                let frames = Bytes::from_owner(frame.to_frames());
                let starts = (0..frames.len()).step_by(size);
                packets.extend(starts.map(|start| Ok(frames.slice(start..start + size))));
            }
            None => {
                assert_eq!(transmit.packets, 1);
                head.extend_from_slice(&transmit.body);
                packets.push(Err(parse(head)));
            }
        }
    }
}

fn packet(polled: &Polled) -> Packet {
    polled.as_ref().map_or_else(Packet::clone, |frames| parse(frames.to_vec()))
}

fn open(service: Service) -> Pair {
    let config = Config { pacing: false, ..Config::new(service, 1_444) };
    let mut pair = Pair::open(&config, &config);
    pair.run(20 * MS, false);
    pair
}

#[test]
fn full_packets_of_a_stream_lie_end_to_end_and_are_the_same_as_copies() {
    let mut pair = open(Service::Stream);
    let data: Vec<u8> = (0..20 * 1_444_u32).map(|i| i.to_le_bytes()[0]).collect();
    assert_eq!(pair.client.send(&data), Ok(data.len()));
    let mut twin = pair.client.clone();
    let polled = in_place(&mut pair.client, pair.now);
    let copies = outputs(&mut twin, pair.now);
    assert!(polled.iter().map(packet).eq(copies));
    assert!(polled.len() >= 10 && polled.iter().all(Result::is_ok));
    let places: Vec<_> = polled.iter().flatten().map(|frames| frames.as_ptr_range()).collect();
    assert!(places.windows(2).all(|two| two[0].end == two[1].start));
}

/// Packets that come together are those that would have come one by one, and leave the machine as those do: with whatever ends a
/// run, be it a window, the pacer, the room, or a packet of another size.
#[test]
fn packets_that_come_together_are_those_that_come_one_by_one() {
    let mut longest = 0;
    for case in 0..64_usize {
        let service = if case & 1 == 0 { Service::Stream } else { Service::Datagram };
        let initial_window = Some([5, 32, 100, 1_000][case >> 1 & 3]);
        let config = Config {
            pacing: case & 8 != 0,
            receive_slots: if case & 16 == 0 { 1_024 } else { 20 },
            congestion_settings: Settings { initial_window, ..Settings::default() },
            ..Config::new(service, 1_444)
        };
        let mut pair = Pair::open(&config, &config);
        pair.run(20 * MS, false);
        let sizes: &[usize] = if case & 32 == 0 { &[100_000, 3_000, 20_000] } else { &[1_000, 1_444, 64] };
        for round in 0..12 {
            for size in sizes.repeat(12) {
                let _ = pair.client.send(&vec![round; size]);
            }
            let mut twin = pair.client.clone();
            let room = [0, 1_471, 10_000, 65_000][usize::from(round) % 4];
            let (together, run) = in_place_by(&mut pair.client, pair.now, room);
            let by_one = in_place(&mut twin, pair.now);
            assert!(together.iter().map(packet).eq(by_one.iter().map(packet)), "case {case}, round {round}");
            assert_eq!(pair.client.poll_timeout(), twin.poll_timeout(), "case {case}, round {round}");
            assert_eq!(pair.client.stats(pair.now), twin.stats(pair.now), "case {case}, round {round}");
            // a clone, as the twin is: it has no pages to cut buffers off
            let here = format!("{:?}", pair.client.clone());
            assert_eq!(here, format!("{twin:?}"), "case {case}, round {round}");
            longest = longest.max(run);
            pair.to_server.extend(together.iter().map(packet));
            pair.now += MS;
            pair.settle();
            while pair.server().recv_message().is_ok_and(|message| message.is_some()) {}
            pair.settle();
            let now = pair.now;
            assert_eq!(
                pair.server().stats(now).not_current,
                0,
                "case {case}: a wrong checksum is a wrong number"
            );
        }
    }
    assert_eq!(longest, 44, "as many as there is room for");
}

#[test]
fn what_is_sent_again_is_a_copy_and_what_lies_on_the_link_stays_as_it_was() {
    let mut pair = open(Service::Stream);
    let data: Vec<u8> = (0..5_000_u32).map(|i| (i / 100).to_le_bytes()[0]).collect();
    pair.client.send(&data).unwrap();
    let first = in_place(&mut pair.client, pair.now);
    let before: Vec<Packet> = first.iter().map(packet).collect();
    pair.now += 3_000 * MS;
    pair.client.handle_timeout(pair.now);
    let again = in_place(&mut pair.client, pair.now);
    assert!(!again.is_empty() && again.iter().all(Result::is_err));
    let again = packet(&again[0]).payload();
    assert!(before.iter().any(|packet| packet.payload() == again), "the tail");
    pair.client.send(&[200; 5_000]).unwrap();
    assert!(first.iter().map(packet).eq(before));
}

/// Whoever holds what has been acknowledged keeps it: its memory is not filled again before he lets go.
#[test]
fn memory_that_somebody_holds_is_not_filled_again() {
    let mut pair = open(Service::Stream);
    let mut held: Vec<(u8, Bytes)> = Vec::new();
    for round in 0..200_u8 {
        pair.client.send(&vec![round; 30 * 1_444]).unwrap();
        for polled in in_place(&mut pair.client, pair.now) {
            let packet = packet(&polled);
            if let (Kind::Data, Ok(frames)) = (packet.kind(), polled) {
                held.push((packet.payload()[0], frames));
            }
            pair.to_server.push(packet);
        }
        pair.settle();
        read(pair.server());
        pair.settle();
        held.drain(..held.len().saturating_sub(500));
        let is_whole = |(byte, frames): &(u8, Bytes)| frames[28..].iter().all(|is| is == byte);
        assert!(held.iter().all(is_whole), "round {round}");
    }
    assert_eq!(held.len(), 500);
}

#[test]
fn messages_leave_from_where_they_lie_but_for_short_and_lent_ones() {
    let mut pair = open(Service::Datagram);
    for message in [&[1; 64][..], &[2; 512], &[3; 1_444], &[], &[4; 2_700]] {
        pair.client.send(message).unwrap();
        let polled = in_place(&mut pair.client, pair.now);
        let are_here = polled.iter().all(Result::is_ok);
        assert_eq!(are_here && !polled.is_empty(), message.len() >= 512, "{} bytes", message.len());
        pair.to_server.extend(polled.iter().map(packet));
        pair.settle();
        assert!(read(pair.server()) == message, "{} bytes", message.len());
    }
    pair.client.send_lent(&Bytes::from(vec![5; 1_000])).unwrap();
    assert!(in_place(&mut pair.client, pair.now).iter().all(Result::is_err));
}
