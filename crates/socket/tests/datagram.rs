//! The datagram service between two nodes: whole messages, in order, with their boundaries.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;

use std::thread;
use std::time::{Duration, Instant};

use common::{Pair, pattern};
use weft_socket::{Bytes, Coalescing, Node, Options, RecvError, SendError};

fn lengths() -> impl Iterator<Item = usize> {
    [0, 1, 2, 63, 64, 500, 1_443, 1_444, 1_445, 5_000, 70_000, 0, 7, 40_000, 300, 200_000].into_iter().cycle()
}

/// [CDP-DG-1] Each send makes one message, possibly empty, and each is delivered whole, with its boundaries, whether the
/// transport copied it or shares it.
fn boundaries_are_kept(pair: &Pair, count: usize) {
    thread::scope(|scope| {
        scope.spawn(|| {
            for (number, len) in lengths().take(count).enumerate() {
                let data = Bytes::from(pattern(len, number as u64));
                let lends = number % 5 > 2;
                let sent = if lends { pair.connected.send_lent(&data) } else { pair.connected.send(&data) };
                assert_eq!(sent.expect("sent"), len);
            }
            pair.connected.flush();
        });
        for (number, len) in lengths().take(count).enumerate() {
            let message = pair.accepted.recv_message().expect("received");
            assert!(message.to_vec() == pattern(len, number as u64), "message {number} of {len} bytes");
        }
    });
}

#[test]
fn boundaries_are_kept_over_udp() {
    boundaries_are_kept(&Pair::over_udp(&Options::datagram()), 400);
}

#[test]
fn boundaries_are_kept_without_coalescing() {
    boundaries_are_kept(&Pair::over_udp(&Options::datagram().coalescing(Coalescing::Off)), 400);
}

#[test]
fn boundaries_are_kept_on_a_bad_network() {
    let faults = "loss=3%,duplicate=2%,reorder=3%,corrupt=1%";
    boundaries_are_kept(&Pair::over_faults(&Options::datagram(), faults, 21), 200);
}

/// [CDP-COA-1] Small messages that follow each other closely share packets.
#[test]
fn a_burst_of_small_messages_shares_packets() {
    const COUNT: usize = 20_000;
    let pair = Pair::over_udp(&Options::datagram());
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..COUNT {
                pair.connected.send(&(number as u64).to_le_bytes()).unwrap();
            }
        });
        let mut buffer = [0; 8];
        for number in 0..COUNT {
            assert_eq!(pair.accepted.recv(&mut buffer).unwrap(), 8);
            assert_eq!(u64::from_le_bytes(buffer), number as u64);
        }
    });
    let packets = pair.connected.stats().packets_sent;
    assert!(packets < COUNT as u64 / 2, "{packets} packets for {COUNT} messages");
}

/// [CDP-COA-2] A part of a message need not tell its length, so a long one fills the packets that a host takes within itself.
#[test]
fn long_messages_within_a_host_have_full_packets() {
    const COUNT: u64 = 10;
    const LEN: usize = 1_000_000;
    let pair = Pair::over_udp(&Options::datagram());
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..COUNT {
                pair.connected.send(&pattern(LEN, number)).unwrap();
            }
        });
        for number in 0..COUNT {
            assert!(
                pair.accepted.recv_message().unwrap().to_vec() == pattern(LEN, number),
                "message {number}"
            );
        }
    });
    // 16 a message, twice as many where a part has 0x7FFF bytes; a few are sent again on a busy machine
    let packets = pair.connected.stats().packets_sent;
    assert!(packets < COUNT * 24, "{packets} packets for {COUNT} messages");
}

/// [CDP-COA-7] What waits for company leaves within a millisecond although its sender does nothing more.
#[test]
fn the_last_of_a_burst_is_not_left_behind() {
    let pair = Pair::over_udp(&Options::datagram());
    for round in 0..50_u8 {
        for number in 0..7 {
            pair.connected.send(&[round, number]).unwrap();
        }
        let mut buffer = [0; 2];
        for number in 0..7 {
            pair.accepted.recv(&mut buffer).unwrap();
            assert_eq!(buffer, [round, number]);
        }
    }
}

#[test]
fn what_does_not_fit_the_buffer_is_told() {
    let pair = Pair::over_udp(&Options::datagram());
    pair.connected.send(b"a message").unwrap();
    pair.connected.send(b"next").unwrap();
    let mut buffer = [0; 4];
    let received = pair.accepted.recv_whole(&mut buffer).unwrap();
    assert_eq!((received.len, received.truncated, &buffer), (4, 5, b"a me"));
    assert_eq!(pair.accepted.recv(&mut buffer).unwrap(), 4);
    assert_eq!(&buffer, b"next");
}

/// [CDP-DG-6] A send larger than the limit fails with EMSGSIZE and sends nothing.
#[test]
fn a_message_above_the_limit_is_refused() {
    let pair = Pair::over_udp(&Options::datagram().message_bytes(100_000));
    let refused = pair.connected.send(&vec![0; 100_001]).unwrap_err();
    assert_eq!(refused, SendError::TooLong { len: 100_001, limit: 100_000 });
    assert_eq!(refused.errno(), weft_socket::errno::EMSGSIZE);
    pair.connected.send(b"small").unwrap();
    assert_eq!(pair.accepted.recv_message().unwrap().to_vec(), b"small");
}

#[test]
fn the_end_is_no_empty_message() {
    let pair = Pair::over_udp(&Options::datagram());
    pair.connected.send(b"").unwrap();
    pair.connected.close_start();
    assert_eq!(pair.accepted.recv(&mut [0; 4]).unwrap(), 0);
    assert_eq!(pair.accepted.recv(&mut [0; 4]), Err(RecvError::EndOfFile));
}

#[test]
fn a_delay_that_was_asked_for_is_short() {
    let delay = Coalescing::Delay(100 * common::PATIENCE);
    let pair = Pair::over_udp(&Options::datagram().coalescing(delay));
    for number in 0..5_u8 {
        pair.connected.send(&[number]).unwrap();
    }
    for number in 0..5_u8 {
        let mut buffer = [9];
        pair.accepted.recv(&mut buffer).unwrap();
        assert_eq!(buffer[0], number);
    }
}

/// [CDP-COA-7] Likewise in a node whose threads all sleep when the message comes.
#[test]
fn what_gathers_while_the_node_sleeps_is_not_left_behind() {
    let options = Options::datagram().coalescing(Coalescing::Delay(Duration::from_micros(500)));
    for workers in [0, 1] {
        let node = Node::builder().bind(common::loopback()).workers(workers).open().unwrap();
        let pair = Pair::between(common::node(), node, &options);
        for number in 0..5_u8 {
            // Nobody has called the node for a while, and nothing is in flight.
            thread::sleep(Duration::from_millis(30));
            pair.connected.send(&[number]).unwrap();
            let mut buffer = [9];
            pair.accepted.recv(&mut buffer).unwrap();
            assert_eq!(buffer[0], number);
        }
    }
}

/// A conversation, until all of it is known to have arrived. Returns how many packets either end has sent again so far.
fn converse(pair: &Pair) -> u64 {
    let mut buffer = [0; 100];
    for _ in 0..20 {
        pair.connected.send(b"question").expect("sent");
        assert_eq!(pair.accepted.recv(&mut buffer).expect("received"), 8);
        pair.accepted.send(b"answer").expect("sent");
        assert_eq!(pair.connected.recv(&mut buffer).expect("received"), 6);
    }
    let begin = Instant::now();
    let ends = [&pair.connected, &pair.accepted];
    while ends.iter().any(|end| end.stats().in_flight > 0) {
        assert!(begin.elapsed() < Duration::from_secs(10), "one end waits for ever");
        thread::sleep(Duration::from_millis(1));
    }
    ends.iter().map(|end| end.stats().retransmitted).sum()
}

/// [CDP-ACK-9] Who is shown an answer owes an acknowledgement of it, and has one to read, which his next message does not wait
/// for; where there is none both are seen to before anything is sent again. A machine that stands still may do that now and then.
#[test]
fn the_last_answer_of_a_conversation_is_acknowledged_and_read() {
    let pair = Pair::over_udp(&Options::datagram());
    let mut before = converse(&pair);
    let is_quiet = |_: &u32| std::mem::replace(&mut before, converse(&pair)) == before;
    let quiet = (0..60).filter(is_quiet).take(5).count();
    assert_eq!(quiet, 5, "of 60 conversations only those were without a repetition");
}

/// Bytes of long messages: some of one part, some of many, some longer than the send queue.
const LONG: [usize; 5] = [200_000, 131_072, 1_000_000, 131_073, 5_000_000];

/// [CDP-DG-1] Long messages that several threads send and receive at once stay whole, whichever way they are received.
#[test]
fn long_messages_of_several_threads_stay_whole() {
    const SENDERS: usize = 3;
    let pair = Pair::over_udp(&Options::datagram());
    let check = |message: &[u8]| {
        let number = u64::from(message[0]);
        assert!(message[1..] == pattern(message.len() - 1, number)[..], "message {number} was torn");
        usize::from(message[0])
    };
    let mut seen: Vec<usize> = thread::scope(|scope| {
        for sender in 0..SENDERS {
            let socket = &pair.connected;
            scope.spawn(move || {
                for (index, len) in LONG.into_iter().enumerate() {
                    let number = u8::try_from(sender * LONG.len() + index).unwrap();
                    let message = [&[number][..], &pattern(len, number.into())].concat();
                    assert_eq!(socket.send(&message).expect("sent"), len + 1);
                }
            });
        }
        let count = SENDERS * LONG.len();
        let readers: Vec<_> = (0..3)
            .map(|way| {
                let (socket, check) = (&pair.accepted, &check);
                scope.spawn(move || {
                    let (mut buffer, mut vector) = (vec![0; 5_000_001], Vec::new());
                    let one = |_| match way {
                        0 => {
                            let len = socket.recv(&mut buffer).expect("received");
                            check(&buffer[..len])
                        }
                        1 => {
                            socket.recv_into(&mut vector).expect("received");
                            check(&vector)
                        }
                        _ => check(&socket.recv_message().expect("received").to_vec()),
                    };
                    (0..count / 3).map(one).collect::<Vec<_>>()
                })
            })
            .collect();
        readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect()
    });
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..SENDERS * LONG.len()));
}

/// Two ends that both send before they receive do not wait for each other: what is sent needs no reader to arrive.
#[test]
fn two_ends_send_long_messages_to_each_other_before_they_receive() {
    let pair = Pair::over_udp(&Options::datagram());
    thread::scope(|scope| {
        for (end, number) in [(&pair.connected, 1), (&pair.accepted, 2)] {
            scope.spawn(move || {
                let message = pattern(8_000_000, number);
                assert_eq!(end.send(&message).expect("sent"), message.len());
                let mut buffer = vec![0; message.len()];
                assert_eq!(end.recv(&mut buffer).expect("received"), message.len());
                assert!(buffer == pattern(8_000_000, 3 - number));
            });
        }
    });
}
