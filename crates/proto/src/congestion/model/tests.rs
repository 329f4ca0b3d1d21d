//! The model-based controller, phase by phase, on a path that the tests make up.

use super::super::tests::{ack, loss};
use super::*;
use crate::rate::RateSample;

const RTT: Duration = Duration::from_millis(1);

fn at(us: u64) -> Instant {
    Instant::from_nanos(us * 1_000)
}

/// A path that delivers at most `path` packets in a millisecond, with a queue that never fills, and a sender that
/// always has data.
struct Rounds {
    model: Model,
    now_us: u64,
    path: u32,
    /// What others make the round trip longer by.
    queue: Duration,
}

impl Rounds {
    fn new(path: u32) -> Self {
        Self { model: Model::new(32, at(0)), now_us: 0, path, queue: Duration::ZERO }
    }

    /// One round trip: what pacing and window let go is acknowledged at its end, as far as the path carries it.
    fn pass(&mut self) {
        let sent_at = at(self.now_us);
        self.now_us += 1_000;
        let paced = self.model.pacing_rate().map_or(u32::MAX, |rate| u32::try_from(rate / 1_000).unwrap());
        let sent = self.model.window().min(paced.max(1));
        let delivered = sent.min(self.path);
        let sample = RateSample { delivered, interval: RTT, is_app_limited: false };
        self.model.handle_ack(&Ack {
            now: at(self.now_us),
            newly_acked: delivered,
            in_flight: sent - delivered,
            sent_at,
            rtt: Some(RTT + self.queue),
            min_rtt: Some(RTT),
            srtt: Some(RTT + self.queue),
            delivery: Some(sample),
            is_window_limited: true,
        });
    }

    fn pass_until(&mut self, phase: Phase) {
        for _ in 0..200 {
            if self.model.phase == phase {
                return;
            }
            self.pass();
        }
        panic!("{phase:?} not reached, but {:?}", self.model.phase);
    }

    fn lose(&mut self, lost: u32) {
        let now = at(self.now_us);
        self.model.handle_loss(&Loss { now, lost, in_flight: 900, largest_sent_at: now, ..loss() });
    }
}

#[test]
fn startup_finds_the_rate_of_the_path_and_then_cruises_at_it() {
    let mut rounds = Rounds::new(800);
    rounds.pass_until(Phase::Drain);
    assert!(rounds.now_us < 12_000, "{} us for five doublings and three rounds more", rounds.now_us);
    rounds.pass_until(Phase::Cruise);
    assert!((rounds.model.rate() - 800_000.0).abs() < 1.0);
    assert_eq!(rounds.model.pacing_rate(), Some(792_000));
    assert!((1_600..=2_500).contains(&rounds.model.window()), "{}", rounds.model.window());
}

#[test]
fn a_path_that_becomes_faster_is_found_out_by_the_next_probe() {
    let mut rounds = Rounds::new(100);
    rounds.pass_until(Phase::Cruise);
    rounds.path = 150;
    rounds.pass_until(Phase::Up);
    rounds.pass_until(Phase::Cruise);
    assert!(rounds.model.rate() >= 149_000.0, "{}", rounds.model.rate());
}

#[test]
fn a_path_that_becomes_slower_is_forgotten_after_two_probes() {
    let mut rounds = Rounds::new(100);
    rounds.pass_until(Phase::Cruise);
    rounds.path = 50;
    for _ in 0..3 {
        rounds.pass_until(Phase::Up);
        rounds.pass_until(Phase::Cruise);
    }
    assert!((rounds.model.rate() - 50_000.0).abs() < 1.0, "{}", rounds.model.rate());
}

/// A window is whole packets, and what is in flight never reaches the part of one that a ceiling has beyond.
#[test]
fn a_flow_that_has_come_down_to_a_few_packets_grows_again() {
    for ceiling in [4.3, 4.9, 5.9, 7.9, 11.9] {
        let mut rounds = Rounds::new(800);
        rounds.pass_until(Phase::Cruise);
        rounds.model.bounds.ceiling = ceiling;
        (0..400).for_each(|_| rounds.pass());
        assert!(rounds.model.window() >= 400, "from {ceiling}: {:?}", rounds.model);
    }
}

#[test]
fn an_application_that_sends_little_neither_ends_startup_nor_slows_it() {
    let mut model = Model::new(32, at(0));
    for round in 0..100 {
        let delivery = Some(RateSample { delivered: 1, interval: RTT, is_app_limited: true });
        let (now, sent_at) = (at((round + 1) * 1_000), at(round * 1_000));
        model.handle_ack(&Ack { now, sent_at, in_flight: 0, srtt: Some(RTT), delivery, ..ack() });
    }
    assert_eq!(model.phase, Phase::Startup);
    assert!(model.pacing_rate() >= Some(80_000), "the initial window in less than a round trip");
}

#[test]
fn loss_that_noise_explains_changes_nothing() {
    let mut rounds = Rounds::new(800);
    rounds.pass_until(Phase::Cruise);
    let (window, rate) = (rounds.model.window(), rounds.model.pacing_rate());
    for _ in 0..5 {
        rounds.lose(8);
        rounds.pass();
    }
    assert_eq!((rounds.model.window(), rounds.model.pacing_rate()), (window, rate));
}

#[test]
fn congestion_while_probing_sets_a_ceiling_at_once_and_the_next_probe_waits_longer() {
    let mut rounds = Rounds::new(800);
    rounds.pass_until(Phase::Up);
    rounds.pass();
    assert_eq!(rounds.model.phase, Phase::Up);
    rounds.lose(100);
    assert_eq!(rounds.model.phase, Phase::Down);
    let ceiling = rounds.model.bounds.ceiling;
    assert!((0.84 * 1_000.0..=0.86 * 1_000.0).contains(&ceiling), "{ceiling}");
    assert_eq!(f64::from(rounds.model.window()), ceiling.floor());
    assert!(rounds.model.is_congested);
}

/// A probe meets losses without a queue, and as much is lost when less is sent.
#[test]
fn a_reaction_to_what_proves_to_be_noise_is_taken_back_and_the_probe_goes_on() {
    let mut rounds = Rounds::new(800);
    rounds.queue = RTT;
    rounds.pass();
    rounds.queue = Duration::ZERO;
    rounds.pass_until(Phase::Up);
    rounds.pass();
    rounds.lose(100);
    assert_eq!(rounds.model.phase, Phase::Down);
    let ceiling = rounds.model.bounds.ceiling;
    rounds.pass();
    assert_eq!((rounds.model.phase, rounds.model.bounds.ceiling), (Phase::Down, ceiling));
    rounds.lose(100);
    rounds.pass();
    assert_eq!(rounds.model.phase, Phase::Up, "{:?}", rounds.model);
    assert!(rounds.model.bounds.ceiling > ceiling);
}

/// The same where nothing is lost when less is sent.
#[test]
fn a_reaction_to_losses_that_end_with_the_probe_stays() {
    let mut rounds = Rounds::new(800);
    rounds.pass_until(Phase::Up);
    rounds.pass();
    rounds.lose(100);
    let ceiling = rounds.model.bounds.ceiling;
    rounds.pass_until(Phase::Cruise);
    for _ in 0..10 {
        rounds.pass();
        assert_eq!((rounds.model.phase, rounds.model.bounds.ceiling), (Phase::Cruise, ceiling));
    }
}

/// What was sent before a reaction is answered by it, also if its loss is heard of later.
#[test]
fn one_reaction_answers_a_round_trip() {
    let mut rounds = Rounds::new(800);
    rounds.pass_until(Phase::Up);
    rounds.lose(100);
    let ceiling = rounds.model.bounds.ceiling;
    let late =
        Loss { now: at(rounds.now_us + 10), lost: 200, largest_sent_at: at(rounds.now_us - 1), ..loss() };
    rounds.model.handle_loss(&late);
    rounds.pass();
    assert!((rounds.model.bounds.ceiling - ceiling).abs() < 1e-9);
}

/// [CDP-CC-5] A mark is answered as congestion, at most once per round trip.
#[test]
fn marks_are_answered_once_per_round_trip() {
    let mut rounds = Rounds::new(800);
    rounds.pass_until(Phase::Up);
    rounds.pass();
    let (now, sent_at) = (at(rounds.now_us), at(rounds.now_us - 1));
    rounds.model.handle_ecn(now, sent_at);
    let ceiling = rounds.model.bounds.ceiling;
    // The acknowledgement before it ended a round of 1,000 in flight.
    assert!((0.84 * 1_000.0..=0.86 * 1_000.0).contains(&ceiling), "{ceiling}");
    rounds.model.handle_ecn(now, sent_at);
    rounds.pass();
    assert!((rounds.model.bounds.ceiling - ceiling).abs() < 1e-9);
}

#[test]
fn congestion_while_cruising_takes_the_rate_to_what_arrives_until_the_next_probe() {
    let mut rounds = Rounds::new(800);
    rounds.pass_until(Phase::Cruise);
    rounds.path = 400;
    rounds.lose(300);
    rounds.pass();
    let slowed = rounds.model.rate();
    assert!((0.69 * 800_000.0..0.71 * 800_000.0).contains(&slowed), "{slowed}");
    rounds.pass_until(Phase::Up);
    assert!(rounds.model.rate() > slowed);
}

#[test]
fn a_spurious_reaction_is_undone() {
    let mut rounds = Rounds::new(800);
    rounds.pass_until(Phase::Up);
    rounds.lose(100);
    assert!(rounds.model.bounds.ceiling.is_finite());
    rounds.model.handle_spurious(at(rounds.now_us));
    assert!(rounds.model.bounds.ceiling.is_infinite());
}

#[test]
fn a_time_out_leaves_the_least_window_and_keeps_the_model() {
    let mut rounds = Rounds::new(800);
    rounds.pass_until(Phase::Cruise);
    let rate = rounds.model.rate();
    let now = at(rounds.now_us);
    rounds.model.handle_loss(&Loss { now, lost: 1, is_timeout: true, ..loss() });
    assert_eq!(rounds.model.window(), 4);
    assert!((rounds.model.rate() - rate).abs() < 1.0);
    rounds.pass();
    assert_eq!(rounds.model.window(), 8, "acknowledgements bring it back");
}

#[test]
fn a_queue_that_has_not_been_empty_for_long_is_emptied() {
    let mut rounds = Rounds::new(800);
    rounds.pass_until(Phase::Cruise);
    let holds = rounds.model.held_by_path();
    let queued = |now_us, in_flight| Ack {
        now: at(now_us),
        in_flight,
        rtt: Some(RTT * 2),
        min_rtt: Some(RTT),
        srtt: Some(RTT),
        ..ack()
    };
    let start = rounds.now_us;
    rounds.model.handle_ack(&queued(start + 300_000, 800));
    assert!(!matches!(rounds.model.phase, Phase::ProbeRtt(_)));
    rounds.model.handle_ack(&queued(start + 500_000, 800));
    assert_eq!(rounds.model.phase, Phase::ProbeRtt(None));
    assert!(f64::from(rounds.model.window()) <= holds / 2.0);
    rounds.model.handle_ack(&queued(start + 501_000, 300));
    rounds.model.handle_ack(&queued(start + 501_500, 300));
    assert!(matches!(rounds.model.phase, Phase::ProbeRtt(Some(_))));
    rounds.model.handle_ack(&queued(start + 502_100, 300));
    assert_eq!(rounds.model.phase, Phase::Cruise);
}

/// Beside others who keep the queue full and answer no losses, a flow gives way so far and no further; when the queue is empty
/// again it answers losses as before.
#[test]
fn who_answers_no_losses_does_not_take_all() {
    let mut rounds = Rounds::new(800);
    rounds.pass_until(Phase::Cruise);
    rounds.queue = RTT;
    let lossy = |rounds: &mut Rounds| {
        let (now, window) = (at(rounds.now_us), rounds.model.window());
        let lost = window / 10;
        rounds.model.handle_loss(&Loss {
            now,
            lost,
            in_flight: window - lost,
            largest_sent_at: now,
            ..loss()
        });
        rounds.pass();
    };
    (0..100).for_each(|_| lossy(&mut rounds));
    assert!(rounds.model.standing.is_foreign());
    let held = rounds.model.held_by_path();
    (0..100).for_each(|_| lossy(&mut rounds));
    assert!(rounds.model.held_by_path() >= 0.9 * held && held >= 200.0, "{held}, {:?}", rounds.model);
    let of_what_is_held = |model: &Model| model.target() / model.held_by_path();
    rounds.pass_until(Phase::Cruise);
    let cruising = of_what_is_held(&rounds.model);
    rounds.pass_until(Phase::Up);
    let probing = of_what_is_held(&rounds.model);
    assert!(probing >= cruising + 0.4, "the window is the limit: {cruising} {probing}");
    rounds.queue = Duration::ZERO;
    rounds.pass();
    assert!(!rounds.model.standing.is_foreign());
}
