//! How a fiber waits, and how the threads that run fibers make progress while nothing else is to be done.
//!
//! A fiber that waits leaves its waker with the slot, as a task does, and parks; its thread runs others. Threads without a
//! fiber to run poll the ports at which fibers wait, and then *rest* there: one of them becomes the leader, as a blocked
//! thread would, the others follow. Where no thread of the scheduler rests, the service thread watches over the port.
//!
//! Races: as in `sleep`. A sleeper is called before its driver is woken, and looks whether it was after others can see
//! that it sleeps.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task;
use std::time::Duration;

use weft_sync::scheduler::{Awaited, Driver, Scheduler, Sleeper, Wait};

use crate::clock;
use crate::core::Core;
use crate::port::{LEADERS_PAUSE, Port, TURNS_AWAITED};
use crate::progress::Condition;
use crate::runner::Runner;
use crate::waiters::{Interest, Waiters};

/// A port, as the scheduler of fibers knows it. It does not keep the engine.
pub(crate) struct PortDriver {
    core: Weak<Core>,
    index: usize,
}

impl PortDriver {
    /// The drivers of so many ports.
    pub(crate) fn of_ports(core: &Weak<Core>, ports: usize) -> Box<[Arc<dyn Driver>]> {
        let driver = |index| Arc::new(Self { core: core.clone(), index }) as Arc<dyn Driver>;
        (0..ports).map(driver).collect()
    }

    /// Calls `use_it` with the port, unless the engine has ended.
    fn with<R: Default>(&self, use_it: impl FnOnce(&Core, &Port) -> R) -> R {
        let core = self.core.upgrade().filter(|core| !core.is_stopping.load(Ordering::SeqCst));
        core.map(|core| use_it(&core, core.port(self.index))).unwrap_or_default()
    }
}

impl Driver for PortDriver {
    fn poll(&self, budget: usize) -> usize {
        self.with(|core, port| core.try_turn_of(port, Runner::User, clock::now(), budget).unwrap_or(0))
    }

    fn rest(&self, sleeper: &Sleeper<'_>, limit: Option<Duration>) {
        self.with(|core, port| core.rest(port, sleeper, limit));
    }

    fn wake(&self) {
        self.with(|_, port| port.signal().raise());
    }

    fn watch(&self) {
        self.with(|_, port| port.watch());
    }
}

impl Core {
    /// Blocks the fiber that `waker` wakes until the condition holds. False when the deadline passed first.
    pub(crate) fn wait_on_fiber(
        &self,
        home: &impl Fn() -> usize,
        condition: Condition<'_>,
        scheduler: &dyn Scheduler,
        waker: &task::Waker,
    ) -> bool {
        let _left = Left(condition.waiters, waker);
        loop {
            condition.waiters.register(condition.interest, waker);
            let now = clock::now();
            if let Some(outcome) = condition.outcome(now) {
                return outcome;
            }
            let port = self.port(home());
            port.ask_for_lead();
            scheduler.park(&Wait {
                awaited: awaited(condition.interest),
                object: std::ptr::from_ref(condition.waiters).addr(),
                timeout: condition.deadline.map(|deadline| deadline.saturating_since(now)),
                driver: &self.drivers[port.index],
            });
        }
    }

    /// Leads, or waits for the lead.
    fn rest(&self, port: &Port, sleeper: &Sleeper<'_>, limit: Option<Duration>) {
        let is_called = || (sleeper.is_called)() || self.is_stopping.load(Ordering::SeqCst);
        let begin = clock::now();
        let until = limit.map(|limit| begin + limit);
        // What its fibers wait for is not known here.
        let _urgent = port.inflow.be_urgent();
        let lead = port.try_lead().or_else(|| {
            let ticket = port.follow(sleeper.waker.clone(), begin);
            if port.is_led() && !is_called() {
                limit.map_or_else(
                    || sleeper.parker.park(),
                    |limit| {
                        sleeper.parker.park_timeout(limit);
                    },
                );
            }
            port.unfollow(ticket)
        });
        let Some(lead) = lead else { return };
        let mut kept_out = 0;
        loop {
            let taken = self.try_turn(port, Runner::User, clock::now());
            kept_out = if taken.is_some() { 0 } else { kept_out + 1 };
            let now = clock::now();
            if is_called() || until.is_some_and(|until| now >= until) {
                return;
            }
            match kept_out {
                0 => {
                    self.settle_timers(port, now);
                    lead.sleep(now, until, is_called);
                }
                // As for a thread that leads: the link stays readable, and to sleep on it takes no time.
                1..=TURNS_AWAITED => std::thread::yield_now(),
                _ => lead.pause(LEADERS_PAUSE, now, until),
            }
        }
    }
}

/// Takes the waker back when the wait is over, also if the fiber unwinds.
struct Left<'a>(&'a Waiters, &'a task::Waker);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        self.0.forget(self.1);
    }
}

fn awaited(interest: Interest) -> Awaited {
    match interest {
        Interest::Readable | Interest::RestReadable => Awaited::Readable,
        Interest::Writable | Interest::RestWritable => Awaited::Writable,
        Interest::Connected => Awaited::Connected,
        Interest::Closed => Awaited::Closed,
    }
}
