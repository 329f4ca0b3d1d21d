//! Every dropped packet under its reason ([CDP-CHK-3]), and what a port did.

use std::sync::atomic::{AtomicU64, Ordering};

use weft_wire::DropReason;

/// Why the engine itself drops a packet that passed the stateless checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(crate) enum Drop {
    /// The source node contradicts the underlay address ([CDP-ADR-6]).
    Source,
    /// The source node is not in the cluster, and the engine is strict.
    Stranger,
    /// For another node, and nothing is forwarded here ([CDP-CHK-5]).
    NotOurs,
    /// No connection and no listener ([CDP-ST-3]).
    NoConnection,
    /// The accept queue is full ([CDP-ST-6]).
    AcceptFull,
    /// No memory for another connection ([CDP-LIM-13]).
    NoRoom,
    /// A listener had no use for it.
    Listener,
    /// The backlog of a slot was full.
    Backlog,
}

impl Drop {
    const ALL: [Self; 8] = [
        Self::Source,
        Self::Stranger,
        Self::NotOurs,
        Self::NoConnection,
        Self::AcceptFull,
        Self::NoRoom,
        Self::Listener,
        Self::Backlog,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Source => "source address",
            Self::Stranger => "unknown source node",
            Self::NotOurs => "other node",
            Self::NoConnection => "no connection",
            Self::AcceptFull => "accept queue full",
            Self::NoRoom => "no room",
            Self::Listener => "listener",
            Self::Backlog => "backlog full",
        }
    }
}

/// Dropped packets by reason.
#[derive(Debug, Default)]
pub(crate) struct Drops {
    wire: [AtomicU64; DropReason::ALL.len()],
    engine: [AtomicU64; Drop::ALL.len()],
}

impl Drops {
    #[cold]
    pub(crate) fn count_wire(&self, reason: DropReason) {
        self.wire[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    #[cold]
    pub(crate) fn count(&self, reason: Drop) {
        self.engine[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Name and count of each reason that occurred.
    pub(crate) fn snapshot(&self) -> Vec<(&'static str, u64)> {
        let wire = DropReason::ALL.iter().map(|reason| reason.name()).zip(&self.wire);
        let engine = Drop::ALL.iter().map(|reason| reason.name()).zip(&self.engine);
        wire.chain(engine)
            .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
            .filter(|(_, count)| *count > 0)
            .collect()
    }
}

/// A counter that one thread at a time adds to, under the lock of the turn, and everybody reads.
#[derive(Debug, Default)]
pub(crate) struct Tally(AtomicU64);

impl Tally {
    /// Adds without a locked instruction; the caller holds the lock that the counter belongs to.
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [CDP-CHK-3] Every dropped packet is counted under its reason.
    #[test]
    fn each_reason_has_a_counter_of_its_own() {
        let drops = Drops::default();
        for (index, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
            drops.count_wire(reason);
        }
        for (index, reason) in Drop::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
            drops.count(reason);
            drops.count(reason);
        }
        let snapshot = drops.snapshot();
        assert_eq!(snapshot.len(), DropReason::ALL.len() + Drop::ALL.len());
        assert!(snapshot.iter().all(|(_, count)| (1..=2).contains(count)));
    }
}
