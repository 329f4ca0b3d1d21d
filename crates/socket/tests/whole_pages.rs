//! A long stream of small packets, which lie in pages of their own and leave as groups that fill them (decision 0094).

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use common::{Pair, loopback, on, pattern, read_exactly};
use weft_socket::link::{
    Endpoint, Hub, Link, LinkInfo, LinkStats, PeerMss, PollFds, RecvBatch, SendBatch, Udp, UdpOptions,
};
use weft_socket::{Node, Options};

/// What is sent before packets lie in pages.
const UNPAGED_BYTES: usize = 20 << 20;

/// A device that counts batches whose full packets lie in more than one piece of memory.
struct Watched {
    device: Endpoint,
    prefers_whole_pages: bool,
    mixed: Arc<AtomicUsize>,
}

impl Link for Watched {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        self.device.recv(batch)
    }

    fn send(&self, batch: &mut SendBatch) -> io::Result<usize> {
        let full = batch.iter().filter(|frame| frame.head.len() == 1_500);
        let places: Vec<_> = full.map(|frame| frame.head.as_ptr_range()).collect();
        if places.windows(2).any(|pair| pair[0].end != pair[1].start) {
            self.mixed.fetch_add(1, Ordering::Relaxed);
        }
        self.device.send(batch)
    }

    fn prefers_whole_pages(&self) -> bool {
        self.prefers_whole_pages
    }

    fn info(&self) -> LinkInfo {
        self.device.info()
    }

    fn poll_fds(&self) -> PollFds {
        self.device.poll_fds()
    }
}

/// Sends them as pieces of 128 KiB, and the first one behind a packet of its own.
#[cfg(test)]
fn send(pair: &Pair, bytes: usize) {
    let data = pattern(bytes, 7);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (first, rest) = data.split_at(1_000);
            pair.connected.send(first).unwrap();
            rest.chunks(128 << 10)
                .for_each(|piece| assert_eq!(pair.connected.send(piece).unwrap(), piece.len()));
        });
        assert!(read_exactly(&pair.accepted, bytes) == data);
    });
}

#[test]
fn batches_end_where_pages_do_if_the_link_prefers_it() {
    for prefers_whole_pages in [true, false] {
        let (hub, mixed) = (Hub::new(1_500), Arc::new(AtomicUsize::new(0)));
        let device = hub.endpoint().unwrap();
        let watched = Watched { device, prefers_whole_pages, mixed: mixed.clone() };
        let (server, client) = (on(Node::builder(), hub.endpoint().unwrap()), on(Node::builder(), watched));
        let pair = Pair::between(server, client, &Options::stream());
        send(&pair, UNPAGED_BYTES);
        mixed.store(0, Ordering::Relaxed);
        send(&pair, 8 << 20);
        // of some 130, of which the first may begin before
        let mixed = mixed.load(Ordering::Relaxed);
        assert_eq!(mixed <= 1, prefers_whole_pages, "{mixed}");
    }
}

/// UDP that knows that within the host packets may be larger, or does not.
struct OfSize {
    udp: Arc<Udp>,
    are_small: bool,
}

impl Link for OfSize {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        self.udp.recv(batch)
    }

    fn send(&self, batch: &mut SendBatch) -> io::Result<usize> {
        self.udp.send(batch)
    }

    fn mss_to(&self, peer: SocketAddr) -> Option<PeerMss> {
        if self.are_small { None } else { self.udp.mss_to(peer) }
    }

    fn prefers_whole_pages(&self) -> bool {
        self.udp.prefers_whole_pages()
    }

    fn info(&self) -> LinkInfo {
        self.udp.info()
    }

    fn poll_fds(&self) -> PollFds {
        self.udp.poll_fds()
    }

    fn stats(&self) -> LinkStats {
        self.udp.stats()
    }
}

/// Packets of a long stream that the kernel took from where they lay.
#[cfg(test)]
fn sent_in_place(are_small: bool) -> u64 {
    let options = UdpOptions { mtu: Some(1_500), ..UdpOptions::default() };
    let udp = || Arc::new(Udp::bind_with(loopback(), &options).unwrap());
    let device = udp();
    let server = on(Node::builder(), OfSize { udp: udp(), are_small });
    let client = on(Node::builder(), OfSize { udp: device.clone(), are_small });
    let pair = Pair::between(server, client, &Options::stream());
    // until both ways were tried, and the one that was better has begun
    send(&pair, UNPAGED_BYTES + (100 << 20));
    device.stats().sent_in_place
}

#[test]
fn groups_leave_from_where_they_lie_where_large_packets_do() {
    let (large, small) = (sent_in_place(false), sent_in_place(true));
    if large == 0 {
        weft_skip::skipped!("this kernel takes no packets from where they lie, which needs Linux 6.5");
        return;
    }
    assert!(small >= 256 * 22, "{small} packets in groups, {large} large ones");
}
