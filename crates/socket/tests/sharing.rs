//! Several threads at one end of a connection, all of which send or receive: each message goes to one of them, and nobody is told
//! that nothing came because another one was quicker.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::Pair;
use weft_socket::{Options, RecvError};

const SENDERS: u64 = 3;
const RECEIVERS: u64 = 4;
/// How long they do so.
const TIME: Duration = Duration::from_secs(1);

/// Bursts of `burst` messages with pauses between them, in which the receivers fall asleep.
fn each_message_goes_to_one(burst: u64) {
    let pair = Pair::over_udp(&Options::datagram());
    let (sent, received) = (AtomicU64::new(0), AtomicU64::new(0));
    let receive = || {
        let mut buffer = [0; 8];
        loop {
            match pair.accepted.recv(&mut buffer) {
                Ok(8) => received.fetch_add(u64::from_le_bytes(buffer), Ordering::Relaxed),
                Err(RecvError::EndOfFile) => return,
                other => panic!("{other:?}"),
            };
        }
    };
    let send = || {
        let begin = Instant::now();
        for number in 1_u64.. {
            pair.connected.send(&number.to_le_bytes()).expect("sent");
            sent.fetch_add(number, Ordering::Relaxed);
            if number.is_multiple_of(burst) {
                thread::sleep(Duration::from_micros(20));
                if begin.elapsed() > TIME {
                    return;
                }
            }
        }
    };
    thread::scope(|scope| {
        let receivers: Vec<_> = (0..RECEIVERS).map(|_| scope.spawn(receive)).collect();
        let senders: Vec<_> = (0..SENDERS).map(|_| scope.spawn(send)).collect();
        senders.into_iter().for_each(|sender| sender.join().expect("a sender"));
        assert!(pair.connected.close().expect("closed").is_clean());
        receivers.into_iter().for_each(|receiver| receiver.join().expect("a receiver"));
    });
    assert_eq!(received.into_inner(), sent.into_inner());
}

#[test]
fn messages_that_come_one_by_one_go_to_one_of_those_who_wait() {
    each_message_goes_to_one(1);
}

#[test]
fn messages_that_come_in_bursts_go_to_one_of_those_who_wait() {
    each_message_goes_to_one(50);
}
