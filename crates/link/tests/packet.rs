//! The packet link on a cable of two Ethernet interfaces, in a network namespace of the test's own.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use weft_link::packet::OpenError;
use weft_link::{Ethernet, EthernetOptions, Link, Mac, RecvBatch, SendBatch, wait};

use helpers::*;

mod veth;

/// The papers' message, which fits no UDP packet at this MTU, and those of larger frames.
#[test]
fn the_largest_data_segment_is_the_mtu_less_our_header_and_passes() {
    for (mtu, mss) in [(1500, 1472), (9000, 8972), (65_535, 65_507)] {
        let Some([a, b]) = veth::pair(mtu) else { return };
        assert_eq!((a.info().mss, a.info().mtu), (mss, mtu));
        let packet: Vec<u8> = (0..28 + usize::from(mss)).map(|at| u8::try_from(at % 251).unwrap()).collect();
        send(&a, b.info().local, &packet);
        assert!(receive(&b, 1) == [packet], "{mtu}");
    }
}

/// [CDP-ENC-3] Short frames are padded with zero bytes.
#[test]
fn a_short_packet_arrives_padded_with_zeros() {
    let Some([a, b]) = veth::pair(1500) else { return };
    for len in [0, 1, 28, 45, 46, 47] {
        send(&a, b.info().local, &vec![7; len]);
        let mut expected = vec![7; len];
        expected.resize(len.max(46), 0);
        assert_eq!(receive(&b, 1), [expected]);
    }
}

#[test]
fn a_peer_is_named_by_its_ethernet_address() {
    let Some([a, b]) = veth::pair(1500) else { return };
    assert_eq!((a.info().local, b.info().local), (a.mac().underlay(), b.mac().underlay()));
    send(&a, b.mac().underlay(), &[1; 60]);
    assert_eq!(receive(&b, 1), [[1; 60]]);
}

/// [CDP-ENC-4] Frames are unicast.
#[test]
fn what_is_not_for_one_interface_is_dropped_and_counted() {
    let Some([a, b]) = veth::pair(1500) else { return };
    let wrong = [
        Mac([0xFF; 6]).underlay(),
        Mac([0x33, 0x33, 0, 0, 0, 1]).underlay(),
        "10.0.0.1:64064".parse().unwrap(),
        "[fe80::1]:64064".parse().unwrap(),
    ];
    let mut batch = SendBatch::new();
    for to in wrong {
        batch.push_slice(to, &[2; 60]);
        batch.push_slice(b.info().local, &[3; 60]);
    }
    assert_eq!(a.send(&mut batch).unwrap(), 8);
    assert_eq!(receive(&b, 4), [[3; 60]; 4]);
    assert_eq!((a.stats().dropped_unreachable, a.stats().sent_packets), (4, 4));
}

/// [CDP-ENC-1] The EtherType is 0x88B5. [CDP-ENC-2] One 802.1Q tag is accepted. [CDP-ENC-4] Broadcast and multicast frames
/// are ignored, and so are those for other interfaces.
#[test]
fn only_frames_of_our_type_for_this_interface_are_heard() {
    veth::within(1500, || {
        let b = Ethernet::open("wfb").unwrap();
        let own = b.mac().0;
        let tag = [0x81, 0x00, 0x20, 0x07];
        let kind = [0x88, 0xB5];
        let frame = |target: [u8; 6], kinds: &[&[u8]], fill: u8| {
            [&target[..], &[2, 0, 0, 0, 0, 9], &kinds.concat(), &[fill; 60]].concat()
        };
        let raw = Raw::on(index_of(c"wfa"));
        for (number, target) in (10..).zip([[0xFF; 6], [0x33, 0x33, 0, 0, 0, 1], [2, 0, 0, 0, 0, 77]]) {
            raw.send(&frame(target, &[&kind], number));
        }
        raw.send(&frame(own, &[&[0x08, 0x00]], 20));
        raw.send(&frame(own, &[&kind], 1));
        raw.send(&frame(own, &[&tag, &kind], 2));
        assert_eq!(receive(&b, 2), [[1; 60], [2; 60]]);
        assert_eq!(b.recv(&mut RecvBatch::new()).unwrap(), 0);
    });
}

#[test]
fn a_full_ring_loses_frames_and_counts_them_and_goes_on() {
    veth::within(1500, || {
        let options = EthernetOptions { ring_bytes: 64 << 10, ..EthernetOptions::default() };
        let [a, b] = veth::ENDS.map(|end| Ethernet::open_with(end, &options).unwrap());
        let (mut lost, mut full) = (0, 0);
        for round in 0..100 {
            (0..200).for_each(|_| send(&a, b.info().local, &[round; 1000]));
            let mut batch = RecvBatch::with_budget(10);
            let mut count = 0;
            // What the kernel has no time for now it delivers later: then the ring holds more of a round than fits at once.
            until("each of 200 frames came or was lost", || {
                b.recv(&mut batch).unwrap();
                assert!(batch.len() <= 10);
                count += batch.drain().filter(|packet| packet.bytes == [round; 1000][..]).count() as u64;
                count + b.stats().receive_overflows - lost == 200
            });
            lost = b.stats().receive_overflows;
            assert!(count >= 30, "{count} packets of a round");
            full += u32::from(count < 60);
            if full == 3 {
                return;
            }
        }
        panic!("the ring was full in {full} of 100 rounds");
    });
}

#[test]
fn what_one_peer_sends_comes_by_one_link_of_a_group_and_many_peers_use_them_all() {
    veth::within(1500, || {
        let group = Ethernet::open_group("wfb", 3, &EthernetOptions::default()).unwrap();
        assert!(group.iter().all(|link| link.info().local == group[0].info().local));
        assert!(matches!(Ethernet::open("wfb"), Err(OpenError::InUse(_))));
        let raw = Raw::on(index_of(c"wfa"));
        let mut ways: HashMap<u8, usize> = HashMap::new();
        for round in 0..4 {
            for peer in 0..60 {
                let source = [2, 0, 0, 0, 1, peer];
                raw.send(&[&group[0].mac().0[..], &source, &[0x88, 0xB5], &[peer, round], &[7; 60]].concat());
            }
            let mut count = 0;
            until("a frame of each of 60 peers came", || {
                for (index, link) in group.iter().enumerate() {
                    let mut batch = RecvBatch::new();
                    link.recv(&mut batch).unwrap();
                    for packet in batch.drain() {
                        assert_eq!(packet.bytes[1], round);
                        assert_eq!(*ways.entry(packet.bytes[0]).or_insert(index), index);
                        count += 1;
                    }
                }
                count >= 60
            });
            assert_eq!(count, 60);
        }
        let used: HashSet<usize> = ways.values().copied().collect();
        assert_eq!((ways.len(), used.len()), (60, 3));
        let peer = Ethernet::open("wfa").unwrap();
        for link in &group {
            send(link, peer.mac().underlay(), &[9; 60]);
            assert_eq!(receive(&peer, 1), [[9; 60]]);
        }
    });
}

#[test]
fn a_link_outlives_that_its_interface_is_down_and_does_not_keep_sleepers_awake() {
    veth::within(1500, || {
        let [a, b] = veth::ENDS.map(|end| Ethernet::open(end).unwrap());
        assert!(veth::run("ip link set wfb down"));
        (0..2000).for_each(|_| assert_eq!(b.recv(&mut RecvBatch::new()).unwrap(), 0));
        assert_eq!(wait(&b.poll_fds(), Some(Duration::ZERO)).unwrap(), 0);
        assert_eq!(b.stats().receive_errors, 1);
        send(&a, b.info().local, &[1; 60]);
        assert!(veth::run("ip link set wfb up"));
        send(&a, b.info().local, &[2; 60]);
        assert_eq!(receive(&b, 1), [[2; 60]]);
    });
}

#[test]
fn what_forbids_a_link_is_told_by_name() {
    veth::within(1500, || {
        let refused = |name| Ethernet::open(name).unwrap_err();
        assert!(matches!(refused("nosuch0"), OpenError::NoInterface(name) if name == "nosuch0"));
        assert!(matches!(refused("lo"), OpenError::NotEthernet(_)));
        let first = Ethernet::open("wfa").unwrap();
        assert!(matches!(refused("wfa"), OpenError::InUse(_)));
        drop(first);
        // A program that another test starts just now holds what this process has open until it runs.
        let until = Instant::now() + Duration::from_secs(60);
        while let Err(error) = Ethernet::open("wfa") {
            assert!(matches!(error, OpenError::InUse(_)) && Instant::now() < until, "{error}");
        }
        assert!(veth::run("ip link set wfb down"));
        assert!(matches!(refused("wfb"), OpenError::Down(_)));
        drop_capabilities();
        let error = refused("wfa");
        assert!(matches!(error, OpenError::NotPermitted), "{error}");
        assert!(error.to_string().contains("setcap cap_net_raw+ep"));
    });
}

#[cfg(test)]
mod helpers {
    use super::*;

    pub(super) fn send(link: &Ethernet, to: std::net::SocketAddr, packet: &[u8]) {
        let mut batch = SendBatch::new();
        batch.push_slice(to, packet);
        link.send(&mut batch).unwrap();
    }

    pub(super) fn receive(link: &Ethernet, count: usize) -> Vec<Vec<u8>> {
        let (mut batch, mut got) = (RecvBatch::new(), Vec::new());
        while got.len() < count {
            let ready = wait(&link.poll_fds(), Some(Duration::from_secs(60))).unwrap();
            assert_eq!(ready, 1, "only {} of {count} packets arrived", got.len());
            link.recv(&mut batch).unwrap();
            got.extend(batch.drain().map(|packet| packet.bytes.to_vec()));
        }
        got
    }

    /// Tries until it is so; the kernel delivers frames when it finds the time.
    pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < Duration::from_secs(60), "not in a minute: {what}");
        }
    }

    pub(super) fn index_of(name: &std::ffi::CStr) -> i32 {
        // SAFETY: the name ends with a zero byte.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        assert_ne!(index, 0);
        i32::try_from(index).unwrap()
    }

    /// A socket that sends frames just as they are.
    pub(super) struct Raw {
        socket: OwnedFd,
        index: i32,
    }

    impl Raw {
        pub(super) fn on(index: i32) -> Self {
            // SAFETY: the call takes no pointers.
            let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
            assert!(fd >= 0, "{}", io::Error::last_os_error());
            // SAFETY: the kernel has just given this descriptor.
            let socket = unsafe { OwnedFd::from_raw_fd(fd) };
            // The queueing discipline of a new interface swallows frames until the kernel has found time to start it.
            let (yes, len) = (1i32, libc::socklen_t::try_from(size_of::<i32>()).unwrap());
            let (level, name) = (libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS);
            // SAFETY: the value lives through the call and has the length given.
            let result = unsafe { libc::setsockopt(fd, level, name, (&raw const yes).cast(), len) };
            assert_eq!(result, 0, "{}", io::Error::last_os_error());
            Self { socket, index }
        }

        pub(super) fn send(&self, frame: &[u8]) {
            // SAFETY: all bits zero are a value of this type.
            let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            to.sll_family = u16::try_from(libc::AF_PACKET).unwrap();
            to.sll_ifindex = self.index;
            let len = libc::socklen_t::try_from(size_of_val(&to)).unwrap();
            // SAFETY: frame and address live through the call and have the lengths given.
            let sent = unsafe {
                let to = (&raw const to).cast();
                libc::sendto(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0, to, len)
            };
            assert_eq!(sent, isize::try_from(frame.len()).unwrap(), "{}", io::Error::last_os_error());
        }
    }

    /// Takes every capability from this thread.
    pub(super) fn drop_capabilities() {
        let header = [0x2008_0522u32, 0];
        let sets = [0u32; 6];
        // SAFETY: the header is of version 3, which has two sets of three words, and both live through the call.
        let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }
}
