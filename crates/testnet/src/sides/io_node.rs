//! An I/O node: the shipped checks, decisions and marks, a queue for each network, and what is wrong with it.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use weft_base::Instant;
use weft_des::Random;
use weft_route::{Forwarder, Hop, NetworkId, NotForwarded, Onward, Underlay};
use weft_wire::{Encapsulation, Transit};

use super::plan::{Illness, NETWORKS};

/// Packets forwarded in a second.
const RATE: u64 = 200_000;
/// [CDP-LIM-14] Packets that wait for a network at most.
const QUEUE: u128 = 1_024;

/// Why a packet goes no further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dropped {
    /// By the shipped decision.
    Refused(NotForwarded),
    /// The I/O node is ill.
    Ill,
    /// The queue is full.
    Full,
    /// It is no packet.
    Malformed,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => why.fmt(f),
            Self::Ill => f.write_str("the I/O node is ill"),
            Self::Full => f.write_str("the queue is full"),
            Self::Malformed => f.write_str("no packet"),
        }
    }
}

/// A packet that leaves.
#[derive(Clone, Debug)]
pub struct Leaving {
    /// When.
    pub at: Instant,
    /// Where to.
    pub hop: Hop,
    /// With HOP one higher, and CE where the queue is long.
    pub bytes: Bytes,
}

/// One I/O node.
#[derive(Debug)]
pub struct IoNode {
    /// With the cluster as it is, and with another.
    forwarders: [Forwarder; 2],
    free_at: [Instant; NETWORKS.len()],
    random: Random,
    /// What is wrong with it.
    pub illness: Option<Illness>,
}

impl IoNode {
    /// One that is well.
    #[must_use]
    pub fn new(forwarders: [Forwarder; 2], random: Random) -> Self {
        Self { forwarders, free_at: [Instant::ZERO; NETWORKS.len()], random, illness: None }
    }

    /// What becomes of a packet that came by `network` from `from`.
    ///
    /// # Errors
    ///
    /// Why it goes no further.
    pub fn forward(
        &mut self,
        now: Instant,
        network: NetworkId,
        from: Underlay,
        bytes: &Bytes,
    ) -> Result<Leaving, Dropped> {
        let mut extra = Duration::ZERO;
        let [mut forwarder, wrong] = self.forwarders.each_ref();
        match self.illness {
            Some(Illness::Crash) => return Err(Dropped::Ill),
            Some(Illness::Deaf(side)) if usize::from(NETWORKS[side]) == network.index() => {
                return Err(Dropped::Ill);
            }
            Some(Illness::Drops(part)) if self.random.chance(part) => return Err(Dropped::Ill),
            Some(Illness::Slow(time)) => extra = time,
            Some(Illness::WrongTable) => forwarder = wrong,
            Some(Illness::Deaf(_) | Illness::Drops(_)) | None => {}
        }
        let transit = Transit::check(bytes, Encapsulation::Simulated).map_err(|_| Dropped::Malformed)?;
        let Transit { source, destination, hops, length } = transit;
        let onward =
            forwarder.decide((network, from), source, destination, hops).map_err(Dropped::Refused)?;
        // Its networks are two, and whoever is no neighbour here has no way.
        let Onward::Directly(hop) = onward else { return Err(Dropped::Refused(NotForwarded::NoRoute)) };
        let side = NETWORKS.iter().position(|side| usize::from(*side) == hop.network.index());
        let free_at = &mut self.free_at[side.unwrap_or(0)];
        let waiting = (*free_at - now).as_nanos() * u128::from(RATE) / 1_000_000_000;
        if waiting >= QUEUE {
            return Err(Dropped::Full);
        }
        *free_at = (*free_at).max(now) + Duration::from_nanos(1_000_000_000 / RATE);
        let mut bytes = bytes[..length].to_vec();
        // [CDP-FWD-5] CE from half full
        bytes[0] = Transit::forwarded(bytes[0], waiting * 2 > QUEUE);
        Ok(Leaving { at: *free_at + extra, hop, bytes: bytes.into() })
    }
}
