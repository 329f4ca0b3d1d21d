//! Which node is reached where, and which packets may claim to come from it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_base::NodeId;
use weft_sync::RwLock;

use crate::random;

/// Learned entries are dropped, all at once, when there are this many ([CDP-LIM-A]).
const LEARNED_MAX: usize = 65_536;

/// Whether a packet may come from where it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The cluster names this node at this address.
    Known,
    /// The cluster does not name the node, and the engine is open to such nodes ([CDP-ADR-7]).
    Open,
    /// The address contradicts the cluster ([CDP-ADR-6]).
    Contradicts,
    /// The cluster does not name the node, and the engine is strict.
    Stranger,
}

/// Nodes, their underlay addresses, and our own number.
#[derive(Debug)]
pub(crate) struct Directory {
    own: NodeId,
    /// Whether we answer under every unregistered number that we are called by.
    takes_aliases: bool,
    strict: bool,
    /// Whether the cluster names anybody; if not, nobody can contradict it.
    has_peers: AtomicBool,
    entries: RwLock<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    /// From the cluster: binding.
    peers: HashMap<NodeId, SocketAddr>,
    /// From validated handshakes, and the names we gave to addresses we connect to.
    learned: HashMap<NodeId, SocketAddr>,
    names: HashMap<SocketAddr, NodeId>,
}

impl Directory {
    /// A directory for the node `own`, or for a random unregistered one ([CDP-ADR-8]).
    pub(crate) fn new(own: Option<NodeId>, strict: bool) -> std::io::Result<Self> {
        let takes_aliases = own.is_none();
        let own = match own {
            Some(node) => node,
            None => NodeId::unregistered(random::u32()?),
        };
        Ok(Self { own, takes_aliases, strict, has_peers: AtomicBool::new(false), entries: RwLock::default() })
    }

    pub(crate) fn own(&self) -> NodeId {
        self.own
    }

    /// Whether a packet for `node` is for us. A node without a number of its own may be called by any unregistered
    /// one, because who connects by underlay address cannot know which it chose.
    #[inline]
    pub(crate) fn is_ours(&self, node: NodeId) -> bool {
        node == self.own || (self.takes_aliases && node.is_unregistered())
    }

    pub(crate) fn add_peer(&self, node: NodeId, at: SocketAddr) {
        let mut entries = self.entries.write();
        entries.peers.insert(node, at);
        entries.names.insert(at, node);
        self.has_peers.store(true, Ordering::Release);
    }

    /// [CDP-ADR-6] [CDP-ADR-7] Whether `node` may send from `from`.
    #[inline]
    pub(crate) fn check_source(&self, node: NodeId, from: SocketAddr) -> Source {
        if !self.strict && !self.has_peers.load(Ordering::Acquire) {
            return Source::Open;
        }
        match self.entries.read().peers.get(&node) {
            Some(at) if same_place(*at, from) => Source::Known,
            Some(_) => Source::Contradicts,
            None if self.strict => Source::Stranger,
            None => Source::Open,
        }
    }

    /// Whether the cluster names this node.
    pub(crate) fn is_peer(&self, node: NodeId) -> bool {
        self.entries.read().peers.contains_key(&node)
    }

    /// Where `node` is reached.
    pub(crate) fn locate(&self, node: NodeId) -> Option<SocketAddr> {
        let entries = self.entries.read();
        entries.peers.get(&node).or_else(|| entries.learned.get(&node)).copied()
    }

    /// The number of the node at `at`: the cluster's, one learned, or an unregistered one given to it now.
    pub(crate) fn name_of(&self, at: SocketAddr) -> std::io::Result<NodeId> {
        if let Some(node) = self.entries.read().names.get(&at) {
            return Ok(*node);
        }
        loop {
            let alias = NodeId::unregistered(random::u32()?);
            let mut entries = self.entries.write();
            if let Some(node) = entries.names.get(&at) {
                return Ok(*node);
            }
            if alias != self.own && !entries.learned.contains_key(&alias) {
                entries.learn(alias, at);
                return Ok(alias);
            }
        }
    }

    /// A handshake with `node` at `at` was validated.
    pub(crate) fn learn(&self, node: NodeId, at: SocketAddr) {
        if self.entries.read().learned.get(&node) != Some(&at) {
            self.entries.write().learn(node, at);
        }
    }
}

impl Entries {
    fn learn(&mut self, node: NodeId, at: SocketAddr) {
        if self.peers.contains_key(&node) {
            return;
        }
        if self.learned.len() >= LEARNED_MAX {
            self.learned.clear();
            self.names = self.peers.iter().map(|(node, at)| (*at, *node)).collect();
        }
        self.learned.insert(node, at);
        self.names.insert(at, node);
    }
}

/// [CDP-ENC-7] A sender may vary its UDP source port, so only the host is compared.
fn same_place(named: SocketAddr, from: SocketAddr) -> bool {
    named.ip().to_canonical() == from.ip().to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u32) -> NodeId {
        NodeId::new(number).unwrap()
    }

    /// [CDP-ADR-6] A packet whose source node contradicts the cluster is dropped.
    /// [CDP-CHK-2] The check needs nothing but the node and the underlay address.
    #[test]
    fn a_known_node_must_come_from_its_address() {
        let directory = Directory::new(Some(node(1)), false).unwrap();
        directory.add_peer(node(2), "10.0.0.2:64064".parse().unwrap());
        let check = |from: &str| directory.check_source(node(2), from.parse().unwrap());
        assert_eq!(check("10.0.0.2:64064"), Source::Known);
        assert_eq!(check("10.0.0.2:9"), Source::Known);
        assert_eq!(check("10.0.0.3:64064"), Source::Contradicts);
    }

    /// [CDP-ADR-7] Only a node in open mode takes packets of nodes that are missing from its cluster.
    #[test]
    fn strangers_are_taken_only_in_open_mode() {
        let from = "10.0.0.9:1".parse().unwrap();
        let open = Directory::new(None, false).unwrap();
        let strict = Directory::new(Some(node(1)), true).unwrap();
        assert_eq!(open.check_source(node(7), from), Source::Open);
        assert_eq!(strict.check_source(node(7), from), Source::Stranger);
    }

    /// [CDP-ADR-8] A node without a cluster file chooses from the unregistered range.
    #[test]
    fn a_node_of_its_own_is_called_by_any_unregistered_number() {
        let own = Directory::new(None, false).unwrap();
        assert!(own.own().is_unregistered());
        assert!(own.is_ours(NodeId::unregistered(77)) && !own.is_ours(node(77)));
        let named = Directory::new(Some(node(5)), false).unwrap();
        assert!(named.is_ours(node(5)) && !named.is_ours(NodeId::unregistered(77)));
    }

    #[test]
    fn an_address_keeps_the_name_it_was_given() {
        let directory = Directory::new(None, false).unwrap();
        let at = "10.0.0.2:64064".parse().unwrap();
        let name = directory.name_of(at).unwrap();
        assert_eq!(directory.name_of(at).unwrap(), name);
        assert_eq!(directory.locate(name), Some(at));
    }
}
