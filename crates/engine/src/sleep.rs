//! How a thread sleeps that waits: one leads, the others follow.
//!
//! Algorithm: one sleeper per port is the leader and sleeps on the link's descriptor; it runs a turn whenever it wakes. The others sleep
//! on a futex until their condition holds, or until they are called to lead: see `port::Lead`.
//!
//! If another thread takes in what comes, in a flood or because it waits and polls, the leader stays off the link, where every packet would
//! wake it for nothing and at its sender's expense: it naps, for half a millisecond at most (`port::Reliance`), unless a thread that has
//! waited for longer may do so in its place; whoever makes its condition true ends the nap, and so does a thread that falls asleep itself.
//! A leader whose turn brought something for others lets them run before it sleeps on the link again (decision 0108).
//! A leader in whose way turns of others are pauses as well, as its sleep on the link would take no time (decision 0048). One that was called
//! again after moments looks for a moment before it sleeps (`port::Moments`).
//!
//! Races:
//! * Condition against sleep: the waiter registers its waker, then looks at the condition again; see `waiters`. Several
//!   may wait for one condition, and the first to wake may use it up: so each registers again before it sleeps again.
//! * A leader that sleeps on descriptors is woken by the port's signal as well: its waker says which of the two it needs.
//!   The waker is told before the last look at the condition, so whoever makes it true afterwards sees it; and it is told the other
//!   as soon as the leader is awake, or a leader whose own turn makes its condition true would call itself.
//! * Nap against the last turn of somebody else: the leader says that it naps, then looks whether it is served; who follows
//!   says that it does not serve any more, then looks whether the leader naps.
//! * Lead free against follower: the follower enters the list, then looks whether there is a leader; who leaves the lead and calls
//!   somebody looks at the list afterwards. Who calls nobody leaves that to the service thread.

use std::sync::Arc;
use std::task;
use std::time::Duration;

use weft_base::Instant;
use weft_sync::{Parker, SpinLock, Unparker};

use crate::clock;
use crate::core::Core;
use crate::outbox::wakes_given;
use crate::port::{LEADERS_PAUSE, Lead, MOMENT, Port, Reliance, Signal, TURNS_AWAITED};
use crate::progress::Wait;
use crate::runner::Runner;

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

    /// Whoever wakes the thread from now on raises the signal, where the thread sleeps, or none. Look at the condition afterwards.
    fn heed(&self, signal: Option<&Arc<Signal>>) {
        *self.thread.signal.lock() = signal.cloned();
    }

    fn register(&self, wait: &Wait<'_, '_>) {
        wait.condition.waiters.register(wait.condition.interest, &self.waker);
    }
}

thread_local! {
    static SLEEPER: Sleeper = Sleeper::new();
}

impl Core {
    /// Sleeps until the condition holds or the deadline passes.
    pub(crate) fn sleep(&self, home: &impl Fn() -> usize, wait: &mut Wait<'_, '_>) -> bool {
        let outcome = SLEEPER.try_with(|sleeper| self.sleep_as(sleeper, home, wait));
        // At the end of a thread there is no place for one any more.
        outcome.unwrap_or_else(|_| self.sleep_as(&Sleeper::new(), home, wait))
    }

    /// The waker is registered anew before each sleep: who makes the condition true takes it out of the list, and
    /// another waiter may have undone the condition before this one looked.
    fn sleep_as(&self, sleeper: &Sleeper, home: &impl Fn() -> usize, wait: &mut Wait<'_, '_>) -> bool {
        let mut given: Option<Lead<'_>> = None;
        let outcome = loop {
            sleeper.register(wait);
            let now = clock::now();
            if let Some(outcome) = wait.outcome(now) {
                break outcome;
            }
            let port = self.port(home());
            match given.take().filter(|lead| lead.is_of(port)).or_else(|| port.try_lead()) {
                Some(lead) => self.lead(sleeper, port, lead, wait),
                None => given = follow(sleeper, port, wait, now),
            }
        };
        wait.condition.waiters.forget(&sleeper.waker);
        outcome
    }

    /// A turn of a leader; where it would sleep for a moment, it looks again until that is over.
    fn leaders_turn(&self, wait: &mut Wait<'_, '_>, port: &Port, begin: Instant) -> Option<usize> {
        let mut taken = self.try_turn_in(wait, port, Runner::User, begin);
        if taken != Some(0) || !port.moments.are_likely() {
            return taken;
        }
        let until = begin + MOMENT.min(self.spin_max);
        let mut now = begin;
        while taken == Some(0) && now < until && wait.outcome(now).is_none() {
            std::hint::spin_loop();
            taken = self.try_turn_in(wait, port, Runner::User, now);
            now = clock::now();
        }
        if taken != Some(0) || now >= until {
            port.moments.note_poll(taken.is_some_and(|count| count > 0));
        }
        taken
    }

    /// Sleeps on the link, and runs a turn at each waking, until the condition holds, the deadline passes, or the lead is given
    /// away. While others take in a flood it naps instead, and while they are in the midst of turns it pauses: the link stays readable
    /// then, and to sleep on it takes no time.
    fn lead(&self, sleeper: &Sleeper, port: &Port, mut lead: Lead<'_>, wait: &mut Wait<'_, '_>) {
        let deadline = wait.condition.deadline;
        let mut reliance = Reliance::new(port, clock::now());
        let (mut is_link_ready, mut kept_out) = (false, 0);
        loop {
            let now = clock::now();
            let nap = reliance.nap(port, is_link_ready, now);
            let woken = wakes_given();
            let mut has_come = false;
            if nap.is_none() {
                let taken = self.leaders_turn(wait, port, now);
                has_come = taken.is_some_and(|count| count > 0);
                kept_out = if taken.is_some() { 0 } else { kept_out + 1 };
            }
            // Its own waker is among those that a turn calls which makes its condition true.
            let woken = wakes_given() - woken;
            lead.note_woken(woken.saturating_sub(wait.condition.holds().into()));
            let given = match nap {
                Some(_) => lead.give_to_older(wait.begin),
                None if port.take_lead_wanted() => lead.give_to_last(),
                None => Err(lead),
            };
            let Err(kept) = given else { return };
            lead = kept;

            // In this order: who finds the waker raises the signal.
            sleeper.heed(Some(port.signal()));
            sleeper.register(wait);
            let now = clock::now();
            let is_over = wait.outcome(now).is_some();
            if !is_over {
                is_link_ready = match (nap, kept_out) {
                    (Some(nap), _) => {
                        lead.nap(nap, now, deadline);
                        false
                    }
                    (None, 0) if has_come && port.moments.are_likely() => false,
                    (None, 0) => {
                        if has_come {
                            // Who waits for it may be ready to run on this processor, and would take in the next himself.
                            std::thread::yield_now();
                        }
                        self.settle_timers(port, now);
                        let is_ready = lead.sleep(now, deadline, || wait.condition.holds());
                        port.moments.note_sleep(clock::now() - now, is_ready);
                        is_ready
                    }
                    (None, ..=TURNS_AWAITED) => {
                        // Who is in the midst of a turn may need this processor to end it.
                        std::thread::yield_now();
                        is_link_ready
                    }
                    (None, _) => {
                        lead.pause(LEADERS_PAUSE, now, deadline);
                        false
                    }
                };
            }
            sleeper.heed(None);
            if is_over {
                return lead.leave();
            }
        }
    }
}

/// Sleeps until the condition may hold, or this thread is to lead. Returns the lead if it was given to this thread.
fn follow<'a>(sleeper: &Sleeper, port: &'a Port, wait: &Wait<'_, '_>, now: Instant) -> Option<Lead<'a>> {
    let Wait { condition, begin, .. } = wait;
    let ticket = port.follow(sleeper.waker.clone(), *begin);
    if port.is_led() && !condition.holds() {
        let limit = condition.deadline.map_or(Duration::from_secs(3600), |due| due - now);
        sleeper.parker.park_timeout(limit);
    }
    port.unfollow(ticket)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::net::UdpSocket;
    use std::sync::atomic::Ordering;
    use std::thread;

    use super::*;
    use crate::conversation::{Conversation, LIMIT};
    use crate::progress::Condition;
    use crate::waiters::{Interest, Waiters};
    use crate::{Engine, Settings, Workers};

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
        let condition = Condition { waiters: &waiters, interest: Interest::Readable, deadline, slot: None };
        let is_there = core.sleep(&|| 0, &mut Wait::new(condition, None));
        drop(turn);

        assert!(!is_there, "nobody made it true");
        let sleeps = port.counters.sleeps.load(Ordering::Relaxed) - before;
        assert!(sleeps <= 50, "{sleeps} sleeps in {time:?} that took no time");
    }

    /// Who is awake, as its own turn brings what it waits for, would find its next sleep ended by a call of its own.
    #[test]
    fn a_leader_does_not_call_itself() {
        const ROUNDS: usize = 50;
        let Conversation { here, asks, there, answers } = Conversation::open();
        let port = here.core().port(0);
        let before = port.counters.sleeps.load(Ordering::Relaxed);
        let mut calls = 0;
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut buffer = [0; 16];
                for _ in 0..ROUNDS {
                    there.recv_within(&answers, &mut buffer, Some(LIMIT)).unwrap();
                    thread::sleep(Duration::from_micros(200));
                    there.send(&answers, b"answer").unwrap();
                }
            });
            for _ in 0..ROUNDS {
                here.send(&asks, b"question").unwrap();
                assert!(here.wait(&asks, Interest::Readable, Some(here.now() + LIMIT)));
                calls += usize::from(port.signal().is_raised());
                assert_eq!(here.recv(&asks, &mut [0; 16]).unwrap().len, 6);
            }
        });
        let sleeps = port.counters.sleeps.load(Ordering::Relaxed) - before;
        if sleeps < 25 {
            return weft_skip::skipped!("the machine is too busy for a thread to sleep when it waits");
        }
        assert!(calls <= 5, "called {calls} times for {ROUNDS} messages");
    }

    /// Workers sleep on the link when nothing comes: who waits is not to call them, nor they it.
    #[test]
    fn who_waits_beside_a_worker_leaves_it_alone() {
        let settings = Settings {
            bind: "127.0.0.1:0".parse().unwrap(),
            spin: Duration::ZERO,
            workers: Workers { threads: 1, spin: false },
            ..Settings::default()
        };
        let engine = Engine::open(settings).unwrap();
        let (core, port) = (engine.core(), engine.core().port(0));
        let wait = || {
            let waiters = Waiters::default();
            let deadline = Some(clock::now() + Duration::from_millis(20));
            let condition =
                Condition { waiters: &waiters, interest: Interest::Readable, deadline, slot: None };
            assert!(!core.wait(|| 0, condition, None), "nobody made it true");
        };
        // On a busy machine threads whose time is up call each other one by one.
        let sleeps = (0..5).map(|_| {
            let before = port.counters.sleeps.load(Ordering::Relaxed);
            for _ in 0..10 {
                thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(wait))));
            }
            port.counters.sleeps.load(Ordering::Relaxed) - before
        });
        let calls = sleeps.take_while(|&sleeps| sleeps > 20).count();
        assert!(calls < 5, "more than 20 sleeps in ten times 20 ms in which nothing came, five times");
    }
}
