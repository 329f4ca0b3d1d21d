//! The end of a thread or a node with connections open: what their peers are told.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;
#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod stopwatch;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::{PATIENCE, Pair, node, wait_until};
use stopwatch::{Stopwatch, judge};
use weft_socket::link::{Endpoint, Fault, Faults, Hub, Link, LinkInfo, PollFds, RecvBatch, SendBatch};
use weft_socket::{AcceptError, ConnectError, EndReason, Node, Options, RecvError, SendError};

/// A link that keeps the first packet that it sent, and can send it again.
#[cfg(test)]
struct Again {
    link: Endpoint,
    first: Mutex<Option<(SocketAddr, Vec<u8>)>>,
}

#[cfg(test)]
impl Again {
    fn send_first_again(&self) {
        let first = self.first.lock().unwrap();
        let (to, bytes) = first.as_ref().unwrap();
        let mut batch = SendBatch::new();
        batch.heads_mut().extend_from_slice(bytes);
        batch.push_laid(*to, 0..bytes.len(), false);
        assert_eq!(self.link.send(&mut batch).unwrap(), 1);
    }
}

#[cfg(test)]
impl Link for Again {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        self.link.recv(batch)
    }

    fn send(&self, batch: &mut SendBatch) -> io::Result<usize> {
        let mut first = self.first.lock().unwrap();
        if let Some(frame) = batch.iter().next() {
            first.get_or_insert_with(|| (frame.to, [frame.head, frame.body].concat()));
        }
        self.link.send(batch)
    }

    fn info(&self) -> LinkInfo {
        self.link.info()
    }

    fn poll_fds(&self) -> PollFds {
        self.link.poll_fds()
    }
}

/// [CDP-ST-H] A thread that fails with a connection in its hands is no orderly end: RST|ACK with REASON 4. What had
/// arrived before stays readable ([CDP-ERR-2]).
#[test]
fn a_thread_that_panics_resets_its_connection() {
    let pair = Pair::over_udp(&Options::stream());
    let connected = pair.connected;
    connected.send(b"half of it").unwrap();
    let mut buffer = [0; 16];
    assert_eq!(pair.accepted.recv(&mut buffer), Ok(10));
    let failed = thread::spawn(move || {
        let _socket = connected;
        panic!("on purpose, to see what the peer is told");
    });
    assert!(failed.join().is_err());
    match pair.accepted.recv(&mut buffer) {
        Err(RecvError::Ended(ended)) => assert_eq!(ended.reason, EndReason::Died),
        other => panic!("{other:?}"),
    }
}

/// [CDP-ST-H] A socket that goes out of scope is closed by FIN: the peer sees the end of file.
#[test]
fn a_thread_that_ends_closes_its_connection() {
    let pair = Pair::over_udp(&Options::stream());
    let connected = pair.connected;
    thread::spawn(move || connected.send(b"all of it").unwrap()).join().unwrap();
    let mut buffer = [0; 16];
    assert_eq!(pair.accepted.recv(&mut buffer), Ok(9));
    assert_eq!(pair.accepted.recv(&mut buffer), Ok(0));
}

/// A send that comes before the connection is open waits for that, and goes.
#[test]
fn a_send_before_the_answer_to_the_open_goes_when_it_comes() {
    let hub = Hub::new(1_500);
    let slow: Faults = "delay=20ms".parse().unwrap();
    let link = Arc::new(Fault::new(hub.endpoint().unwrap(), 1, slow, slow).unwrap());
    let server = Node::builder().link(Arc::new(hub.endpoint().unwrap())).open().unwrap();
    let client = Node::builder().link(link).open().unwrap();
    for options in [Options::stream(), Options::datagram()] {
        let listener = server.listen(0, &options).unwrap();
        let target = (server.underlay(), listener.local_address().port);
        let socket = client.connect_start(target, &options).unwrap();
        socket.set_send_timeout(Some(PATIENCE));
        assert_eq!(socket.send(b"early"), Ok(5));
        let accepted = listener.accept_timeout(PATIENCE).unwrap();
        let mut buffer = [0; 16];
        assert_eq!(accepted.recv(&mut buffer), Ok(5));
        socket.abort();
    }
}

/// A node goes down while others listen on it: none of them waits for ever for somebody who cannot come.
#[test]
fn a_listener_that_begins_as_its_node_goes_down_is_closed() {
    for _ in 0..100 {
        let node = node();
        let listeners = thread::scope(|scope| {
            let begins = scope.spawn(|| {
                let mut listeners = Vec::new();
                while let Ok(listener) = node.listen(0, &Options::stream()) {
                    listeners.push(listener);
                }
                listeners
            });
            thread::sleep(Duration::from_micros(200));
            node.shutdown(Duration::ZERO);
            begins.join().unwrap()
        });
        for listener in listeners {
            let failed = listener.accept_timeout(Duration::from_millis(1)).unwrap_err();
            assert!(!matches!(failed, AcceptError::TimedOut(_)), "{failed:?}");
        }
    }
}

/// Who waits for room in `send` learns at once that another thread closes.
#[test]
fn a_blocked_send_ends_when_this_end_closes() {
    for (options, message) in [(Options::datagram(), 1_000), (Options::stream(), 100_000)] {
        // Its peer reads nothing.
        let pair = Pair::over_udp(&options.close_timeout(Duration::from_secs(1)));
        let message = vec![7; message];
        thread::scope(|scope| {
            let sends = scope.spawn(|| {
                loop {
                    match pair.connected.send(&message) {
                        Ok(_) => {}
                        Err(error) => return error,
                    }
                }
            });
            wait_until("the send queue is full", || {
                let before = pair.connected.stats().messages_sent;
                thread::sleep(Duration::from_millis(100));
                before > 0 && pair.connected.stats().messages_sent == before
            });
            let watch = Stopwatch::start();
            pair.connected.close_start();
            let failed = sends.join().unwrap();
            assert!(matches!(failed, SendError::Closed), "{failed:?}");
            assert!(watch.ran() < Duration::from_secs(3), "{:?}", watch.ran());
        });
        pair.connected.abort();
    }
}

/// [CDP-ST-C] A node that ends stays in QUIET until a peer whose FIN it acknowledged may be believed to know: for some RTOs,
/// which a machine that stands still lets pass unused.
#[test]
fn a_peer_that_missed_the_answer_to_its_close_gets_another() {
    judge(|| {
        let hub = Hub::new(1_500);
        // Slow enough that the first repetition comes long after the server has gone about its end.
        let slow: Faults = "delay=20ms".parse().unwrap();
        let link = Arc::new(Fault::new(hub.endpoint().unwrap(), 1, slow, slow).unwrap());
        let server = Node::builder().link(link.clone()).open().unwrap();
        let client = Node::builder().link(Arc::new(hub.endpoint().unwrap())).open().unwrap();
        let options = Options::stream().close_timeout(Duration::from_secs(3));
        let Pair { server, client: _client, listener, accepted, connected } =
            Pair::between(server, client, &options);

        link.set("loss=100%".parse().unwrap(), slow);
        connected.close_start();
        assert_eq!(accepted.recv(&mut [0; 8]), Ok(0), "the end of file");
        accepted.close_timeout(PATIENCE).unwrap();
        link.set(slow, slow);
        drop((accepted, listener, server));
        let result = connected.close_timeout(PATIENCE).unwrap();
        if result.confirmed { Ok(()) } else { Err(format!("{result:?}")) }
    });
}

/// [CDP-ST-48] [CDP-ST-G] The SYN that began a connection comes again, late: the connection stays in QUIET. A new one for its ports
/// that nobody listens for is refused, and does not end it either.
#[test]
fn only_a_new_syn_to_a_listener_ends_quiet() {
    let hub = Hub::new(1_500);
    let link = Arc::new(Again { link: hub.endpoint().unwrap(), first: Mutex::default() });
    let server = Node::builder().link(Arc::new(hub.endpoint().unwrap())).open().unwrap();
    let client = Node::builder().link(link.clone()).open().unwrap();
    let Pair { server, client, listener, accepted, connected } =
        Pair::between(server, client, &Options::stream());
    let own_port = connected.local_address().port.get();
    let target = (server.underlay(), listener.local_address().port);
    connected.close_timeout(PATIENCE).unwrap();
    accepted.close_timeout(PATIENCE).unwrap();
    wait_until("the server is quiet", || server.stats().quiet == 1);

    link.send_first_again();
    // What comes after it on the same link shows that it was handled.
    let after = client.connect(target, &Options::stream()).unwrap();
    let after = (after, listener.accept_timeout(PATIENCE).unwrap());
    assert_eq!((server.stats().quiet, server.stats().listeners[0].half_open), (1, 0));

    drop(listener);
    let refused = client.connect(target, &Options::stream().local_port(own_port)).unwrap_err();
    assert!(matches!(refused, ConnectError::Refused { .. }), "{refused:?}");
    assert_eq!(server.stats().quiet, 1);
    drop(after);
}

/// [CDP-ST-C] In QUIET an end keeps no buffers, so it promises no memory either.
#[test]
fn a_closed_connection_gives_its_memory_back_at_once() {
    let Pair { server, client, listener: _listener, accepted, connected } =
        Pair::over_udp(&Options::stream());
    assert!(server.stats().promised_bytes > 0 && client.stats().promised_bytes > 0);
    connected.close_timeout(PATIENCE).unwrap();
    assert_eq!(accepted.recv(&mut [0; 8]), Ok(0));
    accepted.close_timeout(PATIENCE).unwrap();
    wait_until("both are quiet", || [&server, &client].iter().all(|node| node.stats().quiet == 1));
    for node in [&server, &client] {
        assert_eq!(node.stats().promised_bytes, 0);
    }
}

/// A node that ends while nobody closes towards it does not wait for anybody.
#[test]
fn a_node_with_nothing_to_answer_ends_at_once() {
    let lonely = node();
    let watch = Stopwatch::start();
    assert_eq!(lonely.shutdown(PATIENCE), 0);
    assert!(watch.ran() < Duration::from_secs(1), "{:?}", watch.ran());
}
