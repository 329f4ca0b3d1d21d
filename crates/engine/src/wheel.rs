//! Timers in a hierarchical wheel: constant time to set, move and cancel, whatever their number.
//!
//! Time is cut into ticks of 2^16 ns (65.5 µs). A due time is rounded up to a tick, so nothing fires early, and
//! fires late by less than a tick (plus the delay of whoever calls [`TimerWheel::advance`]).
//!
//! Algorithm: eight levels of 64 slots; a slot of level 0 is one tick, of level n 64 times a slot of level n − 1.
//! Together they count all 48 bits of ticks that an [`Instant`] has, so there is no list for what is too far off. A
//! timer lies at the level of the highest 6-bit digit in which its tick differs from the current tick, in the slot of
//! that digit. All digits above agree, so in each level the occupied slots lie ahead of the current one, and every
//! timer of a level is due before any of a higher level: the next slot is the lowest bit of the lowest occupied
//! level. When a slot of a higher level begins, its timers move down, at most seven times in a timer's life.
//!
//! Re-arming is lazy. A timer that moves to later stays where it lies and keeps its new tick; when its slot comes up
//! it is put where it belongs. So a retransmission timer that every acknowledgement puts off costs one store each.
//!
//! Memory: 2 KiB, and one entry per timer that is set; re-arming adds none. Who sets one timer per connection
//! has as many entries as the table has connections. Entries are reused and not given back.

use weft_base::Instant;

const TICK_BITS: u32 = 16;
const DIGIT_BITS: usize = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = 8;
/// The last tick, which also stands for "never".
const LAST_TICK: u64 = u64::MAX >> TICK_BITS;
const _: () = assert!(LAST_TICK.count_ones() as usize == LEVELS * DIGIT_BITS);

/// Place of timers that are due already; the places before it are `level * SLOTS + slot`.
const LATE: usize = LEVELS * SLOTS;
/// No entry: the end of a list.
const NONE: u32 = u32::MAX;

/// Timers that each carry a value, to be handed back when it is due.
///
/// ```
/// use std::time::Duration;
/// use weft_base::Instant;
/// use weft_engine::wheel::TimerWheel;
///
/// let start = Instant::ZERO;
/// let mut wheel = TimerWheel::new(start);
/// let probe = wheel.schedule("probe", start + Duration::from_millis(10));
/// wheel.schedule("keep-alive", start + Duration::from_secs(7_200));
/// assert!(wheel.reschedule(probe, start + Duration::from_millis(15)));
///
/// let mut fired = Vec::new();
/// wheel.advance(start + Duration::from_millis(14), |name| fired.push(name));
/// assert!(fired.is_empty());
/// wheel.advance(start + Duration::from_millis(16), |name| fired.push(name));
/// assert_eq!(fired, ["probe"]);
/// ```
#[derive(Debug)]
pub struct TimerWheel<T> {
    /// The current tick. What was due by it has been handed back, or is in the list `LATE`.
    tick: u64,
    /// The slots of each level that hold something, as bits.
    occupied: [u64; LEVELS],
    /// First entry of each place.
    heads: [u32; LATE + 1],
    entries: Vec<Entry<T>>,
    free: u32,
    len: usize,
}

/// The name of a timer from [`TimerWheel::schedule`] on; it ends when the timer fires or is cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Timer {
    index: u32,
    generation: u32,
}

#[derive(Debug)]
struct Entry<T> {
    /// `None` while the entry is free.
    value: Option<T>,
    /// When it is due; its place may come up earlier.
    due_tick: u64,
    generation: u32,
    /// Of the list it lies in.
    place: u16,
    prev: u32,
    next: u32,
}

impl<T> TimerWheel<T> {
    /// Longest time by which a timer fires late, and the grain of [`TimerWheel::next_due`], in nanoseconds.
    pub const TICK_NS: u64 = 1 << TICK_BITS;

    /// An empty wheel at the time `now`.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            tick: now.as_nanos() >> TICK_BITS,
            occupied: [0; LEVELS],
            heads: [NONE; LATE + 1],
            entries: Vec::new(),
            free: NONE,
            len: 0,
        }
    }

    /// Timers that are set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no timer is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets a timer: `value` comes back from the first [`TimerWheel::advance`] to `due` or later. A time that has
    /// passed is due at once.
    ///
    /// # Panics
    ///
    /// With more than 2^32 − 2 timers.
    pub fn schedule(&mut self, value: T, due: Instant) -> Timer {
        let index = self.take_entry();
        let due_tick = tick_of(due);
        let entry = &mut self.entries[index as usize];
        entry.value = Some(value);
        entry.due_tick = due_tick;
        let generation = entry.generation;
        self.link(index);
        self.len += 1;
        Timer { index, generation }
    }

    /// Moves a timer to `due`, earlier or later. False if it has fired or was cancelled, and so must be set anew.
    pub fn reschedule(&mut self, timer: Timer, due: Instant) -> bool {
        let due_tick = tick_of(due);
        let Some(entry) = self.entry_mut(timer) else { return false };
        let is_later = due_tick >= entry.due_tick;
        entry.due_tick = due_tick;
        if !is_later {
            self.unlink(timer.index);
            self.link(timer.index);
        }
        true
    }

    /// Takes a timer back with its value; `None` if it has fired or was cancelled.
    pub fn cancel(&mut self, timer: Timer) -> Option<T> {
        self.entry_mut(timer)?;
        self.unlink(timer.index);
        self.release_entry(timer.index)
    }

    /// Hands the values of all timers that are due by `now` to `expired`, in no promised order. Time does not go back:
    /// an earlier `now` than before hands over only what was set too late.
    pub fn advance(&mut self, now: Instant, mut expired: impl FnMut(T)) {
        let target = now.as_nanos() >> TICK_BITS;
        loop {
            self.settle(LATE, &mut expired);
            match self.next_slot() {
                Some((place, start)) if start <= target => {
                    self.tick = start;
                    self.settle(place, &mut expired);
                }
                _ => break,
            }
        }
        self.tick = self.tick.max(target);
    }

    /// When to call [`TimerWheel::advance`] next; `None` if no timer is set.
    ///
    /// Never later than the earliest timer. It may be earlier (a slot of a higher level begins, or a timer was put
    /// off): then the call hands over nothing and the next answer is nearer. A timer causes at most eight such calls,
    /// and one more for each time it was put off and its old slot came up.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        let tick = if self.heads[LATE] == NONE { self.next_slot()?.1 } else { self.tick };
        Some(Instant::from_nanos(tick << TICK_BITS))
    }

    /// The timer that is due first and when, rounded up to a tick. Those put off that lay before it are moved to where they belong, so
    /// that [`TimerWheel::next_due`] does not tell of their old places any more. `None` without a timer, and where more than `most` were
    /// to be looked at.
    pub fn first(&mut self, most: usize) -> Option<(Timer, Instant, &T)> {
        let (mut left, mut first) = (most, NONE);
        while first == NONE {
            let place = if self.heads[LATE] == NONE { self.next_slot()?.0 } else { LATE };
            let mut next = self.heads[place];
            while next != NONE {
                left = left.checked_sub(1)?;
                let index = next;
                let Entry { due_tick, next: behind, .. } = self.entries[index as usize];
                next = behind;
                if self.place_of(due_tick) != place {
                    self.unlink(index);
                    self.link(index);
                } else if self.entries.get(first as usize).is_none_or(|first| due_tick < first.due_tick) {
                    first = index;
                }
            }
        }
        let entry = &self.entries[first as usize];
        let timer = Timer { index: first, generation: entry.generation };
        Some((timer, Instant::from_nanos(entry.due_tick << TICK_BITS), entry.value.as_ref()?))
    }

    /// The occupied place that begins next, and the tick at which it begins.
    fn next_slot(&self) -> Option<(usize, u64)> {
        let level = self.occupied.iter().position(|&slots| slots != 0)?;
        let slot = self.occupied[level].trailing_zeros();
        let shift = level * DIGIT_BITS;
        let digits_above = self.tick >> shift >> DIGIT_BITS << DIGIT_BITS << shift;
        Some((level * SLOTS + slot as usize, digits_above | u64::from(slot) << shift))
    }

    /// Empties a place whose time has come: hands over what is due, and puts the rest where it belongs.
    fn settle(&mut self, place: usize, expired: &mut impl FnMut(T)) {
        let mut next = std::mem::replace(&mut self.heads[place], NONE);
        if place < LATE {
            self.occupied[place / SLOTS] &= !(1 << (place % SLOTS));
        }
        while next != NONE {
            let index = next;
            let entry = &self.entries[index as usize];
            next = entry.next;
            if entry.due_tick > self.tick {
                self.link(index);
            } else if let Some(value) = self.release_entry(index) {
                expired(value);
            }
        }
    }

    /// Where a timer belongs that is due at `due_tick`.
    fn place_of(&self, due_tick: u64) -> usize {
        if due_tick <= self.tick {
            return LATE;
        }
        let level = (due_tick ^ self.tick).ilog2() as usize / DIGIT_BITS;
        #[allow(clippy::cast_possible_truncation)] // the remainder is below SLOTS
        let slot = (due_tick >> (level * DIGIT_BITS)) as usize % SLOTS;
        level * SLOTS + slot
    }

    /// Puts an entry first into the list of the place where its tick belongs.
    fn link(&mut self, index: u32) {
        let place = self.place_of(self.entries[index as usize].due_tick);
        if place < LATE {
            self.occupied[place / SLOTS] |= 1 << (place % SLOTS);
        }
        let next = std::mem::replace(&mut self.heads[place], index);
        let entry = &mut self.entries[index as usize];
        (entry.place, entry.prev, entry.next) = (short(place), NONE, next);
        if let Some(next) = self.entries.get_mut(next as usize) {
            next.prev = index;
        }
    }

    /// Takes an entry out of its list.
    fn unlink(&mut self, index: u32) {
        let Entry { place, prev, next, .. } = self.entries[index as usize];
        if let Some(next) = self.entries.get_mut(next as usize) {
            next.prev = prev;
        }
        if let Some(prev) = self.entries.get_mut(prev as usize) {
            prev.next = next;
            return;
        }
        let place = usize::from(place);
        self.heads[place] = next;
        if next == NONE && place < LATE {
            self.occupied[place / SLOTS] &= !(1 << (place % SLOTS));
        }
    }

    fn entry_mut(&mut self, timer: Timer) -> Option<&mut Entry<T>> {
        let entry = self.entries.get_mut(timer.index as usize)?;
        (entry.generation == timer.generation && entry.value.is_some()).then_some(entry)
    }

    /// A free entry, or a new one.
    fn take_entry(&mut self) -> u32 {
        if let Some(entry) = self.entries.get(self.free as usize) {
            return std::mem::replace(&mut self.free, entry.next);
        }
        let index = u32::try_from(self.entries.len()).ok().filter(|&index| index != NONE);
        let index = index.expect("fewer than 2^32 - 1 timers");
        self.entries.push(Entry {
            value: None,
            due_tick: 0,
            generation: 0,
            place: short(LATE),
            prev: NONE,
            next: NONE,
        });
        index
    }

    /// Frees an entry that is in no list, which ends the timer's name.
    fn release_entry(&mut self, index: u32) -> Option<T> {
        let entry = &mut self.entries[index as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = std::mem::replace(&mut self.free, index);
        self.len -= 1;
        entry.value.take()
    }
}

/// A place as an entry keeps it.
#[allow(clippy::cast_possible_truncation)] // places end with LATE
fn short(place: usize) -> u16 {
    const { assert!(LATE <= u16::MAX as usize) };
    place as u16
}

/// The first tick that is not before `due`.
fn tick_of(due: Instant) -> u64 {
    due.as_nanos().div_ceil(1 << TICK_BITS).min(LAST_TICK)
}

#[cfg(test)]
mod tests;
