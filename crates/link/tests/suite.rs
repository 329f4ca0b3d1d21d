//! One suite for every link and every wrapper: what the trait promises, whoever keeps it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use weft_link::{
    Encapsulation, Fault, Faults, Hub, LONE_BYTES, Link, Pcap, RecvBatch, SendBatch, Shown, Trace, Udp,
    UdpOptions, wait,
};

use helpers::*;

#[path = "veth/mod.rs"]
mod veth;

/// [CDP-ENC-5] One packet is one datagram, whatever is done to send many with one call.
/// [CDP-ENC-9] The loopback carries the same bytes as a real underlay.
#[test]
fn packets_of_all_sizes_arrive_whole_in_order_and_with_their_source() {
    let packets: Vec<_> = (0..400).map(|n| packet(n, 28 + n * 37 % 1445)).collect();
    for [a, b] in links() {
        send(&*a, b.info().local, &packets);
        let source = a.info().local;
        let expected: Vec<_> = packets.iter().map(|packet| (source, as_carried(&*a, packet))).collect();
        assert!(receive(&*b, packets.len()) == expected, "{}", a.info().name);
        assert!(is_silent(&*b));
    }
}

#[test]
fn runs_of_one_size_arrive_whole() {
    let sizes = [1472, 92, 1472, 60, 257, 256];
    let packets: Vec<_> = sizes.iter().flat_map(|&len| (0..70).map(move |n| packet(n, len))).collect();
    for [a, b] in links() {
        send(&*a, b.info().local, &packets);
        let got: Vec<_> = receive(&*b, packets.len()).into_iter().map(|(_, bytes)| bytes).collect();
        assert!(got == packets, "{}", a.info().name);
    }
}

#[test]
fn a_packet_that_a_link_takes_at_once_arrives_like_any_other() {
    for [a, b] in links() {
        let sizes = [28, 29, 45, 46, 92, LONE_BYTES - 1, LONE_BYTES, LONE_BYTES + 1];
        for len in sizes {
            let packet = packet(len, len);
            let (head, body) = packet.split_at(28);
            if !a.send_lone(b.info().local, head, body) {
                send(&*a, b.info().local, std::slice::from_ref(&packet));
            }
            let expected = (a.info().local, as_carried(&*a, &packet));
            assert!(receive(&*b, 1) == [expected], "{}, {len} bytes", a.info().name);
        }
        let bytes: usize = sizes.iter().sum();
        let stats = a.stats();
        assert_eq!((stats.sent_packets, stats.sent_bytes), (sizes.len() as u64, bytes as u64));
        assert!(is_silent(&*b));
    }
}

#[test]
fn a_packet_that_was_looked_at_is_received_unless_it_was_taken() {
    for [a, b] in links() {
        let name = a.info().name;
        let packets: Vec<_> = (0..3).map(|n| packet(n, 100)).collect();
        send(&*a, b.info().local, &packets);
        let mut seen = None;
        let mut show = |is_taken: bool| {
            let begin = Instant::now();
            loop {
                let lone = b.recv_lone(1, &mut |from, bytes| {
                    seen = Some((from, bytes.to_vec()));
                    is_taken
                });
                if lone != Shown::Nothing {
                    return (lone, seen.take());
                }
                assert!(begin.elapsed() < Duration::from_secs(60), "{name}: nothing comes");
            }
        };
        let source = a.info().local;
        let first = Some((source, packets[0].clone()));
        let rest = match show(false) {
            // a link that shows nothing
            (Shown::Left, None) => &packets[..],
            told => {
                assert_eq!(told, (Shown::Left, first.clone()), "{name}");
                assert_eq!(show(false), (Shown::Left, first.clone()), "{name}: it stays");
                assert_eq!(show(true), (Shown::Taken, first), "{name}");
                &packets[1..]
            }
        };
        let expected: Vec<_> = rest.iter().map(|packet| (source, packet.clone())).collect();
        assert!(receive(&*b, rest.len()) == expected, "{name}");
        assert!(is_silent(&*b));
        let received = b.stats();
        assert_eq!((received.received_packets, received.received_bytes), (3, 300), "{name}");
    }
}

#[test]
fn both_directions_work_at_once() {
    for [a, b] in links() {
        for round in 0..20 {
            send(&*a, b.info().local, &[packet(round, 100)]);
            send(&*b, a.info().local, &[packet(round, 200)]);
            assert_eq!(receive(&*b, 1)[0].1, packet(round, 100));
            assert_eq!(receive(&*a, 1)[0].1, packet(round, 200));
        }
        assert!(is_silent(&*a) && is_silent(&*b));
    }
}

#[test]
fn the_largest_data_segment_that_a_link_tells_of_passes() {
    for [a, b] in links() {
        let largest = packet(1, 28 + usize::from(a.info().mss));
        send(&*a, b.info().local, std::slice::from_ref(&largest));
        assert!(receive(&*b, 1)[0].1 == largest, "{}", a.info().name);
    }
}

#[test]
fn more_than_the_link_can_carry_is_dropped_and_counted() {
    for [a, b] in links() {
        let over = if a.info().local.ip().is_loopback() && a.info().mtu > 2000 { 65_530 } else { 1501 };
        send(&*a, b.info().local, &[packet(0, over), packet(1, 50)]);
        assert!(receive(&*b, 1)[0].1 == packet(1, 50), "{}", a.info().name);
        assert_eq!(a.stats().dropped_oversize, 1, "{}", a.info().name);
    }
}

#[test]
fn what_is_sent_is_counted_as_received() {
    for [a, b] in links() {
        let packets: Vec<_> = (0..90).map(|n| packet(n, 500)).collect();
        send(&*a, b.info().local, &packets);
        receive(&*b, 90);
        let (sent, received) = (a.stats(), b.stats());
        assert_eq!((sent.sent_packets, sent.sent_bytes), (90, 45_000));
        assert_eq!((received.received_packets, received.received_bytes), (90, 45_000));
    }
}

#[test]
fn packets_that_are_kept_stay_what_they_were_while_others_arrive() {
    for [a, b] in links() {
        let (mut batch, mut kept) = (RecvBatch::new(), Vec::new());
        for round in 0..40 {
            let packets: Vec<_> = (0..20).map(|n| packet(round * 20 + n, 100 + n * 60)).collect();
            send(&*a, b.info().local, &packets);
            let goal = (round + 1) * 20;
            while kept.len() < goal {
                let fds = b.poll_fds();
                assert_ne!(wait(&fds, PATIENCE).unwrap(), 0);
                b.recv(&mut batch).unwrap();
                kept.extend(batch.drain().map(|packet| packet.bytes));
            }
        }
        let is_right = |(n, bytes): (usize, &BytesMut)| bytes[..] == packet(n, 100 + n % 20 * 60);
        assert!(kept.iter().enumerate().all(is_right), "{}", a.info().name);
    }
}

#[test]
fn a_link_may_be_used_by_many_threads() {
    for [a, b] in links() {
        let to = b.info().local;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let a = &a;
                scope.spawn(move || (0..50).for_each(|n| send(&**a, to, &[packet(thread * 50 + n, 64)])));
            }
            let mut got: Vec<_> = receive(&*b, 200).into_iter().map(|(_, bytes)| bytes).collect();
            let mut expected: Vec<_> = (0..200).map(|n| packet(n, 64)).collect();
            got.sort();
            expected.sort();
            assert!(got == expected, "{}", b.info().name);
        });
    }
}

#[cfg(test)]
mod helpers {
    use super::*;

    pub(super) type Pair = [Box<dyn Link>; 2];
    pub(super) const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

    pub(super) fn udp(home: &str, offloads: bool) -> Pair {
        let options = UdpOptions { gso: offloads, gro: offloads, ..UdpOptions::default() };
        [(); 2].map(|()| Box::new(Udp::bind_with(home.parse().unwrap(), &options).unwrap()) as Box<dyn Link>)
    }

    pub(super) fn loopback() -> Pair {
        let hub = Hub::new(1500);
        [(); 2].map(|()| Box::new(hub.endpoint().unwrap()) as Box<dyn Link>)
    }

    /// Two ends of a cable, where that is permitted.
    pub(super) fn packet_links() -> Option<Pair> {
        veth::pair(1500).map(|pair| pair.map(|link| Box::new(link) as Box<dyn Link>))
    }

    /// `packet` as it comes out at the other end: [CDP-ENC-3] short frames are padded.
    pub(super) fn as_carried(link: &dyn Link, packet: &[u8]) -> Vec<u8> {
        let mut bytes = packet.to_vec();
        if link.info().encapsulation == Encapsulation::Ethernet {
            bytes.resize(bytes.len().max(46), 0);
        }
        bytes
    }

    pub(super) fn wrapped(pair: Pair, wrap: impl Fn(std::sync::Arc<dyn Link>) -> Box<dyn Link>) -> Pair {
        pair.map(|link| wrap(link.into()))
    }

    pub(super) fn fault(pair: Pair) -> Pair {
        wrapped(pair, |link| Box::new(Fault::new(link, 1, Faults::NONE, Faults::NONE).unwrap()))
    }

    pub(super) fn trace(pair: Pair) -> Pair {
        wrapped(pair, |link| Box::new(Trace::new(link, std::io::sink())))
    }

    pub(super) fn pcap(pair: Pair) -> Pair {
        wrapped(pair, |link| Box::new(Pcap::new(link, std::io::sink())))
    }

    /// Every link, plain and wrapped.
    pub(super) fn links() -> Vec<Pair> {
        let plain: [fn() -> Option<Pair>; 5] = [
            || Some(loopback()),
            || Some(udp("127.0.0.1:0", true)),
            || Some(udp("[::1]:0", true)),
            || Some(udp("127.0.0.1:0", false)),
            packet_links,
        ];
        let wrappers: [fn(Pair) -> Pair; 5] =
            [|pair| pair, fault, trace, pcap, |pair| pcap(trace(fault(pair)))];
        plain.iter().flat_map(|make| wrappers.iter().filter_map(move |wrap| make().map(wrap))).collect()
    }

    /// A packet of `len` bytes that tells its number.
    pub(super) fn packet(number: usize, len: usize) -> Vec<u8> {
        (0..len).map(|at| u8::try_from((number * 7 + at) % 251).unwrap()).collect()
    }

    pub(super) fn push(batch: &mut SendBatch, to: SocketAddr, packet: &[u8]) {
        let (head, body) = packet.split_at(packet.len().min(28));
        let start = batch.heads_mut().len();
        batch.heads_mut().extend_from_slice(head);
        batch.push(to, start..start + head.len(), Bytes::copy_from_slice(body), false);
    }

    pub(super) fn send(link: &dyn Link, to: SocketAddr, packets: &[Vec<u8>]) {
        let mut batch = SendBatch::new();
        packets.iter().for_each(|packet| push(&mut batch, to, packet));
        assert_eq!(link.send(&mut batch).unwrap(), packets.len(), "{}", link.info().name);
        assert!(batch.is_empty());
    }

    pub(super) fn receive(link: &dyn Link, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
        let (mut batch, mut got) = (RecvBatch::new(), Vec::new());
        while got.len() < count {
            let name = link.info().name;
            let ready = wait(&link.poll_fds(), PATIENCE).unwrap();
            assert_ne!(ready, 0, "{name}: only {} of {count} packets", got.len());
            let told = link.recv(&mut batch).unwrap();
            assert_eq!(told, batch.len(), "{name}");
            got.extend(batch.drain().map(|packet| (packet.from, packet.bytes.to_vec())));
        }
        got
    }

    pub(super) fn is_silent(link: &dyn Link) -> bool {
        wait(&link.poll_fds(), Some(Duration::ZERO)).unwrap() == 0
            && link.recv(&mut RecvBatch::new()).unwrap() == 0
    }
}
