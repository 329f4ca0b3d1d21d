//! I/O nodes with their threads, over UDP on the loopback interface: 127.0.1.x is one network, 127.0.2.x another.

#[cfg(test)]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{LIMIT, World, sum};
use weft_link::{Fault, Faults, Link};

#[test]
fn a_joined_run_leaves_as_one_segmented_send() {
    for length in [1_472, 8_972] {
        let world = World::new();
        let io = world.start(world.far.clone());
        for _ in 0..8 {
            world.send(7, length);
            assert_eq!(world.numbers(7, length), [0, 1, 2, 3, 4, 5, 6]);
        }
        let stats = io.stop(LIMIT);
        let (near, far) = (world.near.stats(), world.far.stats());
        assert_eq!((near.received_packets, far.sent_packets), (56, 56));
        // The kernel need not join what it carries; what it joined stays together.
        assert!(far.send_calls <= near.receive_calls, "{near:?} {far:?}");
        assert_eq!(sum(&stats, |network| network.departures.packets), 56);
    }
}

#[test]
fn what_was_received_before_a_stop_is_sent_on() {
    for round in 0..20 {
        let world = World::new();
        let io = world.start(world.far.clone());
        let count = 100 + 37 * round;
        world.send(count, 200);
        let stats = io.stop(LIMIT);
        assert_eq!(sum(&stats, |network| network.arrivals.packets), u64::from(count));
        assert!(world.numbers(count as usize, 200).into_iter().eq(0..count));
    }
}

/// A link that delays what it sends is waited for: the packets are under way.
#[test]
fn a_stop_waits_for_what_a_slow_link_still_has() {
    let world = World::new();
    let slow: Faults = "delay=50ms".parse().unwrap();
    let far = Arc::new(Fault::new(world.far.clone(), 1, slow, Faults::NONE).unwrap());
    let io = world.start(far);
    let begin = Instant::now();
    world.send(5, 200);
    // They are to be on the slow link, not before it.
    while sum(&io.stats(), |network| network.departures.packets) < 5 && begin.elapsed() < LIMIT {
        std::thread::yield_now();
    }
    drop(io.stop(LIMIT));
    assert!(begin.elapsed() >= Duration::from_millis(40), "{:?}", begin.elapsed());
    assert_eq!(world.numbers(5, 200).len(), 5);
}

#[test]
fn a_stop_under_load_ends_at_its_limit() {
    let world = World::new();
    let io = world.start(world.far.clone());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                world.send(64, 1_000);
            }
        });
        let begin = Instant::now();
        while sum(&io.stats(), |network| network.arrivals.packets) == 0 && begin.elapsed() < LIMIT {
            std::thread::yield_now();
        }
        let begin = Instant::now();
        let stats = io.stop(Duration::from_millis(100));
        assert!(begin.elapsed() < LIMIT / 2);
        is_over.store(true, Ordering::SeqCst);
        let taken = sum(&stats, |network| network.arrivals.packets);
        let gone = sum(&stats, |network| network.departures.packets + network.departures.queue_drops);
        assert!(taken > 0 && taken == gone, "{stats:?}");
    });
}

#[test]
fn a_node_can_be_watched_while_it_runs_and_after() {
    let world = World::new();
    let io = world.start(world.far.clone());
    let watch = io.watcher();
    world.send(3, 100);
    assert_eq!(world.numbers(3, 100).len(), 3);
    drop(io.stop(LIMIT));
    let near = &watch().networks[0];
    assert_eq!((near.arrivals.packets, near.local), (3, world.near.info().local));
    assert!(near.arrivals.refused().all(|(_, count)| count == 0));
}
