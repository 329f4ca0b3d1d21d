//! What every controller owes, whichever it is.

use std::time::Duration;

use proptest::prelude::*;
use weft_base::Instant;

use super::rival::Rival;
use super::simulation::{Outcome, Path, run, run_with};
use super::{
    Ack, Congestion, Controller, INITIAL_WINDOW, INITIAL_WINDOW_LONG, Kind, LONG_RTT, Loss, Settings,
    WINDOW_MAX,
};
use crate::rate::RateSample;

/// An acknowledgement of one packet that the window held back, to be varied.
pub(super) fn ack() -> Ack {
    Ack {
        now: Instant::ZERO,
        newly_acked: 1,
        in_flight: 10,
        sent_at: Instant::ZERO,
        rtt: None,
        min_rtt: None,
        srtt: None,
        delivery: None,
        is_window_limited: true,
    }
}

/// The loss of one packet, to be varied.
pub(super) fn loss() -> Loss {
    Loss { now: Instant::ZERO, lost: 1, in_flight: 10, largest_sent_at: Instant::ZERO, is_timeout: false }
}

/// One thing that can happen to a controller, with the time since the last in microseconds.
#[derive(Clone, Debug)]
enum Step {
    Sent { in_flight: u32, is_app_limited: bool },
    Acked { newly_acked: u32, in_flight: u32, rtt_us: u64, delivered: u32, is_window_limited: bool },
    Lost { lost: u32, age_us: u64, is_timeout: bool },
    Marked { age_us: u64 },
    Spurious,
}

fn step() -> impl Strategy<Value = (u64, Step)> {
    let kind = prop_oneof![
        2 => (0_u32..5_000, any::<bool>())
            .prop_map(|(in_flight, is_app_limited)| Step::Sent { in_flight, is_app_limited }),
        8 => (1_u32..200, 0_u32..5_000, 1_u64..100_000, 1_u32..10_000, any::<bool>()).prop_map(
            |(newly_acked, in_flight, rtt_us, delivered, is_window_limited)| {
                Step::Acked { newly_acked, in_flight, rtt_us, delivered, is_window_limited }
            }
        ),
        2 => (1_u32..100, 0_u64..50_000, prop::bool::weighted(0.2))
            .prop_map(|(lost, age_us, is_timeout)| Step::Lost { lost, age_us, is_timeout }),
        1 => (0_u64..50_000).prop_map(|age_us| Step::Marked { age_us }),
        1 => Just(Step::Spurious),
    ];
    (0_u64..300_000, kind)
}

/// `age_us` before `now`.
fn before(now: Instant, age_us: u64) -> Instant {
    Instant::from_nanos(now.as_nanos().saturating_sub(age_us * 1_000))
}

/// Applies one step and gives back how many packets it newly acknowledged.
fn apply(congestion: &mut Congestion, now: Instant, step: &Step) -> u32 {
    match *step {
        Step::Sent { in_flight, is_app_limited } => congestion.handle_sent(now, in_flight, is_app_limited),
        Step::Acked { newly_acked, in_flight, rtt_us, delivered, is_window_limited } => {
            let rtt = Some(Duration::from_micros(rtt_us));
            let delivery = Some(RateSample {
                delivered,
                interval: Duration::from_micros(rtt_us),
                is_app_limited: false,
            });
            let sent_at = before(now, rtt_us);
            let heard = Ack {
                now,
                newly_acked,
                in_flight,
                sent_at,
                rtt,
                min_rtt: rtt,
                srtt: rtt,
                delivery,
                is_window_limited,
            };
            congestion.handle_ack(&heard);
            return newly_acked;
        }
        Step::Lost { lost, age_us, is_timeout } => {
            let largest_sent_at = before(now, age_us);
            congestion.handle_loss(&Loss { now, lost, in_flight: 5, largest_sent_at, is_timeout });
        }
        Step::Marked { age_us } => congestion.handle_ecn(now, before(now, age_us)),
        Step::Spurious => congestion.handle_spurious(now),
    }
    0
}

proptest! {
    /// [CDP-CC-3] A congestion window never grows by more than the count of packets newly acknowledged.
    #[test]
    fn no_controller_grows_faster_than_packets_are_acknowledged(steps in prop::collection::vec(step(), 1..300)) {
        for kind in Kind::ALL {
            let mut congestion = Congestion::new(kind, Instant::ZERO);
            let mut now = Instant::ZERO;
            for (gap_us, step) in &steps {
                now += Duration::from_micros(*gap_us);
                let window = congestion.window();
                let newly_acked = apply(&mut congestion, now, step);
                prop_assert!(congestion.window() <= window + newly_acked, "{kind:?}: {step:?}");
                prop_assert!((1..=WINDOW_MAX).contains(&congestion.window()), "{kind:?}: {step:?}");
                prop_assert!(congestion.pacing_rate() != Some(0), "{kind:?}: {step:?}");
            }
        }
    }
}

/// [CDP-CC-2] The fixed window reacts to nothing.
#[test]
fn the_fixed_window_stays() {
    let mut congestion = Congestion::with_settings(
        Kind::Fixed,
        Instant::ZERO,
        &Settings { fixed_window: 64, ..Settings::default() },
    );
    congestion.handle_loss(&Loss { is_timeout: true, ..loss() });
    congestion.handle_ecn(Instant::ZERO, Instant::ZERO);
    congestion.handle_ack(&ack());
    assert_eq!((congestion.window(), congestion.pacing_rate()), (64, None));
}

#[test]
fn every_kind_is_found_by_its_name_and_reports_it() {
    for kind in Kind::ALL {
        assert_eq!(Kind::from_name(kind.name()), Some(kind));
        assert_eq!(Congestion::new(kind, Instant::ZERO).name(), kind.name());
    }
    assert_eq!(Kind::from_name("reno"), None);
}

/// A path of a cluster: 20,000 packets a second, 2 ms, and a queue as large as the path.
const PATH: Path = Path {
    rate: 20_000,
    rtt: Duration::from_millis(2),
    buffer: 40,
    loss_per_mille: 0,
    mark_above: None,
    clump: Duration::ZERO,
    seed: 42,
    change: None,
};
/// A link of about 5 Gbit/s between neighbours.
const NEAR: Path = Path { rate: 400_000, rtt: Duration::from_micros(100), buffer: 200, ..PATH };
/// A path that leaves the cluster.
const FAR: Path = Path { rtt: Duration::from_millis(50), buffer: 500, ..PATH };
const LOSSY: Path = Path { loss_per_mille: 10, ..PATH };

/// Flows that share a path are given four times as long to find their shares.
const SHARING: u32 = 4;

/// A run of `flows` controllers of `kind`, for a thousand round trips or 60,000 packets, and a line of the table that
/// `cargo test -p weft-proto simulated -- --nocapture --test-threads 1` shows.
fn measure(kind: Kind, flows: usize, what: &str, path: Path) -> Outcome {
    let time = (path.rtt * 1_000).max(Duration::from_secs(60_000) / u32::try_from(path.rate).unwrap());
    let time = time.min(Duration::from_secs(10)) * if flows == 1 { 1 } else { SHARING };
    let outcome = run(path, &vec![kind; flows], time);
    println!(
        "{:<5} x{flows} {what:<22} used {:>5.1} %   queue mean {:>5.1} max {:>4} of {:>4}, path holds {:>4.0}   \
         dropped {:>4.2} %   time-outs {:>2}   Jain {:.2}",
        kind.name(),
        outcome.utilisation * 100.0,
        outcome.queue_mean,
        outcome.queue_max,
        path.buffer,
        path.holds(),
        outcome.dropped * 100.0,
        outcome.timeouts,
        outcome.fairness(),
    );
    outcome
}

/// The same path with a rate that becomes `rate` in the middle of the three seconds.
fn becoming(rate: u64, path: Path) -> Path {
    Path { change: Some((Duration::from_millis(1_500), rate)), ..path }
}

#[test]
fn simulated_cubic_fills_every_path_that_loses_nothing_by_itself() {
    for (what, path, least) in [
        ("clean", PATH, 0.99),
        ("deep queue", Path { buffer: 400, ..PATH }, 0.99),
        ("queue a fifth of path", Path { buffer: 8, ..PATH }, 0.90),
        ("near", NEAR, 0.99),
        ("near, clumps of 200 us", Path { clump: Duration::from_micros(200), ..NEAR }, 0.97),
        ("far", FAR, 0.95),
        ("becomes slower", becoming(4_000, PATH), 0.97),
        ("becomes faster", becoming(20_000, Path { rate: 10_000, ..PATH }), 0.95),
    ] {
        let outcome = measure(Kind::Cubic, 1, what, path);
        assert!(outcome.utilisation >= least, "{what}: {outcome:?}");
        assert!(outcome.dropped <= 0.005 && outcome.timeouts == 0, "{what}: {outcome:?}");
    }
}

/// [CDP-CC-5] Marks hold the queue at the length from which packets are marked.
#[test]
fn simulated_marks_bound_the_queue_of_both_controllers() {
    for kind in [Kind::Cubic, Kind::Model] {
        let outcome = measure(kind, 1, "marks from 20", Path { buffer: 400, mark_above: Some(20), ..PATH });
        assert!(outcome.utilisation >= 0.97 && outcome.queue_mean <= 20.0, "{kind:?}: {outcome:?}");
        assert!(outcome.queue_max <= 80 && outcome.dropped == 0.0, "{kind:?}: {outcome:?}");
    }
}

#[test]
fn simulated_cubic_flows_share_a_path_evenly() {
    for (what, path) in [
        ("clean", PATH),
        ("near", NEAR),
        ("loss 1 %", LOSSY),
        ("queue a fifth of path", Path { buffer: 8, ..PATH }),
    ] {
        for flows in [2, 4] {
            let outcome = measure(Kind::Cubic, flows, what, path);
            assert!(outcome.fairness() >= 0.9, "{what}: {outcome:?}");
        }
    }
}

#[test]
fn simulated_model_fills_the_path_also_when_one_packet_in_a_hundred_is_lost() {
    for (what, path, least) in [
        ("clean", PATH, 0.97),
        ("loss 1 %", LOSSY, 0.95),
        ("queue a fifth of path", Path { buffer: 8, ..PATH }, 0.90),
        ("near", NEAR, 0.97),
        ("near, loss 1 %", Path { loss_per_mille: 10, ..NEAR }, 0.95),
        ("near, clumps of 200 us", Path { clump: Duration::from_micros(200), ..NEAR }, 0.97),
        ("near, clumps of 1 ms", Path { clump: Duration::from_millis(1), buffer: 1_000, ..NEAR }, 0.97),
        ("far", FAR, 0.95),
        ("far, loss 1 %", Path { loss_per_mille: 10, ..FAR }, 0.85),
        ("becomes slower", becoming(4_000, PATH), 0.95),
        ("becomes faster", becoming(20_000, Path { rate: 10_000, ..PATH }), 0.85),
    ] {
        let outcome = measure(Kind::Model, 1, what, path);
        assert!(outcome.utilisation >= least, "{what}: {outcome:?}");
        assert!(outcome.dropped <= 0.05 && outcome.timeouts == 0, "{what}: {outcome:?}");
    }
}

#[test]
fn simulated_model_keeps_the_queue_short_whatever_its_room() {
    for (flows, mean) in [(1, 0.25), (2, 1.75), (4, 3.5)] {
        let outcome = measure(Kind::Model, flows, "deep queue", Path { buffer: 400, ..PATH });
        assert!(outcome.queue_mean <= mean * PATH.holds() && outcome.utilisation >= 0.97, "{outcome:?}");
    }
}

#[test]
fn simulated_model_flows_leave_each_other_a_share_and_drop_little() {
    for (what, path) in [("clean", PATH), ("near", NEAR), ("loss 1 %", LOSSY)] {
        for (flows, least) in [(2, 0.9), (4, 0.7)] {
            let outcome = measure(Kind::Model, flows, what, path);
            assert!(outcome.fairness() >= least && outcome.dropped <= 0.06, "{what}: {outcome:?}");
            assert!(outcome.utilisation >= 0.97, "{what}: {outcome:?}");
        }
    }
}

/// Flows that come one by one to a queue which others keep full find out how long the way is without it, so that they do not take
/// what it loses for noise, and none is left with a few packets for good.
#[test]
fn simulated_many_model_flows_answer_what_they_lose() {
    let path = Path { rate: 200_000, rtt: Duration::from_micros(400), buffer: 400, ..PATH };
    let (mut dropped, mut fairness) = (0.0, 0.0);
    for seed in 0..4 {
        let path = Path { rate: path.rate + 17 * seed, seed, ..path };
        let outcome = run(path, &[Kind::Model; 24], Duration::from_secs(2));
        println!("dropped {:.2} %, Jain {:.2}", outcome.dropped * 100.0, outcome.fairness());
        assert!(outcome.utilisation >= 0.97, "{outcome:?}");
        dropped += outcome.dropped / 4.0;
        fairness += outcome.fairness() / 4.0;
    }
    assert!(dropped <= 0.12 && fairness >= 0.5, "{dropped} {fairness}");
}

/// A long path that loses packets by itself is found out within a second, whichever packets are lost first.
#[test]
fn simulated_model_finds_a_long_path_in_spite_of_its_losses() {
    for (loss_per_mille, least) in [(50, 0.8), (100, 0.7)] {
        for seed in 0..16 {
            let long = Path { rate: 50_000, rtt: Duration::from_millis(10), buffer: 500, ..PATH };
            let path = Path { loss_per_mille, seed, ..long };
            let outcome = run(path, &[Kind::Model], Duration::from_secs(1));
            assert!(outcome.utilisation >= least, "{loss_per_mille} in a thousand, {seed}: {outcome:?}");
        }
    }
}

/// Two flows that answer no losses, and keep twice in flight what they take the path to hold, leave one of ours its part.
#[test]
fn simulated_model_has_its_part_beside_flows_that_answer_no_losses() {
    let path = Path { rate: 83_000, rtt: Duration::from_millis(10), buffer: 830, ..PATH };
    let part = |more: u64| {
        let flows: [Box<dyn Controller>; 3] = [
            Box::new(Congestion::new(Kind::Model, Instant::ZERO)),
            Box::new(Rival::new()),
            Box::new(Rival::new()),
        ];
        let outcome = run_with(Path { rate: path.rate + more, ..path }, flows, Duration::from_secs(20));
        let [ours, theirs @ ..] = &outcome.flows[..] else { unreachable!() };
        let part = 2.0 * *ours as f64 / theirs.iter().sum::<u64>() as f64;
        println!("model beside two that answer no losses: {part:.2} of what each has");
        part
    };
    let mean = [0, 17, 34, 51].map(part).iter().sum::<f64>() / 4.0;
    assert!((0.5..=2.0).contains(&mean), "{mean:.2} of what each has");
}

/// Beside one of these it does not fall behind for long, however often it looks whether it is alone.
#[test]
fn simulated_model_keeps_its_part_beside_one_that_answers_no_losses() {
    let path = Path { rate: 83_000, rtt: Duration::from_millis(10), buffer: 830, ..PATH };
    for more in [34, 51, 68] {
        let flows: [Box<dyn Controller>; 2] =
            [Box::new(Congestion::new(Kind::Model, Instant::ZERO)), Box::new(Rival::new())];
        let outcome = run_with(Path { rate: path.rate + more, ..path }, flows, Duration::from_secs(30));
        let part = outcome.flows[0] as f64 / outcome.flows[1] as f64;
        println!("model beside one that answers no losses: {part:.2} of what that has");
        assert!((0.5..=2.0).contains(&part), "{part:.2} of what the other has");
    }
}

/// [CDP-CC-2] Loss does not slow a fixed window, as large as it was declared.
#[test]
fn simulated_fixed_window_keeps_its_rate_under_loss() {
    let outcome = measure(Kind::Fixed, 1, "loss 1 %, room for all", Path { buffer: 1_024, ..LOSSY });
    assert!(outcome.utilisation >= 0.98, "{outcome:?}");
}

/// Beside others on a long path a flow starts as they do (RFC 6928); within a cluster it has the larger window.
#[test]
fn a_long_open_makes_cubic_begin_small() {
    let at = Instant::ZERO;
    let window = |kind, initial_window, open| {
        let mut congestion =
            Congestion::with_settings(kind, at, &Settings { initial_window, ..Settings::default() });
        congestion.expect(open);
        let granted = congestion.window();
        congestion.handle_sent(at, 1, false);
        congestion.expect(LONG_RTT);
        assert_eq!(congestion.window(), granted, "it has begun");
        granted
    };
    assert_eq!(window(Kind::Cubic, None, LONG_RTT), INITIAL_WINDOW_LONG);
    assert_eq!(window(Kind::Cubic, None, LONG_RTT - Duration::from_micros(1)), INITIAL_WINDOW);
    assert_eq!(window(Kind::Cubic, Some(700), LONG_RTT), 700, "as it was told");
    assert_eq!(window(Kind::Model, None, LONG_RTT), INITIAL_WINDOW);
}
