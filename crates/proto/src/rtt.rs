//! Round-trip time and the retransmission time-out it leads to (RFC 6298).

use std::time::Duration;

use weft_base::Instant;

/// Clock granularity G (section 12).
const GRANULARITY: Duration = Duration::from_millis(1);
/// What RTO_MIN adds to ACK_DELAY (section 12).
const RTO_MIN: Duration = Duration::from_millis(2);
/// How long the least round trip is remembered, in seconds.
const LEAST_SECONDS: usize = 10;

/// The estimator of one connection.
#[derive(Clone, Debug)]
pub struct Rtt {
    smoothed: Option<Duration>,
    variance: Duration,
    latest: Option<Duration>,
    least: Least,
    rto_init: Duration,
    rto_min: Duration,
    rto_max: Duration,
    /// How often the RTO has doubled.
    doublings: u32,
    /// The RTO that follows from all this: it is asked for with every packet.
    rto: Duration,
}

impl Rtt {
    /// Before the first sample: RTO_INIT; later within 2 ms + `ack_delay` and `rto_max`.
    #[must_use]
    pub fn new(rto_init: Duration, ack_delay: Duration, rto_max: Duration) -> Self {
        Self {
            smoothed: None,
            variance: Duration::ZERO,
            latest: None,
            least: Least::default(),
            rto_init,
            rto_min: RTO_MIN + ack_delay,
            rto_max,
            doublings: 0,
            rto: rto_init.min(rto_max),
        }
    }

    /// Takes a sample of a number that was sent once (CDP-RTX-3).
    pub fn sample(&mut self, now: Instant, rtt: Duration) {
        // [CDP-RTX-2] first SRTT = R, RTTVAR = R/2; then β = 1/4, α = 1/8
        match self.smoothed {
            None => {
                self.smoothed = Some(rtt);
                self.variance = rtt / 2;
            }
            Some(smoothed) => {
                let [variance, smoothed, rtt] = [self.variance, smoothed, rtt].map(nanos);
                self.variance = Duration::from_nanos(variance * 3 / 4 + smoothed.abs_diff(rtt) / 4);
                self.smoothed = Some(Duration::from_nanos(smoothed * 7 / 8 + rtt / 8));
            }
        }
        // [CDP-RTX-4] a fresh sample ends the back-off
        self.doublings = 0;
        self.latest = Some(rtt);
        self.least.sample(now, rtt);
        self.settle();
    }

    /// The retransmission time-out.
    #[must_use]
    pub fn rto(&self) -> Duration {
        self.rto
    }

    fn settle(&mut self) {
        let base = match self.smoothed {
            // [CDP-RTX-2] SRTT + max(G, 4·RTTVAR) within RTO_MIN..RTO_MAX
            Some(smoothed) => (smoothed + GRANULARITY.max(self.variance * 4)).max(self.rto_min),
            None => self.rto_init,
        };
        let doubled =
            if self.doublings == 0 { base } else { base.saturating_mul(1 << self.doublings.min(20)) };
        self.rto = doubled.min(self.rto_max);
    }

    /// [CDP-RTX-4] The RTO doubles on a time-out.
    pub fn back_off(&mut self) {
        if self.rto() < self.rto_max {
            self.doublings += 1;
            self.settle();
        }
    }

    /// [CDP-RTX-4] An ACK that moves SND.UNA without a sample divides it by four.
    pub fn ease(&mut self) {
        self.doublings = self.doublings.saturating_sub(2);
        self.settle();
    }

    /// Smoothed round-trip time, once there is a sample.
    #[must_use]
    pub fn srtt(&self) -> Option<Duration> {
        self.smoothed
    }

    /// Its variance, RTTVAR.
    #[must_use]
    pub fn variance(&self) -> Duration {
        self.variance
    }

    /// The least round trip of about the last ten seconds.
    #[must_use]
    pub fn min_rtt(&self) -> Option<Duration> {
        self.least.get()
    }

    /// The last sample.
    #[must_use]
    pub fn latest(&self) -> Option<Duration> {
        self.latest
    }
}

/// A round trip in nanoseconds; 64 bits hold 584 years, of which an eighth is left for the arithmetic.
fn nanos(rtt: Duration) -> u64 {
    u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX / 8)
}

/// The least sample of each of the last ten seconds in which there was one; the least of them rises again when the
/// second that saw it leaves the window.
#[derive(Clone, Debug, Default)]
struct Least {
    /// The second and its least sample, at the second modulo the window.
    seconds: [Option<(u64, Duration)>; LEAST_SECONDS],
    newest: u64,
    least: Option<Duration>,
}

impl Least {
    fn sample(&mut self, now: Instant, rtt: Duration) {
        let second = now.as_nanos() / 1_000_000_000;
        let is_new = second != self.newest || self.least.is_none();
        self.newest = second;
        let place = &mut self.seconds[usize::try_from(second).unwrap_or(0) % LEAST_SECONDS];
        *place = match *place {
            Some((at, least)) if at == second => Some((at, least.min(rtt))),
            _ => Some((second, rtt)),
        };
        // within a second the least can only fall; the ten places are looked through once a second
        self.least = if is_new { self.look_through() } else { self.least.map(|least| least.min(rtt)) };
    }

    fn look_through(&self) -> Option<Duration> {
        let is_young = |at: u64| self.newest.saturating_sub(at) < LEAST_SECONDS as u64;
        self.seconds.iter().flatten().filter(|(at, _)| is_young(*at)).map(|(_, least)| *least).min()
    }

    const fn get(&self) -> Option<Duration> {
        self.least
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn rtt() -> Rtt {
        Rtt::new(250 * MS, MS, 4_000 * MS)
    }

    /// [CDP-RTX-2] The arithmetic of RFC 6298, within RTO_MIN and RTO_MAX.
    #[test]
    fn the_rto_follows_rfc_6298() {
        let mut rtt = rtt();
        assert_eq!(rtt.rto(), 250 * MS);
        rtt.sample(Instant::ZERO, 100 * MS);
        assert_eq!((rtt.srtt(), rtt.variance(), rtt.rto()), (Some(100 * MS), 50 * MS, 300 * MS));
        rtt.sample(Instant::ZERO, 180 * MS);
        assert_eq!((rtt.srtt(), rtt.variance()), (Some(110 * MS), Duration::from_micros(57_500)));
        let mut fast = Rtt::new(250 * MS, MS, 4_000 * MS);
        fast.sample(Instant::ZERO, Duration::from_micros(40));
        assert_eq!(fast.rto(), 3 * MS, "RTO_MIN is 2 ms + ACK_DELAY");
    }

    /// [CDP-RTX-4] Doubling up to RTO_MAX; a sample ends it; an ACK without one divides it by four.
    #[test]
    fn back_off_doubles_and_ends() {
        let mut rtt = rtt();
        rtt.sample(Instant::ZERO, 100 * MS);
        for expected in [600, 1_200, 2_400, 4_000, 4_000] {
            rtt.back_off();
            assert_eq!(rtt.rto(), expected * MS);
        }
        rtt.ease();
        assert_eq!(rtt.rto(), 1_200 * MS);
        rtt.sample(Instant::ZERO, 100 * MS);
        assert!(rtt.rto() < 300 * MS);
    }

    /// [CDP-RTX-4] At RTO_MAX further time-outs change nothing, so an ACK that moves SND.UNA is felt at once.
    #[test]
    fn back_off_goes_no_further_than_the_greatest_time_out() {
        let mut rtt = rtt();
        rtt.sample(Instant::ZERO, Duration::from_micros(50));
        for _ in 0..40 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), 4_000 * MS);
        rtt.ease();
        assert!(rtt.rto() <= 2_000 * MS, "{:?}", rtt.rto());
        for _ in 0..20 {
            rtt.ease();
        }
        assert_eq!(rtt.rto(), 3 * MS);
    }

    proptest! {
        /// [CDP-RTX-2] Whatever the samples and time-outs, the RTO stays within RTO_MIN..RTO_MAX.
        /// The least round trip is the least of nine to ten seconds.
        #[test]
        fn the_rto_stays_in_its_bounds(steps in prop::collection::vec((0_u64..3_000, 1_u64..20_000_000, 0..4), 1..100)) {
            let mut rtt = rtt();
            let mut now_ms = 0;
            let mut seen: Vec<(u64, Duration)> = Vec::new();
            for (gap_ms, sample_us, what) in steps {
                now_ms += gap_ms;
                match what {
                    0 => rtt.back_off(),
                    1 => rtt.ease(),
                    _ => {
                        let sample = Duration::from_micros(sample_us);
                        rtt.sample(Instant::from_nanos(now_ms * 1_000_000), sample);
                        seen.push((now_ms, sample));
                        let least = |ms| seen.iter().filter(|(at, _)| at + ms > now_ms).map(|(_, rtt)| *rtt).min();
                        prop_assert!(rtt.min_rtt() <= least(9_000) && rtt.min_rtt() >= least(10_000));
                        prop_assert_eq!(rtt.latest(), Some(sample));
                    }
                }
                prop_assert!((3 * MS..=4_000 * MS).contains(&rtt.rto()));
            }
        }
    }

    #[test]
    fn the_least_round_trip_is_forgotten_after_ten_seconds() {
        let mut rtt = rtt();
        let at = |s: u64| Instant::from_nanos(s * 1_000_000_000);
        rtt.sample(at(0), MS);
        rtt.sample(at(6), 5 * MS);
        assert_eq!(rtt.min_rtt(), Some(MS));
        rtt.sample(at(12), 9 * MS);
        assert_eq!(rtt.min_rtt(), Some(5 * MS));
    }
}
