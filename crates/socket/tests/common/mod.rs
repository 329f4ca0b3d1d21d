//! Two nodes and a connection between them, over real UDP or over a bad network within the process.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use weft_socket::link::{Fault, Faults, Hub, Link};
use weft_socket::{Listener, Node, NodeBuilder, Options, Socket};

/// Longest time any wait of a test may take before it counts as a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

pub(crate) fn node() -> Node {
    Node::builder().bind(loopback()).open().unwrap()
}

/// A UDP port that nobody serves, so that the host says so, and that nobody else gets while the value lives: a socket that
/// hears its peer alone, which is itself.
pub(crate) fn refusing_port() -> (UdpSocket, SocketAddr) {
    let held = UdpSocket::bind(loopback()).unwrap();
    let at = held.local_addr().unwrap();
    held.connect(at).unwrap();
    (held, at)
}

/// Waits until the condition holds; fails after [`PATIENCE`].
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A server, a client, and a connection between them: (server, client, accepted, connected).
pub(crate) struct Pair {
    pub(crate) server: Node,
    pub(crate) client: Node,
    pub(crate) listener: Listener,
    pub(crate) accepted: Socket,
    pub(crate) connected: Socket,
}

impl Pair {
    /// Over UDP on the loopback interface.
    pub(crate) fn over_udp(options: &Options) -> Self {
        Self::between(node(), node(), options)
    }

    /// Over a hub of frames of 1,500 bytes, the client's link disturbed in both directions.
    pub(crate) fn over_faults(options: &Options, faults: &str, seed: u64) -> Self {
        let hub = Hub::new(1_500);
        let faults: Faults = faults.parse().unwrap();
        let bad = Fault::new(hub.endpoint().unwrap(), seed, faults, faults).unwrap();
        let server = on(Node::builder(), hub.endpoint().unwrap());
        let client = on(Node::builder(), bad);
        Self::between(server, client, options)
    }

    pub(crate) fn between(server: Node, client: Node, options: &Options) -> Self {
        let listener = server.listen(0, options).unwrap();
        let target = (server.underlay(), listener.local_address().port);
        let connected = client.connect(target, options).unwrap();
        let accepted = listener.accept_timeout(PATIENCE).unwrap();
        for socket in [&accepted, &connected] {
            socket.set_recv_timeout(Some(PATIENCE));
            socket.set_send_timeout(Some(PATIENCE));
        }
        Self { server, client, listener, accepted, connected }
    }
}

pub(crate) fn on(builder: NodeBuilder, link: impl Link + 'static) -> Node {
    builder.link(Arc::new(link)).open().unwrap()
}

/// Bytes that differ from place to place.
pub(crate) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

/// Reads a stream to its end, or until it has `len` bytes.
pub(crate) fn read_exactly(socket: &Socket, len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    let mut at = 0;
    while at < len {
        let count = socket.recv(&mut data[at..]).unwrap();
        assert!(count > 0, "the stream ended after {at} of {len} bytes");
        at += count;
    }
    data
}
