//! A model-based controller for clusters: send as fast as the path delivers, keep no more in flight than it holds.
//!
//! A path is two numbers, the rate of its narrowest link and the round trip without queues; their product is what it
//! holds. The greatest delivery rate seen lately measures the one, the least round trip the other, but never both at
//! once: the rate shows only when the path is full, the round trip only when its queues are empty. So the controller
//! moves around the point between the two:
//!
//! ```text
//!  Startup --full or congested--> Drain --empty--> Cruise --some rounds--> Up --full or congested--> Down --+
//!   x 2.77                        x 0.5            x 1  ^                  x 1.25                    x 0.75 |
//!                                                       +---------------------------------------------------+
//!  ProbeRtt, about half of what the path holds, from any of them but Startup, if the queue has not been seen empty lately
//! ```
//!
//! Loss by itself is no signal. More loss than noise explains is: it lowers a ceiling for what is in flight, by a part
//! of itself, and outside a probe takes the rate down to what still arrives until the next one. Where no queue was to be
//! seen, that is taken back if as much is lost when less is sent; where one stays in spite of it, others fill it, and what
//! is lost in it is theirs. Probes raise the ceiling by steps that depend little on how high it is, so that flows which
//! share a path come to share it evenly.
//! The scheme is that of the BBR family; rounds instead of seconds pace its turns, because a round trip in a cluster
//! is a thousandth of one in the Internet, and clumps of acknowledgements, which there are longer than the round
//! trip, are allowed for in the window.

use std::time::Duration;

use weft_base::Instant;

use super::noise::{Losses, Noise};
use super::path::{Bandwidth, Clumps, Round};
use super::standing::Standing;
use super::{Ack, Controller, Loss, WINDOW_MAX};
use phases::Phase;

mod answer;
mod phases;
#[cfg(test)]
mod tests;

/// Pacing gains. 2.77 = 4 ln 2 is the least that doubles the delivery rate each round.
const STARTUP_GAIN: f64 = 2.77;
const DRAIN_GAIN: f64 = 0.5;
const UP_GAIN: f64 = 1.25;
const DOWN_GAIN: f64 = 0.75;
/// Sending at slightly less than the estimate lets a queue drain that the estimate's own errors build.
const MARGIN: f64 = 0.99;
/// The window, as a multiple of what the path holds: pacing is to be the limit, not the window.
const WINDOW_GAIN: f64 = 2.0;
/// What is kept in flight to empty the queue, as a part of what the path holds. A queue of others who keep twice in flight what they
/// take the path to hold becomes empty only if this flow has two thirds of the path or more ([`Standing`]).
const EMPTYING: f64 = 0.5;
const EMPTYING_FOREIGN: f64 = 0.6;
/// Never less than this in flight, or losses are found only by time-outs.
const WINDOW_FLOOR: f64 = 4.0;
/// Time for which the window lets an engine be away without the sender running dry.
const ABSENCE: Duration = Duration::from_micros(200);
/// How long the queue may go without being seen empty, a hundred round trips within these bounds, and how long it is
/// then kept so, at least. Flows that see it empty together count from the same moment, so they come to empty it
/// together.
const EMPTY_WITHIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
const EMPTY_FOR: Duration = Duration::from_millis(1);

/// What congestion changes, so that an error can be undone.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Greatest count in flight that the path took without congestion.
    ceiling: f64,
    /// Rate until the next probe, if lower than the estimate.
    rate: f64,
}

const UNBOUNDED: Bounds = Bounds { ceiling: f64::INFINITY, rate: f64::INFINITY };

/// The model-based controller.
#[derive(Clone, Debug)]
pub struct Model {
    phase: Phase,
    /// Rounds left in this phase.
    rounds_left: u32,
    bandwidth: Bandwidth,
    min_rtt: Option<Duration>,
    srtt: Option<Duration>,
    /// When a round trip close to the least one was seen last.
    empty_at: Instant,
    round: Round,
    losses: Losses,
    noise: Noise,
    /// The losses answered last, if there was no queue to be seen: until the next probe they may prove to be noise.
    judged: Option<Losses>,
    /// When congestion was answered last.
    reacted_at: Instant,
    clumps: Clumps,
    /// The rate to be surpassed by a quarter, or in `Up` by a tenth, and the rounds in which it was not.
    goal: f64,
    rounds_below_goal: u32,
    /// By how many packets the ceiling rises next.
    step: f64,
    /// The last probe met congestion.
    is_congested: bool,
    standing: Standing,
    bounds: Bounds,
    before: Bounds,
    initial_window: f64,
    window: f64,
}

impl Model {
    /// A connection opened at `now` that starts with `initial_window` packets.
    #[must_use]
    pub fn new(initial_window: u32, now: Instant) -> Self {
        let window = f64::from(initial_window.min(WINDOW_MAX)).max(WINDOW_FLOOR);
        Self {
            phase: Phase::Startup,
            rounds_left: 0,
            bandwidth: Bandwidth::default(),
            min_rtt: None,
            srtt: None,
            empty_at: now,
            round: Round::default(),
            losses: Losses::default(),
            noise: Noise::default(),
            judged: None,
            reacted_at: now,
            clumps: Clumps::default(),
            goal: 0.0,
            rounds_below_goal: 0,
            step: 1.0,
            is_congested: false,
            standing: Standing::default(),
            bounds: UNBOUNDED,
            before: UNBOUNDED,
            initial_window: window,
            window,
        }
    }

    /// Packets per second that the path is believed to carry now.
    fn rate(&self) -> f64 {
        self.bandwidth.get().min(self.bounds.rate)
    }

    /// Packets that the path holds without a queue. While a new path repairs what the old one lost there is no round trip
    /// of it, and that of the old one stands in.
    fn held_by_path(&self) -> f64 {
        self.rate() * self.min_rtt.or(self.srtt).unwrap_or_default().as_secs_f64()
    }

    /// The window the model asks for, before ceilings. In a queue that others keep full it is the window that limits and not the
    /// pace, so a probe has to widen it.
    fn target(&self) -> f64 {
        let absence = self.rate() * ABSENCE.as_secs_f64();
        let is_widened = self.phase == Phase::Up && self.standing.is_foreign();
        let gain = if is_widened { UP_GAIN * WINDOW_GAIN } else { WINDOW_GAIN };
        (gain * self.held_by_path() + self.clumps.get().max(absence)).max(WINDOW_FLOOR)
    }

    /// What the present phase allows in flight.
    fn cap(&self) -> f64 {
        match self.phase {
            Phase::ProbeRtt(_) => {
                let part = if self.standing.is_foreign() { EMPTYING_FOREIGN } else { EMPTYING };
                (part * self.held_by_path()).max(WINDOW_FLOOR)
            }
            Phase::Startup | Phase::Drain | Phase::Cruise | Phase::Up | Phase::Down => self.bounds.ceiling,
        }
    }

    fn measure(&mut self, ack: &Ack) {
        self.srtt = ack.srtt.or(self.srtt);
        if ack.rtt.is_some() && ack.rtt <= ack.min_rtt {
            self.empty_at = ack.now;
        }
        self.min_rtt = ack.min_rtt.or(self.min_rtt);
        if let Some(sample) = &ack.delivery {
            self.bandwidth.sample(sample);
        }
        self.clumps.handle_ack(ack, self.rate());
    }

    fn end_round(&mut self, now: Instant, round: &Round) {
        self.clumps.end_round();
        self.rounds_left = self.rounds_left.saturating_sub(1);
        if self.standing.end_round(self.is_quiet(), self.held_by_path()) {
            self.losses = Losses::default();
            self.is_congested = false;
            return self.enter_up();
        }
        if self.losses.is_congested_with(round, self.tolerated()) {
            return self.react(now, round);
        }
        self.losses.add(round);
        if matches!(self.phase, Phase::Drain | Phase::Down | Phase::Cruise) && self.was_noise() {
            return self.acquit();
        }
        match self.phase {
            Phase::Startup => self.judge_fullness(round),
            Phase::Up => self.judge_probe(round),
            Phase::Drain | Phase::Down if self.rounds_left == 0 => self.enter_cruise(now),
            Phase::Cruise if self.rounds_left == 0 => self.enter_up(),
            Phase::Drain | Phase::Down | Phase::Cruise | Phase::ProbeRtt(_) => {}
        }
    }

    /// What does not wait for the end of a round.
    fn follow(&mut self, ack: &Ack) {
        let in_flight = f64::from(ack.in_flight);
        match self.phase {
            // losses without a queue are judged by what is lost in these rounds, so all of them are needed
            Phase::Drain | Phase::Down if self.judged.is_none() && in_flight <= self.held_by_path() => {
                self.enter_cruise(ack.now);
            }
            Phase::ProbeRtt(None) if in_flight <= self.cap() => {
                let stay = EMPTY_FOR.max(self.srtt.unwrap_or_default());
                self.phase = Phase::ProbeRtt(Some(ack.now + stay));
            }
            Phase::ProbeRtt(Some(until)) if ack.now >= until => {
                self.empty_at = ack.now;
                self.standing.note_emptied();
                self.enter_cruise(ack.now);
            }
            Phase::Startup | Phase::Drain | Phase::Down | Phase::Cruise | Phase::Up | Phase::ProbeRtt(_) => {}
        }
        let within = (self.min_rtt.unwrap_or_default() * 400).clamp(EMPTY_WITHIN.0, EMPTY_WITHIN.1);
        if ack.now - self.empty_at > within {
            self.enter_probe_rtt();
        }
    }

    fn grow(&mut self, newly_acked: u32) {
        let (acked, target) = (f64::from(newly_acked), self.target());
        if self.phase != Phase::Startup {
            self.window = (self.window + acked).min(target);
        } else if self.window < target.max(self.initial_window) {
            self.window += acked;
        }
        self.window = self.window.clamp(WINDOW_FLOOR, f64::from(WINDOW_MAX));
    }
}

impl Controller for Model {
    fn handle_ack(&mut self, ack: &Ack) {
        self.measure(ack);
        if let Some(round) = self.round.handle_ack(ack) {
            self.end_round(ack.now, &round);
        }
        self.follow(ack);
        self.grow(ack.newly_acked);
        self.noise.handle_ack(ack, self.bandwidth.get());
        let clump = self.clumps.get() / self.bandwidth.get().max(1.0);
        if self.standing.handle_ack(ack, self.noise.is_short(), clump) {
            self.enter_probe_rtt();
        }
        self.noise.set_quiet(ack.now, self.is_quiet());
    }

    fn handle_loss(&mut self, loss: &Loss) {
        self.noise.handle_loss(loss);
        if loss.largest_sent_at >= self.reacted_at {
            self.round.handle_loss(loss);
            self.react_early(loss.now);
        }
        if loss.is_timeout {
            // Nothing is known of what is in flight; the model stays, and acknowledgements bring the window back.
            self.window = WINDOW_FLOOR;
        }
    }

    fn handle_ecn(&mut self, now: Instant, sent_at: Instant) {
        // [CDP-CC-5] once per round trip: what was sent before the last reaction has been answered
        if sent_at >= self.reacted_at {
            self.round.mark();
            self.react_early(now);
        }
    }

    fn handle_spurious(&mut self, _now: Instant) {
        self.undo();
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 4 and WINDOW_MAX
    fn window(&self) -> u32 {
        self.window.min(self.cap()) as u32
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a float conversion saturates
    fn pacing_rate(&self) -> Option<u64> {
        let srtt = self.srtt.filter(|srtt| !srtt.is_zero())?.as_secs_f64();
        let rate = match self.phase {
            Phase::Startup => STARTUP_GAIN * self.rate().max(self.initial_window / srtt),
            Phase::Drain => DRAIN_GAIN * self.rate(),
            Phase::Up => UP_GAIN * self.rate(),
            Phase::Down => DOWN_GAIN * self.rate(),
            Phase::Cruise | Phase::ProbeRtt(_) => self.rate(),
        };
        Some(((rate * MARGIN).max(WINDOW_FLOOR / srtt) as u64).max(1))
    }
}
