//! How many refer to a fiber: itself, its handle, and whoever has a [`Fiber`](crate::Fiber) or a waker of it.
//!
//! Races: who gives a reference up releases what it did, and who finds itself alone, or alone with the fiber, acquires it. Only
//! who has a reference makes another one; so who has the only one keeps it without an exchange.

use weft_sync::face::atomic::{AtomicU32, Ordering};

pub(crate) struct Refs(AtomicU32);

impl Refs {
    /// None, as for a region without a fiber.
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// One for a new fiber itself, one for its handle.
    #[inline(always)]
    pub(crate) fn reset(&self) {
        self.0.store(2, Ordering::Relaxed);
    }

    /// One more, made by who has one.
    pub(crate) fn share(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One less. True if it was the last.
    #[inline(always)]
    pub(crate) fn give_up(&self) -> bool {
        self.0.load(Ordering::Acquire) == 1 || self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// One of two less, both of which the caller has; false if there are more.
    #[inline(always)]
    pub(crate) fn give_up_alone(&self) -> bool {
        let is_alone = self.0.load(Ordering::Acquire) == 2;
        if is_alone {
            self.0.store(1, Ordering::Relaxed);
        }
        is_alone
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::latch::{Latch, Refusal};
    use crate::wait::Outcome;
    use loom::sync::Arc;

    #[test]
    fn a_fiber_that_its_joiner_runs_is_detached_or_joined_and_freed_once() {
        loom::model(|| {
            let shared = Arc::new((Refs::new(), Latch::new()));
            shared.0.reset();
            shared.0.share();
            let theirs = shared.clone();
            let other = loom::thread::spawn(move || (theirs.1.refuse(), theirs.0.give_up()));
            let (refs, latch) = &*shared;
            let is_announced = latch.announce();
            // The fiber ends, as its worker sees to it.
            let ends_detached = if refs.give_up_alone() {
                latch.open_alone()
            } else {
                let ends_detached = latch.open();
                assert!(!refs.give_up(), "the handle refers to it");
                ends_detached
            };
            let joined = if is_announced { latch.wait_announced() } else { latch.wait(None) };
            let frees = refs.give_up();
            let (refused, they_free) = other.join().unwrap();
            assert!(frees != they_free, "freed twice or never");
            assert_eq!(ends_detached, refused.is_ok());
            match refused {
                Ok(()) => assert_eq!(joined, Err(Refusal::Detached)),
                Err(Refusal::Joined | Refusal::Ended) => assert_eq!(joined, Ok(Outcome::Signalled)),
                Err(refusal) => panic!("{refusal:?}"),
            }
        });
    }
}
