//! What is to be reported of each path: losses, deliveries, and a default that loses much without being dead.

use std::time::Duration;

use weft_base::{Instant, Seq};

use super::{PATHS_MAX, Paths};

/// [CDP-IO-5] At so many losses the default changes.
const LOSSES: u32 = 3;
/// A default that loses a fifth in each of three rounds is sick: a controller that met congestion has answered it by then.
const SICK_ROUNDS: u32 = 3;
const SICK_PART: u32 = 5;
/// Numbers in a round at least, as fewer tell little.
const ROUND_MIN: u32 = 8;

/// What a connection has learnt of one path since it last told, in the order in which it happened (CDP-IO-4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathReport {
    /// The path.
    pub path: u8,
    /// Something that was sent once by this path was acknowledged: the count of losses before is void.
    pub was_cleared: bool,
    /// Losses since then, as far as the peer was heard after them; at three the default changes (CDP-IO-5). A default
    /// that lost much in three rounds in a row counts as having lost three, although some of what it carries arrives.
    pub lost: u32,
    /// A probe of this path was answered after so long (CDP-IO-6).
    pub answered_after: Option<Duration>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    was_cleared: bool,
    lost: u32,
    is_sick: bool,
    answered_after: Option<Duration>,
}

/// What became of the numbers of about one round trip that went by the default.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// It ends when it is known what became of all numbers before this one.
    end: Seq,
    delivered: u32,
    lost: u32,
    /// Rounds before it in a row in which much was lost.
    bad: u32,
}

impl Round {
    fn new(end: Seq, bad: u32) -> Self {
        Self { end, delivered: 0, lost: 0, bad }
    }

    /// The round after this one, which begins at `end`.
    fn next(self, end: Seq) -> Self {
        let is_bad = self.lost * SICK_PART >= self.lost + self.delivered;
        Self::new(end, if is_bad { self.bad + 1 } else { 0 })
    }
}

/// What there is to be reported of each path.
#[derive(Clone, Debug)]
pub(crate) struct Tallies {
    members: [Tally; PATHS_MAX as usize],
    /// One bit for each path of which there is something.
    news: u16,
    default: u8,
    /// When the peer was last heard, by whichever path.
    heard_at: Instant,
    /// One bit for each path that has lost something since.
    silent: u16,
    /// What became of all numbers before this one is known and told.
    pub(crate) settled: Seq,
    round: Round,
}

impl Tallies {
    pub(crate) fn new(paths: Paths, settled: Seq) -> Self {
        Self {
            members: [Tally::default(); PATHS_MAX as usize],
            news: 0,
            default: paths.default,
            heard_at: Instant::ZERO,
            silent: 0,
            settled,
            round: Round::new(settled, 0),
        }
    }

    /// The default is another; numbers from `nxt` on go by it.
    pub(crate) fn set_default(&mut self, paths: Paths, nxt: Seq) {
        self.default = paths.default;
        self.round = Round::new(nxt, 0);
    }

    /// Ends the round if it is over; `nxt` is the next number to be sent.
    pub(crate) fn end_round(&mut self, nxt: Seq) {
        let Round { end, delivered, lost, .. } = self.round;
        if self.settled.is_before(end) || delivered + lost < ROUND_MIN {
            return;
        }
        self.round = self.round.next(nxt);
        if self.round.bad == SICK_ROUNDS {
            self.round.bad = 0;
            self.at(self.default).is_sick = true;
        }
    }

    fn at(&mut self, path: u8) -> &mut Tally {
        let path = path % PATHS_MAX;
        self.news |= 1 << path;
        &mut self.members[usize::from(path)]
    }

    /// A number was lost by a path that brought a later one: as a later delivery clears its count, only the round knows.
    pub(crate) fn note_gap(&mut self, path: u8) {
        self.round.lost += u32::from(path == self.default);
    }

    /// [CDP-IO-14] The peer is heard. What was lost in its silence was not lost because there was no peer, so it counts now, as one
    /// for each path.
    pub(crate) fn note_heard(&mut self, now: Instant) {
        self.heard_at = now;
        let silent = std::mem::take(&mut self.silent);
        (0..PATHS_MAX).filter(|path| silent & 1 << path != 0).for_each(|path| self.note_loss(path));
    }

    /// Whether nothing was lost since the peer was last heard.
    pub(crate) fn is_in_touch(&self) -> bool {
        self.silent == 0
    }

    /// What went by `path` at `sent_at` is lost, as far as anybody can tell while the peer is silent.
    pub(crate) fn note_loss_since(&mut self, path: u8, sent_at: Instant) {
        if sent_at < self.heard_at {
            self.note_loss(path);
        } else {
            self.silent |= 1 << (path % PATHS_MAX);
        }
    }

    /// [CDP-IO-4] A number declared lost counts against the member its last transmission went through.
    pub(crate) fn note_loss(&mut self, path: u8) {
        self.note_gap(path);
        let tally = self.at(path);
        tally.lost = tally.lost.saturating_add(1);
    }

    /// [CDP-IO-4] The acknowledgement of a number sent once clears the count of its member.
    pub(crate) fn note_delivery(&mut self, path: u8) {
        self.round.delivered += u32::from(path == self.default);
        let tally = self.at(path);
        (tally.was_cleared, tally.lost) = (true, 0);
    }

    pub(crate) fn note_answer(&mut self, path: u8, after: Duration) {
        self.at(path).answered_after = Some(after);
    }

    /// The report of one path of which there is news.
    pub(crate) fn take(&mut self) -> Option<PathReport> {
        if self.news == 0 {
            return None;
        }
        let path = self.news.trailing_zeros() as usize;
        self.news &= self.news - 1;
        let Tally { was_cleared, lost, is_sick, answered_after } = std::mem::take(&mut self.members[path]);
        let lost = if is_sick { lost.max(LOSSES) } else { lost };
        Some(PathReport { path: u8::try_from(path).unwrap_or(0), was_cleared, lost, answered_after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(path: u8) -> PathReport {
        PathReport { path, was_cleared: false, lost: 0, answered_after: None }
    }

    fn tallies() -> Tallies {
        Tallies::new(Paths::new(16, 0).unwrap(), Seq::new(5))
    }

    /// [CDP-IO-4] Losses add up until a delivery.
    #[test]
    fn a_delivery_clears_losses() {
        let mut tallies = tallies();
        assert_eq!(tallies.take(), None);
        for path in [0, 0, 1, 1, 1] {
            tallies.note_loss(path);
        }
        tallies.note_delivery(0);
        tallies.note_loss(0);
        tallies.note_answer(15, Duration::from_millis(2));
        assert_eq!(tallies.take(), Some(PathReport { was_cleared: true, lost: 1, ..report(0) }));
        assert_eq!(tallies.take(), Some(PathReport { lost: 3, ..report(1) }));
        assert_eq!(
            tallies.take(),
            Some(PathReport { answered_after: Some(Duration::from_millis(2)), ..report(15) })
        );
        assert_eq!(tallies.take(), None);
    }

    /// [CDP-IO-14] What is lost while nothing is heard counts when something is, and as one for each path.
    #[test]
    fn losses_of_a_silent_peer_wait_for_it() {
        let at = Instant::from_nanos;
        let mut tallies = tallies();
        tallies.note_heard(at(10));
        tallies.note_loss_since(0, at(9));
        assert_eq!(
            (tallies.take(), tallies.is_in_touch()),
            (Some(PathReport { lost: 1, ..report(0) }), true)
        );
        for time in 10..20 {
            tallies.note_loss_since((time % 2) as u8, at(time));
        }
        assert_eq!((tallies.take(), tallies.is_in_touch()), (None, false));
        tallies.note_heard(at(20));
        let reports: Vec<_> = std::iter::from_fn(|| tallies.take()).collect();
        assert_eq!(reports, [0, 1].map(|path| PathReport { lost: 1, ..report(path) }));
        assert!(tallies.is_in_touch());
    }

    /// Rounds of ten numbers with so many losses, and whether the default counts as sick after them.
    fn is_sick(losses: &[u32]) -> bool {
        let mut tallies = tallies();
        for lost in losses {
            for number in 0..10 {
                if number < *lost { tallies.note_loss(0) } else { tallies.note_delivery(0) }
            }
            tallies.settled += 10;
            tallies.end_round(tallies.settled);
        }
        tallies.take().unwrap().lost >= LOSSES
    }

    /// [CDP-IO-10] Much loss in three rounds in a row is no congestion.
    #[test]
    fn a_default_that_loses_much_for_three_rounds_is_sick() {
        assert!(is_sick(&[3, 2, 4]));
        assert!(!is_sick(&[3, 2, 1, 5, 5]));
        assert!(!is_sick(&[1; 20]));
        assert!(is_sick(&[0, 9, 0, 2, 2, 2]));
    }
}
