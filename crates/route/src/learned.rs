//! Nodes that no cluster names, learned in open mode.
//!
//! A packet can make this table grow, so it is bounded ([CDP-LIM-A]): when it is full, the node that was learned or
//! confirmed longest ago is forgotten. Orders by a counter and not by a clock, so strangers can push out nobody who is
//! confirmed before half a table of them has come.

use std::collections::BTreeMap;

use weft_base::NodeId;

use crate::Underlay;

/// Most nodes that are remembered.
pub const LEARNED_MAX: usize = 65_536;

#[derive(Clone, Debug)]
pub(crate) struct Learned {
    capacity: usize,
    nodes: BTreeMap<NodeId, Entry>,
    /// From the entry confirmed longest ago to the latest.
    ages: BTreeMap<u64, NodeId>,
    /// The number last used with an address.
    names: BTreeMap<Underlay, NodeId>,
    next_age: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Underlay,
    age: u64,
}

impl Learned {
    pub(crate) const fn new(capacity: usize) -> Self {
        Self { capacity, nodes: BTreeMap::new(), ages: BTreeMap::new(), names: BTreeMap::new(), next_age: 0 }
    }

    /// `node` is at `at` from now on.
    pub(crate) fn insert(&mut self, node: NodeId, at: Underlay) {
        self.remove(node);
        if self.nodes.len() >= self.capacity
            && let Some((_, &oldest)) = self.ages.first_key_value()
        {
            self.remove(oldest);
        }
        let age = self.next_age;
        self.next_age += 1;
        self.nodes.insert(node, Entry { at, age });
        self.ages.insert(age, node);
        self.names.insert(at, node);
    }

    /// Whether `node` is at `at` and was confirmed so lately that to confirm it again would keep it no longer.
    pub(crate) fn is_fresh(&self, node: NodeId, at: Underlay) -> bool {
        let young = self.capacity as u64 / 2;
        self.nodes.get(&node).is_some_and(|entry| entry.at == at && self.next_age - entry.age <= young)
    }

    pub(crate) fn get(&self, node: NodeId) -> Option<Underlay> {
        self.nodes.get(&node).map(|entry| entry.at)
    }

    pub(crate) fn at(&self, at: Underlay) -> Option<NodeId> {
        self.names.get(&at).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    fn remove(&mut self, node: NodeId) {
        let Some(entry) = self.nodes.remove(&node) else {
            return;
        };
        self.ages.remove(&entry.age);
        if self.names.get(&entry.at) == Some(&node) {
            self.names.remove(&entry.at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u32) -> NodeId {
        NodeId::new(number).unwrap()
    }

    fn at(port: u16) -> Underlay {
        Underlay::Udp(([10, 0, 0, 1], port).into())
    }

    /// [CDP-LIM-A] Every table that a packet can make grow is bounded; the one confirmed longest ago goes first.
    #[test]
    fn the_oldest_is_forgotten_when_the_table_is_full() {
        let mut learned = Learned::new(3);
        for number in 1..=3 {
            learned.insert(node(number), at(100 + u16::try_from(number).unwrap()));
        }
        learned.insert(node(1), at(101));
        learned.insert(node(4), at(104));
        assert_eq!(learned.get(node(2)), None, "1 was confirmed after 2");
        assert_eq!((learned.len(), learned.get(node(1))), (3, Some(at(101))));
        assert_eq!(learned.at(at(102)), None);
        assert_eq!((learned.ages.len(), learned.names.len()), (3, 3));
    }

    /// [CDP-LIM-A] A flood of strangers pushes out nobody who is confirmed meanwhile, though not for each of them.
    #[test]
    fn who_is_confirmed_before_he_is_stale_is_never_forgotten() {
        let mut learned = Learned::new(8);
        learned.insert(node(1), at(1));
        let mut confirmations = 0;
        for stranger in 2..100 {
            learned.insert(node(stranger), at(u16::try_from(stranger).unwrap()));
            if !learned.is_fresh(node(1), at(1)) {
                learned.insert(node(1), at(1));
                confirmations += 1;
            }
            assert_eq!(learned.get(node(1)), Some(at(1)), "after {stranger} nodes");
        }
        assert!((10..40).contains(&confirmations), "{confirmations} confirmations");
        assert!(!learned.is_fresh(node(1), at(2)), "it would move");
        assert!(!learned.is_fresh(node(2), at(2)), "it is forgotten");
    }

    #[test]
    fn a_node_that_moves_leaves_its_old_address() {
        let mut learned = Learned::new(3);
        learned.insert(node(1), at(1));
        learned.insert(node(1), at(2));
        assert_eq!((learned.at(at(1)), learned.at(at(2)), learned.len()), (None, Some(node(1)), 1));
    }

    #[test]
    fn an_address_has_the_name_that_was_used_last() {
        let mut learned = Learned::new(3);
        learned.insert(node(1), at(1));
        learned.insert(node(2), at(1));
        learned.insert(node(1), at(9));
        assert_eq!(learned.at(at(1)), Some(node(2)));
    }
}
