//! Whether what the nodes of a cluster say of each other holds.

use std::collections::BTreeMap;
use std::fmt;

use weft_base::NodeId;

use super::{Cluster, FORWARDS_MAX};
use crate::{Kind, Member, io_set};

impl Cluster {
    /// Whether all that the nodes say of each other holds; asked when the last was added.
    ///
    /// # Errors
    ///
    /// The first contradiction, by number.
    pub fn check(&self) -> Result<(), CheckError> {
        for member in self.iter() {
            self.check_member(member)?;
        }
        // Nodes on the same networks are reached alike, and those of them reach others alike that name the same I/O nodes.
        let (mut ways, mut ends) = (BTreeMap::new(), BTreeMap::new());
        for member in self.iter().filter(|member| member.kind != Kind::Io) {
            ways.entry((member.networks(), &member.io_nodes)).or_insert(member);
            ends.entry(member.networks()).or_insert(member);
        }
        let mut senders: Vec<&Member> = ways.into_values().collect();
        senders.sort_by_key(|from| from.node);
        let pairs = senders.into_iter().flat_map(|from| ends.values().map(move |to| (from, to)));
        for (from, to) in pairs {
            let (side, there) = (self.networks_of(from.node), to.networks());
            let is_reached = side.meets(there) || !self.io_nodes_towards(from.node, there).0.is_empty();
            if !is_reached {
                return Err(CheckError {
                    node: from.node,
                    label: from.label(),
                    what: Contradiction::NoRoute(to.label()),
                });
            }
        }
        Ok(())
    }

    fn check_member(&self, member: &Member) -> Result<(), CheckError> {
        let says = |what| Err(CheckError { node: member.node, label: member.label(), what });
        if member.kind == Kind::Io && member.networks().len() < 2 {
            return says(Contradiction::OneNetwork);
        }
        for &io in member.io_nodes.iter().chain(&member.default_io) {
            if io == member.node {
                return says(Contradiction::Itself);
            }
            match self.get(io) {
                None => return says(Contradiction::UnknownIo(io)),
                Some(other) if other.kind != Kind::Io => return says(Contradiction::NoIo(other.label())),
                Some(other) if !other.networks().meets(self.networks_of(member.node)) => {
                    return says(Contradiction::FarIo(other.label()));
                }
                Some(_) => {}
            }
        }
        let is_in_set = |io| member.io_nodes.is_empty() || member.io_nodes.contains(&io);
        match member.default_io {
            Some(io) if !is_in_set(io) => says(Contradiction::DefaultOutside(io)),
            _ if member.io_nodes.len() > io_set::MEMBERS_MAX => {
                says(Contradiction::TooMany(member.io_nodes.len()))
            }
            _ => Ok(()),
        }
    }
}

/// What one node says and the cluster contradicts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckError {
    /// The node.
    pub node: NodeId,
    label: String,
    /// What it is.
    pub what: Contradiction,
}

/// What may be wrong between nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Contradiction {
    /// An I/O node on fewer than two networks.
    OneNetwork,
    /// It names itself as its I/O node.
    Itself,
    /// It names an I/O node that is no member.
    UnknownIo(NodeId),
    /// It names a node that does not forward.
    NoIo(String),
    /// It names an I/O node that it shares no network with.
    FarIo(String),
    /// Its default is not among its I/O nodes.
    DefaultOutside(NodeId),
    /// So many I/O nodes.
    TooMany(usize),
    /// No way leads from it to that node in [`FORWARDS_MAX`] forwards.
    NoRoute(String),
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { label, what, .. } = self;
        match what {
            Contradiction::OneNetwork => {
                write!(
                    f,
                    "{label} is an I/O node on one network; give it an address on each of the networks it joins"
                )
            }
            Contradiction::Itself => write!(f, "{label} names itself as its I/O node; name others"),
            Contradiction::UnknownIo(io) => {
                write!(f, "{label} names node {io} as its I/O node, which is not there")
            }
            Contradiction::NoIo(other) => {
                write!(
                    f,
                    "{label} names {other} as its I/O node, which is of another kind; give {other} kind = \"io\""
                )
            }
            Contradiction::FarIo(other) => {
                write!(
                    f,
                    "{label} names {other} as its I/O node but shares no network with it; name one on its network"
                )
            }
            Contradiction::DefaultOutside(io) => {
                write!(f, "the default I/O node {io} of {label} is not in its list; add it or take another")
            }
            Contradiction::TooMany(count) => {
                write!(f, "{label} names {count} I/O nodes; at most {} are used", io_set::MEMBERS_MAX)
            }
            Contradiction::NoRoute(to) => write!(
                f,
                "{label} has no route to {to}; put both on one network, or give an I/O node that joins theirs in at most \
                 {FORWARDS_MAX} forwards"
            ),
        }
    }
}

impl std::error::Error for CheckError {}
