//! CUBIC, rule by rule, with the numbers of RFC 9438.

use super::super::tests::{ack, loss};
use super::*;

const MS: u64 = 1_000_000;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * MS)
}

/// A controller that has left slow start with a window of 100 by a loss at `at(1_000)`, from 1000/7 packets.
fn after_a_loss() -> Cubic {
    let mut cubic = Cubic::new(32);
    cubic.course.window = 1000.0 / 7.0;
    cubic.handle_loss(&Loss { now: at(1_000), largest_sent_at: at(999), ..loss() });
    cubic
}

/// Acknowledges windows, one round trip of `rtt_ms` each, for `rounds` rounds from `from_ms` on.
fn rounds(cubic: &mut Cubic, from_ms: u64, rtt_ms: u64, rounds: u64) {
    for round in 0..rounds {
        let now = at(from_ms + round * rtt_ms);
        let srtt = Some(Duration::from_millis(rtt_ms));
        let newly_acked = cubic.window();
        cubic.handle_ack(&Ack { now, sent_at: at(from_ms), newly_acked, srtt, ..ack() });
    }
}

#[test]
fn slow_start_doubles_each_round() {
    let mut cubic = Cubic::new(32);
    for _ in 0..4 {
        let newly_acked = cubic.window();
        cubic.handle_ack(&Ack { newly_acked, ..ack() });
    }
    assert_eq!(cubic.window(), 32 << 4);
}

#[test]
fn a_loss_takes_the_window_to_seven_tenths_once_per_round_trip() {
    let mut cubic = after_a_loss();
    assert_eq!(cubic.window(), 100);
    cubic.handle_loss(&Loss { now: at(1_010), largest_sent_at: at(999), ..loss() });
    assert_eq!(cubic.window(), 100, "sent before the reaction");
    cubic.handle_loss(&Loss { now: at(1_020), largest_sent_at: at(1_005), ..loss() });
    assert_eq!(cubic.window(), 70);
}

/// On a long round trip the curve is back at the old maximum after K = cbrt(42.86 / 0.4) = 4.75 s, and is flat there.
#[test]
fn the_curve_is_flat_around_the_window_of_the_last_loss() {
    let mut cubic = after_a_loss();
    rounds(&mut cubic, 1_000, 200, 24);
    let near = cubic.course.window;
    assert!((139.0..144.0).contains(&near), "after 4.6 s: {near}");
    rounds(&mut cubic, 5_800, 200, 5);
    assert!(cubic.course.window < near + 3.0, "flat: {}", cubic.course.window);
    rounds(&mut cubic, 6_800, 200, 20);
    assert!(cubic.course.window > 170.0, "convex: {}", cubic.course.window);
}

/// RFC 9438, section 4.3: alpha is 0.53 packets a round trip until the old maximum is won back.
#[test]
fn on_a_short_round_trip_the_window_grows_as_renos() {
    let mut cubic = after_a_loss();
    rounds(&mut cubic, 1_000, 1, 40);
    let grown = cubic.course.window - 100.0;
    assert!((0.9 * 40.0 * ALPHA..1.01 * 40.0 * ALPHA).contains(&grown), "{grown}");
}

#[test]
fn a_second_loss_below_the_last_maximum_gives_room_to_newer_flows() {
    let mut cubic = after_a_loss();
    cubic.handle_loss(&Loss { now: at(2_000), largest_sent_at: at(1_500), ..loss() });
    assert_eq!(cubic.course.last_max, Some(100.0 * 0.85));
}

#[test]
fn packets_in_flight_at_the_reaction_earn_no_growth() {
    let mut cubic = after_a_loss();
    cubic.handle_ack(&Ack { now: at(1_050), sent_at: at(999), newly_acked: 50, ..ack() });
    assert_eq!(cubic.window(), 100);
}

#[test]
fn a_window_that_is_not_used_does_not_grow_and_the_curve_waits() {
    let mut cubic = after_a_loss();
    rounds(&mut cubic, 1_000, 200, 2);
    let (window, started) = (cubic.course.window, cubic.course.epoch.unwrap().started);
    let srtt = Some(Duration::from_millis(200));
    for ms in [1_500, 9_000] {
        cubic.handle_ack(&Ack { now: at(ms), sent_at: at(1_400), srtt, is_window_limited: false, ..ack() });
    }
    assert!((cubic.course.window - window).abs() < 0.5, "the first lies within a round trip");
    cubic.handle_ack(&Ack { now: at(11_400), sent_at: at(11_300), srtt, ..ack() });
    assert_eq!(cubic.course.epoch.unwrap().started - started, Duration::from_secs(10));
}

#[test]
fn a_time_out_leaves_one_packet_and_slow_start_up_to_the_threshold() {
    let mut cubic = after_a_loss();
    cubic.handle_loss(&Loss { now: at(2_000), largest_sent_at: at(1_900), is_timeout: true, ..loss() });
    assert_eq!(cubic.window(), 1);
    cubic.handle_loss(&Loss { now: at(3_000), largest_sent_at: at(1_900), is_timeout: true, ..loss() });
    assert!((cubic.course.slow_start_threshold - 70.0).abs() < 1e-9, "one loss, one threshold");
    for _ in 0..7 {
        let newly_acked = cubic.window();
        cubic.handle_ack(&Ack { now: at(3_001), sent_at: at(3_000), newly_acked, ..ack() });
    }
    assert!((70..=72).contains(&cubic.window()), "{}", cubic.window());
}

#[test]
fn a_spurious_loss_is_undone_once() {
    let mut cubic = after_a_loss();
    cubic.handle_spurious(at(1_001));
    assert_eq!(cubic.window(), 142);
    cubic.handle_loss(&Loss { now: at(1_002), largest_sent_at: at(1_001), ..loss() });
    cubic.handle_spurious(at(1_003));
    cubic.handle_spurious(at(1_004));
    assert_eq!(cubic.window(), 142);
}

/// [CDP-CC-5] A mark is answered as one loss, at most once per round trip.
#[test]
fn marks_are_answered_once_per_round_trip() {
    let mut cubic = after_a_loss();
    cubic.handle_ecn(at(1_010), at(999));
    assert_eq!(cubic.window(), 100, "the loss of that round trip has been answered");
    cubic.handle_ecn(at(1_010), at(1_005));
    cubic.handle_ecn(at(1_011), at(1_006));
    assert_eq!(cubic.window(), 85);
}

#[test]
fn silence_halves_the_window_down_to_the_initial_one() {
    let mut cubic = after_a_loss();
    cubic.srtt = Some(Duration::from_millis(1));
    cubic.handle_sent(at(1_000), 1, false);
    cubic.handle_sent(at(1_009), 1, false);
    assert_eq!(cubic.window(), 100);
    cubic.handle_sent(at(1_019), 1, false);
    assert_eq!(cubic.window(), 50);
    cubic.handle_sent(at(9_000), 1, false);
    assert_eq!(cubic.window(), 32);
    assert!((cubic.course.slow_start_threshold - 100.0).abs() < 1e-9);
}

#[test]
fn the_cube_root_is_exact_to_rounding() {
    for x in [0.0, 1e-9, 0.3, 1.0, 8.0, 27.0, 42.857, 1e12] {
        let root = cube_root(x);
        assert!((root * root * root - x).abs() <= 1e-12 * x.max(1e-12), "{x}: {root}");
    }
}
