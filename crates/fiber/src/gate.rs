//! What mutexes, semaphores and parked fibers wait at: permits in one word, and a list of those who wait for one.
//!
//! Algorithm: the lower bits of the word count permits. QUEUED says that somebody waits; then a permit that is given goes to
//! the first who waits: it is handed over, so nobody overtakes and no wake is vain. LOCKED is the list's lock. While nobody
//! waits, taking is one exchange and giving one addition. A mutex is a gate with one permit.
//!
//! A word with a flag is negative, so who adds learns of flags by the sign of the sum, which an addition in memory leaves in
//! the processor's flags; the sum itself would take a dearer instruction.
//!
//! Races:
//! * Who gives looks at the flags and then adds, so it may add after a flag was set. It sees that in what the addition returns,
//!   and hands the permit over that it left in the word ([`Gate::settle`]); until then nobody takes it, since QUEUED is set,
//!   or somebody found it after QUEUED was gone. So LOCKED is freed by an addition, too.
//! * Who would take, hand over or queue while LOCKED is set looks again, and gives its processor away after some looks.

use std::time::Instant;

use weft_sync::face::atomic::{AtomicIsize, Ordering};
use weft_sync::face::{Spin, UnsafeCell, thread};

use crate::wait::{Node, Outcome, Seat, WaitList, Woken};
use crate::why::Why;

/// Both flags have the sign.
const LOCKED: isize = isize::MIN | 1 << (isize::BITS - 2);
const QUEUED: isize = isize::MIN | 1 << (isize::BITS - 3);
const FLAGS: isize = LOCKED | QUEUED;

/// The most permits there can be. Additions that meet at the limit may pass it; there is room for them.
pub(crate) const PERMITS_MAX: usize = (isize::MAX >> 4).cast_unsigned();

pub(crate) struct Gate {
    word: AtomicIsize,
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
        Self { word: AtomicIsize::new(permits.cast_signed()), waiters: UnsafeCell::new(WaitList::new()) }
    }

    /// A gate with so many permits.
    #[cfg(loom)]
    pub(crate) fn new(permits: usize) -> Self {
        Self { word: AtomicIsize::new(permits.cast_signed()), waiters: UnsafeCell::new(WaitList::new()) }
    }

    /// The permits nobody has taken.
    pub(crate) fn permits(&self) -> usize {
        permits(self.word.load(Ordering::Relaxed)).cast_unsigned()
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
        while now > 0 {
            match self.word.compare_exchange_weak(now, now - 1, Ordering::Acquire, Ordering::Relaxed) {
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
        self.word.compare_exchange(1, 0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives the permit of a gate that never has more than one.
    #[inline(always)]
    pub(crate) fn give_only(&self) {
        if self.word.load(Ordering::Relaxed) == 0 { self.add() } else { self.hand_over(1) }
    }

    /// Waits for a permit and takes it, or says what else ended the wait.
    #[inline(never)]
    pub(crate) fn wait(&self, why: Why, deadline: Option<Instant>) -> Outcome {
        self.wait_at(why, std::ptr::from_ref(self).addr(), deadline)
    }

    /// The same for a gate that is part of something else, whose address listings show.
    #[inline(always)]
    pub(crate) fn wait_at(&self, why: Why, object: usize, deadline: Option<Instant>) -> Outcome {
        let seat = Seat::take();
        let node = seat.node();
        let now = self.lock();
        // A permit that somebody waits for is theirs.
        if permits(now) > 0 && !is_queued(now) {
            self.unlock(now, permits(now) - 1, false);
            return Outcome::Signalled;
        }
        // SAFETY: the node stays until the wait has ended, and is removed unless it was popped.
        self.with_list(|list| unsafe { list.push(node) });
        self.unlock(now, permits(now), true);
        let outcome = seat.wait(why, object, deadline);
        if outcome != Outcome::Signalled {
            self.leave(node);
        }
        outcome
    }

    /// Gives a permit to the first who waits, or keeps it if there is room.
    #[inline]
    pub(crate) fn give(&self) {
        let now = self.word.load(Ordering::Relaxed);
        if (0..PERMITS_MAX.cast_signed()).contains(&now) { self.add() } else { self.hand_over(PERMITS_MAX) }
    }

    /// Gives a permit to the first who waits, or keeps it if there is none. The word is written in any case: who takes the permit
    /// sees what was done before the last who gave it.
    #[cfg(any(test, not(loom)))]
    #[inline]
    pub(crate) fn give_one(&self) {
        let mut now = self.word.load(Ordering::Relaxed);
        while now >= 0 {
            match self.word.compare_exchange_weak(now, 1, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => now = other,
            }
        }
        self.hand_over(1);
    }

    /// Adds a permit to a word that had no flags a moment ago.
    #[inline(always)]
    fn add(&self) {
        if self.word.fetch_add(1, Ordering::Release) + 1 < 0 {
            self.settle();
        }
    }

    /// Gives a permit that is not in the word.
    #[inline(never)]
    fn hand_over(&self, limit: usize) {
        let now = self.lock();
        let (next, is_queued) = self.pop();
        let Some(next) = next else {
            let kept = if permits(now) < limit.cast_signed() { permits(now) + 1 } else { permits(now) };
            return self.unlock(now, kept, false);
        };
        self.unlock(now, permits(now), is_queued);
        next.wake();
    }

    /// A permit was added while somebody came or left: gives it to the first who waits, if it is still there.
    #[cold]
    #[inline(never)]
    fn settle(&self) {
        let now = self.lock();
        let there = permits(now);
        if there == 0 {
            return self.unlock(now, 0, is_queued(now));
        }
        let (next, is_queued) = self.pop();
        let Some(next) = next else { return self.unlock(now, there, false) };
        self.unlock(now, there - 1, is_queued);
        next.wake();
    }

    /// The first whose wait goes on, which ends, and whether others wait. The caller has locked the list.
    #[inline(always)]
    fn pop(&self) -> (Option<Woken>, bool) {
        self.with_list(|list| (list.pop(), !list.is_empty()))
    }

    /// A wait has ended without a permit.
    #[cold]
    fn leave(&self, node: &Node) {
        let now = self.lock();
        let is_last = self.with_list(|list| {
            list.remove(node);
            list.is_empty()
        });
        self.unlock(now, permits(now), !is_last);
    }

    /// The list. The caller has locked it.
    #[inline(always)]
    fn with_list<R>(&self, use_it: impl FnOnce(&mut WaitList) -> R) -> R {
        // SAFETY: the caller has set LOCKED, and nobody else touches the list until it is taken back.
        self.waiters.with_mut(|list| use_it(unsafe { &mut *list }))
    }

    /// Locks the list; returns what the word was.
    #[inline(always)]
    fn lock(&self) -> isize {
        self.try_lock().unwrap_or_else(|| self.lock_later())
    }

    /// Unlocks the list that was locked when the word was `before`. There are `permits` now, and those that were added
    /// meanwhile.
    #[inline(always)]
    fn unlock(&self, before: isize, permits: isize, is_queued: bool) {
        let then = if is_queued { permits | QUEUED } else { permits };
        self.word.fetch_add(then.wrapping_sub(before | LOCKED), Ordering::Release);
    }

    #[cold]
    #[inline(never)]
    fn lock_later(&self) -> isize {
        let mut spin = Spin::default();
        loop {
            if let Some(now) = self.try_lock() {
                return now;
            }
            if !spin.look_again() {
                thread::yield_now();
            }
        }
    }

    #[inline(always)]
    fn try_lock(&self) -> Option<isize> {
        let now = self.word.load(Ordering::Relaxed);
        let is_ours = now & LOCKED != LOCKED
            && self.word.compare_exchange(now, now | LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok();
        is_ours.then_some(now)
    }
}

/// The permits of a word.
fn permits(word: isize) -> isize {
    word & !FLAGS
}

/// Whether somebody waits, by a word.
fn is_queued(word: isize) -> bool {
    word & QUEUED == QUEUED
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, Ordering};
    use weft_sync::models::model;

    use super::Gate;
    use crate::wait::Outcome;
    use crate::why::Why;

    /// Who waits for two things, each said by a wake of its own, does not miss the second although the first was not taken yet.
    #[test]
    fn a_wake_upon_a_wake_is_not_lost() {
        model(2, || {
            let shared = Arc::new((Gate::new(0), [AtomicBool::new(false), AtomicBool::new(false)]));
            let theirs = shared.clone();
            let waker = loom::thread::spawn(move || {
                for done in &theirs.1 {
                    done.store(true, Ordering::Relaxed);
                    theirs.0.give_one();
                }
            });
            let (gate, things) = &*shared;
            while !things.iter().all(|done| done.load(Ordering::Relaxed)) {
                assert!(gate.try_take() || gate.wait(Why::Park, None) == Outcome::Signalled);
            }
            waker.join().unwrap();
        });
    }
}
