//! What an I/O node counts, for each of its networks: what came by it, and what left by it.
//!
//! Whatever came was either put into a queue, or is counted under one reason.

use std::net::SocketAddr;

use weft_base::NodeId;
use weft_link::LinkStats;
use weft_route::{NetworkId, NotForwarded};
use weft_wire::DropReason;

use crate::RelayStats;

/// What came by a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrivals {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    malformed: [u64; DropReason::ALL.len()],
    refused: [u64; NotForwarded::ALL.len()],
    /// The latest that had been forwarded as often as a packet may be.
    pub too_far: Option<TooFar>,
}

impl Arrivals {
    pub(crate) fn count_malformed(&mut self, reason: DropReason) {
        self.malformed[reason as usize] += 1;
    }

    pub(crate) fn count_refused(&mut self, reason: NotForwarded) {
        self.refused[reason as usize] += 1;
    }

    /// Packets that were no packets of this version.
    pub fn malformed(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.into_iter().zip(self.malformed)
    }

    /// Packets that may not go on.
    pub fn refused(&self) -> impl Iterator<Item = (NotForwarded, u64)> {
        NotForwarded::ALL.into_iter().zip(self.refused)
    }

    /// Packets that may not go on for this reason.
    #[must_use]
    pub fn refused_for(&self, reason: NotForwarded) -> u64 {
        self.refused[reason as usize]
    }
}

/// A packet that nobody forwards any more ([CDP-FWD-1]). In a loop of two I/O nodes one is this node, the other `by`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooFar {
    /// The node it said to come from.
    pub source: NodeId,
    /// The node it was for.
    pub destination: NodeId,
    /// The underlay address it came from.
    pub from: SocketAddr,
    /// The I/O node at that address, if there is one: the one that forwarded it last.
    pub by: Option<NodeId>,
}

/// What left by a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Departures {
    /// Packets that were put into the queue.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them that were the first to be marked here ([CDP-FWD-5]).
    pub marked: u64,
    /// Packets that found the queue full ([CDP-LIM-14]); they are not among those above.
    pub queue_drops: u64,
    /// Packets lost in the queue, as the link was broken.
    pub link_drops: u64,
}

/// One network.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkStats {
    /// Which.
    pub network: NetworkId,
    /// The link in words.
    pub link: String,
    /// Its underlay address.
    pub local: SocketAddr,
    /// What came by it.
    pub arrivals: Arrivals,
    /// What left by it.
    pub departures: Departures,
    /// Packets that wait to leave by it now.
    pub queued: usize,
    /// What the link counted.
    pub counters: LinkStats,
}

/// A whole I/O node.
#[derive(Clone, PartialEq, Debug)]
pub struct Stats {
    /// The node.
    pub node: NodeId,
    /// Its networks, in order.
    pub networks: Vec<NetworkStats>,
    /// The I/O nodes that packets may go through next, by address.
    pub relays: Vec<RelayStats>,
}
