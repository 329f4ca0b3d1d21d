//! A host, a compute node and the links of an I/O node between them, over real UDP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_base::{Address, FlowKey, NodeId, Port};
use weft_forward::{IoNode, NetworkStats, Stats};
use weft_link::{Link, RecvBatch, SendBatch, Udp, UdpOptions, wait};
use weft_route::{Attachment, Cluster, Forwarder, Kind as NodeKind, Member, NetworkId};
use weft_wire::{Header, Kind};

/// Longest time any wait of a test may take before it counts as a failure.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

fn node(number: u32) -> NodeId {
    NodeId::new(number).unwrap()
}

fn network(index: usize) -> NetworkId {
    NetworkId::new(index).unwrap()
}

fn bind(by: u8, host: u8) -> Udp {
    let options = UdpOptions { direct: false, ..UdpOptions::default() };
    Udp::bind_with(SocketAddr::from(([127, 0, by, host], 0)), &options).unwrap()
}

/// Host 1 on network 1, compute node 2 on network 2, and the links of I/O node 11 on both.
pub(crate) struct World {
    host: Udp,
    compute: Udp,
    pub(crate) near: Arc<dyn Link>,
    pub(crate) far: Arc<dyn Link>,
    cluster: Cluster,
}

impl World {
    pub(crate) fn new() -> Self {
        let (host, compute, near, far) = (bind(1, 1), bind(2, 2), bind(1, 11), bind(2, 11));
        let mut cluster = Cluster::default();
        for (kind, number, links) in [
            (NodeKind::Host, 1, &[(1, &host)][..]),
            (NodeKind::Compute, 2, &[(2, &compute)]),
            (NodeKind::Io, 11, &[(1, &near), (2, &far)]),
        ] {
            let at = links
                .iter()
                .map(|(by, link)| Attachment { network: network(*by), at: link.info().local.into() });
            let at: Vec<Attachment> = at.collect();
            let member = Member::direct(node(number), None, at[0].at);
            cluster.add(Member { kind, at, ..member }).unwrap();
        }
        Self { host, compute, near: Arc::new(near), far: Arc::new(far), cluster }
    }

    pub(crate) fn start(&self, far: Arc<dyn Link>) -> IoNode {
        let forwarder = Forwarder::new(node(11), self.cluster.clone());
        let links = vec![(network(1), self.near.clone()), (network(2), far)];
        IoNode::start(forwarder, links, Duration::from_micros(20)).unwrap()
    }

    /// Sends `count` packets of `length` bytes from the host to the compute node.
    pub(crate) fn send(&self, count: u32, length: u16) {
        let end = |number, port| Address { node: node(number), port: Port::new(port).unwrap() };
        let flow = FlowKey { local: end(1, 49152), remote: end(2, 7) };
        let mut batch = SendBatch::new();
        for number in 0..count {
            let mut packet = Header { length, ..Header::new(Kind::Data, flow) }.emit().to_vec();
            packet.resize(usize::from(length), 0xA5);
            packet[28..32].copy_from_slice(&number.to_be_bytes());
            batch.push_slice(self.near.info().local, &packet);
        }
        self.host.send(&mut batch).unwrap();
    }

    /// The numbers of the packets that the compute node gets, until there are `count` of them.
    pub(crate) fn numbers(&self, count: usize, length: u16) -> Vec<u32> {
        let (mut batch, mut numbers, begin) = (RecvBatch::new(), Vec::new(), Instant::now());
        while numbers.len() < count && begin.elapsed() < LIMIT {
            wait(&self.compute.poll_fds(), Some(Duration::from_millis(10))).unwrap();
            self.compute.recv(&mut batch).unwrap();
            for packet in batch.drain() {
                assert_eq!((packet.bytes.len(), packet.bytes[0]), (usize::from(length), 0x11));
                assert!(packet.bytes[32..].iter().all(|&byte| byte == 0xA5));
                numbers.push(u32::from_be_bytes(packet.bytes[28..32].try_into().unwrap()));
            }
        }
        numbers
    }
}

/// A count of all networks together.
pub(crate) fn sum(stats: &Stats, of: impl Fn(&NetworkStats) -> u64) -> u64 {
    stats.networks.iter().map(of).sum()
}
