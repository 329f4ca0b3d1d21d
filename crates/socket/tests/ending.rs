//! The end of a thread or a node with connections open: what their peers are told.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;
#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod stopwatch;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use common::{PATIENCE, Pair, node, wait_until};
use stopwatch::{Stopwatch, judge};
use weft_socket::link::{Fault, Faults, Hub};
use weft_socket::{EndReason, Node, Options, RecvError};

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
