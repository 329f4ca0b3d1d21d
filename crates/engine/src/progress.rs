//! How a thread waits: it works, then it sleeps (see `sleep`).
//!
//! Algorithm: a thread whose condition does not hold runs turns itself for a bounded time (the spin), and then sleeps.
//!
//! The spin adapts to how long waits take in the end: after one of less than [`LIVELY`] the next may spin up to the limit
//! of the settings, as sleeping and waking may be what made it so long; after a longer one the spin halves, down to a
//! sixty-fourth. So a conversation never falls asleep for good, and a thread that waits for minutes burns microseconds.
//!
//! While a port is flooded (see `inflow`) who finds nothing dozes instead of polling on; who waits for room to send may doze first (see `outflow`).

use std::sync::atomic::Ordering;
use std::time::Duration;

use weft_base::{Instant, Service};
use weft_sync::scheduler;

use crate::binding::Binding;
use crate::clock;
use crate::core::Core;
use crate::offer::{is_wanted, may_poll, poll_again};
use crate::outflow::doze_for_room;
use crate::port::Port;
use crate::runner::{Runner, WAITERS_LOOKS};
use crate::slot::Slot;
use crate::waiters::{Interest, Waiters};

/// A wait of less than this might have ended within a spin, had neither end slept.
const LIVELY: Duration = Duration::from_micros(200);

/// Something to wait for at a slot or a listener.
#[derive(Clone, Copy)]
pub(crate) struct Condition<'a> {
    pub(crate) waiters: &'a Waiters,
    pub(crate) interest: Interest,
    pub(crate) deadline: Option<Instant>,
    /// The slot, where it is one.
    pub(crate) slot: Option<&'a Slot>,
}

impl<'a> Condition<'a> {
    #[inline]
    pub(crate) fn of_slot(slot: &'a Slot, interest: Interest, deadline: Option<Instant>) -> Self {
        Self { waiters: &slot.waiters, interest, deadline, slot: Some(slot) }
    }

    /// Whether it is to be seen at once, also beside a stream that comes slowly (see `inflow`): a message, or the open.
    fn is_urgent(&self) -> bool {
        match self.interest {
            Interest::Readable | Interest::RestReadable => {
                self.slot.is_some_and(|slot| slot.service() == Service::Datagram)
            }
            Interest::Connected => true,
            Interest::Writable | Interest::RestWritable | Interest::Closed => false,
        }
    }

    #[inline]
    pub(crate) fn holds(&self) -> bool {
        self.waiters.is_ready(self.interest)
    }

    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// Whether it holds, or `None` while neither that is so nor the deadline has passed. It is looked at once: a moment later
    /// another waiter may have used it up, and this one would have waited in vain without a deadline.
    pub(crate) fn outcome(&self, now: Instant) -> Option<bool> {
        if self.holds() { Some(true) } else { self.is_late(now).then_some(false) }
    }
}

/// A wait of a thread.
pub(crate) struct Wait<'a, 'b> {
    pub(crate) condition: Condition<'a>,
    /// Where the message is to go that it waits for.
    binding: Option<&'a mut Binding<'b>>,
    pub(crate) begin: Instant,
    /// When the last doze began that no turn has followed yet, and how many packets had come before it.
    dozed_at: Option<(Instant, u64)>,
}

impl<'a, 'b> Wait<'a, 'b> {
    /// It begins now.
    pub(crate) fn new(condition: Condition<'a>, binding: Option<&'a mut Binding<'b>>) -> Self {
        Self { condition, binding, begin: clock::now(), dozed_at: None }
    }

    /// Whether it ends, and if so, whether with what was waited for; as [`Condition::outcome`].
    pub(crate) fn outcome(&self, now: Instant) -> Option<bool> {
        if self.has_message() { Some(true) } else { self.condition.outcome(now) }
    }

    /// Whether the message is where it was to go, or the beginning of it.
    fn has_message(&self) -> bool {
        self.binding.as_ref().is_some_and(|binding| binding.ends_wait())
    }

    /// Whether who finds nothing dozes.
    #[inline]
    fn is_dozed_through(&self, port: &Port) -> bool {
        port.inflow.is_dozed_through(true) && port.inflow.is_dozed_through(self.is_of_stream())
    }

    /// Whether it is for a message that may be the answer to one just sent, for which its sender may need this processor.
    fn is_for_answer(&self, port: &Port, now: Instant) -> bool {
        self.binding.is_some() && port.inflow.has_user_just_sent(now)
    }

    /// Whether it is for bytes of a stream.
    fn is_of_stream(&self) -> bool {
        self.binding.as_ref().is_some_and(|binding| binding.is_of_stream())
    }
}

impl Core {
    /// Blocks the thread, or the fiber that it runs, until the condition holds, and makes progress meanwhile. False when
    /// the deadline passed first. A thread that spins or leads ends as soon as a message, or the beginning of one, went to `binding`, where
    /// there is one.
    pub(crate) fn wait(
        &self,
        home: impl Fn() -> usize,
        condition: Condition<'_>,
        binding: Option<&mut Binding<'_>>,
    ) -> bool {
        if condition.holds() {
            return true;
        }
        if let Some(scheduler) = scheduler::current()
            && let Some(waker) = scheduler.waker()
        {
            if let Some(binding) = binding {
                // A fiber that parks looks no more itself.
                self.try_turn_for(self.port(home()), binding, Runner::User, clock::now());
                if binding.ends_wait() || condition.holds() {
                    return true;
                }
            }
            return self.wait_on_fiber(&home, condition, scheduler, &waker)
                || self.look_once_more(self.port(home()), condition);
        }
        self.wait_on_thread(&home, condition, binding) || self.look_once_more(self.port(home()), condition)
    }

    fn wait_on_thread(
        &self,
        home: &impl Fn() -> usize,
        condition: Condition<'_>,
        binding: Option<&mut Binding<'_>>,
    ) -> bool {
        let port = self.port(home());
        let dozed_at = match &binding {
            Some(binding) if port.inflow.is_dozed_through(true) => {
                let is_stream = binding.is_of_stream();
                port.inflow
                    .is_dozed_through_first(is_stream)
                    .then(|| doze_first(port, condition, is_stream))
                    .flatten()
            }
            _ => None,
        };
        doze_for_room(port, condition);
        port.ask_for_lead();
        let mut wait = Wait { dozed_at, ..Wait::new(condition, binding) };
        port.note_wait(wait.begin);
        if let Some(outcome) = self.spin(port, &mut wait) {
            return outcome;
        }
        let _urgent = condition.is_urgent().then(|| port.inflow.be_urgent());
        let outcome = self.sleep(home, &mut wait);
        self.adapt_spin(port, clock::now() - wait.begin < LIVELY);
        outcome
    }

    /// The deadline may have passed while the thread or the whole machine stood still: what came meanwhile lies in the link,
    /// and came in time.
    #[cold]
    fn look_once_more(&self, port: &Port, condition: Condition<'_>) -> bool {
        while self.try_turn(port, Runner::User, clock::now()).is_none() {
            // Another thread is in a turn, and may have looked before.
            drop(port.turn.lock());
        }
        condition.holds()
    }

    /// A turn of a thread that waits.
    #[inline]
    pub(crate) fn try_turn_in(
        &self,
        wait: &mut Wait<'_, '_>,
        port: &Port,
        runner: Runner,
        now: Instant,
    ) -> Option<usize> {
        match &mut wait.binding {
            Some(binding) => self.try_turn_for(port, binding, runner, now),
            None => self.try_turn(port, runner, now),
        }
    }

    /// Runs turns for a bounded time. `None` when neither the condition nor the deadline came.
    fn spin(&self, port: &Port, wait: &mut Wait<'_, '_>) -> Option<bool> {
        let budget = if may_poll(wait.is_for_answer(port, wait.begin)) {
            port.spin_ns.load(Ordering::Relaxed)
        } else {
            0
        };
        let budget = Duration::from_nanos(budget);
        // Who is not to spin looks at the link once.
        let runner = match budget {
            Duration::ZERO => Runner::User,
            _ => Runner::Waiter(if is_wanted() { 1 } else { WAITERS_LOOKS }),
        };
        let mut now = wait.begin;
        for round in 1_u32.. {
            let taken = self.try_turn_in(wait, port, runner, now);
            if taken.is_some()
                && let Some((begin, before)) = wait.dozed_at.take()
            {
                port.inflow.note_doze(begin, port.inflow.packets() - before, now, wait.is_of_stream());
            }
            if wait.has_message() || wait.condition.holds() {
                return Some(true);
            }
            now = clock::now();
            if wait.condition.is_late(now) {
                return Some(false);
            }
            if now - wait.begin >= budget {
                return None;
            }
            match taken {
                // Another thread runs the turn: the processor may be what it needs.
                None => std::thread::yield_now(),
                Some(0) if wait.is_dozed_through(port) => {
                    wait.dozed_at = Some((now, port.inflow.packets()));
                    port.doze(port.inflow.doze_of(wait.is_of_stream()), now);
                    now = clock::now();
                }
                Some(0) => {
                    now = poll_again(round, now, wait.is_for_answer(port, now), port);
                    if is_wanted() {
                        port.note_offer(now);
                    }
                }
                Some(_) => {}
            }
        }
        None
    }

    fn adapt_spin(&self, port: &Port, is_lively: bool) {
        let most = u64::try_from(self.spin_max.as_nanos()).unwrap_or(u64::MAX);
        let spin = port.spin_ns.load(Ordering::Relaxed);
        port.spin_ns.store(if is_lively { most } else { (spin / 2).max(most / 64) }, Ordering::Relaxed);
    }
}

/// In a flood whose packets come one by one, or slowly: dozes before they are looked for, where they were just now and none were left, if there is
/// time. Tells when that began, and how many packets had come before.
#[cold]
fn doze_first(port: &Port, condition: Condition<'_>, is_stream: bool) -> Option<(Instant, u64)> {
    let (begin, doze) = (clock::now(), port.inflow.doze_of(is_stream));
    let looked_at = Instant::from_nanos(port.user_turn_at.load(Ordering::Relaxed));
    if begin - looked_at >= doze || port.inflow.is_behind() || condition.is_late(begin + doze) {
        return None;
    }
    let before = port.inflow.packets();
    port.doze(doze, begin);
    Some((begin, before))
}
