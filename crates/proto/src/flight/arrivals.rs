//! What an acknowledgement says has arrived: all before a number, single ones after it, and what that tells of the path.

use std::ops::Range;
use std::time::Duration;

use weft_base::{Instant, Seq};
use weft_wire::FarSack;

use super::{FAR, Flight, Place, Segment};
use crate::numbers::numbers_of;

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
    pub(super) repeated: Option<Repeated>,
    /// The FIN was among those SND.UNA moved over.
    pub(crate) fin: bool,
    /// Whether a large segment was among them, in the sense of [`Flight::large`].
    pub(crate) large: bool,
}

/// A number that arrived when it was sent again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeated {
    /// When that was, and its number plus one.
    sent: (Instant, Seq),
    elapsed: Duration,
    by: u8,
}

impl Flight {
    /// SND.UNA becomes `full` (CDP-ACK-3).
    pub(crate) fn acknowledge(&mut self, now: Instant, full: Seq, min_rtt: Option<Duration>) -> Progress {
        let mut progress = Progress::default();
        let count =
            usize::try_from(full.distance_from(self.una)).unwrap_or(usize::MAX).min(self.segments.len());
        let is_run = count > 1 && self.tallies.is_none();
        let taken = if is_run { self.acknowledge_plain(count, now, &mut progress) } else { 0 };
        for nth in taken..count {
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

    /// Takes the segments in front that were sent once and wait for nothing but this, as most do, and leaves the last of these:
    /// it was sent after the others, so round trip, rate and order of arrival are what it tells. Returns how many were taken.
    fn acknowledge_plain(&mut self, count: usize, now: Instant, progress: &mut Progress) -> usize {
        let is_plain = |segment: &Segment| {
            segment.place == Place::InFlight
                && segment.transmissions == 1
                && segment.sent_at <= now
                && !segment.fin
        };
        let (mut plain, mut bytes) = (0_usize, 0);
        for segment in self.segments.iter().take(count.min(FAR)).take_while(|segment| is_plain(segment)) {
            plain += 1;
            bytes += segment.piece.len();
            progress.large |= segment.piece.len() > self.large_bytes;
        }
        let Some(last) = plain.checked_sub(1).filter(|last| *last > 0) else { return 0 };
        bytes -= self.segments[last].piece.len();
        self.segments.drain(..last);
        self.bytes -= bytes;
        self.una += last as u64;
        #[allow(clippy::cast_possible_truncation)] // at most what a bitmap names
        let taken = last as u32;
        self.in_flight -= taken;
        if let Some(rate) = &mut self.rate {
            rate.count_acked(last as u64);
        }
        progress.bytes += bytes as u64;
        progress.acked += last as u64;
        progress.delivered += taken;
        progress.on_path += taken;
        last
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
            if let Some(rate) = &mut self.rate {
                rate.handle_acked(now, &segment.stamp);
            }
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
        // [CDP-RTX-3] no sample from a number that was sent more than once; nor from an acknowledgement that one thread stamped
        // before another sent the packet
        let is_sample = now > segment.sent_at;
        if is_sample {
            progress.rtt = Some(progress.rtt.map_or(elapsed, |rtt| rtt.min(elapsed)));
        }
        if is_later((segment.sent_at, end), self.newest) {
            self.newest = (segment.sent_at, end);
            self.newest_by = segment.way.last();
            self.rack_rtt = if is_sample { elapsed } else { self.rack_rtt };
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

    /// Whether an acknowledgement before could have named the number so many after SND.UNA: what no bitmap could name may have
    /// arrived long ago.
    fn is_news(&self, at: usize) -> bool {
        self.names_far || at < FAR
    }

    /// Whether some of what is in flight can be named by no bitmap, and so may have arrived.
    pub(crate) fn is_partly_unknown(&self) -> bool {
        self.segments.len().checked_sub(1).is_some_and(|last| !self.is_news(last))
    }

    /// Whether the last number that a bitmap can name is held, so that nothing would be heard of those after it.
    pub(crate) fn is_beyond_bitmap(&self) -> bool {
        !self.names_far && self.segments.get(FAR - 1).is_some_and(|segment| segment.place == Place::Held)
    }
}

/// Whether one transmission was made after another; of those made at once, whether its number is the later.
pub(super) fn is_later(a: (Instant, Seq), b: (Instant, Seq)) -> bool {
    a.0 > b.0 || (a.0 == b.0 && b.1.is_before(a.1))
}
