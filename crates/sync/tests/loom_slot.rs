//! The busy slot: whatever the interleaving, every item that was left is seen to, once, before all threads are done.
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use weft_sync::models::model;
use weft_sync::{Entry, Slot, SlotGuard};

/// A connection that notes what it was given, and packets that are numbers.
type Connection = Slot<Vec<u32>, u32>;

fn finish(mut guard: SlotGuard<'_, Vec<u32>, u32>) {
    loop {
        while let Some(item) = guard.next_deferred() {
            guard.push(item);
        }
        match guard.leave() {
            Ok(()) => return,
            Err(wanted) => guard = wanted,
        }
    }
}

/// As a receiving thread does.
fn receive(slot: &Connection, item: u32) {
    match slot.enter_or_defer(item) {
        Entry::Entered(mut guard, item) => {
            guard.push(item);
            finish(guard);
        }
        Entry::Deferred => {}
        Entry::Full(item) => panic!("no room for {item}"),
    }
}

/// As a receiving thread does that defers a run of packets and then looks after the slot once.
fn receive_run(slot: &Connection, items: [u32; 2]) {
    for item in items {
        slot.defer(item).expect("room");
    }
    if let Some(guard) = slot.want() {
        finish(guard);
    }
}

/// As a user thread or the timer does: it waits.
fn send(slot: &Connection, item: u32) {
    let mut guard = slot.lock();
    guard.push(item);
    finish(guard);
}

/// As a user thread does whose message gathers with others: there is no work in it.
fn send_briefly(slot: &Connection, item: u32) {
    let mut guard = slot.lock_briefly();
    guard.push(item);
    if let Err(wanted) = guard.leave() {
        finish(wanted);
    }
}

/// The same, but it turns out that there is work.
fn send_briefly_and_stay(slot: &Connection, item: u32) {
    let mut guard = slot.lock_briefly();
    guard.stay();
    guard.push(item);
    finish(guard);
}

fn check(slot: &Connection, expected: &[u32]) {
    let mut seen = slot.try_lock().expect("nobody is left in the slot").clone();
    seen.sort_unstable();
    assert_eq!(seen, expected);
}

#[test]
fn two_receivers_and_a_user_lose_no_packet() {
    model(2, || {
        let slot = Arc::new(Slot::new(Vec::new(), 4));
        let threads = [receive as fn(&Connection, u32), send].into_iter().zip(1..).map(|(part, item)| {
            let slot = slot.clone();
            thread::spawn(move || part(&slot, item))
        });
        let threads: Vec<_> = threads.collect();
        receive(&slot, 3);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        check(&slot, &[1, 2, 3]);
    });
}

#[test]
fn two_threads_lose_no_packet_whatever_their_steps() {
    loom::model(|| {
        let slot = Arc::new(Slot::new(Vec::new(), 4));
        let other = {
            let slot = slot.clone();
            thread::spawn(move || receive(&slot, 1))
        };
        receive(&slot, 2);
        other.join().unwrap();
        check(&slot, &[1, 2]);
    });
}

#[test]
fn a_deferred_run_is_seen_to_by_the_holder_or_by_its_deferrer() {
    model(3, || {
        let slot = Arc::new(Slot::new(Vec::new(), 4));
        let other = {
            let slot = slot.clone();
            thread::spawn(move || receive_run(&slot, [1, 2]))
        };
        send(&slot, 3);
        other.join().unwrap();
        check(&slot, &[1, 2, 3]);
    });
}

#[test]
fn a_look_swallows_no_packet() {
    model(3, || {
        let slot = Arc::new(Slot::new(Vec::new(), 4));
        let receiver = {
            let slot = slot.clone();
            thread::spawn(move || receive(&slot, 1))
        };
        assert!(slot.look().len() <= 1);
        receiver.join().unwrap();
        check(&slot, &[1]);
    });
}

#[test]
fn waiting_users_relieve_each_other_and_none_is_forgotten() {
    model(2, || {
        let slot = Arc::new(Slot::new(Vec::new(), 4));
        let threads = (1..3).map(|item| {
            let slot = slot.clone();
            thread::spawn(move || send(&slot, item))
        });
        let threads: Vec<_> = threads.collect();
        receive(&slot, 3);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        check(&slot, &[1, 2, 3]);
    });
}

#[test]
fn who_comes_briefly_swallows_no_packet() {
    model(3, || {
        let slot = Arc::new(Slot::new(Vec::new(), 4));
        let receiver = {
            let slot = slot.clone();
            thread::spawn(move || receive_run(&slot, [1, 2]))
        };
        send_briefly(&slot, 3);
        send_briefly_and_stay(&slot, 4);
        receiver.join().unwrap();
        check(&slot, &[1, 2, 3, 4]);
    });
}

/// One that waits may have been counted before a brief holder comes, and is woken by that.
#[test]
fn who_waits_is_woken_by_who_comes_briefly() {
    model(5, || {
        let slot = Arc::new(Slot::new(Vec::new(), 4));
        let waiting = {
            let slot = slot.clone();
            thread::spawn(move || send(&slot, 1))
        };
        send(&slot, 2);
        send_briefly(&slot, 3);
        waiting.join().unwrap();
        check(&slot, &[1, 2, 3]);
    });
}
