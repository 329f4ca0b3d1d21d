//! The end of a fiber, and those who wait for it.
//!
//! Algorithm: flags in one word, one of which locks a count of joiners and two lists. Any number joins; the fiber's worker
//! opens the latch once the fiber has left its stack, by one exchange if nobody waits. The fiber itself may wait until
//! enough joiners have come (the paper's barrier by join count) and then ends, which lets them all go.
//!
//! Races: while LOCKED is set nobody else changes the word. OPEN is never taken back, so who sees it need not lock.

use std::time::Instant;

use weft_sync::face::atomic::{AtomicU32, AtomicUsize, Ordering};
use weft_sync::face::{Spin, UnsafeCell, thread};

use crate::wait::{Outcome, Seat, WaitList, release};
use crate::why::Why;

const LOCKED: u32 = 1;
/// The fiber has ended.
const OPEN: u32 = 2;
/// The fiber is detached.
const REFUSED: u32 = 4;
/// Somebody waits.
const QUEUED: u32 = 8;

pub(crate) struct Latch {
    word: AtomicU32,
    /// How many wait for the end. Changed with the lists locked, and looked at by anybody: a listing may come by while the
    /// latch is made as new, so it must not lock.
    joiners: AtomicUsize,
    state: UnsafeCell<State>,
}

struct State {
    waiters: WaitList,
    /// How many joiners the fiber waits for, and the fiber.
    wanted: usize,
    watcher: WaitList,
}

// SAFETY: the state is touched only by whoever has set LOCKED.
unsafe impl Sync for Latch {}
// SAFETY: a latch that changes threads has nobody waiting.
unsafe impl Send for Latch {}

/// Why nobody may wait for a fiber, or stop others from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is detached.
    Detached,
    /// It has joiners.
    Joined,
    /// It is attached.
    Attached,
    /// It has ended.
    Ended,
}

impl Latch {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU32::new(0), joiners: AtomicUsize::new(0), state: UnsafeCell::new(State::new()) }
    }

    /// Makes it as new. Nobody else has it, and nobody waits, so the lists are empty.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn reset(&self) {
        self.word.store(0, Ordering::Relaxed);
        self.joiners.store(0, Ordering::Relaxed);
    }

    /// Counts the only one who ever joins, before it waits: so nobody detaches the fiber meanwhile. False if it is detached
    /// or has ended, or is being detached.
    #[inline(always)]
    pub(crate) fn announce(&self) -> bool {
        let can_wait = self.word.load(Ordering::Relaxed) == 0;
        if can_wait {
            self.joiners.store(1, Ordering::Relaxed);
        }
        can_wait
    }

    /// Opens it for a joiner who has announced itself, does not wait yet, and is the only one to refer to the fiber. True if
    /// the fiber ends as a detached one.
    #[inline(always)]
    #[must_use]
    pub(crate) fn open_alone(&self) -> bool {
        let now = self.word.load(Ordering::Relaxed);
        self.word.store(now | OPEN, Ordering::Relaxed);
        now & REFUSED != 0
    }

    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.word.load(Ordering::Acquire) & OPEN != 0
    }

    #[inline]
    pub(crate) fn is_refused(&self) -> bool {
        self.word.load(Ordering::Relaxed) & REFUSED != 0
    }

    pub(crate) fn joiners(&self) -> usize {
        self.joiners.load(Ordering::Relaxed)
    }

    /// Lets all go who wait. True if the fiber ends as a detached one, which nobody changes from then on.
    #[inline]
    #[must_use]
    pub(crate) fn open(&self) -> bool {
        let now = self.word.load(Ordering::Relaxed);
        if now & (LOCKED | QUEUED) == 0
            && self.word.compare_exchange(now, now | OPEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            return now & REFUSED != 0;
        }
        self.open_and_wake()
    }

    #[inline(always)]
    fn open_and_wake(&self) -> bool {
        let (first, is_last, is_refused) = self.locked(|state, word| {
            let first = state.waiters.pop();
            ((first, state.waiters.is_empty(), word & REFUSED != 0), word & !QUEUED | OPEN)
        });
        if let Some(first) = first {
            first.wake();
        }
        if !is_last {
            self.wake_others();
        }
        is_refused
    }

    #[cold]
    #[inline(never)]
    fn wake_others(&self) {
        release(|| self.locked(|state, word| (state.waiters.pop_batch(usize::MAX), word)));
    }

    /// Waits until it is open.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Result<Outcome, Refusal> {
        self.wait_as(1, deadline)
    }

    /// The same, for the joiner who has announced itself.
    #[cold]
    pub(crate) fn wait_announced(&self) -> Result<Outcome, Refusal> {
        self.wait_as(0, None)
    }

    /// Waits as so many joiners that are not counted yet: one, or none.
    fn wait_as(&self, uncounted: usize, deadline: Option<Instant>) -> Result<Outcome, Refusal> {
        let seat = Seat::take();
        let node = seat.node();
        let queued = self.locked(|state, word| match word {
            _ if word & REFUSED != 0 => {
                self.joiners.store(self.joiners() + uncounted - 1, Ordering::Relaxed);
                (Err(Refusal::Detached), word)
            }
            _ if word & OPEN != 0 => (Ok(None), word),
            _ => {
                let joiners = self.joiners() + uncounted;
                self.joiners.store(joiners, Ordering::Relaxed);
                // SAFETY: the node stays until the wait has ended, and is removed below unless it was popped.
                unsafe { state.waiters.push(node) };
                let is_enough = joiners >= state.wanted;
                (Ok(Some(if is_enough { state.watcher.pop() } else { None })), word | QUEUED)
            }
        });
        let Some(watcher) = queued? else { return Ok(Outcome::Signalled) };
        if let Some(watcher) = watcher {
            watcher.wake();
        }
        let outcome = seat.wait(Why::Join, std::ptr::from_ref(self).addr(), deadline);
        if outcome != Outcome::Signalled {
            self.locked(|state, word| {
                state.waiters.remove(node);
                self.joiners.store(self.joiners() - 1, Ordering::Relaxed);
                ((), word)
            });
        }
        Ok(outcome)
    }

    /// The fiber itself waits for so many joiners.
    pub(crate) fn wait_for_joiners(&self, wanted: usize) -> Outcome {
        let seat = Seat::take();
        let node = seat.node();
        let has_come = self.locked(|state, word| {
            state.wanted = wanted;
            let has_come = self.joiners() >= wanted;
            if !has_come {
                // SAFETY: the node stays until the wait has ended, and is removed below unless it was popped.
                unsafe { state.watcher.push(node) };
            }
            (has_come, word)
        });
        if has_come {
            return Outcome::Signalled;
        }
        let outcome = seat.wait(Why::Joiners, std::ptr::from_ref(self).addr(), None);
        if outcome != Outcome::Signalled {
            self.locked(|state, word| (state.watcher.remove(node), word));
        }
        outcome
    }

    /// From now on nobody may wait.
    pub(crate) fn refuse(&self) -> Result<(), Refusal> {
        self.locked(|_, word| match word {
            _ if word & REFUSED != 0 => (Err(Refusal::Detached), word),
            _ if word & OPEN != 0 => (Err(Refusal::Ended), word),
            _ if self.joiners() > 0 => (Err(Refusal::Joined), word),
            _ => (Ok(()), word | REFUSED),
        })
    }

    /// From now on anybody may wait again.
    pub(crate) fn allow(&self) -> Result<(), Refusal> {
        self.locked(|_, word| match word {
            _ if word & REFUSED == 0 => (Err(Refusal::Attached), word),
            _ if word & OPEN != 0 => (Err(Refusal::Ended), word),
            _ => (Ok(()), word & !REFUSED),
        })
    }

    /// Runs `change` with the lists locked; it is told the word, and returns what it shall be.
    #[inline(always)]
    fn locked<R>(&self, change: impl FnOnce(&mut State, u32) -> (R, u32)) -> R {
        let now = self.try_lock().unwrap_or_else(|| self.lock_later());
        // SAFETY: LOCKED is set, by this call.
        let (result, then) = self.state.with_mut(|state| change(unsafe { &mut *state }, now));
        self.word.store(then, Ordering::Release);
        result
    }

    /// Locks the lists unless somebody else has; returns what the word was.
    #[inline(always)]
    fn try_lock(&self) -> Option<u32> {
        let now = self.word.load(Ordering::Relaxed);
        let is_ours = now & LOCKED == 0
            && self.word.compare_exchange(now, now | LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok();
        is_ours.then_some(now)
    }

    #[cold]
    #[inline(never)]
    fn lock_later(&self) -> u32 {
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
}

impl State {
    const fn new() -> Self {
        Self { waiters: WaitList::new(), wanted: usize::MAX, watcher: WaitList::new() }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use weft_sync::models::model;

    #[test]
    fn any_number_of_joiners_is_let_go() {
        model(2, || {
            let latch = Arc::new(Latch::new());
            let joiners: Vec<_> = (0..2)
                .map(|_| {
                    let latch = latch.clone();
                    loom::thread::spawn(move || assert_eq!(latch.wait(None), Ok(Outcome::Signalled)))
                })
                .collect();
            assert!(!latch.open());
            joiners.into_iter().for_each(|joiner| joiner.join().unwrap());
            assert!(latch.is_open());
        });
    }

    #[test]
    fn a_fiber_that_waits_for_its_joiner_hears_of_it() {
        model(2, || {
            let latch = Arc::new(Latch::new());
            let theirs = latch.clone();
            let joiner = loom::thread::spawn(move || assert_eq!(theirs.wait(None), Ok(Outcome::Signalled)));
            assert_eq!(latch.wait_for_joiners(1), Outcome::Signalled);
            assert!(!latch.open());
            joiner.join().unwrap();
        });
    }

    #[test]
    fn what_the_opening_says_of_the_fiber_stays_so() {
        loom::model(|| {
            let latch = Arc::new(Latch::new());
            let theirs = latch.clone();
            let other = loom::thread::spawn(move || (theirs.refuse(), theirs.allow()));
            let ends_detached = latch.open();
            let is_detached = match other.join().unwrap() {
                (Ok(()), Err(Refusal::Ended)) => true,
                (Ok(()), Ok(())) | (Err(Refusal::Ended), Err(Refusal::Attached)) => false,
                others => panic!("{others:?}"),
            };
            assert_eq!((ends_detached, latch.is_refused()), (is_detached, is_detached));
        });
    }

    #[test]
    fn a_detach_and_a_join_never_both_succeed_while_the_fiber_runs() {
        loom::model(|| {
            let latch = Arc::new(Latch::new());
            let theirs = latch.clone();
            let joiner = loom::thread::spawn(move || theirs.wait(None));
            let refused = latch.refuse();
            assert_eq!(latch.open(), refused.is_ok());
            let joined = joiner.join().unwrap();
            match refused {
                Ok(()) => assert_eq!(joined, Err(Refusal::Detached)),
                Err(refusal) => {
                    assert_eq!((refusal, joined), (Refusal::Joined, Ok(Outcome::Signalled)));
                }
            }
        });
    }
}
