use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);

fn rtt() -> Rtt {
    Rtt::new(250 * MS, MS, 4_000 * MS)
}

/// [CDP-RTX-2] The arithmetic of RFC 6298, within RTO_MIN and RTO_MAX.
#[test]
fn the_rto_follows_rfc_6298() {
    let mut rtt = rtt();
    assert_eq!(rtt.rto(), 250 * MS);
    rtt.sample(Instant::ZERO, 100 * MS);
    assert_eq!((rtt.srtt(), rtt.variance(), rtt.rto()), (Some(100 * MS), 50 * MS, 300 * MS));
    rtt.sample(Instant::ZERO, 180 * MS);
    assert_eq!((rtt.srtt(), rtt.variance()), (Some(110 * MS), Duration::from_micros(57_500)));
    let mut fast = Rtt::new(250 * MS, MS, 4_000 * MS);
    fast.sample(Instant::ZERO, Duration::from_micros(40));
    assert_eq!(fast.rto(), 3 * MS, "RTO_MIN is 2 ms + ACK_DELAY");
}

/// [CDP-IO-9] The first sample of a new path is a first sample: a long round trip of the old one does not linger.
#[test]
fn a_new_path_takes_over_until_its_first_sample_and_no_longer() {
    let mut rtt = rtt();
    rtt.sample(Instant::ZERO, 200 * MS);
    rtt.back_off();
    rtt.change_path();
    assert_eq!((rtt.srtt(), rtt.min_rtt(), rtt.rto()), (Some(200 * MS), None, 600 * MS));
    rtt.sample(Instant::ZERO, 4 * MS);
    assert_eq!((rtt.srtt(), rtt.min_rtt(), rtt.rto()), (Some(4 * MS), Some(4 * MS), 12 * MS));
    rtt.sample(Instant::ZERO, 12 * MS);
    assert_eq!(rtt.srtt(), Some(5 * MS));
}

#[test]
fn what_round_trips_are_longer_than_the_least_of_the_path_is_its_queue() {
    let mut rtt = rtt();
    assert_eq!(rtt.queueing(), Duration::ZERO);
    for second in 0..30 {
        let now = Instant::from_nanos(second * 1_000_000_000);
        (0..50).for_each(|_| rtt.sample(now, if second == 0 { MS } else { 9 * MS }));
    }
    assert!(rtt.min_rtt() > Some(8 * MS), "the least of late");
    assert_eq!(rtt.queueing().as_micros().div_ceil(10), 800);
    rtt.change_path();
    assert_eq!(rtt.queueing(), Duration::ZERO, "nothing is known of the other path");
}

/// [CDP-RTX-4] Doubling up to RTO_MAX; a sample ends it; an ACK without one divides it by four.
#[test]
fn back_off_doubles_and_ends() {
    let mut rtt = rtt();
    rtt.sample(Instant::ZERO, 100 * MS);
    for expected in [600, 1_200, 2_400, 4_000, 4_000] {
        rtt.back_off();
        assert_eq!(rtt.rto(), expected * MS);
    }
    rtt.ease();
    assert_eq!(rtt.rto(), 1_200 * MS);
    rtt.sample(Instant::ZERO, 100 * MS);
    assert!(rtt.rto() < 300 * MS);
}

/// [CDP-RTX-4] At RTO_MAX further time-outs change nothing, so an ACK that moves SND.UNA is felt at once.
#[test]
fn back_off_goes_no_further_than_the_greatest_time_out() {
    let mut rtt = rtt();
    rtt.sample(Instant::ZERO, Duration::from_micros(50));
    for _ in 0..40 {
        rtt.back_off();
    }
    assert_eq!(rtt.rto(), 4_000 * MS);
    rtt.ease();
    assert!(rtt.rto() <= 2_000 * MS, "{:?}", rtt.rto());
    for _ in 0..20 {
        rtt.ease();
    }
    assert_eq!(rtt.rto(), 3 * MS);
}

/// [CDP-RTX-5] Two round trips, and for one number alone what the peer may delay its acknowledgement.
#[test]
fn a_tail_of_several_numbers_is_probed_sooner_than_one() {
    let mut rtt = rtt();
    assert_eq!(rtt.probe(true), None);
    for _ in 0..100 {
        rtt.sample(Instant::ZERO, 8 * MS);
    }
    assert_eq!(rtt.probe(true), Some(17 * MS + MS / 2));
    assert!(rtt.probe(false).is_some_and(|wait| (16 * MS..16 * MS + MS / 10).contains(&wait)));
    rtt.sample(Instant::ZERO, 16 * MS);
    assert_eq!(rtt.probe(false), rtt.probe(true), "never longer than one alone");
}

proptest! {
    /// [CDP-RTX-2] Whatever the samples and time-outs, the RTO stays within RTO_MIN..RTO_MAX.
    /// The least round trip is the least of nine to ten seconds.
    #[test]
    fn the_rto_stays_in_its_bounds(steps in prop::collection::vec((0_u64..3_000, 1_u64..20_000_000, 0..4), 1..100)) {
        let mut rtt = rtt();
        let mut now_ms = 0;
        let mut seen: Vec<(u64, Duration)> = Vec::new();
        for (gap_ms, sample_us, what) in steps {
            now_ms += gap_ms;
            match what {
                0 => rtt.back_off(),
                1 => rtt.ease(),
                _ => {
                    let sample = Duration::from_micros(sample_us);
                    rtt.sample(Instant::from_nanos(now_ms * 1_000_000), sample);
                    seen.push((now_ms, sample));
                    let least = |ms| seen.iter().filter(|(at, _)| at + ms > now_ms).map(|(_, rtt)| *rtt).min();
                    prop_assert!(rtt.min_rtt() <= least(9_000) && rtt.min_rtt() >= least(10_000));
                    prop_assert_eq!(rtt.latest(), Some(sample));
                }
            }
            prop_assert!((3 * MS..=4_000 * MS).contains(&rtt.rto()));
        }
    }
}

#[test]
fn a_least_round_trip_is_at_most_a_grain_short() {
    let mut rtt = rtt();
    for ns in [u64::MAX / 16, 34 * 1_000_000_000, 1_000_007, 15, 1] {
        rtt.sample(Instant::ZERO, Duration::from_nanos(ns));
        let least = rtt.min_rtt().unwrap();
        assert_eq!(least, Duration::from_nanos((ns / 8).min(u64::from(u32::MAX) - 1) * 8));
    }
}

#[test]
fn the_least_round_trip_is_forgotten_after_ten_seconds() {
    let mut rtt = rtt();
    let at = |s: u64| Instant::from_nanos(s * 1_000_000_000);
    rtt.sample(at(0), MS);
    rtt.sample(at(6), 5 * MS);
    assert_eq!(rtt.min_rtt(), Some(MS));
    rtt.sample(at(12), 9 * MS);
    assert_eq!(rtt.min_rtt(), Some(5 * MS));
}
