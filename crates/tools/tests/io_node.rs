//! Commands that talk through `weft io-node`: over two networks of loopback addresses, and between network namespaces.

#[cfg(test)]
mod namespaces;
#[cfg(test)]
mod support;
#[cfg(test)]
mod world;

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use namespaces::Namespaces;
use serde_json::Value;
use support::{Running, weft, weft_within};
use world::{World, assert_whole, packet, totals};

#[test]
fn streams_and_messages_cross_and_everything_is_counted() {
    let world = World::new(1);
    let name = format!("io-test-{}", std::process::id());
    let io = world.forward(None, &["--node", "io", "--stat-name", &name]);
    let server = world.serve(None);
    for words in [&["perf", "--bytes", "8M"][..], &["perf", "--bytes", "4M", "--datagram", "--size", "3000"]]
    {
        let done = weft(&world.reach(words));
        assert_eq!(done.code, 0, "{done:?}");
        let json = done.json();
        assert_eq!(json["to_server"]["received_bytes"], json["to_server"]["sent_bytes"], "{json}");
    }
    let done = weft(&world.reach(&["ping", "--flood", "--count", "200"]));
    assert_eq!((done.code, &done.json()["count"]), (0, &Value::from(200)), "{done:?}");
    let stat = weft(&["stat", "--json", &name]).json();
    assert_eq!(
        (&stat["node"], &stat["networks"][1]["network"]),
        (&"0x00000b".into(), &"mesh".into()),
        "{stat}"
    );
    let text = weft(&["stat", &name]).out;
    assert!(text.contains(&format!("lan (udp at UDP {}", world.near)), "{text}");
    drop(server);
    assert_whole(&totals(io));
}

/// A grey failure: the I/O node works, and loses some of what it sends to one network.
#[test]
fn what_an_io_node_loses_is_sent_again() {
    let world = World::new(2);
    let io = world.forward(None, &["--node", "11", "--fault", "loss=1%", "--fault-network", "mesh"]);
    let server = world.serve(None);
    let done = weft(&world.reach(&["perf", "--bytes", "8M"]));
    assert_eq!(done.code, 0, "{done:?}");
    let json = done.json();
    assert_eq!(json["to_server"]["received_bytes"], json["to_server"]["sent_bytes"], "{json}");
    assert!(json["client"][0]["retransmitted"].as_u64().unwrap() > 0, "{json}");
    drop(server);
    let links = totals(io).map(|network| network["link"].as_str().unwrap().to_owned());
    assert_eq!(links, ["udp", "fault(udp)"]);
}

/// [CDP-FWD-4] Nothing goes on that may not, and nobody is answered.
#[test]
fn strangers_get_nothing_through_and_no_answer() {
    let world = World::new(3);
    let io = world.forward(None, &["--node", "io"]);
    let (host, compute) = (UdpSocket::bind(&world.host).unwrap(), UdpSocket::bind(&world.compute).unwrap());
    for refused in [packet(2, 0), packet(9, 0), packet(1, 3)] {
        host.send_to(&refused, &world.near).unwrap();
    }
    host.send_to(&[0x10; 27], &world.near).unwrap();
    host.send_to(&packet(1, 1), &world.near).unwrap();
    let mut bytes = [0; 256];
    let (len, from) = compute.recv_from(&mut bytes).unwrap();
    assert_eq!((&bytes[..len], from), (&packet(1, 2)[..], world.far.parse().unwrap()));
    let [near, _] = totals(io);
    let drops = serde_json::json!({
        "short": 1, "source on another side": 1, "source not in the cluster": 1, "forwarded too often": 1
    });
    assert_eq!(near["drops"], drops, "{near}");
    assert_eq!((&near["too_far"]["source"], &near["too_far"]["by"]), (&"host".into(), &Value::Null));
    for socket in [host, compute] {
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        assert!(socket.recv_from(&mut bytes).is_err());
    }
}

#[test]
fn what_an_io_node_has_received_leaves_before_it_ends() {
    let world = World::new(4);
    let io = world.forward(None, &["--node", "io", "--fault", "delay=100ms"]);
    let (host, compute) = (UdpSocket::bind(&world.host).unwrap(), UdpSocket::bind(&world.compute).unwrap());
    for _ in 0..200 {
        host.send_to(&packet(1, 0), &world.near).unwrap();
    }
    assert_whole(&totals(io));
    compute.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    (0..200).for_each(|_| assert_eq!(compute.recv_from(&mut [0; 256]).unwrap().0, 128));
}

/// Servers work for others than those who read what they say.
#[test]
fn servers_go_on_when_nobody_reads_what_they_say() {
    let world = World::new(6);
    let _io = Running::unread(&["io-node", "--cluster", &world.file, "--node", "io"]);
    let words = ["perf", "--server", "--cluster", &world.file, "--node", "compute", "--launcher", "off"];
    let _server = Running::unread(&words);
    let begin = Instant::now();
    let measure = || weft(&world.reach(&["perf", "--bytes", "100K", "--connect-timeout", "1s"]));
    while measure().code != 0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", measure());
    }
    // Of the first test it would have said something.
    let done = measure();
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn a_wrong_start_says_what_is_wrong() {
    let world = World::new(5);
    let file = world.file.clone();
    let taken = UdpSocket::bind(&world.far).unwrap();
    for (words, code, part) in [
        (&["--cluster", "/nowhere.toml"][..], 7, "cannot read the cluster file /nowhere.toml"),
        (
            &["--cluster", &file, "--node", "compute"],
            2,
            "compute is no I/O node but of kind compute; name the I/O node with --node NAME",
        ),
        (&["--cluster", &file, "--node", "io"], 11, &format!("cannot bind UDP {}", world.far)),
        (
            &["--cluster", &file, "--node", "io", "--fault", "loss=1%", "--fault-network", "wan"],
            2,
            "give one of lan, mesh",
        ),
    ] {
        let done = weft(&[&["io-node"], words].concat());
        assert_eq!(done.code, code, "{done:?}");
        assert!(done.err.contains(part), "{done:?}");
    }
    drop(taken);
}

/// Three machines: nothing but the I/O node leads from one network to the other.
#[test]
fn commands_in_namespaces_talk_through_the_io_node() {
    let Some(spaces) = Namespaces::new() else { return };
    let world =
        World::at("10.71.1.1".into(), "10.71.1.11:64064".into(), "10.71.2.11".into(), "10.71.2.2".into());
    let io = world.forward(Some(&spaces.io), &[]);
    let server = world.serve(Some(&spaces.compute));
    for words in [&["perf", "--bytes", "16M"][..], &["perf", "--bytes", "8M", "--reverse"]] {
        let done = weft_within(Some(&spaces.host), &world.reach(words));
        assert_eq!(done.code, 0, "{done:?}");
    }
    drop(server);
    assert_whole(&totals(io));
}
