//! What the cluster's owner configured: numbers, names and underlay addresses.

use std::collections::BTreeMap;
use std::fmt;

use weft_base::NodeId;

use crate::{Name, Underlay};

/// One node of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its number.
    pub node: NodeId,
    /// Its name, if it has one.
    pub name: Option<Name>,
    /// Where it is reached, and where replies to it go (CDP-ENC-6).
    pub at: Underlay,
}

/// The nodes of a cluster, each number and each name once.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    members: BTreeMap<NodeId, Member>,
    names: BTreeMap<Name, NodeId>,
    places: BTreeMap<Underlay, NodeId>,
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
        if self.places.contains_key(&member.at) {
            return Err(AddError::PlaceTaken(member.at));
        }
        if let Some(name) = &member.name {
            self.names.insert(name.clone(), member.node);
        }
        self.places.insert(member.at, member.node);
        self.members.insert(member.node, member);
        Ok(())
    }

    /// Says that `node` is reached at `at`, as the owner of a running node may: for any number, and in place of what was
    /// said of it before. Its name stays; of two nodes at one address the later has it.
    pub fn place(&mut self, node: NodeId, at: Underlay) {
        let member = self.members.entry(node).or_insert(Member { node, name: None, at });
        let before = std::mem::replace(&mut member.at, at);
        if before != at && self.places.get(&before) == Some(&node) {
            self.places.remove(&before);
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(number: u32, name: &str, at: &str) -> Member {
        let at = Underlay::Udp(at.parse().unwrap());
        Member { node: NodeId::new(number).unwrap(), name: name.parse().ok(), at }
    }

    #[test]
    fn a_member_is_found_by_number_name_and_address() {
        let mut cluster = Cluster::default();
        let two = member(2, "two", "10.0.0.2:64064");
        cluster.add(two.clone()).unwrap();
        assert_eq!(cluster.get(two.node), Some(&two));
        assert_eq!(cluster.find("two"), Some(&two));
        assert_eq!(cluster.at(two.at), Some(&two));
        assert_eq!((cluster.find("three"), cluster.find("two words")), (None, None));
    }

    /// [CDP-ADR-1] A number is unique in its cluster, and so are name and address; a refused member leaves no trace.
    #[test]
    fn nothing_is_given_twice() {
        let mut cluster = Cluster::default();
        cluster.add(member(2, "two", "10.0.0.2:1")).unwrap();
        let refused = |cluster: &mut Cluster, member: Member| cluster.add(member).unwrap_err().to_string();
        assert!(refused(&mut cluster, member(2, "x", "10.0.0.9:1")).contains("node 0x000002 is given twice"));
        assert!(refused(&mut cluster, member(3, "two", "10.0.0.9:1")).contains("name two"));
        assert!(refused(&mut cluster, member(3, "x", "10.0.0.2:1")).contains("10.0.0.2:1"));
        assert_eq!(cluster.iter().count(), 1);
        cluster.add(member(3, "x", "10.0.0.9:1")).unwrap();
    }

    #[test]
    fn a_node_can_be_placed_elsewhere_and_keeps_its_name() {
        let mut cluster = Cluster::default();
        cluster.add(member(2, "two", "10.0.0.2:1")).unwrap();
        let (old, new) =
            (Underlay::Udp("10.0.0.2:1".parse().unwrap()), Underlay::Udp("10.0.0.9:1".parse().unwrap()));
        cluster.place(NodeId::new(2).unwrap(), new);
        assert_eq!(cluster.find("two").map(|member| member.at), Some(new));
        assert_eq!((cluster.at(old), cluster.at(new).map(|member| member.node.get())), (None, Some(2)));
        let drawn = NodeId::unregistered(5);
        cluster.place(drawn, new);
        assert_eq!(cluster.at(new).map(|member| member.node), Some(drawn));
        cluster.place(NodeId::new(2).unwrap(), old);
        assert_eq!(cluster.at(new).map(|member| member.node), Some(drawn), "not taken from who has it now");
    }

    /// [CDP-ADR-8] A cluster file assigns only 1..0x7FFFFF.
    #[test]
    fn unregistered_numbers_are_not_for_clusters() {
        let mut cluster = Cluster::default();
        let refused = cluster.add(member(0x80_0000, "x", "10.0.0.2:1")).unwrap_err();
        assert_eq!(refused, AddError::Unregistered(NodeId::new(0x80_0000).unwrap()));
        cluster.add(member(0x7F_FFFF, "x", "10.0.0.2:1")).unwrap();
    }
}
