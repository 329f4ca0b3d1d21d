use super::*;
use crate::{Attachment, Kind, Member, NetworkId};

fn node(number: u32) -> NodeId {
    NodeId::new(number).unwrap()
}

fn at(text: &str) -> Underlay {
    Underlay::Udp(text.parse().unwrap())
}

/// Node 1 in `mode`, in a cluster that names node 2 at 10.0.0.2:64064.
fn directory(mode: Mode) -> Directory {
    let mut cluster = Cluster::default();
    cluster.add(Member::direct(node(2), None, at("10.0.0.2:64064"))).unwrap();
    Directory::new(node(1), mode, cluster)
}

/// [CDP-ADR-6] [CDP-CHK-2] A packet whose source node contradicts the cluster is not accepted, in either mode.
#[test]
fn a_named_node_comes_from_its_host() {
    for mode in [Mode::Strict, Mode::Open] {
        let directory = directory(mode);
        assert_eq!(directory.accepts(node(2), at("10.0.0.2:64064")), Source::Known);
        assert_eq!(directory.accepts(node(2), at("10.0.0.2:50000")), Source::Known, "CDP-ENC-7");
        assert_eq!(directory.accepts(node(2), at("10.0.0.3:64064")), Source::Contradicts);
    }
}

/// [CDP-ADR-7] Only a node in open mode accepts a source node that its cluster does not name.
#[test]
fn strangers_are_accepted_in_open_mode_alone() {
    let from = at("10.0.0.9:1");
    assert_eq!(directory(Mode::Open).accepts(node(7), from), Source::Open);
    assert_eq!(directory(Mode::Strict).accepts(node(7), from), Source::Stranger);
    assert!(Source::Open.is_accepted() && Source::Known.is_accepted());
    assert!(!Source::Stranger.is_accepted() && !Source::Contradicts.is_accepted());
}

/// [CDP-ENC-6] Replies go to the port that the cluster gives, not to the source port.
#[test]
fn a_named_node_stays_where_the_cluster_says() {
    let mut directory = directory(Mode::Open);
    assert!(!directory.learn(node(2), at("10.0.0.2:50000")));
    assert_eq!(directory.next_hop(node(2)), Some(NextHop::Direct(at("10.0.0.2:64064"))));
    assert_eq!(directory.learned_len(), 0);
}

/// [CDP-ADR-7] In open mode packets go to the underlay address of the last current packet.
#[test]
fn a_learned_node_is_reached_where_it_was_last_heard() {
    let mut directory = directory(Mode::Open);
    assert_eq!(directory.next_hop(node(7)), None);
    assert!(directory.learn(node(7), at("10.0.0.9:1")));
    assert!(directory.learn(node(7), at("10.0.0.9:2")));
    assert_eq!(directory.next_hop(node(7)), Some(NextHop::Direct(at("10.0.0.9:2"))));
}

#[test]
fn what_learning_would_not_change_is_known() {
    let mut open = directory(Mode::Open);
    assert!(open.knows(node(2), at("10.0.0.7:1")), "the cluster's word stands");
    assert!(open.knows(node(1), at("10.0.0.7:1")), "ourselves");
    assert!(!open.knows(node(7), at("10.0.0.9:1")));
    open.learn(node(7), at("10.0.0.9:1"));
    assert!(open.knows(node(7), at("10.0.0.9:1")) && !open.knows(node(7), at("10.0.0.9:2")));
    assert!(directory(Mode::Strict).knows(node(7), at("10.0.0.9:1")), "strict nodes do not learn");
}

#[test]
fn a_strict_node_learns_and_names_nobody() {
    let mut directory = directory(Mode::Strict);
    assert!(!directory.learn(node(7), at("10.0.0.9:1")));
    assert_eq!(directory.next_hop(node(7)), None);
    assert_eq!(directory.name(at("10.0.0.9:1"), 5), None);
    assert_eq!(directory.name(at("10.0.0.2:64064"), 5), Some(node(2)));
}

/// [CDP-ADR-8] A node without a cluster file draws its number from 0x800000..0xFFFFFE and runs in open mode.
#[test]
fn a_node_without_a_cluster_file_is_open_and_unregistered() {
    for random in [0, 1, u32::MAX] {
        let directory = Directory::unregistered(random, Cluster::default());
        assert!(directory.identity().own().is_unregistered());
        assert_eq!(directory.accepts(node(7), at("10.0.0.9:1")), Source::Open);
    }
}

/// [CDP-CHK-5] A packet for another node is not ours; only a drawn number may be missed.
#[test]
fn a_drawn_number_answers_to_every_unregistered_one() {
    let drawn = Directory::unregistered(3, Cluster::default());
    assert!(drawn.identity().is_ours(NodeId::unregistered(77)) && !drawn.identity().is_ours(node(77)));
    let chosen = Directory::new(NodeId::unregistered(3), Mode::Open, Cluster::default());
    assert!(
        chosen.identity().is_ours(NodeId::unregistered(3))
            && !chosen.identity().is_ours(NodeId::unregistered(77))
    );
    assert!(
        directory(Mode::Open).identity().is_ours(node(1))
            && !directory(Mode::Open).identity().is_ours(node(2))
    );
}

#[test]
fn an_address_keeps_the_name_it_was_given() {
    let mut directory = Directory::unregistered(9, Cluster::default());
    let name = directory.name(at("10.0.0.2:64064"), 1).unwrap();
    assert!(name.is_unregistered());
    assert_eq!(directory.name(at("10.0.0.2:64064"), 2), Some(name));
    assert_eq!(directory.next_hop(name), Some(NextHop::Direct(at("10.0.0.2:64064"))));
}

#[test]
fn two_addresses_never_share_a_name_nor_take_ours() {
    let mut directory = Directory::unregistered(9, Cluster::default());
    let names: Vec<NodeId> = ["10.0.0.2:1", "10.0.0.2:2", "10.0.0.3:1"]
        .into_iter()
        .map(|text| directory.name(at(text), 9).unwrap())
        .collect();
    assert_eq!(names, [10, 11, 12].map(NodeId::unregistered));
    let last = directory.name(at("10.0.0.4:1"), NodeId::LAST - NodeId::FIRST_UNREGISTERED).unwrap();
    assert_eq!(last.get(), NodeId::LAST);
    assert_eq!(directory.name(at("10.0.0.5:1"), UNREGISTERED_COUNT - 1), Some(NodeId::unregistered(0)));
}

/// [CDP-LIM-A] The table of learned nodes is bounded.
#[test]
fn learning_is_bounded() {
    let mut directory = Directory::unregistered(0, Cluster::default());
    let from = at("10.0.0.2:1");
    let many = u32::try_from(LEARNED_MAX).unwrap() + 10;
    for number in 1..=many {
        directory.learn(node(number), from);
    }
    assert_eq!(directory.learned_len(), LEARNED_MAX);
    assert_eq!(directory.next_hop(node(10)), None);
    assert_eq!(directory.next_hop(node(11)), Some(NextHop::Direct(from)));
}

/// Hosts on network 1, compute nodes on network 2, and I/O nodes 11 and 12 on both, seen from host 1.
fn two_networks() -> Directory {
    let mut cluster = Cluster::default();
    for (kind, number, networks) in [
        (Kind::Host, 1, &[1][..]),
        (Kind::Host, 3, &[1]),
        (Kind::Compute, 2, &[2]),
        (Kind::Compute, 4, &[2]),
        (Kind::Io, 11, &[1, 2]),
        (Kind::Io, 12, &[1, 2]),
    ] {
        let attach = |&index: &usize| Attachment {
            network: NetworkId::new(index).unwrap(),
            at: at(&format!("10.{index}.0.{number}:64064")),
        };
        let member = Member::direct(node(number), None, at("10.9.9.9:1"));
        cluster.add(Member { kind, at: networks.iter().map(attach).collect(), ..member }).unwrap();
    }
    Directory::new(node(1), Mode::Strict, cluster)
}

/// [CDP-IO-1] A node on our network is reached directly, all others of one side through one set of I/O nodes.
#[test]
fn a_node_on_another_network_is_reached_through_io_nodes() {
    let directory = two_networks();
    assert_eq!(directory.next_hop(node(3)), Some(NextHop::Direct(at("10.1.0.3:64064"))));
    assert_eq!(directory.next_hop(node(12)), Some(NextHop::Direct(at("10.1.0.12:64064"))));
    assert_eq!(
        (directory.next_hop(node(2)), directory.next_hop(node(4))),
        (Some(NextHop::Io(0)), Some(NextHop::Io(0)))
    );
    let [side] = directory.sides() else { panic!("one side") };
    assert_eq!(side.io_nodes, [(node(11), at("10.1.0.11:64064")), (node(12), at("10.1.0.12:64064"))]);
    assert_eq!((side.position(at("10.1.0.12:9")), side.position(at("10.1.0.3:64064"))), (Some(1), None));
    assert_eq!(side.io_set().default_member(), side.default);
}

/// A node that was told of no cluster can be told where others are.
#[test]
fn a_node_that_is_placed_is_reached_directly() {
    let mut directory = Directory::new(node(1), Mode::Strict, Cluster::default());
    directory.cluster_mut().place(node(2), at("10.0.0.2:1"));
    assert_eq!(directory.next_hop(node(2)), Some(NextHop::Direct(at("10.0.0.2:1"))));
}

/// [CDP-ADR-6] A packet from a known I/O node may have any source of the cluster, and from any other host only its own.
#[test]
fn io_nodes_bring_packets_of_others() {
    let directory = two_networks();
    assert_eq!(directory.accepts(node(2), at("10.1.0.11:64064")), Source::Known);
    assert_eq!(directory.accepts(node(2), at("10.1.0.3:64064")), Source::Contradicts);
    assert_eq!(directory.accepts(node(99), at("10.1.0.11:64064")), Source::Stranger);
}
