//! Every interleaving of the objects that fibers and threads wait for, with threads as those who wait.
//!
//! A fiber waits by the same words, lists and claims; only its sleep is another one. Run queues, inbox and the latch of a
//! join have their models beside them, in `src`.
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use weft_fiber::{Barrier, Condvar, Mutex, OnceCell, Semaphore};
use weft_sync::models::{model, on_threads};

#[test]
fn a_mutex_is_handed_over_and_nobody_is_forgotten() {
    model(2, || {
        let count = Arc::new(Mutex::new(0));
        on_threads(&count, 3, |count| *count.lock() += 1);
        assert_eq!(*count.lock(), 3);
    });
}

#[test]
fn a_mutex_that_is_tried_is_exclusive_too() {
    model(3, || {
        let count = Arc::new(Mutex::new((0, 0)));
        on_threads(&count, 2, |count| {
            if let Some(mut count) = count.try_lock() {
                count.0 += 1;
            }
            count.lock().1 += 1;
        });
        let count = count.lock();
        assert!(count.0 >= 1 && count.1 == 2);
    });
}

#[test]
fn every_permit_is_taken_by_one() {
    model(2, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let takers: Vec<_> = (0..2)
            .map(|_| {
                let semaphore = semaphore.clone();
                thread::spawn(move || semaphore.wait())
            })
            .collect();
        semaphore.post();
        semaphore.post();
        takers.into_iter().for_each(|taker| taker.join().unwrap());
        assert_eq!(semaphore.permits(), 0);
    });
}

#[test]
fn a_notification_after_the_change_is_never_missed() {
    model(3, || {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let theirs = shared.clone();
        let waiter = thread::spawn(move || {
            let mut ready = theirs.0.lock();
            while !*ready {
                ready = theirs.1.wait(ready);
            }
        });
        *shared.0.lock() = true;
        shared.1.notify_one();
        waiter.join().unwrap();
    });
}

#[test]
fn all_who_wait_are_notified() {
    model(2, || {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let mut ready = shared.0.lock();
                    while !*ready {
                        ready = shared.1.wait(ready);
                    }
                })
            })
            .collect();
        *shared.0.lock() = true;
        shared.1.notify_all();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

#[test]
fn a_barrier_lets_all_go_when_the_last_has_come_and_one_leads() {
    model(2, || {
        let shared = Arc::new((Barrier::new(2), AtomicUsize::new(0), AtomicUsize::new(0)));
        on_threads(&shared, 2, |(barrier, came, leaders)| {
            for round in 1..=2 {
                came.fetch_add(1, Ordering::SeqCst);
                leaders.fetch_add(usize::from(barrier.wait()), Ordering::SeqCst);
                assert!(came.load(Ordering::SeqCst) >= 2 * round);
            }
        });
        assert_eq!(shared.2.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn a_once_cell_is_made_by_one() {
    model(3, || {
        let shared = Arc::new((OnceCell::new(), AtomicUsize::new(0)));
        on_threads(&shared, 2, |(cell, made)| {
            let value = *cell.get_or_init(|| made.fetch_add(1, Ordering::SeqCst) + 7);
            assert_eq!(value, 7);
        });
        assert_eq!(shared.1.load(Ordering::SeqCst), 1);
    });
}
