//! Which of two ways to send what lies in pages of its own is the faster one here.
//!
//! What is spliced saves a copy and takes counted references to its pages; and its sender writes to memory that another core has
//! just read. Which costs more differs between processors, and between minutes on one of them (decisions 0046, 0076, 0094). Nothing that a
//! process can ask tells, so both are tried in turns, and the rate that the link takes bytes at decides: what a way costs elsewhere,
//! at either end, is in it.

/// Packets, or groups, of a round, all sent one way.
const ROUND_SENDS: u32 = 256;
/// The first ones of a round, before its time is taken: the memory in use is as the other way left it.
const SETTLING_SENDS: u32 = 64;
/// Rounds of a contest, in turns: of each way the quickest counts, so that neither a pause nor another program decides.
const CONTEST_ROUNDS: u32 = 6;
/// Rounds from the beginning of a contest to that of the next: at 64 KiB a send 8 GiB, of which the slower way has 48 MiB.
const CYCLE_ROUNDS: u32 = 512;
/// The same where the ways were about as fast, or are compared for the first time: half a gibibyte.
const SHORT_CYCLE_ROUNDS: u32 = 32;
/// The slower way took that many hundredths of the other's time, or less.
const ABOUT_AS_FAST_PERCENT: u64 = 115;
/// Rounds of a cycle that cost another amount than the contest foretold, after which the next one begins: threads have moved.
const OTHER_ROUNDS_MAX: u32 = 64;

/// How packets go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Copied,
    Spliced,
}

/// How far a link is: the time in nanoseconds, and bytes that it took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Mark {
    pub(super) nanos: u64,
    pub(super) bytes: u64,
}

impl Mark {
    /// Nanoseconds that a mebibyte took since then.
    fn cost_since(self, then: Self) -> u64 {
        let (nanos, bytes) = (self.nanos.saturating_sub(then.nanos), self.bytes.saturating_sub(then.bytes));
        (nanos << 20) / bytes.max(1)
    }
}

/// Counts what is sent and takes times. Until the first contest is over, which begins with a copy, nothing is known.
#[derive(Debug)]
pub(super) struct Contest {
    /// Sends of this round, and rounds of this cycle.
    sends: u32,
    rounds: u32,
    /// Rounds of this cycle in all, which is short until its contest is over.
    cycle_rounds: u32,
    /// Those that cost another amount than was foretold.
    other_rounds: u32,
    was_contested: bool,
    way: Way,
    /// Where the measured part of this round began.
    since: Mark,
    /// The least cost of a round of either way.
    copied: u64,
    spliced: u64,
}

impl Default for Contest {
    fn default() -> Self {
        Self {
            sends: 0,
            rounds: 0,
            cycle_rounds: SHORT_CYCLE_ROUNDS,
            other_rounds: 0,
            was_contested: false,
            way: Way::Copied,
            since: Mark::default(),
            copied: u64::MAX,
            spliced: u64::MAX,
        }
    }
}

impl Contest {
    /// The ways were compared before.
    fn again() -> Self {
        Self { was_contested: true, ..Self::default() }
    }

    /// How what was sent last went, and what is sent next does, unless a round ends between them.
    pub(super) fn way(&self) -> Way {
        self.way
    }

    /// The way of what is sent next; `mark` tells how far the link is, and is asked twice a round.
    #[inline]
    pub(super) fn next(&mut self, mark: impl FnOnce() -> Mark) -> Way {
        if self.sends == SETTLING_SENDS {
            self.since = mark();
        } else if self.sends == ROUND_SENDS {
            self.end_round(mark());
        }
        self.sends += 1;
        self.way
    }

    #[cold]
    fn end_round(&mut self, mark: Mark) {
        let cost = mark.cost_since(self.since);
        if self.rounds >= CONTEST_ROUNDS {
            self.other_rounds += u32::from(!self.is_foretold(cost));
        } else if self.way == Way::Copied {
            self.copied = cost.min(self.copied);
        } else {
            self.spliced = cost.min(self.spliced);
        }
        self.sends = 0;
        self.rounds += 1;
        if self.rounds == self.cycle_rounds || self.other_rounds == OTHER_ROUNDS_MAX {
            *self = Self::again();
        } else if self.rounds < CONTEST_ROUNDS {
            self.way = if self.rounds.is_multiple_of(2) { Way::Copied } else { Way::Spliced };
        } else if self.rounds == CONTEST_ROUNDS {
            self.decide();
        }
    }

    fn decide(&mut self) {
        self.way = if self.spliced < self.copied { Way::Spliced } else { Way::Copied };
        let (least, most) = self.costs();
        let is_clear = most > least.saturating_mul(ABOUT_AS_FAST_PERCENT) / 100;
        if is_clear && self.was_contested {
            self.cycle_rounds = CYCLE_ROUNDS;
        }
    }

    /// Of the faster way and of the other one.
    fn costs(&self) -> (u64, u64) {
        (self.spliced.min(self.copied), self.spliced.max(self.copied))
    }

    /// Whether a round costs about what the faster way did, and less than the other one.
    fn is_foretold(&self, cost: u64) -> bool {
        let (least, most) = self.costs();
        (least - least / 4..=most).contains(&cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After so many sends of a mebibyte.
    fn mark(nanos: u64, sends: u32) -> Mark {
        Mark { nanos, bytes: u64::from(sends) << 20 }
    }

    /// The ways of `rounds` rounds of packets that take as long as `cost` says by round and way.
    fn ways(rounds: u32, cost: impl Fn(u32, Way) -> u64) -> Vec<Way> {
        let (mut contest, mut now, mut ways) = (Contest::default(), 0, Vec::new());
        for packet in 0..rounds * ROUND_SENDS {
            let way = contest.next(|| mark(now, packet));
            now += cost(packet / ROUND_SENDS, way);
            if packet % ROUND_SENDS == 0 {
                ways.push(way);
            } else {
                assert_eq!(ways.last(), Some(&way), "a round goes one way");
            }
        }
        ways
    }

    fn spliced(ways: &[Way]) -> usize {
        ways.iter().filter(|&&way| way == Way::Spliced).count()
    }

    fn cost(way: Way, copied: u64, spliced: u64) -> u64 {
        match way {
            Way::Copied => copied,
            Way::Spliced => spliced,
        }
    }

    #[test]
    fn the_faster_way_has_all_rounds_but_those_of_the_contest() {
        let rounds = SHORT_CYCLE_ROUNDS + CYCLE_ROUNDS;
        let fast_copies = ways(rounds, |_, way| cost(way, 5, 8));
        assert_eq!(spliced(&fast_copies), 2 * 3);
        let slow_copies = ways(rounds, |_, way| cost(way, 8, 5));
        assert_eq!(spliced(&slow_copies), rounds as usize - 2 * 3);
        let contest = slow_copies[..CONTEST_ROUNDS as usize].as_chunks().0;
        assert!(contest.iter().all(|pair| *pair == [Way::Copied, Way::Spliced]), "in turns, copies first");
    }

    #[test]
    fn ways_that_are_about_as_fast_are_compared_again_soon() {
        let cycles = 4;
        let rounds = ways(cycles * SHORT_CYCLE_ROUNDS, |_, way| cost(way, 100, 110));
        assert_eq!(spliced(&rounds), cycles as usize * 3);
        let other = ways(cycles * SHORT_CYCLE_ROUNDS, |_, way| cost(way, 100, 120));
        assert_eq!(spliced(&other), 2 * 3);
    }

    #[test]
    fn a_pause_in_two_rounds_of_the_faster_way_changes_nothing() {
        let chosen = ways(
            SHORT_CYCLE_ROUNDS,
            |round, way| if [1, 3].contains(&round) { 1_000 } else { cost(way, 8, 7) },
        );
        assert_eq!(chosen[CONTEST_ROUNDS as usize], Way::Spliced);
    }

    #[test]
    fn what_has_changed_is_found_out_soon() {
        let (changed, last) = (SHORT_CYCLE_ROUNDS + 100, SHORT_CYCLE_ROUNDS + CYCLE_ROUNDS - 1);
        let after = |spliced, copied| {
            let later = move |way| cost(way, copied, spliced);
            ways(last + 1, |round, way| if round < changed { cost(way, 8, 5) } else { later(way) })
        };
        let soon = (changed + OTHER_ROUNDS_MAX + CONTEST_ROUNDS) as usize;
        assert_eq!(after(16, 7)[changed as usize + 10], Way::Spliced);
        assert_eq!(after(16, 7)[soon..][..20], [Way::Copied; 20], "it costs more than the other way did");
        assert_eq!(after(3, 2)[soon..][..20], [Way::Copied; 20], "it costs far less than it did");
        assert_eq!(spliced(&after(6, 9)), last as usize + 1 - 2 * 3, "it costs a little more: no contest");
    }

    #[test]
    fn what_costs_less_by_the_byte_is_the_faster_way() {
        let (mut contest, mut now) = (Contest::default(), Mark::default());
        for _ in 0..CONTEST_ROUNDS * ROUND_SENDS {
            let (nanos, bytes) =
                if contest.next(|| now) == Way::Copied { (1_000, 16 << 20) } else { (2_500, 44 << 20) };
            now = Mark { nanos: now.nanos + nanos, bytes: now.bytes + bytes };
        }
        assert_eq!(contest.next(|| now), Way::Spliced);
    }

    #[test]
    fn how_a_round_begins_does_not_count() {
        let (mut contest, mut now) = (Contest::default(), 0);
        let all = CONTEST_ROUNDS * ROUND_SENDS;
        for packet in 0..all {
            let way = contest.next(|| mark(now, packet));
            // a spliced packet is the quicker one, but for those that find the memory as copies left it
            let is_settled = packet % ROUND_SENDS >= SETTLING_SENDS;
            now += cost(way, 8, if is_settled { 7 } else { 100 });
        }
        assert_eq!(contest.next(|| mark(now, all)), Way::Spliced);
    }
}
