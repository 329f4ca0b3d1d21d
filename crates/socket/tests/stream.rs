//! The stream service between two nodes: every byte, in order, once.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::thread;

use common::{PATIENCE, Pair, pattern, read_exactly};
use weft_socket::link::{Link, Udp};
use weft_socket::{Bytes, CongestionControl, Node, Options, SendError, Socket, Stream};

/// [CDP-SVC-2] [CDP-STR-1] Data is delivered in order, once, without loss.
#[test]
fn fifty_megabytes_arrive_intact_over_udp() {
    const LEN: usize = 50_000_000;
    let pair = Pair::over_udp(&Options::stream());
    let piece = pattern(1 << 20, 1);
    let sent = piece.clone();
    let (sender, receiver) = (pair.connected.clone(), &pair.accepted);
    let writer = thread::spawn(move || {
        let mut left = LEN;
        while left > 0 {
            let len = left.min(sent.len());
            assert_eq!(sender.send(&sent[..len]).unwrap(), len);
            left -= len;
        }
        sender.close_timeout(PATIENCE).unwrap()
    });
    let mut buffer = vec![0; 200_000];
    let mut at = 0;
    loop {
        let len = receiver.recv(&mut buffer).unwrap();
        if len == 0 {
            break;
        }
        for byte in &buffer[..len] {
            assert_eq!(*byte, piece[at % piece.len()], "at byte {at}");
            at += 1;
        }
    }
    assert_eq!(at, LEN);
    receiver.close().unwrap();
    assert!(writer.join().unwrap().is_clean());
}

fn crosses(faults: &str, seed: u64, len: usize, options: &Options) {
    let pair = Pair::over_faults(options, faults, seed);
    let data = pattern(len, seed);
    let sent = data.clone();
    let sender = pair.connected.clone();
    let writer = thread::spawn(move || sender.send(&sent).expect("it crosses"));
    let received = read_exactly(&pair.accepted, len);
    assert!(received == data, "the stream was changed under {faults}, seed {seed}");
    assert_eq!(writer.join().expect("it crosses"), len);
}

/// What is lent and what is copied keeps its order, also when it is sent again.
#[test]
fn lent_bytes_survive_loss() {
    let pair = Pair::over_faults(&Options::stream(), "loss=3%", 14);
    let data = Bytes::from(pattern(2_000_000, 14));
    let sent = data.clone();
    let sender = pair.connected.clone();
    let writer = thread::spawn(move || {
        for (number, at) in (0..sent.len()).step_by(100_000).enumerate() {
            let piece = sent.slice(at..at + 100_000);
            let taken = if number % 3 == 0 { sender.send(&piece) } else { sender.send_lent(&piece) };
            assert_eq!(taken.expect("it crosses"), 100_000);
        }
    });
    assert!(read_exactly(&pair.accepted, data.len()) == data, "the stream was changed");
    writer.join().expect("it crosses");
}

#[test]
fn a_stream_survives_loss() {
    crosses("loss=3%", 11, 3_000_000, &Options::stream());
}

#[test]
fn a_stream_survives_duplication_and_reordering() {
    crosses("duplicate=5%,reorder=5%", 12, 3_000_000, &Options::stream());
}

#[test]
fn a_stream_survives_damage() {
    crosses("corrupt=2%,truncate=1%", 13, 2_000_000, &Options::stream());
}

#[test]
fn a_stream_survives_everything_at_once_under_every_controller() {
    for control in
        [CongestionControl::Cubic, CongestionControl::Model, CongestionControl::Fixed { packets: 64 }]
    {
        let options = Options::stream().congestion(control);
        crosses("loss=2%,duplicate=1%,reorder=2%,corrupt=1%", 14, 1_000_000, &options);
    }
}

/// [CDP-SEAL-5] Without integrity, too.
#[test]
fn a_stream_without_integrity_arrives() {
    let pair = Pair::over_udp(&Options::stream().integrity(false));
    let data = pattern(500_000, 3);
    let (sender, sent) = (pair.connected.clone(), data.clone());
    let writer = thread::spawn(move || sender.send(&sent).unwrap());
    assert!(read_exactly(&pair.accepted, data.len()) == data);
    writer.join().unwrap();
}

#[test]
fn both_directions_run_at_once() {
    let pair = Pair::over_udp(&Options::stream());
    let data = pattern(4_000_000, 5);
    thread::scope(|scope| {
        for socket in [&pair.accepted, &pair.connected] {
            scope.spawn(|| socket.send(&data).unwrap());
            scope.spawn(|| assert!(read_exactly(socket, data.len()) == data));
        }
    });
}

#[test]
fn many_connections_run_at_once() {
    const COUNT: u8 = 40;
    let options = Options::stream();
    let (server, client) = (common::node(), common::node());
    let listener = server.listen(0, &options).unwrap();
    let target = (server.underlay(), listener.local_address().port);
    thread::scope(|scope| {
        scope.spawn(|| {
            let echoes: Vec<_> = (0..COUNT).map(|_| listener.accept_timeout(PATIENCE).unwrap()).collect();
            thread::scope(|scope| {
                for socket in &echoes {
                    scope.spawn(move || {
                        let data = read_exactly(socket, 30_000);
                        socket.send(&data).unwrap();
                    });
                }
            });
            // The echoes are read before the sockets go.
            for socket in &echoes {
                assert_eq!(socket.recv(&mut [0; 8]).unwrap(), 0);
            }
        });
        for number in 0..COUNT {
            let (client, options) = (&client, &options);
            scope.spawn(move || {
                let socket = client.connect(target, options).unwrap();
                let data = pattern(30_000, u64::from(number) + 100);
                socket.send(&data).unwrap();
                assert!(read_exactly(&socket, data.len()) == data);
                socket.close_timeout(PATIENCE).unwrap();
            });
        }
    });
}

#[test]
fn many_threads_share_one_socket() {
    const THREADS: u64 = 4;
    const EACH: usize = 500_000;
    let pair = Pair::over_udp(&Options::stream());
    let total: u64 = thread::scope(|scope| {
        for number in 1..=4_u8 {
            let sender = &pair.connected;
            scope.spawn(move || {
                let data = vec![number; 10_000];
                for _ in 0..EACH / data.len() {
                    sender.send(&data).unwrap();
                }
            });
        }
        let readers: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    let mut buffer = [0; 5_000];
                    let mut left = EACH;
                    let mut sum = 0;
                    while left > 0 {
                        let most = left.min(buffer.len());
                        let len = pair.accepted.recv(&mut buffer[..most]).unwrap();
                        sum += buffer[..len].iter().map(|byte| u64::from(*byte)).sum::<u64>();
                        left -= len;
                    }
                    sum
                })
            })
            .collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).sum()
    });
    assert_eq!(total, (1..=THREADS).sum::<u64>() * EACH as u64);
}

#[test]
fn a_stream_reads_and_writes_like_a_file() {
    let pair = Pair::over_udp(&Options::stream());
    let mut writer = Stream::try_from(pair.connected).unwrap();
    let mut reader = Stream::try_from(pair.accepted).unwrap();
    writer.write_all(b"one\ntwo\n").unwrap();
    writer.flush().unwrap();
    writer.close_start();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "one\ntwo\n");
}

/// [CDP-MTU-2] By default a node has all addresses of its host; where its peer does too, packets are what the loopback interface carries,
/// from the first on.
#[test]
fn within_a_host_packets_are_large_whatever_addresses_the_nodes_have() {
    let (_nodes, ends) = within_a_host(1 << 30, &Options::stream());
    assert!(ends.iter().all(|end| end.stats().mss > 16_000));
    let data = pattern(1 << 20, 4);
    thread::scope(|scope| {
        for end in &ends {
            scope.spawn(|| assert!(read_exactly(end, data.len()) == data));
            scope.spawn(|| end.send(&data).unwrap());
        }
    });
    let sent = ends.map(|end| end.stats().packets_sent);
    assert!(sent.iter().all(|packets| *packets < 300), "small packets would be 700: {sent:?}");
}

/// [CDP-LIM-13] Large packets are for who has the memory; nobody is refused for their sake.
#[test]
fn where_memory_is_short_packets_within_a_host_are_not_large() {
    let elsewhere = Udp::bind(SocketAddr::from(([0, 0, 0, 0], 0))).unwrap().info().mss;
    let (_nodes, [connected, accepted]) = within_a_host(16 << 20, &Options::stream());
    let data = pattern(1 << 20, 5);
    thread::scope(|scope| {
        scope.spawn(|| assert!(read_exactly(&accepted, data.len()) == data));
        connected.send(&data).unwrap();
    });
    assert!([connected, accepted].iter().all(|end| end.stats().mss <= elsewhere));
}

/// [CDP-DG-3] A peer is told of the largest message where that is more than a packet: within a host as elsewhere.
#[test]
fn within_a_host_a_message_is_taken_that_is_longer_than_the_first_packets() {
    let options = Options::datagram().message_bytes(8_192);
    let (_nodes, [connected, accepted]) = within_a_host(1 << 30, &options);
    let data = pattern(5_000, 6);
    connected.send(&data).unwrap();
    assert!(accepted.recv_message().unwrap().to_vec() == data);
    let error = connected.send(&pattern(8_193, 7)).unwrap_err();
    assert!(matches!(error, SendError::TooLong { limit: 8_192, .. }), "{error}");
}

/// Two nodes that have all addresses of this host and so much memory, and a connection between them.
fn within_a_host(memory_bytes: usize, options: &Options) -> ([Node; 2], [Socket; 2]) {
    let [server, client] =
        [(); 2].map(|()| Node::builder().memory_bytes(memory_bytes).open().expect("a node"));
    let listener = server.listen(0, options).expect("a listener");
    let at = SocketAddr::from(([127, 0, 0, 1], server.underlay().port()));
    let connected = client.connect((at, listener.local_address().port), options).expect("a connection");
    let accepted = listener.accept().expect("its other end");
    ([server, client], [connected, accepted])
}
