//! A peer whose packets come from another address than before (CDP-ADR-7).

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{PATIENCE, Pair, on};
use weft_socket::link::{Endpoint, Fault, Faults, Hub, Link, LinkInfo, PollFds, RecvBatch, SendBatch};
use weft_socket::{Node, Options};

/// A device that leaves by one of two addresses, and hears at the second only if it is there.
struct Roaming {
    first: Endpoint,
    second: Endpoint,
    leaves_by_second: Arc<AtomicBool>,
    is_at_second: Arc<AtomicBool>,
}

impl Link for Roaming {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        if self.is_at_second.load(Ordering::SeqCst) {
            // what still comes to where it was is lost
            self.first.recv(&mut RecvBatch::new())?;
            return self.second.recv(batch);
        }
        self.first.recv(batch)
    }

    fn send(&self, batch: &mut SendBatch) -> io::Result<usize> {
        let by_second = self.leaves_by_second.load(Ordering::SeqCst);
        if by_second { self.second.send(batch) } else { self.first.send(batch) }
    }

    fn info(&self) -> LinkInfo {
        self.first.info()
    }

    fn poll_fds(&self) -> PollFds {
        self.first.poll_fds()
    }

    fn next_due(&self) -> Option<Duration> {
        // its second descriptor is not told, so it is looked at
        Some(Duration::from_millis(1))
    }
}

#[cfg(test)]
struct World {
    pair: Pair,
    hub: Hub,
    first: std::net::SocketAddr,
    second: std::net::SocketAddr,
    leaves_by_second: Arc<AtomicBool>,
    is_at_second: Arc<AtomicBool>,
}

#[cfg(test)]
impl World {
    /// What the server sends and gets is under way for so long.
    fn new(delay: Duration) -> Self {
        let hub = Hub::new(1_500);
        let slow = Faults { delay, ..Faults::NONE };
        let device = Fault::new(hub.endpoint().unwrap(), 1, slow, slow).unwrap();
        let server = on(Node::builder().linger(Duration::ZERO), device);
        let (first, second) = (hub.endpoint().unwrap(), hub.endpoint().unwrap());
        let (first_at, second_at) = (first.info().local, second.info().local);
        let (leaves_by_second, is_at_second) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
        let device = Roaming {
            first,
            second,
            leaves_by_second: leaves_by_second.clone(),
            is_at_second: is_at_second.clone(),
        };
        let client = on(Node::builder().linger(Duration::ZERO), device);
        let pair = Pair::between(server, client, &Options::datagram());
        Self { pair, hub, first: first_at, second: second_at, leaves_by_second, is_at_second }
    }

    fn talk(&self, word: &[u8]) {
        let mut buffer = [0; 64];
        self.pair.connected.send(word).unwrap();
        self.pair.connected.flush();
        assert_eq!(self.pair.accepted.recv(&mut buffer), Ok(word.len()));
    }
}

/// Also where the way there and back takes longer than it is until the question is asked again.
#[test]
fn a_peer_that_moves_is_found_where_it_answers() {
    [Duration::ZERO, Duration::from_millis(40)].into_iter().for_each(is_found);
}

#[cfg(test)]
fn is_found(delay: Duration) {
    let world = World::new(delay);
    world.talk(b"from the first");
    assert_eq!(world.pair.accepted.peer_underlay(), world.first);
    world.leaves_by_second.store(true, Ordering::SeqCst);
    world.is_at_second.store(true, Ordering::SeqCst);
    world.talk(b"from the second");
    let begin = Instant::now();
    while world.pair.accepted.peer_underlay() != world.second {
        assert!(begin.elapsed() < PATIENCE, "it is not followed");
        let _ = world.pair.connected.send(b"here");
        thread::sleep(Duration::from_millis(5));
    }
    let mut buffer = [0; 64];
    world.pair.accepted.send(b"answer").unwrap();
    assert_eq!(world.pair.connected.recv(&mut buffer), Ok(6));
}

/// Whoever writes another's address on his packets has nothing sent there but a question now and then.
#[test]
fn where_nobody_answers_nothing_is_sent_but_a_question() {
    let world = World::new(Duration::ZERO);
    world.talk(b"from the first");
    world.leaves_by_second.store(true, Ordering::SeqCst);
    let before = world.pair.accepted.stats().packets_sent;
    for _ in 0..20 {
        world.talk(b"from nowhere");
        thread::sleep(Duration::from_millis(2));
    }
    world.pair.accepted.send(&[7; 40]).unwrap();
    let mut buffer = [0; 64];
    assert_eq!(world.pair.connected.recv(&mut buffer), Ok(40), "it goes where the peer was");
    assert_eq!(world.pair.accepted.peer_underlay(), world.first);
    assert!(world.pair.accepted.stats().packets_sent > before);
    drop(world.hub);
}
