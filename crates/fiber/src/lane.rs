//! A worker's public lane: the fibers that other workers may take.
//!
//! Algorithm: a list under a spin lock, with its length beside it. The owner gives the oldest of its unstarted
//! fibers (the largest part of a fork-join tree); thieves take half, keep one to run and put the others into their own
//! lanes, where whoever is idle finds them; the owner takes back what it needs when its own queues are empty. What the
//! owner keeps to itself costs it no atomic operation at all.
//!
//! Races: the length is a hint, read without the lock; whoever acts on it takes the lock and looks again. A thief that
//! finds nothing sleeps only after `Bell` has been set and every lane was looked at once more.

use std::ptr::NonNull;

use weft_sync::SpinLock;
use weft_sync::face::atomic::{AtomicUsize, Ordering};

use crate::queue::{Linked, Queue};

/// Fibers for the taking.
pub(crate) struct Lane<T> {
    list: SpinLock<Queue<T>>,
    len: AtomicUsize,
}

impl<T: Linked + Send + Sync> Lane<T> {
    pub(crate) fn new() -> Self {
        Self { list: SpinLock::new(Queue::new()), len: AtomicUsize::new(0) }
    }

    /// How many there are, as a hint.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Adds one.
    pub(crate) fn give(&self, element: NonNull<T>) {
        let mut list = self.list.lock();
        list.push_back(element);
        self.len.store(list.len(), Ordering::Relaxed);
    }

    /// Adds all that are left of `loot`, in their order.
    pub(crate) fn give_all(&self, mut loot: Queue<T>) {
        let mut list = self.list.lock();
        while let Some(element) = loot.pop_front() {
            list.push_back(element);
        }
        self.len.store(list.len(), Ordering::Relaxed);
    }

    /// Takes the oldest.
    pub(crate) fn take(&self) -> Option<NonNull<T>> {
        if self.len() == 0 {
            return None;
        }
        let mut list = self.list.lock();
        let element = list.pop_front();
        self.len.store(list.len(), Ordering::Relaxed);
        element
    }

    /// Takes the oldest half, rounded up.
    pub(crate) fn steal(&self) -> Queue<T> {
        let mut loot = Queue::new();
        if self.len() == 0 {
            return loot;
        }
        let mut list = self.list.lock();
        for _ in 0..list.len().div_ceil(2) {
            if let Some(element) = list.pop_front() {
                loot.push_back(element);
            }
        }
        self.len.store(list.len(), Ordering::Relaxed);
        loot
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::queue::tests::{number, value};
    use loom::sync::Arc;
    use weft_sync::models::model;

    #[test]
    fn what_is_given_is_taken_once_by_the_owner_or_by_a_thief() {
        model(3, || {
            let lane = Arc::new(Lane::new());
            let theirs = lane.clone();
            let thief = loom::thread::spawn(move || {
                let mut loot = theirs.steal();
                std::iter::from_fn(|| loot.pop_front()).map(value).sum::<usize>()
            });
            lane.give(number(1));
            lane.give(number(2));
            let mut mine = 0;
            while let Some(element) = lane.take() {
                mine += value(element);
            }
            assert_eq!(mine + thief.join().unwrap(), 3);
        });
    }

    #[test]
    fn two_thieves_share_and_nothing_is_taken_twice() {
        model(3, || {
            let lane = Arc::new(Lane::new());
            for element in 1..=3 {
                lane.give(number(element));
            }
            let thieves: Vec<_> = (0..2)
                .map(|_| {
                    let lane = lane.clone();
                    loom::thread::spawn(move || {
                        let mut loot = lane.steal();
                        std::iter::from_fn(|| loot.pop_front()).map(value).sum::<usize>()
                    })
                })
                .collect();
            let mut sum: usize = thieves.into_iter().map(|thief| thief.join().unwrap()).sum();
            while let Some(element) = lane.take() {
                sum += value(element);
            }
            assert_eq!(sum, 6);
        });
    }
}
