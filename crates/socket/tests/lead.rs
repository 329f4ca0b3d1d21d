//! Who watches over the link while several threads wait.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use common::{PATIENCE, Pair, loopback, node, wait_until};
use weft_socket::{Node, Options};

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

/// A thread that waits for what seldom comes does not stand between a thread in a conversation and the link.
#[test]
fn the_lead_goes_to_who_gets_the_messages() {
    let node = || Node::builder().bind(loopback()).spin(Duration::ZERO).open().unwrap();
    let Pair { listener, accepted, connected: asks, client, server } =
        Pair::between(node(), node(), &Options::datagram());
    let target = (server.underlay(), listener.local_address().port);
    let (tell, told) = mpsc::channel();
    let accepts = thread::spawn(move || {
        tell.send(fs::read_link("/proc/thread-self").unwrap()).unwrap();
        listener.accept_timeout(2 * PATIENCE).unwrap()
    });
    let status = Path::new("/proc").join(told.recv().unwrap()).join("status");
    let sleeps = || -> u64 {
        let status = fs::read_to_string(&status).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse().unwrap()
    };
    wait_until("the thread that accepts sleeps", || sleeps() > 0);
    let answers = thread::spawn(move || {
        let mut buffer = [0; 8];
        while matches!(accepted.recv(&mut buffer), Ok(8)) {
            accepted.send(&buffer).unwrap();
        }
    });
    // In most batches it is woken for none; in those in which the machine is busy elsewhere for up to all.
    let mut is_quick = false;
    let is_left_alone = (0..100).any(|_| {
        let (before, begin) = (sleeps(), Instant::now());
        for round in 0..100 {
            asks.send(&[round; 8]).unwrap();
            let mut answer = [0; 8];
            assert_eq!(asks.recv(&mut answer).unwrap(), 8);
            assert_eq!(answer, [round; 8]);
        }
        is_quick |= begin.elapsed() < Duration::from_millis(10);
        sleeps() - before < 50
    });
    if !is_left_alone && !is_quick {
        weft_skip::skipped!("the machine is too slow for a thread to be back soon");
    }
    assert!(is_left_alone || !is_quick, "woken for messages of another thread in each of 100 batches");
    client.connect(target, &Options::datagram()).unwrap();
    accepts.join().unwrap();
    drop(asks);
    answers.join().unwrap();
}
