//! A modest number of seeds for every test run; the program `weft-testnet` runs as many as one likes.

use weft_testnet::plan::Plan;
use weft_testnet::report::Network;
use weft_testnet::violation::Invariant;
use weft_testnet::{seeds, world};

/// Every seed keeps I1 to I12; every thirty-second one runs twice for I10.
#[test]
fn the_first_seeds_violate_nothing() {
    let (report, failures) = seeds::run_all(0..120, Some(Network::Direct));
    if let Some(first) = failures.first() {
        panic!("{} of 120 seeds failed, the first:\n{first}", failures.len());
    }
    assert_eq!(report.runs, 120);
    assert!(report.paths.add_up(), "{:?}", report.paths);
}

/// The swarm reaches what it is meant to reach: each fault happens, and each way of ending.
#[test]
fn the_seeds_meet_every_fault_and_every_ending() {
    let (report, _) = seeds::run_all(1_000..1_100, Some(Network::Direct));
    let paths = &report.paths;
    let counts = [
        paths.lost,
        paths.lost_in_burst,
        paths.black,
        paths.too_long,
        paths.overflowed,
        paths.doubled,
        paths.replayed,
        paths.reordered,
        paths.damaged,
        paths.marked,
    ];
    assert!(counts.iter().all(|count| *count > 0), "{paths:?}");
    for kind in ["black holes", "delay spikes", "MTU changes", "crashes", "suspensions"] {
        assert!(report.troubles.contains_key(kind), "no {kind}");
    }
    for how in ["closed, confirmed", "closed, unconfirmed", "crashed"] {
        assert!(report.endings.contains_key(how), "nobody {how}");
    }
    assert!(report.endings.keys().any(|how| how.contains("reset")), "nobody was reset: {:?}", report.endings);
}

/// The checkers are awake: where nothing seals packets, damage on the way must be noticed by them.
#[test]
fn damage_without_a_seal_is_noticed() {
    let mut noticed = Vec::new();
    for seed in 0..30 {
        let mut plan = Plan::draw(seed);
        for path in &mut plan.paths {
            path.damage = 0.2;
        }
        for config in plan.services.iter_mut().map(|service| &mut service.config) {
            config.integrity = false;
        }
        for session in &mut plan.sessions {
            session.config.integrity = false;
        }
        if let Err(failure) = world::run_plan(plan, false) {
            noticed.push(failure.violation.invariant);
        }
    }
    assert!(noticed.contains(&Invariant::Prefix), "no wrong byte was noticed: {noticed:?}");
    assert!(noticed.len() > 10, "only {noticed:?}");
}
