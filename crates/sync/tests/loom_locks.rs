//! Every interleaving of the locks and of parking, as far as two or three threads show it.
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use weft_sync::face::UnsafeCell;
use weft_sync::models::{model, on_threads};
use weft_sync::{Mutex, Parker, RwLock, SpinLock};

#[test]
fn a_mutex_is_handed_from_thread_to_thread_and_no_sleeper_is_forgotten() {
    model(3, || {
        let count = Arc::new(Mutex::new(0));
        on_threads(&count, 3, |count| *count.lock() += 1);
        assert_eq!(*count.lock(), 3);
    });
}

#[test]
fn a_mutex_that_is_tried_is_exclusive_too() {
    model(4, || {
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
fn a_spin_lock_is_exclusive() {
    model(3, || {
        let count = Arc::new(SpinLock::new(0));
        on_threads(&count, 2, |count| *count.lock() += 1);
        assert_eq!(*count.lock(), 2);
    });
}

#[test]
fn writers_are_alone_and_no_sleeper_is_forgotten() {
    model(3, || {
        let pair = Arc::new(RwLock::new((0, 0)));
        on_threads(&pair, 2, |pair| {
            let mut writer = pair.write();
            writer.0 += 1;
            writer.1 += 1;
            drop(writer);
            let reader = pair.read();
            assert_eq!(reader.0, reader.1);
        });
        assert_eq!(*pair.read(), (2, 2));
    });
}

#[test]
fn a_writer_gets_in_between_two_readers() {
    model(2, || {
        let value = Arc::new(RwLock::new(0));
        let writer = {
            let value = value.clone();
            thread::spawn(move || *value.write() += 1)
        };
        on_threads(&value, 2, |value| assert!(*value.read() <= 1));
        writer.join().unwrap();
        assert_eq!(*value.read(), 1);
    });
}

#[test]
fn no_wake_is_lost() {
    loom::model(|| {
        let parker = Parker::new();
        let unparker = parker.unparker();
        let news = Arc::new(UnsafeCell::new(0));
        let waker = {
            let news = news.clone();
            thread::spawn(move || {
                // SAFETY: the parker reads only after the wake; loom checks it.
                news.with_mut(|news| unsafe { *news = 1 });
                unparker.unpark();
            })
        };
        parker.park();
        // SAFETY: the waker wrote before it woke; loom checks it.
        news.with(|news| assert_eq!(unsafe { *news }, 1));
        waker.join().unwrap();
    });
}

#[test]
fn a_wake_from_each_of_two_threads_is_seen_if_the_condition_is_looked_up() {
    model(2, || {
        let parker = Parker::new();
        let count = Arc::new(Mutex::new(0));
        let wakers: Vec<_> = (0..2)
            .map(|_| {
                let (count, unparker) = (count.clone(), parker.unparker());
                thread::spawn(move || {
                    *count.lock() += 1;
                    unparker.unpark();
                })
            })
            .collect();
        while *count.lock() < 2 {
            parker.park();
        }
        wakers.into_iter().for_each(|waker| waker.join().unwrap());
    });
}
