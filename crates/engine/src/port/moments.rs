//! Whether a leader looks for another moment before it sleeps on the link, as its last sleeps took no longer (decision 0104): what
//! hypervisors know as halt polling.
//!
//! To sleep and to be called takes some 10 µs of its processor and as many of the sender's, and what comes is seen as much later. So a leader whose
//! sleeps end after moments polls for one before the next, and does not sleep where that brings something. Where it brings nothing, as the peer
//! may need this processor, twice as many short sleeps have to come before it polls again.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A sleep that took less was hardly worth it.
const SHORT: Duration = Duration::from_micros(50);
/// So many in a row were no chance, at first and where polls for a moment have brought nothing again and again.
const SHORT_MIN: u32 = 4;
const SHORT_MAX: u32 = 1_024;
/// How long a leader polls.
pub(crate) const MOMENT: Duration = Duration::from_micros(25);

/// What the leader knows of its sleeps.
pub(crate) struct Moments {
    /// So many in a row were short.
    short: AtomicU32,
    /// So many have to be.
    needed: AtomicU32,
}

impl Default for Moments {
    fn default() -> Self {
        Self { short: AtomicU32::new(0), needed: AtomicU32::new(SHORT_MIN) }
    }
}

impl Moments {
    /// Whether what comes next is likely to come in a moment.
    #[inline]
    pub(crate) fn are_likely(&self) -> bool {
        self.short.load(Ordering::Relaxed) >= self.needed.load(Ordering::Relaxed)
    }

    /// A sleep took so long, and ended as the link had packets or otherwise.
    pub(crate) fn note_sleep(&self, slept: Duration, is_link_ready: bool) {
        let is_short = is_link_ready && slept < SHORT;
        let short = if is_short { (self.short.load(Ordering::Relaxed) + 1).min(SHORT_MAX) } else { 0 };
        self.short.store(short, Ordering::Relaxed);
    }

    /// A poll for a moment brought something, or nothing.
    pub(crate) fn note_poll(&self, has_come: bool) {
        if has_come {
            self.needed.store(SHORT_MIN, Ordering::Relaxed);
        } else {
            self.short.store(0, Ordering::Relaxed);
            let more = 2 * self.needed.load(Ordering::Relaxed);
            self.needed.store(more.min(SHORT_MAX), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(moments: &Moments, slept_us: u64, is_link_ready: bool) -> bool {
        moments.note_sleep(Duration::from_micros(slept_us), is_link_ready);
        moments.are_likely()
    }

    /// How many short sleeps it takes until a moment is likely to be enough.
    fn needed(moments: &Moments) -> usize {
        1 + (0..).take_while(|_| !note(moments, 49, true)).count()
    }

    #[test]
    fn sleeps_are_short_when_the_link_ends_several_at_once() {
        let moments = Moments::default();
        assert_eq!(needed(&moments), 4);
        assert!(note(&moments, 49, true));
        assert!(!note(&moments, 50, true), "a longer one");
        assert_eq!(needed(&moments), 4);
        assert!(!note(&moments, 49, false), "ended by somebody else");
        assert_eq!(needed(&moments), 4);
    }

    #[test]
    fn polls_that_bring_nothing_become_rare() {
        let moments = Moments::default();
        assert_eq!(needed(&moments), 4);
        moments.note_poll(true);
        assert!(moments.are_likely());
        let rare = [(); 10].map(|()| {
            moments.note_poll(false);
            needed(&moments)
        });
        assert_eq!(rare, [8, 16, 32, 64, 128, 256, 512, 1_024, 1_024, 1_024]);
        moments.note_poll(true);
        assert!(!note(&moments, 50, true));
        assert_eq!(needed(&moments), 4);
    }
}
