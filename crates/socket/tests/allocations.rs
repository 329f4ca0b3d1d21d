//! In the long run no memory is allocated for a packet, at either end: what is sent and what is received lies in memory that
//! is used again.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;

use std::thread;

use allocation_counter::measure;
use common::{Pair, loopback, on, pattern};
use weft_socket::link::{Udp, UdpOptions};
use weft_socket::{Node, Options};

/// Full packets of a warm-up, in which buffers grow to the size that they keep, and of a measurement.
const PACKETS: usize = 20_000;
/// Bytes of one.
const MSS: usize = 1_444;
/// What may be allocated for each packet: a chunk of 44, the count of its handles and the lists of chunks, where a slow machine
/// acknowledges all before the next send.
const PER_PACKET_MAX: f64 = 1.0 / 5.0;

fn node() -> Node {
    let options = UdpOptions { mtu: Some(1_500), ..UdpOptions::default() };
    on(Node::builder(), Udp::bind_with(loopback(), &options).expect("a free port"))
}

/// What `work` allocates in this thread for each of so many packets, when it is done for the second time.
fn per_packet(work: impl Fn()) -> f64 {
    work();
    #[allow(clippy::cast_precision_loss)]
    {
        measure(work).count_total as f64 / PACKETS as f64
    }
}

/// Both ends at the same time, the first of which sends.
fn assert_that_neither_allocates(
    options: &Options,
    write: impl Fn(&Pair) + Sync,
    read: impl Fn(&Pair) + Sync,
) {
    let pair = Pair::between(node(), node(), options);
    let both = thread::scope(|scope| {
        let ends = [scope.spawn(|| per_packet(|| write(&pair))), scope.spawn(|| per_packet(|| read(&pair)))];
        ends.map(|end| end.join().expect("an end that works"))
    });
    assert!(both.iter().all(|&each| each <= PER_PACKET_MAX), "sender and receiver: {both:?} a packet");
}

#[test]
fn a_stream_allocates_nothing_for_a_packet() {
    let piece = pattern(PACKETS / 200 * MSS, 1);
    let write =
        |pair: &Pair| (0..200).for_each(|_| assert_eq!(pair.connected.send(&piece).unwrap(), piece.len()));
    let read = |pair: &Pair| {
        let mut buffer = vec![0; piece.len()];
        let mut left = PACKETS * MSS;
        while left > 0 {
            let most = left.min(buffer.len());
            left -= pair.accepted.recv(&mut buffer[..most]).unwrap();
        }
    };
    assert_that_neither_allocates(&Options::stream(), write, read);
}

#[test]
fn a_datagram_allocates_nothing() {
    let message = pattern(MSS - 2, 1);
    let write = |pair: &Pair| {
        (0..PACKETS).for_each(|_| assert_eq!(pair.connected.send(&message).unwrap(), message.len()));
    };
    let read = |pair: &Pair| {
        let mut buffer = vec![0; MSS];
        (0..PACKETS).for_each(|_| assert_eq!(pair.accepted.recv(&mut buffer).unwrap(), message.len()));
    };
    assert_that_neither_allocates(&Options::datagram(), write, read);
}
