//! The end of a fiber, and those who wait for it.
//!
//! Algorithm: a flag, a count of joiners and two lists under one spin lock. Any number joins; the fiber's worker opens
//! the latch once the fiber has left its stack. The fiber itself may wait until enough joiners have come (the paper's
//! barrier by join count) and then ends, which lets them all go.

use std::time::Instant;

use weft_sync::SpinLock;
use weft_sync::face::atomic::{AtomicBool, Ordering};

use crate::wait::{Node, Outcome, Seat, WaitList, release};
use crate::why::Why;

pub(crate) struct Latch {
    is_open: AtomicBool,
    state: SpinLock<State>,
}

struct State {
    is_open: bool,
    is_refused: bool,
    joiners: usize,
    waiters: WaitList,
    /// How many joiners the fiber waits for, and the fiber.
    wanted: usize,
    watcher: WaitList,
}

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
        Self { is_open: AtomicBool::new(false), state: SpinLock::new(State::new()) }
    }

    /// Makes it as new. Nobody else has it.
    #[inline]
    pub(crate) fn reset(&self) {
        self.is_open.store(false, Ordering::Relaxed);
        *self.state.lock() = State::new();
    }

    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    pub(crate) fn joiners(&self) -> usize {
        self.state.lock().joiners
    }

    /// Lets all go who wait.
    #[inline]
    pub(crate) fn open(&self) {
        let mut state = self.state.lock();
        state.is_open = true;
        // The flag is for those who only look; those who wait are told by their words.
        self.is_open.store(true, Ordering::Release);
        let first = state.waiters.pop();
        let is_last = state.waiters.is_empty();
        drop(state);
        if let Some(first) = first {
            first.wake();
        }
        if !is_last {
            release(&self.state, |state| &mut state.waiters, usize::MAX);
        }
    }

    /// Waits until it is open.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Result<Outcome, Refusal> {
        let seat = Seat::take();
        let node = Node::new(&seat);
        let mut state = self.state.lock();
        if state.is_refused {
            return Err(Refusal::Detached);
        }
        if state.is_open {
            return Ok(Outcome::Signalled);
        }
        state.joiners += 1;
        // SAFETY: the node stays until the wait has ended, and is removed below unless it was popped.
        unsafe { state.waiters.push(&node) };
        let watcher = if state.joiners >= state.wanted { state.watcher.pop() } else { None };
        drop(state);
        if let Some(watcher) = watcher {
            watcher.wake();
        }
        let outcome = seat.wait(Why::Join, std::ptr::from_ref(self).addr(), deadline);
        if outcome != Outcome::Signalled {
            let mut state = self.state.lock();
            state.waiters.remove(&node);
            state.joiners -= 1;
        }
        Ok(outcome)
    }

    /// The fiber itself waits for so many joiners.
    pub(crate) fn wait_for_joiners(&self, wanted: usize) -> Outcome {
        let seat = Seat::take();
        let node = Node::new(&seat);
        let mut state = self.state.lock();
        if state.joiners >= wanted {
            return Outcome::Signalled;
        }
        state.wanted = wanted;
        // SAFETY: the node stays until the wait has ended, and is removed below unless it was popped.
        unsafe { state.watcher.push(&node) };
        drop(state);
        let outcome = seat.wait(Why::Joiners, std::ptr::from_ref(self).addr(), None);
        if outcome != Outcome::Signalled {
            self.state.lock().watcher.remove(&node);
        }
        outcome
    }

    /// From now on nobody may wait.
    pub(crate) fn refuse(&self) -> Result<(), Refusal> {
        let mut state = self.state.lock();
        let refusal = match (state.is_refused, state.is_open, state.joiners) {
            (true, ..) => Refusal::Detached,
            (_, true, _) => Refusal::Ended,
            (_, _, 1..) => Refusal::Joined,
            _ => {
                state.is_refused = true;
                return Ok(());
            }
        };
        Err(refusal)
    }

    /// From now on anybody may wait again.
    pub(crate) fn allow(&self) -> Result<(), Refusal> {
        let mut state = self.state.lock();
        if !state.is_refused {
            return Err(Refusal::Attached);
        }
        if state.is_open {
            return Err(Refusal::Ended);
        }
        state.is_refused = false;
        Ok(())
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.state.lock().is_refused
    }
}

impl State {
    const fn new() -> Self {
        Self {
            is_open: false,
            is_refused: false,
            joiners: 0,
            waiters: WaitList::new(),
            wanted: usize::MAX,
            watcher: WaitList::new(),
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn any_number_of_joiners_is_let_go() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let latch = Arc::new(Latch::new());
            let joiners: Vec<_> = (0..2)
                .map(|_| {
                    let latch = latch.clone();
                    loom::thread::spawn(move || assert_eq!(latch.wait(None), Ok(Outcome::Signalled)))
                })
                .collect();
            latch.open();
            joiners.into_iter().for_each(|joiner| joiner.join().unwrap());
            assert!(latch.is_open());
        });
    }

    #[test]
    fn a_fiber_that_waits_for_its_joiners_hears_of_the_last() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let latch = Arc::new(Latch::new());
            let joiners: Vec<_> = (0..2)
                .map(|_| {
                    let latch = latch.clone();
                    loom::thread::spawn(move || assert_eq!(latch.wait(None), Ok(Outcome::Signalled)))
                })
                .collect();
            assert_eq!(latch.wait_for_joiners(2), Outcome::Signalled);
            latch.open();
            joiners.into_iter().for_each(|joiner| joiner.join().unwrap());
        });
    }

    #[test]
    fn a_detach_and_a_join_never_both_succeed_while_the_fiber_runs() {
        loom::model(|| {
            let latch = Arc::new(Latch::new());
            let theirs = latch.clone();
            let joiner = loom::thread::spawn(move || theirs.wait(None));
            let refused = latch.refuse();
            latch.open();
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
