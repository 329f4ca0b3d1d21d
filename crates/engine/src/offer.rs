//! A thread that polls for an answer offers its processor to others (decision 0100).
//!
//! What answers may need the processor that waits: where two peers share one, or several threads that poll do. A thread that was seen to
//! be in the way lets others run after each poll. Threads that compute take a whole slice of each offer, and need no other.

use std::cell::Cell;
use std::time::Duration;

use weft_base::Instant;

use crate::clock;

/// Empty polls after which the processor is offered, where nobody was seen to want it.
const OFFER_EVERY: u32 = 64;
/// An offer that lasts so long was taken; of itself it takes some 0.3 µs.
const TAKEN: Duration = Duration::from_micros(3);
/// After one that was taken the processor is offered after each poll, until so many in a row were not.
const REMEMBERED: u8 = 4;
/// One that lasts so long was taken by a thread that goes on until its slice is over, a millisecond at least.
const WHOLE: Duration = Duration::from_micros(900);
/// So many of these, less those that were not, are no chance.
const WHOLE_MAX: u8 = 8;

thread_local! {
    static OFFERS: Offers = const { Offers::new() };
}

/// What came of the offers of a thread.
struct Offers {
    /// So many more are made after each poll.
    wanted: Cell<u8>,
    /// Those that were taken for a whole slice, less those that were not.
    whole: Cell<u8>,
    /// There were so many of these, and are some yet.
    is_beside_work: Cell<bool>,
}

impl Offers {
    const fn new() -> Self {
        Self { wanted: Cell::new(0), whole: Cell::new(0), is_beside_work: Cell::new(false) }
    }

    /// One was made for the sake of an answer.
    fn note(&self, lasted: Duration) {
        let (wanted, whole) = (self.wanted.get(), self.whole.get());
        let whole = if lasted >= WHOLE { (whole + 1).min(WHOLE_MAX) } else { whole.saturating_sub(1) };
        self.whole.set(whole);
        self.is_beside_work.set(whole == WHOLE_MAX || whole > 0 && self.is_beside_work.get());
        self.wanted.set(match lasted {
            _ if self.is_beside_work.get() => 0,
            _ if lasted >= TAKEN => REMEMBERED,
            _ => wanted.saturating_sub(1),
        });
    }
}

/// Whether others wanted the processor of this thread lately, as far as is known.
#[inline]
pub(crate) fn is_wanted() -> bool {
    OFFERS.with(|offers| offers.wanted.get() > 0)
}

/// After an empty poll, the `round`th in a row, that ended at `now`: pauses, or lets others run, more often if an answer is waited for.
/// Tells what time it is then.
///
/// Threads of equal real-time priority run only if the one that polls lets them, others at the latest when its slice is over.
#[inline]
pub(crate) fn poll_again(round: u32, now: Instant, is_for_answer: bool) -> Instant {
    if round.is_multiple_of(OFFER_EVERY) || is_for_answer && is_wanted() {
        return offer(now, is_for_answer);
    }
    std::hint::spin_loop();
    now
}

#[cold]
fn offer(begin: Instant, is_for_answer: bool) -> Instant {
    std::thread::yield_now();
    let now = clock::now();
    if is_for_answer {
        OFFERS.with(|offers| offers.note(now - begin));
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    /// Whether more offers are made after so many of this length.
    fn is_wanted_after(offers: &Offers, lasted: Duration, count: u8) -> bool {
        (0..count).for_each(|_| offers.note(lasted));
        offers.wanted.get() > 0
    }

    #[test]
    fn who_was_in_the_way_offers_after_each_poll_until_nobody_wants_the_processor() {
        let offers = Offers::new();
        let is_wanted = |lasted, count| is_wanted_after(&offers, lasted, count);
        assert!(!is_wanted(US, 1), "nobody was there");
        assert!(is_wanted(10 * US, 1), "a peer took what it needed");
        assert!(is_wanted(US, REMEMBERED - 1) && !is_wanted(US, 1));
    }

    #[test]
    fn threads_that_compute_are_given_a_few_slices_and_no_more() {
        let (offers, slice) = (Offers::new(), 1_000 * US);
        let is_wanted = |lasted, count| is_wanted_after(&offers, lasted, count);
        assert!(is_wanted(slice, WHOLE_MAX - 1), "it may be chance");
        assert!(!is_wanted(slice, 1));
        assert!(!is_wanted(100 * US, WHOLE_MAX - 1), "a thread beside it took some");
        assert!(is_wanted(100 * US, 1), "the one that computed has gone");
        assert!(is_wanted(slice, WHOLE_MAX - 1) && !is_wanted(slice, 1));
    }
}
