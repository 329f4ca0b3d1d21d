//! What a busy worker looks after between fibers.

use std::sync::atomic::Ordering;

use super::{ATTEND, Worker, posted};
use crate::runtime::Stage;

/// Picks from one look at the timers to the next.
const TIMERS_EVERY: u32 = 64;
/// Picks from one start of the oldest fresh fiber to the next: often enough for it, rarely enough for a fork-join tree,
/// of which every such start leaves more fibers alive.
const OLDEST_EVERY: u32 = 1024;
/// Picks from one call of the poll hook to the next, and what it may do at once.
const HOOK_EVERY: u32 = 256;
const HOOK_BUDGET: usize = 16;

impl Worker {
    /// Every so many picks: takes in what came from elsewhere, and lets those go first who have waited longest. False if the
    /// worker shall end: nobody waits any longer for the fibers that are left, not even for those that are always ready.
    #[cold]
    pub(super) fn attend(&self, picks: u32) -> bool {
        self.come_if_called();
        self.take_inbox();
        self.end_doubt();
        self.own(|own| own.fresh_first = !own.fresh_first);
        let is_turn = |every: u32| (picks / ATTEND).is_multiple_of(every / ATTEND);
        if is_turn(posted::EVERY) && self.posted_len() > 0 {
            self.test_conditions(posted::UNDER_LOAD);
        }
        if is_turn(TIMERS_EVERY) {
            self.fire_timers();
            self.shared().check_signal();
            if self.shared().stage() == Stage::Ended {
                return false;
            }
        }
        if is_turn(OLDEST_EVERY) {
            // What is in the lane is older still.
            if let Some(oldest) = self.lane.take().or_else(|| self.own(|own| own.fresh.pop_back())) {
                self.own(|own| own.ready.push(oldest));
            }
        }
        if is_turn(HOOK_EVERY) {
            self.read_clock();
            self.shared().poll(HOOK_BUDGET);
        }
        true
    }

    /// Stands still while somebody looks at the fibers. No fiber is on its stack.
    #[inline(always)]
    pub(super) fn come_if_called(&self) {
        let rendezvous = &self.shared().rendezvous;
        if rendezvous.is_called() {
            rendezvous.come(self.index);
        }
    }

    /// The clock as it was last read, in nanoseconds.
    #[inline(always)]
    pub(crate) fn clock(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    pub(super) fn read_clock(&self) {
        let now = u64::try_from(self.shared().clock().as_nanos()).unwrap_or(u64::MAX);
        self.clock.store(now, Ordering::Relaxed);
    }

    /// Takes in the fibers that others made ready. True if there were any.
    pub(super) fn take_inbox(&self) -> bool {
        if self.inbox.is_empty() {
            return false;
        }
        let mut came = self.inbox.take();
        while let Some(block) = came.pop_front() {
            self.own(|own| own.ready.push(block));
        }
        true
    }
}
