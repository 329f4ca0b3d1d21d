//! Two networks with I/O nodes between them, of which one after another fails.
//!
//! Hosts on one network and compute nodes on the other exchange streams through two to four I/O nodes, which decide by the
//! shipped [`weft_route::Forwarder`]; each end keeps its [`weft_route::IoSet`] and runs the shipped machine. A seed means a
//! [`plan::Plan`]: crashes and restarts, also one I/O node after another, partitions of one direction, drops, delays and
//! wrong tables. Whatever fails, one I/O node is always well, so no user may see an error (I8), every byte arrives in order
//! (I1), nothing stands still for long (I12), no packet is forwarded a fourth time (I13), a default that has lost three
//! numbers is left (I14), and it is the default again after it has come back (I15).
//!
//! ```
//! let report = weft_testnet::sides::run(1, false).expect("no invariant is violated");
//! assert!(report.sides.forwarded > 0);
//! ```

pub mod end;
pub mod io_node;
pub mod node;
pub mod plan;
mod world;

pub use self::world::{run, run_plan};

use std::collections::BTreeMap;
use std::time::Duration;

/// Figures of runs with I/O nodes.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Runs.
    pub runs: u64,
    /// Packets forwarded.
    pub forwarded: u64,
    /// Packets that I/O nodes dropped, by why.
    pub dropped: BTreeMap<String, u64>,
    /// Troubles by kind.
    pub troubles: BTreeMap<&'static str, u64>,
    /// Times a default was left, and times it came back.
    pub switches: u64,
    /// For each trouble of a default in use and each reader: how long nothing came, and the RTO of its sender then.
    pub stalls: Vec<Stall>,
}

/// How long a reader waited after the I/O node failed that its sender used.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    /// Longest time without data.
    pub pause: Duration,
    /// The sender's RTO when the trouble began.
    pub rto: Duration,
    /// Time between two writes.
    pub period: Duration,
}

impl Stall {
    /// What users may have to wait: one and a half RTO, ten milliseconds, and the time until the next write.
    #[must_use]
    pub fn limit(&self) -> Duration {
        self.rto * 3 / 2 + Duration::from_millis(10) + self.period
    }
}

impl Figures {
    /// Adds another run's.
    pub fn merge(&mut self, other: &Self) {
        self.runs += other.runs;
        self.forwarded += other.forwarded;
        self.switches += other.switches;
        for (why, count) in &other.dropped {
            *self.dropped.entry(why.clone()).or_default() += count;
        }
        for (kind, count) in &other.troubles {
            *self.troubles.entry(kind).or_default() += count;
        }
        self.stalls.extend(&other.stalls);
    }

    /// Stalls within [`Stall::limit`], and the longest.
    #[must_use]
    pub fn short_stalls(&self) -> (usize, Duration) {
        let short = self.stalls.iter().filter(|stall| stall.pause <= stall.limit()).count();
        (short, self.stalls.iter().map(|stall| stall.pause).max().unwrap_or_default())
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (short, longest) = self.short_stalls();
        writeln!(f, "\nwith I/O nodes: {} runs, {} packets forwarded", self.runs, self.forwarded)?;
        for (kind, count) in &self.troubles {
            writeln!(f, "  {count:>9}  {kind}")?;
        }
        for (why, count) in &self.dropped {
            writeln!(f, "  {count:>9}  not forwarded: {why}")?;
        }
        writeln!(f, "  {:>9}  changes of a default", self.switches)?;
        writeln!(
            f,
            "  {short} of {} stalls within 1.5 RTO + 10 ms, the longest {longest:.1?}",
            self.stalls.len()
        )
    }
}
