//! What a run came to: figures of one that went well, and everything needed to repeat one that did not.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use weft_base::Instant;

use crate::end::End;
use crate::path::PathCounts;
use crate::plan::{Plan, Trouble};
use crate::sides::Figures;
use crate::violation::Violation;

/// A run in which an invariant did not hold.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What it is the seed of.
    pub network: Network,
    /// What did not hold.
    pub violation: Violation,
    /// When, in virtual time.
    pub at: Instant,
    /// The last events.
    pub last: String,
}

/// What a seed is drawn for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Network {
    /// Nodes that reach each other directly ([`crate::world`]).
    Direct,
    /// Two networks with I/O nodes between them ([`crate::sides`]).
    Sides,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} at {:?}: {}", self.seed, self.at, self.violation)?;
        writeln!(f, "the last events:\n{}", self.last)?;
        let network = if self.network == Network::Sides { "--sides " } else { "" };
        writeln!(
            f,
            "to repeat it:\n  cargo run -p weft-testnet --release -- {network}--seed {} --trace",
            self.seed
        )
    }
}

impl std::error::Error for Failure {}

/// Upper limits of the classes of loss that throughput is told by.
pub const LOSS_CLASSES: [f64; 6] = [0.0, 0.001, 0.01, 0.05, 0.1, 0.3];

/// Figures of one run, or of many merged.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Runs.
    pub runs: u64,
    /// Trace hash of the run; of many, the XOR of theirs.
    pub hash: u64,
    /// Events in the journal.
    pub events: u64,
    /// Virtual time.
    pub time: Duration,
    /// What the paths did.
    pub paths: PathCounts,
    /// Troubles by kind.
    pub troubles: BTreeMap<&'static str, u64>,
    /// Ends by how they ended.
    pub endings: BTreeMap<String, u64>,
    /// Time between open and close, summed over all ends that had a peer.
    pub transfers: [Transfers; LOSS_CLASSES.len()],
    /// Numbers sent and repeated.
    pub numbers: (u64, u64),
    /// Runs with I/O nodes.
    pub sides: Figures,
}

/// Exchanges of one class of loss.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transfers {
    /// Completed.
    pub count: u64,
    /// Bytes read in both directions.
    pub bytes: u64,
    /// Time from the open to the last read.
    pub time: Duration,
}

impl Report {
    /// The report of one run, without ends and paths.
    #[must_use]
    pub fn new(plan: &Plan, hash: u64, events: u64, now: Instant) -> Self {
        let mut report = Self { runs: 1, hash, events, time: now - Instant::ZERO, ..Self::default() };
        for (_, trouble) in &plan.troubles {
            let kind = match trouble {
                Trouble::Black { is_black: true, .. } => "black holes",
                Trouble::Delay { extra, .. } if !extra.is_zero() => "delay spikes",
                Trouble::Mtu { .. } => "MTU changes",
                Trouble::Crash { .. } => "crashes",
                Trouble::Suspend { .. } => "suspensions",
                Trouble::Black { .. } | Trouble::Delay { .. } | Trouble::Restart { .. } => continue,
            };
            *report.troubles.entry(kind).or_default() += 1;
        }
        report
    }

    /// Adds one end.
    pub fn add_end(&mut self, end: &End) {
        let how = match &end.connection {
            None => "crashed".to_owned(),
            Some(connection) => match (connection.error(), connection.close_result()) {
                (Some(error), _) => error.to_string(),
                (None, Some(result)) if result.confirmed => "closed, confirmed".to_owned(),
                (None, _) => "closed, unconfirmed".to_owned(),
            },
        };
        *self.endings.entry(how).or_default() += 1;
        let sent = end.watch.sent();
        self.numbers.0 += sent.numbers;
        self.numbers.1 += sent.repeated;
    }

    /// Adds an exchange that had to complete, over a path of this loss.
    pub fn add_transfer(&mut self, loss: f64, one: &End, two: &End) {
        let class = LOSS_CLASSES.iter().position(|limit| loss <= *limit).unwrap_or(LOSS_CLASSES.len() - 1);
        let transfers = &mut self.transfers[class];
        transfers.count += 1;
        transfers.bytes += one.user.watch().bytes() + two.user.watch().bytes();
        transfers.time += one.user.reading_time().max(two.user.reading_time());
    }

    /// Adds another report.
    pub fn merge(&mut self, other: &Self) {
        self.runs += other.runs;
        self.hash ^= other.hash;
        self.events += other.events;
        self.time += other.time;
        self.paths.merge(&other.paths);
        for (kind, count) in &other.troubles {
            *self.troubles.entry(kind).or_default() += count;
        }
        for (how, count) in &other.endings {
            *self.endings.entry(how.clone()).or_default() += count;
        }
        for (own, theirs) in self.transfers.iter_mut().zip(&other.transfers) {
            own.count += theirs.count;
            own.bytes += theirs.bytes;
            own.time += theirs.time;
        }
        self.numbers.0 += other.numbers.0;
        self.numbers.1 += other.numbers.1;
        self.sides.merge(&other.sides);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seeds              {}", self.runs.max(self.sides.runs))?;
        writeln!(f, "events             {}", self.events)?;
        writeln!(f, "simulated time     {:.1} h", self.time.as_secs_f64() / 3_600.0)?;
        writeln!(f, "numbers            {} sent, {} repeated", self.numbers.0, self.numbers.1)?;
        writeln!(f, "hash of all traces {:016x}", self.hash)?;
        if self.runs > 0 {
            self.write_direct(f)?;
        }
        if self.sides.runs > 0 {
            write!(f, "{}", self.sides)?;
        }
        Ok(())
    }
}

impl Report {
    fn write_direct(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_faults(f)?;
        writeln!(f, "\nends")?;
        for (how, count) in &self.endings {
            writeln!(f, "  {count:>9}  {how}")?;
        }
        writeln!(
            f,
            "\nexchanges that had to complete, by loss on the way (paths, sizes and windows are mixed)"
        )?;
        writeln!(f, "  loss up to   exchanges     bytes read     mean rate")?;
        for (limit, transfers) in LOSS_CLASSES.iter().zip(&self.transfers) {
            let rate = transfers.bytes as f64 / transfers.time.as_secs_f64().max(1e-9) / 1e3;
            let percent = limit * 100.0;
            writeln!(
                f,
                "  {percent:>8} %  {:>9}  {:>13}  {rate:>9.0} kB/s",
                transfers.count, transfers.bytes
            )?;
        }
        Ok(())
    }

    fn write_faults(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = &self.paths;
        let of_packets = [
            ("offered", paths.offered),
            ("arrived", paths.carried),
            ("lost at random", paths.lost),
            ("lost in bursts", paths.lost_in_burst),
            ("in black holes", paths.black),
            ("over the MTU", paths.too_long),
            ("over the queue", paths.overflowed),
            ("doubled", paths.doubled),
            ("replayed", paths.replayed),
            ("held back", paths.reordered),
            ("damaged", paths.damaged),
            ("marked CE", paths.marked),
        ];
        writeln!(f, "\npackets")?;
        for (kind, count) in of_packets {
            writeln!(f, "  {count:>9}  {kind}")?;
        }
        writeln!(f, "\ntroubles")?;
        for (kind, count) in &self.troubles {
            writeln!(f, "  {count:>9}  {kind}")?;
        }
        Ok(())
    }
}
