//! What has been sent and not been acknowledged: one segment a number, and which of them are lost.
//!
//! Loss detection follows RFC 8985 (RACK) where the peer sends SACK, three duplicate acknowledgements where it does
//! not, and a time-out in the end (CDP-RTX-5).

mod members;
mod reordering;

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use weft_base::{Instant, Seq, limits};
use weft_wire::FarSack;

use self::reordering::Reordering;
use crate::numbers::{NumberSet, numbers_of};
use crate::paths::{Paths, Tallies, Way};
use crate::queue::Piece;
use crate::rate;
use crate::rtt::Rtt;

/// The first number after SND.UNA that SACK does not reach.
const FAR: usize = limits::SACK_BITS as usize + 1;

/// Where a segment is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Sent, and neither acknowledged nor declared lost.
    InFlight,
    /// Declared lost, not sent again yet.
    Lost,
    /// Held by the peer (SACK).
    Held,
}

/// What a number was spent on (CDP-SEQ-6: it stays that).
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) piece: Piece,
    pub(crate) eom: bool,
    pub(crate) fin: bool,
    pub(crate) place: Place,
    /// It was sent again as a tail probe, without being declared lost.
    pub(crate) is_probe: bool,
    pub(crate) way: Way,
    pub(crate) transmissions: u16,
    pub(crate) sent_at: Instant,
    pub(crate) stamp: rate::Stamp,
}

/// What an acknowledgement brought.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Numbers newly known to have arrived.
    pub(crate) delivered: u32,
    /// Those of them that went by the present default: the others say nothing of what it carries.
    pub(crate) on_path: u32,
    /// Bytes of data in them.
    pub(crate) bytes: u64,
    /// Numbers that SND.UNA moved over.
    pub(crate) acked: u64,
    /// Round-trip sample, of a number sent once (CDP-RTX-3).
    pub(crate) rtt: Option<Duration>,
    /// When the latest sent of them was sent.
    pub(crate) sent_at: Instant,
    /// Losses that turned out not to be.
    pub(crate) spurious: u32,
    /// Something arrived that was sent once, or so soon after it was sent again that its first transmission did.
    pub(crate) is_from_first: bool,
    /// The latest of those that arrived when sent again.
    repeated: Option<Repeated>,
    /// The FIN was among those SND.UNA moved over.
    pub(crate) fin: bool,
    /// Whether a large segment was among them, in the sense of [`Flight::large`].
    pub(crate) large: bool,
}

/// A number that arrived when it was sent again.
#[derive(Clone, Copy, Debug)]
struct Repeated {
    /// When that was, and its number plus one.
    sent: (Instant, Seq),
    elapsed: Duration,
    by: u8,
}

/// What was declared lost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    pub(crate) count: u32,
    /// Those of the present path: the others say nothing of its congestion.
    pub(crate) on_path: u32,
    /// When the latest sent of these was sent.
    pub(crate) sent_at: Instant,
    /// When the next number may be declared lost.
    pub(crate) next: Option<Instant>,
}

impl Losses {
    pub(crate) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.on_path += other.on_path;
        self.sent_at = self.sent_at.max(other.sent_at);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Flight {
    una: Seq,
    pub(crate) rate: rate::Estimator,
    segments: VecDeque<Segment>,
    in_flight: u32,
    lost: u32,
    /// Those whose place is [`Place::Held`].
    held: NumberSet,
    /// The peer names numbers further on than SACK reaches.
    names_far: bool,
    /// Those that it named last: what is not held of them has not arrived.
    far_named: Range<usize>,
    bytes: usize,
    /// The latest transmission known to have arrived, and its number plus one (RACK.xmit_ts, RACK.end_seq).
    newest: (Instant, Seq),
    /// The path it went by.
    newest_by: u8,
    /// When something came back last by the default that was sent once by it.
    heard_at: Instant,
    rack_rtt: Duration,
    /// That transmission was not the number's first, so numbers after it may have been sent before.
    newest_is_repeated: bool,
    /// The peer tells what it holds, so that a number sent again and not followed by others shows them lost.
    sack: bool,
    reordering: Reordering,
    /// Index below which nothing is lost, so that the search for a lost number is short.
    first_lost: usize,
    large_bytes: usize,
    paths: Paths,
    /// The path by which the acknowledgement came that is handled, where that is known.
    heard_by: Option<u8>,
    /// What is to be reported, where there are several paths.
    pub(crate) tallies: Option<Box<Tallies>>,
}

impl Flight {
    pub(crate) fn new(una: Seq) -> Self {
        Self {
            una,
            rate: rate::Estimator::new(),
            segments: VecDeque::new(),
            in_flight: 0,
            lost: 0,
            held: NumberSet::default(),
            names_far: false,
            far_named: FAR..FAR,
            bytes: 0,
            newest: (Instant::ZERO, una),
            newest_by: 0,
            heard_at: Instant::ZERO,
            rack_rtt: Duration::ZERO,
            newest_is_repeated: false,
            sack: true,
            reordering: Reordering::new(una),
            first_lost: 0,
            large_bytes: usize::MAX,
            paths: Paths::default(),
            heard_by: None,
            tallies: None,
        }
    }

    pub(crate) fn una(&self) -> Seq {
        self.una
    }

    pub(crate) fn nxt(&self) -> Seq {
        self.una + self.segments.len() as u64
    }

    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Whether there is one segment, which was sent once, and one path.
    #[inline]
    pub(crate) fn is_one(&self) -> bool {
        self.segments.len() == 1
            && self.tallies.is_none()
            && !self.paths.are_several()
            && self.segments.front().is_some_and(|one| one.place == Place::InFlight && one.transmissions == 1)
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub(crate) fn lost(&self) -> u32 {
        self.lost
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Whether some of what is in flight can be named by no bitmap, and so may have arrived.
    pub(crate) fn is_partly_unknown(&self) -> bool {
        self.segments.len().checked_sub(1).is_some_and(|last| !self.is_news(last))
    }

    pub(crate) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the peer will tell what it holds.
    pub(crate) fn set_sack(&mut self, sack: bool) {
        self.sack = sack;
    }

    pub(crate) fn has_sack(&self) -> bool {
        self.sack
    }

    /// Segments longer than this are large in the sense of CDP-MTU-5.
    pub(crate) fn set_large(&mut self, bytes: usize) {
        self.large_bytes = bytes;
    }

    /// The oldest segment that is not acknowledged.
    pub(crate) fn oldest(&self) -> Option<&Segment> {
        self.segments.front()
    }

    /// The data of the segment `at` numbers after SND.UNA.
    pub(crate) fn piece(&self, at: usize) -> Piece {
        self.segments[at].piece
    }

    /// A new number is being sent.
    pub(crate) fn push(&mut self, now: Instant, piece: Piece, eom: bool, fin: bool) {
        let stamp = self.rate.stamp(now, self.in_flight);
        self.in_flight += 1;
        self.bytes += piece.len();
        let (place, way) = (Place::InFlight, Way::first(self.paths));
        self.segments.push_back(Segment {
            piece,
            eom,
            fin,
            place,
            is_probe: false,
            way,
            sent_at: now,
            transmissions: 1,
            stamp,
        });
    }

    /// SND.UNA becomes `full` (CDP-ACK-3).
    pub(crate) fn acknowledge(&mut self, now: Instant, full: Seq, min_rtt: Option<Duration>) -> Progress {
        let mut progress = Progress::default();
        let count =
            usize::try_from(full.distance_from(self.una)).unwrap_or(usize::MAX).min(self.segments.len());
        for nth in 0..count {
            let Some(segment) = self.segments.pop_front() else { break };
            self.bytes -= segment.piece.len();
            progress.fin |= segment.fin;
            progress.acked += 1;
            self.una += 1;
            if self.tallies.is_some() {
                self.note_delivered(&segment);
            }
            match segment.place {
                Place::Held => {}
                Place::InFlight | Place::Lost => {
                    let is_news = self.is_news(nth);
                    self.note_arrival(now, self.una, &segment, is_news, min_rtt, &mut progress);
                }
            }
        }
        self.held.advance(count);
        let Range { start, end } = self.far_named;
        self.far_named = start.saturating_sub(count)..end.saturating_sub(count);
        self.first_lost = self.first_lost.saturating_sub(count);
        progress
    }

    /// The acknowledgement that is handled next has this piece of what lies beyond SACK.
    pub(crate) fn note_far(&mut self, piece: Option<&FarSack>) {
        self.names_far |= piece.is_some();
    }

    /// The acknowledgement that was handled last says of these numbers whether they are held.
    pub(crate) fn set_named(&mut self, piece: Option<&FarSack>) {
        if !self.names_far {
            return;
        }
        self.far_named = match piece {
            // [CDP-SACK-7] a piece that is not full is the last
            Some(piece) => {
                let from = piece.offset() as usize + 1;
                from..if piece.bits() == FarSack::BITS_MAX {
                    from + piece.bits() as usize
                } else {
                    usize::MAX
                }
            }
            None => FAR..usize::MAX,
        };
    }

    /// Marks what a bitmap says the peer holds; its first bit stands for SND.UNA + 1 + `offset` (CDP-SACK-1, CDP-SACK-6).
    pub(crate) fn mark_held(
        &mut self,
        now: Instant,
        offset: u32,
        words: &[u64],
        min_rtt: Option<Duration>,
        progress: &mut Progress,
    ) {
        let before = usize::try_from(progress.acked).unwrap_or(usize::MAX);
        for (word, from) in words.iter().zip((offset as usize + 1..).step_by(64)) {
            for at in numbers_of(word & !self.held.word(from), from) {
                // [CDP-SACK-4] bits for numbers at or after SND.NXT are ignored
                if at >= self.segments.len() {
                    return;
                }
                let segment = self.segments[at].clone();
                let is_news = self.is_news(at.saturating_add(before));
                self.note_arrival(now, self.una + at as u64 + 1, &segment, is_news, min_rtt, progress);
                // [CDP-SACK-5] held numbers are kept until they are acknowledged
                self.segments[at].place = Place::Held;
                self.held.insert(at);
            }
        }
    }

    /// One number is newly known to have arrived; when it did is known only if that `is_news`.
    fn note_arrival(
        &mut self,
        now: Instant,
        end: Seq,
        segment: &Segment,
        is_news: bool,
        min_rtt: Option<Duration>,
        progress: &mut Progress,
    ) {
        let elapsed = now - segment.sent_at;
        let early = segment.transmissions > 1 && self.is_early(elapsed, min_rtt);
        match segment.place {
            Place::InFlight => self.in_flight -= 1,
            Place::Lost => self.lost -= 1,
            Place::Held => {}
        }
        progress.delivered += 1;
        progress.bytes += segment.piece.len() as u64;
        if !early {
            progress.sent_at = progress.sent_at.max(segment.sent_at);
        }
        if self.tallies.is_none() || segment.way.is_by_default(self.paths) {
            progress.on_path += 1;
            self.rate.handle_acked(now, &segment.stamp);
        }
        progress.large |= segment.piece.len() > self.large_bytes;
        // [CDP-RTX-3] neither a sample, nor a sign that a time-out was in error
        if !is_news {
            return;
        }
        if segment.place == Place::Lost || early {
            progress.spurious += 1;
            self.reordering.grow(self.una, self.nxt());
        }
        let known = segment.place == Place::InFlight && !early;
        progress.is_from_first |= segment.transmissions == 1 || !known;
        if !known {
            return;
        }
        if segment.transmissions > 1 {
            let repeated = Repeated { sent: (segment.sent_at, end), elapsed, by: segment.way.last() };
            let is_latest = progress.repeated.is_none_or(|latest| is_later(repeated.sent, latest.sent));
            progress.repeated = if is_latest { Some(repeated) } else { progress.repeated };
            return;
        }
        // [CDP-IO-9] the round trip is that of the default there and back
        if self.tallies.is_some() {
            if !self.is_of_default(segment) {
                return;
            }
            self.heard_at = now;
        }
        // [CDP-RTX-3] no sample from a number that was sent more than once
        progress.rtt = Some(progress.rtt.map_or(elapsed, |rtt| rtt.min(elapsed)));
        if is_later((segment.sent_at, end), self.newest) {
            self.newest = (segment.sent_at, end);
            self.newest_by = segment.way.last();
            self.rack_rtt = elapsed;
            self.newest_is_repeated = false;
        }
    }

    /// An answer to what was sent again that comes faster than any round trip answers an earlier transmission; of another path
    /// that tells nothing.
    #[cold]
    fn is_early(&self, elapsed: Duration, min_rtt: Option<Duration>) -> bool {
        !self.paths.are_several() && min_rtt.is_some_and(|min_rtt| elapsed < min_rtt)
    }

    /// What arrived when sent again counts as the latest transmission that did.
    pub(crate) fn trust_repeated(&mut self, progress: &Progress) {
        if let Some(Repeated { sent, elapsed, by }) = progress.repeated
            && is_later(sent, self.newest)
        {
            self.newest = sent;
            self.newest_by = by;
            self.rack_rtt = elapsed;
            self.newest_is_repeated = self.sack;
        }
    }

    /// Declares lost what RACK says is lost (CDP-RTX-5). Paths differ in length: what went by another path than the
    /// transmission that shows it lost must have been on its way for an RTO, and the default, if it went by that, silent for as
    /// long.
    pub(crate) fn detect_losses(&mut self, now: Instant, rtt: &Rtt) -> Losses {
        let mut losses = Losses::default();
        if self.held.is_empty() && !self.newest_is_repeated {
            return losses;
        }
        let window = self.reordering.window(rtt.min_rtt(), rtt.srtt());
        let reach = self.reach();
        let mut next = 0;
        while let Some(at) = self.next_missing(next, reach) {
            next = at + 1;
            let number = self.una + at as u64 + 1;
            let segment = &mut self.segments[at];
            if segment.place != Place::InFlight || !is_later(self.newest, (segment.sent_at, number)) {
                continue;
            }
            let mut due = segment.sent_at + self.rack_rtt + window;
            if segment.way.last() != self.newest_by {
                let is_by_default = segment.way.is_by_default(self.paths);
                let since = if is_by_default { self.heard_at.max(segment.sent_at) } else { segment.sent_at };
                due = due.max(since + rtt.patience());
            }
            if due <= now {
                self.first_lost = self.first_lost.min(at);
                let is_gap = segment.way.last() == self.newest_by;
                self.declare_lost(at, is_gap, &mut losses);
            } else {
                losses.next = Some(losses.next.map_or(due, |next| next.min(due)));
            }
        }
        if losses.count > 0 {
            self.reordering.repair(self.una, self.nxt());
        }
        losses
    }

    /// `is_gap` if a later transmission by the same path arrived.
    fn declare_lost(&mut self, at: usize, is_gap: bool, losses: &mut Losses) {
        let segment = &mut self.segments[at];
        segment.place = Place::Lost;
        self.in_flight -= 1;
        self.lost += 1;
        losses.count += 1;
        if segment.way.is_by_default(self.paths) {
            losses.on_path += 1;
            losses.sent_at = losses.sent_at.max(segment.sent_at);
        }
        self.note_lost(at, is_gap);
    }

    /// How many numbers from SND.UNA on the newest transmission can show lost.
    fn reach(&self) -> usize {
        if self.newest_is_repeated {
            return self.segments.len();
        }
        let end = self.newest.1.distance_from(self.una).min(self.segments.len() as u64);
        // a number sent again may be lost again although later numbers are held; so look at all up to the last held
        usize::try_from(end).unwrap_or(usize::MAX).max(self.held.last().unwrap_or(0)).min(self.segments.len())
    }

    /// The first number from `from` on and before `end` of which it is known that the peer does not hold it: of what no bitmap
    /// named, nothing is known.
    fn next_missing(&self, from: usize, end: usize) -> Option<usize> {
        let near = self.held.next_absent(from);
        if near < FAR.min(end) {
            return Some(near);
        }
        let far = self.held.next_absent(near.max(self.far_named.start));
        (far < self.far_named.end.min(end)).then_some(far)
    }

    /// Whether an acknowledgement before could have named the number so many after SND.UNA: what no bitmap could name may have
    /// arrived long ago.
    fn is_news(&self, at: usize) -> bool {
        self.names_far || at < FAR
    }

    /// Whether the last number that a bitmap can name is held, so that nothing would be heard of those after it.
    pub(crate) fn is_beyond_bitmap(&self) -> bool {
        !self.names_far && self.segments.get(FAR - 1).is_some_and(|segment| segment.place == Place::Held)
    }

    /// Declares the first `count` numbers lost, as far as they are in flight: three duplicate acknowledgements, or a
    /// partial one after them, or a time-out.
    pub(crate) fn declare_first_lost(&mut self, count: usize) -> Losses {
        let mut losses = Losses::default();
        for at in 0..count.min(self.segments.len()) {
            if self.segments[at].place == Place::InFlight {
                self.declare_lost(at, false, &mut losses);
            }
        }
        self.first_lost = 0;
        losses
    }

    /// Declares everything lost that was sent before `sent_before` and is in flight: a time-out that proved real.
    pub(crate) fn declare_lost_before(&mut self, sent_before: Instant) -> Losses {
        let mut losses = Losses::default();
        for at in 0..self.segments.len() {
            let segment = &self.segments[at];
            if segment.place == Place::InFlight && segment.sent_at < sent_before {
                self.declare_lost(at, false, &mut losses);
            }
        }
        self.first_lost = 0;
        losses
    }

    /// The first lost number, if any.
    pub(crate) fn next_lost(&mut self) -> Option<usize> {
        if self.lost == 0 {
            return None;
        }
        let from = self.first_lost.min(self.segments.len());
        let at = (from..self.segments.len()).find(|at| self.segments[*at].place == Place::Lost)?;
        self.first_lost = at;
        Some(at)
    }

    /// What a tail probe repeats: the last number that the peer does not hold; or, where it goes by another path and what
    /// waits behind it may not have arrived, the oldest, with which the reader can go on.
    pub(crate) fn tail(&self) -> Option<usize> {
        if self.paths.are_several() {
            return (!self.segments.is_empty()).then_some(0);
        }
        self.segments.iter().rposition(|segment| segment.place != Place::Held)
    }

    /// The segment `at` numbers after SND.UNA is being sent again; returns its number.
    pub(crate) fn resend(&mut self, now: Instant, at: usize) -> (Seq, &Segment) {
        let stamp = self.rate.stamp(now, self.in_flight);
        let segment = &mut self.segments[at];
        if segment.place == Place::Lost {
            self.lost -= 1;
            self.in_flight += 1;
        }
        segment.is_probe = segment.place == Place::InFlight;
        segment.way.advance(self.paths);
        segment.place = Place::InFlight;
        segment.sent_at = now;
        segment.transmissions = segment.transmissions.saturating_add(1);
        segment.stamp = stamp;
        (self.una + at as u64, segment)
    }

    /// Forgets all (row 30) and returns how many numbers that were; SND.NXT stays.
    pub(crate) fn clear(&mut self) -> u64 {
        let nxt = self.nxt();
        let dropped = self.segments.len() as u64;
        let rate = self.rate.clone();
        let tallies = self.tallies.take();
        let paths = self.paths;
        *self =
            Self { large_bytes: self.large_bytes, sack: self.sack, paths, tallies, rate, ..Self::new(nxt) };
        dropped
    }

    /// When the latest transmission known to have arrived was made.
    pub(crate) fn newest_sent_at(&self) -> Instant {
        self.newest.0
    }
}

fn is_later(a: (Instant, Seq), b: (Instant, Seq)) -> bool {
    a.0 > b.0 || (a.0 == b.0 && b.1.is_before(a.1))
}

#[cfg(test)]
mod tests;
