//! CUBIC (RFC 9438): fills a path until it loses packets, and then returns to where it lost them.
//!
//! After a loss the window falls to 0.7 of itself and grows along a cubic curve of the time since: fast at first,
//! flat around the window at which the loss happened, then faster and faster in search of a new limit. Where Reno
//! would be faster, on the short round trips of a cluster nearly always, the window follows Reno instead.
//!
//! The controller reacts once per round trip: one reaction answers the loss of everything sent before it.

use std::time::Duration;

use weft_base::Instant;

use super::hystart::{Advice, HyStart};
use super::{Ack, Controller, Kind, Loss, WINDOW_MAX, WINDOW_MIN};

/// Scale of the cubic curve, in packets per second cubed (RFC 9438, section 5).
const C: f64 = 0.4;
/// The window after a loss, as a part of the window before (RFC 9438, section 4.6).
const BETA_LOSS: f64 = 0.7;
/// The same after a congestion mark: a mark comes before the queue is full, so less is given up (RFC 8511).
const BETA_ECN: f64 = 0.85;
/// Growth per round trip that makes a flow with `BETA_LOSS` as strong as Reno (RFC 9438, section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA_LOSS) / (1.0 + BETA_LOSS);
/// Pacing rate as a multiple of window per round trip, in slow start and after it: above 1, so that pacing spreads
/// packets without itself being what limits the flow.
const PACING_GAIN: (f64, f64) = (2.0, 1.25);
/// A sender that has been silent for this long, or for four round trips if that is longer, knows less of the path:
/// its window halves for each such time, down to the initial one (RFC 5681, section 4.1; RFC 7661 in spirit).
const IDLE_MIN: Duration = Duration::from_millis(10);

/// One stretch of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    started: Instant,
    /// The window on which the curve is flat, and the time in seconds at which it gets there.
    plateau: f64,
    k: f64,
    /// What Reno's window would be by now, and the window it has to win back before it grows at its own pace.
    reno: f64,
    reno_goal: f64,
}

/// All that a reaction changes, so that an error can be undone.
#[derive(Clone, Copy, Debug)]
struct Course {
    window: f64,
    slow_start_threshold: f64,
    /// The window at which packets were lost last.
    last_max: Option<f64>,
    epoch: Option<Epoch>,
}

/// The CUBIC controller.
#[derive(Clone, Debug)]
pub struct Cubic {
    initial_window: f64,
    course: Course,
    /// The course before the last reaction.
    before: Option<Course>,
    hystart: Option<HyStart>,
    /// When the last reaction was; packets sent before it have been answered for.
    reacted_at: Option<Instant>,
    /// When the window last held the sender back.
    limited_at: Option<Instant>,
    last_sent_at: Option<Instant>,
    srtt: Option<Duration>,
}

impl Cubic {
    /// A connection that starts with `initial_window` packets in slow start.
    #[must_use]
    pub fn new(initial_window: u32) -> Self {
        let window = f64::from(initial_window.clamp(WINDOW_MIN, WINDOW_MAX));
        Self {
            initial_window: window,
            course: Course { window, slow_start_threshold: f64::INFINITY, last_max: None, epoch: None },
            before: None,
            hystart: Some(HyStart::default()),
            reacted_at: None,
            limited_at: None,
            last_sent_at: None,
            srtt: None,
        }
    }

    fn is_slow_start(&self) -> bool {
        self.course.window < self.course.slow_start_threshold
    }

    /// Grows in slow start and gives back the packets that congestion avoidance may still use.
    fn slow_start(&mut self, ack: &Ack) -> f64 {
        let acked = f64::from(ack.newly_acked);
        let part = match self.hystart.as_mut().map_or(Advice::Grow(1.0), |hystart| hystart.handle_ack(ack)) {
            Advice::Grow(part) => part,
            Advice::Stop => {
                self.hystart = None;
                self.course.slow_start_threshold = self.course.window;
                return acked;
            }
        };
        let room = self.course.slow_start_threshold - self.course.window;
        let growth = (acked * part).min(room);
        self.course.window += growth;
        acked - growth / part
    }

    fn avoid_congestion(&mut self, now: Instant, acked: f64, rtt: Duration) {
        let course = &mut self.course;
        let (window, last_max) = (course.window, course.last_max);
        let epoch = course.epoch.get_or_insert_with(|| Epoch::new(now, window, last_max));
        let t = (now - epoch.started).as_secs_f64();
        epoch.reno += if epoch.reno < epoch.reno_goal { ALPHA } else { 1.0 } * acked / window;
        let growth = if epoch.at(t) < epoch.reno {
            epoch.reno - window
        } else {
            let target = epoch.at(t + rtt.as_secs_f64()).clamp(window, 1.5 * window);
            (target - window) / window * acked
        };
        // [CDP-CC-3] never by more than the packets newly acknowledged
        course.window += growth.clamp(0.0, acked);
    }

    /// Whether something sent at `sent_at` has been answered for by an earlier reaction.
    fn is_answered(&self, sent_at: Instant) -> bool {
        self.reacted_at.is_some_and(|reacted_at| sent_at < reacted_at)
    }

    /// The window falls to `beta` of itself, and the point it fell from is remembered.
    fn react(&mut self, now: Instant, beta: f64) {
        let course = &mut self.course;
        self.before = Some(*course);
        self.reacted_at = Some(now);
        self.hystart = None;
        // Fast convergence: a flow that lost before it got back to its last maximum makes room for newer ones.
        let is_shrinking = course.last_max.is_some_and(|last_max| course.window < last_max);
        course.last_max = Some(if is_shrinking { course.window * (1.0 + beta) / 2.0 } else { course.window });
        course.window = (course.window * beta).max(f64::from(WINDOW_MIN));
        course.slow_start_threshold = course.window;
        course.epoch = None;
    }

    /// A window of one packet and slow start up to the old threshold (RFC 9438, section 4.8).
    fn collapse(&mut self, now: Instant, largest_sent_at: Instant) {
        if !self.is_answered(largest_sent_at) {
            self.react(now, BETA_LOSS);
        }
        self.reacted_at = Some(now);
        self.course.window = 1.0;
        self.course.last_max = None;
        self.course.epoch = None;
    }

    /// Whether the window has held the sender back within the last round trip.
    ///
    /// When it does so again after a pause, the curve goes on from where the pause began: a time without need of the
    /// window is no time in which the path was probed (RFC 9438, section 5.8).
    fn is_used(&mut self, ack: &Ack) -> bool {
        let round = ack.srtt.unwrap_or_default();
        if !ack.is_window_limited {
            return self.limited_at.is_some_and(|at| ack.now - at <= round);
        }
        let last = self.limited_at.replace(ack.now);
        if let (Some(last), Some(epoch)) = (last, self.course.epoch.as_mut()) {
            let pause = (ack.now - last.max(epoch.started)).saturating_sub(round);
            epoch.started += pause;
        }
        true
    }
}

impl Epoch {
    fn new(now: Instant, window: f64, last_max: Option<f64>) -> Self {
        let plateau = last_max.map_or(window, |last_max| last_max.max(window));
        let k = cube_root((plateau - window) / C);
        Self { started: now, plateau, k, reno: window, reno_goal: plateau }
    }

    /// The cubic curve, `seconds` after the start.
    fn at(&self, seconds: f64) -> f64 {
        let t = seconds - self.k;
        C * t * t * t + self.plateau
    }
}

impl Controller for Cubic {
    fn handle_sent(&mut self, now: Instant, in_flight: u32, _is_app_limited: bool) {
        let last = self.last_sent_at.replace(now);
        let (Some(last), Some(srtt), true) = (last, self.srtt, in_flight <= 1) else { return };
        let step = IDLE_MIN.max(srtt * 4);
        let mut silence = now - last;
        while silence >= step && self.course.window > self.initial_window {
            // The old window stays worth a slow start.
            let threshold = self.course.slow_start_threshold.max(0.75 * self.course.window);
            self.course.slow_start_threshold = threshold;
            self.course.window = (self.course.window / 2.0).max(self.initial_window);
            self.course.epoch = None;
            silence -= step;
        }
    }

    fn handle_ack(&mut self, ack: &Ack) {
        self.srtt = ack.srtt.or(self.srtt);
        if self.is_answered(ack.sent_at) {
            return; // still recovering: what was in flight at the reaction earns no growth
        }
        if !self.is_used(ack) {
            return;
        }
        let mut acked = f64::from(ack.newly_acked);
        if self.is_slow_start() {
            acked = self.slow_start(ack);
        }
        if acked > 0.0 && !self.is_slow_start() {
            self.avoid_congestion(ack.now, acked, ack.srtt.unwrap_or_default());
        }
        self.course.window = self.course.window.min(f64::from(WINDOW_MAX));
    }

    fn handle_loss(&mut self, loss: &Loss) {
        if loss.is_timeout {
            self.collapse(loss.now, loss.largest_sent_at);
        } else if !self.is_answered(loss.largest_sent_at) {
            self.react(loss.now, BETA_LOSS);
        }
    }

    fn handle_ecn(&mut self, now: Instant, sent_at: Instant) {
        // [CDP-CC-5] as one loss, at most once per round trip
        if !self.is_answered(sent_at) {
            self.react(now, BETA_ECN);
        }
    }

    fn handle_spurious(&mut self, _now: Instant) {
        let Some(before) = self.before.take() else { return };
        if before.window > self.course.window {
            self.course = before;
        }
        self.reacted_at = None;
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 1 and WINDOW_MAX
    fn window(&self) -> u32 {
        self.course.window as u32
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a float conversion saturates
    fn pacing_rate(&self) -> Option<u64> {
        let srtt = self.srtt.filter(|srtt| !srtt.is_zero())?;
        let gain = if self.is_slow_start() { PACING_GAIN.0 } else { PACING_GAIN.1 };
        Some(((gain * self.course.window / srtt.as_secs_f64()) as u64).max(1))
    }

    fn name(&self) -> &'static str {
        Kind::Cubic.name()
    }
}

/// The cube root of a number that is not negative, by Newton's steps: unlike the platform's, the same everywhere.
fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let mut root = x.max(1.0);
    for _ in 0..200 {
        let next = (2.0 * root + x / (root * root)) / 3.0;
        if next >= root {
            break; // from above, Newton's steps fall until rounding stops them
        }
        root = next;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ack, loss};
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * MS)
    }

    /// A controller that has left slow start with a window of 100 by a loss at `at(1_000)`, from 1000/7 packets.
    fn after_a_loss() -> Cubic {
        let mut cubic = Cubic::new(32);
        cubic.course.window = 1000.0 / 7.0;
        cubic.handle_loss(&Loss { now: at(1_000), largest_sent_at: at(999), ..loss() });
        cubic
    }

    /// Acknowledges windows, one round trip of `rtt_ms` each, for `rounds` rounds from `from_ms` on.
    fn rounds(cubic: &mut Cubic, from_ms: u64, rtt_ms: u64, rounds: u64) {
        for round in 0..rounds {
            let now = at(from_ms + round * rtt_ms);
            let srtt = Some(Duration::from_millis(rtt_ms));
            let newly_acked = cubic.window();
            cubic.handle_ack(&Ack { now, sent_at: at(from_ms), newly_acked, srtt, ..ack() });
        }
    }

    #[test]
    fn slow_start_doubles_each_round() {
        let mut cubic = Cubic::new(32);
        for _ in 0..4 {
            let newly_acked = cubic.window();
            cubic.handle_ack(&Ack { newly_acked, ..ack() });
        }
        assert_eq!(cubic.window(), 32 << 4);
    }

    #[test]
    fn a_loss_takes_the_window_to_seven_tenths_once_per_round_trip() {
        let mut cubic = after_a_loss();
        assert_eq!(cubic.window(), 100);
        cubic.handle_loss(&Loss { now: at(1_010), largest_sent_at: at(999), ..loss() });
        assert_eq!(cubic.window(), 100, "sent before the reaction");
        cubic.handle_loss(&Loss { now: at(1_020), largest_sent_at: at(1_005), ..loss() });
        assert_eq!(cubic.window(), 70);
    }

    /// On a long round trip the curve is back at the old maximum after K = cbrt(42.86 / 0.4) = 4.75 s, and is flat there.
    #[test]
    fn the_curve_is_flat_around_the_window_of_the_last_loss() {
        let mut cubic = after_a_loss();
        rounds(&mut cubic, 1_000, 200, 24);
        let near = cubic.course.window;
        assert!((139.0..144.0).contains(&near), "after 4.6 s: {near}");
        rounds(&mut cubic, 5_800, 200, 5);
        assert!(cubic.course.window < near + 3.0, "flat: {}", cubic.course.window);
        rounds(&mut cubic, 6_800, 200, 20);
        assert!(cubic.course.window > 170.0, "convex: {}", cubic.course.window);
    }

    /// RFC 9438, section 4.3: alpha is 0.53 packets a round trip until the old maximum is won back.
    #[test]
    fn on_a_short_round_trip_the_window_grows_as_renos() {
        let mut cubic = after_a_loss();
        rounds(&mut cubic, 1_000, 1, 40);
        let grown = cubic.course.window - 100.0;
        assert!((0.9 * 40.0 * ALPHA..1.01 * 40.0 * ALPHA).contains(&grown), "{grown}");
    }

    #[test]
    fn a_second_loss_below_the_last_maximum_gives_room_to_newer_flows() {
        let mut cubic = after_a_loss();
        cubic.handle_loss(&Loss { now: at(2_000), largest_sent_at: at(1_500), ..loss() });
        assert_eq!(cubic.course.last_max, Some(100.0 * 0.85));
    }

    #[test]
    fn packets_in_flight_at_the_reaction_earn_no_growth() {
        let mut cubic = after_a_loss();
        cubic.handle_ack(&Ack { now: at(1_050), sent_at: at(999), newly_acked: 50, ..ack() });
        assert_eq!(cubic.window(), 100);
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow_and_the_curve_waits() {
        let mut cubic = after_a_loss();
        rounds(&mut cubic, 1_000, 200, 2);
        let (window, started) = (cubic.course.window, cubic.course.epoch.unwrap().started);
        let srtt = Some(Duration::from_millis(200));
        for ms in [1_500, 9_000] {
            cubic.handle_ack(&Ack {
                now: at(ms),
                sent_at: at(1_400),
                srtt,
                is_window_limited: false,
                ..ack()
            });
        }
        assert!((cubic.course.window - window).abs() < 0.5, "the first lies within a round trip");
        cubic.handle_ack(&Ack { now: at(11_400), sent_at: at(11_300), srtt, ..ack() });
        assert_eq!(cubic.course.epoch.unwrap().started - started, Duration::from_secs(10));
    }

    #[test]
    fn a_time_out_leaves_one_packet_and_slow_start_up_to_the_threshold() {
        let mut cubic = after_a_loss();
        cubic.handle_loss(&Loss { now: at(2_000), largest_sent_at: at(1_900), is_timeout: true, ..loss() });
        assert_eq!(cubic.window(), 1);
        cubic.handle_loss(&Loss { now: at(3_000), largest_sent_at: at(1_900), is_timeout: true, ..loss() });
        assert!((cubic.course.slow_start_threshold - 70.0).abs() < 1e-9, "one loss, one threshold");
        for _ in 0..7 {
            let newly_acked = cubic.window();
            cubic.handle_ack(&Ack { now: at(3_001), sent_at: at(3_000), newly_acked, ..ack() });
        }
        assert!((70..=72).contains(&cubic.window()), "{}", cubic.window());
    }

    #[test]
    fn a_spurious_loss_is_undone_once() {
        let mut cubic = after_a_loss();
        cubic.handle_spurious(at(1_001));
        assert_eq!(cubic.window(), 142);
        cubic.handle_loss(&Loss { now: at(1_002), largest_sent_at: at(1_001), ..loss() });
        cubic.handle_spurious(at(1_003));
        cubic.handle_spurious(at(1_004));
        assert_eq!(cubic.window(), 142);
    }

    /// [CDP-CC-5] A mark is answered as one loss, at most once per round trip.
    #[test]
    fn marks_are_answered_once_per_round_trip() {
        let mut cubic = after_a_loss();
        cubic.handle_ecn(at(1_010), at(999));
        assert_eq!(cubic.window(), 100, "the loss of that round trip has been answered");
        cubic.handle_ecn(at(1_010), at(1_005));
        cubic.handle_ecn(at(1_011), at(1_006));
        assert_eq!(cubic.window(), 85);
    }

    #[test]
    fn silence_halves_the_window_down_to_the_initial_one() {
        let mut cubic = after_a_loss();
        cubic.srtt = Some(Duration::from_millis(1));
        cubic.handle_sent(at(1_000), 1, false);
        cubic.handle_sent(at(1_009), 1, false);
        assert_eq!(cubic.window(), 100);
        cubic.handle_sent(at(1_019), 1, false);
        assert_eq!(cubic.window(), 50);
        cubic.handle_sent(at(9_000), 1, false);
        assert_eq!(cubic.window(), 32);
        assert!((cubic.course.slow_start_threshold - 100.0).abs() < 1e-9);
    }

    #[test]
    fn the_cube_root_is_exact_to_rounding() {
        for x in [0.0, 1e-9, 0.3, 1.0, 8.0, 27.0, 42.857, 1e12] {
            let root = cube_root(x);
            assert!((root * root * root - x).abs() <= 1e-12 * x.max(1e-12), "{x}: {root}");
        }
    }
}
