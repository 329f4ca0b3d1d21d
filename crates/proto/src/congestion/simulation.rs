//! Controllers on a small simulated path: one bottleneck with a rate, a delay, a buffer and loss; virtual time.
//!
//! Packets stand in one queue, so a packet that is heard of before an older one means that the older one was lost.
//! The senders are as simple as they can be and still be fed as the real one feeds its controller.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use weft_base::Instant;

use super::{Ack, Congestion, Controller, Kind, Loss};
use crate::jitter::Jitter;
use crate::pacer::Pacer;
use crate::rate::{Estimator, Stamp};
use crate::rtt::Rtt;

/// The path that all flows share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// Packets per second.
    pub(super) rate: u64,
    pub(super) rtt: Duration,
    /// Packets the queue holds.
    pub(super) buffer: u32,
    /// Packets lost at random, in a thousand.
    pub(super) loss_per_mille: u64,
    /// Queue length from which packets are marked, if any are.
    pub(super) mark_above: Option<u32>,
    /// Acknowledgements arrive only at multiples of this, if it is not zero.
    pub(super) clump: Duration,
    /// Which packets are lost at random.
    pub(super) seed: u64,
    /// From this time on the rate is another; only what follows is counted, after a twentieth of the run.
    pub(super) change: Option<(Duration, u64)>,
}

impl Path {
    /// What the path holds, in packets.
    pub(super) fn holds(&self) -> f64 {
        self.rate as f64 * self.rtt.as_secs_f64()
    }
}

/// What became of a run, counted after its first quarter, or after the change of the path.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Packets delivered, as a part of what the path could carry.
    pub(super) utilisation: f64,
    /// Mean and greatest queue, in packets, as packets find it.
    pub(super) queue_mean: f64,
    pub(super) queue_max: u32,
    /// Part of the packets that were dropped because the queue was full.
    pub(super) dropped: f64,
    pub(super) timeouts: u32,
    /// Packets delivered by each flow.
    pub(super) flows: Vec<u64>,
}

impl Outcome {
    /// Jain's index of fairness: 1 if all flows got the same, 1/n if one got all.
    pub(super) fn fairness(&self) -> f64 {
        let sum: f64 = self.flows.iter().map(|flow| *flow as f64).sum();
        let squares: f64 = self.flows.iter().map(|flow| (*flow as f64).powi(2)).sum();
        sum * sum / (self.flows.len() as f64 * squares)
    }
}

struct Flow {
    congestion: Box<dyn Controller>,
    pacer: Pacer,
    rtt: Rtt,
    estimator: Estimator,
    flying: BTreeMap<u64, Stamp>,
    next: u64,
    is_limited: bool,
    /// A time-out or a pacing wait counts only if nothing newer was asked for.
    timer: Instant,
    wake: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ack { id: u64, is_marked: bool },
    Send,
    Timeout,
}

/// A run of one path and its flows.
pub(super) struct Simulation {
    path: Path,
    flows: Vec<Flow>,
    events: BinaryHeap<Reverse<(Instant, u64, usize, Event)>>,
    order: u64,
    dice: Jitter,
    free_at: Instant,
    measured_from: Instant,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    delivered: Vec<u64>,
    offered: u64,
    dropped: u64,
    queue_sum: u64,
    queue_max: u32,
    timeouts: u32,
}

/// Runs `kinds`, one flow each, for `time`: the second begins a twentieth of it after the first and so on, but where there are more
/// than five all have begun in the first quarter.
pub(super) fn run(path: Path, kinds: &[Kind], time: Duration) -> Outcome {
    run_with(path, kinds.iter().map(|kind| Box::new(Congestion::new(*kind, Instant::ZERO)) as _), time)
}

/// The same with controllers that need not be ours.
pub(super) fn run_with(
    path: Path,
    controllers: impl IntoIterator<Item = Box<dyn Controller>>,
    time: Duration,
) -> Outcome {
    let flows: Vec<_> = controllers.into_iter().map(Flow::new).collect();
    let count = flows.len();
    let end = Instant::ZERO + time;
    let mut simulation = Simulation {
        path,
        flows,
        events: BinaryHeap::new(),
        order: 0,
        dice: Jitter::new(path.seed),
        free_at: Instant::ZERO,
        measured_from: Instant::ZERO + path.change.map_or(time / 4, |(at, _)| at + time / 20),
        tally: Tally { delivered: vec![0; count], ..Tally::default() },
    };
    let apart = time / u32::try_from(4 * count).unwrap().max(20);
    for index in 0..count {
        let start = Instant::ZERO + apart * u32::try_from(index).unwrap();
        simulation.flows[index].wake = start;
        simulation.push(start, index, Event::Send);
    }
    simulation.drive(end);
    simulation.outcome(end)
}

impl Flow {
    fn new(congestion: Box<dyn Controller>) -> Self {
        Self {
            congestion,
            pacer: Pacer::new(Instant::ZERO),
            rtt: Rtt::new(Duration::from_millis(250), Duration::from_millis(1), Duration::from_secs(4)),
            estimator: Estimator::new(),
            flying: BTreeMap::new(),
            next: 0,
            is_limited: false,
            timer: Instant::MAX,
            wake: Instant::MAX,
        }
    }

    fn in_flight(&self) -> u32 {
        u32::try_from(self.flying.len()).unwrap()
    }

    /// Takes packets before `id` for lost.
    fn lose_before(&mut self, now: Instant, id: u64, is_timeout: bool) {
        let kept = self.flying.split_off(&id);
        let lost = std::mem::replace(&mut self.flying, kept);
        let Some(largest_sent_at) = lost.values().map(|stamp| stamp.sent_at).max() else { return };
        let lost = u32::try_from(lost.len()).unwrap();
        let in_flight = self.in_flight();
        self.congestion.handle_loss(&Loss { now, lost, in_flight, largest_sent_at, is_timeout });
    }

    fn handle_ack(&mut self, now: Instant, id: u64, is_marked: bool) {
        let Some(stamp) = self.flying.remove(&id) else { return };
        let sample = now - stamp.sent_at;
        self.rtt.sample(now, sample);
        self.estimator.handle_acked(now, &stamp);
        let min_rtt = self.rtt.min_rtt();
        self.congestion.handle_ack(&Ack {
            now,
            newly_acked: 1,
            in_flight: self.in_flight(),
            sent_at: stamp.sent_at,
            rtt: Some(sample),
            min_rtt,
            srtt: self.rtt.srtt(),
            delivery: self.estimator.take_sample(min_rtt),
            is_window_limited: std::mem::take(&mut self.is_limited),
        });
        if is_marked {
            self.congestion.handle_ecn(now, stamp.sent_at);
        }
        self.lose_before(now, id.saturating_sub(2), false);
        self.timer = now + self.rtt.rto();
    }

    /// Whether a packet may leave; if the pacer holds it back, when it is to ask again.
    fn may_send(&mut self, now: Instant) -> Result<(), Option<Instant>> {
        if self.in_flight() >= self.congestion.window() {
            self.is_limited = true;
            return Err(None);
        }
        let Some(rate) = self.congestion.pacing_rate() else { return Ok(()) };
        self.pacer.poll(now, rate).map(|_| ()).map_err(|due| {
            self.is_limited = true;
            Some(due)
        })
    }

    fn send(&mut self, now: Instant) -> u64 {
        let stamp = self.estimator.stamp(now, self.in_flight());
        if self.flying.is_empty() {
            self.timer = now + self.rtt.rto();
        }
        let id = self.next;
        self.next += 1;
        self.flying.insert(id, stamp);
        self.pacer.sent(1);
        self.congestion.handle_sent(now, self.in_flight(), false);
        id
    }
}

impl Simulation {
    fn push(&mut self, at: Instant, flow: usize, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, flow, event)));
    }

    fn drive(&mut self, end: Instant) {
        while let Some(Reverse((now, _, index, event))) = self.events.pop() {
            if now > end {
                return;
            }
            if now >= Instant::ZERO + self.path.change.map_or(Duration::MAX, |(at, _)| at) {
                self.path.rate = self.path.change.take().map_or(self.path.rate, |(_, rate)| rate);
            }
            let flow = &mut self.flows[index];
            match event {
                Event::Ack { id, is_marked } => {
                    flow.handle_ack(now, id, is_marked);
                    self.tally.delivered[index] += u64::from(now >= self.measured_from);
                }
                Event::Send if flow.wake == now => flow.wake = Instant::MAX,
                Event::Timeout if flow.timer <= now => self.time_out(now, index),
                Event::Timeout if !flow.flying.is_empty() => {
                    let timer = flow.timer;
                    self.push(timer, index, Event::Timeout);
                    continue;
                }
                Event::Send | Event::Timeout => continue,
            }
            self.send_all(now, index);
        }
    }

    fn time_out(&mut self, now: Instant, index: usize) {
        let flow = &mut self.flows[index];
        self.tally.timeouts += u32::from(now >= self.measured_from);
        flow.lose_before(now, u64::MAX, true);
        flow.rtt.back_off();
    }

    fn send_all(&mut self, now: Instant, index: usize) {
        loop {
            let flow = &mut self.flows[index];
            match flow.may_send(now) {
                Ok(()) => {
                    let is_first = flow.flying.is_empty();
                    let id = flow.send(now);
                    let timer = flow.timer;
                    if is_first {
                        self.push(timer, index, Event::Timeout);
                    }
                    self.carry(now, index, id);
                }
                Err(Some(due)) if due < flow.wake => {
                    flow.wake = due;
                    return self.push(due, index, Event::Send);
                }
                Err(_) => return,
            }
        }
    }

    /// One packet through the bottleneck; its acknowledgement comes a round trip after it leaves the queue.
    fn carry(&mut self, now: Instant, index: usize, id: u64) {
        let path = self.path;
        let waiting = self.free_at - now;
        let queue = u32::try_from(waiting.as_nanos() * u128::from(path.rate) / 1_000_000_000).unwrap();
        let is_counted = now >= self.measured_from;
        if is_counted {
            self.tally.offered += 1;
            self.tally.queue_sum += u64::from(queue);
            self.tally.queue_max = self.tally.queue_max.max(queue);
        }
        if queue >= path.buffer {
            self.tally.dropped += u64::from(is_counted);
            return;
        }
        self.free_at = self.free_at.max(now) + Duration::from_nanos(1_000_000_000 / path.rate);
        if self.dice.next() % 1_000 < path.loss_per_mille {
            return;
        }
        let is_marked = path.mark_above.is_some_and(|above| queue >= above);
        let mut heard_at = self.free_at + path.rtt;
        if let Ok(clump @ 1..) = u64::try_from(path.clump.as_nanos()) {
            heard_at = Instant::from_nanos(heard_at.as_nanos().div_ceil(clump) * clump);
        }
        self.push(heard_at, index, Event::Ack { id, is_marked });
    }

    fn outcome(self, end: Instant) -> Outcome {
        let Tally { delivered, offered, dropped, queue_sum, queue_max, timeouts } = self.tally;
        let could = self.path.rate as f64 * (end - self.measured_from).as_secs_f64();
        Outcome {
            utilisation: delivered.iter().sum::<u64>() as f64 / could,
            queue_mean: queue_sum as f64 / offered as f64,
            queue_max,
            dropped: dropped as f64 / offered as f64,
            timeouts,
            flows: delivered,
        }
    }
}
