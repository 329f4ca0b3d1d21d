//! A host or compute node: what it knows of the I/O nodes, shared by all its connections.

use weft_base::{Instant, NodeId};
use weft_proto::{PathReport, Paths};
use weft_route::{Cluster, Directory, IoSet, LOSSES_MAX, Mode, NextHop, Side, Underlay};

use crate::violation::{Invariant, Violation, ensure};

/// One host or compute node. All its peers are on the one other network.
#[derive(Debug)]
pub struct Node {
    /// Its number.
    pub id: NodeId,
    /// The I/O nodes towards its peers.
    pub side: Side,
    /// What it knows of them.
    pub set: IoSet,
    /// Losses of the default since it last delivered, as its connections told them.
    losses: u32,
    /// When the event that counts for its probes is due.
    pub probes_at: Option<Instant>,
}

impl Node {
    /// A node of the cluster with a peer that it reaches through I/O nodes.
    #[must_use]
    pub fn new(id: NodeId, peer: NodeId, cluster: Cluster) -> Option<Self> {
        let directory = Directory::new(id, Mode::Strict, cluster);
        let Some(NextHop::Io(side)) = directory.next_hop(peer) else { return None };
        let side = directory.sides().get(side)?.clone();
        Some(Self { id, set: side.io_set(), side, losses: 0, probes_at: None })
    }

    /// What its connections are told.
    ///
    /// # Errors
    ///
    /// If the set names a default that is no path.
    pub fn paths(&self) -> Result<Paths, Violation> {
        let small = |number: usize| u8::try_from(number).unwrap_or(u8::MAX);
        Paths::new(small(self.set.len()), small(self.set.default_member()))
            .ok_or_else(|| Violation::new(Invariant::Default, "the set has a default that is no path"))
    }

    /// The number of the I/O node that is the default.
    #[must_use]
    pub fn default_number(&self) -> Option<u32> {
        self.side.io_nodes.get(self.set.default_member()).map(|(node, _)| node.get())
    }

    /// The address of the I/O node of a path.
    #[must_use]
    pub fn address(&self, path: u8) -> Option<Underlay> {
        self.side.io_nodes.get(usize::from(path)).map(|(_, at)| *at)
    }

    /// Takes in what a connection reports, and tells whether the default changed. `srtt` is that of the connection.
    ///
    /// # Errors
    ///
    /// I14, if a default that has lost three numbers stays.
    pub fn handle(
        &mut self,
        now: Instant,
        report: &PathReport,
        srtt: Option<std::time::Duration>,
    ) -> Result<bool, Violation> {
        let member = usize::from(report.path);
        let is_default = member == self.set.default_member();
        if report.was_cleared {
            self.set.note_delivered(member);
        }
        if is_default {
            self.losses = if report.was_cleared { report.lost } else { self.losses + report.lost };
        }
        let mut has_changed = self.set.note_lost(now, member, report.lost);
        // [CDP-IO-5]
        ensure(!is_default || has_changed == (self.losses >= LOSSES_MAX), Invariant::Default, || {
            format!("{} has lost {} by its default, and changed it: {has_changed}", self.id, self.losses)
        })?;
        if let Some(took) = report.answered_after {
            has_changed |= self.set.note_answer(now, member, took, srtt.unwrap_or(took));
        }
        if has_changed {
            self.losses = 0;
        }
        Ok(has_changed)
    }
}
