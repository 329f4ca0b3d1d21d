//! A host and a compute node on networks of their own, and two I/O nodes between them, all on loopback addresses.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use weft_forward::IoNode;
use weft_route::{Attachment, ClusterFile, Forwarder, Underlay};
use weft_socket::link::{Link, Udp};
use weft_socket::{Node, NodeId, SideStats, Socket};

/// Where a node of this number is: addresses that no other process of the next 16,384 has, as others may run the same tests.
pub(crate) fn at(network: u8, number: u32) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 64 | high & 63, low, 100 * network + u8::try_from(number).unwrap())
}

fn cluster() -> ClusterFile {
    let (lan, mesh) = (|number| at(1, number), |number| at(2, number));
    let text = format!(
        r#"
        networks = ["lan", "mesh"]
        [[node]]
        number = 1
        at = {{ lan = "{}" }}
        [[node]]
        number = 2
        at = {{ mesh = "{}" }}
        [[node]]
        number = 11
        kind = "io"
        at = {{ lan = "{}", mesh = "{}" }}
        [[node]]
        number = 12
        kind = "io"
        at = {{ lan = "{}", mesh = "{}" }}
    "#,
        lan(1),
        mesh(2),
        lan(11),
        mesh(11),
        lan(12),
        mesh(12)
    );
    ClusterFile::parse(&text).unwrap()
}

pub(crate) fn id(number: u32) -> NodeId {
    NodeId::new(number).unwrap()
}

pub(crate) fn node(number: u32) -> Node {
    let probe = Duration::from_millis(20);
    Node::builder().node(id(number)).cluster(&cluster()).io_probe(probe).open().unwrap()
}

pub(crate) fn io_node(number: u32) -> IoNode {
    let cluster = cluster().cluster;
    let open = |&Attachment { network, at: Underlay::Udp(at) }: &Attachment| {
        (network, Arc::new(Udp::bind(at).unwrap()) as Arc<dyn Link>)
    };
    let links = cluster.get(id(number)).unwrap().at.iter().map(open).collect();
    IoNode::start(Forwarder::new(id(number), cluster), links, Duration::ZERO).unwrap()
}

/// A message there and back.
pub(crate) fn exchange(socket: &Socket, number: u64) {
    socket.send(&number.to_le_bytes()).unwrap();
    let mut back = [0; 8];
    assert_eq!(socket.recv(&mut back).unwrap(), 8);
    assert_eq!(u64::from_le_bytes(back), number);
}

pub(crate) fn side(node: &Node) -> SideStats {
    node.stats().sides.into_iter().next().unwrap()
}

pub(crate) fn default_of(node: &Node) -> usize {
    side(node).io_nodes.iter().position(|io_node| io_node.is_default).unwrap()
}
