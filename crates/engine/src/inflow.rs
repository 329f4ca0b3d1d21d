//! Whether so much comes in that who receives it does better to sleep between two batches than to poll for each packet.
//!
//! A receiver that polls keeps its processor busy, acknowledges every few packets, and is ahead of a bulk sender for nothing.
//! So while a port is *flooded*, a thread that finds nothing dozes, and takes what came in one turn.
//! Where the packets come one by one, it dozes before it looks (decision 0040).
//!
//! Each doze costs some microseconds of two processors, that of the timer and an acknowledgement's. So it is as long as what comes
//! meanwhile stays in the second cache and in the kernel's buffer, from [`doze::DOZE_MIN`] to [`doze::DOZE_MAX`] (decisions 0042, 0049).
//!
//! A doze costs its length in latency, so it must not matter: a port is flooded when more than [`FLOOD_PER_MS`] packets came in each
//! millisecond of the last window, of less than [`LARGE_BYTES`] in the mean (decision 0046), the kernel's buffer has room for what comes
//! in a doze (decision 0047), and no user thread sent anything in it that the peer might wait to answer. And a doze that finds less than
//! half of what would have come has held up a sender whose window is small, and one that ended more than [`LATE`] after its time was on
//! a processor that others want: after [`HARMFUL_MAX`] of these in a row there is none for [`PENANCE`].
//!
//! A stream may come more slowly than that, as the network is slower than the machine. Who waits for its bytes dozes as well then, for
//! longer where that does not hold up its sender (see `stretch`), and where no thread sleeps until something comes that may not be late
//! (decision 0099).
//!
//! Where full packets come one by one and nobody dozes, few are in flight: a turn takes [`EARLY_PACKETS`], so that they are acknowledged while the
//! next are taken, and twice as many as the last one while that left some (decision 0104).

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use weft_base::Instant;

use crate::counters::Tally;
use crate::port::TURN_PACKETS;

mod doze;
mod stretch;
mod urgent;

use doze::{DOZE_MIN, Rate};
pub(crate) use stretch::STREAM_DOZE_MAX;
use stretch::Stretch;

/// Bytes of a turn that takes large packets, or a flood of packets that come one by one: more would have left the second cache before
/// its reader copies the last of them (decision 0071).
const TURN_BYTES: u64 = 256 << 10;
/// The same of a flood of packets that the kernel joined (decision 0106).
const JOINED_BYTES: u64 = 384 << 10;
/// The fewest packets of such a turn.
const TURN_PACKETS_MIN: usize = 4;
/// Packets of a turn whose acknowledgement its sender is likely to wait for, unless the one before left some.
const EARLY_PACKETS: usize = 8;
/// How much later than asked for a doze may end before it is one too many.
const LATE: Duration = Duration::from_micros(200);
/// What is measured at a time.
const WINDOW: Duration = Duration::from_millis(1);
/// Packets in a millisecond from which on the port is flooded: 1.8 Gbit/s of full packets.
const FLOOD_PER_MS: u64 = 160;
/// The same where a stream is waited for: it is flooded slowly, from 60 Mbit/s on. What comes more seldom who waits sleeps until.
const STREAM_PER_MS: u64 = 5;
/// Bytes of a packet from which on it is likely to be one of a stream.
const FULL_BYTES: u64 = 1_200;
/// Bytes of a packet from which on few are in flight: their sender would wait for who dozes.
const LARGE_BYTES: u64 = 32 << 10;
/// How long after dozes that did harm there is no other one.
const PENANCE: Duration = Duration::from_millis(100);
/// So many one after the other were not by chance, as where the sender lost its processor for a moment.
const HARMFUL_MAX: u32 = 3;

/// What came in with one turn, or in one window.
#[derive(Clone, Copy, Default)]
pub(crate) struct Arrived {
    pub(crate) packets: u64,
    /// In how many pieces they came.
    pub(crate) pieces: u64,
    pub(crate) bytes: u64,
}

impl Arrived {
    #[inline]
    fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.pieces += other.pieces;
        self.bytes += other.bytes;
    }
}

/// What came in since; under the lock of the turn.
pub(crate) struct Window {
    since: Instant,
    arrived: Arrived,
    stretch: Stretch,
}

impl Window {
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, arrived: Arrived::default(), stretch: Stretch::new(now) }
    }
}

/// What kinds of floods there are at a port.
mod kinds {
    pub(super) const FLOOD: u32 = 1;
    /// Its packets came one by one: the kernel joined few.
    pub(super) const APART: u32 = 2;
    /// Who waits for bytes of a stream dozes as [`Stretch`](super::Stretch) has it.
    pub(super) const STRETCHED: u32 = 4;
    /// The port is flooded for him alone.
    pub(super) const SLOW: u32 = 8;
    /// There is none, and few packets are in flight.
    pub(super) const EARLY: u32 = 16;
}

/// What the last window told.
pub(crate) struct Inflow {
    /// Bytes of the kernel's buffer.
    buffer_bytes: AtomicU64,
    /// What is to be known of it at once, see [`kinds`].
    kinds: AtomicU32,
    /// The most packets of a millisecond since the port is flooded; 0 while it is not.
    flood_per_ms: AtomicU64,
    /// Threads that sleep until something comes that may not be late.
    urgent: AtomicU32,
    /// How long a doze is, in nanoseconds, and that of who waits for bytes of a stream.
    doze_ns: AtomicU64,
    stream_doze_ns: AtomicU64,
    /// Packets that a turn takes.
    turn_packets: AtomicUsize,
    /// Whether the last turn took as many, and may have left some.
    is_behind: AtomicBool,
    packets: Tally,
    /// When a user thread last sent something, in nanoseconds.
    sent_at: AtomicU64,
    /// Dozes in a row that did harm.
    harmful: AtomicU32,
    /// Until when nobody dozes, in nanoseconds.
    awake_until: AtomicU64,
}

impl Inflow {
    /// Of a link whose kernel's buffer has so many bytes.
    pub(crate) fn new(buffer_bytes: usize) -> Self {
        Self {
            buffer_bytes: AtomicU64::new(buffer_bytes as u64),
            kinds: AtomicU32::new(0),
            flood_per_ms: AtomicU64::new(0),
            urgent: AtomicU32::new(0),
            doze_ns: AtomicU64::new(nanos(DOZE_MIN)),
            stream_doze_ns: AtomicU64::new(nanos(DOZE_MIN)),
            turn_packets: AtomicUsize::new(TURN_PACKETS),
            is_behind: AtomicBool::new(false),
            packets: Tally::default(),
            sent_at: AtomicU64::new(0),
            harmful: AtomicU32::new(0),
            awake_until: AtomicU64::new(0),
        }
    }

    /// The kernel's buffer has so many bytes from now on.
    pub(crate) fn set_buffer_bytes(&self, bytes: usize) {
        self.buffer_bytes.store(bytes as u64, Ordering::Relaxed);
    }

    /// So much came in with the turn of `now`. Whether the kernel's buffer has room for so much, if that is known now.
    #[inline]
    pub(crate) fn note(&self, window: &mut Window, arrived: Arrived, now: Instant) -> Option<bool> {
        self.packets.add(arrived.packets);
        window.arrived.add(arrived);
        if now - window.since >= WINDOW { self.end_window(window, now) } else { None }
    }

    /// Whether the kernel's buffer was large enough for a doze; nothing where it just was, as the next window may say otherwise.
    fn end_window(&self, window: &mut Window, now: Instant) -> Option<bool> {
        let span = now - window.since;
        let Arrived { packets, pieces, bytes } = window.arrived;
        let packets_per_ms = per_ms(packets, span);
        let rate = Rate { packets_per_ms, bytes_per_ms: per_ms(bytes, span) };
        let buffer_bytes = self.buffer_bytes.load(Ordering::Relaxed);
        let has_room = rate.has_room(buffer_bytes);
        let is_large = bytes >= packets * LARGE_BYTES;
        let is_full = bytes >= packets * FULL_BYTES;
        let may_doze =
            !is_large && has_room && self.sent_at.load(Ordering::Relaxed) < window.since.as_nanos();
        let is_flood = may_doze
            && packets_per_ms >= FLOOD_PER_MS
            && span < 2 * WINDOW
            && self.awake_until.load(Ordering::Relaxed) < now.as_nanos();
        let is_stream =
            may_doze && packets_per_ms >= STREAM_PER_MS && is_full && span < 4 * WINDOW && !self.is_urgent();
        let most = window.stretch.note(bytes, span, now);
        let most = if is_stream { most } else { Duration::ZERO };
        // In its dozes comes as much as before, or they hold it up.
        let flood_per_ms = self.flood_per_ms.load(Ordering::Relaxed).max(packets_per_ms);
        self.flood_per_ms.store(if is_flood { flood_per_ms } else { 0 }, Ordering::Relaxed);
        let is_apart = pieces > packets / 2;
        let is_stretched = !most.is_zero();
        let is_early = may_doze && !is_flood && !is_stretched && is_apart && is_full;
        let kinds = [
            (kinds::FLOOD, is_flood),
            (kinds::APART, is_flood && is_apart),
            (kinds::STRETCHED, is_stretched),
            (kinds::SLOW, is_stretched && !is_flood),
            (kinds::EARLY, is_early),
        ];
        let kinds = kinds.iter().filter(|(_, is_there)| *is_there).fold(0, |all, (kind, _)| all | kind);
        self.kinds.store(kinds, Ordering::Relaxed);
        let is_short = is_large || is_flood && is_apart;
        let turn = if is_short {
            turn_packets_of(TURN_BYTES, packets, bytes)
        } else if is_flood {
            turn_packets_of(JOINED_BYTES, packets, bytes)
        } else if is_early {
            EARLY_PACKETS
        } else {
            TURN_PACKETS
        };
        self.turn_packets.store(turn, Ordering::Relaxed);
        let doze_ns = rate.doze_ns(buffer_bytes);
        self.doze_ns.store(doze_ns, Ordering::Relaxed);
        let stream_doze_ns = rate.stream_doze_ns(buffer_bytes).min(nanos(most));
        self.stream_doze_ns.store(stream_doze_ns.max(doze_ns), Ordering::Relaxed);
        (window.since, window.arrived) = (now, Arrived::default());
        (!has_room || rate.has_ample_room(buffer_bytes)).then_some(has_room)
    }

    /// How many packets a turn takes.
    #[inline]
    pub(crate) fn turn_packets(&self) -> usize {
        self.turn_packets.load(Ordering::Relaxed)
    }

    /// A turn that was to take `budget` packets at most took `count`, and was cut short where the reader had no room for more.
    #[inline]
    pub(crate) fn note_turn(&self, count: usize, budget: usize, is_cut: bool) {
        let is_behind = is_cut || count >= budget;
        self.is_behind.store(is_behind, Ordering::Relaxed);
        if self.is(kinds::EARLY) {
            let next = if is_behind { (2 * budget).min(TURN_PACKETS) } else { EARLY_PACKETS };
            self.turn_packets.store(next, Ordering::Relaxed);
        }
    }

    /// Whether the last turn may have left packets in the link.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Relaxed)
    }

    /// How long who finds nothing in a flood dozes; the system makes more of it.
    pub(crate) fn doze(&self) -> Duration {
        self.doze_of(false)
    }

    /// The same of who waits for bytes of a stream, or for something else.
    pub(crate) fn doze_of(&self, is_stream: bool) -> Duration {
        let nanos = if is_stream { &self.stream_doze_ns } else { &self.doze_ns };
        Duration::from_nanos(nanos.load(Ordering::Relaxed))
    }

    /// A user thread sends something.
    #[inline]
    pub(crate) fn note_user_sends(&self, now: Instant) {
        self.sent_at.store(now.as_nanos(), Ordering::Relaxed);
        if self.is_dozed_through(true) {
            self.end_flood();
        }
    }

    /// Whether a user thread sent something a moment ago.
    pub(crate) fn has_user_just_sent(&self, now: Instant) -> bool {
        now.as_nanos().saturating_sub(self.sent_at.load(Ordering::Relaxed)) < nanos(WINDOW)
    }

    /// Packets that came in until now.
    pub(crate) fn packets(&self) -> u64 {
        self.packets.get()
    }

    #[inline]
    pub(crate) fn is_flooded(&self) -> bool {
        self.is(kinds::FLOOD)
    }

    #[inline]
    fn is(&self, kinds: u32) -> bool {
        self.kinds.load(Ordering::Relaxed) & kinds != 0
    }

    /// Whether who waits dozes where he finds nothing: in a flood, and who waits for bytes of a stream in a slow one as well.
    #[inline]
    pub(crate) fn is_dozed_through(&self, is_stream: bool) -> bool {
        self.is(if is_stream { kinds::FLOOD | kinds::SLOW } else { kinds::FLOOD })
    }

    /// Whether he does better to doze before he looks: where packets come one by one, or slowly.
    #[inline]
    pub(crate) fn is_dozed_through_first(&self, is_stream: bool) -> bool {
        self.is(if is_stream { kinds::APART | kinds::SLOW } else { kinds::APART })
    }

    fn end_flood(&self) {
        self.flood_per_ms.store(0, Ordering::Relaxed);
        self.kinds.store(0, Ordering::Relaxed);
    }

    /// Since a doze that began at `begin` so many packets came in, with one turn behind it.
    pub(crate) fn note_doze(&self, begin: Instant, packets: u64, now: Instant, is_stream: bool) {
        if is_stream && self.is(kinds::STRETCHED) {
            return;
        }
        let is_late = now - begin > self.doze_of(is_stream) + LATE;
        self.judge(!is_late && self.has_come(begin, packets, now), now);
    }

    /// The same of a doze for others, which ends late where these need the processor for what came before.
    pub(crate) fn note_doze_for_others(&self, begin: Instant, packets: u64, now: Instant) {
        self.judge(self.has_come(begin, packets, now), now);
    }

    /// Whether at least half of what was to be expected has come.
    fn has_come(&self, begin: Instant, packets: u64, now: Instant) -> bool {
        let expected = expected(self.flood_per_ms.load(Ordering::Relaxed), now - begin);
        packets >= expected.min(self.turn_packets() as u64) / 2
    }

    fn judge(&self, is_harmless: bool, now: Instant) {
        if is_harmless {
            self.harmful.store(0, Ordering::Relaxed);
        } else if self.harmful.fetch_add(1, Ordering::Relaxed) + 1 >= HARMFUL_MAX {
            self.harmful.store(0, Ordering::Relaxed);
            self.end_flood();
            self.awake_until.store((now + PENANCE).as_nanos(), Ordering::Relaxed);
        }
    }
}

/// How many packets a turn takes where so many have so many bytes.
fn turn_packets_of(turn_bytes: u64, packets: u64, bytes: u64) -> usize {
    let packets = turn_bytes.saturating_mul(packets) / bytes.max(1);
    usize::try_from(packets).unwrap_or(TURN_PACKETS).clamp(TURN_PACKETS_MIN, TURN_PACKETS)
}

fn per_ms(count: u64, span: Duration) -> u64 {
    count * 1_000_000 / nanos(span).max(1)
}

fn expected(per_ms: u64, span: Duration) -> u64 {
    per_ms.saturating_mul(nanos(span)) / 1_000_000
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
