//! The exhaustive searches of every test run, and the longer ones for who has time.
//!
//! In a release build `weft-testnet --model usual` makes the second search in a minute, `--model deep` the third.

use weft_testnet::model::{Scenario, search};

fn run(scenarios: Vec<Scenario>) {
    for scenario in scenarios {
        let name = scenario.name;
        match search(scenario) {
            Ok(summary) => println!("{name}: {summary:?}"),
            Err(found) => panic!("{found}"),
        }
    }
}

/// No stuck state, no false reset, honest results: by listener, with cookies, and when both open at once.
#[test]
fn no_state_of_open_and_close_is_stuck_or_false() {
    run(Scenario::brief());
}

/// The same with keep-alive, data, aborts and a server that loses its memory.
#[test]
#[ignore = "takes minutes without optimisation; `weft-testnet --model usual` in a release build does the same"]
fn no_state_with_data_aborts_and_restarts_is_stuck_or_false() {
    run(Scenario::usual());
}

/// The same with one packet more of each direction, data both ways and the confirmed close.
#[test]
#[ignore = "takes an hour; `weft-testnet --model deep` in a release build does the same"]
fn no_state_of_the_deep_search_is_stuck_or_false() {
    run(Scenario::deep());
}
