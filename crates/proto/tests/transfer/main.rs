//! Whole connections that send all they can over one simulated bottleneck: what absences of either end, loss and
//! company do to them.

#[cfg(test)]
mod world;

use std::time::Duration;

use weft_proto::congestion::Kind;

use world::{Outcome, Path, run};

const MS: Duration = Duration::from_millis(1);

fn measure(what: &str, path: Path, kinds: &[Kind]) -> Outcome {
    let outcome = run(path, kinds, 500 * MS, 2_500 * MS, 1);
    let stats = outcome.stats[0];
    println!(
        "{:<5} x{} {what:<34} used {:>5.1} %   Jain {:.2}   pause {:>5.0} ms   lost {:>5} spurious {:>5} time-outs {:>3} probes {:>3}",
        kinds[0].name(),
        kinds.len(),
        outcome.utilisation() * 100.0,
        outcome.fairness(),
        outcome.pause.as_secs_f64() * 1e3,
        stats.lost,
        stats.spurious,
        stats.timeouts,
        stats.tail_probes,
    );
    outcome
}

/// [CDP-RTX-5] [CDP-RTX-6] Losses are found without time-outs, and what is declared lost is.
#[test]
fn loss_is_found_without_a_time_out_and_only_loss() {
    for kind in [Kind::Model, Kind::Cubic] {
        for loss_per_mille in [0, 1, 10] {
            let path = Path { loss_per_mille, ..Path::FAR };
            let outcome = measure(&format!("far, loss {loss_per_mille}"), path, &[kind]);
            let stats = outcome.stats[0];
            assert!(stats.spurious <= 3 && stats.timeouts <= 2, "{stats:?}");
        }
    }
}

/// [CDP-RTX-6] Ends that are away for up to two round trips now and then are no reason to declare anything lost.
#[test]
fn absences_are_not_taken_for_loss() {
    for kind in [Kind::Model, Kind::Cubic] {
        for away in [5, 20] {
            let outcome =
                measure(&format!("far, away {away} ms"), Path { away: away * MS, ..Path::FAR }, &[kind]);
            let stats = outcome.stats[0];
            assert!(stats.spurious * 200 <= stats.numbers_sent, "{stats:?}");
            assert!(outcome.utilisation() >= if away == 5 { 0.9 } else { 0.65 }, "{outcome:?}");
        }
    }
}

#[test]
fn the_model_keeps_its_rate_where_one_packet_in_a_hundred_is_lost_and_ends_are_away() {
    for (away, least) in [(0, 0.9), (5, 0.85), (20, 0.6)] {
        let path = Path { away: away * MS, loss_per_mille: 10, ..Path::FAR };
        let outcome = measure(&format!("far, away {away} ms, loss 10"), path, &[Kind::Model]);
        assert!(outcome.utilisation() >= least, "{outcome:?}");
    }
}

/// However much is lost, the transfer goes on.
#[test]
fn heavy_loss_delays_and_does_not_stall() {
    for kind in [Kind::Model, Kind::Cubic] {
        // the longest pause may be that of an open begun again
        for (loss_per_mille, pause_ms) in [(100, 300), (200, 300), (300, 1_500)] {
            let path = Path { loss_per_mille, ..Path::FAR };
            let outcome = measure(&format!("far, loss {loss_per_mille}"), path, &[kind]);
            assert!(outcome.pause <= pause_ms * MS, "{outcome:?}");
        }
    }
}

/// `cargo test --release -p weft-proto --test transfer table -- --ignored --nocapture` shows all of it.
#[test]
#[ignore = "a table to read, not a check"]
fn table() {
    for kind in [Kind::Model, Kind::Cubic] {
        for (name, path) in [("far", Path::FAR), ("near", Path::NEAR)] {
            for away in [0, 5, 20, 50] {
                for loss_per_mille in [0, 1, 10, 50, 100] {
                    let path = Path { away: away * MS, loss_per_mille, ..path };
                    measure(&format!("{name}, away {away} ms, loss {loss_per_mille}"), path, &[kind]);
                }
            }
        }
    }
}
