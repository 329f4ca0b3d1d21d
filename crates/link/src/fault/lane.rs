//! One direction of a disturbed link: what happens to a packet, and the packets that wait.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::net::SocketAddr;

use bytes::BytesMut;
use weft_base::Instant;

use super::random::Random;
use super::settings::Faults;

/// Packets that wait in one direction; more are lost and counted.
pub const WAITING_PACKETS: usize = 65_536;
/// Bits that are inverted in a corrupted packet, at most.
const BITS_MAX: u64 = 8;

/// What became of the packets of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultCounts {
    /// Packets that came to the lane.
    pub packets: u64,
    /// Packets lost each on its own.
    pub lost: u64,
    /// Packets lost in bursts.
    pub lost_in_bursts: u64,
    /// Packets that were given twice.
    pub duplicated: u64,
    /// Packets held back so that others overtake them.
    pub reordered: u64,
    /// Packets that waited because of delay or jitter, copies included.
    pub delayed: u64,
    /// Packets with inverted bits.
    pub corrupted: u64,
    /// Packets without their end.
    pub truncated: u64,
    /// Packets, or copies, lost because too many waited.
    pub overflowed: u64,
}

/// A packet in one piece, and its peer: target or source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Parcel {
    pub(super) peer: SocketAddr,
    pub(super) bytes: BytesMut,
    pub(super) may_fragment: bool,
}

/// What happens to one packet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Fate {
    is_lost: bool,
    is_doubled: bool,
    /// Bytes that are left.
    cut_to: Option<usize>,
    /// Bits to invert, counted from the start of the packet.
    flips: Vec<u64>,
    /// How many packets overtake it.
    behind: Option<u64>,
    /// How long it is under way, for itself and for its copy.
    delays_ns: [u64; 2],
}

impl Fate {
    /// Whether nothing happens to the packet.
    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// One direction of a disturbed link.
pub(super) struct Lane {
    faults: Faults,
    random: Random,
    /// Whether a burst of losses is going on.
    is_bad: bool,
    /// Packets under way, the next one due on top.
    delayed: BinaryHeap<Reverse<Waiting>>,
    /// Packets that wait to be overtaken.
    held: Vec<Held>,
    /// Numbers the packets that are delayed, so that those due together keep their order.
    next_number: u64,
    counts: FaultCounts,
}

struct Waiting {
    due: Instant,
    number: u64,
    parcel: Parcel,
}

struct Held {
    /// Goes when the count of packets reaches this.
    at_packet: u64,
    /// Or at this time.
    by: Instant,
    /// How long it is under way from then on.
    delay_ns: u64,
    parcel: Parcel,
}

impl Lane {
    pub(super) fn new(seed: u64, faults: Faults) -> Self {
        Self {
            faults,
            random: Random::new(seed),
            is_bad: false,
            delayed: BinaryHeap::new(),
            held: Vec::new(),
            next_number: 0,
            counts: FaultCounts::default(),
        }
    }

    pub(super) fn set(&mut self, faults: Faults) {
        self.faults = faults;
    }

    pub(super) fn counts(&self) -> FaultCounts {
        self.counts
    }

    /// Decides what happens to the next packet, of `len` bytes, and counts it.
    pub(super) fn judge(&mut self, len: usize) -> Fate {
        let (faults, random, counts) = (&self.faults, &mut self.random, &mut self.counts);
        counts.packets += 1;
        let mut fate = Fate::default();
        if let Some(burst) = faults.burst {
            let turns = random.happens(if self.is_bad { burst.ends } else { burst.starts });
            self.is_bad ^= turns;
            fate.is_lost = self.is_bad && random.happens(burst.loss);
            counts.lost_in_bursts += u64::from(fate.is_lost);
        }
        if !fate.is_lost && random.happens(faults.loss) {
            fate.is_lost = true;
            counts.lost += 1;
        }
        if fate.is_lost {
            return fate;
        }
        fate.is_doubled = random.happens(faults.duplicate);
        if len > 0 && random.happens(faults.truncate) {
            fate.cut_to = usize::try_from(random.below(len as u64)).ok();
        }
        if len > 0 && random.happens(faults.corrupt) {
            let bits = 1 + random.below(BITS_MAX);
            fate.flips = (0..bits).map(|_| random.below(len as u64 * 8)).collect();
        }
        if random.happens(faults.reorder) {
            fate.behind = Some(1 + random.below(faults.displacement.max(1).into()));
        }
        fate.delays_ns = [Self::delay_ns(faults, random), Self::delay_ns(faults, random)];
        counts.duplicated += u64::from(fate.is_doubled);
        counts.truncated += u64::from(fate.cut_to.is_some());
        counts.corrupted += u64::from(!fate.flips.is_empty());
        counts.reordered += u64::from(fate.behind.is_some());
        fate
    }

    fn delay_ns(faults: &Faults, random: &mut Random) -> u64 {
        let nanos =
            |duration: std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 2);
        let jitter = nanos(faults.jitter);
        nanos(faults.delay) + if jitter > 0 { random.below(jitter) } else { 0 }
    }

    /// Carries out `fate`: what passes now goes to `out`, behind what it overtakes nothing of.
    pub(super) fn admit(&mut self, now: Instant, parcel: Parcel, fate: &Fate, mut out: impl FnMut(Parcel)) {
        if !fate.is_lost {
            let parcel = damaged(parcel, fate);
            if fate.is_doubled {
                self.carry(now, fate.delays_ns[1], parcel.clone(), &mut out);
            }
            match fate.behind {
                Some(behind) => self.hold(now, behind, fate.delays_ns[0], parcel),
                None => self.carry(now, fate.delays_ns[0], parcel, &mut out),
            }
        }
        self.release_passed(now, out);
    }

    fn carry(&mut self, now: Instant, delay_ns: u64, parcel: Parcel, out: &mut impl FnMut(Parcel)) {
        if delay_ns == 0 {
            return out(parcel);
        }
        if self.delayed.len() >= WAITING_PACKETS {
            self.counts.overflowed += 1;
            return;
        }
        self.counts.delayed += 1;
        let due = now + std::time::Duration::from_nanos(delay_ns);
        self.delayed.push(Reverse(Waiting { due, number: self.next_number, parcel }));
        self.next_number += 1;
    }

    fn hold(&mut self, now: Instant, behind: u64, delay_ns: u64, parcel: Parcel) {
        if self.held.len() >= WAITING_PACKETS {
            self.counts.overflowed += 1;
            return;
        }
        let (at_packet, by) = (self.counts.packets + behind, now + self.faults.hold);
        self.held.push(Held { at_packet, by, delay_ns, parcel });
    }

    /// Lets the held packets go that enough others have overtaken, behind those; `out` gets what is not delayed.
    pub(super) fn release_passed(&mut self, now: Instant, out: impl FnMut(Parcel)) {
        let packets = self.counts.packets;
        self.release(now, |held| held.at_packet <= packets, out);
    }

    fn release(&mut self, now: Instant, goes: impl FnMut(&mut Held) -> bool, mut out: impl FnMut(Parcel)) {
        let gone: Vec<Held> = self.held.extract_if(.., goes).collect();
        for held in gone {
            self.carry(now.min(held.by), held.delay_ns, held.parcel, &mut out);
        }
    }

    /// Gives `out` at most `most` packets whose time has come.
    pub(super) fn release_due(&mut self, now: Instant, mut most: usize, mut out: impl FnMut(Parcel)) {
        let goes = |held: &mut Held| {
            let goes = held.by <= now && most > 0;
            most -= usize::from(goes && held.delay_ns == 0);
            goes
        };
        self.release(now, goes, &mut out);
        while most > 0
            && let Some(top) = self.delayed.peek_mut()
            && top.0.due <= now
        {
            out(std::collections::binary_heap::PeekMut::pop(top).0.parcel);
            most -= 1;
        }
    }

    /// When the next packet is due.
    pub(super) fn due(&self) -> Option<Instant> {
        let delayed = self.delayed.peek().map(|top| top.0.due);
        let held = self.held.iter().map(|held| held.by).min();
        [delayed, held].into_iter().flatten().min()
    }
}

fn damaged(mut parcel: Parcel, fate: &Fate) -> Parcel {
    for &bit in &fate.flips {
        let at = usize::try_from(bit / 8).unwrap_or(usize::MAX);
        if let Some(byte) = parcel.bytes.get_mut(at) {
            *byte ^= 1 << (bit % 8);
        }
    }
    parcel.bytes.truncate(fate.cut_to.unwrap_or(usize::MAX));
    parcel
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}
