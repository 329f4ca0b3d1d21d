//! Round-trip time and the retransmission time-out it leads to (RFC 6298).

use std::time::Duration;

use weft_base::Instant;

/// Clock granularity G (section 12).
const GRANULARITY_NS: u64 = 1_000_000;
/// What RTO_MIN adds to ACK_DELAY (section 12).
const RTO_MIN: Duration = Duration::from_millis(2);
/// How long the least round trip is remembered, in seconds.
const LEAST_SECONDS: usize = 10;
/// What the least round trips are counted in, in nanoseconds: a 32-bit number of them is 34 s.
const GRAIN_NS: u64 = 8;
/// No sample yet.
const NONE: u64 = u64::MAX;
/// The longest sample: an eighth of what 64 bits hold is left for the arithmetic, which is 73 years.
const SAMPLE_MAX_NS: u64 = u64::MAX / 8;

/// The estimator of one connection. In nanoseconds inside, as each packet asks and many bring a sample.
#[derive(Clone, Debug)]
pub struct Rtt {
    /// [`NONE`] before the first sample, as for the next and the least.
    smoothed_ns: u64,
    latest_ns: u64,
    variance_ns: u64,
    least: Least,
    rto_init_ns: u64,
    rto_min_ns: u64,
    rto_max_ns: u64,
    /// The RTO that follows from all this: it is asked for with every packet.
    rto_ns: u64,
    /// A round trip by another path, which stands for SRTT in the wait of a tail before the first sample; or [`NONE`].
    expected_ns: u64,
    /// What a tail waits for its probe beyond two round trips, where its acknowledgement may be delayed.
    probe_margin_ns: u64,
    /// How often the RTO has doubled.
    doublings: u8,
    /// What is known is of another path, and stands in until there is a sample of this one.
    is_stand_in: bool,
    /// The peer has sent data, and no acknowledgement alone of all that was in flight since: the next may be left to an answer.
    pub(crate) has_answers: bool,
}

impl Rtt {
    /// Before the first sample: RTO_INIT; later within 2 ms + `ack_delay` and `rto_max`.
    #[must_use]
    pub fn new(rto_init: Duration, ack_delay: Duration, rto_max: Duration) -> Self {
        Self {
            smoothed_ns: NONE,
            latest_ns: NONE,
            variance_ns: 0,
            expected_ns: NONE,
            least: Least::default(),
            rto_init_ns: nanos(rto_init),
            rto_min_ns: nanos(RTO_MIN + ack_delay),
            rto_max_ns: nanos(rto_max),
            rto_ns: nanos(rto_init.min(rto_max)),
            probe_margin_ns: nanos(ack_delay * 3 / 2),
            doublings: 0,
            is_stand_in: false,
            has_answers: false,
        }
    }

    /// Takes a sample of a number that was sent once (CDP-RTX-3).
    pub fn sample(&mut self, now: Instant, rtt: Duration) {
        let rtt_ns = nanos(rtt);
        // [CDP-RTX-2] first SRTT = R, RTTVAR = R/2; then β = 1/4, α = 1/8
        if self.smoothed_ns == NONE || self.is_stand_in {
            self.is_stand_in = false;
            self.smoothed_ns = rtt_ns;
            self.variance_ns = rtt_ns / 2;
        } else {
            self.variance_ns = self.variance_ns * 3 / 4 + self.smoothed_ns.abs_diff(rtt_ns) / 4;
            self.smoothed_ns = self.smoothed_ns * 7 / 8 + rtt_ns / 8;
        }
        // [CDP-RTX-4] a fresh sample ends the back-off
        self.doublings = 0;
        self.latest_ns = rtt_ns;
        self.least.sample(now, rtt_ns);
        self.settle();
    }

    /// [CDP-IO-12] A round trip by another path took so long.
    pub fn expect(&mut self, rtt: Duration) {
        self.expected_ns = nanos(rtt);
    }

    /// The retransmission time-out.
    #[must_use]
    pub fn rto(&self) -> Duration {
        Duration::from_nanos(self.rto_ns)
    }

    /// [CDP-RTX-2] SRTT + max(G, 4·RTTVAR) within RTO_MIN..RTO_MAX, which the caller sees to.
    fn base_ns(&self) -> u64 {
        if self.smoothed_ns == NONE {
            self.rto_init_ns
        } else {
            (self.smoothed_ns + GRANULARITY_NS.max(self.variance_ns * 4)).max(self.rto_min_ns)
        }
    }

    /// The retransmission time-out before any back-off: a path that was silent for longer brings nothing more.
    #[must_use]
    pub fn patience(&self) -> Duration {
        Duration::from_nanos(self.base_ns().min(self.rto_max_ns))
    }

    fn settle(&mut self) {
        self.rto_ns = self.base_ns().saturating_mul(1 << self.doublings.min(20)).min(self.rto_max_ns);
    }

    /// How long a tail waits for its probe, once there is a sample or something in its place; `is_alone` if it is one
    /// number.
    ///
    /// [CDP-RTX-5] 2·SRTT and a margin: the acknowledgement of one number may be delayed, and [CDP-ACK-11] that of several left to an
    /// answer; else the second is acknowledged at once (CDP-ACK-8; RFC 8985, section 7.2).
    #[must_use]
    pub fn probe(&self, is_alone: bool) -> Option<Duration> {
        let margin_ns =
            if is_alone || self.has_answers { self.probe_margin_ns } else { self.variance_ns * 4 };
        let srtt_ns = if self.smoothed_ns == NONE { self.expected_ns } else { self.smoothed_ns };
        (srtt_ns != NONE).then(|| Duration::from_nanos(srtt_ns * 2 + margin_ns.min(self.probe_margin_ns)))
    }

    /// [CDP-RTX-4] The RTO doubles on a time-out.
    pub fn back_off(&mut self) {
        if self.rto_ns < self.rto_max_ns {
            self.doublings = self.doublings.saturating_add(1);
            self.settle();
        }
    }

    /// [CDP-RTX-4] An ACK that moves SND.UNA without a sample divides it by four.
    pub fn ease(&mut self) {
        self.doublings = self.doublings.saturating_sub(2);
        self.settle();
    }

    /// The path is another: the back-off begins anew and the least round trip is forgotten. What was known of the path
    /// before stands in until samples of this one come.
    pub fn change_path(&mut self) {
        self.doublings = 0;
        self.least = Least::default();
        self.is_stand_in = self.smoothed_ns != NONE;
        self.settle();
    }

    /// The least round trip may be of a path that was: it begins anew.
    pub fn forget_least(&mut self) {
        self.least = Least::default();
    }

    /// Smoothed round-trip time, once there is a sample.
    #[must_use]
    pub fn srtt(&self) -> Option<Duration> {
        duration(self.smoothed_ns)
    }

    /// Its variance, RTTVAR.
    #[must_use]
    pub fn variance(&self) -> Duration {
        Duration::from_nanos(self.variance_ns)
    }

    /// The least round trip of about the last ten seconds.
    #[must_use]
    pub fn min_rtt(&self) -> Option<Duration> {
        self.least.get().map(Duration::from_nanos)
    }

    /// By how much the smoothed round trip is longer than the least since this path was taken: what is sent waits so long on the way, and
    /// for the receiver to look. Zero before the first sample.
    #[must_use]
    pub fn queueing(&self) -> Duration {
        let floor_ns = u64::from(self.least.floor) * GRAIN_NS;
        duration(self.smoothed_ns).unwrap_or_default().saturating_sub(Duration::from_nanos(floor_ns))
    }

    /// The last sample.
    #[must_use]
    pub fn latest(&self) -> Option<Duration> {
        duration(self.latest_ns)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(SAMPLE_MAX_NS)
}

fn duration(nanos: u64) -> Option<Duration> {
    (nanos != NONE).then(|| Duration::from_nanos(nanos))
}

/// The least sample of each of the last ten seconds; the least of them rises again when the second that saw it leaves the
/// window. In grains of [`GRAIN_NS`], as each connection has one: a round trip counts as up to one grain less than it was, and
/// as 34 s if it was longer.
#[derive(Clone, Debug)]
struct Least {
    /// Of the second in which the newest sample came, and of those before it, each at the second modulo the window.
    seconds: [u32; LEAST_SECONDS],
    newest: u32,
    least: u32,
    /// Of all samples.
    floor: u32,
}

impl Default for Least {
    fn default() -> Self {
        Self { seconds: [Self::NONE; LEAST_SECONDS], newest: 0, least: Self::NONE, floor: Self::NONE }
    }
}

impl Least {
    /// No sample.
    const NONE: u32 = u32::MAX;

    fn sample(&mut self, now: Instant, rtt_ns: u64) {
        #[allow(clippy::cast_possible_truncation)] // 136 years
        let second = (now.as_nanos() / 1_000_000_000) as u32;
        if second > self.newest {
            self.move_to(second);
        }
        #[allow(clippy::cast_possible_truncation)] // it is less than NONE
        let grains = (rtt_ns / GRAIN_NS).min(u64::from(Self::NONE - 1)) as u32;
        let place = self.place(second);
        *place = grains.min(*place);
        // within a second the least can only fall
        self.least = self.least.min(grains);
        self.floor = self.floor.min(grains);
    }

    /// The least, in nanoseconds.
    fn get(&self) -> Option<u64> {
        (self.least != Self::NONE).then(|| u64::from(self.least) * GRAIN_NS)
    }

    /// Forgets the seconds that leave the window.
    #[cold]
    fn move_to(&mut self, second: u32) {
        for left in (self.newest + 1..=second).take(LEAST_SECONDS) {
            *self.place(left) = Self::NONE;
        }
        self.newest = second;
        self.least = self.seconds.into_iter().min().unwrap_or(Self::NONE);
    }

    fn place(&mut self, second: u32) -> &mut u32 {
        &mut self.seconds[second as usize % LEAST_SECONDS]
    }
}

#[cfg(test)]
mod tests;
