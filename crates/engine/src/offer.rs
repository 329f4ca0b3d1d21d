//! A thread that polls offers its processor to others (decisions 0100, 0102).
//!
//! What is waited for may need the processor that waits: where two peers share one, or several threads that poll do. Who waits for an answer, and was
//! seen to be in the way, lets others run after each poll. Threads that compute take a whole slice of each offer: beside them it sleeps for some
//! waits, as the scheduler lets who has slept run as soon as it is called (decision 0110). Who waits for more of a stream, or for room, does so in
//! either case: to be called for much is worth the call.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weft_base::Instant;

use crate::clock;
use crate::port::Port;

/// Empty polls after which the processor is offered, where nobody was seen to want it.
const OFFER_EVERY: u32 = 64;
/// The same where no answer is waited for, unless a thread that waits at the same port took the last one.
const OFFER_SOON: u32 = 8;
/// An offer that lasts so long was taken; of itself it takes some 0.3 µs.
const TAKEN: Duration = Duration::from_micros(3);
/// After one that was taken the processor is offered after each poll, until so many in a row were not.
const REMEMBERED: u8 = 4;
/// One that lasts so long was taken by a thread that goes on until its slice is over, a millisecond at least.
const WHOLE: Duration = Duration::from_micros(900);
/// So many of these, less those that were not, are no chance.
const WHOLE_MAX: u8 = 8;
/// A thread of the engine, which looks now and then, takes no two in a row. After this many begin some waits without a poll.
const TAKEN_MIN: u8 = 2;
/// So many do, and so many after an offer that was taken for a whole slice, also for an answer where that is no chance.
const UNPOLLED: u16 = 16;
const UNPOLLED_BESIDE_WORK: u16 = 256;

thread_local! {
    static OFFERS: Offers = const { Offers::new() };
}

/// What came of the offers of a thread.
struct Offers {
    /// So many more are made after each poll for an answer.
    wanted: Cell<u8>,
    /// Those that were taken for a whole slice, less those that were not.
    whole: Cell<u8>,
    /// There were so many of these, and are some yet.
    is_beside_work: Cell<bool>,
    /// In waits for something else so many in a row were taken by others than those that wait at the same port.
    taken: Cell<u8>,
    /// So many more such waits begin without a poll.
    unpolled: Cell<u16>,
    /// So many more for an answer do.
    unpolled_for_answers: Cell<u16>,
    /// The last offer in one was taken by a thread that waits at the same port.
    was_ours: Cell<bool>,
}

impl Offers {
    const fn new() -> Self {
        Self {
            wanted: Cell::new(0),
            whole: Cell::new(0),
            is_beside_work: Cell::new(false),
            taken: Cell::new(0),
            unpolled: Cell::new(0),
            unpolled_for_answers: Cell::new(0),
            was_ours: Cell::new(false),
        }
    }

    /// One was made for the sake of an answer.
    fn note(&self, lasted: Duration) {
        let (wanted, whole) = (self.wanted.get(), self.whole.get());
        let whole = if lasted >= WHOLE { (whole + 1).min(WHOLE_MAX) } else { whole.saturating_sub(1) };
        self.whole.set(whole);
        self.is_beside_work.set(whole == WHOLE_MAX || whole > 0 && self.is_beside_work.get());
        if self.is_beside_work.get() && lasted >= WHOLE {
            self.unpolled_for_answers.set(UNPOLLED_BESIDE_WORK);
        }
        self.wanted.set(match lasted {
            _ if self.is_beside_work.get() => 0,
            _ if lasted >= TAKEN => REMEMBERED,
            _ => wanted.saturating_sub(1),
        });
    }

    /// One was made in a wait for something else. Threads of the same port do for each other what they wait for.
    fn note_other(&self, lasted: Duration, is_ours: bool) {
        let is_taken = lasted >= TAKEN;
        self.was_ours.set(is_taken && is_ours);
        let taken = if is_taken && !is_ours { (self.taken.get() + 1).min(TAKEN_MIN) } else { 0 };
        self.taken.set(taken);
        if taken == TAKEN_MIN {
            self.unpolled.set(if lasted >= WHOLE { UNPOLLED_BESIDE_WORK } else { UNPOLLED });
        }
    }

    /// Whether a wait that begins may poll.
    fn may_poll(&self, is_for_answer: bool) -> bool {
        let left = if is_for_answer { &self.unpolled_for_answers } else { &self.unpolled };
        left.replace(left.get().saturating_sub(1)) == 0
    }
}

/// Whether others wanted the processor of this thread lately, as far as is known.
#[inline]
pub(crate) fn is_wanted() -> bool {
    OFFERS.with(|offers| offers.wanted.get() > 0)
}

/// Whether a wait that begins may poll.
#[inline]
pub(crate) fn may_poll(is_for_answer: bool) -> bool {
    OFFERS.with(|offers| offers.may_poll(is_for_answer))
}

/// After an empty poll, the `round`th in a row, that ended at `now`: pauses, or lets others run. Tells what time it is then.
///
/// Threads of equal real-time priority run only if the one that polls lets them, others at the latest when its slice is over.
#[inline]
pub(crate) fn poll_again(round: u32, now: Instant, is_for_answer: bool, port: &Port) -> Instant {
    if is_for_answer {
        if round.is_multiple_of(OFFER_EVERY) || is_wanted() {
            return offer(now, |offers, lasted| offers.note(lasted));
        }
    } else if round.is_multiple_of(OFFER_SOON)
        && (round.is_multiple_of(OFFER_EVERY) || OFFERS.with(|offers| !offers.was_ours.get()))
    {
        let before = port.user_turn_at.load(Ordering::Relaxed);
        return offer(now, |offers, lasted| {
            offers.note_other(lasted, port.user_turn_at.load(Ordering::Relaxed) != before);
        });
    }
    std::hint::spin_loop();
    now
}

/// The same for a worker, which waits for whatever comes.
#[inline]
pub(crate) fn poll_on(round: u32) {
    if round.is_multiple_of(OFFER_EVERY) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

#[cold]
fn offer(begin: Instant, note: impl FnOnce(&Offers, Duration)) -> Instant {
    std::thread::yield_now();
    let now = clock::now();
    OFFERS.with(|offers| note(offers, now - begin));
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

    /// How many waits begin without a poll after an offer that lasted so long.
    fn unpolled_after(offers: &Offers, lasted: Duration, is_ours: bool) -> usize {
        offers.note_other(lasted, is_ours);
        (0..).take_while(|_| !offers.may_poll(false)).count()
    }

    #[test]
    fn beside_threads_that_compute_who_waits_for_an_answer_sleeps_for_some_waits() {
        let offers = Offers::new();
        let unpolled_after = |lasted, count| {
            is_wanted_after(&offers, lasted, count);
            (0..).take_while(|_| !offers.may_poll(true)).count()
        };
        assert_eq!(unpolled_after(1_000 * US, WHOLE_MAX - 1), 0, "it may be chance");
        assert_eq!(unpolled_after(1_000 * US, 1), UNPOLLED_BESIDE_WORK.into());
        assert_eq!(unpolled_after(100 * US, 1), 0, "a thread beside it took some");
        assert_eq!(unpolled_after(1_000 * US, 1), UNPOLLED_BESIDE_WORK.into());
        assert_eq!(unpolled_after(100 * US, WHOLE_MAX), 0, "the one that computed has gone");
        assert_eq!(unpolled_after(1_000 * US, 1), 0);
    }

    #[test]
    fn who_waits_for_much_sleeps_where_others_want_the_processor_unless_they_are_ours() {
        let offers = Offers::new();
        for lasted in [US, 50 * US, US, 50 * US] {
            assert_eq!(unpolled_after(&offers, lasted, false), 0, "nobody was there, or once");
        }
        assert_eq!(unpolled_after(&offers, 50 * US, false), UNPOLLED.into());
        assert_eq!(unpolled_after(&offers, 3_000 * US, false), UNPOLLED_BESIDE_WORK.into());
        assert_eq!((unpolled_after(&offers, 50 * US, true), offers.was_ours.get()), (0, true));
        assert_eq!((unpolled_after(&offers, US, true), offers.was_ours.get()), (0, false));
    }
}
