//! Two links of one machine that send packets to each other.

#![cfg(test)]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use weft_link::{Link, RecvBatch, SendBatch, Udp, wait};

pub(crate) struct End {
    pub(crate) link: Udp,
    pub(crate) batch: RecvBatch,
}

impl End {
    pub(crate) fn new(home: &str) -> Self {
        Self { link: Udp::bind(home.parse().unwrap()).unwrap(), batch: RecvBatch::new() }
    }

    /// Where others reach it on this machine, from a socket like `from`.
    pub(crate) fn address(&self, from: &Self) -> SocketAddr {
        let mut address = self.link.info().local;
        if address.ip().is_unspecified() {
            let is_v4 = from.link.info().local.is_ipv4();
            address.set_ip(if is_v4 { [127, 0, 0, 1].into() } else { "::1".parse().unwrap() });
        }
        address
    }

    pub(crate) fn send(&self, to: SocketAddr, packets: &[Vec<u8>]) {
        let mut out = SendBatch::new();
        packets.iter().for_each(|packet| out.push_slice(to, packet));
        assert_eq!(self.link.send(&mut out).unwrap(), packets.len());
    }

    /// Sleeps on the link's descriptors, and receives `count` packets.
    pub(crate) fn receive(&mut self, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut got = Vec::new();
        let started = Instant::now();
        while got.len() < count {
            assert!(started.elapsed() < Duration::from_secs(60), "only {} of {count} came", got.len());
            wait(&self.link.poll_fds(), Some(Duration::from_secs(1))).unwrap();
            self.link.recv(&mut self.batch).unwrap();
            got.extend(self.batch.drain().map(|packet| (packet.from, packet.bytes.to_vec())));
        }
        got
    }

    /// Looks at an empty link once, as a spinning thread does.
    pub(crate) fn look(&mut self) {
        assert_eq!(self.link.recv(&mut self.batch).unwrap(), 0);
    }
}

#[allow(dead_code)] // not by all who share this
pub(crate) fn packets(count: usize, len: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| vec![u8::try_from(n % 251).unwrap(); len]).collect()
}

/// Exchanges lone packets, and checks each.
pub(crate) fn ping_pong(here: &mut End, there: &mut End, rounds: usize) {
    let (to_there, to_here) = (there.address(here), here.address(there));
    for round in 0..rounds {
        let message = vec![u8::try_from(round % 251).unwrap(); 64];
        here.look();
        there.look();
        here.send(to_there, std::slice::from_ref(&message));
        assert_eq!(there.receive(1), [(to_here, message.clone())]);
        there.send(to_here, std::slice::from_ref(&message));
        assert_eq!(here.receive(1), [(to_there, message)]);
    }
}
