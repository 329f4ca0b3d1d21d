//! What is sent over several paths: which number went by which, and what is told of that.

use super::{Flight, Place, Segment};
use crate::paths::{Paths, Tallies, Way};

impl Flight {
    pub(crate) fn paths(&self) -> Paths {
        self.paths
    }

    /// Which paths there are from now on. Where the default is another each number begins its round anew.
    pub(crate) fn set_paths(&mut self, paths: Paths) {
        let (una, nxt) = (self.una, self.nxt());
        self.tallies = match self.tallies.take() {
            _ if !paths.are_several() => None,
            None => Some(Box::new(Tallies::new(paths, una))),
            tallies => tallies,
        };
        if self.paths.default_path() != paths.default_path() {
            self.tallies.iter_mut().for_each(|tallies| tallies.set_default(paths, nxt));
            self.segments.iter_mut().for_each(|segment| segment.way.restart());
        }
        self.paths = paths;
    }

    /// The acknowledgement that is handled next came by this path.
    pub(crate) fn set_heard_by(&mut self, path: Option<u8>) {
        self.heard_by = path;
    }

    /// Whether the acknowledgement came back by the member that the number went through, so that it speaks for both ways.
    pub(super) fn is_answer_of(&self, way: Way) -> bool {
        self.heard_by.is_none_or(|path| path == way.last())
    }

    /// Whether `segment` went by the default there and, as far as is known, its acknowledgement back.
    #[cold]
    pub(super) fn is_of_default(&self, segment: &Segment) -> bool {
        segment.way.is_by_default(self.paths) && self.is_answer_of(segment.way)
    }

    /// A number is acknowledged, and those before it are.
    #[cold]
    pub(super) fn note_delivered(&mut self, segment: &Segment) {
        let is_answer = self.is_answer_of(segment.way);
        let before = segment.way.before_last(self.paths).filter(|path| self.heard_by != Some(*path));
        let Some(tallies) = &mut self.tallies else { return };
        if segment.is_probe
            && segment.place == Place::InFlight
            && let Some(before) = before
        {
            // [CDP-IO-4] the tail probe was answered, and nothing came by the member that the number went through before
            tallies.note_loss(before);
        }
        if tallies.settled.is_before(self.una) {
            tallies.settled = self.una;
            if segment.transmissions == 1 && is_answer {
                tallies.note_delivery(segment.way.last());
            }
        }
    }

    /// Tells of the numbers that are held, in their order, as far as it is known what became of those before them: a
    /// delivery clears the losses of the numbers before it, not of those after it.
    #[cold]
    pub(crate) fn settle(&mut self) {
        let Some(mut tallies) = self.tallies.take() else { return };
        let from = tallies.settled.later(self.una).distance_from(self.una);
        for segment in self.segments.iter().skip(usize::try_from(from).unwrap_or(usize::MAX)) {
            if segment.transmissions == 1 && segment.place == Place::InFlight {
                break;
            }
            tallies.settled = tallies.settled.later(self.una) + 1;
            if segment.transmissions == 1 && segment.place == Place::Held && self.is_answer_of(segment.way) {
                tallies.note_delivery(segment.way.last());
            }
        }
        tallies.end_round(self.nxt());
        self.tallies = Some(tallies);
    }

    /// The number `at` after SND.UNA is declared lost; `is_gap` if a later transmission by the same path arrived.
    pub(super) fn note_lost(&mut self, at: usize, is_gap: bool) {
        let segment = &self.segments[at];
        if let Some(tallies) = &mut self.tallies {
            if is_gap {
                tallies.note_gap(segment.way.last());
            } else {
                tallies.note_loss_since(segment.way.last(), segment.sent_at);
            }
            if let Some(before) = segment.way.before_last(self.paths).filter(|_| segment.is_probe) {
                tallies.note_loss_since(before, segment.sent_at);
            }
        }
    }
}
