//! Several UDP links at one address.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use weft_link::{Link, RecvBatch, SendBatch, Udp, UdpOptions, wait};

#[cfg(test)]
fn group(at: SocketAddr, count: usize) -> std::io::Result<Vec<Udp>> {
    Udp::bind_group(at, count, &UdpOptions::default())
}

/// Takes `count` packets from whichever link they come to: from where, and by which.
#[cfg(test)]
fn receive(group: &[Udp], count: usize) -> Vec<(SocketAddr, usize)> {
    let fds: Vec<_> = group.iter().filter_map(Link::poll_fd).collect();
    let mut arrived = Vec::new();
    while arrived.len() < count {
        assert_ne!(wait(&fds, Some(Duration::from_secs(60))).unwrap(), 0, "{} of {count}", arrived.len());
        for (index, link) in group.iter().enumerate() {
            let mut batch = RecvBatch::new();
            link.recv(&mut batch).unwrap();
            arrived.extend(batch.drain().map(|packet| (packet.from, index)));
        }
    }
    arrived
}

#[test]
fn what_one_peer_sends_comes_by_one_link_and_many_peers_use_them_all() {
    for at in ["127.0.0.1:0", "[::1]:0"] {
        let group = group(at.parse().unwrap(), 4).unwrap();
        let to = group[0].info().local;
        assert!(group.iter().all(|link| link.info().local == to));
        let peers: Vec<Udp> = (0..64).map(|_| Udp::bind(at.parse().unwrap()).unwrap()).collect();
        let mut ways = HashMap::new();
        for _ in 0..5 {
            for peer in &peers {
                let mut batch = SendBatch::new();
                (0..4).for_each(|_| batch.push_slice(to, &[7; 100]));
                peer.send(&mut batch).unwrap();
            }
            for (from, index) in receive(&group, 4 * peers.len()) {
                assert_eq!(*ways.entry(from).or_insert(index), index, "{from} changed its link");
            }
        }
        // That one of four is never chosen by 64 peers happens once in 25 million times.
        let used: std::collections::HashSet<usize> = ways.values().copied().collect();
        assert_eq!((ways.len(), used.len()), (peers.len(), group.len()));
    }
}

#[test]
fn whichever_link_answers_the_answer_comes_from_the_one_address() {
    let group = group("127.0.0.1:0".parse().unwrap(), 3).unwrap();
    let peer = [Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap()];
    for link in &group {
        let mut batch = SendBatch::new();
        batch.push_slice(peer[0].info().local, b"an answer");
        link.send(&mut batch).unwrap();
        assert_eq!(receive(&peer, 1), [(group[0].info().local, 0)]);
    }
}

#[test]
fn an_address_that_is_taken_is_refused() {
    for (first, second) in [(1, 1), (1, 3), (3, 1), (3, 3)] {
        let held = group("127.0.0.1:0".parse().unwrap(), first).unwrap();
        let refused = group(held[0].info().local, second).map(|group| group.len()).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::AddrInUse, "{first} and then {second}");
    }
}
