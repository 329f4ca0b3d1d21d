//! Which numbers are lost: by RACK, by duplicate acknowledgements, by a time-out (CDP-RTX-5).

use weft_base::Instant;

use super::arrivals::is_later;
use super::{FAR, Flight, Place};
use crate::rtt::Rtt;

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

impl Flight {
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

    /// Declares the first `count` numbers lost, as far as they are in flight: three duplicate acknowledgements, or a
    /// partial one after them, or a time-out.
    pub(crate) fn declare_first_lost(&mut self, count: usize) -> Losses {
        let mut losses = Losses::default();
        self.take_head_back();
        for at in 0..count.min(self.segments.len()) {
            if self.segments[at].place == Place::InFlight {
                self.declare_lost(at, false, &mut losses);
            }
        }
        self.first_lost = 0;
        losses
    }

    /// Acknowledgements stop at a number that the peer said it holds: it holds the acknowledgement back (CDP-ST-F), or has the
    /// number no more. It is repeated as any other (CDP-RTX-1).
    fn take_head_back(&mut self) {
        if let Some(head) = self.segments.front_mut().filter(|head| head.place == Place::Held) {
            head.place = Place::InFlight;
            self.in_flight += 1;
            self.held.remove(0);
        }
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
}
