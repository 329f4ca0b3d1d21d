//! Several dedicated workers at one UDP socket: every connection gets all of its bytes, in order, and closes.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;

use std::thread;

use common::{PATIENCE, loopback, pattern, read_exactly};
use weft_socket::{Node, NodeBuilder, Options, Socket};

const CONNECTIONS: u64 = 6;
const LEN: usize = 2_000_000;

/// Sends back what it gets until the peer closes.
#[cfg(test)]
fn echo(socket: &Socket) {
    let mut buffer = vec![0; 100_000];
    loop {
        let len = socket.recv(&mut buffer).unwrap();
        if len == 0 {
            break;
        }
        assert_eq!(socket.send(&buffer[..len]).unwrap(), len);
    }
    assert!(socket.close_timeout(PATIENCE).unwrap().is_clean());
}

/// Sends bytes of its own and reads them back.
#[cfg(test)]
fn ask(socket: &Socket, seed: u64) {
    let data = pattern(LEN, seed);
    for (number, piece) in data.chunks(50_000).enumerate() {
        assert_eq!(socket.send(piece).unwrap(), piece.len());
        assert!(read_exactly(socket, piece.len()) == piece, "piece {number} of connection {seed}");
    }
    assert!(socket.close_timeout(PATIENCE).unwrap().is_clean());
}

#[cfg(test)]
fn converse(server: NodeBuilder) {
    let client = Node::builder().bind(loopback()).open().unwrap();
    let server = server.bind(loopback()).open().unwrap();
    let listener = server.listen(0, &Options::stream()).unwrap();
    let target = (server.underlay(), listener.local_address().port);
    thread::scope(|scope| {
        for seed in 0..CONNECTIONS {
            let socket = client.connect(target, &Options::stream()).unwrap();
            let accepted = listener.accept().unwrap();
            scope.spawn(move || echo(&accepted));
            scope.spawn(move || ask(&socket, seed));
        }
    });
}

#[test]
fn workers_that_sleep_serve_one_socket() {
    converse(Node::builder().workers(3));
}

#[test]
fn workers_that_poll_serve_one_socket() {
    converse(Node::builder().workers(2).spinning_workers(true));
}
