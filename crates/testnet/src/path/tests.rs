//! Each fault alone, and the sum of all.

use super::*;

const RATE: u64 = 125_000_000;

fn frame(len: usize, may_fragment: bool) -> Frame {
    Frame { bytes: Bytes::from(vec![7; len]), may_fragment, tag: 0 }
}

fn run(settings: PathSettings, packets: u32) -> (Path, Vec<Arrival>) {
    let mut path = Path::new(settings, Random::from_seed(11));
    let mut out = Vec::new();
    for number in 0..packets {
        let now = Instant::from_nanos(u64::from(number) * 10_000);
        path.carry(now, &frame(100, false), &mut out);
    }
    assert!(path.counts().add_up(), "{:?}", path.counts());
    assert_eq!(path.counts().carried, out.len() as u64);
    (path, out)
}

fn clean() -> PathSettings {
    PathSettings::clean(Duration::from_millis(1), RATE)
}

#[test]
fn a_clean_path_keeps_order_bytes_and_delay() {
    let (_, out) = run(clean(), 1_000);
    assert_eq!(out.len(), 1_000);
    assert!(out.is_sorted_by_key(|arrival| arrival.at));
    assert_eq!(out[0].at, Instant::from_nanos(800 + 1_000_000), "100 bytes at 1 Gbit/s, and 1 ms");
    assert!(out.iter().all(|arrival| !arrival.is_damaged && arrival.bytes.len() == 100));
}

#[test]
fn jitter_delays_but_does_not_reorder() {
    let (_, out) = run(PathSettings { jitter: Duration::from_millis(3), ..clean() }, 1_000);
    assert!(out.is_sorted_by_key(|arrival| arrival.at));
}

#[test]
fn loss_takes_its_share() {
    let (path, out) = run(PathSettings { loss: 0.3, ..clean() }, 10_000);
    assert!((6_800..7_200).contains(&out.len()), "{}", out.len());
    assert_eq!(path.counts().lost, 10_000 - out.len() as u64);
}

#[test]
fn bursts_take_runs_of_packets() {
    let (path, out) = run(PathSettings { burst_enter: 0.01, burst_leave: 0.05, ..clean() }, 10_000);
    let longest = out.windows(2).map(|pair| (pair[1].at - pair[0].at).as_micros() / 10).max();
    assert!(longest > Some(40), "longest run of losses {longest:?}");
    assert!(path.counts().lost_in_burst > 500);
}

#[test]
fn copies_and_replays_are_added_and_counted() {
    let (path, out) = run(PathSettings { duplicate: 0.5, replay: 0.1, ..clean() }, 1_000);
    assert_eq!(out.len() as u64, 1_000 + path.counts().doubled + path.counts().replayed);
    assert!(path.counts().doubled > 400 && path.counts().replayed > 50);
}

#[test]
fn a_packet_held_back_is_overtaken() {
    let settings = PathSettings { reorder: 0.1, reorder_by: Duration::from_millis(5), ..clean() };
    let (_, out) = run(settings, 1_000);
    assert!(!out.is_sorted_by_key(|arrival| arrival.at));
}

#[test]
fn a_black_hole_swallows_everything_until_it_heals() {
    let mut path = Path::new(clean(), Random::from_seed(1));
    let mut out = Vec::new();
    path.set_black(true);
    path.carry(Instant::ZERO, &frame(50, false), &mut out);
    assert!(out.is_empty());
    path.heal();
    path.carry(Instant::ZERO, &frame(50, false), &mut out);
    assert_eq!((out.len(), path.counts().black), (1, 1));
}

#[test]
fn a_long_packet_passes_only_in_fragments() {
    let mut path = Path::new(PathSettings { mtu_bytes: 99, ..clean() }, Random::from_seed(1));
    let mut out = Vec::new();
    path.carry(Instant::ZERO, &frame(100, false), &mut out);
    assert_eq!((out.len(), path.counts().too_long), (0, 1));
    path.carry(Instant::ZERO, &frame(100, true), &mut out);
    assert_eq!(out.len(), 1);
}

#[test]
fn a_full_queue_drops_at_its_tail() {
    let settings = PathSettings { rate_bytes_per_s: 1_000_000, queue_bytes: 1_000, ..clean() };
    let (path, out) = run(settings, 1_000);
    assert!(path.counts().overflowed > 800, "ten times the rate: {:?}", path.counts());
    assert!(out.len() > 90);
}
