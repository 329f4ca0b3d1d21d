//! How long a doze may be where the network brings less than who receives could take: found out by trying (decision 0099).
//!
//! What comes in a doze keeps its sender waiting once that has sent all it may without an answer, and how much that is the receiver
//! cannot know. So it compares what came in a period with dozes of one length and in a period with those of the next: the longer ones stay
//! unless less came by a sixteenth, and are given up at once where less than half comes. It climbs from one step to the next at once, and looks
//! now and then whether that is still so.

use std::time::Duration;

use weft_base::Instant;

use super::per_ms;

/// How long a thread dozes at most that waits for a stream, or for room to send: the acknowledgements of what comes meanwhile are so late
/// (CDP-ACK-9 has a millisecond for them, once it is here).
pub(crate) const STREAM_DOZE_MAX: Duration = Duration::from_micros(1_200);
/// The longest doze of each step; with the first there is none.
const STEPS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_micros(150),
    Duration::from_micros(300),
    Duration::from_micros(600),
    STREAM_DOZE_MAX,
];
/// What is compared: long enough that a burst more or less does not matter.
const PERIOD: Duration = Duration::from_millis(16);
/// What tells that dozes hold up the sender beyond doubt.
const GLIMPSE: Duration = Duration::from_millis(2);
/// Periods from one trial to the next, at first and in the end.
const REST: u32 = 16;
const REST_MAX: u32 = 64;
/// After such a pause another sender may send, or by another way.
const PAUSE: Duration = Duration::from_millis(100);

/// Which step dozes have come to; under the lock of the turn.
pub(super) struct Stretch {
    step: usize,
    phase: Phase,
    /// Whether the next trial is of longer dozes, where there are shorter ones too.
    is_next_longer: bool,
    /// Periods from the end of this trial to the next.
    rest: u32,
    noted_at: Instant,
    /// What came in the period until now.
    bytes: u64,
    span: Duration,
}

#[derive(Clone, Copy)]
enum Phase {
    /// So many periods until the next trial.
    Rest(u32),
    /// The sender finds its pace.
    Settle(Before),
    Compare(Before),
}

/// What a trial is compared with.
#[derive(Clone, Copy)]
struct Before {
    step: usize,
    bytes_per_ms: u64,
}

impl Stretch {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            step: 0,
            phase: Phase::Rest(0),
            is_next_longer: true,
            rest: REST,
            noted_at: now,
            bytes: 0,
            span: Duration::ZERO,
        }
    }

    /// So much came in the `span` until `now`, in which there might have been dozes. How long one may be.
    pub(super) fn note(&mut self, bytes: u64, span: Duration, now: Instant) -> Duration {
        if now.saturating_since(self.noted_at) >= PAUSE {
            *self = Self::new(now);
            return STEPS[0];
        }
        self.noted_at = now;
        self.bytes += bytes;
        self.span += span;
        let bytes_per_ms = per_ms(self.bytes, self.span);
        let next = if self.span >= PERIOD {
            Some(self.next_phase(bytes_per_ms))
        } else {
            self.give_up(bytes_per_ms)
        };
        if let Some(phase) = next {
            self.phase = phase;
            (self.bytes, self.span) = (0, Duration::ZERO);
        }
        STEPS[self.step]
    }

    /// Ends a trial of longer dozes in which so little comes that there is no doubt.
    fn give_up(&mut self, bytes_per_ms: u64) -> Option<Phase> {
        let (Phase::Settle(before) | Phase::Compare(before)) = self.phase else { return None };
        let is_over =
            self.step > before.step && self.span >= GLIMPSE && bytes_per_ms < before.bytes_per_ms / 2;
        is_over.then(|| {
            self.step = before.step;
            self.rest()
        })
    }

    /// A trial is over.
    fn rest(&mut self) -> Phase {
        let longer = (2 * self.rest).min(REST_MAX);
        Phase::Rest(std::mem::replace(&mut self.rest, longer))
    }

    fn next_phase(&mut self, bytes_per_ms: u64) -> Phase {
        match self.phase {
            Phase::Rest(0) => {
                let is_longer = self.step == 0 || self.is_next_longer && self.step + 1 < STEPS.len();
                self.is_next_longer = !is_longer;
                self.try_another(is_longer, bytes_per_ms)
            }
            Phase::Rest(left) => Phase::Rest(left - 1),
            Phase::Settle(before) => Phase::Compare(before),
            Phase::Compare(before) => {
                let is_longer = self.step > before.step;
                let (short, long) = if is_longer {
                    (before.bytes_per_ms, bytes_per_ms)
                } else {
                    (bytes_per_ms, before.bytes_per_ms)
                };
                let is_harmless = long >= short - short / 16;
                if is_longer && is_harmless && self.step + 1 < STEPS.len() {
                    return self.try_another(true, bytes_per_ms);
                }
                if is_longer != is_harmless {
                    self.step = before.step;
                }
                self.rest()
            }
        }
    }

    fn try_another(&mut self, is_longer: bool, bytes_per_ms: u64) -> Phase {
        let before = Before { step: self.step, bytes_per_ms };
        self.step = if is_longer { self.step + 1 } else { self.step - 1 };
        Phase::Settle(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Instant = Instant::from_nanos(1_000_000_000);

    /// A stream whose sender brings so much with dozes of each length.
    struct Path {
        stretch: Stretch,
        now: Instant,
        bytes_per_ms: fn(Duration) -> u64,
        most: Duration,
    }

    impl Path {
        fn new(bytes_per_ms: fn(Duration) -> u64) -> Self {
            Self { stretch: Stretch::new(AT), now: AT, bytes_per_ms, most: Duration::ZERO }
        }

        /// How long a doze may be, after each of so many periods.
        fn periods(&mut self, count: u32) -> Vec<u128> {
            let mut period = || {
                for _ in 0..16 {
                    self.window();
                }
                self.most.as_micros()
            };
            (0..count).map(|_| period()).collect()
        }

        /// The same after a millisecond.
        fn window(&mut self) -> Duration {
            self.now += Duration::from_millis(1);
            let bytes = (self.bytes_per_ms)(self.most);
            self.most = self.stretch.note(bytes, Duration::from_millis(1), self.now);
            self.most
        }
    }

    #[test]
    fn dozes_that_keep_nobody_waiting_become_longer_at_once() {
        let mut path = Path::new(|_| 120_000);
        assert_eq!(path.periods(9), [150, 150, 300, 300, 600, 600, 1_200, 1_200, 1_200]);
        let later = path.periods(1_000);
        assert!(later.contains(&600), "it looks whether shorter ones are better");
        let shorter = later.iter().filter(|&&most| most != 1_200).count();
        assert!(shorter < 50, "{shorter} of 1,000 periods");
    }

    /// With 24 packets in flight.
    #[test]
    fn dozes_that_keep_the_sender_waiting_are_given_up() {
        let mut path = Path::new(|most| {
            let round_ns = 100_000 + u64::try_from(most.as_nanos()).unwrap();
            (24 * 1_444 * 1_000_000 / round_ns).min(120_000)
        });
        assert_eq!(path.periods(7), [150, 150, 300, 300, 150, 150, 150]);
        let later = path.periods(1_000);
        let longer = later.iter().filter(|&&most| most > 150).count();
        assert!(0 < longer && longer < 50, "{longer} of 1,000 periods");
        assert!(!later.contains(&600));
    }

    /// With twelve packets in flight on a path of microseconds, as losses have it.
    #[test]
    fn dozes_that_keep_the_sender_waiting_most_of_the_time_are_given_up_at_once() {
        let mut path = Path::new(|most| {
            let round_ns = 20_000 + u64::try_from(most.as_nanos()).unwrap();
            12 * 1_444 * 1_000_000 / round_ns
        });
        path.periods(1);
        assert_eq!(path.most, STEPS[1]);
        let shorter = (0..1_000).filter(|_| path.window().is_zero()).count();
        assert!(shorter >= 990, "{shorter} of 1,000 ms");
    }

    #[test]
    fn what_was_harmless_is_given_up_when_it_is_no_more() {
        let mut path = Path::new(|_| 120_000);
        path.periods(100);
        path.bytes_per_ms = |most| {
            if most.is_zero() { 120_000 } else { 12_000_000 / u64::try_from(most.as_micros()).unwrap() }
        };
        let later = path.periods(1_000);
        assert_eq!(later.iter().rev().take(50).min(), Some(&0));
    }

    #[test]
    fn it_begins_anew_after_a_pause() {
        let mut path = Path::new(|_| 120_000);
        assert_eq!(path.periods(9).pop(), Some(1_200));
        path.now += PAUSE;
        assert_eq!(path.periods(2), [0, 150]);
    }
}
