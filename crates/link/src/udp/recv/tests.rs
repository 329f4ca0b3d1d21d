//! The second socket, as the link uses it on the loopback interface.

use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::*;
use crate::{Interest, Link, SendBatch, UdpOptions, wait, wait_for};

fn send(from: &Udp, to: SocketAddr) {
    let mut batch = SendBatch::new();
    batch.push_slice(to, b"packet");
    from.send(&mut batch).unwrap();
}

/// Waits until something can be read, and takes it. Returns how many packets that were.
fn receive(at: &Udp, batch: &mut RecvBatch) -> usize {
    while batch.is_empty() {
        let fds = at.poll_fds();
        wait(&fds, None).unwrap();
        at.recv(batch).unwrap();
    }
    batch.drain().count()
}

/// Two links, each of which has a socket of its own for the other.
fn partners() -> (Udp, Udp) {
    let bind = || Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let (here, there) = (bind(), bind());
    let (mut at_here, mut at_there) = (RecvBatch::new(), RecvBatch::new());
    while here.direct.mode() != Mode::On {
        send(&here, there.local);
        receive(&there, &mut at_there);
        send(&there, here.local);
        receive(&here, &mut at_here);
    }
    (here, there)
}

#[test]
fn who_may_look_often_receives_what_comes_after_the_first_look() {
    let (here, there) = partners();
    let mut batch = RecvBatch::new();
    assert_eq!(here.recv(&mut batch).unwrap(), 0);
    batch.set_looks(u32::MAX);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            send(&there, here.local);
        });
        assert_eq!(here.recv(&mut batch).unwrap(), 1);
    });
}

#[test]
fn what_comes_to_the_second_socket_after_its_end_is_received_and_wakes_nobody_for_ever() {
    let (here, there) = partners();
    let mut at_here = RecvBatch::new();
    // As if the kernel had delivered it a moment after the socket was found empty.
    send(&there, here.local);
    let second = here.direct.fd().unwrap();
    wait(&[second], None).unwrap();
    here.direct.end(here.local);
    here.direct.set_mode(Mode::Off);
    assert_eq!(here.direct.mode(), Mode::Off);
    let came: usize = (0..100).map(|_| here.recv(&mut at_here).unwrap()).sum();
    assert_eq!(came, 1);
    assert_eq!(wait(&[second], Some(std::time::Duration::ZERO)).unwrap(), 0);
}

/// Messages of several packets that go to and fro come by a second socket as well, joined; those of one by one that does not join.
#[test]
fn who_sends_several_packets_at_a_time_has_a_socket_for_which_they_are_joined() {
    let bind = || Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let (here, there) = (bind(), bind());
    if !(here.info().gro && there.info().gso) {
        return weft_skip::skipped!("this kernel has no UDP_SEGMENT or UDP_GRO, so packets come one by one");
    }
    let (mut at_here, mut at_there, mut batch) = (RecvBatch::new(), RecvBatch::new(), SendBatch::new());
    let mut talk = |count: usize| {
        // who waits finds nothing there at first
        assert_eq!(here.recv(&mut at_here).unwrap(), 0);
        let message: Vec<u8> = (0..=250).cycle().take(count * 1_000 - 1).collect();
        message.chunks(1_000).for_each(|packet| batch.push_slice(here.local, packet));
        there.send(&mut batch).unwrap();
        batch.clear();
        while at_here.bytes() < message.len() {
            wait(&here.poll_fds(), None).unwrap();
            here.recv(&mut at_here).unwrap();
        }
        let pieces = at_here.pieces();
        let came: Vec<u8> = at_here.drain().flat_map(|packet| packet.bytes.to_vec()).collect();
        assert!(came == message, "{} bytes of {}", came.len(), message.len());
        send(&here, there.local);
        receive(&there, &mut at_there);
        (here.direct.mode(), here.direct.joins(), pieces)
    };
    // a socket that joins, which is left when nothing was joined for long, for one that does not, and the other way round
    for (count, joins) in [(3, true), (1, false), (20, true)] {
        let until = std::time::Instant::now() + Duration::from_secs(20);
        while talk(count) != (Mode::On, joins, 1) {
            assert!(std::time::Instant::now() < until, "messages of {count} packets: {:?}", talk(count));
        }
        for round in 0..100 {
            assert_eq!(talk(count), (Mode::On, joins, 1), "messages of {count} packets, {round} later");
        }
        // a longer one, and one of one packet, are received all the same
        talk(30);
        talk(1);
    }
}

/// A packet that tells its number. Sizes are such as are copied out, such as go on in a run, and such as end one.
fn numbered(number: u32) -> Vec<u8> {
    let size = [4, 640, 1_472, 1_472, 1_472, 1_000, 1_472][number as usize / 5 % 7];
    number.to_be_bytes().into_iter().cycle().take(size).collect()
}

/// Numbered packets that nothing joins arrive once and in order, through both sockets, beside those of another peer.
#[test]
fn a_flood_keeps_its_order_through_every_change_of_socket_and_others_are_heard() {
    let options = UdpOptions { gso: false, ..UdpOptions::default() };
    let bind = || Udp::bind_with("127.0.0.1:0".parse().unwrap(), &options).unwrap();
    let (here, peer, other) = (bind(), bind(), bind());
    let (mut batch, mut packets) = (SendBatch::new(), RecvBatch::new());
    let (mut next, mut others, mut modes) = (0_u32, 0, Vec::new());
    for number in 0..100_000_u32 {
        batch.push_slice(here.local, &numbered(number));
        if number % 16 != 15 {
            continue;
        }
        peer.send(&mut batch).unwrap();
        if number % 1_600 == 15 {
            send(&other, here.local);
        }
        while here.recv(&mut packets).unwrap() > 0 {}
        for packet in packets.drain() {
            if packet.from == peer.local {
                assert_eq!(packet.bytes[..], numbered(next)[..]);
                next += 1;
            } else {
                others += 1;
            }
        }
        if modes.last() != Some(&here.direct.mode()) {
            modes.push(here.direct.mode());
        }
    }
    while others < 63 {
        others += receive(&here, &mut packets);
    }
    assert_eq!(next, 100_000);
    let expected = [Mode::Off, Mode::Flood, Mode::Ending, Mode::Off, Mode::Flood];
    assert!(modes.starts_with(&expected), "{modes:?}");
}

/// A large packet that tells its number, or a shorter or longer one now and then.
fn large(number: u32) -> Vec<u8> {
    let len = match number % 50 {
        10 => 700,
        20 => 25_000,
        30 => 60_000,
        40 => 20,
        _ => 40_000,
    };
    number.to_be_bytes().into_iter().cycle().take(len).collect()
}

/// Data of large packets goes where its reader wants it, unless he does not, or it is of another length: then it comes as it always does.
/// Nothing is lost, and nothing overtakes.
#[test]
fn large_packets_of_a_flood_are_placed() {
    let options = UdpOptions { gso: false, ..UdpOptions::default() };
    let bind = || Udp::bind_with("127.0.0.1:0".parse().unwrap(), &options).unwrap();
    let (here, peer) = (bind(), bind());
    let (mut batch, mut packets) = (SendBatch::new(), RecvBatch::new());
    // room for two, where a call needs a part for the head of each, and for all that come
    let mut places = [vec![0; 100_000], vec![0; 300_000]];
    let (mut next, mut placed, mut refused, mut cut) = (0_u32, 0, 0, [0, 0]);
    for number in 0..20_000_u32 {
        batch.push_slice(here.local, &large(number));
        if number % 3 != 2 {
            continue;
        }
        peer.send(&mut batch).unwrap();
        let which = usize::from(number % 2 == 0);
        let place = &mut places[which];
        let mut recv = |packets: &mut RecvBatch, place: &mut [u8]| {
            packets.set_budget(64);
            let count = here.recv_to(packets, place).unwrap();
            cut[which] += u32::from(packets.is_cut());
            count
        };
        while recv(&mut packets, place) > 0 {
            let mut room = place.len();
            packets.settle_placed(place, |packet, data| {
                assert_eq!(packet.from, peer.local);
                let len = data.len();
                room = room.checked_sub(len).expect("no more than there is room for");
                if next % 999 == 0 {
                    refused += 1;
                    return None;
                }
                assert!([&packet.head, data].concat() == large(next), "{next}");
                (next, placed) = (next + 1, placed + 1);
                Some(len)
            });
            for packet in packets.drain() {
                assert!(packet.bytes[..] == large(next), "{next}");
                next += 1;
            }
        }
    }
    assert_eq!(next, 19_998);
    assert!(placed > 10_000 && refused > 0, "{placed} placed, {refused} refused");
    assert!(here.stats().received_placed > placed);
    // those of another length end a turn as well
    assert!(cut[0] > 2 * cut[1], "{cut:?}");
}

/// One peer after the other has the second socket, until addresses are not asked for any more, and then the next.
#[test]
fn packets_keep_their_sender_while_peers_take_turns_with_the_second_socket() {
    let bind = || Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let (here, peers) = (bind(), [bind(), bind()]);
    let (mut at_here, mut at_peer) = (RecvBatch::new(), RecvBatch::new());
    for peer in [&peers[0], &peers[1], &peers[0]] {
        let mut rounds = 0;
        while at_here.origin.known(here.direct.connecting()) != Some(peer.local) {
            send(peer, here.local);
            while at_here.is_empty() {
                here.recv(&mut at_here).unwrap();
            }
            let from: Vec<_> = at_here.drain().map(|packet| packet.from).collect();
            assert_eq!(from, [peer.local], "in round {rounds}");
            send(&here, peer.local);
            receive(peer, &mut at_peer);
            // A ping-pong has pauses.
            assert_eq!(here.recv(&mut at_here).unwrap(), 0);
            rounds += 1;
            assert!(rounds < 100_000, "it never gets there");
        }
    }
}

/// "Destination unreachable" with `code`, about a UDP packet that `from` is said to have sent.
fn unreachable(code: u8, from: u16) -> Vec<u8> {
    let [high, low] = from.to_be_bytes();
    let mut about = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 2];
    about.extend([high, low, 0x27, 0x0F, 0, 8, 0, 0]);
    let sum_up = |bytes: &[u8]| -> u16 {
        let sum: u32 = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        !u16::try_from((sum & 0xFFFF) + (sum >> 16)).unwrap_or_default()
    };
    let sum = sum_up(&about[..20]).to_be_bytes();
    about[10..12].copy_from_slice(&sum);
    let mut message = vec![3, code, 0, 0, 0, 0, 0, 0];
    message.extend(about);
    let sum = sum_up(&message).to_be_bytes();
    message[2..4].copy_from_slice(&sum);
    message
}

/// Whatever ICMP says of a packet is read and dropped: a leader that sleeps on the descriptor would not sleep otherwise.
#[test]
fn no_code_of_icmp_leaves_the_descriptor_ready() {
    let raw = match Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)) {
        Ok(raw) => raw,
        Err(error) => return weft_skip::skipped!("raw sockets are not permitted ({error}); run as root"),
    };
    let host: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let link = Udp::bind(host).unwrap();
    let fd = link.fd();
    let is_ready = |limit: Duration| wait_for(&mut [Interest::readable(fd)], Some(limit)).unwrap() == 1;
    let mut batch = RecvBatch::new();
    let mut told = 0;
    for code in 0..=15 {
        raw.send_to(&unreachable(code, link.local.port()), &host.into()).unwrap();
        told += u32::from(is_ready(Duration::from_millis(200)));
        for _ in 0..2 {
            assert_eq!(link.recv(&mut batch).unwrap(), 0, "code {code}");
        }
        assert!(!is_ready(Duration::ZERO), "code {code} is not read");
    }
    assert!(told >= 5, "the kernel told of {told} of 16 codes");
}
