//! A user thread that went back to its own work while data of its waits for the window (decision 0066).
//!
//! What the peer answers then is to be heard at once, or the data lies here until the nap of the service thread is over. But a thread
//! that sends piece by piece is back in a moment, and a service thread that hears the link beside it is woken for each packet, on its
//! processor. So the service thread is called unless the thread was back soon the last time; if it was, and is not now, the next look
//! of the service thread finds that out.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use weft_base::Instant;

use super::{Port, Service};

/// Who is back within this time was never gone.
const SOON: Duration = Duration::from_micros(200);

#[derive(Default)]
pub(super) struct Departure {
    /// When a user thread left data behind, in nanoseconds; 0 before, and when one that sends or waits is back.
    left_at: AtomicU64,
    /// The last one was back soon.
    is_brief: AtomicBool,
}

impl Port {
    /// A user thread goes back to its own work, and data of its waits for what the peer answers, or for its time.
    pub(crate) fn note_left(&self, now: Instant) {
        // who leads hears the answer
        if self.is_led() || self.is_attended() {
            return;
        }
        let departure = &self.departure;
        let before = departure.left_at.swap(now.as_nanos(), Ordering::SeqCst);
        if before == 0 && !departure.is_brief.load(Ordering::Relaxed) && self.service_is(Service::Napping) {
            self.call_service();
        }
    }

    /// A user thread sends much, or waits: whoever left is back, or not needed.
    #[inline]
    pub(crate) fn note_back(&self, now: Instant) {
        if self.departure.left_at.load(Ordering::Relaxed) != 0 {
            self.end_departure(now);
        }
    }

    #[cold]
    fn end_departure(&self, now: Instant) {
        let left_at = self.departure.left_at.swap(0, Ordering::SeqCst);
        if left_at != 0 {
            let is_brief = now.as_nanos().saturating_sub(left_at) < span(SOON);
            self.departure.is_brief.store(is_brief, Ordering::Relaxed);
        }
    }

    /// Whether one is gone, none has run a turn since, and it may not be back soon.
    pub(crate) fn is_missed(&self, now: Instant) -> bool {
        let left_at = self.departure.left_at.load(Ordering::SeqCst);
        left_at != 0
            && self.user_turn_at.load(Ordering::Relaxed) <= left_at
            && (!self.departure.is_brief.load(Ordering::Relaxed)
                || now.as_nanos().saturating_sub(left_at) > span(SOON))
    }
}

fn span(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::clock;
    use crate::port::tests::port;

    const US: Duration = Duration::from_micros(1);

    /// A thread leaves data behind; tells whether it is missed at once, when it may still be back soon, and a little later.
    fn leave(port: &Port, now: Instant) -> [bool; 3] {
        port.note_left(now);
        [US, SOON, SOON + US].map(|after| port.is_missed(now + after))
    }

    #[test]
    fn who_leaves_data_behind_is_missed_at_once_unless_it_was_back_soon_the_last_time() {
        let (port, mut now) = (port(), clock::now());
        assert!(!port.is_missed(now));
        assert_eq!(leave(&port, now), [true; 3]);
        port.note_user_turn(now + US * 100);
        assert!(!port.is_missed(now + SOON * 2), "it runs turns");
        port.note_back(now + US * 150);
        now += SOON * 2;
        assert_eq!(leave(&port, now), [false, false, true], "it writes piece by piece");
        port.note_back(now + SOON * 3);
        assert!(!port.is_missed(now + SOON * 4), "it sends");
        now += SOON * 4;
        assert_eq!(leave(&port, now), [true; 3], "it was not back soon");
    }

    #[test]
    fn nobody_is_missed_while_a_thread_leads_or_a_loop_attends() {
        let (port, now) = (port(), clock::now());
        let lead = port.try_lead().unwrap();
        assert_eq!(leave(&port, now), [false; 3]);
        lead.leave();
        port.set_attended(true);
        assert_eq!(leave(&port, now), [false; 3]);
        port.set_attended(false);
        assert_eq!(leave(&port, now), [true; 3]);
    }
}
