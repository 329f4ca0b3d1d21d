//! What mutexes, semaphores and parked fibers wait at: permits in one word, and a list of those who wait for one.
//!
//! Algorithm: the upper bits of the word count permits. QUEUED says that somebody waits; then there are no permits, since a
//! permit that is given goes to the first who waits: it is handed over, so nobody overtakes and no wake is vain. LOCKED is
//! the list's lock. While nobody waits, taking and giving are one exchange each. A mutex is a gate with one permit.
//!
//! Races: while LOCKED is set nobody else changes the word, so its holder frees it with a store. Who would take, give or
//! queue meanwhile looks again, and gives its processor away after some looks.

use std::time::Instant;

use weft_sync::face::atomic::{AtomicUsize, Ordering};
use weft_sync::face::{Spin, UnsafeCell, thread};

use crate::wait::{Node, Outcome, Seat, WaitList};
use crate::why::Why;

const LOCKED: usize = 1;
const QUEUED: usize = 2;
const FLAGS: usize = LOCKED | QUEUED;
const ONE: usize = 4;

/// The most permits there can be.
pub(crate) const PERMITS_MAX: usize = usize::MAX / ONE;

pub(crate) struct Gate {
    word: AtomicUsize,
    waiters: UnsafeCell<WaitList>,
}

// SAFETY: the list is touched only by whoever has set LOCKED.
unsafe impl Sync for Gate {}
// SAFETY: a gate that changes threads is in nobody's list.
unsafe impl Send for Gate {}

impl Gate {
    /// A gate with so many permits, at most [`PERMITS_MAX`].
    #[cfg(not(loom))]
    pub(crate) const fn new(permits: usize) -> Self {
        Self { word: AtomicUsize::new(permits * ONE), waiters: UnsafeCell::new(WaitList::new()) }
    }

    /// A gate with so many permits.
    #[cfg(loom)]
    pub(crate) fn new(permits: usize) -> Self {
        Self { word: AtomicUsize::new(permits * ONE), waiters: UnsafeCell::new(WaitList::new()) }
    }

    /// The permits nobody has taken.
    pub(crate) fn permits(&self) -> usize {
        self.word.load(Ordering::Relaxed) / ONE
    }

    /// Takes away all permits. Nobody waits, and nobody else has the gate.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn reset(&self) {
        self.word.store(0, Ordering::Relaxed);
    }

    /// Takes a permit if there is one.
    #[inline]
    pub(crate) fn try_take(&self) -> bool {
        let mut now = self.word.load(Ordering::Relaxed);
        while now >= ONE && now & FLAGS == 0 {
            match self.word.compare_exchange_weak(now, now - ONE, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
        // While somebody leaves the list, a permit that is there cannot be taken: then this comes a moment too early.
        false
    }

    /// The same for a gate that never has more than one permit.
    #[inline(always)]
    pub(crate) fn try_take_only(&self) -> bool {
        self.word.compare_exchange(ONE, 0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives the permit of a gate that never has more than one.
    #[inline(always)]
    pub(crate) fn give_only(&self) {
        if self.word.compare_exchange(0, ONE, Ordering::Release, Ordering::Relaxed).is_err() {
            self.hand_over(1);
        }
    }

    /// Waits for a permit and takes it, or says what else ended the wait.
    #[inline(never)]
    pub(crate) fn wait(&self, why: Why, deadline: Option<Instant>) -> Outcome {
        let seat = Seat::take();
        let node = seat.node();
        if self.take_or_lock() {
            return Outcome::Signalled;
        }
        // SAFETY: the node stays until the wait has ended, and is removed unless it was popped.
        self.with_list(|list| unsafe { list.push(node) });
        self.word.store(QUEUED, Ordering::Release);
        let outcome = seat.wait(why, std::ptr::from_ref(self).addr(), deadline);
        if outcome != Outcome::Signalled {
            self.leave(node);
        }
        outcome
    }

    /// Gives a permit to the first who waits, or keeps it if there are less than `limit`.
    #[inline]
    pub(crate) fn give(&self, limit: usize) {
        let mut now = self.word.load(Ordering::Relaxed);
        while now & FLAGS == 0 {
            if now / ONE >= limit {
                return;
            }
            match self.word.compare_exchange_weak(now, now + ONE, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => now = other,
            }
        }
        self.hand_over(limit);
    }

    #[inline(never)]
    fn hand_over(&self, limit: usize) {
        let permits = self.exchange(|now| now | LOCKED) & !FLAGS;
        let (next, is_last) = self.with_list(|list| (list.pop(), list.is_empty()));
        let then = match (&next, is_last) {
            (Some(_), true) => 0,
            (Some(_), false) => QUEUED,
            (None, _) if permits / ONE < limit => permits + ONE,
            (None, _) => permits,
        };
        self.word.store(then, Ordering::Release);
        if let Some(next) = next {
            next.wake();
        }
    }

    /// A wait has ended without a permit.
    #[cold]
    fn leave(&self, node: &Node) {
        let permits = self.exchange(|now| now | LOCKED) & !FLAGS;
        let is_last = self.with_list(|list| {
            list.remove(node);
            list.is_empty()
        });
        self.word.store(if is_last { permits } else { QUEUED }, Ordering::Release);
    }

    /// The list. The caller has locked it.
    #[inline(always)]
    fn with_list<R>(&self, use_it: impl FnOnce(&mut WaitList) -> R) -> R {
        // SAFETY: the caller has set LOCKED, and nobody else touches the list until it is taken back.
        self.waiters.with_mut(|list| use_it(unsafe { &mut *list }))
    }

    /// Takes a permit (true), or locks the list when there is none.
    #[inline]
    fn take_or_lock(&self) -> bool {
        self.exchange(|now| if now >= ONE { now - ONE } else { now | LOCKED }) >= ONE
    }

    /// Changes the word when it is not locked; returns what it was.
    #[inline(always)]
    fn exchange(&self, change: impl Fn(usize) -> usize) -> usize {
        let now = self.word.load(Ordering::Relaxed);
        if now & LOCKED == 0
            && self.word.compare_exchange(now, change(now), Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return now;
        }
        self.exchange_later(change)
    }

    #[cold]
    #[inline(never)]
    fn exchange_later(&self, change: impl Fn(usize) -> usize) -> usize {
        let mut spin = Spin::default();
        loop {
            let now = self.word.load(Ordering::Relaxed);
            if now & LOCKED == 0 {
                let then = change(now);
                if self.word.compare_exchange_weak(now, then, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return now;
                }
            } else if !spin.look_again() {
                thread::yield_now();
            }
        }
    }
}
