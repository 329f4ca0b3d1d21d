//! What has been sent and not been acknowledged: one segment a number, and which of them are lost.
//!
//! Loss detection follows RFC 8985 (RACK) where the peer sends SACK, three duplicate acknowledgements where it does
//! not, and a time-out in the end (CDP-RTX-5).

mod arrivals;
mod losses;
mod members;
mod reordering;

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use weft_base::{Instant, Seq, limits};

pub(crate) use self::arrivals::Progress;
pub(crate) use self::losses::Losses;
use self::reordering::Reordering;
use crate::numbers::NumberSet;
use crate::paths::{Paths, Tallies, Way};
use crate::queue::{Outgoing, Piece};
use crate::rate;

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

#[derive(Clone, Debug)]
pub(crate) struct Flight {
    una: Seq,
    /// Where the controller asks for the delivery rate.
    pub(crate) rate: Option<Box<rate::Estimator>>,
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
            rate: None,
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
    #[inline]
    pub(crate) fn push(&mut self, now: Instant, piece: Piece, eom: bool, fin: bool) {
        let segment = self.first_transmission(now, piece, eom, fin);
        self.in_flight += 1;
        self.bytes += piece.len();
        self.segments.push_back(segment);
    }

    /// So many more new numbers are being sent behind the one that was just pushed, with data that lies behind its data.
    pub(crate) fn push_alike(&mut self, now: Instant, last: Outgoing, count: u32) {
        let segment = self.first_transmission(now, last.piece, last.eom, false);
        self.in_flight += count;
        self.bytes += count as usize * last.piece.len();
        let pieces = std::iter::successors(Some(last.piece.next()), |piece| Some(piece.next()));
        let alike = pieces.take(count as usize).map(|piece| Segment { piece, ..segment.clone() });
        self.segments.extend(alike);
    }

    #[inline]
    fn first_transmission(&mut self, now: Instant, piece: Piece, eom: bool, fin: bool) -> Segment {
        Segment {
            piece,
            eom,
            fin,
            place: Place::InFlight,
            is_probe: false,
            way: Way::first(self.paths),
            sent_at: now,
            transmissions: 1,
            stamp: self.stamp(now),
        }
    }

    /// What the delivery rate needs to know of a transmission that leaves at `now`.
    #[inline]
    fn stamp(&mut self, now: Instant) -> rate::Stamp {
        self.rate.as_mut().map(|rate| rate.stamp(now, self.in_flight)).unwrap_or_default()
    }

    /// What a tail probe repeats: the last number that the peer does not hold; or, where it goes by another path and what
    /// waits behind it may not have arrived, the oldest, with which the reader can go on.
    pub(crate) fn tail(&self) -> Option<usize> {
        if self.paths.are_several() {
            return self.segments.iter().position(|segment| segment.place != Place::Held);
        }
        self.segments.iter().rposition(|segment| segment.place != Place::Held)
    }

    /// The segment `at` numbers after SND.UNA is being sent again; returns its number.
    pub(crate) fn resend(&mut self, now: Instant, at: usize) -> (Seq, &Segment) {
        let stamp = self.stamp(now);
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
        let rate = self.rate.take();
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

#[cfg(test)]
mod tests;
