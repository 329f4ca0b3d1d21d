//! How the model answers losses: what is congestion, what is given up for it, and what is taken back when it was noise.

use weft_base::Instant;

use super::phases::{DOWN_ROUNDS, DRAIN_ROUNDS, Phase};
use super::{Model, WINDOW_FLOOR};
use crate::congestion::noise::NOISE_MAX;
use crate::congestion::path::Round;

/// Part of what was in flight, and of the rate, that is kept when a round was congested.
const KEPT: f64 = 0.85;
const RATE_KEPT: f64 = 0.7;
/// Less than this part of the known rate is too little to fill a queue.
const QUIET: f64 = 0.9;

impl Model {
    /// Share of lost packets that is no sign of congestion. A rate that doubled in spite of losses is not bounded by them.
    /// Nor is one in Startup without a queue to be seen: almost three times what is known to arrive would make one. Nor one
    /// beside others who answer none.
    pub(super) fn tolerated(&self) -> f64 {
        let is_starting =
            self.phase == Phase::Startup && (self.rounds_below_goal == 0 || self.noise.is_short());
        if is_starting || self.standing.is_foreign() { NOISE_MAX } else { self.noise.tolerated() }
    }

    /// Whether less is sent than the path is known to carry, so that losses are not our doing.
    pub(super) fn is_quiet(&self) -> bool {
        let known = QUIET * self.bandwidth.get();
        match self.phase {
            Phase::Startup | Phase::Up => false,
            Phase::Drain | Phase::Down | Phase::ProbeRtt(_) => true,
            Phase::Cruise => {
                let held = known * self.min_rtt.unwrap_or_default().as_secs_f64();
                self.bounds.rate < known || self.bounds.ceiling < held
            }
        }
    }

    /// Answers a congested round, and with it everything that was sent before `now`.
    pub(super) fn react(&mut self, now: Instant, round: &Round) {
        if self.is_quiet() {
            self.standing.note_reaction();
        }
        self.before = self.bounds;
        self.reacted_at = now;
        let losses = std::mem::take(&mut self.losses).with(round);
        self.judged = (!round.is_marked && self.noise.is_short()).then_some(losses);
        let is_probing = matches!(self.phase, Phase::Startup | Phase::Up);
        if !is_probing {
            self.bounds.rate = (self.rate() * RATE_KEPT).max(round.rate(now).min(self.rate()));
        }
        let peak = round.peak().min(self.bounds.ceiling);
        self.bounds.ceiling = (peak * KEPT).max(WINDOW_FLOOR);
        match self.phase {
            Phase::Startup => self.enter(Phase::Drain, DRAIN_ROUNDS),
            Phase::Up => {
                self.is_congested = true;
                self.enter(Phase::Down, DOWN_ROUNDS);
            }
            Phase::Drain | Phase::Cruise | Phase::Down | Phase::ProbeRtt(_) => {}
        }
    }

    /// Whether what was lost since, while little was sent, explains the losses answered last.
    pub(super) fn was_noise(&self) -> bool {
        self.judged.is_some_and(|losses| !losses.is_more_than(self.noise.tolerated()))
    }

    /// The losses answered last were noise: the answer is taken back, and the probe that it ended goes on.
    pub(super) fn acquit(&mut self) {
        self.undo();
        self.is_congested = false;
        self.enter_up();
    }

    /// Takes the last answer back.
    pub(super) fn undo(&mut self) {
        self.judged = None;
        self.bounds.ceiling = self.bounds.ceiling.max(self.before.ceiling);
        self.bounds.rate = self.bounds.rate.max(self.before.rate);
    }

    /// While more is tried than the path is known to carry, congestion does not wait for the end of the round.
    pub(super) fn react_early(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Startup | Phase::Up)
            && self.losses.is_congested_with(&self.round, self.tolerated())
        {
            let round = self.round.cut(now);
            self.react(now, &round);
        }
    }
}
