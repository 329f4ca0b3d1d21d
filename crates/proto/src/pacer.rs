//! Pacing: spreading packets over the round trip instead of sending a window at once.
//!
//! A bucket of tokens, one a packet, that fills at the controller's rate. It holds two milliseconds' worth, so that
//! an engine that looks only once per millisecond loses nothing, and at high rates it lets go in batches, so that
//! one system call can hand over up to 64 packets for segmentation. Counting is exact, in whole billionths of a
//! packet: over any stretch of time no more leaves than the rate allows and one bucket.

use std::time::Duration;

use weft_base::Instant;

/// Billionths in one packet.
const PACKET: i64 = 1_000_000_000;
/// What the bucket holds: this much time's worth of packets ...
const BURST_TIME: Duration = Duration::from_millis(2);
/// ... but no fewer than this, so that a short message leaves at once, and no more than this.
const BURST_PACKETS: (u64, u64) = (4, 65_536);
/// An empty bucket waits until it holds this much time's worth of packets ...
const BATCH_TIME: Duration = Duration::from_micros(100);
/// ... from 1 to this many: the segments of one super-packet.
const BATCH_PACKETS: (u64, u64) = (1, 64);

/// The token bucket of one connection.
///
/// ```
/// use std::time::Duration;
/// use weft_base::Instant;
/// use weft_proto::pacer::Pacer;
///
/// let mut pacer = Pacer::new(Instant::ZERO);
/// assert_eq!(pacer.poll(Instant::ZERO, 1_000), Ok(4)); // a full bucket
/// pacer.sent(4);
/// assert_eq!(pacer.poll(Instant::ZERO, 1_000), Err(Instant::ZERO + Duration::from_millis(1)));
/// ```
#[derive(Clone, Debug)]
pub struct Pacer {
    /// Billionths of a packet that may leave; below zero after packets that did not ask.
    credit: i64,
    filled_at: Instant,
    /// The bucket ran dry and gathers a batch.
    is_dry: bool,
}

impl Pacer {
    /// A full bucket.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self { credit: i64::MAX, filled_at: now, is_dry: false }
    }

    /// How many packets may leave at `now` at `rate` packets per second, at least 1; or when to ask again.
    ///
    /// # Errors
    /// The point in time at which packets may leave, if the rate stays.
    pub fn poll(&mut self, now: Instant, rate: u64) -> Result<u32, Instant> {
        let rate = rate.max(1);
        self.fill(now, rate);
        let needed = if self.is_dry { worth(rate, BATCH_TIME, BATCH_PACKETS) } else { PACKET };
        if self.credit >= needed {
            self.is_dry = false;
            return Ok(u32::try_from(self.credit / PACKET).unwrap_or(u32::MAX));
        }
        let missing = needed.abs_diff(self.credit);
        Err(now + Duration::from_nanos(missing.div_ceil(rate)))
    }

    /// Whether a packet may leave whatever came in since [`Pacer::poll`] was last asked.
    #[must_use]
    pub fn has_credit(&self) -> bool {
        !self.is_dry && self.credit >= PACKET
    }

    /// `packets` left. Packets that leave without asking put the bucket in debt, by at most the
    /// largest bucket.
    pub fn sent(&mut self, packets: u32) {
        let cost = i64::from(packets) * PACKET;
        self.credit = self.credit.saturating_sub(cost).max(-whole(BURST_PACKETS.1));
        self.is_dry |= self.credit < PACKET;
    }

    /// Adds what came in since the last time, up to a full bucket.
    fn fill(&mut self, now: Instant, rate: u64) {
        // Packets per second are billionths of a packet per nanosecond.
        let elapsed = u64::try_from((now - self.filled_at).as_nanos()).unwrap_or(u64::MAX);
        let income = i64::try_from(elapsed.saturating_mul(rate)).unwrap_or(i64::MAX);
        self.credit = self.credit.saturating_add(income).min(worth(rate, BURST_TIME, BURST_PACKETS));
        self.filled_at = self.filled_at.max(now);
    }
}

/// The packets of `time` at `rate`, from `least` to `most`, in billionths.
fn worth(rate: u64, time: Duration, (least, most): (u64, u64)) -> i64 {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    i64::try_from(rate.saturating_mul(nanos)).unwrap_or(i64::MAX).clamp(whole(least), whole(most))
}

/// Whole packets in billionths.
fn whole(packets: u64) -> i64 {
    i64::try_from(packets).unwrap_or(i64::MAX).saturating_mul(PACKET)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1_000)
    }

    /// Sends all it may at each of the times; gives back the times at which packets left and how many.
    fn drain(pacer: &mut Pacer, rate: u64, times: impl Iterator<Item = Instant>) -> Vec<(Instant, u32)> {
        let mut left = Vec::new();
        for now in times {
            if let Ok(packets) = pacer.poll(now, rate) {
                pacer.sent(packets);
                left.push((now, packets));
            }
        }
        left
    }

    #[test]
    fn a_look_each_millisecond_keeps_the_full_rate() {
        for rate in [1_000, 10_000, 100_000, 1_000_000, 10_000_000] {
            let mut pacer = Pacer::new(Instant::ZERO);
            let left = drain(&mut pacer, rate, (0..=1_000).map(|ms| at(ms * 1_000)));
            let sent: u64 = left.iter().skip(1).map(|(_, packets)| u64::from(*packets)).sum();
            assert!(sent >= rate - 1, "{sent} of {rate}");
        }
    }

    #[test]
    fn a_look_that_is_half_a_millisecond_late_loses_nothing_either() {
        let mut pacer = Pacer::new(Instant::ZERO);
        let late = (0..=1_000_u64).map(|ms| at(ms * 1_000 + (ms % 2) * 500));
        let sent: u64 = drain(&mut pacer, 100_000, late).iter().skip(1).map(|(_, n)| u64::from(*n)).sum();
        assert!(sent >= 99_990, "{sent}");
    }

    #[test]
    fn a_spinning_sender_lets_go_in_batches_of_up_to_64_packets_at_high_rates_and_of_one_at_low() {
        for (rate, batch) in [(1_000, 1), (100_000, 10), (1_000_000, 64), (10_000_000, 64)] {
            let mut pacer = Pacer::new(Instant::ZERO);
            let left = drain(&mut pacer, rate, (0..5_000).map(at));
            let least = left.iter().skip(1).map(|(_, packets)| *packets).min();
            assert!(least.is_some_and(|least| (batch..=batch + 10).contains(&least)), "{rate}: {least:?}");
        }
    }

    #[test]
    fn the_time_it_names_is_the_first_at_which_packets_may_leave() {
        for rate in [1, 7, 999, 54_321, 3_000_000] {
            let mut pacer = Pacer::new(Instant::ZERO);
            let full = pacer.poll(Instant::ZERO, rate).unwrap();
            pacer.sent(full);
            let due = pacer.poll(Instant::ZERO, rate).unwrap_err();
            let before = Instant::from_nanos(due.as_nanos() - 1);
            assert_eq!(pacer.poll(before, rate), Err(due), "rate {rate}");
            assert!(pacer.poll(due, rate).is_ok(), "rate {rate}");
        }
    }

    #[test]
    fn packets_that_did_not_ask_are_paid_back() {
        let mut pacer = Pacer::new(Instant::ZERO);
        assert_eq!(pacer.poll(Instant::ZERO, 1_000), Ok(4));
        pacer.sent(14);
        assert_eq!(pacer.poll(Instant::ZERO, 1_000), Err(at(11_000)));
    }

    #[test]
    fn a_clock_that_stands_still_or_falls_back_gives_nothing() {
        let mut pacer = Pacer::new(at(1_000));
        pacer.sent(4);
        let full = pacer.poll(at(1_000), 1_000).unwrap();
        pacer.sent(full);
        assert!(pacer.poll(at(500), 1_000).is_err());
        assert!(pacer.poll(at(1_000), 1_000).is_err());
    }

    proptest! {
        /// Between any two points no more leaves than the rate allows and one bucket, exactly; and a sender that takes
        /// all it may loses nothing but what no longer fitted into the bucket.
        #[test]
        fn what_leaves_is_what_came_in(
            rate in prop_oneof![1_u64..1_000, 1_000_u64..10_000_000],
            gaps in prop::collection::vec(0_u64..3_000_000, 1..200),
        ) {
            let mut pacer = Pacer::new(Instant::ZERO);
            let mut now = Instant::ZERO;
            let times: Vec<_> = gaps.iter().map(|gap| { now += Duration::from_nanos(*gap); now }).collect();
            let left = drain(&mut pacer, rate, times.iter().copied());
            let bucket = worth(rate, BURST_TIME, BURST_PACKETS) as u128;
            for (first, (from, _)) in left.iter().enumerate() {
                let mut sum = 0_u128;
                for (until, packets) in &left[first..] {
                    sum += u128::from(*packets) * PACKET as u128;
                    prop_assert!(sum <= bucket + (*until - *from).as_nanos() * u128::from(rate));
                }
            }
            let sent: u128 = left.iter().map(|(_, packets)| u128::from(*packets)).sum();
            let credit = u128::try_from(pacer.credit.max(0)).unwrap();
            let came_in = bucket + now.as_nanos() as u128 * u128::from(rate);
            prop_assert!(sent * PACKET as u128 + credit <= came_in);
            // No gap was longer than the bucket holds, so at most the first, full bucket spilled over.
            if gaps.iter().all(|gap| *gap < 1_900_000 ) && rate >= 50_000 {
                prop_assert!(sent * PACKET as u128 + credit + bucket >= came_in);
            }
        }
    }
}
