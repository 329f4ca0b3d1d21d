//! Delivery rate: how fast the path took packets, measured from acknowledgements.
//!
//! Every transmission carries away a [`Stamp`] of what had been delivered when it left. When it is acknowledged, the
//! difference to what has been delivered by then, over the longer of the time it took to send those packets and the
//! time it took to hear of them, is a lower estimate of what the path can carry. The longer of the two is taken
//! because acknowledgements arrive in clumps: a clump makes the second time short and the rate too high.
//!
//! A sample taken while the sender had nothing to send tells of the sender and not of the path; it is marked
//! [`RateSample::is_app_limited`].

use std::time::Duration;

use weft_base::Instant;

/// What a transmission remembers until it is acknowledged; kept with the segment, renewed by a retransmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stamp {
    /// When this transmission left.
    pub sent_at: Instant,
    /// Packets of the connection delivered by then.
    delivered: u64,
    /// When the last of those was acknowledged.
    delivered_at: Instant,
    /// When the packet left whose acknowledgement began the present stretch of sending.
    first_sent_at: Instant,
    is_app_limited: bool,
}

/// The rate at which the path delivered packets during about one round trip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateSample {
    /// Packets delivered during `interval`.
    pub delivered: u32,
    /// The time they took; never zero.
    pub interval: Duration,
    /// Whether the sender ran out of data meanwhile, so that the path may be faster than this.
    pub is_app_limited: bool,
}

impl RateSample {
    /// Packets per second.
    #[must_use]
    pub fn packets_per_second(&self) -> f64 {
        f64::from(self.delivered) / self.interval.as_secs_f64()
    }
}

/// Counts what a connection has delivered and turns acknowledgements into rate samples.
///
/// Per transmission call [`Estimator::stamp`]; per packet newly acknowledged or held, [`Estimator::handle_acked`];
/// at the end of each acknowledgement, [`Estimator::take_sample`].
#[derive(Clone, Debug, Default)]
pub struct Estimator {
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// Samples are limited by the application until this many packets are delivered; 0 when they are not.
    app_limited_until: u64,
    /// The newest transmission that the present acknowledgement covers.
    newest: Option<Stamp>,
}

impl Estimator {
    /// Nothing delivered yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Packets delivered since the open.
    #[must_use]
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The path is another from `now` on: the time that went by on the one before is not this one's.
    pub fn change_path(&mut self, now: Instant) {
        *self = Self { delivered: self.delivered, delivered_at: now, first_sent_at: now, ..Self::new() };
    }

    /// The stamp of a transmission that leaves at `now`, with `in_flight` packets before it.
    pub fn stamp(&mut self, now: Instant, in_flight: u32) -> Stamp {
        if in_flight == 0 {
            // The pipe was empty: time spent waiting for the user is not the path's.
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        Stamp {
            sent_at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            is_app_limited: self.app_limited_until != 0,
        }
    }

    /// The sender has no data for the room it has: what is in flight now measures the application.
    pub fn mark_app_limited(&mut self, in_flight: u32) {
        self.app_limited_until = (self.delivered + u64::from(in_flight)).max(1);
    }

    /// So many packets have been acknowledged that left before the one which [`Estimator::handle_acked`] is told of next.
    pub fn count_acked(&mut self, packets: u64) {
        self.delivered += packets;
    }

    /// A packet with this stamp has been acknowledged, or held by SACK, for the first time.
    pub fn handle_acked(&mut self, now: Instant, stamp: &Stamp) {
        self.delivered += 1;
        self.delivered_at = now;
        let is_newer = self
            .newest
            .is_none_or(|newest| (stamp.delivered, stamp.sent_at) >= (newest.delivered, newest.sent_at));
        if is_newer {
            self.newest = Some(*stamp);
        }
        if self.app_limited_until != 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
    }

    /// The sample of the acknowledgement just handled; `None` if it acknowledged nothing or is too short to trust.
    ///
    /// A stretch shorter than `min_rtt` cannot be a round trip: it comes from a packet that was sent twice and whose
    /// first transmission was acknowledged.
    pub fn take_sample(&mut self, min_rtt: Option<Duration>) -> Option<RateSample> {
        let newest = self.newest.take()?;
        let to_send = newest.sent_at - newest.first_sent_at;
        let to_hear = self.delivered_at - newest.delivered_at;
        self.first_sent_at = newest.sent_at;
        let interval = to_send.max(to_hear);
        if interval.is_zero() || min_rtt.is_some_and(|least| interval < least) {
            return None;
        }
        let delivered = u32::try_from(self.delivered - newest.delivered).unwrap_or(u32::MAX);
        Some(RateSample { delivered, interval, is_app_limited: newest.is_app_limited })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STEP: Duration = Duration::from_micros(100);
    const RTT: Duration = Duration::from_millis(1);

    fn at(step: u64) -> Instant {
        Instant::from_nanos(step * 100_000)
    }

    /// A packet each 100 µs over a round trip of 1 ms, acknowledged `clump` at a time.
    fn steady(clump: u64) -> RateSample {
        let mut estimator = Estimator::new();
        let mut stamps = Vec::new();
        let mut last = None;
        for step in 0..100_u64 {
            let in_flight = u32::try_from(stamps.len() as u64 - estimator.delivered()).unwrap();
            stamps.push(estimator.stamp(at(step), in_flight));
            let arrived = step.saturating_sub(10);
            if step >= 10 && arrived % clump == 0 {
                while estimator.delivered() < arrived {
                    let next = stamps[usize::try_from(estimator.delivered()).unwrap()];
                    estimator.handle_acked(at(step), &next);
                }
                last = estimator.take_sample(Some(RTT)).or(last);
            }
        }
        last.unwrap()
    }

    #[test]
    fn a_steady_flow_measures_its_own_rate() {
        let rate = steady(1).packets_per_second();
        assert!((9_000.0..=10_001.0).contains(&rate), "{rate}");
    }

    #[test]
    fn acknowledgements_in_clumps_do_not_raise_the_rate() {
        for clump in [2, 4, 8] {
            let rate = steady(clump).packets_per_second();
            assert!((8_000.0..=10_001.0).contains(&rate), "clump {clump}: {rate}");
        }
    }

    #[test]
    fn a_sample_after_an_idle_time_does_not_count_that_time() {
        let mut estimator = Estimator::new();
        let first = estimator.stamp(at(0), 0);
        estimator.handle_acked(at(10), &first);
        let _ = estimator.take_sample(None);
        let second = estimator.stamp(at(100_000), 0);
        estimator.handle_acked(at(100_010), &second);
        let sample = estimator.take_sample(None).unwrap();
        assert_eq!((sample.delivered, sample.interval), (1, STEP * 10));
    }

    #[test]
    fn what_was_sent_while_the_application_had_no_more_is_marked_and_what_follows_is_not() {
        let mut estimator = Estimator::new();
        let before = estimator.stamp(at(0), 0);
        estimator.mark_app_limited(1);
        let after = estimator.stamp(at(1), 1);
        estimator.handle_acked(at(10), &before);
        assert!(!estimator.take_sample(None).unwrap().is_app_limited);
        estimator.handle_acked(at(11), &after);
        assert!(estimator.take_sample(None).unwrap().is_app_limited);
        let later = estimator.stamp(at(12), 0);
        estimator.handle_acked(at(22), &later);
        assert!(!estimator.take_sample(None).unwrap().is_app_limited);
    }

    #[test]
    fn a_sample_shorter_than_the_least_round_trip_is_refused() {
        let mut estimator = Estimator::new();
        let stamp = estimator.stamp(at(0), 0);
        estimator.handle_acked(at(1), &stamp);
        assert_eq!(estimator.take_sample(Some(RTT)), None);
        assert_eq!(estimator.take_sample(None), None, "a sample is taken once");
    }

    proptest! {
        /// Whatever the order of acknowledgements, a sample never tells of more than was delivered, nor in no time.
        #[test]
        fn samples_stay_within_what_was_delivered(gaps in prop::collection::vec((0_u64..50, 0_usize..30), 1..200)) {
            let mut estimator = Estimator::new();
            let mut flying: Vec<Stamp> = Vec::new();
            let mut step = 0;
            for (gap, pick) in gaps {
                step += gap;
                flying.push(estimator.stamp(at(step), u32::try_from(flying.len()).unwrap()));
                if pick < 20 {
                    let index = pick % flying.len();
                    let stamp = flying.swap_remove(index);
                    estimator.handle_acked(at(step + 1), &stamp);
                    if let Some(sample) = estimator.take_sample(None) {
                        prop_assert!(u64::from(sample.delivered) <= estimator.delivered());
                        prop_assert!(sample.delivered >= 1 && !sample.interval.is_zero());
                    }
                }
            }
        }
    }
}
