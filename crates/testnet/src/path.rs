//! One direction between two nodes: what it costs, and every way in which it can go wrong.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use weft_base::Instant;
use weft_des::Random;

use crate::damage::{self, Damage};

/// What one direction does to packets. Probabilities are per packet, 0.0 to 1.0.
#[derive(Clone, Debug, PartialEq)]
pub struct PathSettings {
    /// Time on the way, always spent.
    pub delay: Duration,
    /// Up to so much more, drawn per packet; packets overtake one another only by [`Self::reorder`].
    pub jitter: Duration,
    /// Bytes carried in a second.
    pub rate_bytes_per_s: u64,
    /// Bytes that wait for their turn before packets are dropped at the tail.
    pub queue_bytes: u64,
    /// Random loss.
    pub loss: f64,
    /// Chance to enter a burst in which every packet is lost (Gilbert and Elliott's bad state).
    pub burst_enter: f64,
    /// Chance to leave it, tried at each packet lost.
    pub burst_leave: f64,
    /// A second copy.
    pub duplicate: f64,
    /// One of the last [`HISTORY`] packets once more, however old.
    pub replay: f64,
    /// Held back by up to [`Self::reorder_by`], so that later ones overtake it.
    pub reorder: f64,
    /// Longest hold.
    pub reorder_by: Duration,
    /// Bits, bytes or the length changed.
    pub damage: f64,
    /// The mark CE, as a forwarder with a long queue sets it.
    pub mark: f64,
    /// Longest packet carried, header included; longer ones only if they may be cut into fragments.
    pub mtu_bytes: usize,
}

/// Packets remembered for replay.
pub const HISTORY: usize = 64;

impl PathSettings {
    /// A path without faults.
    #[must_use]
    pub fn clean(delay: Duration, rate_bytes_per_s: u64) -> Self {
        Self {
            delay,
            jitter: Duration::ZERO,
            rate_bytes_per_s,
            queue_bytes: 1 << 30,
            loss: 0.0,
            burst_enter: 0.0,
            burst_leave: 1.0,
            duplicate: 0.0,
            replay: 0.0,
            reorder: 0.0,
            reorder_by: Duration::ZERO,
            damage: 0.0,
            mark: 0.0,
            mtu_bytes: 65_535,
        }
    }

    /// This path once its faults have stopped; it keeps its delay, its rate and its queue.
    #[must_use]
    pub fn healed(&self) -> Self {
        Self { queue_bytes: self.queue_bytes, ..Self::clean(self.delay, self.rate_bytes_per_s) }
    }
}

/// How often each thing happened. `offered + doubled + replayed = carried + ` the losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounts {
    /// Packets given to the path.
    pub offered: u64,
    /// Packets that will arrive, copies included.
    pub carried: u64,
    /// Lost at random.
    pub lost: u64,
    /// Lost in a burst.
    pub lost_in_burst: u64,
    /// Swallowed by a black hole.
    pub black: u64,
    /// Longer than the MTU.
    pub too_long: u64,
    /// Dropped at the tail of the queue.
    pub overflowed: u64,
    /// Second copies made.
    pub doubled: u64,
    /// Old packets sent again.
    pub replayed: u64,
    /// Packets held back.
    pub reordered: u64,
    /// Packets changed on the way.
    pub damaged: u64,
    /// Packets marked CE.
    pub marked: u64,
}

impl PathCounts {
    /// Adds another path's counts.
    pub fn merge(&mut self, other: &Self) {
        self.offered += other.offered;
        self.carried += other.carried;
        self.lost += other.lost;
        self.lost_in_burst += other.lost_in_burst;
        self.black += other.black;
        self.too_long += other.too_long;
        self.overflowed += other.overflowed;
        self.doubled += other.doubled;
        self.replayed += other.replayed;
        self.reordered += other.reordered;
        self.damaged += other.damaged;
        self.marked += other.marked;
    }

    /// Packets that did not get through.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.lost + self.lost_in_burst + self.black + self.too_long + self.overflowed
    }

    /// Whether every packet is accounted for (I11, for the network itself).
    #[must_use]
    pub fn add_up(&self) -> bool {
        self.offered + self.doubled + self.replayed == self.carried + self.dropped()
    }
}

/// A packet as it goes in.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Its bytes.
    pub bytes: Bytes,
    /// Whether the underlay may cut it into fragments and join it again.
    pub may_fragment: bool,
    /// The sender's name for this transmission; every copy carries it.
    pub tag: usize,
}

/// A packet that will come out at the far end.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// When.
    pub at: Instant,
    /// Its bytes as they will be then.
    pub bytes: Bytes,
    /// The tag of the frame that it is a copy of.
    pub tag: usize,
    /// Whether they differ from what was sent in more than the bits that forwarders may change.
    pub is_damaged: bool,
}

/// One direction between two nodes.
#[derive(Clone, Debug)]
pub struct Path {
    settings: PathSettings,
    random: Random,
    busy_until: Instant,
    last_arrival: Instant,
    is_in_burst: bool,
    is_black: bool,
    extra_delay: Duration,
    history: VecDeque<Frame>,
    counts: PathCounts,
}

impl Path {
    /// A path of these settings with its own randomness.
    #[must_use]
    pub fn new(settings: PathSettings, random: Random) -> Self {
        Self {
            settings,
            random,
            busy_until: Instant::ZERO,
            last_arrival: Instant::ZERO,
            is_in_burst: false,
            is_black: false,
            extra_delay: Duration::ZERO,
            history: VecDeque::new(),
            counts: PathCounts::default(),
        }
    }

    /// What it does.
    #[must_use]
    pub fn settings(&self) -> &PathSettings {
        &self.settings
    }

    /// What it did.
    #[must_use]
    pub fn counts(&self) -> &PathCounts {
        &self.counts
    }

    /// Begins or ends a black hole, in which nothing comes out.
    pub fn set_black(&mut self, is_black: bool) {
        self.is_black = is_black;
    }

    /// Adds a delay from now on: a spike, or a longer way.
    pub fn set_extra_delay(&mut self, extra: Duration) {
        self.extra_delay = extra;
    }

    /// Changes the longest packet.
    pub fn set_mtu(&mut self, mtu_bytes: usize) {
        self.settings.mtu_bytes = mtu_bytes;
    }

    /// Stops every fault for good.
    pub fn heal(&mut self) {
        self.settings = self.settings.healed();
        self.is_black = false;
        self.is_in_burst = false;
        self.extra_delay = Duration::ZERO;
    }

    /// Takes one packet and appends what will come out of it.
    pub fn carry(&mut self, now: Instant, frame: &Frame, out: &mut Vec<Arrival>) {
        self.counts.offered += 1;
        if self.settings.replay > 0.0 {
            self.replay(now, out);
            if self.history.len() == HISTORY {
                self.history.pop_front();
            }
            self.history.push_back(frame.clone());
        }
        if self.is_swallowed(frame.bytes.len(), frame.may_fragment) {
            return;
        }
        let Some(departs) = self.departure(now, frame.bytes.len()) else { return };
        self.arrive(departs, frame, out);
        if self.settings.duplicate > 0.0 && self.random.chance(self.settings.duplicate) {
            self.counts.doubled += 1;
            self.arrive(departs, frame, out);
        }
    }

    fn replay(&mut self, now: Instant, out: &mut Vec<Arrival>) {
        if self.history.is_empty() || self.is_black || !self.random.chance(self.settings.replay) {
            return;
        }
        let old = self.history[self.random.index(self.history.len())].clone();
        self.counts.replayed += 1;
        self.arrive(now, &old, out);
    }

    fn is_swallowed(&mut self, len: usize, may_fragment: bool) -> bool {
        if self.is_black {
            self.counts.black += 1;
            return true;
        }
        if len > self.settings.mtu_bytes && !may_fragment {
            self.counts.too_long += 1;
            return true;
        }
        let turn = if self.is_in_burst { self.settings.burst_leave } else { self.settings.burst_enter };
        if self.settings.burst_enter > 0.0 && self.random.chance(turn) {
            self.is_in_burst = !self.is_in_burst;
        }
        if self.is_in_burst {
            self.counts.lost_in_burst += 1;
            return true;
        }
        if self.settings.loss > 0.0 && self.random.chance(self.settings.loss) {
            self.counts.lost += 1;
            return true;
        }
        false
    }

    /// When the last bit has left, or `None` if the queue is full.
    fn departure(&mut self, now: Instant, len: usize) -> Option<Instant> {
        let begins = self.busy_until.max(now);
        let waiting_bytes =
            (begins - now).as_nanos() * u128::from(self.settings.rate_bytes_per_s) / 1_000_000_000;
        if waiting_bytes > u128::from(self.settings.queue_bytes) {
            self.counts.overflowed += 1;
            return None;
        }
        let takes = len as u64 * 1_000_000_000 / self.settings.rate_bytes_per_s.max(1);
        self.busy_until = begins + Duration::from_nanos(takes);
        Some(self.busy_until)
    }

    fn arrive(&mut self, departs: Instant, frame: &Frame, out: &mut Vec<Arrival>) {
        self.counts.carried += 1;
        let mut at = departs + self.settings.delay + self.extra_delay;
        if self.settings.jitter > Duration::ZERO {
            at += self.random.duration(Duration::ZERO..self.settings.jitter);
        }
        at = at.max(self.last_arrival);
        if self.settings.reorder > 0.0 && self.random.chance(self.settings.reorder) {
            self.counts.reordered += 1;
            at += self.random.duration(Duration::ZERO..self.settings.reorder_by);
        } else {
            self.last_arrival = at;
        }
        out.push(self.disturb(at, frame));
    }

    fn disturb(&mut self, at: Instant, frame: &Frame) -> Arrival {
        let mut arrival = Arrival { at, bytes: frame.bytes.clone(), tag: frame.tag, is_damaged: false };
        if self.settings.damage > 0.0 && self.random.chance(self.settings.damage) {
            let damage = Damage::draw(&mut self.random, frame.bytes.len());
            self.counts.damaged += 1;
            arrival.bytes = damage::apply(&damage, &frame.bytes);
            arrival.is_damaged = true;
        } else if self.settings.mark > 0.0 && self.random.chance(self.settings.mark) {
            self.counts.marked += 1;
            arrival.bytes = damage::marked(&frame.bytes);
        }
        arrival
    }
}

#[cfg(test)]
mod tests;
