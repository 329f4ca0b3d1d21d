//! What a host says of packets to a UDP port that nobody has.

use std::collections::HashSet;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use weft_link::{Link, RecvBatch, SendBatch, Udp, UdpOptions, wait};

#[cfg(test)]
const HOMES: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

#[cfg(test)]
fn open(home: &str) -> Udp {
    Udp::bind(home.parse().unwrap()).unwrap()
}

/// A port that nobody serves, and that nobody else gets while the socket lives: it hears its peer alone, which is itself.
#[cfg(test)]
fn nobody(home: &str) -> (UdpSocket, SocketAddr) {
    let held = UdpSocket::bind(home).unwrap();
    let at = held.local_addr().unwrap();
    held.connect(at).unwrap();
    (held, at)
}

/// Turns as a port runs them, until refusals came.
#[cfg(test)]
fn refusals(link: &Udp) -> Vec<(SocketAddr, [u8; 28])> {
    let mut batch = RecvBatch::new();
    let begin = Instant::now();
    while !batch.has_refusals() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the host says nothing");
        wait(&link.poll_fds(), Some(Duration::from_millis(100))).unwrap();
        assert_eq!(link.recv(&mut batch).unwrap(), 0);
    }
    batch.drain_refusals().map(|refusal| (refusal.to, refusal.head)).collect()
}

#[test]
fn a_refusal_tells_the_target_and_the_head_of_the_packet() {
    for home in HOMES {
        let (link, (_held, to)) = (open(home), nobody(home));
        let packet: Vec<u8> = (0..100).collect();
        let mut batch = SendBatch::new();
        batch.push_slice(to, &packet);
        link.send(&mut batch).unwrap();
        let expected: [u8; 28] = packet[..28].try_into().unwrap();
        assert_eq!(refusals(&link), [(to, expected)], "{home}");
    }
}

/// The kernel lays these into any of the sockets of the address, those for floods among them.
#[test]
fn a_group_hears_all_refusals_whether_or_not_it_has_sockets_for_floods() {
    for (home, buffer_bytes) in HOMES.iter().flat_map(|home| [(home, 208 << 10), (home, 16 << 20)]) {
        let options = UdpOptions { buffer_bytes, ..UdpOptions::default() };
        let group = Udp::bind_group(home.parse().unwrap(), 4, &options).unwrap();
        let targets: Vec<_> = (0..24).map(|_| nobody(home)).collect();
        for ((_, to), link) in targets.iter().zip(group.iter().cycle()) {
            let mut batch = SendBatch::new();
            batch.push_slice(*to, &[7; 100]);
            link.send(&mut batch).unwrap();
        }
        let fds: Vec<_> = group.iter().flat_map(Link::poll_fds).collect();
        let mut batches: Vec<_> = group.iter().map(|_| RecvBatch::new()).collect();
        let mut heard = HashSet::new();
        while heard.len() < targets.len() {
            let is_ready = wait(&fds, Some(Duration::from_secs(60))).unwrap() > 0;
            assert!(is_ready, "{home}: {} of {}", heard.len(), targets.len());
            for (link, batch) in group.iter().zip(&mut batches) {
                link.recv(batch).unwrap();
                heard.extend(batch.drain_refusals().map(|refusal| refusal.to));
            }
        }
        assert!(targets.iter().all(|(_, to)| heard.contains(to)));
        // All is read: who sleeps now sleeps.
        let is_quiet = (0..100).any(|_| {
            group.iter().zip(&mut batches).for_each(|(link, batch)| assert_eq!(link.recv(batch).unwrap(), 0));
            wait(&fds, Some(Duration::from_millis(20))).unwrap() == 0
        });
        assert!(is_quiet, "{home}");
    }
}

/// A message shorter than a header cannot be told from any other, and nothing is left that would keep a sleeper awake.
#[test]
fn a_quotation_that_is_too_short_is_dropped() {
    let (link, (_held, to)) = (open(HOMES[0]), nobody(HOMES[0]));
    let mut out = SendBatch::new();
    out.push_slice(to, b"short");
    link.send(&mut out).unwrap();
    let (fd, mut batch) = (link.poll_fds(), RecvBatch::new());
    assert_eq!(wait(&fd, Some(Duration::from_secs(60))).unwrap(), 1);
    link.recv(&mut batch).unwrap();
    assert!(!batch.has_refusals());
    assert_eq!(wait(&fd, Some(Duration::from_millis(20))).unwrap(), 0);
}

/// The error that tells of a packet to one peer costs none of the packets to another.
#[test]
fn the_packets_to_others_are_not_lost_by_it() {
    for home in HOMES {
        let (link, there, (_held, to)) = (open(home), open(home), nobody(home));
        for round in 0..20_u8 {
            let mut out = SendBatch::new();
            out.push_slice(to, &[round; 40]);
            link.send(&mut out).unwrap();
            for _ in 0..10 {
                out.push_slice(there.info().local, &[round; 40]);
            }
            link.send(&mut out).unwrap();
        }
        assert_eq!(link.stats().dropped_unreachable, 0, "{home}");
        let mut batch = RecvBatch::new();
        let mut count = 0;
        while count < 200 {
            assert_eq!(wait(&there.poll_fds(), Some(Duration::from_secs(60))).unwrap(), 1, "{count}");
            count += there.recv(&mut batch).unwrap();
            batch.drain();
        }
        assert!(refusals(&link).iter().all(|(target, _)| *target == to));
    }
}

/// Turns until nothing is left to read, in fewer than 100; then the descriptor lets a thread sleep.
#[cfg(test)]
fn becomes_quiet(link: &Udp) -> bool {
    let (fd, mut batch) = (link.poll_fds(), RecvBatch::new());
    (0..100).any(|_| {
        link.recv(&mut batch).unwrap();
        wait(&fd, Some(Duration::from_millis(20))).unwrap() == 0
    })
}

/// The call that sends to both is made to stop by the first answer, and its error is told to nobody.
#[test]
fn a_refusal_in_the_middle_of_a_batch_keeps_no_sleeper_awake() {
    for home in HOMES {
        let (link, there, (_held, to)) = (open(home), open(home), nobody(home));
        let mut out = SendBatch::new();
        for target in [there.info().local, to, there.info().local] {
            out.push_slice(target, &[1; 40]);
        }
        assert_eq!(link.send(&mut out).unwrap(), 3);
        assert!(becomes_quiet(&link), "{home}");
    }
}
