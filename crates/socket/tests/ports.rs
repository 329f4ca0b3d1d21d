//! A node with several UDP sockets on one address.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;

use std::collections::HashSet;
use std::thread;

use common::{PATIENCE, loopback, node, pattern};
use weft_socket::{Node, Options, Socket};

#[cfg(test)]
fn with_ports(ports: usize) -> Node {
    Node::builder().bind(loopback()).ports(ports).open().unwrap()
}

/// Packets that came in by each port.
#[cfg(test)]
fn packets_in(node: &Node) -> Vec<u64> {
    node.stats().ports.iter().map(|port| port.packets_in).collect()
}

#[cfg(test)]
fn echo(socket: &Socket) {
    let mut buffer = [0; 4096];
    while let Ok(len @ 1..) = socket.recv(&mut buffer) {
        socket.send(&buffer[..len]).unwrap();
    }
}

/// Sends `bytes` of a stream from one thread and takes them back in another, in pieces of every size.
#[cfg(test)]
fn round_trip(socket: &Socket, bytes: usize) {
    let data = pattern(bytes, bytes as u64);
    thread::scope(|scope| {
        scope.spawn(|| {
            for piece in data.chunks(1 + bytes / 37) {
                assert_eq!(socket.send(piece).unwrap(), piece.len());
            }
        });
        let mut back = Vec::new();
        let mut buffer = [0; 3000];
        while back.len() < bytes {
            let len = socket.recv(&mut buffer).unwrap();
            assert!(len > 0, "the stream ended after {} of {bytes}", back.len());
            back.extend_from_slice(&buffer[..len]);
        }
        assert!(back == data, "what came back is not what was sent");
    });
}

/// Many nodes, with one port or several themselves, each with several connections and threads, all at once.
#[test]
fn connections_of_many_nodes_share_the_ports() {
    let server = with_ports(4);
    let ports = server.stats().ports;
    assert_eq!(ports.len(), 4);
    assert!(ports.iter().all(|port| port.underlay == server.underlay()));
    let listener = server.listen(0, &Options::stream()).unwrap();
    let target = (server.underlay(), listener.local_address().port);
    let (nodes, each) = (12, 2);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..nodes * each {
                let socket = listener.accept_timeout(PATIENCE).unwrap();
                scope.spawn(move || echo(&socket));
            }
        });
        for index in 0..nodes {
            scope.spawn(move || {
                let client = if index % 3 == 0 { with_ports(2) } else { node() };
                let sockets: Vec<Socket> =
                    (0..each).map(|_| client.connect(target, &Options::stream()).unwrap()).collect();
                thread::scope(|scope| {
                    for (number, socket) in sockets.iter().enumerate() {
                        socket.set_recv_timeout(Some(PATIENCE));
                        scope.spawn(move || round_trip(socket, 40_000 + 777 * (index + number)));
                    }
                });
                for socket in sockets {
                    assert!(socket.close_timeout(PATIENCE).unwrap().is_clean());
                }
            });
        }
    });
    let used = packets_in(&server).iter().filter(|&&packets| packets > 0).count();
    // That twelve peers all meet one port of four happens once in four million times.
    assert!(used >= 2, "{:?}", packets_in(&server));
    assert_eq!(server.stats().dropped(), 0);
}

/// Sends messages and takes them back.
#[cfg(test)]
fn converse(connected: &Socket, accepted: &Socket) {
    for socket in [connected, accepted] {
        socket.set_recv_timeout(Some(PATIENCE));
    }
    for number in 0..100_u32 {
        connected.send(&number.to_le_bytes()).unwrap();
        let message = accepted.recv_message().unwrap().to_vec();
        accepted.send(&message).unwrap();
        assert_eq!(connected.recv_message().unwrap().to_vec(), number.to_le_bytes());
    }
}

/// As many nodes as there are ports have one each, and so have those that come when they are gone.
#[test]
fn few_nodes_have_a_port_each() {
    let server = with_ports(4);
    let listener = server.listen(0, &Options::datagram()).unwrap();
    let target = (server.underlay(), listener.local_address().port);
    for _ in 0..3 {
        let pairs: Vec<(Node, Socket, Socket)> = (0..4)
            .map(|_| {
                let client = node();
                let connected = client.connect(target, &Options::datagram()).unwrap();
                (client, connected, listener.accept_timeout(PATIENCE).unwrap())
            })
            .collect();
        let before = packets_in(&server);
        pairs.iter().for_each(|(_, connected, accepted)| converse(connected, accepted));
        let came: Vec<u64> =
            packets_in(&server).iter().zip(before).map(|(after, before)| after - before).collect();
        assert!(came.iter().all(|&packets| packets >= 100), "{came:?}");
        for (_, connected, accepted) in &pairs {
            thread::scope(|scope| {
                scope.spawn(|| assert!(connected.close_timeout(PATIENCE).unwrap().is_clean()));
                assert!(accepted.close_timeout(PATIENCE).unwrap().is_clean());
            });
        }
    }
}

/// One peer's packets come by one port, whichever port answers them.
#[test]
fn a_peer_keeps_to_its_port() {
    let server = with_ports(4);
    let listener = server.listen(0, &Options::datagram()).unwrap();
    let client = with_ports(3);
    let target = (server.underlay(), listener.local_address().port);
    for _ in 0..6 {
        let connected = client.connect(target, &Options::datagram()).unwrap();
        let accepted = listener.accept_timeout(PATIENCE).unwrap();
        converse(&connected, &accepted);
    }
    for node in [&server, &client] {
        let used = packets_in(node).iter().filter(|&&packets| packets > 0).count();
        assert_eq!(used, 1, "{:?}", packets_in(node));
    }
}

/// [CDP-ENC-7] Connections to one peer come by several ports of both, and so do answers; each has all of its bytes, in order.
#[test]
fn connections_of_one_node_go_out_by_ports_of_their_own() {
    let server = with_ports(8);
    let sources = 6;
    let client = Node::builder().bind(loopback()).source_ports(sources).open().unwrap();
    let listener = server.listen(0, &Options::stream()).unwrap();
    let target = (server.underlay(), listener.local_address().port);
    let pairs: Vec<(Socket, Socket)> = (0..2 * sources)
        .map(|_| {
            let connected = client.connect(target, &Options::stream()).unwrap();
            (connected, listener.accept_timeout(PATIENCE).unwrap())
        })
        .collect();
    thread::scope(|scope| {
        for (number, (connected, accepted)) in pairs.iter().enumerate() {
            for socket in [connected, accepted] {
                socket.set_recv_timeout(Some(PATIENCE));
            }
            scope.spawn(move || {
                echo(accepted);
                assert!(accepted.close_timeout(PATIENCE).unwrap().is_clean());
            });
            scope.spawn(move || {
                round_trip(connected, 40_000 + 777 * number);
                assert!(connected.close_timeout(PATIENCE).unwrap().is_clean());
            });
        }
    });
    let ports = client.stats().ports;
    assert_eq!(ports[0].underlay, client.underlay());
    let numbers: HashSet<u16> = ports.iter().map(|port| port.underlay.port()).collect();
    assert_eq!(numbers.len(), 1 + sources);
    assert!(packets_in(&client)[0] == 0 && packets_in(&client)[1..].iter().all(|&packets| packets > 0));
    let used = packets_in(&server).iter().filter(|&&packets| packets > 0).count();
    // That six UDP ports all meet one port of eight happens once in thirty thousand times.
    assert!(used >= 2, "{:?}", packets_in(&server));
    assert_eq!((server.stats().dropped(), client.stats().dropped()), (0, 0));
}

/// [CDP-ENC-6] A node that the cluster names answers to the address that the cluster gives, so connections to it go out by that.
#[test]
fn connections_to_named_peers_go_out_by_the_bound_address() {
    let server = node();
    let peer = (server.id(), server.underlay());
    let client = Node::builder().bind(loopback()).source_ports(3).peer(peer.0, peer.1).open().unwrap();
    let listener = server.listen(0, &Options::datagram()).unwrap();
    for _ in 0..4 {
        let connected =
            client.connect((peer.0, listener.local_address().port), &Options::datagram()).unwrap();
        let accepted = listener.accept_timeout(PATIENCE).unwrap();
        connected.send(b"to there").unwrap();
        assert_eq!(accepted.recv_message().unwrap().to_vec(), b"to there");
    }
    assert_eq!(packets_in(&client).iter().filter(|&&packets| packets > 0).count(), 1);
    assert!(packets_in(&client)[0] > 0);
}

#[test]
fn an_address_with_several_ports_is_taken_like_any_other() {
    let first = with_ports(2);
    for ports in [1, 2] {
        let refused = Node::builder().bind(first.underlay()).ports(ports).open().unwrap_err();
        assert!(refused.to_string().contains("free that UDP port"), "{refused}");
    }
}
