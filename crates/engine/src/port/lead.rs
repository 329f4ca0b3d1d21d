//! The lead: the right to sleep on the link, and how it goes from one thread to the next.
//!
//! It goes to who has use for it (decision 0051). A leader that wakes others again and again, and gets nothing itself, is asked for it by
//! the next that falls asleep, and gives it to who did so last. A leader that is to nap, as others poll, gives it to a thread that has waited for longer, which is
//! likely to wait on. And nobody is called to take it when it is left by a thread that has been back soon each time, unless it brought
//! something for others.
//!
//! Races:
//! * A follower may leave while it is given the lead: whether it was is in the list, and the list's lock decides.
//! * Who left the lead may not come back, and followers sleep on: the service thread, which then looks every millisecond, calls one,
//!   or leads itself.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::task;
use std::time::Duration;

use smallvec::SmallVec;
use weft_base::Instant;
use weft_link::{Interest as LinkInterest, POLL_FDS};
use weft_sync::face::thread_index;

use super::absence::Absences;
use super::followers::{Followers, Ticket};
use super::signal::Signal;
use super::{Port, Service};
use crate::clock;

/// How long a leader pauses that another thread's turn is in the way of, about as long as a turn of full packets is; the system makes
/// more of it.
pub(crate) const LEADERS_PAUSE: Duration = Duration::from_micros(50);
/// So many turns of others in a row may be in a leader's way before it pauses: they are long, or whoever runs one has lost its processor.
pub(crate) const TURNS_AWAITED: u32 = 2;
/// A leader that has woken others for what they wait for so often, and has got nothing itself, has no use for the lead.
const RELAYS: u32 = 4;
/// Descriptors that a leader sleeps on without memory from the heap: two of the port, and the link's.
const FEW: usize = 2 + POLL_FDS;
/// What the kernel waits for never.
const NO_FD: RawFd = -1;
/// Where the service thread sees that nobody leads, and that nobody has looked at the link for longer, it calls somebody.
const FREE_AT_MOST: Duration = Duration::from_micros(250);

/// Who leads, and who is to.
#[derive(Default)]
pub(super) struct Leadership {
    is_led: AtomicBool,
    /// How often the lead has gone to somebody.
    taken: AtomicU32,
    followers: Followers,
    /// A user thread wants to lead in place of who does.
    is_wanted: AtomicBool,
    /// Turns in a row with which the leader woke others and not itself, while no thread polled with success.
    relays: AtomicU32,
    absences: Absences,
}

impl Port {
    /// What ends the leader's sleep.
    pub(crate) fn signal(&self) -> &Arc<Signal> {
        &self.signal
    }

    /// Takes the lead, unless somebody has it.
    pub(crate) fn try_lead(&self) -> Option<Lead<'_>> {
        let taken = self.leadership.is_led.compare_exchange(false, true, Ordering::SeqCst, Ordering::SeqCst);
        taken.is_ok().then(|| self.begin_lead())
    }

    fn begin_lead(&self) -> Lead<'_> {
        self.leadership.taken.fetch_add(1, Ordering::Relaxed);
        self.leadership.relays.store(0, Ordering::Relaxed);
        self.leadership.is_wanted.store(false, Ordering::SeqCst);
        Lead { port: self, polled: self.counters.waiters_busy_turns.get(), has_woken: false }
    }

    pub(crate) fn is_led(&self) -> bool {
        self.leadership.is_led.load(Ordering::SeqCst)
    }

    /// Tells one lead from the next.
    pub(crate) fn lead_number(&self) -> u32 {
        self.leadership.taken.load(Ordering::Relaxed)
    }

    /// A user thread begins to wait: the service thread is to leave the link to it.
    pub(crate) fn ask_for_lead(&self) {
        if self.service_is(Service::Leading) {
            self.want_lead();
        }
    }

    fn want_lead(&self) {
        if !self.leadership.is_wanted.swap(true, Ordering::SeqCst) {
            self.signal.raise();
        }
    }

    pub(crate) fn take_lead_wanted(&self) -> bool {
        self.leadership.is_wanted.swap(false, Ordering::SeqCst)
    }

    /// Waits for the lead, as part of a wait since `since`: `waker` is woken when the caller is to lead, or has been given the lead.
    /// Call [`Port::unfollow`] afterwards. A leader that naps because the caller ran turns is woken; one that has no use for the lead is
    /// asked for it.
    pub(crate) fn follow(&self, waker: task::Waker, since: Instant) -> Ticket {
        let ticket = self.leadership.followers.enter(waker, since);
        self.served_at.store(0, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.is_napping.load(Ordering::Relaxed) {
            self.signal.raise();
        }
        self.ask_for_lead();
        if self.leadership.relays.load(Ordering::Relaxed) >= RELAYS {
            self.want_lead();
        }
        ticket
    }

    /// Waits for the lead no more. The caller may have been given it meanwhile.
    pub(crate) fn unfollow(&self, ticket: Ticket) -> Option<Lead<'_>> {
        self.leadership.followers.leave(ticket).then(|| self.begin_lead())
    }

    /// A thread begins to wait, and looks at the link itself.
    #[inline]
    pub(crate) fn note_wait(&self, now: Instant) {
        self.note_back(now);
        if self.leadership.absences.is_any() {
            self.leadership.absences.end(thread_index(), now);
        }
    }

    /// The service thread looks: who left the lead, and was to be back soon, may not be.
    pub(crate) fn fill_lead(&self, now: Instant) {
        let looked_at = Instant::from_nanos(self.user_turn_at.load(Ordering::Relaxed));
        if !self.is_led() && now.saturating_since(looked_at) > FREE_AT_MOST {
            self.leadership.absences.forget();
            self.leadership.followers.call();
        }
    }
}

/// The right to sleep on the link.
pub(crate) struct Lead<'a> {
    port: &'a Port,
    /// [`PortCounters::waiters_busy_turns`](super::PortCounters) when others were last woken.
    polled: u64,
    has_woken: bool,
}

impl Lead<'_> {
    pub(crate) fn is_of(&self, port: &Port) -> bool {
        std::ptr::eq(self.port, port)
    }

    /// A turn of the leader woke so many others. Where threads that poll have brought something since the last such turn, they serve
    /// the link as well, and the leader is seldom woken.
    pub(crate) fn note_woken(&mut self, others: u64) {
        if others == 0 {
            return;
        }
        self.has_woken = true;
        let polled = self.port.counters.waiters_busy_turns.get();
        let is_served = std::mem::replace(&mut self.polled, polled) != polled;
        let relays = &self.port.leadership.relays;
        relays.store(if is_served { 0 } else { relays.load(Ordering::Relaxed) + 1 }, Ordering::Relaxed);
    }

    /// A thread leaves the lead as it is done with its wait: nobody is called if it has been back soon before, and its turns woke
    /// nobody else.
    pub(crate) fn leave(self) {
        let is_back_soon = self.port.leadership.absences.begin(thread_index(), clock::now());
        self.end(is_back_soon && !self.has_woken);
        std::mem::forget(self);
    }

    /// Calls a thread that waits for the lead, unless `is_unwanted` meanwhile. That one may be leaving just now, so the service thread, if it
    /// relied on this leader, is called in any case: it never sleeps deeply while nobody leads.
    fn end(&self, is_unwanted: bool) {
        let port = self.port;
        port.leadership.is_led.store(false, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !is_unwanted {
            port.leadership.followers.call();
        }
        if port.service_is(Service::Deep) {
            port.call_service();
        }
    }

    /// Gives the lead to who fell asleep last; gives it back if there is nobody.
    pub(crate) fn give_to_last(self) -> Result<(), Self> {
        let is_given = self.port.leadership.followers.give_to_last();
        self.given(is_given)
    }

    /// Gives the lead to who has waited longest; gives it back if that is not since before `since`.
    pub(crate) fn give_to_older(self, since: Instant) -> Result<(), Self> {
        let is_given = self.port.leadership.followers.give_to_older(since);
        if is_given {
            // The nap that was to tell whether others serve the link is the heir's.
            self.port.distrust_until(Instant::ZERO);
        }
        self.given(is_given)
    }

    fn given(self, is_given: bool) -> Result<(), Self> {
        if !is_given {
            return Err(self);
        }
        // It is the heir's, who leaves it.
        std::mem::forget(self);
        Ok(())
    }

    /// Sleeps until the link has packets, somebody signals, a timer is due, or `limit` is reached. `is_called` is asked
    /// once more after others can see that this thread sleeps. Whether the link had packets.
    pub(crate) fn sleep(&self, now: Instant, limit: Option<Instant>, is_called: impl Fn() -> bool) -> bool {
        self.sleep_on(&self.port.link.poll_fds(), now, limit, is_called)
    }

    /// The same, but what the link has wakes somebody else.
    pub(crate) fn sleep_off_link(&self, now: Instant, limit: Instant, is_called: impl Fn() -> bool) {
        self.sleep_on(&[], now, Some(limit), is_called);
    }

    fn sleep_on(
        &self,
        link_fds: &[RawFd],
        now: Instant,
        limit: Option<Instant>,
        is_called: impl Fn() -> bool,
    ) -> bool {
        let port = self.port;
        let mut until = limit.map_or(u64::MAX, Instant::as_nanos);
        if let Some(due) = port.link.next_due() {
            until = until.min((now + due).as_nanos());
        }
        port.sleeps_until.store(until.min(port.next_timer()), Ordering::SeqCst);
        fence(Ordering::SeqCst);
        until = until.min(port.next_timer());
        let [mut signal, mut alarm, mut is_ready] = [false; 3];
        if !is_called() {
            port.counters.sleeps.fetch_add(1, Ordering::Relaxed);
            let timeout = port.alarm.end_by(Instant::from_nanos(until), now);
            // A link without a descriptor (a plain loopback) calls the waker's owner through `next_due` only.
            let own = [port.signal.fd(), port.alarm.fd().unwrap_or(NO_FD)];
            let mut fds: SmallVec<[LinkInterest; FEW]> =
                own.iter().chain(link_fds).map(|&fd| LinkInterest::readable(fd)).collect();
            // An error would come back at once; the caller's loop then polls, which is slow but right.
            let _ = weft_link::wait_for(&mut fds, timeout);
            [signal, alarm] = [fds[0].is_ready, fds[1].is_ready];
            is_ready = fds[2..].iter().any(|fd| fd.is_ready);
        }
        port.sleeps_until.store(0, Ordering::SeqCst);
        port.signal.lower(signal);
        if alarm {
            port.alarm.clear();
        }
        if is_ready {
            port.note_link_ready();
        }
        is_ready
    }

    /// Leaves the link to threads that run turns: sleeps for `nap`, until somebody signals, one of them falls asleep, or
    /// `limit` is reached. False if nobody serves the link any more: then there is no nap.
    pub(crate) fn nap(&self, nap: Duration, now: Instant, limit: Option<Instant>) -> bool {
        let port = self.port;
        port.is_napping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let is_served = !port.is_deserted();
        if is_served {
            self.pause(nap, now, limit);
        }
        port.is_napping.store(false, Ordering::Relaxed);
        is_served
    }

    /// Leaves the link alone for `pause`, until somebody signals, or until `limit`.
    pub(crate) fn pause(&self, pause: Duration, now: Instant, limit: Option<Instant>) {
        let pause = limit.map_or(pause, |limit| limit.saturating_since(now).min(pause));
        let mut own = [LinkInterest::readable(self.port.signal.fd())];
        let _ = weft_link::wait_for(&mut own, Some(pause));
        self.port.signal.lower(own[0].is_ready);
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.end(false);
    }
}

#[cfg(test)]
mod tests;
