//! What the model-based controller knows of a path: its rate, how acknowledgements clump, how a round trip went.

use weft_base::Instant;

use super::{Ack, Loss};
use crate::rate::RateSample;

/// Rounds for which a clump is remembered, once or twice over.
const CLUMP_ROUNDS: u32 = 10;

/// The greatest delivery rate of the present and the previous cycle, in packets per second.
///
/// A cycle is one turn of probing, so that both hold a moment in which more than the known rate was tried.
#[derive(Clone, Debug, Default)]
pub(super) struct Bandwidth {
    cycles: [f64; 2],
}

impl Bandwidth {
    /// Takes in a sample. One that the application limited counts only if it is larger than what is known.
    pub(super) fn sample(&mut self, sample: &RateSample) {
        let rate = sample.packets_per_second();
        if !sample.is_app_limited || rate >= self.get() {
            self.cycles[0] = self.cycles[0].max(rate);
        }
    }

    /// A cycle is over. One that saw no sample does not count, so an idle sender forgets nothing.
    pub(super) fn end_cycle(&mut self) {
        if self.cycles[0] > 0.0 {
            self.cycles = [0.0, self.cycles[0]];
        }
    }

    /// The estimate; 0 before the first sample.
    pub(super) fn get(&self) -> f64 {
        self.cycles[0].max(self.cycles[1])
    }
}

/// How many more packets are acknowledged at once than the rate explains.
///
/// Acknowledgements come in clumps: a receiver answers once per turn, an interrupt gathers a batch. While a clump
/// gathers nothing is heard, and a window that only just covers the round trip would run dry.
#[derive(Clone, Debug, Default)]
pub(super) struct Clumps {
    since: Instant,
    acked: f64,
    greatest: [f64; 2],
    rounds: u32,
}

impl Clumps {
    pub(super) fn handle_ack(&mut self, ack: &Ack, rate: f64) {
        let expected = rate * (ack.now - self.since).as_secs_f64();
        if self.acked <= expected {
            self.since = ack.now;
            self.acked = f64::from(ack.newly_acked);
            return;
        }
        self.acked += f64::from(ack.newly_acked);
        self.greatest[0] = self.greatest[0].max(self.acked - expected);
    }

    pub(super) fn end_round(&mut self) {
        self.rounds += 1;
        if self.rounds == CLUMP_ROUNDS {
            self.rounds = 0;
            self.greatest = [0.0, self.greatest[0]];
        }
    }

    /// Packets of the largest clump lately.
    pub(super) fn get(&self) -> f64 {
        self.greatest[0].max(self.greatest[1])
    }
}

/// What happened in one round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    pub(super) started: Instant,
    pub(super) delivered: u32,
    pub(super) lost: u32,
    pub(super) is_marked: bool,
    /// Some of it was sent for want of data, so that its rate says little.
    pub(super) is_app_limited: bool,
    /// Greatest count in flight.
    pub(super) in_flight_max: f64,
    /// The same as it began, if an acknowledgement ended the one before.
    pub(super) in_flight_before: u32,
}

impl Round {
    /// Takes in an acknowledgement and gives back the round that it ends, if it ends one.
    pub(super) fn handle_ack(&mut self, ack: &Ack) -> Option<Self> {
        self.delivered = self.delivered.saturating_add(ack.newly_acked);
        self.in_flight_max = self.in_flight_max.max(f64::from(ack.in_flight) + f64::from(ack.newly_acked));
        if let Some(sample) = ack.delivery {
            self.is_app_limited |= sample.is_app_limited;
        }
        (ack.sent_at >= self.started).then(|| {
            let over = self.cut(ack.now);
            self.in_flight_before = ack.in_flight.saturating_add(ack.newly_acked);
            over
        })
    }

    /// Greatest count in flight in the round, or as it began, of one that nothing has been heard in: a mark may come with
    /// the acknowledgement that ended the one before.
    pub(super) fn peak(&self) -> f64 {
        if self.in_flight_max > 0.0 { self.in_flight_max } else { f64::from(self.in_flight_before) }
    }

    pub(super) fn handle_loss(&mut self, loss: &Loss) {
        self.lost = self.lost.saturating_add(loss.lost);
        self.in_flight_max = self.in_flight_max.max(f64::from(loss.in_flight) + f64::from(loss.lost));
    }

    /// Packets per second that a round which ended at `now` delivered.
    pub(super) fn rate(&self, now: Instant) -> f64 {
        f64::from(self.delivered) / (now - self.started).as_secs_f64().max(1e-9)
    }

    /// The round so far; what follows counts as a new one, begun at `now`.
    pub(super) fn cut(&mut self, now: Instant) -> Self {
        std::mem::replace(self, Self { started: now, ..Self::default() })
    }

    pub(super) fn mark(&mut self) {
        self.is_marked = true;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::{ack, loss};
    use super::*;

    fn sample(delivered: u32, is_app_limited: bool) -> RateSample {
        RateSample { delivered, interval: Duration::from_millis(1), is_app_limited }
    }

    #[test]
    fn the_rate_is_the_greatest_of_two_cycles() {
        let mut bandwidth = Bandwidth::default();
        bandwidth.sample(&sample(9, false));
        bandwidth.sample(&sample(5, false));
        bandwidth.end_cycle();
        bandwidth.sample(&sample(6, false));
        assert!((bandwidth.get() - 9_000.0).abs() < 1e-6);
        bandwidth.end_cycle();
        bandwidth.sample(&sample(4, false));
        assert!((bandwidth.get() - 6_000.0).abs() < 1e-6);
    }

    #[test]
    fn an_application_that_sends_little_does_not_lower_the_rate() {
        let mut bandwidth = Bandwidth::default();
        bandwidth.sample(&sample(9, false));
        for _ in 0..10 {
            bandwidth.end_cycle();
            bandwidth.sample(&sample(1, true));
        }
        assert!((bandwidth.get() - 9_000.0).abs() < 1e-6);
        bandwidth.sample(&sample(12, true));
        assert!((bandwidth.get() - 12_000.0).abs() < 1e-6, "but it may raise it");
    }

    #[test]
    fn a_clump_counts_what_the_rate_does_not_explain() {
        let mut clumps = Clumps::default();
        let at = |us: u64| Instant::from_nanos(us * 1_000);
        // 1,000 packets a second, heard of ten at a time
        for clump in 1..=5 {
            for _ in 0..10 {
                clumps.handle_ack(&Ack { now: at(clump * 10_000), ..ack() }, 1_000.0);
            }
        }
        assert!((9.0..=11.0).contains(&clumps.get()), "{}", clumps.get());
        for _ in 0..2 * CLUMP_ROUNDS {
            clumps.end_round();
        }
        assert!(clumps.get() < 1e-9, "forgotten");
    }

    #[test]
    fn a_round_ends_with_a_packet_that_was_sent_in_it() {
        let mut round = Round::default();
        let at = |us: u64| Instant::from_nanos(us * 1_000);
        assert!(round.handle_ack(&Ack { now: at(10), sent_at: at(0), ..ack() }).is_some());
        round.handle_loss(&Loss { lost: 2, in_flight: 30, ..loss() });
        assert!(round.handle_ack(&Ack { now: at(15), sent_at: at(5), ..ack() }).is_none());
        let over = round.handle_ack(&Ack { now: at(20), sent_at: at(10), ..ack() }).unwrap();
        assert_eq!((over.delivered, over.lost), (2, 2));
        assert!((over.in_flight_max - 32.0).abs() < 1e-9);
    }
}
