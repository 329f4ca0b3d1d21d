use super::*;
use crate::Attachment;

fn node(number: u32) -> NodeId {
    NodeId::new(number).unwrap()
}

fn at(text: &str) -> Underlay {
    Underlay::Udp(text.parse().unwrap())
}

fn member(number: u32, name: &str, place: &str) -> Member {
    Member::direct(node(number), name.parse().ok(), at(place))
}

/// Node `number` on the networks listed, on each at a host of its own.
fn on(kind: Kind, number: u32, networks: &[usize]) -> Member {
    let attach = |&index: &usize| Attachment {
        network: NetworkId::new(index).unwrap(),
        at: at(&format!("10.{index}.0.{number}:64064")),
    };
    Member {
        kind,
        at: networks.iter().map(attach).collect(),
        ..member(number, &format!("n{number}"), "10.9.9.9:1")
    }
}

fn cluster(members: impl IntoIterator<Item = Member>) -> Cluster {
    let mut cluster = Cluster::default();
    members.into_iter().for_each(|member| cluster.add(member).unwrap());
    cluster
}

fn towards(cluster: &Cluster, from: u32, to: u32) -> (Vec<u32>, usize) {
    let (io_nodes, default) = cluster.io_nodes_towards(node(from), cluster.get(node(to)).unwrap().networks());
    (io_nodes.iter().map(|io| io.node.get()).collect(), default)
}

#[test]
fn a_member_is_found_by_number_name_and_address() {
    let two = member(2, "two", "10.0.0.2:64064");
    let cluster = cluster([two.clone()]);
    assert_eq!(cluster.get(two.node), Some(&two));
    assert_eq!(cluster.find("two"), Some(&two));
    assert_eq!(cluster.at(two.at[0].at), Some(&two));
    assert_eq!((cluster.find("three"), cluster.find("two words")), (None, None));
}

/// [CDP-ADR-6] A host is trusted as long as an I/O node is there, whichever else has left it.
#[test]
fn two_io_nodes_of_a_host_are_told_apart() {
    let attach = |at_port| vec![Attachment { network: NetworkId::new(1).unwrap(), at: at(at_port) }];
    let io =
        |number, name, place| Member { kind: Kind::Io, at: attach(place), ..member(number, name, place) };
    let (first, second) = ("10.1.0.5:64064", "10.1.0.5:64065");
    let mut cluster = cluster([io(21, "a", first), io(22, "b", second)]);
    let io_at = |cluster: &Cluster, text| cluster.io_node_at(at(text)).map(|io| io.node.get());
    assert_eq!([first, second].map(|text| io_at(&cluster, text)), [Some(21), Some(22)]);
    cluster.place(node(22), at("10.1.0.6:1"));
    assert_eq!([first, second, "10.1.0.6:1"].map(|text| io_at(&cluster, text)), [Some(21), Some(21), None]);
    cluster.place(node(21), at("10.1.0.7:1"));
    assert_eq!([first, second].map(|text| io_at(&cluster, text)), [None, None]);
}

/// [CDP-ADR-1] A number is unique in its cluster, and so are name and address; a refused member leaves no trace.
#[test]
fn nothing_is_given_twice() {
    let mut cluster = cluster([member(2, "two", "10.0.0.2:1")]);
    let refused = |cluster: &mut Cluster, member: Member| cluster.add(member).unwrap_err().to_string();
    assert!(refused(&mut cluster, member(2, "x", "10.0.0.9:1")).contains("node 0x000002 is given twice"));
    assert!(refused(&mut cluster, member(3, "two", "10.0.0.9:1")).contains("name two"));
    assert!(refused(&mut cluster, member(3, "x", "10.0.0.2:1")).contains("10.0.0.2:1"));
    let nowhere = Member { at: Vec::new(), ..member(3, "x", "10.0.0.9:1") };
    assert!(refused(&mut cluster, nowhere).contains("no address"));
    assert_eq!(cluster.iter().count(), 1);
    cluster.add(member(3, "x", "10.0.0.9:1")).unwrap();
}

#[test]
fn a_node_can_be_placed_elsewhere_and_keeps_its_name() {
    let mut cluster = cluster([member(2, "two", "10.0.0.2:1")]);
    let (old, new) = (at("10.0.0.2:1"), at("10.0.0.9:1"));
    cluster.place(node(2), new);
    assert_eq!(cluster.find("two").and_then(|member| member.on(NetworkId::COMMON)), Some(new));
    assert_eq!((cluster.at(old), cluster.at(new).map(|member| member.node.get())), (None, Some(2)));
    let drawn = NodeId::unregistered(5);
    cluster.place(drawn, new);
    assert_eq!(cluster.at(new).map(|member| member.node), Some(drawn));
    cluster.place(node(2), old);
    assert_eq!(cluster.at(new).map(|member| member.node), Some(drawn), "not taken from who has it now");
}

/// [CDP-ADR-6] The host that an I/O node has left may not send for others.
#[test]
fn an_io_node_that_is_placed_elsewhere_is_trusted_nowhere() {
    let mut cluster = cluster([on(Kind::Io, 11, &[1, 2]), on(Kind::Io, 12, &[1, 2])]);
    let (old, other) = (at("10.1.0.11:1"), at("10.2.0.12:1"));
    assert!(cluster.io_node_at(old).is_some());
    cluster.place(node(11), at("10.1.0.99:1"));
    assert_eq!((cluster.io_node_at(old), cluster.io_node_at(at("10.1.0.99:1"))), (None, None));
    assert_eq!(cluster.io_node_at(other).map(|io| io.node), Some(node(12)));
}

/// [CDP-ADR-8] A cluster file assigns only 1..0x7FFFFF.
#[test]
fn unregistered_numbers_are_not_for_clusters() {
    let mut cluster = Cluster::default();
    let refused = cluster.add(member(0x80_0000, "x", "10.0.0.2:1")).unwrap_err();
    assert_eq!(refused, AddError::Unregistered(node(0x80_0000)));
    cluster.add(member(0x7F_FFFF, "x", "10.0.0.2:1")).unwrap();
}

/// [CDP-IO-1] The set towards a side is what the node lists, in its order, as far as a way leads through it.
#[test]
fn the_listed_io_nodes_are_used_in_their_order() {
    let mut one = on(Kind::Host, 1, &[1]);
    (one.io_nodes, one.default_io) = (vec![node(12), node(13), node(11)], Some(node(11)));
    let cluster = cluster([
        one,
        on(Kind::Compute, 2, &[2]),
        on(Kind::Io, 11, &[1, 2]),
        on(Kind::Io, 12, &[1, 2]),
        on(Kind::Io, 13, &[1, 3]),
    ]);
    assert_eq!(towards(&cluster, 1, 2), (vec![12, 11], 1));
    cluster.check().unwrap();
}

/// Without a list, the nearest in the mesh come first; who has no place in it takes one by its number.
#[test]
fn without_a_list_the_nearest_io_node_is_default() {
    let placed = |member: Member, x| Member { place: Some(Coordinates([x, 0, 0])), ..member };
    let cluster = cluster([
        on(Kind::Host, 1, &[1]),
        on(Kind::Host, 4, &[1]),
        placed(on(Kind::Compute, 2, &[2]), 5),
        placed(on(Kind::Io, 11, &[1, 2]), 0),
        placed(on(Kind::Io, 12, &[1, 2]), 6),
    ]);
    assert_eq!(towards(&cluster, 2, 1), (vec![12, 11], 0));
    assert_eq!((towards(&cluster, 1, 2), towards(&cluster, 4, 2)), ((vec![11, 12], 1), (vec![11, 12], 0)));
}

/// A way of several I/O nodes is found, and one of more than three is none.
/// However many I/O nodes there are: a set holds sixteen.
#[test]
fn the_chosen_default_is_in_the_set_though_others_are_nearer() {
    let ios = (1..=20).map(|number| on(Kind::Io, number, &[1, 2]));
    let chooses = Member { default_io: Some(node(20)), ..on(Kind::Compute, 101, &[1]) };
    let cluster = cluster(ios.chain([chooses, on(Kind::Compute, 102, &[2]), on(Kind::Compute, 103, &[1])]));
    cluster.check().unwrap();
    let (set, default) = towards(&cluster, 101, 102);
    assert_eq!((set.len(), set[default]), (16, 20));
    assert_eq!(set[..15], (1..=15).collect::<Vec<_>>());
    assert_eq!(towards(&cluster, 103, 102).0, (1..=16).collect::<Vec<_>>());
}

#[test]
fn packets_are_forwarded_three_times_at_most() {
    let chain = |networks: std::ops::RangeInclusive<usize>| {
        let last = *networks.end();
        let links = (1..last).map(|i| on(Kind::Io, u32::try_from(10 + i).unwrap(), &[i, i + 1]));
        cluster(links.chain([on(Kind::Host, 1, &[1]), on(Kind::Compute, 2, &[last])]))
    };
    let far = chain(1..=4);
    far.check().unwrap();
    assert_eq!(towards(&far, 1, 2), (vec![11], 0));
    let refused = chain(1..=5).check().unwrap_err();
    assert_eq!(refused.to_string().split(';').next(), Some("n1 has no route to n2"));
}

/// An I/O node that leads nowhere but back is not used.
#[test]
fn an_io_node_without_a_way_on_is_not_in_the_set() {
    let cluster = cluster([
        on(Kind::Host, 1, &[1]),
        on(Kind::Compute, 2, &[2]),
        on(Kind::Io, 11, &[1, 3]),
        on(Kind::Io, 12, &[1, 2]),
    ]);
    assert_eq!(towards(&cluster, 1, 2).0, [12]);
}

#[test]
fn what_nodes_say_of_each_other_is_checked() {
    let refused = |change: &dyn Fn(&mut Member)| {
        let mut one = on(Kind::Host, 1, &[1]);
        change(&mut one);
        let others = [
            on(Kind::Io, 11, &[1, 2]),
            on(Kind::Io, 12, &[2, 3]),
            on(Kind::Host, 3, &[1]),
            on(Kind::Compute, 2, &[2]),
        ];
        cluster(others.into_iter().chain([one])).check().unwrap_err()
    };
    let lists = |io: u32| move |one: &mut Member| one.io_nodes = vec![node(io)];
    assert_eq!(refused(&lists(1)).what, Contradiction::Itself);
    assert_eq!(refused(&lists(99)).what, Contradiction::UnknownIo(node(99)));
    assert_eq!(refused(&lists(3)).what, Contradiction::NoIo("n3".to_owned()));
    assert_eq!(refused(&lists(12)).what, Contradiction::FarIo("n12".to_owned()));
    let outside = refused(&|one| (one.io_nodes, one.default_io) = (vec![node(11)], Some(node(12))));
    assert_eq!(outside.what, Contradiction::FarIo("n12".to_owned()));
    let lonely = refused(&|one| one.kind = Kind::Io);
    assert_eq!(lonely.to_string().split(';').next(), Some("n1 is an I/O node on one network"));
    let many = refused(&|one| one.io_nodes = vec![node(11); 17]);
    assert_eq!(many.what, Contradiction::TooMany(17));
}

/// Two nodes on one network, of which one names I/O nodes that do not lead everywhere.
#[test]
fn who_has_no_route_is_told_whichever_number_it_has() {
    for (narrow, free) in [(101, 102), (102, 101)] {
        let listed = Member { io_nodes: vec![node(2)], ..on(Kind::Compute, narrow, &[2]) };
        let cluster = cluster([
            on(Kind::Io, 1, &[1, 2]),
            on(Kind::Io, 2, &[2, 3]),
            on(Kind::Compute, 50, &[1]),
            listed,
            on(Kind::Compute, free, &[2]),
        ]);
        let refused = cluster.check().unwrap_err();
        assert_eq!((refused.node, refused.what), (node(narrow), Contradiction::NoRoute("n50".to_owned())));
    }
}

#[test]
fn an_io_node_is_known_by_its_host_on_every_network() {
    let cluster = cluster([on(Kind::Io, 11, &[1, 2]), on(Kind::Host, 1, &[1])]);
    let io_at = |text| cluster.io_node_at(at(text)).map(|io| io.node.get());
    assert_eq!(
        (io_at("10.1.0.11:9"), io_at("[::ffff:10.2.0.11]:9"), io_at("10.1.0.1:64064")),
        (Some(11), Some(11), None)
    );
}
