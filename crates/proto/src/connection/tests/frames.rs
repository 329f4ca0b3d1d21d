//! First transmissions leave from where they lie.

use bytes::Bytes;
use weft_frame::Frames;

use super::*;

/// A packet that lies in the connection's memory, or else a copy.
type Polled = Result<Frames, Packet>;

fn in_place(connection: &mut Connection, now: Instant) -> Vec<Polled> {
    let mut packets = Vec::new();
    loop {
        let mut head = Vec::new();
        let Some(transmit) = connection.poll_transmit_in_place(now, &mut head) else { return packets };
        packets.push(match connection.frame(&transmit) {
            Some(frame) => {
                assert!(head.is_empty() && transmit.head.is_empty() && transmit.body.is_empty());
                Ok(frame.to_frames())
            }
            None => {
                head.extend_from_slice(&transmit.body);
                Err(parse(head))
            }
        });
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
    let mut held: Vec<(u8, Frames)> = Vec::new();
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
        let is_whole = |(byte, frames): &(u8, Frames)| frames[28..].iter().all(|is| is == byte);
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
