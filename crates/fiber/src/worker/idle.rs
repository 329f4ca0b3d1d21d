//! A worker without a fiber: it looks around, then sleeps.
//!
//! It looks at its inbox, at the lanes of the others, at its timers and posted conditions, and calls the poll hook with a
//! large budget: polling is what an idle worker is for. When that has brought nothing for a while, the worker sleeps. If
//! something must be polled it sleeps for a short time only, growing from one nap to the next; else until it is woken.
//!
//! While fibers wait for a transport, its driver is polled as the hook is, and the worker sleeps in the driver, where packets
//! wake it.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weft_sync::face;
use weft_sync::scheduler::{Driver, Sleeper};

use super::Worker;
use crate::block::Block;
use crate::runtime::Stage;

/// What the poll hook may do at once when nothing else is to be done.
const HOOK_BUDGET: usize = 256;
/// Conditions tested before the worker looks for fibers again.
const CONDITIONS: usize = 256;
/// The first and the longest nap of a worker that must poll.
const NAP_MIN: Duration = Duration::from_micros(50);
const NAP_MAX: Duration = Duration::from_millis(1);
/// A sleep of less than this might have been none, had the worker looked on.
const LIVELY: Duration = Duration::from_micros(200);
/// A worker that sleeps so long, and all others too, looks whether this is a deadlock.
const QUIET: Duration = Duration::from_millis(200);

impl Worker {
    /// The next fiber; `None` when the worker shall end.
    #[cold]
    pub(super) fn wait_for_work(&self) -> Option<NonNull<Block>> {
        let shared = self.shared();
        shared.hungry.fetch_add(1, Ordering::Relaxed);
        let mut nap = NAP_MIN;
        let found = loop {
            if shared.stage() == Stage::Ended {
                break None;
            }
            if let Some(block) = self.search() {
                break Some(block);
            }
            self.come_if_called();
            let begin = Instant::now();
            self.sleep(&mut nap);
            self.adapt_looks(begin.elapsed() < LIVELY);
            self.read_clock();
        };
        shared.hungry.fetch_sub(1, Ordering::Relaxed);
        found
    }

    /// Looks around for a while.
    fn search(&self) -> Option<NonNull<Block>> {
        let mut looks = 0;
        let most = self.own(|own| own.looks).min(self.shared().spins);
        while looks < most {
            self.come_if_called();
            let found = self.take_inbox() | self.end_doubt();
            // In this order: what holds when its deadline is found to have passed holds in time.
            let found = found | self.test_conditions(CONDITIONS) | self.fire_timers();
            if found {
                return self.pick_any();
            }
            if let Some(block) = self.steal() {
                return Some(block);
            }
            looks = if self.shared().poll(HOOK_BUDGET) > 0 { 0 } else { looks + 1 };
            if let Some(block) = self.pick_any() {
                return Some(block);
            }
            if self.shared().stage() == Stage::Ended {
                return None;
            }
            face::spin_hint();
        }
        None
    }

    /// After a short sleep the worker looks around for as long as it may before the next one: the sleep and the waking may be
    /// what made the wait so long. After a longer one it looks half as often, down to a sixteenth, and once at least.
    fn adapt_looks(&self, is_lively: bool) {
        let most = self.shared().spins;
        self.own(|own| {
            own.looks = if is_lively { most } else { (own.looks.min(most) / 2).max(most / 16).max(1) }
        });
    }

    fn pick_any(&self) -> Option<NonNull<Block>> {
        self.own(|own| own.ready.pop().or_else(|| own.fresh.pop_front())).or_else(|| self.lane.take())
    }

    /// Takes half of another worker's lane, from the next one on round. The oldest is run here; the others are on offer again, as
    /// it may take long.
    fn steal(&self) -> Option<NonNull<Block>> {
        let workers = &self.shared().workers;
        let others = (1..workers.len()).map(|offset| &workers[(self.index + offset) % workers.len()]);
        let mut loot = others.map(|other| other.lane.steal()).find(|loot| !loot.is_empty())?;
        let first = loot.pop_front();
        if !loot.is_empty() {
            self.lane.give_all(loot);
            self.shared().wake_a_sleeper();
        }
        first
    }

    /// Sleeps until woken, or as long as nothing needs to be polled.
    fn sleep(&self, nap: &mut Duration) {
        let shared = self.shared();
        let driver = shared.drivers.nth(self.index);
        let sleep = |driver: Option<&Arc<dyn Driver>>, is_called: &dyn Fn() -> bool| {
            let limit = self.nap_limit(nap);
            match driver {
                Some(driver) => self.rest(&**driver, is_called, limit),
                None => self.sleep_alone(limit),
            }
        };
        self.place.sleep(driver.as_ref(), || self.has_news(), sleep);
    }

    /// Whether there is something to do.
    fn has_news(&self) -> bool {
        let shared = self.shared();
        !self.inbox.is_empty()
            || self.own(|own| !own.ready.is_empty() || !own.fresh.is_empty())
            || shared.workers.iter().any(|worker| worker.lane.len() > 0)
            || shared.rendezvous.is_called()
            || shared.stage() == Stage::Ended
    }

    /// Sleeps where the transport's packets come in. The other transports look after themselves meanwhile.
    fn rest(&self, driver: &dyn Driver, is_called: &dyn Fn() -> bool, limit: Option<Duration>) {
        let shared = self.shared();
        for other in (1..shared.drivers.len()).filter_map(|offset| shared.drivers.nth(self.index + offset)) {
            other.watch();
        }
        let Some(parker) = self.own(|own| own.parker.take()) else { return };
        let waker = self.own(|own| own.waker.clone());
        let sleeper = Sleeper { parker: &parker, waker: &waker, is_called };
        driver.rest(&sleeper, Some(limit.map_or(QUIET, |limit| limit.min(QUIET))));
        self.own(|own| own.parker = Some(parker));
        shared.check_signal();
    }

    fn sleep_alone(&self, limit: Option<Duration>) {
        let shared = self.shared();
        let is_woken = self.park(limit.unwrap_or(QUIET));
        if !is_woken && limit.is_none() {
            shared.check_signal();
            shared.report_deadlock();
            self.park_until_woken();
        }
    }

    /// How long the worker may sleep: not beyond its first timer, and shortly if it must poll.
    fn nap_limit(&self, nap: &mut Duration) -> Option<Duration> {
        let mut limit = self.own(|own| own.timers.left());
        if self.posted_len() > 0 || self.shared().has_hook() {
            limit = Some(limit.map_or(*nap, |left| left.min(*nap)));
            *nap = (*nap * 2).min(NAP_MAX);
        }
        limit
    }

    fn park(&self, timeout: Duration) -> bool {
        self.own(|own| own.parker.as_ref().is_some_and(|parker| parker.park_timeout(timeout)))
    }

    fn park_until_woken(&self) {
        while !self.park(QUIET) {
            self.shared().check_signal();
        }
    }
}
