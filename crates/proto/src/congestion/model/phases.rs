//! The phases of the model, and what leads from one to the next, except congestion.

use weft_base::Instant;

use super::{Model, UNBOUNDED, UP_GAIN, WINDOW_FLOOR};
use crate::congestion::path::Round;

/// The path counts as full after this many rounds in which the rate did not grow by a quarter.
const FULL_ROUNDS: u32 = 3;
const FULL_GROWTH: f64 = 1.25;
/// A rate that grows by this much in a round of probing is worth another such round.
const UP_GROWTH: f64 = 1.1;
/// Rounds in each phase at most, should its goal be out of reach.
pub(super) const DRAIN_ROUNDS: u32 = 4;
const UP_ROUNDS: u32 = 4;
pub(super) const DOWN_ROUNDS: u32 = 2;
/// Rounds between two probes, at least and at most. They vary by up to three, so that flows do not probe in step.
const CRUISE_ROUNDS: (u32, u32) = (6, 48);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Startup,
    Drain,
    Cruise,
    Up,
    Down,
    /// With the time at which it may end, once little enough is in flight.
    ProbeRtt(Option<Instant>),
}

impl Model {
    pub(super) fn enter(&mut self, phase: Phase, rounds: u32) {
        self.phase = phase;
        self.rounds_left = rounds;
    }

    /// Tries for more than is known to be there.
    pub(super) fn enter_up(&mut self) {
        self.bandwidth.end_cycle();
        self.judged = None;
        self.bounds.rate = f64::INFINITY;
        if self.standing.is_foreign() {
            self.bounds = UNBOUNDED;
        }
        self.step = (self.held_by_path().sqrt() / 2.0).max(1.0);
        self.goal = self.bandwidth.get() * UP_GROWTH;
        self.enter(Phase::Up, UP_ROUNDS);
    }

    /// Rounds without a probe: few if the last one found something. Otherwise as many as packets are held by the path,
    /// within bounds: the share that a probe costs others then does not grow with the flow that probes.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a float conversion saturates
    pub(super) fn enter_cruise(&mut self, now: Instant) {
        let (least, most) = CRUISE_ROUNDS;
        let rounds = if self.is_congested { self.held_by_path() } else { 0.0 };
        // The low bits of a nanosecond clock are as good as a die; nobody has anything to gain from guessing them.
        let vary = u32::try_from(now.as_nanos() / 1_024 % 4).unwrap_or(0);
        self.enter(Phase::Cruise, (rounds as u32).clamp(least, most) + vary);
    }

    /// Empties the queue, unless that is being done or nothing is known yet.
    pub(super) fn enter_probe_rtt(&mut self) {
        if !matches!(self.phase, Phase::Startup | Phase::ProbeRtt(_)) {
            self.enter(Phase::ProbeRtt(None), 0);
        }
    }

    /// Startup ends when three rounds in a row did not bring a quarter more.
    pub(super) fn judge_fullness(&mut self, round: &Round) {
        let rate = self.bandwidth.get();
        if rate >= self.goal {
            self.goal = rate * FULL_GROWTH;
            self.rounds_below_goal = 0;
        } else if !round.is_app_limited {
            self.rounds_below_goal += 1;
        }
        if self.rounds_below_goal >= FULL_ROUNDS {
            self.enter(Phase::Drain, DRAIN_ROUNDS);
        }
    }

    /// A probe goes on while it brings more, or until what is in flight shows that it brings nothing. What was in the
    /// way of it is the ceiling, if that was reached.
    pub(super) fn judge_probe(&mut self, round: &Round) {
        let is_full = round.in_flight_max >= UP_GAIN * self.held_by_path() + WINDOW_FLOOR;
        // what is in flight is whole packets, so it does not reach the part of one that a ceiling has
        if round.in_flight_max >= 0.95 * self.bounds.ceiling.floor() {
            self.bounds.ceiling += self.step;
            self.step *= 2.0;
            if !is_full {
                self.rounds_left = UP_ROUNDS;
                return;
            }
        }
        let rate = self.bandwidth.get();
        if rate >= self.goal {
            self.goal = rate * UP_GROWTH;
            self.rounds_left = UP_ROUNDS;
            return;
        }
        // The first round to end began before the probe did.
        if self.rounds_left == 0 || (is_full && self.rounds_left + 2 <= UP_ROUNDS) {
            self.is_congested = false;
            self.enter(Phase::Down, DOWN_ROUNDS);
        }
    }
}
