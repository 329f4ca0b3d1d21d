//! What every controller owes, whichever it is.

use std::time::Duration;

use proptest::prelude::*;
use weft_base::Instant;

use super::simulation::{Outcome, Path, run};
use super::{Ack, Congestion, Controller, Kind, Loss, Settings, WINDOW_MAX};
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
    change: None,
};

/// A run, and a line of the table that `cargo test -- --nocapture` shows.
fn measure(what: &str, path: Path, kinds: &[Kind]) -> Outcome {
    let time = Duration::from_secs_f64((200_000.0 / path.rate as f64).max(1_500.0 * path.rtt.as_secs_f64()));
    let outcome = run(path, kinds, time);
    println!(
        "{:<6} x{} {what:<34} used {:>5.1} %  queue mean {:>6.1} max {:>4} of {:>4} (path holds {:>5.0})  \
         dropped {:>5.2} %  time-outs {:>2}  Jain {:.2}",
        kinds[0].name(),
        kinds.len(),
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

#[test]
fn table() {
    for kind in [Kind::Cubic, Kind::Model] {
        for n in [1, 2, 4] {
            let kinds = vec![kind; n];
            measure("clean", PATH, &kinds);
            measure("loss 1 %", Path { loss_per_mille: 10, ..PATH }, &kinds);
            measure("loss 3 %", Path { loss_per_mille: 30, ..PATH }, &kinds);
            measure("loss 10 %", Path { loss_per_mille: 100, ..PATH }, &kinds);
            measure("deep buffer", Path { buffer: 400, ..PATH }, &kinds);
            measure("shallow buffer", Path { buffer: 8, ..PATH }, &kinds);
            measure("marks", Path { buffer: 400, mark_above: Some(20), ..PATH }, &kinds);
            let fast = Path { rate: 400_000, rtt: Duration::from_micros(100), buffer: 200, ..PATH };
            measure("10 GbE-like 100 us", fast, &kinds);
            measure(
                "same, clumps 1 ms",
                Path { clump: Duration::from_millis(1), buffer: 1000, ..fast },
                &kinds,
            );
            measure("same, clumps 200 us", Path { clump: Duration::from_micros(200), ..fast }, &kinds);
            measure("same, loss 1 %", Path { loss_per_mille: 10, ..fast }, &kinds);
            measure("far 50 ms", Path { rtt: Duration::from_millis(50), buffer: 500, ..PATH }, &kinds);
            measure(
                "far, loss 1 %",
                Path { rtt: Duration::from_millis(50), buffer: 500, loss_per_mille: 10, ..PATH },
                &kinds,
            );
            let t = Duration::from_secs(5);
            measure("rate falls to a fifth", Path { change: Some((t, 4_000)), ..PATH }, &kinds);
            measure(
                "rate grows by five",
                Path { rate: 4_000, change: Some((t * 5, 20_000)), ..PATH },
                &kinds,
            );
        }
    }
}
