//! Whether a leader leaves the link to threads that poll.

use std::sync::atomic::Ordering;
use std::time::Duration;

use weft_base::Instant;

use super::Port;

/// How long a leader leaves the link to threads that run turns, before it looks whether they did, at first and after naps in which
/// they did: for so long a packet may lie there, or a timer be due, after such a thread has gone back to its own work.
const LEADERS_NAP: Duration = Duration::from_micros(250);
const LEADERS_NAP_MAX: Duration = Duration::from_micros(500);
/// They did if threads that wait, and poll meanwhile, brought something this often.
const SERVED_EVERY: Duration = Duration::from_micros(50);
/// How long a leader stays at the link after a nap in which it was not.
const DISTRUST: Duration = Duration::from_millis(10);

impl Port {
    /// A user thread runs a turn.
    #[inline]
    pub(crate) fn note_user_turn(&self, now: Instant) {
        self.user_turn_at.store(now.as_nanos(), Ordering::Relaxed);
        self.served_at.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Whether a user thread has run a turn after `at`, and none has fallen asleep since.
    pub(super) fn is_served_since(&self, at: Instant) -> bool {
        self.served_at.load(Ordering::Relaxed) > at.as_nanos()
    }

    /// A thread that polls has let others run, for some time: what came meanwhile it looks for now.
    pub(crate) fn note_offer(&self, now: Instant) {
        self.offered_at.store(now.as_nanos(), Ordering::Relaxed);
    }

    fn is_offered_since(&self, at: Instant) -> bool {
        self.offered_at.load(Ordering::Relaxed) > at.as_nanos()
    }

    /// Whether a thread that ran turns has fallen asleep since.
    pub(super) fn is_deserted(&self) -> bool {
        self.served_at.load(Ordering::Relaxed) == 0
    }

    /// Leaders stay at the link until then.
    pub(super) fn distrust_until(&self, until: Instant) {
        self.distrusted_until.store(until.as_nanos(), Ordering::Relaxed);
    }

    fn is_distrusted(&self, now: Instant) -> bool {
        now.as_nanos() < self.distrusted_until.load(Ordering::Relaxed)
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
            let may_try =
                woken && (brought > 0 || port.is_offered_since(looked_at)) && !port.is_distrusted(now);
            if may_try {
                // until the nap tells, which it does not if it is the last one of this wait
                port.distrust_until(now + DISTRUST);
            }
            may_try
        };
        let is_flooded = port.inflow.is_dozed_through(true);
        if !(is_served || is_flooded && port.is_served_since(looked_at)) {
            self.nap = LEADERS_NAP;
            return None;
        }
        self.has_napped = true;
        let longer = (2 * self.nap).min(LEADERS_NAP_MAX);
        let nap = std::mem::replace(&mut self.nap, longer);
        Some(if is_flooded { nap.max(2 * port.inflow.doze_of(true)) } else { nap })
    }
}

#[cfg(test)]
mod tests {
    use std::task;

    use super::*;
    use crate::clock;
    use crate::port::tests::port;

    const US: Duration = Duration::from_micros(1);

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

    /// On one processor the leader is woken by what comes, and takes it, before the thread that offered the processor looks again.
    #[test]
    fn a_leader_relies_on_a_thread_that_polls_and_lets_others_run() {
        let (port, mut now) = (port(), clock::now());
        let mut reliance = Reliance::new(&port, now);
        assert_eq!(look(&mut reliance, &port, &mut now, 10 * US, 0), None);
        port.note_offer(now + 5 * US);
        assert_eq!(look(&mut reliance, &port, &mut now, 10 * US, 0), Some(250));
        assert_eq!(look(&mut reliance, &port, &mut now, 250 * US, 10), Some(500));
        assert_eq!(look(&mut reliance, &port, &mut now, 500 * US, 5), None);
        port.note_offer(now + 5 * US);
        assert_eq!(look(&mut reliance, &port, &mut now, 10 * US, 0), None, "it has just brought little");
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
        let _ = port.follow(task::Waker::noop().clone(), now);
        port.counters.waiters_busy_turns.add(3);
        now += 100 * US;
        assert_eq!(reliance.nap(&port, false, now), None);
        assert_eq!(look(&mut reliance, &port, &mut now, US, 1), Some(250), "it had brought enough");
        let _ = port.follow(task::Waker::noop().clone(), now);
        now += 10 * US;
        assert_eq!(reliance.nap(&port, false, now), None);
        assert_eq!(look(&mut reliance, &port, &mut now, US, 1), None, "it had brought nothing");
    }

    #[test]
    fn who_is_given_the_lead_by_one_that_was_to_nap_may_nap() {
        let (port, mut now) = (port(), clock::now());
        let lead = port.try_lead().unwrap();
        let _ = port.follow(task::Waker::noop().clone(), now);
        now += US;
        let begin = now;
        assert_eq!(look(&mut Reliance::new(&port, now), &port, &mut now, 300 * US, 1), Some(250));
        assert!(lead.give_to_older(begin).is_ok());
        assert_eq!(look(&mut Reliance::new(&port, now), &port, &mut now, 300 * US, 1), Some(250));
    }
}
