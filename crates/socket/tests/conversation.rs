//! Questions and answers that go to and fro one at a time, which leave before they are queued and go straight to who waits.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use common::{PATIENCE, Pair};
use weft_socket::link::{Endpoint, Hub, Link, LinkInfo, PollFds, Received, RecvBatch, SendBatch, Shown};
use weft_socket::{Node, Options, RecvError, Service, Socket};

/// A device of a hub that shows what came before it is received, as a ring in memory can, or does not; and that takes lone packets
/// at once, or does not. It counts how often either was of use.
struct Device {
    endpoint: Endpoint,
    is_showing: bool,
    is_taking: AtomicBool,
    shown: Mutex<VecDeque<Received>>,
    taken: AtomicUsize,
    sent: AtomicUsize,
}

impl Device {
    fn new(hub: &Hub, is_showing: bool, is_taking: bool) -> Arc<Self> {
        Arc::new(Self {
            endpoint: hub.endpoint().expect("a descriptor"),
            is_showing,
            is_taking: AtomicBool::new(is_taking),
            shown: Mutex::default(),
            taken: AtomicUsize::new(0),
            sent: AtomicUsize::new(0),
        })
    }

    fn shown(&self) -> MutexGuard<'_, VecDeque<Received>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link for Device {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        let mut shown = self.shown();
        let count = shown.len();
        shown.drain(..).for_each(|packet| batch.push(packet.from, packet.bytes));
        Ok(count + self.endpoint.recv(batch)?)
    }

    fn recv_lone(&self, _looks: u32, take: &mut dyn FnMut(SocketAddr, &[u8]) -> bool) -> Shown {
        if !self.is_showing {
            return Shown::Left;
        }
        let mut shown = self.shown();
        if shown.is_empty() {
            let mut batch = RecvBatch::with_budget(1);
            self.endpoint.recv(&mut batch).expect("a hub has no errors");
            shown.extend(batch.drain());
        }
        let Some(first) = shown.front() else { return Shown::Nothing };
        if !take(first.from, &first.bytes) {
            return Shown::Left;
        }
        shown.pop_front();
        self.taken.fetch_add(1, Ordering::Relaxed);
        Shown::Taken
    }

    fn send(&self, batch: &mut SendBatch) -> io::Result<usize> {
        self.endpoint.send(batch)
    }

    fn send_lone(&self, to: SocketAddr, head: &[u8], body: &[u8]) -> bool {
        let is_sent = self.is_taking.load(Ordering::Relaxed) && self.endpoint.send_lone(to, head, body);
        self.sent.fetch_add(usize::from(is_sent), Ordering::Relaxed);
        is_sent
    }

    fn info(&self) -> LinkInfo {
        self.endpoint.info()
    }

    fn poll_fds(&self) -> PollFds {
        self.endpoint.poll_fds()
    }
}

/// Two nodes, the devices they are on, and a connection between them.
struct Ends {
    devices: [Arc<Device>; 2],
    pair: Pair,
}

impl Ends {
    fn new(options: &Options, is_showing: bool, is_taking: bool) -> Self {
        let hub = Hub::new(1_500);
        let devices = [(); 2].map(|()| Device::new(&hub, is_showing, is_taking));
        let [server, client] = devices.clone().map(|device| {
            Node::builder().linger(Duration::ZERO).spin(PATIENCE).link(device).open().expect("a node")
        });
        Self { devices, pair: Pair::between(server, client, options) }
    }

    /// How many packets went straight to who waited, and how many left at once, at both ends.
    fn counts(&self) -> (usize, usize) {
        let sum = |count: fn(&Device) -> &AtomicUsize| {
            self.devices.iter().map(|device| count(device).load(Ordering::Relaxed)).sum()
        };
        (sum(|device| &device.taken), sum(|device| &device.sent))
    }
}

/// Polls until there is something to receive.
fn poll(socket: &Socket, buffer: &mut [u8]) -> usize {
    let begin = Instant::now();
    loop {
        match socket.try_recv(buffer) {
            Err(RecvError::WouldBlock) => assert!(begin.elapsed() < PATIENCE, "nothing comes"),
            result => return result.expect("the other end lives"),
        }
    }
}

fn options() -> [Options; 2] {
    [Options::datagram(), Options::stream()]
}

const ROUNDS: usize = 2_000;

/// One thread is the user of both ends, so that nobody waits for a processor.
#[test]
fn a_conversation_goes_the_short_way() {
    for (options, is_showing) in
        options().into_iter().flat_map(|options| [(options.clone(), true), (options, false)])
    {
        let ends = Ends::new(&options, is_showing, true);
        let Pair { accepted, connected, .. } = &ends.pair;
        let mut buffer = [0; 300];
        for round in 0..ROUNDS {
            let question: Vec<u8> =
                (0..1 + round % 250).map(|at| u8::try_from((at + round) % 251).unwrap()).collect();
            for (from, to) in [(connected, accepted), (accepted, connected)] {
                assert_eq!(from.send(&question).unwrap(), question.len());
                let len = poll(to, &mut buffer);
                assert_eq!(buffer[..len], question[..], "round {round}");
            }
        }
        let (taken, sent) = ends.counts();
        // A thread of an engine may be there first, or this one may lose its processor for longer than an answer may take.
        let expected = ROUNDS / 10..=2 * ROUNDS;
        assert!(expected.contains(&sent), "{sent} of {} left at once", 2 * ROUNDS);
        let is_bound = !is_showing || expected.contains(&taken);
        assert!(is_bound, "{taken} of {} went straight to the user", 2 * ROUNDS);
        for socket in [accepted, connected] {
            assert_eq!(socket.stats().messages_sent, ROUNDS as u64);
        }
    }
}

/// Two threads, each of which waits for the other.
#[test]
fn a_conversation_of_two_threads_goes_the_short_way_and_nothing_is_lost_where_the_link_refuses() {
    for options in options() {
        let ends = Ends::new(&options, true, true);
        let Pair { accepted, connected, .. } = &ends.pair;
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut buffer = [0; 8];
                for _ in 0..ROUNDS {
                    assert_eq!(accepted.recv(&mut buffer).unwrap(), 8);
                    accepted.send(&buffer).unwrap();
                }
            });
            let mut buffer = [0; 8];
            for round in 0..ROUNDS {
                ends.devices[1].is_taking.store(round % 7 != 0, Ordering::Relaxed);
                connected.send(&round.to_le_bytes()).unwrap();
                assert_eq!(connected.recv(&mut buffer).unwrap(), 8);
                assert_eq!(buffer, round.to_le_bytes());
            }
        });
        assert!(ends.counts().0 > 0);
    }
}

#[test]
fn whole_messages_go_the_short_way_too() {
    let ends = Ends::new(&Options::datagram(), true, true);
    let Pair { accepted, connected, .. } = &ends.pair;
    for round in 0..ROUNDS {
        // long ones are left where they lie
        let message = vec![7; round % 1_500];
        for (from, to) in [(connected, accepted), (accepted, connected)] {
            from.send(&message).unwrap();
            assert!(to.recv_message().unwrap().into_bytes() == message[..], "round {round}");
        }
    }
    let (taken, _) = ends.counts();
    assert!(taken > ROUNDS / 10, "{taken} of {}", 2 * ROUNDS);
}

/// A message of any size, whichever way it comes.
#[test]
fn a_vector_gets_whole_messages_and_nothing_else() {
    for options in options() {
        let ends = Ends::new(&options, true, true);
        let Pair { accepted, connected, .. } = &ends.pair;
        let is_stream = accepted.service() == Service::Stream;
        let mut received = vec![9; 5];
        for len in (0..200).map(|round| round * 7).chain([10_000, 3, 100_000, 1]) {
            if is_stream && !(1..=1_000).contains(&len) {
                continue;
            }
            let message: Vec<u8> = (0..len).map(|at| u8::try_from((at + len) % 251).unwrap()).collect();
            for (from, to) in [(connected, accepted), (accepted, connected)] {
                from.send(&message).unwrap();
                assert_eq!(to.recv_into(&mut received), Ok(len));
                assert!(received == message, "{len} bytes");
            }
        }
        assert!(ends.counts().0 > 0);
        accepted.set_nonblocking(true);
        assert_eq!(accepted.recv_into(&mut received), Err(RecvError::WouldBlock));
        accepted.set_nonblocking(false);
        accepted.set_recv_timeout(Some(Duration::from_millis(1)));
        assert!(matches!(accepted.recv_into(&mut received), Err(RecvError::TimedOut(_))));
        accepted.set_recv_timeout(None);
        connected.close_start();
        assert_eq!(accepted.recv_into(&mut received), Err(RecvError::EndOfFile));
    }
}

/// What does not fit the buffer is lost of a message, and is received next of a stream.
#[test]
fn a_buffer_that_is_too_small_gets_what_it_gets_by_the_ordinary_way() {
    for options in options() {
        let ends = Ends::new(&options, true, true);
        let Pair { accepted, connected, .. } = &ends.pair;
        let is_stream = accepted.service() == Service::Stream;
        for round in 0..200_u8 {
            let answer = [round; 100];
            for (from, to) in [(connected, accepted), (accepted, connected)] {
                from.send(&answer).unwrap();
                let mut buffer = [0; 30];
                let received = to.recv_whole(&mut buffer).unwrap();
                assert_eq!((received.len, received.truncated), (30, if is_stream { 0 } else { 70 }));
                assert_eq!(buffer, [round; 30]);
                let mut rest = if is_stream { 70 } else { 0 };
                while rest > 0 {
                    rest -= to.recv(&mut buffer).unwrap();
                }
            }
        }
        assert!(is_stream || ends.counts().0 > 100);
    }
}

#[test]
fn two_messages_at_once_are_received_in_their_order() {
    let ends = Ends::new(&Options::datagram(), true, true);
    let Pair { accepted, connected, .. } = &ends.pair;
    let mut buffer = [0; 8];
    for round in 0..ROUNDS {
        let messages = [round.to_le_bytes(), (!round).to_le_bytes()];
        for (from, to) in [(connected, accepted), (accepted, connected)] {
            messages.iter().for_each(|message| assert_eq!(from.send(message).unwrap(), 8));
            from.flush();
            for message in messages {
                assert_eq!((to.recv(&mut buffer).unwrap(), buffer), (8, message));
            }
        }
    }
}
