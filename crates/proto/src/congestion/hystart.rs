//! HyStart++ (RFC 9406): leaving the first slow start before it overruns the queue.
//!
//! Slow start doubles the window each round trip and learns that it went too far only when a queue full of packets
//! is lost. A queue that begins to fill shows earlier, in round trips that grow. Then slow start goes on at a quarter
//! of its pace ("conservative slow start") for five round trips; if the round trips shrink again it was noise.
//!
//! On a long path that is too late, as the window doubles in the round trip in which the queue fills. There slow start is over when
//! acknowledgements of one round come in a train, without a gap, that is as long as the least round trip: the window fills the
//! path. (Ha and Rhee, "Taming the elephants", 2011; the kernel's TCP does so, and paces as we do, so that a window that does not
//! fill the path makes trains of half of that length.) Decision 0026.

use std::time::Duration;

use weft_base::Instant;

use super::{Ack, LONG_RTT};

/// Least growth of the round trip that counts. RFC 9406 says 4 ms for the Internet; in a cluster that is tens of
/// round trips and more than most queues hold, so the bound is 250 µs: several times the jitter of a poll.
const RISE_MIN: Duration = Duration::from_micros(250);
/// Greatest growth of the round trip that is tolerated (RFC 9406, MAX_RTT_THRESH).
const RISE_MAX: Duration = Duration::from_millis(16);
/// A rise of the round trip by one part in this many counts (RFC 9406, MIN_RTT_DIVISOR).
const RISE_DIVISOR: u32 = 8;
/// Samples a round needs before its least one is believed (RFC 9406, N_RTT_SAMPLE).
const SAMPLES_MIN: u32 = 8;
/// Slow start is this many times slower in its conservative phase (RFC 9406, CSS_GROWTH_DIVISOR).
const SLOWED_BY: f64 = 4.0;
/// Rounds of the conservative phase (RFC 9406, CSS_ROUNDS).
const SLOWED_ROUNDS: u32 = 5;

/// Acknowledgements that come closer together than this are of one train, on paths so long that a quarter of the round trip is
/// not less.
const TRAIN_GAP_MAX: Duration = Duration::from_millis(2);
/// On others, this part of the round trip: pacing leaves half of it empty.
const TRAIN_GAP_DIVISOR: u32 = 4;

/// What slow start should do with an acknowledgement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Advice {
    /// Grow by this part of the packets acknowledged.
    Grow(f64),
    /// Slow start is over.
    Stop,
}

#[derive(Clone, Copy, Debug)]
struct Slowed {
    baseline: Duration,
    rounds_left: u32,
}

/// The watch over one slow start.
#[derive(Clone, Debug, Default)]
pub(super) struct HyStart {
    round_started: Instant,
    least_last_round: Option<Duration>,
    least_this_round: Option<Duration>,
    samples: u32,
    slowed: Option<Slowed>,
    /// When the last acknowledgement of the train of this round came.
    train_end: Instant,
}

impl HyStart {
    /// Takes in an acknowledgement during slow start.
    pub(super) fn handle_ack(&mut self, ack: &Ack) -> Advice {
        if ack.sent_at >= self.round_started && self.end_round(ack.now) {
            return Advice::Stop;
        }
        if self.fills_path(ack) {
            return Advice::Stop;
        }
        if let Some(rtt) = ack.rtt {
            self.samples += 1;
            self.least_this_round = Some(self.least_this_round.map_or(rtt, |least| least.min(rtt)));
        }
        self.judge();
        Advice::Grow(if self.slowed.is_some() { 1.0 / SLOWED_BY } else { 1.0 })
    }

    /// Whether acknowledgements have come without a gap since the round began, for as long as the path is.
    fn fills_path(&mut self, ack: &Ack) -> bool {
        let Some(path) = ack.min_rtt.filter(|min_rtt| *min_rtt >= LONG_RTT) else { return false };
        if ack.now - self.train_end > TRAIN_GAP_MAX.min(path / TRAIN_GAP_DIVISOR) {
            return false;
        }
        self.train_end = ack.now;
        ack.now - self.round_started >= path
    }

    /// Begins a new round; true when the conservative phase has run its course.
    fn end_round(&mut self, now: Instant) -> bool {
        self.round_started = now;
        self.train_end = now;
        self.least_last_round = self.least_this_round.take().or(self.least_last_round);
        self.samples = 0;
        let Some(slowed) = &mut self.slowed else { return false };
        slowed.rounds_left = slowed.rounds_left.saturating_sub(1);
        slowed.rounds_left == 0
    }

    fn judge(&mut self) {
        let (Some(least), true) = (self.least_this_round, self.samples >= SAMPLES_MIN) else { return };
        match (self.slowed, self.least_last_round) {
            (Some(slowed), _) if least < slowed.baseline => self.slowed = None,
            (None, Some(before)) if least >= before + (before / RISE_DIVISOR).clamp(RISE_MIN, RISE_MAX) => {
                self.slowed = Some(Slowed { baseline: least, rounds_left: SLOWED_ROUNDS });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::ack;
    use super::*;

    /// One round of sixteen acknowledgements with the same round trip; the last advice.
    fn round(hystart: &mut HyStart, number: u64, rtt: Duration) -> Advice {
        let mut advice = Advice::Grow(0.0);
        for index in 0..16 {
            let now = Instant::from_nanos((number * 100 + index) * 1_000_000);
            let sent_at = if index == 0 { now } else { Instant::ZERO };
            advice = hystart.handle_ack(&Ack { now, sent_at, rtt: Some(rtt), ..ack() });
            if advice == Advice::Stop {
                return advice;
            }
        }
        advice
    }

    const SHORT: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_millis(3);

    #[test]
    fn a_steady_round_trip_never_slows_the_start() {
        let mut hystart = HyStart::default();
        for number in 0..50 {
            assert_eq!(round(&mut hystart, number, SHORT), Advice::Grow(1.0));
        }
    }

    #[test]
    fn a_round_trip_that_grows_slows_the_start_and_ends_it_after_five_rounds() {
        let mut hystart = HyStart::default();
        assert_eq!(round(&mut hystart, 0, SHORT), Advice::Grow(1.0));
        for number in 1..=5 {
            assert_eq!(round(&mut hystart, number, LONG), Advice::Grow(0.25), "round {number}");
        }
        assert_eq!(round(&mut hystart, 6, LONG), Advice::Stop);
    }

    #[test]
    fn a_rise_that_goes_away_was_noise() {
        let mut hystart = HyStart::default();
        let _ = round(&mut hystart, 0, SHORT);
        assert_eq!(round(&mut hystart, 1, LONG), Advice::Grow(0.25));
        assert_eq!(round(&mut hystart, 2, SHORT), Advice::Grow(1.0));
    }

    /// Acknowledgements every so often for as long, on a path of this round trip; what came of the last of them.
    fn train(gap: Duration, len: Duration, rtt: Duration) -> Advice {
        let (mut hystart, start) = (HyStart::default(), Instant::from_nanos(1_000_000_000));
        let mut advice = Advice::Grow(0.0);
        let mut after = Duration::ZERO;
        while after <= len && advice != Advice::Stop {
            let now = start + after;
            let sent_at = if after.is_zero() { now } else { Instant::ZERO };
            advice = hystart.handle_ack(&Ack { now, sent_at, rtt: Some(rtt), min_rtt: Some(rtt), ..ack() });
            after += gap;
        }
        advice
    }

    #[test]
    fn acknowledgements_without_a_gap_for_a_round_trip_end_the_start() {
        let (gap, rtt) = (Duration::from_micros(12), 10 * SHORT);
        assert_eq!(train(gap, rtt, rtt), Advice::Grow(1.0), "not a whole one");
        assert_eq!(train(gap, rtt + gap, rtt), Advice::Stop);
        assert_eq!(train(3 * SHORT, 3 * rtt, rtt), Advice::Grow(1.0), "gaps");
    }

    #[test]
    fn on_a_short_path_they_say_nothing() {
        let (gap, rtt) = (Duration::from_micros(12), SHORT / 2);
        assert_eq!(train(gap, 4 * rtt, rtt), Advice::Grow(1.0));
    }

    #[test]
    fn too_few_samples_say_nothing() {
        let mut hystart = HyStart::default();
        let _ = round(&mut hystart, 0, SHORT);
        for index in 0..7 {
            let now = Instant::from_nanos(1_000_000_000 + index);
            let advice = hystart.handle_ack(&Ack { now, sent_at: Instant::ZERO, rtt: Some(LONG), ..ack() });
            assert_eq!(advice, Advice::Grow(1.0));
        }
    }
}
