//! What a seed means: nodes, lengths of ways, failures, and who writes to whom.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use weft_base::NodeId;
use weft_des::Random;
use weft_proto::congestion::Kind as Controller;
use weft_route::{Attachment, Cluster, Kind, Member, NetworkId, Underlay};

/// The network of hosts, and that of compute nodes.
pub const NETWORKS: [u8; 2] = [1, 2];

/// A whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed it was drawn from.
    pub seed: u64,
    /// I/O nodes; I/O node i has number 101 + i.
    pub io_nodes: usize,
    /// Hosts, numbers 1 on, and compute nodes, numbers 51 on.
    pub ends: [usize; 2],
    /// One way within each of the networks.
    pub delays: [Duration; 2],
    /// Failures, one at a time.
    pub troubles: Vec<Trouble>,
    /// Time between two probes of a member that was left.
    pub probe_interval: Duration,
    /// Connections.
    pub sessions: Vec<Session>,
    /// When the last failure is over.
    pub heals_at: Duration,
}

/// A failure of one I/O node.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// When it begins.
    pub from: Duration,
    /// When it ends.
    pub until: Duration,
    /// Index of the I/O node.
    pub io_node: usize,
    /// What is wrong with it.
    pub what: Illness,
}

/// What is wrong with an I/O node.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Illness {
    /// It is not there.
    Crash,
    /// It hears nothing from this network: index into [`NETWORKS`].
    Deaf(usize),
    /// It drops packets at random.
    Drops(f64),
    /// It takes longer.
    Slow(Duration),
    /// It knows another cluster.
    WrongTable,
}

impl Illness {
    /// The words a report uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crash => "crashes",
            Self::Deaf(_) => "partitions of one direction",
            Self::Drops(_) => "drops of 30 %",
            Self::Slow(_) => "delays of 200 ms",
            Self::WrongTable => "wrong tables",
        }
    }
}

/// One connection between the networks.
#[derive(Clone, Debug)]
pub struct Session {
    /// The network of the end that connects: index into [`NETWORKS`].
    pub side: usize,
    /// Which of the nodes there, and on the other network.
    pub nodes: [usize; 2],
    /// When it connects.
    pub opens_at: Duration,
    /// Bytes that the connecting end and the other write at a time; 0 for one that only reads.
    pub writes: [usize; 2],
    /// Time between two writes.
    pub period: Duration,
    /// Which controller it runs.
    pub controller: Controller,
}

impl Plan {
    /// The plan of `seed`.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let random = &mut Random::stream(seed, 7);
        let io_nodes = 2 + random.index(3);
        let ends = [1 + random.index(2), 1 + random.index(2)];
        let delay = |random: &mut Random| random.pick(&[10, 50, 200, 1_000].map(Duration::from_micros));
        let delays = [delay(random), delay(random)];
        let is_rolling = random.chance(0.25);
        let mut at = Duration::from_millis(200);
        let mut troubles = Vec::new();
        for step in 0..2 + random.index(4) {
            let from = at + random.duration(Duration::ZERO..Duration::from_millis(20));
            let until = from + random.duration(Duration::from_millis(100)..Duration::from_millis(300));
            at = until + random.duration(Duration::from_millis(50)..Duration::from_millis(300));
            let io_node = if is_rolling { step % io_nodes } else { random.index(io_nodes) };
            let what = if is_rolling { Illness::Crash } else { illness(random) };
            troubles.push(Trouble { from, until, io_node, what });
        }
        let sessions = (0..1 + random.index(4)).map(|_| session(random, ends)).collect();
        let probe_interval = random.duration(Duration::from_millis(20)..Duration::from_millis(200));
        Self { seed, io_nodes, ends, delays, troubles, probe_interval, sessions, heals_at: at }
    }

    /// The cluster as its owner configured it.
    ///
    /// # Panics
    ///
    /// Never for a plan that was drawn.
    #[must_use]
    pub fn cluster(&self) -> Cluster {
        self.cluster_with(&NETWORKS)
    }

    /// A cluster in which compute nodes are on another network than they are.
    #[must_use]
    pub fn wrong_cluster(&self) -> Cluster {
        self.cluster_with(&[NETWORKS[0], 3])
    }

    fn cluster_with(&self, networks: &[u8; 2]) -> Cluster {
        let mut cluster = Cluster::default();
        let mut add = |number: u32, kind: Kind, on: &[u8]| {
            let at = on.iter().filter_map(|network| {
                Some(Attachment {
                    network: NetworkId::new((*network).into())?,
                    at: address(*network, number),
                })
            });
            if let Some(node) = NodeId::new(number) {
                let member = Member::direct(node, None, address(9, number));
                // numbers and addresses are told apart by construction
                let _ = cluster.add(Member { kind, at: at.collect(), ..member });
            }
        };
        for side in 0..2 {
            for index in 0..self.ends[side] {
                let kind = if side == 0 { Kind::Host } else { Kind::Compute };
                add(end_number(side, index), kind, &networks[side..=side]);
            }
        }
        for index in 0..self.io_nodes {
            add(io_number(index), Kind::Io, &NETWORKS);
        }
        cluster
    }
}

/// The number of a host (side 0) or compute node (side 1).
#[must_use]
pub fn end_number(side: usize, index: usize) -> u32 {
    u32::try_from(1 + side * 50 + index).unwrap_or(u32::MAX)
}

/// The number of an I/O node.
#[must_use]
pub fn io_number(index: usize) -> u32 {
    u32::try_from(101 + index).unwrap_or(u32::MAX)
}

/// Where a node is on a network.
#[must_use]
pub fn address(network: u8, number: u32) -> Underlay {
    let host = u8::try_from(number).unwrap_or(u8::MAX);
    Underlay::Udp(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, network, 0, host)), 64_064))
}

fn illness(random: &mut Random) -> Illness {
    match random.index(6) {
        0 | 1 => Illness::Crash,
        2 => Illness::Deaf(random.index(2)),
        3 => Illness::Drops(0.3),
        4 => Illness::Slow(Duration::from_millis(200)),
        _ => Illness::WrongTable,
    }
}

fn session(random: &mut Random, ends: [usize; 2]) -> Session {
    let side = random.index(2);
    let packets = |random: &mut Random| 1_444 * (1 + random.index(6));
    Session {
        side,
        nodes: [random.index(ends[side]), random.index(ends[1 - side])],
        opens_at: random.duration(Duration::ZERO..Duration::from_millis(50)),
        writes: [packets(random), if random.chance(0.5) { packets(random) } else { 0 }],
        period: random.pick(&[200, 1_000, 3_000].map(Duration::from_micros)),
        controller: random.pick(&Controller::ALL),
    }
}
