//! What a node counts.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;

use std::io;
use std::time::Duration;

use common::on;
use weft_socket::link::{Endpoint, Hub, Link, LinkInfo, PollFds, RecvBatch, SendBatch};
use weft_socket::{ConnectError, Node, Options};

/// A device whose queue is full for ever.
struct Stuck(Endpoint);

impl Link for Stuck {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        self.0.recv(batch)
    }

    fn send(&self, _: &mut SendBatch) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn info(&self) -> LinkInfo {
        self.0.info()
    }

    fn poll_fds(&self) -> PollFds {
        self.0.poll_fds()
    }
}

#[test]
fn packets_that_the_link_does_not_take_are_dropped_and_counted() {
    let hub = Hub::new(1_500);
    let server = on(Node::builder(), hub.endpoint().unwrap());
    let client = on(Node::builder(), Stuck(hub.endpoint().unwrap()));
    let listener = server.listen(0, &Options::stream()).unwrap();
    let target = (server.underlay(), listener.local_address().port);
    let options = Options::stream().connect_timeout(Duration::from_millis(50));
    assert!(matches!(client.connect(target, &options), Err(ConnectError::TimedOut { .. })));
    let stats = client.stats();
    // The opening packet, and on a slow machine its repetition.
    let drops = stats.ports[0].stuck_drops;
    assert!(drops >= 1 && stats.ports[0].packets_out == 0, "{stats:?}");
    assert!(stats.to_json().contains(&format!("\"stuck_drops\":{drops}")), "{}", stats.to_json());
    assert_eq!(server.stats().ports[0].stuck_drops, 0);
}
