//! Whether the service thread takes the processor from a thread of the user when it wakes (decision 0096).
//!
//! A thread that streams is on its processor all the time, and a nap of the service thread that ends there takes it away, for 20 to 40 µs
//! on a virtual machine, a thousand times a second and more. It has little to do meanwhile: who sends sees to the connection. So while users
//! send much, and have done so for long, it waits until its processor is free. When they have not for a millisecond, or
//! messages gather that are to leave in time ([CDP-COA-7]), it is as urgent as any thread.

use std::sync::atomic::Ordering;
use std::time::Duration;

use weft_base::Instant;
use weft_link::Preemption;

use crate::gather::is_watching;
use crate::port::Port;

/// Who sent much this lately still does.
const RECENTLY: Duration = Duration::from_millis(1);
/// For so long users have sent much whenever the service thread looked: then what it is late by, a slice of the scheduler's, is a small
/// part of that.
const LONG: Duration = Duration::from_millis(64);

impl Port {
    /// A user thread sends much.
    #[inline]
    pub(crate) fn note_much_sent(&self, now: Instant) {
        self.much_sent_at.store(now.as_nanos(), Ordering::Relaxed);
    }
}

/// How the service thread of a port gives way.
pub(crate) struct Deference {
    preemption: Preemption,
    streaming: Streaming,
}

impl Deference {
    /// To be called by the service thread.
    pub(crate) fn of_this_thread() -> Self {
        Self { preemption: Preemption::of_this_thread(), streaming: Streaming::default() }
    }

    /// The service thread looks at its port.
    #[inline]
    pub(crate) fn look(&mut self, port: &Port, now: Instant) {
        self.preemption.set_given_up(self.streaming.is_long(port, now));
    }

    /// How long it may sleep where it would until `limit`: no longer, if it gives way, than it takes to see that users have stopped.
    pub(crate) fn sleep_until(&self, limit: Option<Instant>, now: Instant) -> Option<Instant> {
        if !self.preemption.is_given_up() {
            return limit;
        }
        Some(limit.map_or(now + RECENTLY, |limit| limit.min(now + RECENTLY)))
    }

    /// It gives way no more, until users have sent much for long once more.
    pub(crate) fn end(&mut self) {
        self.streaming.since = None;
        self.preemption.set_given_up(false);
    }
}

/// Since when users have sent much, whenever it was asked.
#[derive(Default)]
struct Streaming {
    since: Option<Instant>,
}

impl Streaming {
    fn is_long(&mut self, port: &Port, now: Instant) -> bool {
        let sent_at = Instant::from_nanos(port.much_sent_at.load(Ordering::Relaxed));
        if now.saturating_since(sent_at) >= RECENTLY || is_watching(port, now) {
            self.since = None;
            return false;
        }
        now.saturating_since(*self.since.get_or_insert(now)) >= LONG
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::clock;
    use crate::conversation::Conversation;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn who_has_sent_much_for_long_is_not_disturbed_until_a_pause() {
        let Conversation { here, .. } = Conversation::open();
        let (port, mut now) = (here.core().port(0), clock::now());
        let mut streaming = Streaming::default();
        let mut look = |time: Duration, sends: bool| {
            now += time;
            if sends {
                port.note_much_sent(now);
            }
            streaming.is_long(port, now)
        };
        assert!(!look(MS, false), "nobody has sent");
        assert!((0..64).all(|_| !look(MS, true)), "not for long");
        assert!(look(MS, true));
        assert!(look(MS / 2, false), "that was just now");
        assert!(!look(MS / 2, false), "a millisecond without");
        assert!((0..64).all(|_| !look(MS, true)), "anew");
        assert!(look(MS, true));
    }

    #[test]
    fn messages_that_gather_are_urgent() {
        let Conversation { here, .. } = Conversation::open();
        let (port, begin) = (here.core().port(0), clock::now());
        let mut streaming = Streaming::default();
        let mut look = |after: Duration| {
            port.note_much_sent(begin + after);
            streaming.is_long(port, begin + after)
        };
        assert!(!look(MS) && look(LONG + MS));
        port.watches_gathering_until.store((begin + LONG + MS * 3).as_nanos(), Ordering::Relaxed);
        assert!(!look(LONG + MS * 2), "they are watched");
        assert!(!look(LONG + MS * 4) && look(LONG + MS * 4 + LONG));
    }
}
