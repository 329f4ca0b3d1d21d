//! Which losses are the path's own and which are congestion: what the model-based controller takes for a signal.
//!
//! A queue that overflows loses packets because too many are sent, so it loses none when fewer are. A bad cable, a
//! driver or a radio loses the same share of whatever is sent. The controller sends less than the path is known to
//! carry after every probe and after every reaction; what is lost of *that* is noise, and only more than it is congestion.
//!
//! That holds where there is no queue, and whether there is one only the least round trip tells. A flow that begins in a queue which
//! others keep full has never seen a short one: what it takes for the least has the whole queue in it, and what the full queue loses
//! it would take for noise. So little is noise before a queue was seen to come and go, and when the least round trip proves to have
//! been too long, what was learnt by it is forgotten.

use weft_base::Instant;

use super::path::Round;
use super::{Ack, Loss};

/// Share of lost packets that is taken for the path's own noise and not for congestion.
const LOSS_TOLERATED: f64 = 0.02;
/// Fewer losses than this are never congestion: in a small window one packet is already a large share.
const LOSSES_MIN: f64 = 3.0;
/// Packets after which older losses count half.
const LOSS_PACKETS: f64 = 256.0;
/// Noise is never taken to be more than this, so that flows whose losses are each other's doing stay within bounds.
pub(super) const NOISE_MAX: f64 = 0.2;
/// Nor more than this before a queue was seen.
const NOISE_UNSEEN: f64 = 0.03;
/// A round trip is short if it exceeds the least by no more than the time of so many packets, which is taken to be at
/// least and at most these parts of the least round trip.
const SHORT: (f64, f64) = (0.125, 0.333);
const SHORT_PACKETS: f64 = 4.0;
/// A round trip that exceeds a short one by this part of the least shows that there was a queue, so that short ones show that it is gone.
const QUEUE: f64 = 0.25;
/// A least round trip that falls below this part of itself had a queue in it.
const TRUE_LEAST: f64 = 0.9;
/// Packets of quiet times after which older ones count half.
const NOISE_PACKETS: f64 = 512.0;

/// The share of packets that the path loses when less is sent than it carries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise {
    /// The last stretch of time in which the sender held back; it lasts while `until` is in the future.
    from: Instant,
    until: Instant,
    /// The last round trip was a short one: there is no queue that could overflow.
    is_short: bool,
    /// The least round trip, in seconds, by which others were taken to be short, at its longest.
    least: f64,
    /// A queue has been seen since.
    has_seen_queue: bool,
    lost: f64,
    packets: f64,
    share: f64,
}

impl Default for Noise {
    fn default() -> Self {
        Self {
            from: Instant::MAX,
            until: Instant::MAX,
            is_short: false,
            least: 0.0,
            has_seen_queue: false,
            lost: 0.0,
            packets: 0.0,
            share: 0.0,
        }
    }
}

impl Noise {
    /// From now on the sender holds back, or does not.
    pub(super) fn set_quiet(&mut self, now: Instant, is_quiet: bool) {
        let was_quiet = self.from <= now && self.until == Instant::MAX;
        if is_quiet && !was_quiet {
            (self.from, self.until) = (now, Instant::MAX);
        } else if was_quiet && !is_quiet {
            self.until = now;
        }
    }

    /// Takes in an acknowledgement over a path of `rate` packets per second.
    pub(super) fn handle_ack(&mut self, ack: &Ack, rate: f64) {
        if let (Some(rtt), Some(least)) = (ack.rtt, ack.min_rtt) {
            let (wait, least) = ((rtt - least).as_secs_f64(), least.as_secs_f64());
            if least < TRUE_LEAST * self.least {
                *self = Self { from: self.from, until: self.until, ..Self::default() };
            }
            self.least = self.least.max(least);
            let short = (SHORT_PACKETS / rate).clamp(SHORT.0 * least, SHORT.1 * least);
            self.is_short = wait <= short;
            self.has_seen_queue |= wait > short + QUEUE * least;
        }
        if self.is_of_quiet_time(ack.sent_at) {
            self.count(0, ack.newly_acked);
        }
    }

    pub(super) fn handle_loss(&mut self, loss: &Loss) {
        // a silent path says nothing of what it loses when it is not
        if !loss.is_timeout && self.is_of_quiet_time(loss.largest_sent_at) {
            self.count(loss.lost, loss.lost);
        }
    }

    /// Whether the last round trip was so short that there was hardly a queue.
    pub(super) fn is_short(&self) -> bool {
        self.is_short
    }

    fn is_of_quiet_time(&self, sent_at: Instant) -> bool {
        self.from <= sent_at && sent_at < self.until
    }

    fn count(&mut self, lost: u32, packets: u32) {
        if !self.is_short {
            return;
        }
        if self.packets >= NOISE_PACKETS {
            self.lost /= 2.0;
            self.packets /= 2.0;
        }
        self.lost += f64::from(lost);
        self.packets += f64::from(packets);
        // less by one standard deviation: a few packets prove little
        self.share = ((self.lost - self.lost.sqrt()) / self.packets).clamp(0.0, NOISE_MAX);
    }

    /// Share of lost packets, at most 0.22, that is no sign of congestion: the noise, and a little.
    pub(super) fn tolerated(&self) -> f64 {
        LOSS_TOLERATED + if self.has_seen_queue { self.share } else { self.share.min(NOISE_UNSEEN) }
    }
}

/// Losses of the last rounds, as many as make up some hundred packets: a small window alone says little.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    lost: f64,
    packets: f64,
}

impl Losses {
    /// Whether with `round` more was lost than the path's noise explains: beyond the tolerated share by two standard
    /// deviations of a count. A congestion mark is as good as that.
    pub(super) fn is_congested_with(&self, round: &Round, tolerated: f64) -> bool {
        round.is_marked || round.lost > 0 && self.with(round).is_more_than(tolerated)
    }

    /// Whether this is more than the tolerated share explains.
    pub(super) fn is_more_than(&self, tolerated: f64) -> bool {
        let expected = tolerated * self.packets;
        self.lost >= LOSSES_MIN && self.lost > expected + 2.0 * expected.sqrt()
    }

    /// Takes in a round that is over and was not congested.
    pub(super) fn add(&mut self, round: &Round) {
        if self.packets >= LOSS_PACKETS {
            self.lost /= 2.0;
            self.packets /= 2.0;
        }
        *self = self.with(round);
    }

    /// These and those of `round`.
    pub(super) fn with(self, round: &Round) -> Self {
        let lost = f64::from(round.lost);
        Self { lost: self.lost + lost, packets: self.packets + lost + f64::from(round.delivered) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::{ack, loss};
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// A hundred times a millisecond, 90 packets acknowledged with this round trip and 10 lost.
    fn lossy(noise: &mut Noise, from: u64, rtt: Duration) {
        lossy_by(noise, from, rtt, MS);
    }

    /// The same where this is the least round trip.
    fn lossy_by(noise: &mut Noise, from: u64, rtt: Duration, least: Duration) {
        for ms in from..from + 100 {
            let (now, sent_at) = (at(ms + 1), at(ms));
            noise.handle_ack(
                &Ack { now, sent_at, newly_acked: 90, rtt: Some(rtt), min_rtt: Some(least), ..ack() },
                1e6,
            );
            noise.handle_loss(&Loss { now, lost: 10, largest_sent_at: sent_at, ..loss() });
        }
    }

    #[test]
    fn what_is_lost_while_little_is_sent_is_noise() {
        let mut noise = Noise::default();
        lossy(&mut noise, 0, MS);
        assert_eq!(noise.tolerated(), LOSS_TOLERATED, "not while more is tried");
        noise.set_quiet(at(100), true);
        lossy(&mut noise, 100, MS * 2);
        assert_eq!(noise.tolerated(), LOSS_TOLERATED, "not while there is a queue");
        lossy(&mut noise, 200, MS);
        assert!((0.11..0.13).contains(&noise.tolerated()), "{noise:?}");
        noise.set_quiet(at(300), false);
        lossy(&mut noise, 300, MS);
        assert!((0.11..0.13).contains(&noise.tolerated()), "{noise:?}");
    }

    #[test]
    fn noise_has_a_limit_and_a_silent_path_none() {
        let mut noise = Noise::default();
        noise.set_quiet(at(0), true);
        lossy(&mut noise, 0, MS * 2);
        noise.handle_loss(&Loss { lost: 500, largest_sent_at: at(100), is_timeout: true, ..loss() });
        lossy(&mut noise, 100, MS);
        assert!(noise.tolerated() < 0.13, "{noise:?}");
        noise.handle_loss(&Loss { lost: 5_000, largest_sent_at: at(100), ..loss() });
        assert_eq!(noise.tolerated(), LOSS_TOLERATED + NOISE_MAX);
    }

    /// Who begins in a queue that others keep full takes that for the way.
    #[test]
    fn little_is_noise_of_what_a_queue_loses_that_was_never_seen_empty() {
        let mut noise = Noise::default();
        noise.set_quiet(at(0), true);
        lossy_by(&mut noise, 0, MS * 2, MS * 2);
        assert_eq!(noise.tolerated(), LOSS_TOLERATED + NOISE_UNSEEN, "no queue was seen to come and go");
        lossy_by(&mut noise, 100, MS * 4, MS * 2);
        lossy_by(&mut noise, 200, MS * 2, MS * 2);
        assert!(noise.tolerated() > 0.1, "{noise:?}");
        lossy_by(&mut noise, 300, MS * 2, MS);
        assert_eq!(noise.tolerated(), LOSS_TOLERATED, "what was short had a queue in it");
        lossy(&mut noise, 400, MS);
        assert!(noise.tolerated() > 0.1, "{noise:?}");
    }

    #[test]
    fn noise_is_no_congestion_and_a_full_queue_is() {
        let is_congested = |round: Round| Losses::default().is_congested_with(&round, LOSS_TOLERATED);
        let round = |delivered, lost| Round { delivered, lost, ..Round::default() };
        assert!(!is_congested(round(1_000, 10)), "one in a hundred");
        assert!(!is_congested(round(100, 4)), "four in a hundred happen by chance");
        assert!(!is_congested(round(5, 2)), "two are never enough");
        assert!(is_congested(round(100, 6)));
        assert!(is_congested(round(1_000, 40)));
        assert!(is_congested(Round { is_marked: true, ..round(100, 0) }));
    }

    #[test]
    fn losses_of_small_rounds_add_up() {
        let reactions = |every: u32| {
            let mut losses = Losses::default();
            (0..1_000_u32)
                .filter(|number| {
                    let round =
                        Round { delivered: 9, lost: u32::from(number % every == 0), ..Round::default() };
                    let is_congested = losses.is_congested_with(&round, LOSS_TOLERATED);
                    if is_congested {
                        losses = Losses::default();
                    } else {
                        losses.add(&round);
                    }
                    is_congested
                })
                .count()
        };
        assert_eq!(reactions(10), 0, "one packet in a hundred");
        assert!((100..=340).contains(&reactions(1)), "one in ten: {} reactions", reactions(1));
    }
}
