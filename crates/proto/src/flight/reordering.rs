//! The reorder window of RACK: how long a number may be late before it is lost.

use std::time::Duration;

use weft_base::Seq;

/// How much later than a number sent after it a number may arrive, in multiples of min RTT/4 (RFC 8985, section 6.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct Reordering {
    steps: u32,
    /// It grows again only when numbers from here on are acknowledged: once per round trip.
    grown_until: Seq,
    /// Losses before here belong to one stretch of repair, and after so many stretches without error it is 1 again.
    repair_until: Seq,
    repairs_left: u32,
}

impl Reordering {
    const STEPS_MAX: u32 = 64;
    const REPAIRS: u32 = 16;

    pub(super) fn new(una: Seq) -> Self {
        Self { steps: 1, grown_until: una, repair_until: una, repairs_left: 0 }
    }

    /// A number declared lost has arrived.
    pub(super) fn grow(&mut self, una: Seq, nxt: Seq) {
        self.repairs_left = Self::REPAIRS;
        if self.grown_until.is_at_or_before(una) {
            self.steps = (self.steps * 2).min(Self::STEPS_MAX);
            self.grown_until = nxt;
        }
    }

    /// Numbers were declared lost.
    pub(super) fn repair(&mut self, una: Seq, nxt: Seq) {
        if self.repair_until.is_at_or_before(una) {
            self.repair_until = nxt;
            self.repairs_left = self.repairs_left.saturating_sub(1);
            if self.repairs_left == 0 {
                self.steps = 1;
            }
        }
    }

    /// Never longer than a round trip, or every loss would wait for a time-out.
    pub(super) fn window(&self, min_rtt: Option<Duration>, srtt: Option<Duration>) -> Duration {
        // of a path that was just changed to no least round trip is known yet
        let window = min_rtt.or(srtt).map_or(Duration::ZERO, |rtt| rtt / 4 * self.steps);
        srtt.map_or(window, |srtt| window.min(srtt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [CDP-RTX-5] It begins at min RTT/4, grows once per round trip up to one, and is forgotten after 16 repairs.
    #[test]
    fn the_window_grows_once_per_round_trip_and_is_forgotten() {
        const MS: Duration = Duration::from_millis(1);
        let mut reordering = Reordering::new(Seq::new(0));
        let window = |reordering: &Reordering| reordering.window(Some(MS * 8), Some(MS * 10));
        assert_eq!(window(&reordering), MS * 2);
        for _ in 0..400 {
            reordering.grow(Seq::new(0), Seq::new(400));
        }
        assert_eq!(window(&reordering), MS * 4);
        for round in 1..10 {
            reordering.grow(Seq::new(round * 400), Seq::new(round * 400 + 400));
        }
        assert_eq!(window(&reordering), MS * 10, "no longer than a round trip");
        for round in 10..26 {
            assert_eq!(window(&reordering), MS * 10);
            reordering.repair(Seq::new(round * 400), Seq::new(round * 400 + 400));
        }
        assert_eq!(window(&reordering), MS * 2);
    }
}
