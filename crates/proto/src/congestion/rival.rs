//! A flow that is not ours, for the simulation: a controller after the first version of BBR ("BBR: Congestion-Based Congestion
//! Control", ACM Queue 14.5, 2016), which kernels have.
//!
//! It keeps twice in flight what it takes the path to hold, by the greatest rate of ten round trips, and answers a loss with one
//! round trip in which it sends what arrives.

use std::collections::VecDeque;
use std::time::Duration;

use weft_base::Instant;

use super::{Ack, Controller, Loss};

/// 2 / ln 2, the least that doubles the delivery rate each round.
const STARTUP_GAIN: f64 = 2.885;
/// The path is full after so many rounds in which the rate did not grow by a quarter.
const FULL_ROUNDS: u32 = 3;
const FULL_GROWTH: f64 = 1.25;
/// Gains of the pace, for a round trip each.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const MARGIN: f64 = 0.99;
/// Windows, in packets, the first as a multiple of what the path holds.
const WINDOW_GAIN: f64 = 2.0;
const WINDOW_FLOOR: f64 = 4.0;
const INITIAL_WINDOW: f64 = 10.0;
/// Packets for what sender and receiver put together: three pieces of 64 KB.
const PIECES: f64 = 132.0;
/// Rounds for which a rate is remembered.
const RATE_ROUNDS: usize = 10;
/// How long the least round trip counts, and how long the queue is then kept empty.
const MIN_RTT_FOR: Duration = Duration::from_secs(10);
const PROBE_RTT_FOR: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Startup,
    Drain,
    /// With the place in [`CYCLE`].
    Cycle(usize),
    /// With the time at which it ends, once little is in flight.
    ProbeRtt(Option<Instant>),
}

/// The controller.
pub(super) struct Rival {
    phase: Phase,
    since: Instant,
    /// Greatest rate of each of the last rounds, the present one last.
    rates: VecDeque<f64>,
    round_started: Instant,
    /// The rate to be surpassed by a quarter, and the rounds in which it was not.
    goal: f64,
    rounds_below_goal: u32,
    /// With the time at which it was seen.
    min_rtt: Option<(Duration, Instant)>,
    has_lost: bool,
    /// When a loss was answered, and the window to go back to a round trip later.
    recovery: Option<(Instant, f64)>,
    window: f64,
}

impl Rival {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Startup,
            since: Instant::ZERO,
            rates: VecDeque::from([0.0]),
            round_started: Instant::ZERO,
            goal: 0.0,
            rounds_below_goal: 0,
            min_rtt: None,
            has_lost: false,
            recovery: None,
            window: INITIAL_WINDOW,
        }
    }

    fn rate(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    fn min_rtt(&self) -> Duration {
        self.min_rtt.map_or(Duration::ZERO, |(rtt, _)| rtt)
    }

    fn held_by_path(&self) -> f64 {
        self.rate() * self.min_rtt().as_secs_f64()
    }

    fn enter(&mut self, phase: Phase, now: Instant) {
        (self.phase, self.since, self.has_lost) = (phase, now, false);
    }

    fn measure(&mut self, ack: &Ack) {
        if let (Some(sample), Some(last)) = (ack.delivery, self.rates.back_mut()) {
            *last = last.max(sample.packets_per_second());
        }
        let Some(rtt) = ack.rtt else { return };
        let is_old = self.min_rtt.is_some_and(|(_, at)| ack.now - at > MIN_RTT_FOR);
        if is_old && !matches!(self.phase, Phase::ProbeRtt(_)) {
            self.enter(Phase::ProbeRtt(None), ack.now);
        }
        if is_old || self.min_rtt.is_none_or(|(least, _)| rtt <= least) {
            self.min_rtt = Some((rtt, ack.now));
        }
    }

    fn end_round(&mut self, now: Instant) {
        self.round_started = now;
        if self.phase == Phase::Startup {
            self.rounds_below_goal += 1;
            if self.rate() >= self.goal {
                (self.goal, self.rounds_below_goal) = (self.rate() * FULL_GROWTH, 0);
            }
            if self.rounds_below_goal == FULL_ROUNDS {
                self.enter(Phase::Drain, now);
            }
        }
        self.rates.push_back(0.0);
        if self.rates.len() > RATE_ROUNDS {
            self.rates.pop_front();
        }
    }

    fn follow(&mut self, ack: &Ack) {
        let (now, in_flight, held) = (ack.now, f64::from(ack.in_flight), self.held_by_path());
        let has_passed = now - self.since > self.min_rtt();
        match self.phase {
            Phase::Drain if in_flight <= held => self.enter(Phase::Cycle(2), now),
            Phase::Cycle(0) if has_passed && (self.has_lost || in_flight >= CYCLE[0] * held) => {
                self.enter(Phase::Cycle(1), now);
            }
            Phase::Cycle(1) if has_passed || in_flight <= held => self.enter(Phase::Cycle(2), now),
            Phase::Cycle(step @ 2..) if has_passed => self.enter(Phase::Cycle((step + 1) % CYCLE.len()), now),
            Phase::ProbeRtt(None) if in_flight <= WINDOW_FLOOR => {
                self.phase = Phase::ProbeRtt(Some(now + PROBE_RTT_FOR));
            }
            Phase::ProbeRtt(Some(until)) if now >= until => self.enter(Phase::Cycle(2), now),
            Phase::Startup | Phase::Drain | Phase::Cycle(_) | Phase::ProbeRtt(_) => {}
        }
    }

    fn grow(&mut self, ack: &Ack) {
        let acked = f64::from(ack.newly_acked);
        if let Some((_, before)) = self.recovery.take_if(|(since, _)| ack.sent_at >= *since) {
            self.window = self.window.max(before);
        }
        self.window = if self.recovery.is_some() {
            self.window.max(f64::from(ack.in_flight) + acked)
        } else if self.phase == Phase::Startup {
            self.window + acked
        } else {
            (self.window + acked).min(WINDOW_GAIN * self.held_by_path() + PIECES)
        };
    }
}

impl Controller for Rival {
    fn handle_ack(&mut self, ack: &Ack) {
        self.measure(ack);
        if ack.sent_at >= self.round_started {
            self.end_round(ack.now);
        }
        self.follow(ack);
        self.grow(ack);
    }

    fn handle_loss(&mut self, loss: &Loss) {
        self.has_lost = true;
        if loss.is_timeout {
            self.window = WINDOW_FLOOR;
        } else if self.recovery.is_none() {
            self.recovery = Some((loss.now, self.window));
            self.window = f64::from(loss.in_flight);
        } else {
            self.window -= f64::from(loss.lost);
        }
    }

    fn handle_ecn(&mut self, _now: Instant, _sent_at: Instant) {}

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a float conversion saturates
    fn window(&self) -> u32 {
        let is_emptying = matches!(self.phase, Phase::ProbeRtt(_));
        (if is_emptying { WINDOW_FLOOR } else { self.window.max(WINDOW_FLOOR) }) as u32
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a float conversion saturates
    fn pacing_rate(&self) -> Option<u64> {
        let (least, _) = self.min_rtt?;
        let gain = match self.phase {
            Phase::Startup => STARTUP_GAIN,
            Phase::Drain => 1.0 / STARTUP_GAIN,
            Phase::Cycle(step) => CYCLE[step],
            Phase::ProbeRtt(_) => 1.0,
        };
        Some((self.rate().max(INITIAL_WINDOW / least.as_secs_f64()) * gain * MARGIN) as u64)
    }
}
