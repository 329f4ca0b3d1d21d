//! The directory of [`weft_route`] for many threads at once: a lock around it, and what never changes beside it, the
//! sides among that.
//!
//! Lock order: alone. It is asked for packets that come from elsewhere than their connection's peer, and when
//! connections open; the number that each packet is checked for needs no lock.

use std::net::SocketAddr;
use std::sync::Arc;

use weft_base::NodeId;
use weft_route::{AddError, Cluster, Identity, Mode, Name, NextHop, Underlay};
use weft_sync::RwLock;

use crate::random;
use crate::settings::Settings;
use crate::side::Side;

pub(crate) use weft_route::Source;

/// Nodes, their underlay addresses, and our own number.
#[derive(Debug)]
pub(crate) struct Directory {
    identity: Identity,
    nodes: RwLock<weft_route::Directory>,
    sides: Box<[Arc<Side>]>,
}

/// How packets for a node go.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// To the node itself.
    Direct(SocketAddr),
    /// Through one of the I/O nodes of a side.
    Side(Arc<Side>),
}

impl Directory {
    /// A directory for the node of the settings, or for a random unregistered one ([CDP-ADR-8]).
    pub(crate) fn new(settings: &Settings) -> std::io::Result<Self> {
        let mut cluster = settings.cluster.clone();
        for &(node, at) in &settings.peers {
            cluster.place(node, at.into());
        }
        let nodes = match settings.node {
            Some(own) => weft_route::Directory::new(own, settings.mode, cluster),
            None if settings.mode == Mode::Strict => {
                let why = "a strict node needs a number that its peers know; give it one, or let it be open";
                return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why));
            }
            None => weft_route::Directory::unregistered(random::u32()?, cluster),
        };
        let sides = nodes.sides().iter().map(|side| Arc::new(Side::new(side, settings.io_probe))).collect();
        Ok(Self { identity: nodes.identity(), nodes: RwLock::new(nodes), sides })
    }

    pub(crate) fn own(&self) -> NodeId {
        self.identity.own()
    }

    /// [CDP-CHK-5] Whether a packet for `node` is for us.
    #[inline]
    pub(crate) fn is_ours(&self, node: NodeId) -> bool {
        self.identity.is_ours(node)
    }

    pub(crate) fn add_peer(&self, node: NodeId, at: SocketAddr) {
        self.nodes.write().cluster_mut().place(node, at.into());
    }

    /// What `ask` finds in the names of the cluster and of those that were added to it.
    pub(crate) fn cluster<T>(&self, ask: impl FnOnce(&Cluster) -> T) -> T {
        ask(self.nodes.read().cluster())
    }

    pub(crate) fn add_name(&self, name: Name, node: NodeId) -> Result<(), AddError> {
        self.nodes.write().cluster_mut().add_name(name, node)
    }

    pub(crate) fn mode(&self) -> Mode {
        self.nodes.read().mode()
    }

    /// [CDP-ADR-6] [CDP-ADR-7] Whether `node` may send from `from`.
    pub(crate) fn check_source(&self, node: NodeId, from: SocketAddr) -> Source {
        self.nodes.read().accepts(node, from.into())
    }

    /// Whether the cluster names this node.
    pub(crate) fn is_peer(&self, node: NodeId) -> bool {
        self.nodes.read().cluster().get(node).is_some()
    }

    /// How packets for `node` go.
    pub(crate) fn way(&self, node: NodeId) -> Option<Way> {
        match self.nodes.read().next_hop(node)? {
            NextHop::Direct(Underlay::Udp(at)) => Some(Way::Direct(at)),
            NextHop::Io(side) => self.sides.get(side).cloned().map(Way::Side),
        }
    }

    /// The sides that are reached through I/O nodes.
    pub(crate) fn sides(&self) -> &[Arc<Side>] {
        &self.sides
    }

    /// The number of the node at `at`: the cluster's, one learned, or an unregistered one given to it now. `None` if we
    /// are strict and the cluster does not name the address.
    pub(crate) fn name_of(&self, at: SocketAddr) -> std::io::Result<Option<NodeId>> {
        let known = self.nodes.read().named(at.into());
        match known {
            Some(node) => Ok(Some(node)),
            None => Ok(self.nodes.write().name(at.into(), random::u32()?)),
        }
    }

    /// A handshake with `node` at `at` was validated, or a current packet came from there. Costs little if nothing is
    /// new; for a node that is in touch it is to be said again from time to time, lest others push it out.
    pub(crate) fn learn(&self, node: NodeId, at: SocketAddr) {
        if !self.nodes.read().knows(node, at.into()) {
            self.nodes.write().learn(node, at.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_base::Service;
    use weft_route::LEARNED_MAX;

    use super::*;
    use crate::{Config, Engine, Gather, Interest, Target};

    fn node(number: u32) -> NodeId {
        NodeId::new(number).unwrap()
    }

    fn direct(directory: &Directory, node: NodeId) -> Option<SocketAddr> {
        match directory.way(node)? {
            Way::Direct(at) => Some(at),
            Way::Side(_) => None,
        }
    }

    /// [CDP-ADR-8] A node without a cluster file chooses from the unregistered range, and runs in open mode.
    #[test]
    fn a_node_without_a_number_draws_one_and_is_open() {
        let drawn = Directory::new(&Settings::default()).unwrap();
        assert!(drawn.own().is_unregistered() && drawn.is_ours(NodeId::unregistered(77)));
        assert_eq!(drawn.check_source(node(7), "10.0.0.9:1".parse().unwrap()), Source::Open);
        let strict = Settings { mode: Mode::Strict, ..Settings::default() };
        assert_eq!(Directory::new(&strict).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    }

    #[test]
    fn an_address_keeps_the_name_it_was_given_unless_the_node_is_strict() {
        let directory = Directory::new(&Settings::default()).unwrap();
        let at = "10.0.0.2:64064".parse().unwrap();
        let name = directory.name_of(at).unwrap().unwrap();
        assert_eq!(directory.name_of(at).unwrap(), Some(name));
        assert_eq!(direct(&directory, name), Some(at));
        let settings = Settings { node: Some(node(1)), mode: Mode::Strict, ..Settings::default() };
        let strict = Directory::new(&settings).unwrap();
        assert_eq!(strict.name_of(at).unwrap(), None);
        strict.add_peer(node(2), at);
        assert_eq!((strict.name_of(at).unwrap(), strict.is_peer(node(2))), (Some(node(2)), true));
    }

    /// [CDP-LIM-A] The table of learned nodes is bounded, and a flood of strangers does not push out who is in touch.
    #[test]
    fn a_peer_that_is_in_touch_is_not_forgotten() {
        let open = || {
            let bind = "127.0.0.1:0".parse().unwrap();
            Engine::open(Settings { bind, ..Settings::default() }).unwrap()
        };
        let (here, there) = (open(), open());
        let config = |engine: &Engine| Config::new(Service::Datagram, engine.mss());
        let listening = there.listen(None, config(&there), Gather::Off).unwrap();
        let target = Target { node: None, at: Some(there.underlay()), port: listening.address().port };
        let slot = here.connect(target, None, config(&here), Gather::Off).unwrap();
        assert!(there.wait_accept(&listening, None));
        let accepted = there.accept(&listening).unwrap();

        let nodes = &there.core().directory;
        let third = u32::try_from(LEARNED_MAX / 3).unwrap();
        for flood in 0..6 {
            for stranger in flood * third..(flood + 1) * third {
                nodes.learn(node(stranger + 1), "10.0.0.9:1".parse().unwrap());
            }
            // A single message is acknowledged by a timer, and timers confirm.
            here.send(&slot, b"still here").unwrap();
            assert!(there.wait(&accepted, Interest::Readable, None));
            there.recv(&accepted, &mut [0; 16]).unwrap();
            while here.slot_stats(&slot).path.in_flight > 0 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        assert_eq!(direct(nodes, here.node()), Some(here.underlay()));
        assert_eq!(direct(nodes, node(1)), None, "strangers are forgotten");
    }
}
