//! What the cluster's owner configured: numbers, names, underlay addresses, networks and I/O nodes.

mod check;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use weft_base::{NodeId, Port};

use crate::network::NetworkSet;
use crate::{Coordinates, Kind, Member, Name, NetworkId, Underlay, io_set};

pub use check::{CheckError, Contradiction};

/// Forwards that a packet survives (CDP-FWD-1).
pub const FORWARDS_MAX: u32 = 3;

/// The nodes of a cluster, each number and each name once.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    members: BTreeMap<NodeId, Member>,
    names: BTreeMap<Name, NodeId>,
    services: BTreeMap<Name, Port>,
    places: BTreeMap<Underlay, NodeId>,
    /// The I/O nodes by host, which may have several; none that has none.
    io_hosts: BTreeMap<IpAddr, BTreeSet<NodeId>>,
}

/// A member that contradicts the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AddError {
    /// The number belongs to nodes without a cluster file (CDP-ADR-8).
    Unregistered(NodeId),
    /// Another member has this number.
    NumberTaken(NodeId),
    /// Another member has this name.
    NameTaken(Name),
    /// Another member is reached at this address.
    PlaceTaken(Underlay),
    /// The node has no address at all.
    Nowhere(NodeId),
}

impl fmt::Display for AddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unregistered(node) => {
                write!(f, "node {node} is not for clusters; give a number from 1 to 0x7fffff")
            }
            Self::NumberTaken(node) => {
                write!(f, "node {node} is given twice; each number stands for one node")
            }
            Self::NameTaken(name) => {
                write!(f, "the name {name} is given twice; each name stands for one node")
            }
            Self::PlaceTaken(at) => write!(f, "{at} is given to two nodes; each needs an address of its own"),
            Self::Nowhere(node) => write!(f, "node {node} has no address; give one on a network"),
        }
    }
}

impl std::error::Error for AddError {}

impl Cluster {
    /// Adds a node.
    ///
    /// # Errors
    ///
    /// [`AddError`] tells what is taken; then nothing was added.
    pub fn add(&mut self, member: Member) -> Result<(), AddError> {
        // [CDP-ADR-8] a cluster file assigns only 1..0x7FFFFF
        if member.node.is_unregistered() {
            return Err(AddError::Unregistered(member.node));
        }
        // [CDP-ADR-1] a number is unique in its cluster
        if self.members.contains_key(&member.node) {
            return Err(AddError::NumberTaken(member.node));
        }
        if let Some(name) = member.name.as_ref().filter(|name| self.names.contains_key(*name)) {
            return Err(AddError::NameTaken(name.clone()));
        }
        if member.at.is_empty() {
            return Err(AddError::Nowhere(member.node));
        }
        let mut own = BTreeSet::new();
        for attachment in &member.at {
            if self.places.contains_key(&attachment.at) || !own.insert(attachment.at) {
                return Err(AddError::PlaceTaken(attachment.at));
            }
        }
        if let Some(name) = &member.name {
            self.names.insert(name.clone(), member.node);
        }
        for attachment in &member.at {
            self.places.insert(attachment.at, member.node);
            if member.kind == Kind::Io {
                self.io_hosts.entry(attachment.at.host()).or_default().insert(member.node);
            }
        }
        self.members.insert(member.node, member);
        Ok(())
    }

    /// Says that `node` is reached directly at `at`, as the owner of a running node may: for any number, and in place of
    /// what was said of it before. Its name stays; of two nodes at one address the later has it. An I/O node that is
    /// placed forwards for nobody any more, as nothing says which networks it joins there; a
    /// [`Directory`](crate::Directory) that was made before has its sides as they were.
    pub fn place(&mut self, node: NodeId, at: Underlay) {
        let direct = Member::direct(node, None, at);
        let member = self.members.entry(node).or_insert_with(|| direct.clone());
        let was_io = std::mem::take(&mut member.kind) == Kind::Io;
        for before in std::mem::replace(&mut member.at, direct.at) {
            if before.at != at && self.places.get(&before.at) == Some(&node) {
                self.places.remove(&before.at);
            }
            // [CDP-ADR-6] the host that it has left is trusted no more
            let host = before.at.host();
            if was_io
                && let Some(there) = self.io_hosts.get_mut(&host)
                && there.remove(&node)
                && there.is_empty()
            {
                self.io_hosts.remove(&host);
            }
        }
        self.places.insert(at, node);
    }

    /// The node with this number.
    #[must_use]
    pub fn get(&self, node: NodeId) -> Option<&Member> {
        self.members.get(&node)
    }

    /// The node with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Member> {
        let name = name.parse().ok()?;
        self.get(*self.names.get(&name)?)
    }

    /// The node that is reached at exactly this address.
    #[must_use]
    pub fn at(&self, at: Underlay) -> Option<&Member> {
        self.get(*self.places.get(&at)?)
    }

    /// All nodes, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    /// Whether it names nobody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The I/O node at `from`, or else the first at its host.
    #[must_use]
    pub fn io_node_at(&self, from: Underlay) -> Option<&Member> {
        let exact = self.at(from).filter(|member| member.kind == Kind::Io);
        exact.or_else(|| self.io_nodes_at_host(from).next())
    }

    /// The I/O nodes at the host of `from`: from which of them a packet is its port need not tell.
    pub(crate) fn io_nodes_at_host(&self, from: Underlay) -> impl Iterator<Item = &Member> {
        self.io_hosts.get(&from.host()).into_iter().flatten().filter_map(|&node| self.get(node))
    }

    /// The networks that `node` is on; one that is not named is on all, so that it reaches everybody directly.
    pub(crate) fn networks_of(&self, node: NodeId) -> NetworkSet {
        let named = match self.get(node) {
            Some(member) => member.networks(),
            None => self.iter().map(Member::networks).fold(NetworkSet::default(), NetworkSet::union),
        };
        named.union(NetworkSet::only(NetworkId::COMMON))
    }

    fn io_members(&self) -> impl Iterator<Item = &Member> {
        self.iter().filter(|member| member.kind == Kind::Io)
    }

    /// How often a packet on one of the networks `from` has to be forwarded to be on one of `to` without touching those to
    /// `avoid`: 0 to [`FORWARDS_MAX`], or `None`.
    fn forwards(&self, from: NetworkSet, to: NetworkSet, avoid: NetworkSet) -> Option<u32> {
        let mut reached = from.without(avoid);
        for forwards in 0..=FORWARDS_MAX {
            if reached.meets(to) {
                return Some(forwards);
            }
            let here = reached;
            let further = self.io_members().map(Member::networks).filter(|networks| networks.meets(here));
            reached = further.fold(here, NetworkSet::union).without(avoid);
        }
        None
    }

    /// How often `io` and those behind it forward a packet that it gets on one of the networks `side`, for one of `to`,
    /// none of which lies in `side`.
    pub(crate) fn forwards_through(&self, io: &Member, side: NetworkSet, to: NetworkSet) -> Option<u32> {
        let behind = self.forwards(io.networks(), to, side)?;
        Some(behind + 1).filter(|&forwards| forwards <= FORWARDS_MAX)
    }

    /// [CDP-IO-1] The I/O nodes of `node` towards the networks `to`, in order, and the index of the default.
    pub(crate) fn io_nodes_towards(&self, node: NodeId, to: NetworkSet) -> (Vec<&Member>, usize) {
        let own = self.get(node);
        let side = self.networks_of(node);
        let is_fit = |io: &&Member| {
            io.node != node && io.networks().meets(side) && self.forwards_through(io, side, to).is_some()
        };
        let listed = own.map_or(&[][..], |member| &member.io_nodes);
        let mut fit: Vec<&Member> = if listed.is_empty() {
            self.io_members().filter(is_fit).collect()
        } else {
            listed.iter().filter_map(|&io| self.get(io)).filter(is_fit).collect()
        };
        let distance = |io: &Member| match (own.and_then(|own| own.place), io.place) {
            (Some(here), Some(there)) => Coordinates::distance(here, there),
            _ => u32::MAX,
        };
        if listed.is_empty() {
            fit.sort_by_key(|io| (distance(io), io.node));
        }
        let chosen = own.and_then(|own| own.default_io);
        // the one that was chosen is kept, however many are nearer
        let far = fit.iter().skip(io_set::MEMBERS_MAX).position(|io| Some(io.node) == chosen);
        if let Some(beyond) = far {
            fit.swap(io_set::MEMBERS_MAX - 1, io_set::MEMBERS_MAX + beyond);
        }
        fit.truncate(io_set::MEMBERS_MAX);
        let default = fit.iter().position(|io| Some(io.node) == chosen).unwrap_or_else(|| {
            // Those who have no place in the mesh, or several I/O nodes as near, spread by their numbers.
            let near = fit
                .first()
                .map_or(0, |first| fit.iter().filter(|io| distance(io) == distance(first)).count());
            if listed.is_empty() && near > 0 { node.get() as usize % near } else { 0 }
        });
        (fit, default)
    }
}

#[cfg(test)]
mod tests;
