//! Whole connections that send all they can over one simulated bottleneck: what absences of either end, loss and
//! company do to them.

#[cfg(test)]
mod world;

use std::time::Duration;

use weft_proto::congestion::Kind;

use world::{Outcome, Path, run};

const MS: Duration = Duration::from_millis(1);

/// Packets lost in a thousand, of the runs that are compared with each other.
const LOSSES: [u64; 5] = [0, 1, 10, 50, 100];
const SEEDS: [u64; 2] = [1, 2];

fn measure(what: &str, path: Path, kind: Kind) -> Outcome {
    let outcome = run(path, &[kind], 500 * MS, 2_500 * MS, 1);
    show(what, kind, &outcome);
    outcome
}

/// What one flow of `kind` uses on average over the seeds, of 40,000 packets that the path could carry.
fn mean_use(what: &str, path: Path, kind: Kind) -> f64 {
    let time = Duration::from_nanos(40_000 * 1_000_000_000 / path.rate);
    let uses = SEEDS.map(|seed| {
        let outcome = run(path, &[kind], 500 * MS, 500 * MS + time, seed);
        show(what, kind, &outcome);
        outcome.utilisation()
    });
    uses.iter().sum::<f64>() / uses.len() as f64
}

fn show(what: &str, kind: Kind, outcome: &Outcome) {
    let stats = outcome.stats[0];
    println!(
        "{:<5} x{} {what:<34} used {:>5.1} %   Jain {:.2}   pause {:>5.0} ms   lost {:>5} spurious {:>5} time-outs {:>3} probes {:>3}",
        kind.name(),
        outcome.stats.len(),
        outcome.utilisation() * 100.0,
        outcome.fairness(),
        outcome.pause.as_secs_f64() * 1e3,
        stats.lost,
        stats.spurious,
        stats.timeouts,
        stats.tail_probes,
    );
}

/// [CDP-RTX-5] [CDP-RTX-6] Losses are found without time-outs, and what is declared lost is.
#[test]
fn loss_is_found_without_a_time_out_and_only_loss() {
    for kind in [Kind::Model, Kind::Cubic] {
        for loss_per_mille in [0, 1, 10] {
            let path = Path { loss_per_mille, ..Path::FAR };
            let outcome = measure(&format!("far, loss {loss_per_mille}"), path, kind);
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
                measure(&format!("far, away {away} ms"), Path { away: away * MS, ..Path::FAR }, kind);
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
        let outcome = measure(&format!("far, away {away} ms, loss 10"), path, Kind::Model);
        assert!(outcome.utilisation() >= least, "{outcome:?}");
    }
}

/// Loss that is the path's own is no congestion: the model goes on at the rate of the path.
#[test]
fn the_model_keeps_its_rate_whatever_the_path_loses_by_itself() {
    for (name, path, floors) in [
        ("far", Path::FAR, [0.97, 0.95, 0.9, 0.75, 0.65]),
        ("near", Path::NEAR, [0.97, 0.97, 0.95, 0.85, 0.75]),
    ] {
        for (loss_per_mille, least) in LOSSES.into_iter().zip(floors) {
            let what = format!("{name}, loss {loss_per_mille}");
            let used = mean_use(&what, Path { loss_per_mille, ..path }, Kind::Model);
            assert!(used >= least, "{what}: {used}");
        }
    }
}

/// [CDP-SACK-6] [CDP-SACK-7] Nor does it matter that more is on its way than one bitmap, or one piece beyond it, can name.
#[test]
fn the_model_keeps_its_rate_where_more_is_on_its_way_than_an_acknowledgement_names() {
    let wider = Path { rate: 500_000, buffer: 5_000, ..Path::FAR };
    for (name, path, loss_per_mille, least) in
        [("wide", Path::WIDE, 10, 0.9), ("wide", Path::WIDE, 50, 0.8), ("wider", wider, 10, 0.8)]
    {
        let outcome = run(Path { loss_per_mille, ..path }, &[Kind::Model], 200 * MS, 400 * MS, 1);
        show(&format!("{name}, loss {loss_per_mille}"), Kind::Model, &outcome);
        assert!(outcome.utilisation() >= least, "{name}, loss {loss_per_mille}: {outcome:?}");
        assert!(outcome.stats[0].spurious <= 20, "{outcome:?}");
    }
}

/// CUBIC gets what Reno's window of sqrt(3/2 / p) packets at a loss of p is worth (RFC 9438, section 4.3), or the path:
/// less would be time lost in repair, much more a reaction that was left out.
#[test]
fn cubic_gets_what_its_answer_to_loss_allows() {
    for (name, path) in [("far", Path::FAR), ("near", Path::NEAR)] {
        for (loss_per_mille, least) in LOSSES.into_iter().zip([0.95, 0.8, 0.8, 0.7, 0.4]) {
            let what = format!("{name}, loss {loss_per_mille}");
            let window = (1.5 / (loss_per_mille as f64 / 1e3)).sqrt();
            let allowed = (window / (path.rate as f64 * path.delay.as_secs_f64() * 2.0)).min(1.0);
            let used = mean_use(&what, Path { loss_per_mille, ..path }, Kind::Cubic);
            assert!((least * allowed..=2.0 * allowed).contains(&used), "{what}: {used} of {allowed}");
        }
    }
}

/// Two flows of one kind, one of which begins later, come to even shares of a bottleneck whose queue drops what does
/// not fit. That takes CUBIC some of its periods, of 3 to 4 s each on the longer of these paths.
#[test]
fn two_flows_share_a_bottleneck_evenly() {
    let long = Path { rate: 5_000, buffer: 50, ..Path::FAR };
    for (name, path, from, time) in
        [("long", long, 4_000 * MS, 16_000 * MS), ("near", Path::NEAR, 1_000 * MS, 3_000 * MS)]
    {
        for kind in [Kind::Model, Kind::Cubic] {
            for loss_per_mille in [0, 10] {
                // which packets are lost at random decides on a few hundredths
                let fairness = |seed| {
                    let outcome = run(Path { loss_per_mille, ..path }, &[kind; 2], from, time, seed);
                    show(&format!("{name}, loss {loss_per_mille}"), kind, &outcome);
                    outcome.fairness()
                };
                let mean = (1..=3).map(fairness).sum::<f64>() / 3.0;
                assert!(mean >= 0.95, "{name}, loss {loss_per_mille}: {mean}");
            }
        }
    }
}

/// [CDP-MTU-5] [CDP-MTU-6] A path that swallows what both links can carry is noticed, although nothing but large packets is sent.
#[test]
fn a_path_that_swallows_large_packets_gets_smaller_ones() {
    for kind in [Kind::Model, Kind::Cubic] {
        for (mtu_bytes, mss) in [(1_400, 1_364), (1_100, 1_024), (600, 512)] {
            for loss_per_mille in [0, 50] {
                let path = Path { mtu_bytes, loss_per_mille, ..Path::FAR };
                let outcome = measure(&format!("far, {mtu_bytes} bytes, loss {loss_per_mille}"), path, kind);
                if loss_per_mille == 0 {
                    assert!(outcome.mss[0] == mss && outcome.utilisation() > 0.1, "{outcome:?}");
                } else {
                    // the question, its answer and the probes may be lost as well
                    assert!(outcome.mss[0] <= mss && outcome.utilisation() > 0.0, "{outcome:?}");
                }
            }
        }
    }
}

/// However much is lost, the transfer goes on.
#[test]
fn heavy_loss_delays_and_does_not_stall() {
    for kind in [Kind::Model, Kind::Cubic] {
        // the longest pause may be that of an open begun again
        for (loss_per_mille, pause_ms) in [(100, 300), (200, 300), (300, 1_500)] {
            let path = Path { loss_per_mille, ..Path::FAR };
            let outcome = measure(&format!("far, loss {loss_per_mille}"), path, kind);
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
                for loss_per_mille in LOSSES {
                    let path = Path { away: away * MS, loss_per_mille, ..path };
                    measure(&format!("{name}, away {away} ms, loss {loss_per_mille}"), path, kind);
                }
            }
        }
        for loss_per_mille in LOSSES {
            measure(&format!("wide, loss {loss_per_mille}"), Path { loss_per_mille, ..Path::WIDE }, kind);
        }
        for (name, path) in [("far", Path::FAR), ("far, short queue", Path { buffer: 50, ..Path::FAR })] {
            for loss_per_mille in [0, 10] {
                let outcome = run(Path { loss_per_mille, ..path }, &[kind; 2], 5_000 * MS, 25_000 * MS, 1);
                show(&format!("{name}, loss {loss_per_mille}"), kind, &outcome);
            }
        }
        for (name, path) in [("near", Path::NEAR), ("near, short queue", Path { buffer: 25, ..Path::NEAR })] {
            for loss_per_mille in [0, 10] {
                let outcome = run(Path { loss_per_mille, ..path }, &[kind; 2], 1_000 * MS, 5_000 * MS, 1);
                show(&format!("{name}, loss {loss_per_mille}"), kind, &outcome);
            }
        }
    }
}
