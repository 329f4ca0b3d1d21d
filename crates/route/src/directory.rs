//! Our own number, the cluster, the nodes learned, and what follows from them for one packet.

use std::collections::{BTreeMap, BTreeSet};

use weft_base::NodeId;

use crate::learned::{LEARNED_MAX, Learned};
use crate::network::NetworkSet;
use crate::{Cluster, IoSet, Member, Underlay};

/// Whether nodes that the cluster does not name may talk to us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Only nodes of the cluster.
    Strict,
    /// Others as well ([CDP-ADR-7]).
    Open,
}

/// Whether a packet may come from where it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The cluster names this node at this host, or the packet came through one of its I/O nodes.
    Known,
    /// The cluster does not name the node, and we are in open mode.
    Open,
    /// The address contradicts the cluster.
    Contradicts,
    /// The cluster does not name the node, and we are strict.
    Stranger,
}

impl Source {
    /// Whether the packet may go on.
    #[must_use]
    pub const fn is_accepted(self) -> bool {
        matches!(self, Self::Known | Self::Open)
    }
}

/// Where a packet goes next on its way to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextHop {
    /// To the node itself.
    Direct(Underlay),
    /// To an I/O node of this side, the index of one of [`Directory::sides`].
    Io(usize),
}

/// The nodes that one set of I/O nodes leads to ([CDP-IO-1]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Side {
    /// The I/O nodes in order, and where each is reached by us.
    pub io_nodes: Vec<(NodeId, Underlay)>,
    /// The index of the default among them.
    pub default: usize,
}

impl Side {
    /// The state of its I/O nodes, none of which has lost anything.
    #[must_use]
    pub fn io_set(&self) -> IoSet {
        IoSet::new(self.io_nodes.len(), self.default)
    }

    /// Which of the I/O nodes is at the host of `from`.
    #[must_use]
    pub fn position(&self, from: Underlay) -> Option<usize> {
        self.io_nodes.iter().position(|(_, at)| at.is_same_host(from))
    }
}

/// The numbers that one node answers to; they never change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    own: NodeId,
    /// Our number was drawn, so that nobody can know it before we say it.
    is_drawn: bool,
}

impl Identity {
    /// Our number.
    #[must_use]
    pub const fn own(self) -> NodeId {
        self.own
    }

    /// [CDP-CHK-5] Whether a packet for `destination` is for us, and not for another node.
    ///
    /// A node whose number was drawn may be called by any unregistered number, because who connects to its underlay
    /// address cannot know which it drew. All others are strict.
    #[must_use]
    #[inline]
    pub fn is_ours(self, destination: NodeId) -> bool {
        destination == self.own || (self.is_drawn && destination.is_unregistered())
    }
}

/// Which node is reached where, seen from one node.
#[derive(Clone, Debug)]
pub struct Directory {
    identity: Identity,
    mode: Mode,
    cluster: Cluster,
    learned: Learned,
    networks: NetworkSet,
    sides: Vec<Side>,
    /// The side of the nodes on these networks.
    side_of: BTreeMap<NetworkSet, usize>,
}

impl Directory {
    /// The directory of the node `own`.
    #[must_use]
    pub fn new(own: NodeId, mode: Mode, cluster: Cluster) -> Self {
        let mut directory = Self {
            identity: Identity { own, is_drawn: false },
            mode,
            networks: cluster.networks_of(own),
            cluster,
            learned: Learned::new(LEARNED_MAX),
            sides: Vec::new(),
            side_of: BTreeMap::new(),
        };
        directory.find_sides();
        directory
    }

    /// [CDP-IO-1] One side for all nodes that are reached through the same I/O nodes in the same order.
    fn find_sides(&mut self) {
        let far = self.cluster.iter().filter(|member| member.reached_from(self.networks).is_none());
        let far: BTreeSet<_> = far.map(Member::networks).collect();
        for networks in far {
            let (io_nodes, default) = self.cluster.io_nodes_towards(self.identity.own, networks);
            let reached = |io: &&Member| Some((io.node, io.reached_from(self.networks)?));
            let io_nodes: Vec<_> = io_nodes.iter().filter_map(reached).collect();
            if io_nodes.is_empty() {
                continue;
            }
            let side = Side { io_nodes, default };
            let index = self.sides.iter().position(|other| *other == side).unwrap_or_else(|| {
                self.sides.push(side);
                self.sides.len() - 1
            });
            self.side_of.insert(networks, index);
        }
    }

    /// The sides that are reached through I/O nodes.
    #[must_use]
    pub fn sides(&self) -> &[Side] {
        &self.sides
    }

    /// The directory of a node that no cluster file numbers, though it may know one; its number is drawn by `random`.
    ///
    /// [CDP-ADR-8] It chooses a number of the unregistered range at random at start and runs in open mode.
    #[must_use]
    pub fn unregistered(random: u32, cluster: Cluster) -> Self {
        let identity = Identity { own: NodeId::unregistered(random), is_drawn: true };
        Self { identity, ..Self::new(identity.own, Mode::Open, cluster) }
    }

    /// The numbers we answer to.
    #[must_use]
    pub const fn identity(&self) -> Identity {
        self.identity
    }

    /// Whether nodes that the cluster does not name may talk to us.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// What the owner configured.
    #[must_use]
    pub const fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// What the owner configures, to add to it.
    pub const fn cluster_mut(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    /// [CDP-ADR-6] Whether a packet of `source` may come from `from`.
    ///
    /// [CDP-CHK-2] This is asked before any step that allocates memory, and itself allocates none.
    #[must_use]
    pub fn accepts(&self, source: NodeId, from: Underlay) -> Source {
        match self.cluster.get(source) {
            Some(member) if member.is_at_host(from) || self.cluster.io_node_at(from).is_some() => {
                Source::Known
            }
            Some(_) => Source::Contradicts,
            // [CDP-ADR-7] a node in open mode may accept a source node missing from its cluster file
            None if self.mode == Mode::Open => Source::Open,
            None => Source::Stranger,
        }
    }

    /// Where a packet for `node` goes; `None` if there is no route (EHOSTUNREACH).
    ///
    /// [CDP-ENC-6] For a node of the cluster that is the address of the cluster file, whatever port its packets came
    /// from; for a learned one the address of its last current packet.
    #[must_use]
    pub fn next_hop(&self, node: NodeId) -> Option<NextHop> {
        let Some(member) = self.cluster.get(node) else { return self.learned.get(node).map(NextHop::Direct) };
        match member.reached_from(self.networks) {
            Some(at) => Some(NextHop::Direct(at)),
            None => self.side_of.get(&member.networks()).copied().map(NextHop::Io),
        }
    }

    /// A current packet, or a validated handshake, of `node` came from `at`.
    ///
    /// [CDP-ADR-7] From now on packets for it go there. A node of the cluster stays where the cluster says, and in
    /// strict mode nothing is learned. Tells whether `node` is now reached at `at`.
    pub fn learn(&mut self, node: NodeId, at: Underlay) -> bool {
        if let Some(member) = self.cluster.get(node) {
            return member.at.iter().any(|attachment| attachment.at == at);
        }
        if self.mode == Mode::Strict || node == self.identity.own {
            return false;
        }
        self.learned.insert(node, at);
        true
    }

    /// Whether [`Directory::learn`] of `node` at `at` would change nothing now, so that it can be left out.
    ///
    /// For a node that is in touch this is asked from time to time, lest others that come push it out.
    #[must_use]
    pub fn knows(&self, node: NodeId, at: Underlay) -> bool {
        let learns = self.mode == Mode::Open && node != self.identity.own && self.cluster.get(node).is_none();
        !learns || self.learned.is_fresh(node, at)
    }

    /// The number of whoever is at `at`, if there is one: the cluster's, or the one last used.
    #[must_use]
    pub fn named(&self, at: Underlay) -> Option<NodeId> {
        self.cluster.at(at).map(|member| member.node).or_else(|| self.learned.at(at))
    }

    /// The number to use for whoever is at `at`: the cluster's, the one last used, or an unregistered one that is
    /// given to it now, near the one that `random` draws.
    ///
    /// `None` in strict mode for an address that the cluster does not name.
    pub fn name(&mut self, at: Underlay, random: u32) -> Option<NodeId> {
        let known = self.named(at);
        if known.is_some() || self.mode == Mode::Strict {
            return known;
        }
        // of these numbers at most one is ours and LEARNED_MAX are taken
        let mut candidates = (0..=LEARNED_MAX).map(|i| {
            let step = u32::try_from(i).unwrap_or(u32::MAX);
            NodeId::unregistered(random.wrapping_add(step) % UNREGISTERED_COUNT)
        });
        let free = candidates.find(|node| *node != self.identity.own && self.learned.get(*node).is_none())?;
        self.learned.insert(free, at);
        Some(free)
    }

    /// How many nodes are learned, at most [`LEARNED_MAX`].
    #[must_use]
    pub fn learned_len(&self) -> usize {
        self.learned.len()
    }
}

/// Numbers of the unregistered range.
const UNREGISTERED_COUNT: u32 = NodeId::LAST - NodeId::FIRST_UNREGISTERED + 1;

#[cfg(test)]
mod tests;
