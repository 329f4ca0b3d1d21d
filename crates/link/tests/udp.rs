//! UDP over the loopback interface: offloads, refusals, sizes.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use bytes::Bytes;
use weft_link::{Link, RecvBatch, SendBatch, Udp, UdpOptions, wait};

use helpers::*;

/// [CDP-ENC-5] However packets are grouped for the kernel, each is the data of one datagram.
#[test]
fn a_batch_of_mixed_sizes_arrives_packet_by_packet_in_order() {
    let sizes = [1472, 1472, 1472, 700, 28, 28, 28, 92, 92, 92, 91, 1, 0, 1400, 1472, 1472, 300, 300, 28];
    let packets: Vec<_> =
        sizes.iter().cycle().take(300).enumerate().map(|(n, &len)| packet(n, len)).collect();
    for home in HOMES {
        let (here, there) = pair(home);
        let to = there.info().local;
        let mut batch = SendBatch::new();
        packets.iter().for_each(|packet| push(&mut batch, to, packet));
        assert_eq!(here.send(&mut batch).unwrap(), packets.len());
        assert!(batch.is_empty());
        assert_eq!(receive(&there, packets.len()), packets);
        assert!(receives_nothing(&there));
    }
}

#[test]
fn a_run_of_one_size_takes_one_call_to_send_and_one_to_receive() {
    let (here, there) = pair(HOMES[0]);
    let mut batch = SendBatch::new();
    (0..40).for_each(|n| push(&mut batch, there.info().local, &packet(n, 1472)));
    here.send(&mut batch).unwrap();
    assert_eq!(receive(&there, 40).len(), 40);
    if here.info().gso && there.info().gro {
        assert_eq!((here.stats().send_calls, here.stats().sent_packets), (1, 40));
        assert_eq!((there.stats().receive_calls, there.stats().received_packets), (1, 40));
    } else {
        weft_skip::skipped!("the count of calls: this kernel has no UDP_SEGMENT or UDP_GRO");
    }
}

/// [CDP-ENC-8] The UDP checksum is used, on IPv6 and on IPv4: the kernel is never told to leave it out.
#[test]
fn the_udp_checksum_is_used() {
    for home in HOMES {
        let (here, _there) = pair(home);
        let mut off: libc::c_int = -1;
        let mut len = libc::socklen_t::try_from(size_of_val(&off)).unwrap();
        let fd = here.as_fd().as_raw_fd();
        // SAFETY: the option is an int, and both pointers are valid for the call.
        let result = unsafe {
            libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_NO_CHECK, (&raw mut off).cast(), &raw mut len)
        };
        assert_eq!((result, off), (0, 0), "{home}");
    }
}

#[test]
fn without_offloads_everything_arrives_as_well() {
    let plain = UdpOptions { gso: false, gro: false, ..UdpOptions::default() };
    for home in HOMES {
        let (here, there) = (open(home, &plain), open(home, &plain));
        assert!(!here.info().gso && !there.info().gro);
        let packets: Vec<_> = (0..100).map(|n| packet(n, 1000)).collect();
        let mut batch = SendBatch::new();
        packets.iter().for_each(|packet| push(&mut batch, there.info().local, packet));
        here.send(&mut batch).unwrap();
        assert_eq!(receive(&there, 100), packets);
    }
}

#[test]
fn when_the_kernel_refuses_to_cut_packets_they_leave_one_by_one_and_it_is_not_asked_again() {
    let (here, there) = pair(HOMES[0]);
    if !here.info().gso {
        return weft_skip::skipped!("this kernel has no UDP_SEGMENT");
    }
    make_the_kernel_refuse_gso(&here);
    let packets: Vec<_> = (0..50).map(|n| packet(n, 1200)).collect();
    for _ in 0..2 {
        let mut batch = SendBatch::new();
        packets.iter().for_each(|packet| push(&mut batch, there.info().local, packet));
        here.send(&mut batch).unwrap();
        assert_eq!(receive(&there, packets.len()), packets);
    }
    assert_eq!(here.stats().gso_refused, 1);
    assert!(!here.info().gso);
}

/// A datagram may come from port 0, and be answered, but nothing can be sent there.
#[test]
fn packets_that_cannot_be_sent_to_their_target_do_not_end_grouping() {
    for home in HOMES {
        let (here, there) = pair(home);
        let has_gso = here.info().gso;
        let mut batch = SendBatch::new();
        let nowhere = SocketAddr::new(there.info().local.ip(), 0);
        (0..2).for_each(|n| push(&mut batch, nowhere, &packet(n, 40)));
        assert_eq!(here.send(&mut batch).unwrap(), 2);
        assert_eq!(here.stats().dropped_unreachable, 2, "{home}");
        assert_eq!(here.info().gso, has_gso, "{home}");
    }
}

#[test]
fn a_packet_that_is_too_large_is_dropped_and_counted_and_its_neighbours_arrive() {
    for home in HOMES {
        let (here, there) = pair(home);
        let mut batch = SendBatch::new();
        for (n, len) in [(0, 500), (1, 65_530), (2, 500)] {
            push(&mut batch, there.info().local, &packet(n, len));
        }
        assert_eq!(here.send(&mut batch).unwrap(), 3);
        assert_eq!(receive(&there, 2), [packet(0, 500), packet(2, 500)]);
        assert_eq!(here.stats().dropped_oversize, 1);
        assert!(here.info().gso, "size is no reason to give up grouping");
    }
}

#[test]
fn the_largest_packet_that_the_link_announces_passes() {
    for home in HOMES {
        let (here, there) = pair(home);
        let largest = packet(3, 28 + usize::from(here.info().mss));
        let mut batch = SendBatch::new();
        push(&mut batch, there.info().local, &largest);
        here.send(&mut batch).unwrap();
        assert_eq!(receive(&there, 1), [largest]);
    }
}

#[test]
fn a_target_without_a_listener_harms_nobody() {
    let (here, there) = pair(HOMES[0]);
    let gone = open(HOMES[0], &UdpOptions::default()).info().local;
    let mut batch = SendBatch::new();
    for n in 0..10 {
        push(&mut batch, if n % 2 == 0 { gone } else { there.info().local }, &packet(n, 100));
    }
    assert_eq!(here.send(&mut batch).unwrap(), 10);
    assert_eq!(receive(&there, 5).len(), 5);
    assert_eq!(here.recv(&mut RecvBatch::new()).unwrap(), 0);
}

#[test]
fn a_target_nobody_can_reach_is_dropped_and_counted() {
    let (here, there) = pair(HOMES[0]);
    let mut batch = SendBatch::new();
    // A socket bound to 127.0.0.1 may not send to other networks.
    push(&mut batch, "192.0.2.1:9".parse().unwrap(), &packet(0, 100));
    push(&mut batch, there.info().local, &packet(1, 100));
    here.send(&mut batch).unwrap();
    assert_eq!(receive(&there, 1), [packet(1, 100)]);
    assert_eq!(here.stats().dropped_unreachable, 1);
}

/// [CDP-MTU-6] A packet that may be fragmented arrives, and afterwards fragmentation is forbidden again.
#[test]
fn fragmentation_is_allowed_for_one_packet_and_then_forbidden_again() {
    for home in HOMES {
        let (here, there) = pair(home);
        let mut batch = SendBatch::new();
        let (to, first, second) = (there.info().local, packet(1, 3000), packet(2, 100));
        batch.heads_mut().extend_from_slice(&first);
        batch.push(to, 0..first.len(), Bytes::new(), true);
        push(&mut batch, to, &second);
        here.send(&mut batch).unwrap();
        assert_eq!(receive(&there, 2), [first, second]);
        assert_eq!(here.stats().sent_fragmentable, 1);
        assert_eq!(discovery(&here, home), libc::IP_PMTUDISC_PROBE);
    }
}

#[test]
fn one_receive_takes_about_its_budget_and_leaves_the_rest() {
    let plain = UdpOptions { gro: false, ..UdpOptions::default() };
    let (here, there) = (open(HOMES[0], &plain), open(HOMES[0], &plain));
    let mut batch = SendBatch::new();
    (0..50).for_each(|n| push(&mut batch, there.info().local, &packet(n, 100)));
    here.send(&mut batch).unwrap();
    let mut packets = RecvBatch::with_budget(20);
    assert_eq!(there.recv(&mut packets).unwrap(), 20);
    assert_eq!(there.recv(&mut packets).unwrap(), 0, "a full batch takes nothing");
    packets.drain();
    assert_eq!(there.recv(&mut packets).unwrap(), 20);
}

#[test]
fn what_finds_the_receive_buffer_full_is_lost_and_counted() {
    let small = UdpOptions { buffer_bytes: 16 << 10, gro: false, ..UdpOptions::default() };
    let (here, there) = (open(HOMES[0], &small), open(HOMES[0], &small));
    for number in 0..300 {
        let mut batch = SendBatch::new();
        push(&mut batch, there.info().local, &packet(number, 1000));
        here.send(&mut batch).unwrap();
    }
    let (mut packets, mut count) = (RecvBatch::new(), 0);
    while there.recv(&mut packets).unwrap() > 0 {
        count += packets.drain().count() as u64;
    }
    assert!(count < 300, "the buffer was never full");
    assert_eq!(there.stats().receive_overflows, 300 - count);
}

#[test]
fn an_ipv6_wildcard_socket_serves_ipv4_and_tells_ipv4_addresses() {
    let both = open("[::]:0", &UdpOptions::default());
    let four = open(HOMES[0], &UdpOptions::default());
    let to = SocketAddr::from(([127, 0, 0, 1], both.info().local.port()));
    let mut batch = SendBatch::new();
    (0..3).for_each(|n| push(&mut batch, to, &packet(n, 900)));
    four.send(&mut batch).unwrap();
    wait(&both.poll_fds(), Some(Duration::from_secs(60))).unwrap();
    let mut packets = RecvBatch::new();
    both.recv(&mut packets).unwrap();
    let from = packets.drain().next().unwrap().from;
    assert_eq!(from, four.info().local);
    (0..3).for_each(|n| push(&mut batch, from, &packet(n, 900)));
    both.send(&mut batch).unwrap();
    assert_eq!(receive(&four, 3).len(), 3);
}

#[cfg(test)]
mod helpers {
    use super::*;

    pub(super) const HOMES: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

    pub(super) fn open(home: &str, options: &UdpOptions) -> Udp {
        Udp::bind_with(home.parse().unwrap(), options).unwrap()
    }

    pub(super) fn pair(home: &str) -> (Udp, Udp) {
        (open(home, &UdpOptions::default()), open(home, &UdpOptions::default()))
    }

    /// A packet of `len` bytes that tells its number.
    pub(super) fn packet(number: usize, len: usize) -> Vec<u8> {
        (0..len).map(|at| u8::try_from((number * 7 + at) % 251).unwrap()).collect()
    }

    pub(super) fn push(batch: &mut SendBatch, to: SocketAddr, packet: &[u8]) {
        let split = packet.len().min(28);
        let start = batch.heads_mut().len();
        batch.heads_mut().extend_from_slice(&packet[..split]);
        batch.push(to, start..start + split, Bytes::copy_from_slice(&packet[split..]), false);
    }

    /// Receives `count` packets, or fails after a while.
    pub(super) fn receive(link: &Udp, count: usize) -> Vec<Vec<u8>> {
        let (mut batch, mut got) = (RecvBatch::new(), Vec::new());
        while got.len() < count {
            let fds = link.poll_fds();
            let ready = wait(&fds, Some(Duration::from_secs(60))).unwrap();
            assert_ne!(ready, 0, "only {} of {count} packets arrived", got.len());
            link.recv(&mut batch).unwrap();
            got.extend(batch.drain().map(|packet| packet.bytes.to_vec()));
        }
        got
    }

    pub(super) fn receives_nothing(link: &Udp) -> bool {
        wait(&link.poll_fds(), Some(Duration::from_millis(20))).unwrap() == 0
    }

    /// A socket without UDP checksums makes the kernel refuse to cut packets, with `EINVAL`.
    pub(super) fn make_the_kernel_refuse_gso(link: &Udp) {
        let (on, len) = (1i32, u32::try_from(size_of::<i32>()).unwrap());
        let fd = link.as_fd().as_raw_fd();
        let (level, name) = (libc::SOL_SOCKET, libc::SO_NO_CHECK);
        // SAFETY: the pointer is to an integer that lives, and the length is its size.
        let result = unsafe { libc::setsockopt(fd, level, name, (&raw const on).cast(), len) };
        assert_eq!(result, 0);
    }

    pub(super) fn discovery(link: &Udp, home: &str) -> i32 {
        let (level, name) = match home.parse::<SocketAddr>().unwrap() {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
        };
        let (mut value, mut len) = (-1i32, u32::try_from(size_of::<i32>()).unwrap());
        let fd = link.as_fd().as_raw_fd();
        // SAFETY: both pointers are to integers of ours, and the length is the first one's size.
        unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) };
        value
    }
}
