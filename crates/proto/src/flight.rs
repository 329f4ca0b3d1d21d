//! What has been sent and not been acknowledged: one segment a number, and which of them are lost.
//!
//! Loss detection follows RFC 8985 (RACK) where the peer sends SACK, three duplicate acknowledgements where it does
//! not, and a time-out in the end (CDP-RTX-5).

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use weft_base::{Instant, Seq};
use weft_wire::Sack;

use crate::rate;

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
    pub(crate) payload: Bytes,
    pub(crate) eom: bool,
    pub(crate) fin: bool,
    pub(crate) place: Place,
    pub(crate) sent_at: Instant,
    pub(crate) transmissions: u32,
    pub(crate) stamp: rate::Stamp,
}

/// What an acknowledgement brought.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Numbers newly known to have arrived.
    pub(crate) delivered: u32,
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
    /// The FIN was among those SND.UNA moved over.
    pub(crate) fin: bool,
    /// Whether a large segment was among them, in the sense of [`Flight::large`].
    pub(crate) large: bool,
}

/// What was declared lost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    pub(crate) count: u32,
    /// When the latest sent of them was sent.
    pub(crate) sent_at: Instant,
    /// When the next number may be declared lost.
    pub(crate) next: Option<Instant>,
}

#[derive(Clone, Debug)]
pub(crate) struct Flight {
    una: Seq,
    pub(crate) rate: rate::Estimator,
    segments: VecDeque<Segment>,
    in_flight: u32,
    lost: u32,
    held: u32,
    bytes: usize,
    /// The latest transmission known to have arrived, and its number plus one (RACK.xmit_ts, RACK.end_seq).
    newest: (Instant, Seq),
    rack_rtt: Duration,
    /// Multiples of min RTT/4 that make the reorder window.
    reorder_steps: u32,
    /// Index below which nothing is lost, so that the search for a lost number is short.
    first_lost: usize,
    large_bytes: usize,
}

const REORDER_STEPS_MAX: u32 = 64;

impl Flight {
    pub(crate) fn new(una: Seq) -> Self {
        Self {
            una,
            rate: rate::Estimator::new(),
            segments: VecDeque::new(),
            in_flight: 0,
            lost: 0,
            held: 0,
            bytes: 0,
            newest: (Instant::ZERO, una),
            rack_rtt: Duration::ZERO,
            reorder_steps: 1,
            first_lost: 0,
            large_bytes: usize::MAX,
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

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.lost > 0
    }

    pub(crate) fn has_held(&self) -> bool {
        self.held > 0
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Segments longer than this are large in the sense of CDP-MTU-5.
    pub(crate) fn set_large(&mut self, bytes: usize) {
        self.large_bytes = bytes;
    }

    /// The oldest segment that is not acknowledged.
    pub(crate) fn oldest(&self) -> Option<&Segment> {
        self.segments.front()
    }

    /// A new number is being sent.
    pub(crate) fn push(&mut self, now: Instant, payload: Bytes, eom: bool, fin: bool) {
        let stamp = self.rate.stamp(now, self.in_flight);
        self.in_flight += 1;
        self.bytes += payload.len();
        let place = Place::InFlight;
        self.segments.push_back(Segment { payload, eom, fin, place, sent_at: now, transmissions: 1, stamp });
    }

    /// SND.UNA becomes `full` (CDP-ACK-3).
    pub(crate) fn acknowledge(&mut self, now: Instant, full: Seq, min_rtt: Option<Duration>) -> Progress {
        let mut progress = Progress::default();
        let count =
            usize::try_from(full.distance_from(self.una)).unwrap_or(usize::MAX).min(self.segments.len());
        for _ in 0..count {
            let Some(segment) = self.segments.pop_front() else { break };
            self.bytes -= segment.payload.len();
            progress.fin |= segment.fin;
            progress.acked += 1;
            self.una += 1;
            match segment.place {
                Place::Held => self.held -= 1,
                Place::InFlight | Place::Lost => {
                    self.note_arrival(now, self.una, &segment, min_rtt, &mut progress);
                }
            }
        }
        self.first_lost = self.first_lost.saturating_sub(count);
        progress
    }

    /// Marks what the bitmap says the peer holds; bit i stands for `full` + 1 + i (CDP-SACK-1).
    pub(crate) fn mark_held(
        &mut self,
        now: Instant,
        full: Seq,
        sack: &Sack,
        min_rtt: Option<Duration>,
        progress: &mut Progress,
    ) {
        let base = full.distance_from(self.una) + 1;
        for bit in sack.runs().flatten() {
            // [CDP-SACK-4] bits for numbers at or after SND.NXT are ignored
            let Some(at) = usize::try_from(base + u64::from(bit)).ok().filter(|at| *at < self.segments.len())
            else {
                break;
            };
            if self.segments[at].place == Place::Held {
                continue;
            }
            let segment = self.segments[at].clone();
            self.note_arrival(now, self.una + at as u64 + 1, &segment, min_rtt, progress);
            // [CDP-SACK-5] held numbers are kept until they are acknowledged
            self.segments[at].place = Place::Held;
            self.held += 1;
        }
    }

    /// One number is newly known to have arrived.
    fn note_arrival(
        &mut self,
        now: Instant,
        end: Seq,
        segment: &Segment,
        min_rtt: Option<Duration>,
        progress: &mut Progress,
    ) {
        let elapsed = now - segment.sent_at;
        match segment.place {
            Place::InFlight => self.in_flight -= 1,
            Place::Lost => self.lost -= 1,
            Place::Held => {}
        }
        progress.delivered += 1;
        progress.bytes += segment.payload.len() as u64;
        progress.sent_at = progress.sent_at.max(segment.sent_at);
        self.rate.handle_acked(now, &segment.stamp);
        progress.large |= segment.payload.len() > self.large_bytes;
        // an answer that comes faster than a round trip answers an earlier transmission
        let early = min_rtt.is_some_and(|min_rtt| elapsed < min_rtt / 2);
        if segment.place == Place::Lost || (segment.transmissions > 1 && early) {
            progress.spurious += 1;
            self.reorder_steps = (self.reorder_steps * 2).min(REORDER_STEPS_MAX);
        }
        let known = segment.transmissions == 1 || !early;
        if segment.place == Place::Lost || !known {
            return;
        }
        // [CDP-RTX-3] no sample from a number that was sent more than once
        if segment.transmissions == 1 {
            progress.rtt = Some(progress.rtt.map_or(elapsed, |rtt| rtt.min(elapsed)));
        }
        if is_later((segment.sent_at, end), self.newest) {
            self.newest = (segment.sent_at, end);
            self.rack_rtt = elapsed;
        }
    }

    /// Declares lost what RACK says is lost (CDP-RTX-5).
    pub(crate) fn detect_losses(&mut self, now: Instant, min_rtt: Option<Duration>) -> Losses {
        let mut losses = Losses::default();
        if self.held == 0 {
            return losses;
        }
        let window = self.reorder_window(min_rtt);
        let end = self.newest.1.distance_from(self.una).min(self.segments.len() as u64);
        // a number sent again may be lost again although later numbers are held; so look at all up to the last held
        let last_held = self.segments.iter().rposition(|segment| segment.place == Place::Held).unwrap_or(0);
        let reach = usize::try_from(end).unwrap_or(usize::MAX).max(last_held);
        for at in 0..reach.min(self.segments.len()) {
            let number = self.una + at as u64 + 1;
            let segment = &mut self.segments[at];
            if segment.place != Place::InFlight || !is_later(self.newest, (segment.sent_at, number)) {
                continue;
            }
            let due = segment.sent_at + self.rack_rtt + window;
            if due <= now {
                segment.place = Place::Lost;
                self.in_flight -= 1;
                self.lost += 1;
                self.first_lost = self.first_lost.min(at);
                losses.count += 1;
                losses.sent_at = losses.sent_at.max(segment.sent_at);
            } else {
                losses.next = Some(losses.next.map_or(due, |next| next.min(due)));
            }
        }
        losses
    }

    fn reorder_window(&self, min_rtt: Option<Duration>) -> Duration {
        min_rtt.map_or(Duration::ZERO, |min_rtt| min_rtt / 4 * self.reorder_steps)
    }

    /// Declares the oldest number lost: three duplicate acknowledgements, or a partial one after them.
    pub(crate) fn declare_oldest_lost(&mut self) -> Losses {
        let Some(segment) = self.segments.front_mut().filter(|segment| segment.place == Place::InFlight)
        else {
            return Losses::default();
        };
        segment.place = Place::Lost;
        self.in_flight -= 1;
        self.lost += 1;
        self.first_lost = 0;
        Losses { count: 1, sent_at: segment.sent_at, next: None }
    }

    /// Declares everything lost that is in flight: a time-out.
    pub(crate) fn declare_all_lost(&mut self) -> Losses {
        let mut sent_at = Instant::ZERO;
        for segment in self.segments.iter_mut().filter(|segment| segment.place == Place::InFlight) {
            segment.place = Place::Lost;
            sent_at = sent_at.max(segment.sent_at);
        }
        let count = std::mem::take(&mut self.in_flight);
        self.lost += count;
        self.first_lost = 0;
        Losses { count, sent_at, next: None }
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

    /// The last number that the peer does not hold: what a tail probe repeats.
    pub(crate) fn last_unheld(&self) -> Option<usize> {
        self.segments.iter().rposition(|segment| segment.place != Place::Held)
    }

    /// The segment `at` numbers after SND.UNA is being sent again; returns its number.
    pub(crate) fn resend(&mut self, now: Instant, at: usize) -> (Seq, Segment) {
        let stamp = self.rate.stamp(now, self.in_flight);
        let segment = &mut self.segments[at];
        if segment.place == Place::Lost {
            self.lost -= 1;
            self.in_flight += 1;
        }
        segment.place = Place::InFlight;
        segment.sent_at = now;
        segment.transmissions += 1;
        segment.stamp = stamp;
        (self.una + at as u64, segment.clone())
    }

    /// Forgets all (row 30) and returns how many numbers that were; SND.NXT stays.
    pub(crate) fn clear(&mut self) -> u64 {
        let nxt = self.nxt();
        let dropped = self.segments.len() as u64;
        let rate = self.rate.clone();
        *self = Self { large_bytes: self.large_bytes, rate, ..Self::new(nxt) };
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
