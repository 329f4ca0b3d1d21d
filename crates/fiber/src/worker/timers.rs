//! The deadlines of the fibers that sleep at one worker.
//!
//! They are the worker's own: a fiber that waits with a deadline wakes where it went to sleep, and takes its timer away
//! itself. So a timer that fires belongs to a wait that goes on, and no lock is needed.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use super::Worker;
use crate::block::Block;
use crate::wait::{Claim, claim, word};

/// A timer, by when it fires and a number that tells it from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timer(Instant, u64);

/// Timers in the order they fire.
pub(super) struct List {
    timers: BTreeMap<Timer, NonNull<Block>>,
    next: u64,
}

impl List {
    pub(super) fn new() -> Self {
        Self { timers: BTreeMap::new(), next: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }

    fn pop_due(&mut self, now: Instant) -> Option<NonNull<Block>> {
        let first = self.timers.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// The time until the first one fires.
    pub(super) fn left(&self) -> Option<Duration> {
        let (first, _) = self.timers.first_key_value()?;
        Some(first.0.saturating_duration_since(Instant::now()))
    }
}

impl Worker {
    /// Ends the wait of `block` at `deadline`, unless the timer is removed before.
    pub(crate) fn add_timer(&self, deadline: Instant, block: NonNull<Block>) -> Timer {
        self.own(|own| {
            own.timers.next += 1;
            let timer = Timer(deadline, own.timers.next);
            own.timers.timers.insert(timer, block);
            timer
        })
    }

    pub(crate) fn remove_timer(&self, timer: Timer) {
        self.own(|own| own.timers.timers.remove(&timer));
    }

    /// Wakes the fibers whose deadline has passed. True if there were any.
    pub(super) fn fire_timers(&self) -> bool {
        if self.own(|own| own.timers.is_empty()) {
            return false;
        }
        let now = Instant::now();
        let mut fired = false;
        while let Some(block) = self.own(|own| own.timers.pop_due(now)) {
            // SAFETY: the fiber sleeps here, or has been woken and not run yet; either way it lives.
            if claim(unsafe { block.as_ref() }.node.word(), word::TIMED_OUT) == Claim::Asleep {
                self.push(block);
            }
            fired = true;
        }
        fired
    }
}
