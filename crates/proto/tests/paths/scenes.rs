//! Runs over all controllers and lengths of way.

use std::time::Duration;

use weft_proto::congestion::Kind;

use super::world::{Dice, MS, MSS, Member, Outcome, Scene, run};

pub(crate) const KINDS: [Kind; 3] = [Kind::Cubic, Kind::Model, Kind::Fixed];
/// One way from 20 µs to 3 ms.
pub(crate) const DELAYS_US: [u64; 7] = [20, 50, 100, 300, 1_000, 2_000, 3_000];
/// The first fault comes here or a little later, where runs have one.
pub(crate) const FAULT: Duration = Duration::from_millis(80);

pub(crate) fn scene(kind: Kind, members: usize, delay: Duration, seed: u64) -> Scene {
    Scene {
        kind,
        connections: 1,
        mss: MSS,
        members: vec![Member::at(delay); members],
        faults: Vec::new(),
        ahead: 1 << 20,
        time: 240 * MS,
        seed,
    }
}

pub(crate) fn show(what: &str, scene: &Scene, outcome: &Outcome) {
    println!(
        "{what:<26} {:<5} x{} of {} seed {:<3} rto {:>7.2?} pause {:>8.2?} windows {:?} changes {:?}",
        scene.kind.name(),
        scene.connections,
        scene.members.len(),
        scene.seed,
        outcome.rto,
        outcome.pause,
        outcome.windows.iter().take(3).collect::<Vec<_>>(),
        outcome.changes.iter().take(6).map(|change| (change.at, change.end, change.to)).collect::<Vec<_>>(),
    );
}

/// Whether the longest stall after the fault is longer than a user may meet.
pub(crate) fn is_too_long(outcome: &Outcome) -> bool {
    outcome.pause > outcome.rto * 3 / 2 + 10 * MS
}

/// Scenes in which the default I/O node becomes another under load.
pub(crate) fn scenes(what: &str, runs: u64, becomes: fn(Member) -> Member) -> Vec<(Scene, Outcome)> {
    let mut dice = Dice(1);
    let all = KINDS.iter().cycle().zip(DELAYS_US.iter().cycle());
    let mut outcomes = Vec::new();
    for (seed, (kind, delay_us)) in (0..runs).zip(all) {
        let members = 2 + usize::try_from(dice.next() % 3).unwrap();
        let mut scene = scene(*kind, members, Duration::from_micros(*delay_us), seed);
        scene.connections = 1 + u16::try_from(dice.next() % 3).unwrap();
        let at = FAULT + Duration::from_micros(dice.next() % 10_000);
        scene.faults = vec![(at, 0, becomes(scene.members[0]))];
        let outcome = run(&scene);
        show(what, &scene, &outcome);
        assert!(outcome.is_whole, "what arrives is what was sent: {scene:?}");
        outcomes.push((scene, outcome));
    }
    outcomes
}
