//! A queue that stays, and is lossy, although this flow holds back: others fill it who answer no losses.
//!
//! To hold back further leaves them all of the path. So losses do not count as congestion then, up to the most that noise may
//! be, and the model sends what it knows to be delivered, as they do. Flows of the model may take each other for such: so
//! each of them that sees the queue become much shorter takes it that another keeps it empty, and does the same. If they
//! were alone it is empty then, and all of them are as before.

use super::Ack;

/// Consecutive rounds in which little was sent.
const QUIET_ROUNDS: u32 = 6;
/// Answers to losses of such rounds, since the queue was last seen empty.
const REACTIONS: u32 = 3;
/// Packets that the flow's part of the path holds at least: several that hold less and press on fill a queue for each other.
const HELD_MIN: f64 = 64.0;
/// Weight of a round trip in the mean.
const WEIGHT: f64 = 0.125;
/// Of the longest queue, which is forgotten by this part a round, so much is much less.
const SHORTER: f64 = 0.7;
const REMEMBERED: f64 = 0.98;
/// A packet that waits for this part of the least round trip, and for half a clump of acknowledgements, finds a foreign queue empty.
const EMPTY: f64 = 0.06;

/// What is known of the queue since it was last seen empty.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    quiet_rounds: u32,
    reactions: u32,
    is_foreign: bool,
    /// Seconds that a packet waits, lately and at most.
    wait: f64,
    longest: f64,
}

impl Standing {
    /// Takes in a round trip, which was short or not, where acknowledgements come in clumps of `clump` seconds. True if others seem to
    /// keep the queue empty.
    pub(super) fn handle_ack(&mut self, ack: &Ack, is_short: bool, clump: f64) -> bool {
        let (Some(rtt), Some(least)) = (ack.rtt, ack.min_rtt) else { return false };
        let wait = (rtt - least).as_secs_f64();
        let is_empty = !self.is_foreign || wait <= EMPTY * least.as_secs_f64() + clump / 2.0;
        if is_short && is_empty {
            *self = Self::default();
            return false;
        }
        self.wait += (wait - self.wait) * WEIGHT;
        self.longest = self.longest.max(self.wait);
        let is_shorter = self.is_foreign && self.wait < SHORTER * self.longest;
        if is_shorter {
            self.longest = self.wait;
        }
        is_shorter
    }

    /// Losses were answered while little was sent.
    pub(super) fn note_reaction(&mut self) {
        self.reactions += 1;
    }

    /// This flow has kept the queue empty, as far as it could: what comes is longer.
    pub(super) fn note_emptied(&mut self) {
        self.longest = 0.0;
    }

    /// Takes in a round, in which little was sent or not, over a path that is taken to hold `held` packets of this flow. True if it
    /// has just become clear that the queue is of others.
    pub(super) fn end_round(&mut self, is_quiet: bool, held: f64) -> bool {
        self.longest *= REMEMBERED;
        self.quiet_rounds = if is_quiet { self.quiet_rounds + 1 } else { 0 };
        let is_clear = self.quiet_rounds >= QUIET_ROUNDS && self.reactions >= REACTIONS && held >= HELD_MIN;
        let is_new = is_clear && !self.is_foreign;
        self.is_foreign |= is_clear;
        is_new
    }

    /// Whether others fill the queue and answer no losses.
    pub(super) fn is_foreign(&self) -> bool {
        self.is_foreign
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::ack;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn round_trip(standing: &mut Standing, rtt: Duration, is_short: bool) -> bool {
        standing.handle_ack(&Ack { rtt: Some(rtt), min_rtt: Some(MS), ..ack() }, is_short, 0.0)
    }

    /// Rounds with a long queue; losses are answered in the first `reactions` of them.
    fn standing(rounds: u32, reactions: u32, is_quiet: bool, held: f64) -> Standing {
        let mut standing = Standing::default();
        for round in 0..rounds {
            (0..50).for_each(|_| _ = round_trip(&mut standing, 3 * MS, false));
            if round < reactions {
                standing.note_reaction();
            }
            let is_new = standing.end_round(is_quiet, held);
            assert_eq!(is_new, standing.is_foreign() && round + 1 == QUIET_ROUNDS);
        }
        standing
    }

    #[test]
    fn a_queue_that_stays_and_loses_while_little_is_sent_is_of_others() {
        assert!(standing(QUIET_ROUNDS, REACTIONS, true, HELD_MIN).is_foreign());
        assert!(!standing(QUIET_ROUNDS - 1, REACTIONS, true, HELD_MIN).is_foreign(), "too early");
        assert!(!standing(QUIET_ROUNDS, REACTIONS - 1, true, HELD_MIN).is_foreign(), "too few losses");
        assert!(!standing(QUIET_ROUNDS, REACTIONS, false, HELD_MIN).is_foreign(), "much was sent");
        assert!(!standing(QUIET_ROUNDS, REACTIONS, true, HELD_MIN - 1.0).is_foreign(), "a small share");
    }

    #[test]
    fn a_short_round_trip_ends_it() {
        let mut standing = standing(20, REACTIONS, true, HELD_MIN);
        assert!(!round_trip(&mut standing, MS, true) && !standing.is_foreign());
        (0..20).for_each(|_| assert!(!standing.end_round(true, HELD_MIN), "anew, with losses"));
    }

    /// Beside others that keep twice in flight what they take the path to hold the queue becomes short, but not empty, when this flow
    /// leaves it.
    #[test]
    fn a_foreign_queue_that_becomes_short_and_not_empty_is_foreign_still() {
        let at = MS + MS / 10;
        let ack = Ack { rtt: Some(at), min_rtt: Some(MS), ..ack() };
        let mut foreign = standing(20, REACTIONS, true, HELD_MIN);
        _ = foreign.handle_ack(&ack, true, 0.0);
        assert!(foreign.is_foreign(), "a tenth of the least round trip");
        _ = foreign.handle_ack(&ack, true, 0.000_1);
        assert!(!foreign.is_foreign(), "the end of a clump");
        let mut own = standing(QUIET_ROUNDS - 2, REACTIONS, true, HELD_MIN);
        _ = own.handle_ack(&ack, true, 0.0);
        (0..6).for_each(|_| assert!(!own.end_round(true, HELD_MIN), "short is enough before"));
    }

    #[test]
    fn who_sees_the_queue_become_much_shorter_is_told_once() {
        let told =
            |standing: &mut Standing, rtt| (0..50).filter(|_| round_trip(standing, rtt, false)).count();
        let mut foreign = standing(20, REACTIONS, true, HELD_MIN);
        assert_eq!(told(&mut foreign, 3 * MS - MS / 2), 0, "a quarter is not much");
        // from 2 ms to 0.4 and no further, each time by three tenths
        assert!((1..=6).contains(&told(&mut foreign, MS + MS * 2 / 5)));
        assert_eq!(told(&mut foreign, MS + MS * 2 / 5), 0);
        let mut own = standing(20, 0, true, HELD_MIN);
        assert_eq!(told(&mut own, MS + MS * 2 / 5), 0);
    }
}
