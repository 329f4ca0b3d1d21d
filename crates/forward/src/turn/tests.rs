use std::collections::BTreeMap;

use weft_base::{Address, FlowKey, Port as CdpPort};
use weft_link::{Endpoint, Hub, SendBatch};
use weft_route::{Attachment, Cluster, Kind as NodeKind, Member};
use weft_wire::{DropReason, Header, Kind};

use super::*;
use crate::worker::Worker;

fn node(number: u32) -> NodeId {
    NodeId::new(number).unwrap()
}

fn network(index: usize) -> NetworkId {
    NetworkId::new(index).unwrap()
}

/// Nodes on networks that share a hub, so that all addresses differ.
struct World {
    hub: Hub,
    ends: BTreeMap<(u32, usize), Arc<Endpoint>>,
    members: Vec<Member>,
}

impl World {
    /// Network 1 with hosts 1 and 3, network 2 with compute node 2, I/O node 11 between them.
    fn new() -> Self {
        let mut world = Self { hub: Hub::new(9000), ends: BTreeMap::new(), members: Vec::new() };
        world.add(NodeKind::Host, 1, &[1]);
        world.add(NodeKind::Host, 3, &[1]);
        world.add(NodeKind::Compute, 2, &[2]);
        world.add(NodeKind::Io, 11, &[1, 2]);
        world
    }

    fn add(&mut self, kind: NodeKind, number: u32, networks: &[usize]) {
        let mut at = Vec::new();
        for &index in networks {
            let end = Arc::new(self.hub.endpoint().unwrap());
            at.push(Attachment { network: network(index), at: end.info().local.into() });
            self.ends.insert((number, index), end);
        }
        let member = Member::direct(node(number), None, at[0].at);
        self.members.push(Member { kind, at, ..member });
    }

    fn cluster(&self) -> Cluster {
        let mut cluster = Cluster::default();
        self.members.iter().for_each(|member| cluster.add(member.clone()).unwrap());
        cluster
    }

    fn at(&self, number: u32, by: usize) -> SocketAddr {
        self.ends[&(number, by)].info().local
    }

    fn io_node(&self, number: u32, cluster: Cluster) -> Networks {
        let own = self.ends.iter().filter(|((of, _), _)| *of == number);
        let links = own.map(|((_, by), end)| (network(*by), end.clone() as Arc<dyn Link>)).collect();
        Networks::new(Forwarder::new(node(number), cluster), links).unwrap()
    }

    /// Sends from node `from` to the I/O node `io`, both on network `by`.
    fn send(&self, from: u32, io: u32, by: usize, packets: &[Vec<u8>]) {
        let mut batch = SendBatch::new();
        packets.iter().for_each(|packet| batch.push_slice(self.at(io, by), packet));
        self.ends[&(from, by)].send(&mut batch).unwrap();
    }

    fn received(&self, number: u32, by: usize) -> Vec<Vec<u8>> {
        let mut batch = RecvBatch::new();
        self.ends[&(number, by)].recv(&mut batch).unwrap();
        batch.drain().map(|packet| packet.bytes.to_vec()).collect()
    }
}

/// One turn of every network.
fn turn(networks: &Networks) {
    for port in &networks.ports {
        Worker::new(networks, port).turn().unwrap();
    }
}

fn packet(source: u32, destination: u32, hop: u8) -> Vec<u8> {
    let end = |number, port| Address { node: node(number), port: CdpPort::new(port).unwrap() };
    let flow = FlowKey { local: end(source, 49152), remote: end(destination, 7) };
    let mut bytes = Header { hop, length: 128, ..Header::new(Kind::Data, flow) }.emit().to_vec();
    bytes.resize(128, 0xA5);
    bytes
}

fn arrivals(networks: &Networks, by: usize) -> Arrivals {
    *networks.port(network(by)).unwrap().arrivals.lock()
}

/// [CDP-FWD-1] HOP is one more. [CDP-FWD-2] Nothing else changes.
#[test]
fn packets_go_on_in_both_directions_and_differ_by_one_hop() {
    let world = World::new();
    let io = world.io_node(11, world.cluster());
    world.send(1, 11, 1, &[packet(1, 2, 0), packet(1, 2, 2)]);
    world.send(2, 11, 2, &[packet(2, 3, 1)]);
    turn(&io);
    assert_eq!(world.received(2, 2), [packet(1, 2, 1), packet(1, 2, 3)]);
    assert_eq!(world.received(3, 1), [packet(2, 3, 2)]);
    assert!(world.received(1, 1).is_empty());
    let stats = io.port(network(2)).unwrap().stats();
    assert_eq!((stats.departures.packets, stats.departures.bytes, stats.queued), (2, 256, 0));
}

/// [CDP-FWD-4] What is not for a node it serves, or comes from a side where its source cannot be, is dropped without a word.
/// [CDP-CHK-3] Each is counted under its reason.
#[test]
fn packets_that_may_not_go_on_are_counted_and_not_answered() {
    let world = World::new();
    let io = world.io_node(11, world.cluster());
    let spoofed = [packet(2, 3, 0), packet(3, 2, 0), packet(1, 2, 3), packet(1, 3, 0)];
    world.send(1, 11, 1, &spoofed);
    world.send(1, 11, 1, &[packet(1, 11, 0), packet(1, 99, 0), packet(98, 2, 0), packet(1, 2, 0)]);
    turn(&io);
    let counted = arrivals(&io, 1);
    for (reason, count) in [
        (NotForwarded::WrongSide, 2),
        (NotForwarded::HopLimit, 1),
        (NotForwarded::ComesBack, 1),
        (NotForwarded::ForUs, 1),
        (NotForwarded::UnknownDestination, 1),
        (NotForwarded::UnknownSource, 1),
        (NotForwarded::NoRoute, 0),
    ] {
        assert_eq!(counted.refused_for(reason), count, "{reason}");
    }
    assert_eq!(world.received(2, 2).len(), 1);
    assert!(world.received(1, 1).is_empty() && world.received(3, 1).is_empty());
    assert_eq!((counted.packets, counted.refused().map(|(_, count)| count).sum::<u64>()), (8, 7));
}

/// [CDP-FWD-3] Size, VER and LENGTH are checked.
#[test]
fn what_is_no_packet_goes_nowhere() {
    let world = World::new();
    let io = world.io_node(11, world.cluster());
    let damaged = |at: usize, value: u8| {
        let mut bytes = packet(1, 2, 0);
        bytes[at] = value;
        bytes
    };
    world.send(
        1,
        11,
        1,
        &[vec![0x10; 27], damaged(0, 0x20), damaged(13, 129), damaged(13, 127), damaged(3, 0)],
    );
    turn(&io);
    let counted: Vec<_> = arrivals(&io, 1).malformed().filter(|(_, count)| *count > 0).collect();
    let reasons = [
        DropReason::Short,
        DropReason::Version,
        DropReason::Length,
        DropReason::Trailing,
        DropReason::Address,
    ];
    assert_eq!(counted, reasons.map(|reason| (reason, 1)));
    assert!(world.received(2, 2).is_empty());
}

/// [CDP-FWD-1] Two I/O nodes whose tables send a packet to each other lose it at HOP 3, and the count names both.
#[test]
fn a_loop_ends_at_the_hop_limit_and_names_both_nodes() {
    let mut world = World::new();
    world.add(NodeKind::Host, 5, &[3]);
    world.add(NodeKind::Io, 12, &[1, 2]);
    // Node 11 joins network 3 as well.
    let third = Arc::new(world.hub.endpoint().unwrap());
    let attachment = Attachment { network: network(3), at: third.info().local.into() };
    world.ends.insert((11, 3), third);
    world.members.iter_mut().find(|member| member.node == node(11)).unwrap().at.push(attachment);
    // To 11 node 2 is where 12 is on network 2; to 12 it is where 11 is on network 1. Both have the other at a wrong port.
    let wrong = |io: u32, by: usize| {
        let mut world =
            World { hub: world.hub.clone(), ends: world.ends.clone(), members: world.members.clone() };
        let place = world.at(io, by);
        for member in &mut world.members {
            if member.node == node(2) {
                member.at = vec![Attachment { network: network(by), at: place.into() }];
            } else if member.node == node(io) {
                let moved = SocketAddr::new(place.ip(), place.port() + 1);
                member.at.iter_mut().find(|at| at.network == network(by)).unwrap().at = moved.into();
            }
        }
        world.cluster()
    };
    let (eleven, twelve) = (world.io_node(11, wrong(12, 2)), world.io_node(12, wrong(11, 1)));
    world.send(5, 11, 3, &[packet(5, 2, 0)]);
    for _ in 0..5 {
        turn(&eleven);
        turn(&twelve);
    }
    assert_eq!((arrivals(&eleven, 1).packets, arrivals(&twelve, 2).packets), (1, 2));
    let too_far = arrivals(&twelve, 2).too_far.unwrap();
    assert_eq!((too_far.source, too_far.destination, too_far.by), (node(5), node(2), Some(node(11))));
    assert_eq!(arrivals(&twelve, 2).refused_for(NotForwarded::HopLimit), 1);
}

#[test]
fn a_network_without_a_link_is_no_route() {
    let world = World::new();
    let link: Arc<dyn Link> = world.ends[&(11, 1)].clone();
    let forwarder = Forwarder::new(node(11), world.cluster());
    let io = Networks::new(forwarder.clone(), vec![(network(1), link.clone())]).unwrap();
    world.send(1, 11, 1, &[packet(1, 2, 0)]);
    turn(&io);
    assert_eq!(arrivals(&io, 1).refused_for(NotForwarded::NoRoute), 1);
    let twice = Networks::new(forwarder, vec![(network(1), link.clone()), (network(1), link)]);
    assert!(twice.is_err_and(|error| error.to_string().contains("two links")));
}
