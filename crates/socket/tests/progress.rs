//! A program's own loop of events makes the progress of its node.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;

use std::os::fd::AsRawFd;
use std::thread;

use common::{PATIENCE, Pair, node, pattern, wait_until};
use weft_socket::link::wait;
use weft_socket::{Interest, Options, RecvError};

/// A flood, which the node's own thread takes in, and the end of it, which the loop does.
#[test]
fn a_stream_comes_whole_by_a_loop() {
    const BYTES: usize = 48 << 20;
    const PIECE: usize = 100_000;
    let pair = Pair::between(node(), node(), &Options::stream());
    let progress = pair.server.progress().unwrap();
    let (takes, gives) = (pair.accepted, pair.connected);
    let gives = thread::spawn(move || {
        gives.set_send_timeout(Some(PATIENCE));
        for at in (0..BYTES).step_by(PIECE) {
            gives.send(&pattern(PIECE.min(BYTES - at), at as u64)).unwrap();
        }
        gives.close().unwrap()
    });

    let readiness = takes.readiness(Interest::Readable).unwrap();
    let fds = [progress.as_raw_fd(), readiness.as_raw_fd()];
    let (mut buffer, mut taken) = (vec![0; 1 << 18], Vec::with_capacity(BYTES));
    loop {
        match takes.try_recv(&mut buffer) {
            Ok(0) => break,
            Ok(len) => taken.extend_from_slice(&buffer[..len]),
            Err(RecvError::WouldBlock) => {
                assert!(wait(&fds, Some(PATIENCE)).unwrap() > 0, "after {} bytes", taken.len());
                while progress.make() {}
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(gives.join().unwrap().is_clean());
    assert_eq!(taken.len(), BYTES);
    for (piece, at) in taken.chunks(PIECE).zip((0..BYTES).step_by(PIECE)) {
        assert!(piece == pattern(piece.len(), at as u64), "at {at}");
    }
}

#[test]
fn who_waits_for_readiness_alone_is_served_beside_loops_and_after_them() {
    let pair = Pair::over_udp(&Options::datagram());
    let readiness = pair.accepted.readiness(Interest::Readable).unwrap();
    let mut loops = vec![pair.server.progress().unwrap(), pair.server.progress().unwrap()];
    loop {
        for number in 0..50_u8 {
            pair.connected.send(&[number]).unwrap();
            assert_eq!(wait(&[readiness.as_raw_fd()], Some(PATIENCE)).unwrap(), 1, "{} loops", loops.len());
            let mut message = [0];
            wait_until("it is readable", || pair.accepted.try_recv(&mut message).is_ok());
            assert_eq!(message, [number]);
        }
        if loops.pop().is_none() {
            break;
        }
    }
}
