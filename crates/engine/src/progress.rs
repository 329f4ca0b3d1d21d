//! How a thread waits: it works, then it sleeps.
//!
//! Algorithm: a thread whose condition does not hold runs turns itself for a bounded time (the spin), and then sleeps. One
//! sleeper per port is the leader and sleeps on the link's descriptor; it runs a turn whenever it wakes. The others sleep
//! on a futex until their condition holds, or until the lead is free.
//!
//! The spin adapts to how long waits take in the end: after one of less than [`LIVELY`] the next may spin up to the limit
//! of the settings, as sleeping and waking may be what made it so long; after a longer one the spin halves, down to a
//! sixteenth. So a conversation never falls asleep for good, and a thread that waits for minutes burns microseconds.
//!
//! While a port is flooded (see `inflow`) who finds nothing dozes instead of polling on. And if another thread takes in what comes,
//! in a flood or because it waits and polls, the leader stays off the link, where every packet would wake it for nothing and at its
//! sender's expense: it naps, for half a millisecond at most (`port::Reliance`); whoever makes its condition true ends the nap, and so
//! does a thread that falls asleep itself.
//! A leader in whose way turns of others are pauses as well, as its sleep on the link would take no time (decision 0048).
//!
//! Races:
//! * Condition against sleep: the waiter registers its waker, then looks at the condition again; see `waiters`. Several
//!   may wait for one condition, and the first to wake may use it up: so each registers again before it sleeps again.
//! * A leader that sleeps on descriptors is woken by the port's signal as well: its waker says which of the two it needs.
//!   The waker is told before the last look at the condition, so whoever makes it true afterwards sees it.
//! * Nap against the last turn of somebody else: the leader says that it naps, then looks whether it is served; who follows
//!   says that it does not serve any more, then looks whether the leader naps.
//! * Lead free against follower: the follower enters the list, then tries for the lead once more; who gives it up looks
//!   at the list afterwards.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task;
use std::time::Duration;

use weft_base::Instant;
use weft_sync::{Parker, SpinLock, Unparker, scheduler};

use crate::binding::Binding;
use crate::clock;
use crate::core::Core;
use crate::port::{LEADERS_PAUSE, Lead, Port, Reliance, Signal, TURN_PACKETS};
use crate::runner::Runner;
use crate::waiters::{Interest, Waiters};

/// A wait of less than this might have ended within a spin, had neither end slept.
const LIVELY: Duration = Duration::from_micros(200);

/// So many turns of others in a row may be in a leader's way before it pauses: they are long, or whoever runs one has lost its processor.
const TURNS_AWAITED: u32 = 2;

/// Empty polls after which a spinning thread offers the processor.
const YIELD_EVERY: u32 = 64;

/// Wakes a blocked thread, wherever it sleeps.
struct ThreadWaker {
    unparker: Unparker,
    /// Set while the thread sleeps on a port's descriptors.
    signal: SpinLock<Option<Arc<Signal>>>,
}

impl task::Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.unparker.unpark();
        let signal = self.signal.lock().clone();
        if let Some(signal) = signal {
            signal.raise();
        }
    }
}

/// The sleeping side of a thread.
struct Sleeper {
    parker: Parker,
    thread: Arc<ThreadWaker>,
    waker: task::Waker,
}

impl Sleeper {
    fn new() -> Self {
        let parker = Parker::new();
        let thread = Arc::new(ThreadWaker { unparker: parker.unparker(), signal: SpinLock::default() });
        Self { parker, waker: thread.clone().into(), thread }
    }
}

thread_local! {
    static SLEEPER: Sleeper = Sleeper::new();
}

/// Something to wait for at a slot or a listener.
#[derive(Clone, Copy)]
pub(crate) struct Condition<'a> {
    pub(crate) waiters: &'a Waiters,
    pub(crate) interest: Interest,
    pub(crate) deadline: Option<Instant>,
}

impl Condition<'_> {
    #[inline]
    pub(crate) fn holds(&self) -> bool {
        self.waiters.is_ready(self.interest)
    }

    fn register(&self, sleeper: &Sleeper) {
        self.waiters.register(self.interest, &sleeper.waker);
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

impl Core {
    /// Blocks the thread, or the fiber that it runs, until the condition holds, and makes progress meanwhile. False when
    /// the deadline passed first. A thread that spins ends as soon as a message went to `binding`, where there is one.
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
                if binding.is_done() || condition.holds() {
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
        port.ask_for_lead();
        let begin = clock::now();
        if let Some(outcome) = self.spin(port, condition, binding, begin) {
            return outcome;
        }
        let outcome = SLEEPER.try_with(|sleeper| self.sleep(home, condition, sleeper));
        // At the end of a thread there is no place for one any more.
        let outcome = outcome.unwrap_or_else(|_| self.sleep(home, condition, &Sleeper::new()));
        self.adapt_spin(port, clock::now() - begin < LIVELY);
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

    /// Runs turns for a bounded time. `None` when neither the condition nor the deadline came.
    fn spin(
        &self,
        port: &Port,
        condition: Condition<'_>,
        mut binding: Option<&mut Binding<'_>>,
        begin: Instant,
    ) -> Option<bool> {
        let budget = Duration::from_nanos(port.spin_ns.load(Ordering::Relaxed));
        let mut now = begin;
        let mut dozed_at = None;
        for round in 1_u32.. {
            let taken = match &mut binding {
                Some(binding) => self.try_turn_for(port, binding, Runner::Waiter, now),
                None => self.try_turn(port, Runner::Waiter, now),
            };
            if let (Some(_), Some((begin, before))) = (taken, dozed_at.take()) {
                port.inflow.note_doze(begin, port.inflow.packets() - before, TURN_PACKETS, now);
            }
            if binding.as_ref().is_some_and(|binding| binding.is_done()) || condition.holds() {
                return Some(true);
            }
            now = clock::now();
            if condition.is_late(now) {
                return Some(false);
            }
            if now - begin >= budget {
                return None;
            }
            match taken {
                // Another thread runs the turn: the processor may be what it needs.
                None => std::thread::yield_now(),
                Some(0) if port.inflow.is_flooded() => {
                    dozed_at = Some((now, port.inflow.packets()));
                    weft_link::doze(port.inflow.doze());
                    now = clock::now();
                }
                Some(0) => poll_again(round),
                Some(_) => {}
            }
        }
        None
    }

    /// In a flood whose packets come one by one: dozes before they are looked for, where they were just now, and takes in what came.
    #[cold]
    pub(crate) fn doze_first(&self, port: &Port) {
        let begin = clock::now();
        let looked_at = Instant::from_nanos(port.user_turn_at.load(Ordering::Relaxed));
        let is_fiber = scheduler::current().is_some_and(|scheduler| scheduler.waker().is_some());
        let doze = port.inflow.doze();
        if begin - looked_at >= doze || is_fiber {
            return;
        }
        let before = port.inflow.packets();
        weft_link::doze(doze);
        let now = clock::now();
        if self.try_turn(port, Runner::User, now).is_some() {
            port.inflow.note_doze(begin, port.inflow.packets() - before, TURN_PACKETS, now);
        }
    }

    fn adapt_spin(&self, port: &Port, is_lively: bool) {
        let most = u64::try_from(self.spin_max.as_nanos()).unwrap_or(u64::MAX);
        let spin = port.spin_ns.load(Ordering::Relaxed);
        port.spin_ns.store(if is_lively { most } else { (spin / 2).max(most / 16) }, Ordering::Relaxed);
    }

    /// Sleeps until the condition holds or the deadline passes.
    ///
    /// The waker is registered anew before each sleep: who makes the condition true takes it out of the list, and
    /// another waiter may have undone the condition before this one looked.
    fn sleep(&self, home: &impl Fn() -> usize, condition: Condition<'_>, sleeper: &Sleeper) -> bool {
        let outcome = loop {
            condition.register(sleeper);
            let now = clock::now();
            if let Some(outcome) = condition.outcome(now) {
                break outcome;
            }
            let port = self.port(home());
            match port.try_lead() {
                Some(lead) => self.lead(port, &lead, condition, sleeper),
                None => follow(port, condition, sleeper, now),
            }
        };
        condition.waiters.forget(&sleeper.waker);
        outcome
    }

    /// Sleeps on the link, and runs a turn at each waking, until the condition holds or the deadline passes. While others
    /// take in a flood it naps instead, and while they are in the midst of turns it pauses: the link stays readable then, and to sleep
    /// on it takes no time.
    fn lead(&self, port: &Port, lead: &Lead<'_>, condition: Condition<'_>, sleeper: &Sleeper) {
        *sleeper.thread.signal.lock() = Some(port.signal().clone());
        let mut reliance = Reliance::new(port, clock::now());
        let (mut is_link_ready, mut kept_out) = (false, 0);
        loop {
            let now = clock::now();
            let nap = reliance.nap(port, is_link_ready, now);
            if nap.is_none() {
                kept_out = if self.try_turn(port, Runner::User, now).is_some() { 0 } else { kept_out + 1 };
            }
            condition.register(sleeper);
            let now = clock::now();
            if condition.outcome(now).is_some() {
                break;
            }
            is_link_ready = match (nap, kept_out) {
                (Some(nap), _) => {
                    lead.nap(nap, now, condition.deadline);
                    false
                }
                (None, 0) => lead.sleep(now, condition.deadline, || condition.holds()),
                (None, ..=TURNS_AWAITED) => {
                    // Who is in the midst of a turn may need this processor to end it.
                    std::thread::yield_now();
                    is_link_ready
                }
                (None, _) => {
                    lead.pause(LEADERS_PAUSE, now, condition.deadline);
                    false
                }
            };
        }
        *sleeper.thread.signal.lock() = None;
    }
}

/// Between two polls of a thread that spins. Threads of equal real-time priority run only if this one lets them.
#[inline]
pub(crate) fn poll_again(round: u32) {
    if round.is_multiple_of(YIELD_EVERY) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

/// Sleeps until the condition may hold, or the lead may be free.
fn follow(port: &Port, condition: Condition<'_>, sleeper: &Sleeper, now: Instant) {
    port.follow(sleeper.waker.clone());
    port.ask_for_lead();
    if port.is_led() && !condition.holds() {
        let limit = condition.deadline.map_or(Duration::from_secs(3600), |due| due - now);
        sleeper.parker.park_timeout(limit);
    }
    port.unfollow(&sleeper.waker);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::{Engine, Settings};

    /// What lies in the link keeps its descriptor readable as long as nobody can take it out.
    #[test]
    fn a_leader_does_not_turn_about_a_turn_of_somebody_else() {
        let settings =
            Settings { bind: "127.0.0.1:0".parse().unwrap(), spin: Duration::ZERO, ..Settings::default() };
        let engine = Engine::open(settings).unwrap();
        let (core, port) = (engine.core(), engine.core().port(0));
        let waiters = Waiters::default();
        let time = Duration::from_millis(50);

        let turn = port.turn.lock();
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        stranger.send_to(b"no packet of ours", engine.underlay()).unwrap();
        let before = port.counters.sleeps.load(Ordering::Relaxed);
        let deadline = Some(clock::now() + time);
        let condition = Condition { waiters: &waiters, interest: Interest::Readable, deadline };
        let is_there = SLEEPER.with(|sleeper| core.sleep(&|| 0, condition, sleeper));
        drop(turn);

        assert!(!is_there, "nobody made it true");
        let sleeps = port.counters.sleeps.load(Ordering::Relaxed) - before;
        assert!(sleeps <= 50, "{sleeps} sleeps in {time:?} that took no time");
    }
}
