//! Who watches over the link while several threads wait.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::{PATIENCE, Pair, node};
use weft_socket::Options;

/// The thread that leads leaves the link to the one that takes in the stream, and gets its messages all the same.
#[test]
fn who_waits_beside_a_flood_is_served() {
    const BYTES: usize = 64 << 20;
    static HAS_TALKED: AtomicBool = AtomicBool::new(false);
    let first = Pair::between(node(), node(), &Options::stream());
    let target = (first.server.underlay(), first.listener.local_address().port);
    let connected = first.client.connect(target, &Options::stream()).unwrap();
    let accepted = first.listener.accept_timeout(PATIENCE).unwrap();
    connected.set_send_timeout(Some(PATIENCE));
    accepted.set_recv_timeout(Some(PATIENCE));

    let (waits, asks) = (first.accepted, first.connected);
    let answers = thread::spawn(move || {
        for round in 0..20 {
            assert_eq!(waits.recv(&mut [0; 8]).unwrap(), 8, "{round}");
            waits.send(&[round; 8]).unwrap();
        }
    });
    let floods = thread::spawn(move || {
        let piece = vec![0; 128 << 10];
        let mut sent = 0;
        while sent < BYTES || !HAS_TALKED.load(Ordering::Relaxed) {
            sent += connected.send(&piece).unwrap();
        }
        drop(connected);
        sent
    });
    let takes_in = thread::spawn(move || {
        let mut buffer = vec![0; 128 << 10];
        let mut taken = 0;
        loop {
            match accepted.recv(&mut buffer).unwrap() {
                0 => return taken,
                some => taken += some,
            }
        }
    });
    for round in 0..20 {
        asks.send(&[round; 8]).unwrap();
        let mut answer = [0; 8];
        assert_eq!(asks.recv(&mut answer).unwrap(), 8);
        assert_eq!(answer, [round; 8]);
    }
    HAS_TALKED.store(true, Ordering::Relaxed);
    assert_eq!(floods.join().unwrap(), takes_in.join().unwrap());
    answers.join().unwrap();
}
