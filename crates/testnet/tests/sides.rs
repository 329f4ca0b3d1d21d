//! Networks with I/O nodes between them; `weft-testnet --sides` runs as many seeds as one likes.

use weft_testnet::report::Network;
use weft_testnet::sides::plan::{Illness, Plan};
use weft_testnet::violation::Invariant;
use weft_testnet::{seeds, sides};

/// [CDP-IO-5] [CDP-IO-6] [CDP-IO-7] [CDP-FWD-1] [CDP-FWD-3] Whatever one I/O node does, users see no error, every byte arrives,
/// the default is left and used again, and 99 of 100 stalls are short.
#[test]
fn one_ill_io_node_is_a_short_stall() {
    let (report, failures) = seeds::run_all(0..40, Some(Network::Sides));
    if let Some(first) = failures.first() {
        panic!("{} of 40 seeds failed, the first:\n{first}", failures.len());
    }
    let sides = &report.sides;
    println!("{sides}");
    for kind in
        ["crashes", "partitions of one direction", "drops of 30 %", "delays of 200 ms", "wrong tables"]
    {
        assert!(sides.troubles.contains_key(kind), "no {kind}");
    }
    let (short, longest) = sides.short_stalls();
    let long = sides.stalls.len() - short;
    assert!(long * 100 <= sides.stalls.len(), "{long} of {} are long, up to {longest:?}", sides.stalls.len());
}

/// The checkers are awake: a default that stays dead cannot come back, and without any I/O node nothing arrives.
#[test]
fn an_io_node_that_stays_dead_is_noticed() {
    let seed_of_two = (0..).find(|seed| Plan::draw(*seed).io_nodes == 2).unwrap();
    for (dead, expected) in [(1, Invariant::Return), (2, Invariant::Liveness)] {
        let mut plan = Plan::draw(seed_of_two);
        let first = plan.troubles[0].clone();
        plan.troubles = (0..dead)
            .map(|io_node| {
                let until = first.from + std::time::Duration::from_secs(600);
                weft_testnet::sides::plan::Trouble { io_node, what: Illness::Crash, until, ..first }
            })
            .collect();
        let failure = sides::run_plan(plan, false).expect_err("somebody must notice");
        assert_eq!(failure.violation.invariant, expected, "{failure}");
    }
}
