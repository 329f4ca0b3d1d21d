//! Several UDP links at one address.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use weft_link::{Link, RecvBatch, SendBatch, Udp, UdpOptions, wait};

#[cfg(test)]
fn group(at: SocketAddr, count: usize) -> std::io::Result<Vec<Udp>> {
    Udp::bind_group(at, count, &options())
}

/// Takes `count` packets from whichever link they come to: from where, and by which.
#[cfg(test)]
fn receive(group: &[Udp], count: usize) -> Vec<(SocketAddr, usize)> {
    receive_into(group, &mut group.iter().map(|_| RecvBatch::new()).collect::<Vec<_>>(), count)
}

/// The same, with the batch that each link always has.
#[cfg(test)]
fn receive_into(group: &[Udp], batches: &mut [RecvBatch], count: usize) -> Vec<(SocketAddr, usize)> {
    let fds: Vec<_> = group.iter().flat_map(Link::poll_fds).collect();
    let mut arrived = Vec::new();
    while arrived.len() < count {
        assert_ne!(wait(&fds, Some(Duration::from_secs(60))).unwrap(), 0, "{} of {count}", arrived.len());
        for (index, (link, batch)) in group.iter().zip(&mut *batches).enumerate() {
            link.recv(batch).unwrap();
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
        let used: HashSet<usize> = ways.values().copied().collect();
        assert_eq!((ways.len(), used.len()), (peers.len(), group.len()));
    }
}

/// Of one host, ports that follow each other meet different links.
#[test]
fn peers_of_a_host_are_dealt_by_their_ports() {
    for at in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
        let group = group(at.parse().unwrap(), 4).unwrap();
        let to = SocketAddr::new("127.0.0.1".parse().unwrap(), group[0].info().local.port());
        let (to, at) =
            if at.starts_with("[::1]") { (group[0].info().local, at) } else { (to, "127.0.0.1:0") };
        let peers: Vec<Udp> = (0..16).map(|_| Udp::bind(at.parse().unwrap()).unwrap()).collect();
        peers.iter().for_each(|peer| send(peer, to));
        let shifts = receive(&group, peers.len());
        let shift = |(from, index): &(SocketAddr, usize)| (*index + 65536 - usize::from(from.port())) % 4;
        assert!(shifts.iter().all(|way| shift(way) == shift(&shifts[0])), "{shifts:?}");
    }
}

/// Which link gets what each of `peers` sends.
#[cfg(test)]
fn ways(group: &[Udp], to: SocketAddr, peers: &[Udp]) -> HashMap<SocketAddr, usize> {
    peers.iter().for_each(|peer| send(peer, to));
    receive(group, peers.len()).into_iter().collect()
}

/// A group at each kind of address, what reaches it there, and where peers are bound.
#[cfg(test)]
fn groups(count: usize) -> impl Iterator<Item = (Vec<Udp>, SocketAddr, SocketAddr)> {
    [("127.0.0.1:0", "127.0.0.1"), ("0.0.0.0:0", "127.0.0.1"), ("[::1]:0", "::1"), ("[::]:0", "127.0.0.1")]
        .into_iter()
        .map(move |(at, host)| {
            let group = group(at.parse().unwrap(), count).unwrap();
            let host = host.parse().unwrap();
            let to = SocketAddr::new(host, group[0].info().local.port());
            (group, to, SocketAddr::new(host, 0))
        })
}

/// Whom connections are noted of has a link for itself while there are enough, however the ports of peers fall.
#[test]
fn few_peers_with_connections_have_a_link_each() {
    for (group, to, home) in groups(8) {
        let all: Vec<Udp> = (0..64).map(|_| Udp::bind(home).unwrap()).collect();
        let by_hash = ways(&group, to, &all);
        // Those of two links by the hash, and so sixteen in the mean.
        let (peers, others): (Vec<Udp>, Vec<Udp>) =
            all.into_iter().partition(|peer| by_hash[&peer.info().local] < 2);
        let peers: Vec<Udp> = peers.into_iter().take(8).collect();
        assert!(peers.len() > 2);
        for peer in &peers {
            group[3].note_peer(peer.info().local);
            group[5].note_peer(peer.info().local);
        }
        let dealt = ways(&group, to, &peers);
        let used: HashSet<usize> = dealt.values().copied().collect();
        assert_eq!(used.len(), peers.len(), "{dealt:?} at {to}");
        let others: Vec<Udp> = others.into_iter().take(32).collect();
        assert!(
            ways(&group, to, &others).iter().all(|(from, index)| by_hash[from] == *index),
            "who has none stays"
        );

        // One of two connections is over: it stays where it is.
        group[0].forget_peer(peers[0].info().local);
        assert_eq!(ways(&group, to, &peers), dealt);
    }
}

#[test]
fn who_has_no_connection_left_makes_room() {
    for (group, to, home) in groups(2) {
        let all: Vec<Udp> = (0..64).map(|_| Udp::bind(home).unwrap()).collect();
        let by_hash = ways(&group, to, &all);
        let peers: Vec<Udp> = all.into_iter().filter(|peer| by_hash[&peer.info().local] == 0).collect();
        assert!(peers.len() > 2);
        let noted = |peer: &Udp| {
            group[0].note_peer(peer.info().local);
            ways(&group, to, std::slice::from_ref(peer))[&peer.info().local]
        };
        assert_eq!([&peers[0], &peers[1], &peers[2]].map(noted), [0, 1, 0], "the third finds none free");
        group[0].forget_peer(peers[1].info().local);
        // Of more than were told of nothing becomes.
        group[0].forget_peer(peers[1].info().local);
        let late = Udp::bind(home).unwrap();
        let first = ways(&group, to, std::slice::from_ref(&late))[&late.info().local];
        assert_eq!(noted(&late), 1, "{first} by the hash");
        assert_eq!(noted(&peers[1]), if first == 1 { 1 } else { 0 }, "where it was, or by the hash");
    }
}

/// A connected socket that joins the group gets its peer's packets, and moves nobody else's.
#[test]
fn a_peer_that_earns_a_socket_of_its_own_leaves_others_where_they_are() {
    for at in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0"] {
        let group = group(at.parse().unwrap(), 4).unwrap();
        let home: SocketAddr = at.replace("0.0.0.0", "127.0.0.1").parse().unwrap();
        let to = SocketAddr::new(home.ip(), group[0].info().local.port());
        let peers: Vec<Udp> = (0..32).map(|_| Udp::bind(home).unwrap()).collect();
        let mut batches: Vec<_> = group.iter().map(|_| RecvBatch::new()).collect();
        let mut ways = HashMap::new();
        for favourite in [None, Some(0), Some(1), Some(2), Some(3)] {
            if let Some(index) = favourite {
                let at_it = |peer: &&Udp| ways.get(&peer.info().local) == Some(&index);
                ping_pong(&group[index], &mut batches[index], to, peers.iter().find(at_it).unwrap());
            }
            for _ in 0..3 {
                peers.iter().for_each(|peer| send(peer, to));
                for (from, index) in receive_into(&group, &mut batches, peers.len()) {
                    assert_eq!(*ways.entry(from).or_insert(index), index, "{from} changed its link");
                }
            }
        }
        assert!(group.iter().all(|link| link.poll_fds().len() == 2), "{at}");
    }
}

/// Without sockets for floods, for which the first link has a descriptor more.
#[cfg(test)]
fn options() -> UdpOptions {
    UdpOptions { striping: false, ..UdpOptions::default() }
}

/// A packet of 100 bytes.
#[cfg(test)]
fn send(link: &Udp, to: SocketAddr) {
    let mut batch = SendBatch::new();
    batch.push_slice(to, &[7; 100]);
    assert_eq!(link.send(&mut batch).unwrap(), 1);
}

/// Lone packets to and fro, until `link` has a socket for them alone.
#[cfg(test)]
fn ping_pong(link: &Udp, here: &mut RecvBatch, at: SocketAddr, peer: &Udp) {
    let mut there = RecvBatch::new();
    for _ in 0..200 {
        assert_eq!(link.recv(here).unwrap(), 0);
        send(peer, at);
        take_one(link, here);
        send(link, peer.info().local);
        take_one(peer, &mut there);
    }
    assert!(link.poll_fds().len() == 2);
}

#[cfg(test)]
fn take_one(link: &Udp, batch: &mut RecvBatch) {
    loop {
        let fds = link.poll_fds();
        assert_ne!(wait(&fds, Some(Duration::from_secs(60))).unwrap(), 0);
        link.recv(batch).unwrap();
        let count = batch.drain().count();
        if count > 0 {
            return assert_eq!(count, 1);
        }
    }
}

/// Between being bound and being connected it is one of the group.
#[test]
fn what_joins_a_group_gets_nothing() {
    let home: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let group = group(home, 4).unwrap();
    let to = group[0].info().local;
    let peers: Vec<Udp> = (0..32).map(|_| Udp::bind(home).unwrap()).collect();
    let ways = || {
        peers.iter().for_each(|peer| send(peer, to));
        receive(&group, peers.len()).into_iter().collect::<HashMap<_, _>>()
    };
    let before = ways();
    let newcomer = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
    newcomer.set_reuse_port(true).unwrap();
    newcomer.bind(&to.into()).unwrap();
    assert_eq!(ways(), before);
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
