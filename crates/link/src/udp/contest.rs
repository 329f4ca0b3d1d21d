//! Which of two ways to send large packets is the faster one here.
//!
//! A packet that is spliced saves a copy and takes counted references to its pages; and its sender writes to memory that another
//! core has just read. Which costs more differs between processors, and between minutes on one of them (decisions 0046, 0076). Nothing that
//! a process can ask tells, so both are tried in turns, and the rate that packets are taken at decides: what a way costs elsewhere,
//! at either end, is in it.

/// Packets of a round, all sent one way.
const ROUND_PACKETS: u32 = 256;
/// The first packets of a round, before its time is taken: the memory in use is as the other way left it.
const SETTLING_PACKETS: u32 = 64;
/// Rounds of a contest, in turns: of each way the quickest counts, so that neither a pause nor another program decides.
const CONTEST_ROUNDS: u32 = 6;
/// Rounds from the beginning of a contest to that of the next: at 64 KiB a packet 8 GiB, of which the slower way has 48 MiB.
const CYCLE_ROUNDS: u32 = 512;
/// The same where the ways were about as fast, or are compared for the first time: half a gibibyte.
const SHORT_CYCLE_ROUNDS: u32 = 32;
/// The slower way took that many hundredths of the other's time, or less.
const ABOUT_AS_FAST_PERCENT: u64 = 115;

/// How the next packet goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Copied,
    Spliced,
}

/// Counts packets and takes times. Until the first contest is over, which begins with a copy, nothing is known.
#[derive(Debug)]
pub(super) struct Contest {
    /// Packets of this round, and rounds of this cycle.
    packets: u32,
    rounds: u32,
    /// Rounds of this cycle in all, which is short until its contest is over.
    cycle_rounds: u32,
    was_contested: bool,
    way: Way,
    /// When the time of this round began, in nanoseconds.
    since: u64,
    /// The least nanoseconds of a round of either way.
    copied: u64,
    spliced: u64,
}

impl Default for Contest {
    fn default() -> Self {
        Self {
            packets: 0,
            rounds: 0,
            cycle_rounds: SHORT_CYCLE_ROUNDS,
            was_contested: false,
            way: Way::Copied,
            since: 0,
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

    /// The way of the next packet; `now` tells the time in nanoseconds, and is asked twice a round of a contest.
    #[inline]
    pub(super) fn next(&mut self, now: impl FnOnce() -> u64) -> Way {
        if self.packets == SETTLING_PACKETS && self.rounds < CONTEST_ROUNDS {
            self.since = now();
        } else if self.packets == ROUND_PACKETS {
            self.end_round(now);
        }
        self.packets += 1;
        self.way
    }

    #[cold]
    fn end_round(&mut self, now: impl FnOnce() -> u64) {
        if self.rounds < CONTEST_ROUNDS {
            let took = now().saturating_sub(self.since);
            let least = match self.way {
                Way::Copied => &mut self.copied,
                Way::Spliced => &mut self.spliced,
            };
            *least = took.min(*least);
        }
        self.packets = 0;
        self.rounds += 1;
        if self.rounds == self.cycle_rounds {
            *self = Self::again();
        } else if self.rounds < CONTEST_ROUNDS {
            self.way = if self.rounds.is_multiple_of(2) { Way::Copied } else { Way::Spliced };
        } else if self.rounds == CONTEST_ROUNDS {
            self.decide();
        }
    }

    fn decide(&mut self) {
        self.way = if self.spliced < self.copied { Way::Spliced } else { Way::Copied };
        let (least, most) = (self.spliced.min(self.copied), self.spliced.max(self.copied));
        let is_clear = most > least.saturating_mul(ABOUT_AS_FAST_PERCENT) / 100;
        if is_clear && self.was_contested {
            self.cycle_rounds = CYCLE_ROUNDS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ways of `rounds` rounds of packets that take as long as `cost` says by round and way.
    fn ways(rounds: u32, cost: impl Fn(u32, Way) -> u64) -> Vec<Way> {
        let (mut contest, mut now, mut ways) = (Contest::default(), 0, Vec::new());
        for packet in 0..rounds * ROUND_PACKETS {
            let way = contest.next(|| now);
            now += cost(packet / ROUND_PACKETS, way);
            if packet % ROUND_PACKETS == 0 {
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
    fn what_has_changed_is_found_out_in_the_next_cycle() {
        let changed = SHORT_CYCLE_ROUNDS + 100;
        let chosen = ways(
            2 * CYCLE_ROUNDS,
            |round, way| {
                if round < changed { cost(way, 8, 5) } else { cost(way, 7, 16) }
            },
        );
        assert_eq!(chosen[changed as usize + 100], Way::Spliced);
        assert_eq!(chosen[(SHORT_CYCLE_ROUNDS + CYCLE_ROUNDS + CONTEST_ROUNDS) as usize], Way::Copied);
    }

    #[test]
    fn how_a_round_begins_does_not_count() {
        let (mut contest, mut now) = (Contest::default(), 0);
        for packet in 0..=CONTEST_ROUNDS * ROUND_PACKETS {
            let way = contest.next(|| now);
            // a spliced packet is the quicker one, but for those that find the memory as copies left it
            let is_settled = packet % ROUND_PACKETS >= SETTLING_PACKETS;
            now += cost(way, 8, if is_settled { 7 } else { 100 });
        }
        assert_eq!(contest.next(|| now), Way::Spliced);
    }
}
