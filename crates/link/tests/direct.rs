//! The socket of its own that a peer gets with whom single messages go to and fro.

mod ends;

use weft_frame::Pages;
use weft_link::{Link, RecvBatch, SendBatch, Udp, UdpOptions};

use ends::{End, packets, ping_pong};

const HOMES: [&str; 4] = ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:0"];

#[test]
fn a_ping_pong_earns_a_socket_of_its_own_at_either_end_and_nothing_else_does() {
    for home in HOMES {
        let (mut here, mut there) = (End::new(home), End::new(home));
        let to = there.address(&here);
        for _ in 0..100 {
            here.send(to, &packets(4, 700));
            there.receive(4);
        }
        assert_eq!(there.link.poll_fds().len(), 1, "{home}");
        assert!(!there.batch.take_new_fds(), "{home}");
        ping_pong(&mut here, &mut there, 200);
        assert!(there.batch.take_new_fds(), "{home}");
        assert!(here.link.poll_fds().len() == 2 && there.link.poll_fds().len() == 2, "{home}");
    }
}

#[test]
fn a_run_of_packets_after_a_ping_pong_arrives_whole_and_in_order_and_so_again() {
    let (mut here, mut there) = (End::new(HOMES[0]), End::new(HOMES[0]));
    let run = packets(300, 1200);
    for _ in 0..5 {
        ping_pong(&mut here, &mut there, 100);
        let (to, from) = (there.address(&here), here.address(&there));
        here.send(to, &run);
        let got = there.receive(run.len());
        assert!(got.iter().map(|(_, bytes)| bytes).eq(&run));
        assert!(got.iter().all(|(source, _)| *source == from));
        there.send(from, &packets(1, 10));
        here.receive(1);
    }
}

#[test]
fn others_are_heard_while_one_peer_has_its_own_socket() {
    let (mut here, mut there, other) = (End::new(HOMES[2]), End::new(HOMES[0]), End::new(HOMES[0]));
    ping_pong(&mut here, &mut there, 100);
    let to = here.address(&other);
    for round in 0..100 {
        other.send(to, &packets(1, 100 + round));
        assert_eq!(here.receive(1), [(other.link.info().local, vec![0; 100 + round])]);
    }
    ping_pong(&mut here, &mut there, 100);
}

#[test]
fn large_and_small_packets_go_by_it() {
    let (mut here, mut there) = (End::new(HOMES[0]), End::new(HOMES[0]));
    ping_pong(&mut here, &mut there, 100);
    let (to, from) = (there.address(&here), here.address(&there));
    for len in [0, 1, 28, 255, 256, 257, 1472] {
        here.send(to, &packets(1, len));
        assert_eq!(there.receive(1), [(from, vec![0; len])]);
        there.send(from, &packets(1, len));
        assert_eq!(here.receive(1), [(to, vec![0; len])]);
    }
}

#[test]
fn large_packets_in_pages_of_their_own_are_copied_or_left_there_for_who_receives_them() {
    for home in &HOMES[..2] {
        let (mut here, mut there) = (End::new(home), End::new(home));
        ping_pong(&mut here, &mut there, 100);
        let (to, from) = (there.address(&here), here.address(&there));
        let mut buffer = Pages::default().buffer(65_507);
        let (mut sent, mut large) = (0, 0);
        // a round of either way: 256 packets each
        while large < 512 {
            let (byte, len) = (u8::try_from(sent % 256).unwrap(), 20_000 + sent % 100 * 459);
            assert!(buffer.try_clear(), "the link holds no handle");
            buffer.put(&vec![byte; len]);
            buffer.freeze(len);
            here.look();
            there.look();
            let mut batch = SendBatch::new();
            batch.push_frames(to, &buffer.frames(0..len), 1, false);
            assert_eq!(here.link.send(&mut batch).unwrap(), 1);
            assert_eq!(there.receive(1), [(from, vec![byte; len])]);
            there.send(from, &packets(1, 10));
            here.receive(1);
            (sent, large) = (sent + 1, large + usize::from(len >= 32 << 10));
        }
        let stats = here.link.stats();
        assert_eq!(stats.sent_packets, 100 + sent as u64, "{home}");
        if stats.sent_in_place == 0 {
            weft_skip::skipped!("this kernel takes no packets from where they lie, which needs Linux 6.5");
        } else {
            assert_eq!(stats.sent_in_place, 256, "{home}");
        }
    }
}

#[test]
fn groups_in_pages_of_their_own_arrive_packet_by_packet_whichever_way_they_go() {
    let (mut here, mut there) = (End::new(HOMES[0]), End::new(HOMES[0]));
    ping_pong(&mut here, &mut there, 100);
    let (to, from) = (there.address(&here), here.address(&there));
    let mut buffer = Pages::default().buffer(44 * 1_472);
    // a round of either way: 256 groups each
    for round in 0..512_usize {
        assert!(buffer.try_clear(), "the link holds no handle");
        let sent: Vec<_> = (0..44)
            .map(|packet| (from, vec![u8::try_from((round + packet) % 256).unwrap(); 1_472]))
            .collect();
        sent.iter().for_each(|(_, packet)| buffer.put(packet));
        buffer.freeze(buffer.len());
        here.look();
        let mut batch = SendBatch::new();
        batch.push_frames(to, &buffer.frames(0..buffer.len()), 44, false);
        assert_eq!(here.link.send(&mut batch).unwrap(), 44);
        assert_eq!(there.receive(44), sent);
        there.send(from, &packets(1, 10));
        here.receive(1);
    }
    match here.link.stats().sent_in_place {
        0 => weft_skip::skipped!("this kernel takes no groups from where they lie, which needs Linux 6.5"),
        packets => assert_eq!(packets, 256 * 44),
    }
}

/// Who sends much to one peer, whose answers come in no rhythm: by one, and by two that are joined.
#[test]
fn what_could_leave_from_where_it_lies_earns_a_socket_however_answers_come() {
    for (in_pages, home) in [(true, HOMES[0]), (true, HOMES[1]), (false, HOMES[0])] {
        let (mut here, mut there) = (End::new(home), End::new(home));
        let (to, from) = (there.address(&here), here.address(&there));
        let mut buffer = Pages::default().buffer(40_000);
        let answers = [packets(1, 40), packets(2, 60)].concat();
        // 256 that wish for it, and a round of either way
        for sent in 0..1_000 {
            let byte = u8::try_from(sent % 256).unwrap();
            assert!(buffer.try_clear(), "the link holds no handle");
            buffer.put(&vec![byte; 40_000]);
            buffer.freeze(buffer.len());
            if in_pages {
                let mut batch = SendBatch::new();
                batch.push_frames(to, &buffer.frames(0..buffer.len()), 1, false);
                assert_eq!(here.link.send(&mut batch).unwrap(), 1);
            } else {
                here.send(to, &[vec![byte; 40_000]]);
            }
            assert_eq!(there.receive(1), [(from, vec![byte; 40_000])]);
            there.send(from, &answers);
            let got = here.receive(3);
            assert!(got.iter().all(|(source, _)| *source == to));
            assert!(got.iter().map(|(_, bytes)| bytes).eq(&answers), "in order, packet {sent}");
        }
        assert_eq!(here.link.poll_fds().len(), if in_pages { 2 } else { 1 }, "{home}");
        match here.link.stats().sent_in_place {
            0 if in_pages => {
                weft_skip::skipped!(
                    "this kernel takes no packets from where they lie, which needs Linux 6.5"
                );
            }
            packets => assert_eq!(packets, if in_pages { 256 } else { 0 }, "{home}"),
        }
    }
}

#[test]
fn the_port_stays_its_owners() {
    let (mut here, mut there) = (End::new(HOMES[0]), End::new(HOMES[0]));
    ping_pong(&mut here, &mut there, 100);
    let taken = Udp::bind(here.link.info().local).unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
}

#[test]
fn it_can_be_declined() {
    let plain = UdpOptions { direct: false, ..UdpOptions::default() };
    let link = Udp::bind_with(HOMES[0].parse().unwrap(), &plain).unwrap();
    let (mut here, mut there) = (End { link, batch: RecvBatch::new() }, End::new(HOMES[0]));
    ping_pong(&mut here, &mut there, 100);
    assert_eq!(here.link.poll_fds().len(), 1);
}
