//! The lead: the right to sleep on the link, who waits for it, and the nap of a leader whose work others do.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::task;
use std::time::Duration;

use weft_base::Instant;
use weft_link::Interest as LinkInterest;

use super::signal::Signal;
use super::{Port, Service};

/// How long a leader leaves the link to threads that run turns, before it looks whether they did, at first and after naps in which
/// they did: for so long a packet may lie there, or a timer be due, after such a thread has gone back to its own work.
const LEADERS_NAP: Duration = Duration::from_micros(250);
const LEADERS_NAP_MAX: Duration = Duration::from_micros(500);
/// They did if threads that wait, and poll meanwhile, brought something this often.
const SERVED_EVERY: Duration = Duration::from_micros(50);
/// How long a leader pauses that another thread's turn is in the way of, about as long as a turn of full packets is; the system makes
/// more of it.
pub(crate) const LEADERS_PAUSE: Duration = Duration::from_micros(50);
/// How long a leader stays at the link after a nap in which it was not.
const DISTRUST: Duration = Duration::from_millis(10);

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
    fn is_served_since(&self, at: Instant) -> bool {
        self.served_at.load(Ordering::Relaxed) > at.as_nanos()
    }

    /// Whether a thread that ran turns has fallen asleep since.
    fn is_deserted(&self) -> bool {
        self.served_at.load(Ordering::Relaxed) == 0
    }

    /// Leaders stay at the link until then.
    fn distrust_until(&self, until: Instant) {
        self.distrusted_until.store(until.as_nanos(), Ordering::Relaxed);
    }

    fn is_distrusted(&self, now: Instant) -> bool {
        now.as_nanos() < self.distrusted_until.load(Ordering::Relaxed)
    }

    pub(crate) fn unfollow(&self, waker: &task::Waker) {
        self.followers.lock().retain(|other| !other.will_wake(waker));
    }
}

/// How far a leader relies on other threads. One that is woken for each packet that another polls for costs the sender its waking,
/// and the other thread its processor, where both have the same; one that naps may be late.
pub(crate) struct Reliance {
    looked_at: Instant,
    /// [`PortCounters::waiters_busy_turns`](super::PortCounters) at that time.
    turns: u64,
    /// The next nap.
    nap: Duration,
    has_napped: bool,
}

impl Reliance {
    pub(crate) fn new(port: &Port, now: Instant) -> Self {
        let turns = port.counters.waiters_busy_turns.get();
        Self { looked_at: now, turns, nap: LEADERS_NAP, has_napped: false }
    }

    /// The leader looks at `now`, `woken` by the link or not: how long it may nap, as others take in what comes.
    pub(crate) fn nap(&mut self, port: &Port, woken: bool, now: Instant) -> Option<Duration> {
        let looked_at = std::mem::replace(&mut self.looked_at, now);
        let turns = port.counters.waiters_busy_turns.get();
        let brought = turns - std::mem::replace(&mut self.turns, turns);
        let is_served = if std::mem::take(&mut self.has_napped) {
            let is_served = u128::from(brought) > (now - looked_at).as_nanos() / SERVED_EVERY.as_nanos();
            port.distrust_until(if is_served { Instant::ZERO } else { now + DISTRUST });
            is_served && !port.is_deserted()
        } else {
            let may_try = woken && brought > 0 && !port.is_distrusted(now);
            if may_try {
                // until the nap tells, which it does not if it is the last one of this wait
                port.distrust_until(now + DISTRUST);
            }
            may_try
        };
        if !(is_served || port.inflow.is_flooded() && port.is_served_since(looked_at)) {
            self.nap = LEADERS_NAP;
            return None;
        }
        self.has_napped = true;
        let longer = (2 * self.nap).min(LEADERS_NAP_MAX);
        Some(std::mem::replace(&mut self.nap, longer))
    }
}

/// The right to sleep on the link.
pub(crate) struct Lead<'a> {
    port: &'a Port,
}

impl Lead<'_> {
    /// Sleeps until the link has packets, somebody signals, a timer is due, or `limit` is reached. `is_called` is asked
    /// once more after others can see that this thread sleeps. Whether the link had packets.
    pub(crate) fn sleep(&self, now: Instant, limit: Option<Instant>, is_called: impl Fn() -> bool) -> bool {
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
        fds[1..].iter().any(|fd| fd.is_ready && fd.fd != own)
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

    const US: Duration = Duration::from_micros(1);

    fn port() -> Port {
        let link = Arc::new(Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap());
        Port::new(0, link, clock::now(), Duration::ZERO, 0).unwrap()
    }

    /// A thread that waits brings so much in the `time` since `now`, and then the leader looks.
    fn look(
        reliance: &mut Reliance,
        port: &Port,
        now: &mut Instant,
        time: Duration,
        busy_turns: u64,
    ) -> Option<u32> {
        *now += time;
        port.note_user_turn(*now);
        port.counters.waiters_busy_turns.add(busy_turns);
        reliance.nap(port, true, *now).map(|nap| u32::try_from(nap.as_micros()).unwrap())
    }

    #[test]
    fn a_leader_relies_on_threads_that_poll_as_long_as_they_bring_what_comes() {
        let (port, mut now) = (port(), clock::now());
        let mut reliance = Reliance::new(&port, now);
        let mut look = |time, busy_turns| look(&mut reliance, &port, &mut now, time, busy_turns);
        assert_eq!(look(300 * US, 0), None, "nobody else took what woke it");
        assert_eq!(look(300 * US, 1), Some(250), "somebody did");
        assert_eq!(
            (look(300 * US, 7), look(550 * US, 12), look(550 * US, 12)),
            (Some(500), Some(500), Some(500))
        );
        assert_eq!(look(550 * US, 11), None, "seldomer than every 50 µs");
        assert_eq!(
            (look(1_000 * US, 500), look(8_999 * US, 500)),
            (None, None),
            "it is not relied on for 10 ms"
        );
        assert_eq!(look(US, 1), Some(250), "until it is tried again");
    }

    /// A thread that computes between requests makes the condition of the leader true, which waits anew, again and again.
    #[test]
    fn leaders_one_after_the_other_try_no_more_than_one() {
        let (port, mut now) = (port(), clock::now());
        let mut naps = (0..100).map(|_| {
            let mut reliance = Reliance::new(&port, now);
            look(&mut reliance, &port, &mut now, 100 * US, 1)
        });
        assert_eq!(naps.next().unwrap(), Some(250));
        assert!(naps.by_ref().take(98).all(|nap| nap.is_none()));
        assert_eq!(naps.next().unwrap(), None);
    }

    #[test]
    fn a_leader_is_back_when_who_polled_falls_asleep() {
        let (port, mut now) = (port(), clock::now());
        let mut reliance = Reliance::new(&port, now);
        assert_eq!(look(&mut reliance, &port, &mut now, 300 * US, 1), Some(250));
        port.follow(task::Waker::noop().clone());
        port.counters.waiters_busy_turns.add(3);
        now += 100 * US;
        assert_eq!(reliance.nap(&port, false, now), None);
        assert_eq!(look(&mut reliance, &port, &mut now, US, 1), Some(250), "it had brought enough");
        port.follow(task::Waker::noop().clone());
        now += 10 * US;
        assert_eq!(reliance.nap(&port, false, now), None);
        assert_eq!(look(&mut reliance, &port, &mut now, US, 1), None, "it had brought nothing");
    }

    /// A thread held up between the flag and the write of a signal writes after the leader took the flag down.
    #[test]
    fn a_late_signal_ends_one_sleep_and_not_every_other() {
        let port = port();
        let lead = port.try_lead().unwrap();
        port.signal.write_late();
        lead.sleep(clock::now(), None, || false);

        let (begin, limit) = (clock::now(), Duration::from_millis(20));
        lead.sleep(begin, Some(begin + limit), || false);
        assert!(clock::now() - begin >= limit, "woken again by the same signal");
    }

    #[test]
    fn a_thread_that_falls_asleep_ends_the_leaders_nap() {
        let port = port();
        let lead = port.try_lead().unwrap();
        let begin = clock::now();
        let later = begin + Duration::from_nanos(1);
        assert!(!lead.nap(LEADERS_NAP, begin, None), "nobody has run a turn");

        port.note_user_turn(later);
        assert!(port.is_served_since(begin) && !port.is_served_since(later));
        assert!(lead.nap(LEADERS_NAP, begin, None));

        port.is_napping.store(true, Ordering::Relaxed); // as another thread sees it meanwhile
        port.follow(task::Waker::noop().clone());
        assert!(port.signal.is_raised(), "the leader is woken");
        assert!(!port.is_served_since(begin));
        assert!(!lead.nap(LEADERS_NAP, begin, None), "it takes over");
    }
}
