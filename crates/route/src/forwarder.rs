//! What an I/O node does with a packet (`docs/spec/cdp.md`, section 14.2).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use weft_base::NodeId;

use crate::network::NetworkSet;
use crate::{Cluster, FORWARDS_MAX, Kind, Member, NetworkId, Underlay};

/// Where a packet leaves an I/O node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Hop {
    /// By this network.
    pub network: NetworkId,
    /// To this address.
    pub to: Underlay,
}

/// How a packet goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Onward<'a> {
    /// To its destination.
    Directly(Hop),
    /// To one of these I/O nodes, from each of which it is as far; the first, unless something is known against it
    /// ([CDP-FWD-7], [CDP-FWD-8]). There is one at least.
    Through(&'a [Hop]),
}

/// Why a packet is not forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum NotForwarded {
    /// [CDP-FWD-1] It was forwarded as often as a packet may be.
    HopLimit,
    /// It is for the I/O node itself.
    ForUs,
    /// Its source is no node of the cluster.
    UnknownSource,
    /// [CDP-FWD-4] Its source node cannot be on the side that it came from.
    WrongSide,
    /// Its destination is no node of the cluster.
    UnknownDestination,
    /// Its destination is on the network that it came from.
    ComesBack,
    /// No way leads to its destination.
    NoRoute,
}

impl NotForwarded {
    /// All reasons, in order.
    pub const ALL: [Self; 7] = [
        Self::HopLimit,
        Self::ForUs,
        Self::UnknownSource,
        Self::WrongSide,
        Self::UnknownDestination,
        Self::ComesBack,
        Self::NoRoute,
    ];
}

impl fmt::Display for NotForwarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HopLimit => "forwarded too often",
            Self::ForUs => "for the I/O node itself",
            Self::UnknownSource => "source not in the cluster",
            Self::WrongSide => "source on another side",
            Self::UnknownDestination => "destination not in the cluster",
            Self::ComesBack => "destination on the side it came from",
            Self::NoRoute => "no route to the destination",
        })
    }
}

/// The decisions of one I/O node. It keeps no state of connections ([CDP-FWD-3]).
#[derive(Clone, Debug)]
pub struct Forwarder {
    own: NodeId,
    networks: NetworkSet,
    cluster: Cluster,
    ways: BTreeMap<Journey, Vec<Hop>>,
    /// Which I/O node may bring packets by which network, and of nodes on which networks.
    bringers: BTreeSet<(NodeId, NetworkId, NetworkSet)>,
}

/// By which networks a packet may leave, and those of its destination, none of which is among them.
type Journey = (NetworkSet, NetworkSet);

impl Forwarder {
    /// The decisions of node `own`.
    #[must_use]
    pub fn new(own: NodeId, cluster: Cluster) -> Self {
        let networks = cluster.networks_of(own);
        let mut this = Self { own, networks, cluster, ways: BTreeMap::new(), bringers: BTreeSet::new() };
        this.ways = this.all_ways();
        this.bringers = this.all_bringers();
        this
    }

    /// [CDP-FWD-4] From which other I/O nodes packets can come to us, by which network, and of whom.
    fn all_bringers(&self) -> BTreeSet<(NodeId, NetworkId, NetworkSet)> {
        let ends: BTreeSet<NetworkSet> = self.cluster.iter().map(Member::networks).collect();
        let io_nodes = self.cluster.iter().filter(|io| io.kind == Kind::Io && io.node != self.own);
        let places = io_nodes.flat_map(|io| io.at.iter().map(move |at| (io, at.network)));
        let all = places.flat_map(|(io, network)| ends.iter().map(move |&ends| (io, network, ends)));
        let leads = |(io, network, ends): &(&Member, NetworkId, NetworkSet)| {
            self.cluster.forwards_through(io, NetworkSet::only(*network), *ends).is_some()
        };
        all.filter(leads).map(|(io, network, ends)| (io.node, network, ends)).collect()
    }

    /// What a packet that comes by any of our networks, for any node, finds where it is not there yet.
    fn all_ways(&self) -> BTreeMap<Journey, Vec<Hop>> {
        let ends: BTreeSet<NetworkSet> = self.cluster.iter().map(Member::networks).collect();
        let onwards = NetworkId::all().map(|by| self.networks.without(NetworkSet::only(by)));
        let onwards: BTreeSet<NetworkSet> = onwards.collect();
        let journeys = onwards.iter().flat_map(|&onward| ends.iter().map(move |&to| (onward, to)));
        let far = journeys.filter(|(onward, to)| !onward.meets(*to));
        far.map(|journey| (journey, self.through_others(journey)))
            .filter(|(_, ways)| !ways.is_empty())
            .collect()
    }

    /// The I/O nodes that a packet may go through next, those of any journey.
    pub fn next_io_nodes(&self) -> impl Iterator<Item = (NodeId, Hop)> {
        let hops: BTreeSet<Hop> = self.ways.values().flatten().copied().collect();
        hops.into_iter().filter_map(|hop| Some((self.cluster.at(hop.to)?.node, hop)))
    }

    /// The I/O node itself.
    #[must_use]
    pub const fn own(&self) -> NodeId {
        self.own
    }

    /// The cluster that it decides by.
    #[must_use]
    pub const fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Where a packet goes that came by `network` from `from` and has been forwarded `hops` times.
    ///
    /// # Errors
    /// Why it goes nowhere.
    pub fn decide(
        &self,
        (network, from): (NetworkId, Underlay),
        source: NodeId,
        destination: NodeId,
        hops: u32,
    ) -> Result<Onward<'_>, NotForwarded> {
        // [CDP-FWD-1]
        if hops >= FORWARDS_MAX {
            return Err(NotForwarded::HopLimit);
        }
        let sender = self.cluster.get(source).ok_or(NotForwarded::UnknownSource)?;
        if !self.may_come(sender, network, from) {
            return Err(NotForwarded::WrongSide);
        }
        if destination == self.own {
            return Err(NotForwarded::ForUs);
        }
        let receiver = self.cluster.get(destination).ok_or(NotForwarded::UnknownDestination)?;
        let onward = self.networks.without(NetworkSet::only(network));
        if let Some(hop) = self.directly(receiver, onward) {
            return Ok(Onward::Directly(hop));
        }
        if receiver.on(network).is_some() {
            return Err(NotForwarded::ComesBack);
        }
        let ways = self.ways.get(&(onward, receiver.networks())).ok_or(NotForwarded::NoRoute)?;
        Ok(Onward::Through(ways))
    }

    /// [CDP-FWD-4] Whether packets of `sender` can come from there: from its own host, or from an I/O node on the way.
    fn may_come(&self, sender: &Member, network: NetworkId, from: Underlay) -> bool {
        if let Some(at) = sender.on(network) {
            return at.is_same_host(from);
        }
        self.cluster.io_nodes_at_host(from).any(|io| {
            io.on(network).is_some_and(|at| at.is_same_host(from))
                && self.bringers.contains(&(io.node, network, sender.networks()))
        })
    }

    fn directly(&self, receiver: &Member, onward: NetworkSet) -> Option<Hop> {
        let shared =
            receiver.at.iter().find(|attachment| onward.meets(NetworkSet::only(attachment.network)))?;
        Some(Hop { network: shared.network, to: shared.at })
    }

    /// The next I/O nodes of the shortest ways, in the order of our own set from its default on.
    fn through_others(&self, (onward, to): Journey) -> Vec<Hop> {
        let (io_nodes, default) = self.cluster.io_nodes_towards(self.own, to);
        let in_turn = (0..io_nodes.len()).map(|step| io_nodes[(default + step) % io_nodes.len()]);
        let ways = in_turn.filter_map(|io| {
            let forwards = self.cluster.forwards_through(io, self.networks, to)?;
            Some((forwards, self.directly(io, onward)?))
        });
        let ways: Vec<(u32, Hop)> = ways.collect();
        let fewest = ways.iter().map(|(forwards, _)| *forwards).min();
        ways.into_iter().filter(|(forwards, _)| Some(*forwards) == fewest).map(|(_, hop)| hop).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Attachment;

    fn node(number: u32) -> NodeId {
        NodeId::new(number).unwrap()
    }

    fn network(index: usize) -> NetworkId {
        NetworkId::new(index).unwrap()
    }

    fn at(index: usize, number: u32) -> Underlay {
        Underlay::Udp(format!("10.{index}.0.{number}:64064").parse().unwrap())
    }

    /// Network 1 with hosts 1 and 3, network 2 with compute node 2, network 3 with compute node 4; I/O nodes 11 and 12
    /// between 1 and 2, 13 between 2 and 3.
    fn forwarder(own: u32) -> Forwarder {
        let mut cluster = Cluster::default();
        for (kind, number, networks) in [
            (Kind::Host, 1, &[1][..]),
            (Kind::Host, 3, &[1]),
            (Kind::Compute, 2, &[2]),
            (Kind::Compute, 4, &[3]),
            (Kind::Io, 11, &[1, 2]),
            (Kind::Io, 12, &[1, 2]),
            (Kind::Io, 13, &[2, 3]),
        ] {
            let attach = |&index: &usize| Attachment { network: network(index), at: at(index, number) };
            let member = Member::direct(node(number), None, at(9, 9));
            cluster.add(Member { kind, at: networks.iter().map(attach).collect(), ..member }).unwrap();
        }
        cluster.check().unwrap();
        Forwarder::new(node(own), cluster)
    }

    /// What I/O node `own` does with a packet that came by network `by` from the host of `from`: where it goes, or would
    /// first.
    fn decide(own: u32, by: usize, from: u32, source: u32, to: u32, hops: u32) -> Result<Hop, NotForwarded> {
        let forwarder = forwarder(own);
        let onward = forwarder.decide((network(by), at(by, from)), node(source), node(to), hops)?;
        Ok(match onward {
            Onward::Directly(hop) => hop,
            Onward::Through(ways) => ways[0],
        })
    }

    #[test]
    fn a_packet_leaves_by_the_network_of_its_destination() {
        assert_eq!(decide(11, 1, 1, 1, 2, 0), Ok(Hop { network: network(2), to: at(2, 2) }));
        assert_eq!(decide(11, 2, 2, 2, 3, 0), Ok(Hop { network: network(1), to: at(1, 3) }));
    }

    #[test]
    fn where_the_destination_is_further_the_next_io_node_has_it() {
        assert_eq!(decide(12, 1, 1, 1, 4, 0), Ok(Hop { network: network(2), to: at(2, 13) }));
        assert_eq!(decide(13, 2, 12, 1, 4, 1), Ok(Hop { network: network(3), to: at(3, 4) }));
        assert!(matches!(decide(13, 3, 4, 4, 1, 0), Ok(Hop { network: by, .. }) if by == network(2)));
    }

    /// Two I/O nodes of one host, told apart by their ports, lead to different networks.
    #[test]
    fn what_any_io_node_of_a_host_may_bring_may_come_from_there() {
        let at_port = |port: u16| Underlay::Udp(([10, 2, 0, 5], port).into());
        let mut cluster = Cluster::default();
        for (kind, number, places) in [
            (Kind::Host, 1, vec![(1, at(1, 1))]),
            (Kind::Compute, 3, vec![(3, at(3, 3))]),
            (Kind::Compute, 4, vec![(4, at(4, 4))]),
            (Kind::Io, 11, vec![(1, at(1, 11)), (2, at(2, 11))]),
            (Kind::Io, 21, vec![(2, at_port(64_064)), (3, at(3, 21))]),
            (Kind::Io, 22, vec![(2, at_port(64_065)), (4, at(4, 22))]),
        ] {
            let attach = |(index, at)| Attachment { network: network(index), at };
            let member = Member::direct(node(number), None, at(9, 9));
            cluster.add(Member { kind, at: places.into_iter().map(attach).collect(), ..member }).unwrap();
        }
        cluster.check().unwrap();
        let forwarder = Forwarder::new(node(11), cluster);
        let decide = |port, source| forwarder.decide((network(2), at_port(port)), node(source), node(1), 1);
        for (port, source) in [(64_064, 3), (64_065, 4)] {
            assert!(matches!(decide(port, source), Ok(Onward::Directly(_))), "{:?}", decide(port, source));
        }
    }

    #[test]
    fn all_next_io_nodes_of_the_shortest_ways_are_told_the_own_default_first() {
        let forwarder = forwarder(13);
        let onward = forwarder.decide((network(3), at(3, 4)), node(4), node(1), 0);
        let hops = |numbers: [u32; 2]| numbers.map(|number| Hop { network: network(2), to: at(2, number) });
        assert_eq!(onward, Ok(Onward::Through(&hops([12, 11]))), "13 mod 2 is the second");
        let told: Vec<u32> = forwarder.next_io_nodes().map(|(node, _)| node.get()).collect();
        assert_eq!(told, [11, 12]);
        let back = forwarder.decide((network(2), at(2, 2)), node(2), node(4), 0);
        assert!(matches!(back, Ok(Onward::Directly(_))), "{back:?}");
    }

    /// [CDP-FWD-1] A packet with HOP 3 is dropped.
    #[test]
    fn nothing_is_forwarded_a_fourth_time() {
        assert!(decide(11, 1, 1, 1, 2, 2).is_ok());
        assert_eq!(decide(11, 1, 1, 1, 2, 3), Err(NotForwarded::HopLimit));
    }

    /// [CDP-FWD-4] Packets that are not for a node it serves, or come from a side where their source cannot be, go nowhere.
    #[test]
    fn a_source_is_believed_on_its_own_side_only() {
        assert_eq!(decide(11, 2, 2, 1, 2, 0), Err(NotForwarded::WrongSide), "a compute node as a host");
        assert_eq!(decide(11, 1, 3, 1, 2, 0), Err(NotForwarded::WrongSide), "one host as another");
        assert_eq!(decide(11, 1, 12, 1, 2, 1), Err(NotForwarded::WrongSide), "hosts send by themselves");
        assert_eq!(decide(13, 2, 11, 4, 2, 1), Err(NotForwarded::WrongSide), "11 does not lead to 4");
        assert_eq!(decide(11, 1, 1, 99, 2, 0), Err(NotForwarded::UnknownSource));
        assert_eq!(decide(11, 1, 1, 1, 99, 0), Err(NotForwarded::UnknownDestination));
        assert_eq!(decide(11, 1, 1, 1, 3, 0), Err(NotForwarded::ComesBack));
        assert_eq!(decide(11, 1, 1, 1, 11, 0), Err(NotForwarded::ForUs));
    }

    /// [CDP-FWD-4] What was worked out once is what the cluster says, for each node and each way by which its packets may come.
    #[test]
    fn the_table_of_who_brings_packets_says_what_the_cluster_says() {
        for own in 11..=13 {
            let forwarder = forwarder(own);
            let cluster = forwarder.cluster();
            let mut brought = 0;
            for (source, by) in cluster.iter().flat_map(|source| cluster.iter().map(move |by| (source, by))) {
                for Attachment { network, at } in by.at.iter().copied() {
                    let leads = || {
                        cluster.forwards_through(by, NetworkSet::only(network), source.networks()).is_some()
                    };
                    let expected = match source.on(network) {
                        Some(own) => own.is_same_host(at),
                        None => by.kind == Kind::Io && by.node != forwarder.own() && leads(),
                    };
                    let decision = forwarder.decide((network, at), source.node, node(99), 0);
                    assert_eq!(
                        !matches!(decision, Err(NotForwarded::WrongSide)),
                        expected,
                        "{own}: {source:?} {at}"
                    );
                    brought += usize::from(expected && source.node != by.node);
                }
            }
            assert!(brought > 0);
        }
    }

    #[test]
    fn a_destination_without_a_way_is_told_from_one_that_is_unknown() {
        let mut cluster = Cluster::default();
        for (kind, number, networks) in
            [(Kind::Host, 1, &[1][..]), (Kind::Compute, 2, &[2]), (Kind::Io, 11, &[1, 3])]
        {
            let attach = |&index: &usize| Attachment { network: network(index), at: at(index, number) };
            let member = Member::direct(node(number), None, at(9, 9));
            cluster.add(Member { kind, at: networks.iter().map(attach).collect(), ..member }).unwrap();
        }
        let forwarder = Forwarder::new(node(11), cluster);
        let decision = forwarder.decide((network(1), at(1, 1)), node(1), node(2), 0);
        assert_eq!(decision, Err(NotForwarded::NoRoute));
    }
}
