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
use super::{Ack, Controller, Loss, WINDOW_MAX, WINDOW_MIN};

#[cfg(test)]
mod tests;

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

    /// The same, but slow start begins with `window` packets; after a pause it begins anew with the initial window.
    #[must_use]
    pub(super) fn begin_with(mut self, window: u32) -> Self {
        self.course.window = f64::from(window).min(self.course.window);
        self
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
