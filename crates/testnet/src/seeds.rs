//! Runs many seeds and gathers what came of them.

use crate::report::{Failure, Network, Report};
use crate::violation::{Invariant, Violation};
use crate::{sides, world};

/// Every so many seeds one runs twice (I10).
const TWICE_EVERY: u64 = 32;

/// Every so many seeds one is run with I/O nodes as well.
const SIDES_EVERY: u64 = 16;

/// Runs `seeds`, of one kind of network or of both as a run of all does; gives the merged report of those that went well, and the failures.
pub fn run_all(seeds: impl Iterator<Item = u64>, only: Option<Network>) -> (Report, Vec<Failure>) {
    let mut report = Report::default();
    let mut failures = Vec::new();
    for seed in seeds {
        let usual = [Network::Direct, Network::Sides];
        let usual = &usual[..if seed.is_multiple_of(SIDES_EVERY) { 2 } else { 1 }];
        for network in only.as_ref().map_or(usual, std::slice::from_ref) {
            match run_checked(*network, seed) {
                Ok(one) => report.merge(&one),
                Err(failure) => failures.push(*failure),
            }
        }
    }
    (report, failures)
}

/// Runs one seed of a network.
///
/// # Errors
///
/// The violation, with what is needed to repeat it.
pub fn run(network: Network, seed: u64, prints: bool) -> Result<Report, Box<Failure>> {
    match network {
        Network::Direct => world::run(seed, prints),
        Network::Sides => sides::run(seed, prints),
    }
}

/// Runs one seed, and now and then a second time to compare the traces.
///
/// # Errors
///
/// The violation, with what is needed to repeat it.
pub fn run_checked(network: Network, seed: u64) -> Result<Report, Box<Failure>> {
    let report = run(network, seed, false)?;
    if seed.is_multiple_of(TWICE_EVERY) {
        check_repetition(&report, &run(network, seed, false)?).map_err(|violation| {
            Box::new(Failure { seed, network, violation, at: weft_base::Instant::ZERO, last: String::new() })
        })?;
    }
    Ok(report)
}

/// Two runs of one seed must give one trace.
///
/// # Errors
///
/// If they do not.
pub fn check_repetition(one: &Report, two: &Report) -> Result<(), Violation> {
    crate::violation::ensure((one.hash, one.events) == (two.hash, two.events), Invariant::Repetition, || {
        format!(
            "{} events with hash {:016x}, then {} with {:016x}",
            one.events, one.hash, two.events, two.hash
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_trace_and_another_seed_another() {
        let run = |seed| world::run(seed, false).unwrap_or_else(|failure| panic!("{failure}"));
        let (one, two, other) = (run(3), run(3), run(4));
        assert_eq!(check_repetition(&one, &two), Ok(()));
        assert_eq!(check_repetition(&one, &other).unwrap_err().invariant, Invariant::Repetition);
    }
}
