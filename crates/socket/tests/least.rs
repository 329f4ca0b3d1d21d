//! The least round trip is one that was: no thread that is kept from the processor makes it shorter.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;

use std::io;
use std::thread;
use std::time::Duration;

use common::{Pair, on};
use weft_socket::link::{Endpoint, Fault, Faults, Hub, Link, LinkInfo, PollFds, RecvBatch, SendBatch};
use weft_socket::{Node, Options};

/// How long what is sent is under way, each way, and both.
const DELAY: Duration = Duration::from_millis(10);
const WAY: Duration = Duration::from_millis(20);

/// A device whose threads are kept from the processor each time they are about to look whether something came.
struct Kept(Fault<Endpoint>);

impl Link for Kept {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        thread::sleep(DELAY / 2);
        self.0.recv(batch)
    }

    fn send(&self, batch: &mut SendBatch) -> io::Result<usize> {
        self.0.send(batch)
    }

    fn info(&self) -> LinkInfo {
        self.0.info()
    }

    fn poll_fds(&self) -> PollFds {
        self.0.poll_fds()
    }

    fn next_due(&self) -> Option<Duration> {
        self.0.next_due()
    }
}

/// What is acknowledged by packets of its own, and by answers of a conversation.
#[test]
fn no_round_trip_is_shorter_than_the_way() {
    let hub = Hub::new(1_500);
    let server = on(Node::builder().linger(Duration::ZERO), hub.endpoint().unwrap());
    let slow = Faults { delay: DELAY, ..Faults::NONE };
    let device = Kept(Fault::new(hub.endpoint().unwrap(), 1, slow, slow).unwrap());
    let client = on(Node::builder().linger(Duration::ZERO), device);
    let Pair { accepted, connected, server: _server, client: _client, .. } =
        Pair::between(server, client, &Options::datagram());
    for number in 0..60_u8 {
        connected.send(&[number]).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
    let mut buffer = [0; 8];
    for number in 0..60 {
        assert_eq!((accepted.recv(&mut buffer), buffer[0]), (Ok(1), number));
    }
    let least = connected.stats().rtt_min.unwrap();
    assert!(least >= WAY, "{least:?}");
    for number in 0..40_u8 {
        connected.send(&[number]).unwrap();
        assert_eq!(accepted.recv(&mut buffer), Ok(1));
        accepted.send(&[number]).unwrap();
        assert_eq!((connected.recv(&mut buffer), buffer[0]), (Ok(1), number));
    }
    let least = connected.stats().rtt_min.unwrap();
    assert!(least >= WAY, "{least:?} in a conversation");
}
