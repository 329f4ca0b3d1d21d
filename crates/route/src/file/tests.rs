use weft_base::{NodeId, Port};

use super::*;
use crate::{Coordinates, Kind, Underlay};

/// Two networks, a host, two I/O nodes and a compute node, which `more` follows.
fn file(more: &str) -> String {
    format!(
        r#"mode = "open"
networks = ["lan", "mesh"]

[services]
storage = 2000

[[node]]
name = "compute-17"
number = 0x11
kind = "compute"
at = {{ mesh = "10.2.0.17:7000" }}
place = [0, 1, 2]
io-nodes = ["io-2", 2]
default-io = "io-1"

[[node]]
name = "io-1"
number = 2
kind = "io"
at = {{ lan = "10.1.0.2", mesh = "10.2.0.2" }}

[[node]]
name = "io-2"
number = 3
kind = "io"
at = {{ lan = "10.1.0.3", mesh = "fd00::3" }}

[[node]]
name = "login"
number = 1
at = {{ lan = "10.1.0.1" }}
{more}"#
    )
}

fn refusal(text: &str) -> String {
    ClusterFile::parse(text).unwrap_err().to_string()
}

#[test]
fn a_file_is_read_whole() {
    let read = ClusterFile::parse(&file("")).unwrap();
    let compute = read.cluster.find("compute-17").unwrap();
    let at = |text: &str| Underlay::Udp(text.parse().unwrap());
    assert_eq!(
        (compute.node.get(), compute.kind, compute.place),
        (17, Kind::Compute, Some(Coordinates([0, 1, 2])))
    );
    assert_eq!(compute.io_nodes.iter().map(|io| io.get()).collect::<Vec<_>>(), [3, 2]);
    assert_eq!(compute.default_io.map(NodeId::get), Some(2));
    assert_eq!(compute.at[0].at, at("10.2.0.17:7000"));
    let io = read.cluster.find("io-2").unwrap();
    assert_eq!(
        io.at.iter().map(|attachment| attachment.at).collect::<Vec<_>>(),
        [at("10.1.0.3:64064"), at("[fd00::3]:64064")]
    );
    assert_eq!(read.network_name(io.at[1].network).map(Name::as_str), Some("mesh"));
    assert_eq!(read.mode, Mode::Open);
}

#[test]
fn services_have_ports() {
    let read = ClusterFile::parse(&file("")).unwrap();
    let port = |name: &str| read.cluster.service(name).map(Port::get);
    assert_eq!(
        (port("storage"), port("echo"), port("discard"), port("other")),
        (Some(2000), Some(7), Some(9), None)
    );
}

#[test]
fn one_network_needs_no_name() {
    let read = ClusterFile::parse(
        "[[node]]\nnumber = 1\nat = \"10.0.0.1\"\n[[node]]\nnumber = 2\nat = \"10.0.0.2\"",
    )
    .unwrap();
    assert_eq!((read.cluster.iter().count(), read.mode), (2, Mode::Strict));
    let named = "networks = [\"lan\"]\n[[node]]\nnumber = 1\nat = \"10.0.0.1\"";
    let read = ClusterFile::parse(named).unwrap();
    let network = read.cluster.iter().next().unwrap().at[0].network;
    assert_eq!(read.network_name(network).map(Name::as_str), Some("lan"));
}

/// Every wrong value is named with its place and what would be accepted.
#[test]
fn a_wrong_file_is_explained() {
    for (more, said) in [
        (
            "[[node]]\nnumber = 0\nat = { lan = \"10.1.0.9\" }",
            "line 33, column 10: 0 is not the number of a node; give 1 to",
        ),
        (
            "[[node]]\nnumber = 0x800000\nat = { lan = \"10.1.0.9\" }",
            "is not for clusters; give a number from 1 to",
        ),
        (
            "[[node]]\nnumber = 17\nat = { lan = \"10.1.0.9\" }",
            "line 33, column 10: node 0x000011 is given twice",
        ),
        (
            "[[node]]\nname = \"io-1\"\nnumber = 9\nat = { lan = \"10.1.0.9\" }",
            "line 33, column 8: the name io-1 is given twice",
        ),
        ("[[node]]\nnumber = 9\nat = { lan = \"10.1.0.3\" }", "10.1.0.3:64064 is given to two nodes"),
        ("[[node]]\nnumber = 9\nat = {}", "has no address"),
        (
            "[[node]]\nnumber = 9\nat = { wan = \"10.1.0.9\" }",
            "no network is called \"wan\"; the file has lan, mesh",
        ),
        (
            "[[node]]\nnumber = 9\nat = { lan = \"10.1.0\" }",
            "\"10.1.0\" is no address of a node; give IP or IP:PORT",
        ),
        (
            "[[node]]\nnumber = 9\nat = { lan = \"10.1.0.9\", mesh = \"10.2.0.9:7000\" }",
            "line 34, column 33: 10.2.0.9:7000 beside 10.1.0.9:64064: a node that does not forward receives",
        ),
        (
            "[[node]]\nnumber = 9\nat = { lan = \"10.1.0.9\", mesh = \"fd00::9\" }",
            "by one socket; give it IPv4 or IPv6 on all",
        ),
        ("[[node]]\nnumber = 9\nat = { lan = \"0.0.0.0\" }", "\"0.0.0.0\" is no address"),
        ("[[node]]\nnumber = 9\nat = \"10.1.0.9\"", "say on which, such as { lan = \"10.1.0.9\" }"),
        ("[[node]]\nnumber = 9\nat = 5", "invalid type: integer `5`, expected an address, such as"),
        (
            "[[node]]\nnumber = 9\nat = { lan = \"10.1.0.9\" }\nkind = \"disk\"",
            "kind \"disk\" is unknown; give \"host\"",
        ),
        (
            "[[node]]\nnumber = 9\nat = { lan = \"10.1.0.9\" }\nplace = [1, 2]",
            "place [1, 2] is none in a mesh",
        ),
        (
            "[[node]]\nnumber = 9\nat = { lan = \"10.1.0.9\" }\nio-nodes = [\"io-9\"]",
            "no node is called \"io-9\"; give a name",
        ),
        ("[[node]]\nnumber = 9\nat = { lan = \"10.1.0.9\" }\nio-nodes = [true]", "no node is called true"),
        (
            "[[node]]\nname = \"io-9\"\nnumber = 9\nkind = \"io\"\nat = { lan = \"10.1.0.9\", mesh = \"10.2.0.9\" }\nio-nodes = [9]",
            "io-9 names itself",
        ),
        (
            "[[node]]\nname = \"a b\"\nnumber = 9\nat = { lan = \"10.1.0.9\" }",
            "\"a b\" is not a name of a node",
        ),
        (
            "[[node]]\nnumber = 9\nat = { lan = \"10.1.0.9\" }\ncolour = 1",
            "unknown field `colour`, expected one of",
        ),
        ("[[node]]\nat = { lan = \"10.1.0.9\" }", "missing field `number`"),
        (
            "[[node]]\nnumber = \"x\"\nat = { lan = \"10.1.0.9\" }",
            "line 33, column 10: invalid type: string \"x\"",
        ),
        ("[[nod", "line 32"),
    ] {
        let refusal = refusal(&file(more));
        assert!(refusal.contains(said), "{refusal:?} should say {said:?}");
    }
}

#[test]
fn the_head_of_a_file_is_checked() {
    for (text, said) in [
        ("mode = \"lax\"", "mode \"lax\" is unknown; give \"strict\" or \"open\""),
        ("networks = [\"a\", \"a\"]", "line 1, column 18: network a is given twice"),
        ("[services]\nstorage = 0", "line 2, column 11: port 0 of service storage is none; give 1 to 65535"),
        ("[services]\n80 = 80", "service 80 does not begin with a letter"),
        ("[services]\n9p = 564", "service 9p does not begin with a letter"),
    ] {
        let refusal = refusal(text);
        assert!(refusal.contains(said), "{refusal:?} should say {said:?}");
    }
    let many: Vec<_> = (0..16).map(|i| format!("\"n{i}\"")).collect();
    assert!(refusal(&format!("networks = [{}]", many.join(", "))).contains("more than 15 networks"));
}

/// A node that nobody can reach is found when the file is read, not when somebody connects.
#[test]
fn a_node_without_a_route_is_refused() {
    let text = "networks = [\"a\", \"b\"]\n[[node]]\nnumber = 1\nat = { a = \"10.0.0.1\" }\n[[node]]\nnumber = 2\nat = { b = \"10.0.1.2\" }";
    assert!(
        refusal(text)
            .contains("line 3, column 10: 0x000001 has no route to 0x000002; put both on one network")
    );
}
