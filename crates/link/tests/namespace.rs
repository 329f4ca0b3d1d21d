//! UDP where a real network's limits hold: a network namespace of the test's own, with interfaces whose MTU is 1500 bytes, or a
//! loopback interface that is slow. Needs the permission to make one; says loudly when it is missing.

mod ends;

use std::io;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use weft_link::{Interest, Link, PeerMss, RecvBatch, SendBatch, Trace, Udp, UdpOptions, wait, wait_for};

use ends::{End, ping_pong};
use helpers::*;

#[test]
fn the_largest_data_segment_is_what_the_specification_says_for_an_mtu_of_1500() {
    in_namespace(&[], || {
        assert_eq!(pair("127.0.0.1:0").0.info().mss, 1444);
        assert_eq!(pair("[::1]:0").0.info().mss, 1424);
        assert_eq!(pair("0.0.0.0:0").0.info().mss, 1444);
    });
}

/// Whatever address a link has, peers on its host are reached by the loopback interface.
#[test]
fn peers_on_this_host_are_sent_more_than_its_network_carries() {
    let setup = [
        "ip link set lo mtu 65536",
        "ip link add out0 mtu 1500 type veth peer name out1",
        "ip addr add 203.0.113.5/24 dev out0",
        "ip link set out0 up",
    ];
    in_namespace(&setup, || {
        let to = |link: &dyn Link, ip: &str| link.mss_to(format!("{ip}:9").parse().unwrap());
        for home in ["0.0.0.0:0", "203.0.113.5:0"] {
            let link = Trace::new(udp(home, 1 << 20), io::sink());
            assert_eq!(link.info().mss, 1444, "{home}");
            let within = Some(PeerMss { bytes: 65_479, is_one_link: true });
            assert_eq!((to(&link, "127.0.0.1"), to(&link, "203.0.113.5")), (within, within));
            assert_eq!(to(&link, "203.0.113.6"), None);
        }
        let home = udp("127.0.0.1:0", 1 << 20);
        let within = Some(PeerMss { bytes: home.info().mss, is_one_link: true });
        assert_eq!(to(&home, "127.0.0.1"), within, "no more than everywhere");
        let options = UdpOptions { mtu: Some(1_500), ..UdpOptions::default() };
        let told = Udp::bind_with("0.0.0.0:0".parse().unwrap(), &options).unwrap();
        assert_eq!(to(&told, "127.0.0.1"), None, "an MTU that was asked for holds for all");
    });
}

/// On several networks a peer is sent what the interface towards it carries, if that is more than all carry.
#[test]
fn peers_on_a_network_of_jumbo_frames_are_sent_more_than_others() {
    let setup = [
        "ip link add data0 mtu 9000 type veth peer name data1",
        "ip addr add 203.0.113.5/24 dev data0",
        "ip addr add 2001:db8:1::5/64 dev data0 nodad",
        "ip link add mgmt0 mtu 1500 type veth peer name mgmt1",
        "ip addr add 198.51.100.5/24 dev mgmt0",
        "ip link set data0 up",
        "ip link set data1 up",
        "ip link set mgmt0 up",
        "ip route add 192.0.2.0/24 via 203.0.113.1",
        "ip route add default via 198.51.100.1",
    ];
    in_namespace(&setup, || {
        let to = |link: &dyn Link, ip: &str| link.mss_to(SocketAddr::new(ip.parse().unwrap(), 9));
        let jumbo = |bytes| Some(PeerMss { bytes, is_one_link: false });
        let link = Trace::new(udp("0.0.0.0:0", 1 << 20), io::sink());
        assert_eq!(link.info().mss, 1444);
        assert_eq!((to(&link, "203.0.113.6"), to(&link, "192.0.2.7")), (jumbo(8_944), jumbo(8_944)));
        assert_eq!((to(&link, "198.51.100.6"), to(&link, "8.8.8.8")), (None, None));
        let link = udp("[::]:0", 1 << 20);
        assert_eq!((to(&link, "2001:db8:1::6"), to(&link, "2001:db8:2::6")), (jumbo(8_924), None));
        let link = udp("203.0.113.5:0", 1 << 20);
        assert_eq!((link.info().mss, to(&link, "198.51.100.6")), (8_944, None), "it has one network");
    });
}

/// [CDP-MTU-6] What exceeds the limit is not cut unless that is allowed for this one packet.
#[test]
fn only_packets_that_may_be_fragmented_are() {
    in_namespace(&[], || {
        for home in ["127.0.0.1:0", "[::1]:0"] {
            let (here, there) = pair(home);
            let mut batch = SendBatch::new();
            for (len, may_fragment) in
                [(1400, false), (2000, true), (2001, false), (4000, true), (1401, false)]
            {
                push(&mut batch, &there, len, may_fragment);
            }
            assert_eq!(here.send(&mut batch).unwrap(), 5);
            assert_eq!(receive(&there, 4), [1400, 2000, 4000, 1401], "{home}");
            assert_eq!((here.stats().dropped_oversize, here.stats().sent_fragmentable), (1, 2));
        }
    });
}

#[test]
fn a_group_that_is_too_large_for_the_interface_is_dropped_whole_and_grouping_goes_on() {
    in_namespace(&[], || {
        let (here, there) = pair("127.0.0.1:0");
        let mut batch = SendBatch::new();
        (0..10).for_each(|_| push(&mut batch, &there, 1473, false));
        (0..10).for_each(|_| push(&mut batch, &there, 1472, false));
        here.send(&mut batch).unwrap();
        assert_eq!(receive(&there, 10), [1472; 10]);
        assert_eq!(here.stats().dropped_oversize, 10);
        assert!(here.info().gso);
    });
}

/// The kernel keeps a message of each, and says of more than are read at a time only that the descriptor is ready.
#[test]
fn many_packets_that_are_too_large_keep_no_sleeper_awake() {
    in_namespace(&[], || {
        let (here, there) = pair("127.0.0.1:0");
        for len in 1500..1600 {
            let mut batch = SendBatch::new();
            push(&mut batch, &there, len, false);
            here.send(&mut batch).unwrap();
        }
        assert_eq!(here.stats().dropped_oversize, 100);
        let mut batch = RecvBatch::new();
        let is_quiet = (0..10).any(|_| {
            here.recv(&mut batch).unwrap();
            wait(&here.poll_fds(), Some(Duration::from_millis(20))).unwrap() == 0
        });
        assert!(is_quiet);
    });
}

#[test]
fn what_the_kernel_does_not_take_now_stays_in_the_batch_and_leaves_later() {
    in_namespace(&["tc qdisc add dev lo root tbf rate 80mbit burst 64k limit 10mb"], || {
        let (here, there) = (udp("127.0.0.1:0", 16 << 10), udp("127.0.0.1:0", 4 << 20));
        // A wrapper waits for the same.
        let here = Trace::new(here, io::sink());
        let mut batch = SendBatch::new();
        (0..300).for_each(|n| push(&mut batch, &there, 1000 + n, false));
        let mut pauses = 0;
        while let Err(error) = here.send(&mut batch) {
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            assert!(!batch.is_empty());
            pauses += 1;
            let mut writable = [Interest::writable(here.send_fd().unwrap())];
            wait_for(&mut writable, Some(Duration::from_secs(60))).unwrap();
        }
        assert!(pauses > 0, "the send buffer was never full");
        assert_eq!(here.stats().send_would_block, pauses);
        // A queue of the kernel's that both cores take from may deliver neighbours in either order.
        let mut lens = receive(&there, 300);
        lens.sort_unstable();
        assert_eq!(lens, (1000..1300).collect::<Vec<_>>());
    });
}

/// The second socket of a link may be connected to one peer after the other, and each sees the address that leads to it.
#[test]
fn peers_see_the_address_that_leads_to_them_whoever_had_the_second_socket_before() {
    in_namespace(&["ip addr add 192.0.2.5/32 dev lo", "ip -6 addr add 2001:db8::5/128 dev lo"], || {
        for (home, first, then) in
            [("0.0.0.0:0", "192.0.2.5", "127.0.0.1"), ("[::]:0", "[2001:db8::5]", "[::1]")]
        {
            let mut there = End::new(home);
            let port = there.link.info().local.port();
            for peer in [first, then] {
                let mut here = End::new(&format!("{peer}:0"));
                let to: SocketAddr = format!("{peer}:{port}").parse().unwrap();
                let from = here.link.info().local;
                for round in 0..100 {
                    here.look();
                    there.look();
                    here.send(to, &[vec![round; 64]]);
                    assert_eq!(there.receive(1), [(from, vec![round; 64])]);
                    there.send(from, &[vec![round; 64]]);
                    assert_eq!(here.receive(1), [(to, vec![round; 64])], "answer {round}");
                }
                assert_eq!(there.link.poll_fds().len(), 2, "{peer} has the second socket");
                // Packets that come together are not for it, so the next peer gets it.
                for _ in 0..100 {
                    here.send(to, &ends::packets(4, 700));
                    there.receive(4);
                }
            }
        }
    });
}

/// What was connected while the host had one address is no way when it has another.
#[test]
fn a_peer_with_the_second_socket_is_reached_from_the_address_that_the_host_has_now() {
    let setup = [
        "ip addr add 192.0.2.5/32 dev lo",
        "ip addr add 192.0.2.9/32 dev lo",
        "ip route replace local 192.0.2.9 dev lo table local src 192.0.2.5",
    ];
    in_namespace(&setup, || {
        let (mut here, mut there) = (End::new("0.0.0.0:0"), End::new("192.0.2.9:0"));
        let to = there.link.info().local;
        let mut talk = |from: &str, rounds| {
            let from: SocketAddr = format!("{from}:{}", here.link.info().local.port()).parse().unwrap();
            for round in 0..rounds {
                here.look();
                there.look();
                here.send(to, &[vec![round; 64]]);
                assert_eq!(there.receive(1), [(from, vec![round; 64])]);
                there.send(from, &[vec![round; 64]]);
                assert_eq!(here.receive(1), [(to, vec![round; 64])]);
            }
            here.link.poll_fds().len()
        };
        assert_eq!(talk("192.0.2.5", 100), 2, "the peer has the second socket");
        for command in [
            "ip addr add 192.0.2.6/32 dev lo",
            "ip route replace local 192.0.2.9 dev lo table local src 192.0.2.6",
            "ip addr del 192.0.2.5/32 dev lo",
        ] {
            assert!(is_done(command), "{command}");
        }
        talk("192.0.2.6", 100);
    });
}

/// Such an address means nothing without its interface, whatever the second socket is connected to.
#[test]
fn a_link_local_peer_keeps_its_interface_as_the_second_socket_comes_and_goes() {
    let setup = [
        "ip link add out0 type veth peer name out1",
        "ip link set out0 up",
        "ip -6 addr add fe80::5/64 dev out0 nodad",
    ];
    in_namespace(&setup, || {
        let scope = std::fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap();
        let scope = scope
            .lines()
            .find(|line| line.contains("out0"))
            .and_then(|line| u32::from_str_radix(line.split_whitespace().nth(1)?, 16).ok());
        let (mut here, mut there) =
            (End::new("[::]:0"), End::new(&format!("[fe80::5%{}]:0", scope.unwrap())));
        let to = there.link.info().local;
        for round in 0..3 {
            for _ in 0..100 {
                here.look();
                there.look();
                here.send(to, &[vec![round; 64]]);
                let from = there.receive(1)[0].0;
                there.send(from, &[vec![round; 64]]);
                assert_eq!(here.receive(1), [(to, vec![round; 64])]);
            }
            assert_eq!(here.link.poll_fds().len(), 2, "the peer has the second socket");
            // What comes together is not for it.
            for _ in 0..100 {
                here.send(to, &ends::packets(4, 700));
                let from = there.receive(4)[0].0;
                there.send(from, &ends::packets(4, 700));
                here.receive(4);
            }
        }
    });
}

/// The second socket may be full while the shared one, whose descriptor is told, is not.
#[test]
fn who_is_told_to_wait_has_something_to_wait_for_where_a_peer_has_the_second_socket() {
    in_namespace(&["tc qdisc add dev lo root tbf rate 80mbit burst 64k limit 10mb"], || {
        let end = || End { link: udp("127.0.0.1:0", 16 << 10), batch: RecvBatch::new() };
        let (mut here, mut there) = (end(), end());
        ping_pong(&mut here, &mut there, 100);
        assert_eq!(here.link.poll_fds().len(), 2, "the peer has the second socket");
        let mut batch = SendBatch::new();
        let error = (0..10_000).find_map(|_| {
            push(&mut batch, &there.link, 1400, false);
            here.link.send(&mut batch).err()
        });
        assert_eq!(error.map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
        let mut writable = [Interest::writable(here.link.send_fd().unwrap())];
        assert_eq!(wait_for(&mut writable, Some(Duration::ZERO)).unwrap(), 0, "it has room");
        while here.link.send(&mut batch).is_err() {
            assert_ne!(wait_for(&mut writable, Some(Duration::from_secs(60))).unwrap(), 0);
        }
    });
}

#[cfg(test)]
mod helpers {
    use super::*;

    /// Runs `test` on a thread with a network namespace of its own, set up by `commands`.
    pub(super) fn in_namespace(commands: &[&str], test: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // SAFETY: no pointers; it concerns this thread alone, which ends with the test.
                if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                    let error = io::Error::last_os_error();
                    return weft_skip::skipped!("a network namespace cannot be made ({error}); run as root");
                }
                for command in ["ip link set lo up mtu 1500"].iter().chain(commands) {
                    if !is_done(command) {
                        return weft_skip::skipped!("`{command}` did not work");
                    }
                }
                test();
            });
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        });
    }

    pub(super) fn is_done(command: &str) -> bool {
        let mut words = command.split(' ');
        Command::new(words.next().unwrap()).args(words).status().is_ok_and(|status| status.success())
    }

    pub(super) fn udp(home: &str, buffer_bytes: usize) -> Udp {
        let options = UdpOptions { buffer_bytes, ..UdpOptions::default() };
        Udp::bind_with(home.parse().unwrap(), &options).unwrap()
    }

    pub(super) fn pair(home: &str) -> (Udp, Udp) {
        (udp(home, 4 << 20), udp(home, 4 << 20))
    }

    pub(super) fn push(batch: &mut SendBatch, link: &Udp, len: usize, may_fragment: bool) {
        let start = batch.heads_mut().len();
        batch.heads_mut().extend_from_slice(&[1; 28]);
        batch.push(link.info().local, start..start + 28, Bytes::from(vec![2; len - 28]), may_fragment);
    }

    pub(super) fn receive(link: &Udp, count: usize) -> Vec<usize> {
        let (mut batch, mut lens) = (RecvBatch::new(), Vec::new());
        while lens.len() < count {
            let fds = link.poll_fds();
            let ready = wait(&fds, Some(Duration::from_secs(60))).unwrap();
            assert_ne!(ready, 0, "only {} of {count} packets arrived", lens.len());
            link.recv(&mut batch).unwrap();
            lens.extend(batch.drain().map(|packet| packet.bytes.len()));
        }
        lens
    }
}
