//! The sockets that a flood goes round where the kernel gives one little room.

mod ends;

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use weft_link::{Link, RecvBatch, Udp, UdpOptions, wait};

use ends::{End, ping_pong};

/// An address, and what reaches it.
const HOMES: [(&str, &str); 4] = [
    ("127.0.0.1:0", "127.0.0.1:0"),
    ("0.0.0.0:0", "127.0.0.1:0"),
    ("[::1]:0", "[::1]:0"),
    ("[::]:0", "127.0.0.1:0"),
];

/// What a user without privileges has on most systems.
#[cfg(test)]
fn narrow() -> UdpOptions {
    UdpOptions { buffer_bytes: 208 << 10, ..UdpOptions::default() }
}

/// One that takes few at a time: a turn ends in the midst of what has come.
#[cfg(test)]
fn end(home: &str, options: &UdpOptions) -> End {
    let link = Udp::bind_with(home.parse().unwrap(), options).unwrap();
    End { link, batch: RecvBatch::with_budget(8) }
}

/// A packet of so many bytes with this number where a header has it.
#[cfg(test)]
fn numbered(number: u32, len: usize) -> Vec<u8> {
    let mut packet = vec![7; len];
    packet[20..24].copy_from_slice(&number.to_be_bytes());
    packet
}

#[cfg(test)]
fn number(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[20..24].try_into().unwrap())
}

/// So many packets of `len` bytes from `next` on, in runs of `run` that leave as one.
#[cfg(test)]
fn flood(from: &End, to: SocketAddr, next: &mut u32, count: u32, len: usize, run: usize) {
    let packets: Vec<_> = (0..count).map(|n| numbered(next.wrapping_add(n), len)).collect();
    packets.chunks(run).for_each(|run| from.send(to, run));
    *next = next.wrapping_add(count);
}

/// Takes so many: from where, and their numbers.
#[cfg(test)]
fn take(at: &mut End, count: usize) -> Vec<(SocketAddr, u32)> {
    let mut got = Vec::new();
    while got.len() < count {
        assert!(
            wait(&at.link.poll_fds(), Some(Duration::from_secs(60))).unwrap() > 0,
            "{} of {count}",
            got.len()
        );
        at.batch.note_readable();
        at.link.recv(&mut at.batch).unwrap();
        got.extend(at.batch.drain().map(|packet| (packet.from, number(&packet.bytes))));
    }
    got
}

/// So many packets arrive in the order in which they leave.
#[cfg(test)]
fn check(there: &mut End, here: &End, next: &mut u32, count: usize, len: usize, run: usize) {
    let (from, to, first) = (here.link.info().local, there.address(here), *next);
    let count = u32::try_from(count).unwrap();
    flood(here, to, next, count, len, run);
    let numbers = (0..count).map(|n| (from, first.wrapping_add(n)));
    assert!(take(there, count as usize).into_iter().eq(numbers), "{len} bytes, {run} as one, to {to}");
}

/// Floods until the packets go round several sockets, if they do at all.
#[cfg(test)]
fn begin(there: &mut End, here: &End, next: &mut u32, len: usize, run: usize) -> bool {
    let few = 100_000 / len;
    (0..100).any(|_| {
        there.batch.note_room(false);
        check(there, here, next, few, len, run);
        there.link.room_bytes().is_some()
    })
}

#[test]
fn a_flood_goes_round_several_sockets_that_hold_more_and_is_read_in_order() {
    for (home, peer) in HOMES {
        for (len, run) in [(1_472, 32), (1_472, 1), (8_972, 7), (8_972, 1), (500, 64)] {
            for has_second in [false, true] {
                let (mut there, mut here) = (end(home, &narrow()), End::new(peer));
                if has_second {
                    ping_pong(&mut there, &mut here, 100);
                }
                // Across the end of the numbers.
                let mut next = u32::MAX - 3_000;
                assert!(begin(&mut there, &here, &mut next, len, run), "{home}");
                assert_eq!(there.link.room_bytes(), Some(4 * there.link.info().receive_buffer_bytes));
                // What came before it began is out of the way.
                (0..4).for_each(|_| check(&mut there, &here, &mut next, 8, len, run));
                (0..8).for_each(|_| check(&mut there, &here, &mut next, 530_000 / len, len, run));
                assert_eq!(there.link.stats().receive_overflows, 0);
            }
        }
    }
}

/// What one socket cannot hold is lost, and counted; what follows is in order.
#[test]
fn what_is_lost_is_counted_and_the_rest_comes_in_order() {
    let (mut there, here) = (end(HOMES[0].0, &narrow()), End::new(HOMES[0].1));
    let mut next = 0;
    assert!(begin(&mut there, &here, &mut next, 1_472, 32));
    let to = there.address(&here);
    flood(&here, to, &mut next, 32 * 60, 1_472, 32);
    let lost = there.link.stats().receive_overflows;
    assert!(lost > 0);
    take(&mut there, 32 * (60 - usize::try_from(lost).unwrap()));
    // The first one may lie elsewhere than what was lost would have.
    flood(&here, to, &mut next, 300, 1_472, 32);
    take(&mut there, 300);
    (0..4).for_each(|_| check(&mut there, &here, &mut next, 300, 1_472, 32));
}

#[test]
fn packets_that_come_one_at_a_time_end_it_and_the_port_is_its_owners() {
    for (home, peer) in HOMES {
        let (mut there, mut here) = (end(home, &narrow()), End::new(peer));
        let mut next = 0;
        let bind_beside = |at: SocketAddr| {
            let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP)).unwrap();
            socket.set_reuse_port(true).unwrap();
            socket.bind(&at.into())
        };
        for _ in 0..3 {
            there.batch.take_new_fds();
            assert!(begin(&mut there, &here, &mut next, 1_472, 32), "{home}");
            assert!(there.batch.take_new_fds() && !there.batch.take_new_fds(), "{home}");
            (0..100).for_each(|_| check(&mut there, &here, &mut next, 1, 1_472, 1));
            assert!(there.batch.take_new_fds(), "{home}");
            ping_pong(&mut there, &mut here, 100);
            assert_eq!(there.link.room_bytes(), None, "{home}");
            assert!(there.link.poll_fds().len() == 2, "{home}");
            let refused = bind_beside(there.link.info().local).unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::AddrInUse, "{home}");
        }
    }
}

#[test]
fn others_are_heard_while_it_lasts() {
    for (home, peer) in HOMES {
        let (mut there, here, other) = (end(home, &narrow()), End::new(peer), End::new(peer));
        let (mut next, mut others) = (0, 1 << 20);
        assert!(begin(&mut there, &here, &mut next, 1_472, 32), "{home}");
        for _ in 0..20 {
            check(&mut there, &here, &mut next, 300, 1_472, 32);
            check(&mut there, &other, &mut others, 1, 100, 1);
        }
        assert!(there.link.room_bytes().is_some(), "{home}");
        // Until they are many.
        (0..100).for_each(|_| check(&mut there, &other, &mut others, 1, 100, 1));
        assert_eq!(there.link.room_bytes(), None, "{home}");
    }
}

/// Of several flows at once each would be in order, but not all of them in the order in which they came.
#[test]
fn several_flows_of_a_peer_come_by_one_socket() {
    let (mut there, here) = (end(HOMES[0].0, &narrow()), End::new(HOMES[0].1));
    let (mut next, mut other) = (0, 1 << 20);
    assert!(begin(&mut there, &here, &mut next, 1_472, 32));
    for _ in 0..100 {
        check(&mut there, &here, &mut next, 32, 1_472, 32);
        check(&mut there, &here, &mut other, 32, 1_472, 32);
    }
    assert_eq!(there.link.room_bytes(), None);
    assert!(!begin(&mut there, &here, &mut next, 1_472, 32), "so soon");
}

#[test]
fn who_has_room_or_declines_it_has_one_socket() {
    let declined = UdpOptions { striping: false, ..narrow() };
    let wide = UdpOptions { buffer_bytes: 1 << 20, ..UdpOptions::default() };
    for options in [declined, wide] {
        let (mut there, here) = (end(HOMES[0].0, &options), End::new(HOMES[0].1));
        if options.striping && there.link.info().receive_buffer_bytes < 2 << 20 {
            weft_skip::skipped!("the system gives no buffer of 1 MiB (sysctl net.core.rmem_max)");
            continue;
        }
        assert!(!begin(&mut there, &here, &mut 0, 1_472, 32), "{options:?}");
    }
}

/// Links of one address, of which the first have one of the peers each.
#[cfg(test)]
fn group(home: &str, peer: &str, count: usize) -> (Vec<End>, Vec<End>) {
    let links = Udp::bind_group(home.parse().unwrap(), 2 * count, &narrow()).unwrap();
    let mut ends: Vec<_> =
        links.into_iter().map(|link| End { link, batch: RecvBatch::with_budget(8) }).collect();
    let mut peers: Vec<Option<End>> = ends.iter().map(|_| None).collect();
    while peers.iter().flatten().count() < count {
        let here = End::new(peer);
        here.send(ends[0].address(&here), &[numbered(0, 100)]);
        let by = ends.iter_mut().position(|there| {
            there.link.recv(&mut there.batch).unwrap();
            there.batch.drain().count() > 0
        });
        peers[by.expect("it is there")].get_or_insert(here);
    }
    let mut pairs: Vec<_> = ends.into_iter().zip(peers).collect();
    pairs.sort_by_key(|(_, peer)| peer.is_none());
    let (ends, peers): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    (ends, peers.into_iter().flatten().collect())
}

#[test]
fn four_links_of_a_group_are_flooded_at_a_time_and_who_is_no_more_makes_room() {
    for (home, peer) in HOMES {
        let (mut theres, heres) = group(home, peer, 5);
        let mut nexts = [0; 5];
        let begun: Vec<bool> =
            (0..5).map(|at| begin(&mut theres[at], &heres[at], &mut nexts[at], 1_472, 32)).collect();
        assert_eq!(begun, [true, true, true, true, false], "{home}");
        for _ in 0..4 {
            (0..4).for_each(|at| check(&mut theres[at], &heres[at], &mut nexts[at], 360, 1_472, 32));
            check(&mut theres[4], &heres[4], &mut nexts[4], 100, 1_472, 32);
        }
        std::thread::sleep(Duration::from_millis(1_010));
        (1..4).for_each(|at| check(&mut theres[at], &heres[at], &mut nexts[at], 8, 1_472, 8));
        // It is not tried again at once.
        (0..1_000).for_each(|_| theres[4].batch.note_room(false));
        assert!(begin(&mut theres[4], &heres[4], &mut nexts[4], 1_472, 32), "{home}");
        for _ in 0..4 {
            (1..5).for_each(|at| check(&mut theres[at], &heres[at], &mut nexts[at], 360, 1_472, 32));
            check(&mut theres[0], &heres[0], &mut nexts[0], 100, 1_472, 32);
        }
        assert_eq!(theres[0].link.room_bytes(), None, "{home}");
    }
}

/// So many turns of one who is flooded so fast that each turn is full. Packets that came from `other`.
#[cfg(test)]
fn turns_under_water(
    there: &mut End,
    here: &End,
    other: &End,
    next: &mut u32,
    len: usize,
    turns: usize,
) -> usize {
    let (to, of_other) = (there.address(here), other.link.info().local);
    let mut seen = 0;
    for _ in 0..turns {
        flood(here, to, next, 16, len, 1);
        there.link.recv(&mut there.batch).unwrap();
        assert_eq!(there.batch.room(), 0, "it was not full");
        seen += there.batch.drain().filter(|packet| packet.from == of_other).count();
    }
    seen
}

/// A SYN, say, or what lets the link's own sending go on.
#[test]
fn others_are_heard_while_a_flood_fills_each_turn() {
    // What comes by connected socket, and what goes round several.
    for options in [UdpOptions { striping: false, ..narrow() }, narrow()] {
        let (mut there, here) = (end(HOMES[0].0, &options), End::new(HOMES[0].1));
        let (other, mut next) = (End::new(HOMES[0].1), 0);
        if !begin(&mut there, &here, &mut next, 1_472, 1) {
            (0..8).for_each(|_| check(&mut there, &here, &mut next, 100, 1_472, 1));
        }
        other.send(there.address(&other), &[numbered(0, 100)]);
        assert_eq!(turns_under_water(&mut there, &here, &other, &mut next, 1_472, 16), 1, "{options:?}");
    }
}

/// As a datagram from port 1 of the flooding host, which the second socket is connected to when it is not used.
#[test]
fn what_comes_to_the_second_socket_while_a_flood_goes_round_others_keeps_nobody_awake() {
    let (mut there, mut here) = (end(HOMES[0].0, &narrow()), End::new(HOMES[0].1));
    ping_pong(&mut there, &mut here, 100);
    let mut next = 0;
    assert!(begin(&mut there, &here, &mut next, 1_472, 32));
    check(&mut there, &here, &mut next, 200, 1_472, 32);
    let second = there.link.poll_fds()[1];
    let stray = match Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)) {
        Ok(socket) if socket.bind(&SocketAddr::from(([127, 0, 0, 1], 1)).into()).is_ok() => socket,
        _ => return weft_skip::skipped!("UDP port 1 cannot be had; run as root"),
    };
    stray.send_to(&numbered(0, 100), &there.address(&here).into()).unwrap();
    assert_eq!(wait(&[second], Some(Duration::from_secs(60))).unwrap(), 1);
    for _ in 0..32 {
        there.link.recv(&mut there.batch).unwrap();
        there.batch.drain();
    }
    assert!(there.link.room_bytes().is_some(), "it goes on");
    assert_eq!(wait(&there.link.poll_fds(), Some(Duration::ZERO)).unwrap(), 0);
}

/// As where a process that was forked keeps copies of them: the kernel goes on giving these what is for the next ones.
#[test]
fn a_flood_that_nothing_is_seen_of_ends() {
    let (mut there, mut here) = (end(HOMES[0].0, &narrow()), End::new(HOMES[0].1));
    let mut next = 0;
    assert!(begin(&mut there, &here, &mut next, 1_472, 32));
    let of_flood = &there.link.poll_fds()[1..];
    // SAFETY: each is a descriptor of the link, which lives.
    let copy = |&fd: &i32| unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().unwrap();
    let kept: Vec<_> = of_flood.iter().map(copy).collect();
    assert_eq!(kept.len(), 5);
    (0..100).for_each(|_| check(&mut there, &here, &mut next, 1, 1_472, 1));
    ping_pong(&mut there, &mut here, 100);
    assert_eq!(there.link.room_bytes(), None);

    (0..100).any(|_| {
        there.batch.note_room(false);
        flood(&here, there.address(&here), &mut next, 64, 1_472, 32);
        there.link.recv(&mut there.batch).unwrap();
        there.batch.drain();
        there.link.room_bytes().is_some()
    });
    assert!(there.link.room_bytes().is_some());
    let begin = Instant::now();
    while there.link.room_bytes().is_some() {
        assert!(begin.elapsed() < Duration::from_secs(60));
        flood(&here, there.address(&here), &mut next, 1, 1_472, 1);
        there.link.recv(&mut there.batch).unwrap();
        there.batch.drain();
    }
    // Those on their way may be among the first.
    let to = there.address(&here);
    flood(&here, to, &mut next, 100, 1_472, 32);
    take(&mut there, 50);
}
