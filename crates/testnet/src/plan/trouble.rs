//! Draws the paths and the troubles of a plan.

use std::time::Duration;

use weft_des::Random;

use super::Trouble;
use crate::path::PathSettings;

/// Which kinds of fault a seed has at all, and the strongest it may draw.
pub(super) struct Swarm {
    loss: f64,
    burst: bool,
    duplicate: f64,
    replay: f64,
    reorder: f64,
    jitter: bool,
    damage: f64,
    mark: f64,
    mtu: bool,
    narrow: bool,
    black: bool,
    spike: bool,
    crash: bool,
    suspend: bool,
}

impl Swarm {
    pub(super) fn draw(random: &mut Random, is_sealed: bool) -> Self {
        let mut strength = |share: f64, choices: &[f64]| {
            if random.chance(share) { random.pick(choices) } else { 0.0 }
        };
        let loss = strength(0.6, &[0.001, 0.01, 0.05, 0.1, 0.2, 0.3]);
        let duplicate = strength(0.4, &[0.01, 0.1, 0.5]);
        let replay = strength(0.3, &[0.001, 0.01, 0.1]);
        let reorder = strength(0.5, &[0.001, 0.01, 0.1, 0.5]);
        let damage = if is_sealed { strength(0.4, &[0.001, 0.01, 0.1]) } else { 0.0 };
        let mark = strength(0.2, &[0.001, 0.01, 0.2]);
        Self {
            loss,
            burst: random.chance(0.25),
            duplicate,
            replay,
            reorder,
            jitter: random.chance(0.4),
            damage,
            mark,
            mtu: random.chance(0.3),
            narrow: random.chance(0.3),
            black: random.chance(0.4),
            spike: random.chance(0.3),
            crash: random.chance(0.2),
            suspend: random.chance(0.15),
        }
    }
}

/// Longest packets that paths carry; the least holds a data segment of 512 bytes.
const MTUS: [usize; 5] = [540, 1_052, 1_472, 1_500, 9_000];

/// Settings of all directions. A pair of nodes shares its rate and delay; faults are drawn for each direction.
pub(super) fn paths(random: &mut Random, swarm: &Swarm, nodes: usize) -> Vec<PathSettings> {
    let mut paths = vec![PathSettings::clean(Duration::ZERO, 1); nodes * nodes];
    for from in 0..nodes {
        for to in from + 1..nodes {
            let base = base(random, swarm);
            paths[from * nodes + to] = faults(random, swarm, &base);
            paths[to * nodes + from] = faults(random, swarm, &base);
        }
    }
    paths
}

fn base(random: &mut Random, swarm: &Swarm) -> PathSettings {
    let delay = random.pick(&[10, 50, 500, 5_000, 50_000]);
    let delay = Duration::from_micros(random.range(delay..delay * 2));
    let rate = random.pick(&[500_000, 5_000_000, 125_000_000, 1_250_000_000]);
    let mut base = PathSettings::clean(delay, rate);
    base.queue_bytes = 64_000 + rate / 2; // half a second
    if swarm.narrow {
        // A queue from one tenth of to twice the bandwidth-delay product, and never less than a few packets.
        let product = rate * u64::try_from(2 * delay.as_micros()).unwrap_or(0) / 1_000_000;
        base.queue_bytes = 20_000 + random.range(product / 10..product * 2 + 1);
    }
    if swarm.mtu {
        base.mtu_bytes = random.pick(&MTUS);
    }
    base
}

fn faults(random: &mut Random, swarm: &Swarm, base: &PathSettings) -> PathSettings {
    let mut some = |strongest: f64| if strongest > 0.0 { strongest * random.unit() } else { 0.0 };
    let mut path = PathSettings {
        loss: some(swarm.loss),
        duplicate: some(swarm.duplicate),
        replay: some(swarm.replay),
        reorder: some(swarm.reorder),
        damage: some(swarm.damage),
        mark: some(swarm.mark),
        ..base.clone()
    };
    if swarm.burst {
        path.burst_enter = random.pick(&[0.001, 0.005, 0.02]);
        path.burst_leave = random.pick(&[0.5, 0.1, 0.03]);
    }
    if swarm.jitter {
        path.jitter = path.delay.mul_f64(random.unit());
    }
    if swarm.reorder > 0.0 {
        let most = random.pick(&[100, 1_000, 10_000, 100_000]);
        path.reorder_by = Duration::from_micros(random.range(most / 10..most));
    }
    path
}

/// Times at which black holes, delay spikes, MTU changes, crashes and suspensions begin and end.
pub(super) fn schedule(
    random: &mut Random,
    swarm: &Swarm,
    nodes: usize,
    heals_at: Duration,
    is_long: bool,
) -> Vec<(Duration, Trouble)> {
    let mut calendar = Calendar { random, nodes, heals_at, is_long, troubles: Vec::new() };
    if swarm.black {
        calendar.black_holes();
    }
    if swarm.spike {
        calendar.delay_spikes();
    }
    if swarm.mtu {
        calendar.mtu_changes();
    }
    if swarm.crash {
        calendar.crash();
    }
    if swarm.suspend {
        calendar.suspend();
    }
    let mut troubles = calendar.troubles;
    troubles.sort_by_key(|&(at, _)| at);
    troubles
}

struct Calendar<'a> {
    random: &'a mut Random,
    nodes: usize,
    heals_at: Duration,
    is_long: bool,
    troubles: Vec<(Duration, Trouble)>,
}

impl Calendar<'_> {
    /// A path between two different nodes, and the path back.
    fn path(&mut self) -> (usize, usize) {
        let from = self.random.index(self.nodes);
        let to = (from + 1 + self.random.index(self.nodes - 1)) % self.nodes;
        (from * self.nodes + to, to * self.nodes + from)
    }

    fn time(&mut self) -> Duration {
        self.random.duration(Duration::ZERO..self.heals_at)
    }

    /// From a millisecond to ten seconds, or in long plans to all the time there is.
    fn lasts(&mut self) -> Duration {
        let most = if self.is_long { self.heals_at } else { Duration::from_secs(10) };
        let most = most.mul_f64(self.random.pick(&[0.001, 0.01, 0.1, 1.0]));
        self.random.duration(Duration::from_millis(1)..most + Duration::from_millis(2))
    }

    fn black_holes(&mut self) {
        for _ in 0..self.random.range(1..5) {
            let ((there, back), begins, lasts) = (self.path(), self.time(), self.lasts());
            let both = self.random.chance(0.5);
            for path in [there].into_iter().chain(both.then_some(back)) {
                self.troubles.push((begins, Trouble::Black { path, is_black: true }));
                self.troubles.push((begins + lasts, Trouble::Black { path, is_black: false }));
            }
        }
    }

    fn delay_spikes(&mut self) {
        for _ in 0..self.random.range(1..6) {
            let ((path, _), begins, lasts) = (self.path(), self.time(), self.lasts());
            let most = self.random.pick(&[10, 100, 1_000, 5_000]);
            let extra = Duration::from_millis(self.random.range(most / 10..most));
            self.troubles.push((begins, Trouble::Delay { path, extra }));
            self.troubles.push((begins + lasts, Trouble::Delay { path, extra: Duration::ZERO }));
        }
    }

    fn mtu_changes(&mut self) {
        for _ in 0..self.random.range(1..5) {
            let ((path, back), at) = (self.path(), self.time());
            let mtu_bytes = self.random.pick(&MTUS);
            self.troubles.push((at, Trouble::Mtu { path, mtu_bytes }));
            self.troubles.push((at, Trouble::Mtu { path: back, mtu_bytes }));
        }
    }

    fn crash(&mut self) {
        for _ in 0..self.random.range(1..3) {
            let node = self.random.index(self.nodes);
            let (begins, lasts) = (self.time(), self.lasts());
            self.troubles.push((begins, Trouble::Crash { node }));
            self.troubles.push((begins + lasts, Trouble::Restart { node }));
        }
    }

    fn suspend(&mut self) {
        let (at, time) = (self.time(), self.lasts());
        self.troubles.push((at, Trouble::Suspend { node: self.random.index(self.nodes), time }));
    }
}
