//! Two nodes on different networks, with real I/O nodes between them.

#[cfg(test)]
mod two_networks;

use std::thread;
use std::time::{Duration, Instant};

use two_networks::{default_of, exchange, id, io_node, node, side};
use weft_socket::{Address, ConnectError, Options, Port};

/// Longest time any wait may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Messages go on, without an error and in order, when the I/O node that carries them is gone, and return to it when it is
/// back. Without any I/O node there is an end in good time.
#[test]
fn a_connection_outlives_the_io_node_that_carries_it() {
    let mut io_nodes: Vec<_> = [11, 12].map(|number| Some(io_node(number))).into();
    let (host, compute) = (node(1), node(2));
    let listener = compute.listen(7, &Options::datagram()).unwrap();
    thread::spawn(move || {
        let Ok(peer) = listener.accept() else { return };
        let mut message = [0; 64];
        while let Ok(len) = peer.recv(&mut message) {
            if peer.send(&message[..len]).is_err() {
                break;
            }
        }
    });
    let there = Address { node: id(2), port: Port::ECHO };
    let socket = host.connect(there, &Options::datagram()).unwrap();
    socket.set_recv_timeout(Some(PATIENCE));
    let mut numbers = 0..;
    let mut exchange_some =
        |count: usize| numbers.by_ref().take(count).for_each(|number| exchange(&socket, number));
    exchange_some(100);

    let first = default_of(&host);
    drop(io_nodes[first].take());
    exchange_some(100);
    assert_ne!(default_of(&host), first);
    let left = side(&host);
    assert!(left.io_nodes[first].is_demoted && left.switches >= 1, "{left:?}");

    io_nodes[first] = Some(io_node([11, 12][first]));
    let deadline = Instant::now() + PATIENCE;
    while default_of(&host) != first {
        assert!(Instant::now() < deadline, "{:?}", side(&host));
        exchange_some(1);
    }
    exchange_some(100);
    assert!(!side(&host).io_nodes[first].is_demoted);

    io_nodes.clear();
    let options = Options::datagram().connect_timeout(Duration::from_millis(300));
    let failed = host.connect(there, &options).unwrap_err();
    assert!(matches!(failed, ConnectError::TimedOut { .. }), "{failed:?}");
    socket.abort();
}
