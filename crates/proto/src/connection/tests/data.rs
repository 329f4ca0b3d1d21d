//! Messages, streams, windows and packets.

use super::*;

/// [CDP-SVC-2] [CDP-DG-1] Messages arrive whole, once, in order, with their boundaries, the empty one too.
#[test]
fn messages_keep_their_boundaries() {
    let mut pair = Pair::of(Service::Datagram);
    let messages: Vec<Vec<u8>> = [0, 1, 500, 1_444, 1_445, 100_000, 3].map(|len| vec![7; len]).into();
    for message in &messages {
        assert_eq!(pair.client.send(message), Ok(message.len()));
    }
    pair.settle();
    for message in &messages {
        assert_eq!(&read(pair.server()), message);
    }
    assert_eq!(pair.server().recv(&mut [0]), Err(RecvError::WouldBlock));
}

/// [CDP-DG-1] Nothing goes between the parts of a message, and [CDP-ST-28] no FIN before its end.
#[test]
fn a_message_in_parts_is_one_message() {
    let mut pair = Pair::of(Service::Datagram);
    let message: Vec<u8> = (0..=250).cycle().take(100_000).collect();
    let sent = pair.client.send_first(&message, 30_000, message.len()).unwrap();
    assert!((30_000..32_000).contains(&sent));
    assert_eq!(pair.client.send(&[7]), Err(SendError::WouldBlock));
    pair.client.close(pair.now);
    pair.settle();
    assert_eq!(pair.server().state(), State::Established, "a FIN before the end of a message");
    assert!(!pair.client.is_flushed());
    assert_eq!(pair.client.send_rest(&message[sent..], usize::MAX), message.len() - sent);
    pair.settle();
    assert_eq!(read(pair.server()), message);
    assert!(pair.server().recv(&mut [0]).unwrap().end_of_file);
}

/// The rest of a message goes nowhere where the connection has ended.
#[test]
fn the_rest_of_a_message_ends_with_its_connection() {
    let mut pair = Pair::of(Service::Datagram);
    let message = vec![7; 100_000];
    let sent = pair.client.send_first(&message, 30_000, message.len()).unwrap();
    let now = pair.now;
    pair.server().close(now);
    pair.settle();
    assert!(!pair.client.is_mid_message());
    assert_eq!(pair.client.send_rest(&message[sent..], 1), message.len() - sent);
    assert_eq!(pair.client.buffered_bytes(), 0);
}

/// A message that is longer than the queue begins behind others where its sender waits for room, and waits for all of them where he does not.
#[test]
fn a_long_message_begins_where_its_first_part_has_room() {
    let config = Config { send_bytes: 50_000, ..Config::new(Service::Datagram, 1_444) };
    let mut pair = Pair::open(&config, &config);
    pair.client.send(&[7; 10_000]).unwrap();
    let message = vec![7; 100_000];
    assert_eq!(pair.client.send_first(&message, 30_000, message.len()), Err(SendError::WouldBlock));
    assert_eq!(pair.client.send_first(&message, 30_000, 45_000), Err(SendError::WouldBlock));
    let sent = pair.client.send_first(&message, 30_000, 30_000);
    assert_eq!(sent, Err(SendError::WouldBlock), "others wait for who needs the queue for himself");
    pair.settle();
    assert!(events(&mut pair.client).contains(&Event::Writable));
    pair.client.send(&[7; 10_000]).unwrap();
    assert!(pair.client.send_first(&message, 30_000, 30_000).is_ok());
}

/// Who is ahead of the end has each byte once; nobody else has any, until it is put back.
#[test]
fn a_reader_ahead_has_the_message_to_itself() {
    let config = Config { message_bytes: Some(100_000), ..Config::new(Service::Datagram, 1_444) };
    let mut pair = Pair::open(&config, &config);
    let message: Vec<u8> = (0..=250).cycle().take(100_000).collect();
    let sent = pair.client.send_first(&message, 70_000, message.len()).unwrap();
    pair.settle();
    let server = pair.server();
    assert!(server.is_rest_readable() && !server.is_readable() && server.bytes_ahead() == sent);
    let mut got = Vec::new();
    let mut take = |part: &[u8]| {
        got.extend_from_slice(part);
        got.len() < 50_000
    };
    // what is not taken is shown again
    let taken = server.read_ahead(0, &mut take);
    assert!((48_000..50_000).contains(&taken) && got.len() > taken as usize);
    got.truncate(taken as usize);
    assert_eq!(server.read_ahead(0, |_| true), 0, "another reader has it");
    let more = server.read_ahead(taken, |part| {
        got.extend_from_slice(part);
        true
    });
    assert_eq!((taken + more) as usize, sent);
    assert!(server.is_read_ahead() && !server.is_rest_readable() && server.bytes_ahead() == 0);
    assert!(got == message[..sent]);
    server.put_back(&got);
    assert!(!server.is_read_ahead() && server.bytes_ahead() == sent);
    assert_eq!(server.read_ahead(0, |_| true) as usize, sent);
    pair.client.send_rest(&message[sent..], usize::MAX);
    pair.client.send(&[1, 2, 3]).unwrap();
    pair.settle();
    let server = pair.server();
    assert!(server.is_rest_readable() && !server.is_readable());
    assert_eq!(server.recv(&mut [0; 9]), Err(RecvError::WouldBlock));
    let rest = server.recv_rest(u32::try_from(sent).unwrap().try_into().unwrap()).unwrap().unwrap();
    assert!(rest.into_bytes() == message[sent..]);
    assert!(server.is_readable() && !server.is_read_ahead());
    assert_eq!(read(server), [1, 2, 3]);
    assert_eq!(server.stats(Instant::ZERO).messages_received, 2);
}

/// [CDP-DG-10] A message whose end does not come is nobody's, though a reader has its beginning; its packets are counted.
#[test]
fn the_end_follows_what_a_reader_has_of_a_message_without_end() {
    let mut pair = Pair::of(Service::Datagram);
    let message = vec![7; 100_000];
    pair.client.send_first(&message, 70_000, message.len()).unwrap();
    pair.settle();
    let ahead = pair.server().read_ahead(0, |_| true);
    assert!(ahead > 0);
    pair.client.abort(pair.now);
    pair.settle();
    let server = pair.server();
    let packets = server.stats(Instant::ZERO).packets_received;
    assert!(
        packets > 48 && server.close_result().is_some_and(|result| u64::from(result.discarded) > packets - 5)
    );
    assert!(server.is_readable(), "the reader that is ahead, and any other, learns that there is no end");
    assert!(matches!(server.recv_rest(ahead.try_into().unwrap()), Err(RecvError::Failed(_))));
    server.put_back(&message[..ahead as usize]);
    assert!(matches!(server.recv(&mut [0]), Err(RecvError::Failed(_))));
}

/// [CDP-STR-1] A stream is its bytes in order, both ways at once.
#[test]
fn a_stream_is_bytes_both_ways() {
    let mut pair = Pair::of(Service::Stream);
    let data: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    let (mut sent, mut got, mut echoed) = (0, Vec::new(), Vec::new());
    let mut buffer = vec![0; 60_000];
    while echoed.len() < data.len() {
        if let Ok(len) = pair.client.send(&data[sent..]) {
            sent += len;
        }
        pair.settle();
        while let Ok(received) = pair.server().recv(&mut buffer) {
            got.extend_from_slice(&buffer[..received.len]);
        }
        if let Ok(len) = pair.server().send(&got) {
            got.drain(..len);
        }
        pair.settle();
        while let Ok(received) = pair.client.recv(&mut buffer) {
            echoed.extend_from_slice(&buffer[..received.len]);
        }
        pair.run(MS, false);
    }
    assert!(echoed == data);
    assert_eq!(pair.client.stats(pair.now).retransmitted, 0);
}

/// What is too little waits for more; what is enough leaves whole, and not only until too little of it is left.
#[test]
fn a_cork_holds_back_what_is_too_little() {
    let mut pair = Pair::of(Service::Stream);
    for (bytes, waiting, packets) in [(4_000, 4_000, 0), (1_000, 5_000, 4), (1_000, 1_000, 0)] {
        pair.client.send(&vec![7; bytes]).unwrap();
        assert_eq!(pair.client.waiting().0, waiting);
        pair.client.cork(4_500);
        assert_eq!(outputs(&mut pair.client, pair.now).len(), packets, "{waiting} bytes wait");
    }
    pair.client.cork(0);
    assert_eq!(outputs(&mut pair.client, pair.now).len(), 1);
}

/// Pages of large packets are kept for what may come soon, and not for ever.
#[test]
fn pages_are_given_back_after_a_long_rest() {
    let config = Config::new(Service::Stream, 65_479);
    let mut pair = Pair::open(&config, &config);
    for _ in 0..4 {
        pair.client.send(&[7; 200_000]).unwrap();
        pair.server().send(&[7; 200_000]).unwrap();
        pair.settle();
        assert_eq!((read(&mut pair.client).len(), read(pair.server()).len()), (200_000, 200_000));
        pair.run(Duration::from_secs(1), false);
    }
    let kept =
        |pair: &Pair| [&pair.client, pair.server.as_ref().unwrap()].map(|end| end.sender.queue.pages());
    assert_eq!(kept(&pair), [4, 4]);
    pair.run(Duration::from_secs(400), false);
    assert_eq!(kept(&pair), [0, 0]);
}

/// [CDP-SEAL-3] [CDP-SEQ-9] A damaged packet is not current and changes nothing.
#[test]
fn a_damaged_packet_changes_nothing() {
    let mut pair = Pair::of(Service::Datagram);
    pair.client.send(b"payload").unwrap();
    pair.collect();
    let sound = pair.to_server.remove(0);
    for at in 28..sound.bytes().len() {
        let mut bytes = sound.bytes().to_vec();
        bytes[at] ^= 0x10;
        let now = pair.now;
        pair.server().handle_packet(now, parse(bytes));
    }
    assert_eq!(pair.server().recv(&mut [0; 9]), Err(RecvError::WouldBlock));
    let now = pair.now;
    assert_eq!(pair.server().stats(now).not_current, 7);
    pair.server().handle_packet(now, sound);
    assert_eq!(read(pair.server()), b"payload");
}

/// [CDP-WND-6] [CDP-WND-9] [CDP-WND-10] [CDP-WND-11] A reader that does not read stops the sender, which probes by PIN.
#[test]
fn a_closed_window_is_probed_and_opens_again() {
    let client = Config::new(Service::Datagram, 1_444);
    let server = Config { receive_slots: 4, coalesce: false, ..client };
    let mut pair = Pair::open(&client, &server);
    for i in 0..9 {
        pair.client.send(&[i; 1_000]).unwrap();
    }
    pair.run(Duration::from_secs(120), false);
    assert_eq!(pair.client.state(), State::Established, "answered probes are no reason to give up");
    assert!(pair.client.stats(pair.now).pins_sent > 20);
    for i in 0..4 {
        assert_eq!(read(pair.server()), vec![i; 1_000]);
    }
    assert_eq!(pair.server().recv(&mut [0]), Err(RecvError::WouldBlock), "no more than four slots");
    // [CDP-WND-8] the update comes by itself
    pair.settle();
    for i in 4..8 {
        assert_eq!(read(pair.server()), vec![i; 1_000]);
    }
    pair.settle();
    assert_eq!(read(pair.server()), vec![8; 1_000]);
}

/// [CDP-MTU-2] [CDP-MTU-3] A larger packet is used once a padded PIN of its size has been answered.
#[test]
fn a_larger_packet_is_proved_first() {
    let config = Config { message_bytes: None, ..Config::new(Service::Datagram, 8_944) };
    let mut pair = Pair::open(&config, &config);
    let stats = pair.client.stats(pair.now);
    assert!(stats.pins_sent > 0, "at once, as no message may be larger");
    assert_eq!(stats.packets_sent, 1 + stats.acks_sent + stats.pins_sent, "a SYN, and each probe counts");
    pair.run(Duration::from_secs(1), false);
    assert_eq!(pair.client.path_stats().mss, 8_944);
    assert_eq!(pair.client.message_limit(), 8_944);
}

/// [CDP-MTU-2] What a connection says at its beginning is not held up by probes, unless it is so much that larger packets would be fewer.
#[test]
fn a_larger_packet_is_looked_for_when_it_spares_some_or_a_little_later() {
    for service in [Service::Stream, Service::Datagram] {
        let config = Config::new(service, 8_944);
        let found = |pair: &mut Pair| {
            let now = pair.now;
            let of = |end: &mut Connection| (end.stats(now).pins_sent, end.path_stats().mss);
            [of(&mut pair.client), of(pair.server())]
        };
        let mut pair = Pair::open(&config, &config);
        for _ in 0..4 {
            pair.client.send(&[7; 20_000]).unwrap();
            pair.settle();
            read(pair.server());
            assert_eq!(found(&mut pair), [(0, 1_424); 2], "{service:?}");
            pair.run(MS * 2, false);
        }
        pair.run(MS * 10, false);
        assert_eq!(found(&mut pair), [(1, 8_944); 2], "{service:?}");

        let mut pair = Pair::open(&config, &config);
        (0..3).for_each(|_| _ = pair.client.send(&[7; 60_000]).unwrap());
        pair.settle();
        assert_eq!(found(&mut pair), [(1, 8_944), (0, 1_424)], "{service:?}: who sends looks for it");
    }
}

/// [CDP-MTU-2] On one link packets are large from the first on, and there are no probes.
#[test]
fn on_one_link_packets_are_large_at_once() {
    let config = Config { is_one_link: true, ..Config::new(Service::Datagram, 60_000) };
    let mut pair = Pair::new(&config, &config);
    pair.listener.set_peer_window(Some(Config { receive_slots: 100, ..config }.window()));
    pair.settle();
    pair.client.send(&[7; 50_000]).unwrap();
    pair.server().send(&[8; 50_000]).unwrap();
    let of_client = outputs(&mut pair.client, pair.now);
    assert_eq!(of_client.iter().map(Packet::payload_len).collect::<Vec<_>>(), [50_000]);
    assert_eq!(pair.server().path_stats().mss, 60_000);
    pair.to_server = of_client;
    pair.run(Duration::from_secs(1), false);
    assert_eq!((read(pair.server()), read(&mut pair.client)), (vec![7; 50_000], vec![8; 50_000]));
    let now = pair.now;
    assert_eq!(pair.client.stats(now).pins_sent + pair.server().stats(now).pins_sent, 0);
}

/// Within a host no more is in flight than stays in the processor's caches, nor than a share of what there is room for.
#[test]
fn so_many_large_packets_go_at_once_within_a_host() {
    let at_once = |mss, way: Duration, (connections, room)| {
        let config = Config { pacing: false, ..Config::new(Service::Stream, mss) };
        let mut pair = Pair::new(&config, &config);
        for round in 0..20 {
            if round == 8 {
                // enough to look for larger packets
                pair.client.send(&[7; 200_000]).unwrap();
            }
            pair.collect();
            pair.now += way;
            std::mem::take(&mut pair.to_server).into_iter().for_each(|packet| pair.deliver_to_server(packet));
            for packet in std::mem::take(&mut pair.to_client) {
                pair.client.handle_packet(pair.now, packet);
            }
        }
        assert_eq!(pair.client.path_stats().mss, mss);
        pair.client.share_near(connections, room, connections);
        pair.client.send(&vec![7; 3_000_000]).unwrap();
        pair.collect();
        pair.to_server.len()
    };
    for (connections, room, packets) in
        [(1, 4, 8), (2, 100, 8), (4, 24, 6), (5, 24, 4), (40, 24, 2), (2, 0, 2)]
    {
        let share = (connections, room);
        assert_eq!(at_once(60_000, MS / 20, share), packets, "of {connections} with room for {room}");
    }
    assert!(at_once(60_000, MS / 5, (9, 9)) > 30, "it takes too long to be within a host");
    assert!(at_once(20_000, MS / 20, (9, 9)) > 30);
}

/// A sender whose window is full may leave its acknowledgements alone for as long as its packets queue.
#[test]
fn packets_queue_on_a_path_that_takes_longer_than_it_did() {
    let client = Config::new(Service::Stream, 1_444);
    // the open takes no time
    let mut pair = Pair::open(&client, &Config { receive_slots: 64, ..client });
    let mut queueing_ms = |bytes: usize, way: Duration| {
        for _ in 0..40 {
            let _ = pair.client.send(&vec![7; bytes]);
            pair.collect();
            pair.now += way;
            std::mem::take(&mut pair.to_server).into_iter().for_each(|packet| pair.deliver_to_server(packet));
            let _ = pair.server().recv(&mut vec![0; 1 << 20]);
            pair.collect();
            for packet in std::mem::take(&mut pair.to_client) {
                pair.client.handle_packet(pair.now, packet);
            }
        }
        let _ = pair.client.send(&vec![7; bytes]);
        pair.collect();
        pair.client.queueing().as_micros().div_ceil(1_000)
    };
    assert_eq!(queueing_ms(1, MS), 0, "nothing waits for a window");
    assert_eq!(queueing_ms(400_000, MS), 1);
    assert_eq!(queueing_ms(400_000, 5 * MS), 5);
}

#[test]
fn small_packets_are_not_held_back_within_a_host() {
    let config = Config { pacing: false, coalesce: false, ..Config::new(Service::Datagram, 60_000) };
    let mut pair = Pair::open(&config, &config);
    (0..10).for_each(|_| assert_eq!(pair.client.send(&[7; 10_000]), Ok(10_000)));
    pair.run(MS * 50, false);
    assert_eq!(pair.client.path_stats().mss, 60_000);
    (0..20).for_each(|byte| assert_eq!(pair.client.send(&[byte; 64]), Ok(64)));
    pair.collect();
    assert_eq!(pair.to_server.len(), 20);
}

/// [CDP-WND-2] A slot is promised once: to a packet that is held, or to a part of a message.
#[test]
fn parts_and_what_is_held_share_the_slots_of_the_window() {
    let client = Config { coalesce: false, ..Config::new(Service::Datagram, 1_000) };
    let server = Config { receive_slots: 8, ..client };
    let mut pair = Pair::open(&client, &server);
    pair.client.send(&[1; 14_000]).unwrap();
    pair.collect();
    assert_eq!(pair.to_server.len(), 8);
    for packet in std::mem::take(&mut pair.to_server) {
        pair.deliver_to_server(packet);
    }
    assert_eq!(pair.server().bytes_beyond_window(), 0);
    pair.collect();
    for packet in std::mem::take(&mut pair.to_client) {
        pair.client.handle_packet(pair.now, packet);
    }
    pair.collect();
    // the first of the next parts is lost, the others are held
    assert_eq!(pair.to_server.len(), 6);
    for packet in std::mem::take(&mut pair.to_server).drain(1..) {
        pair.deliver_to_server(packet);
    }
    assert_eq!(pair.server().bytes_beyond_window(), 5_000);
}

/// [CDP-DG-6] A message above the limit is refused and nothing is sent.
#[test]
fn a_message_above_the_limit_is_refused() {
    let client = Config::new(Service::Datagram, 1_444);
    let server = Config { message_bytes: Some(5_000), ..client };
    let mut pair = Pair::open(&client, &server);
    assert_eq!(pair.client.send(&[0; 5_001]), Err(SendError::TooBig(5_000)));
    assert_eq!(pair.client.send(&[0; 5_000]), Ok(5_000));
    pair.settle();
    assert_eq!(read(pair.server()).len(), 5_000);
}

/// [CDP-LIM-8] What is in flight counts against the send queue; a refused message raises `Writable` when it fits.
#[test]
fn a_refused_message_is_called_for_when_it_fits() {
    let server = Config::new(Service::Datagram, 1_444);
    let mut pair = Pair::open(&Config { send_bytes: 10_000, ..server.clone() }, &server);
    let now = pair.now;
    events(&mut pair.client);
    pair.client.send(&[1; 4_000]).unwrap();
    pair.to_server = outputs(&mut pair.client, now);
    assert_eq!(pair.client.send(&[2; 7_000]), Err(SendError::WouldBlock), "the first is in flight");
    assert!(!pair.client.is_writable());
    assert_eq!(events(&mut pair.client), [], "and does not fit beside it yet");
    pair.settle();
    pair.run(MS, false);
    assert_eq!(events(&mut pair.client), [Event::Writable]);
    assert_eq!(pair.client.send(&[2; 7_000]), Ok(7_000));
    assert_eq!(pair.client.send(&[3; 20_000]), Err(SendError::WouldBlock), "longer than the queue: alone");
    pair.settle();
    pair.run(MS, false);
    assert_eq!(pair.client.send(&[3; 20_000]), Ok(20_000));
}

/// A thread that sends short messages does not keep another from sending one that is longer than the queue.
#[test]
fn a_message_longer_than_the_queue_has_its_turn() {
    let server = Config::new(Service::Datagram, 1_444);
    let mut pair = Pair::open(&Config { send_bytes: 10_000, ..server.clone() }, &server);
    events(&mut pair.client);
    pair.client.send(&[1; 1_000]).unwrap();
    assert_eq!(pair.client.send(&[2; 20_000]), Err(SendError::WouldBlock));
    assert_eq!(pair.client.send(&[1; 1_000]), Err(SendError::WouldBlock), "there would be room");
    assert_eq!(events(&mut pair.client), []);
    pair.settle();
    pair.run(MS, false);
    assert_eq!(events(&mut pair.client), [Event::Writable], "for the longer one");
    assert_eq!(pair.client.send(&[2; 20_000]), Ok(20_000));
}

/// [CDP-LIM-8] Messages in a packet that is still being filled count against the send queue.
#[test]
fn an_open_packet_counts_against_the_send_queue() {
    let server = Config::new(Service::Datagram, 1_444);
    let mut pair = Pair::open(&Config { send_bytes: 500, ..server.clone() }, &server);
    let taken = (0..1_000).take_while(|_| pair.client.send(&[1; 10]).is_ok()).count();
    assert!((40..=50).contains(&taken), "{taken} messages of 10 bytes in a queue of 500");
}
