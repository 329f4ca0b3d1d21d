//! The lead: the right to sleep on the link, who waits for it, and the nap of a leader whose work others do.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::task;
use std::time::Duration;

use weft_base::Instant;
use weft_link::Interest as LinkInterest;

use super::signal::Signal;
use super::{Port, Service};

/// How long a leader leaves the link to threads that run turns, before it looks whether they did: for up to twice as long a
/// packet may lie there, or a timer be due, after such a thread has gone back to its own work.
const LEADERS_NAP: Duration = Duration::from_micros(250);

impl Port {
    /// What ends the leader's sleep.
    pub(crate) fn signal(&self) -> &Arc<Signal> {
        &self.signal
    }

    /// Takes the lead, unless somebody has it.
    pub(crate) fn try_lead(&self) -> Option<Lead<'_>> {
        let taken = self.is_led.compare_exchange(false, true, Ordering::SeqCst, Ordering::SeqCst);
        taken.is_ok().then(|| Lead { port: self })
    }

    pub(crate) fn is_led(&self) -> bool {
        self.is_led.load(Ordering::SeqCst)
    }

    /// Waits for the lead: `waker` is woken when it is free. Try [`Port::try_lead`] again afterwards. If the leader naps
    /// because the caller ran turns, it is woken.
    pub(crate) fn follow(&self, waker: task::Waker) {
        self.followers.lock().push(waker);
        self.served_at.store(0, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.is_napping.load(Ordering::Relaxed) {
            self.signal.raise();
        }
    }

    /// A user thread runs a turn.
    #[inline]
    pub(crate) fn note_user_turn(&self, now: Instant) {
        self.user_turn_at.store(now.as_nanos(), Ordering::Relaxed);
        self.served_at.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Whether a user thread has run a turn after `at`, and none has fallen asleep since.
    pub(crate) fn is_served_since(&self, at: Instant) -> bool {
        self.served_at.load(Ordering::Relaxed) > at.as_nanos()
    }

    pub(crate) fn unfollow(&self, waker: &task::Waker) {
        self.followers.lock().retain(|other| !other.will_wake(waker));
    }
}

/// The right to sleep on the link.
pub(crate) struct Lead<'a> {
    port: &'a Port,
}

impl Lead<'_> {
    /// Sleeps until the link has packets, somebody signals, a timer is due, or `limit` is reached. `is_called` is asked
    /// once more after others can see that this thread sleeps.
    pub(crate) fn sleep(&self, now: Instant, limit: Option<Instant>, is_called: impl Fn() -> bool) {
        let port = self.port;
        let mut until = limit.map_or(u64::MAX, Instant::as_nanos);
        if let Some(due) = port.link.next_due() {
            until = until.min((now + due).as_nanos());
        }
        port.sleeps_until.store(until.min(port.next_timer()), Ordering::SeqCst);
        fence(Ordering::SeqCst);
        until = until.min(port.next_timer());
        let own = port.signal.fd();
        let mut fds = [own; 3].map(LinkInterest::readable);
        if !is_called() {
            port.counters.sleeps.fetch_add(1, Ordering::Relaxed);
            let timeout = (until != u64::MAX).then(|| Instant::from_nanos(until).saturating_since(now));
            // A link without a descriptor (a plain loopback) calls the waker's owner through `next_due` only.
            fds[1].fd = port.link.poll_fd().unwrap_or(own);
            fds[2].fd = port.link.second_fd().unwrap_or(own);
            // An error would come back at once; the caller's loop then polls, which is slow but right.
            let _ = weft_link::wait_for(&mut fds, timeout);
        }
        port.sleeps_until.store(0, Ordering::SeqCst);
        port.signal.lower(fds[0].is_ready);
    }

    /// Leaves the link to threads that run turns: sleeps for a while, until somebody signals, one of them falls asleep, or
    /// `limit` is reached. False if nobody serves the link any more: then there is no nap.
    pub(crate) fn nap(&self, now: Instant, limit: Option<Instant>) -> bool {
        let port = self.port;
        let limit = limit.map_or(LEADERS_NAP, |limit| limit.saturating_since(now).min(LEADERS_NAP));
        let mut own = [LinkInterest::readable(port.signal.fd())];
        port.is_napping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let is_served = port.served_at.load(Ordering::Relaxed) != 0;
        if is_served {
            let _ = weft_link::wait_for(&mut own, Some(limit));
        }
        port.is_napping.store(false, Ordering::Relaxed);
        port.signal.lower(own[0].is_ready);
        is_served
    }
}

impl Drop for Lead<'_> {
    /// Hands the lead to a thread that waits for it. That one may be leaving just now, so the service thread, if it
    /// relied on this leader, is called in any case: it never sleeps deeply while nobody leads.
    fn drop(&mut self) {
        self.port.is_led.store(false, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let follower = self.port.followers.lock().pop();
        if let Some(follower) = follower {
            follower.wake();
        }
        if self.port.service_is(Service::Deep) {
            self.port.call_service();
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_link::Udp;

    use super::*;
    use crate::clock;

    /// A thread held up between the flag and the write of a signal writes after the leader took the flag down.
    #[test]
    fn a_late_signal_ends_one_sleep_and_not_every_other() {
        let link = Arc::new(Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap());
        let port = Port::new(0, link, clock::now(), Duration::ZERO, 0).unwrap();
        let lead = port.try_lead().unwrap();
        port.signal.write_late();
        lead.sleep(clock::now(), None, || false);

        let (begin, limit) = (clock::now(), Duration::from_millis(20));
        lead.sleep(begin, Some(begin + limit), || false);
        assert!(clock::now() - begin >= limit, "woken again by the same signal");
    }

    #[test]
    fn a_thread_that_falls_asleep_ends_the_leaders_nap() {
        let link = Arc::new(Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap());
        let port = Port::new(0, link, clock::now(), Duration::ZERO, 0).unwrap();
        let lead = port.try_lead().unwrap();
        let begin = clock::now();
        let later = begin + Duration::from_nanos(1);
        assert!(!lead.nap(begin, None), "nobody has run a turn");

        port.note_user_turn(later);
        assert!(port.is_served_since(begin) && !port.is_served_since(later));
        assert!(lead.nap(begin, None));

        port.is_napping.store(true, Ordering::Relaxed); // as another thread sees it meanwhile
        port.follow(task::Waker::noop().clone());
        assert!(port.signal.is_raised(), "the leader is woken");
        assert!(!port.is_served_since(begin));
        assert!(!lead.nap(begin, None), "it takes over");
    }
}
