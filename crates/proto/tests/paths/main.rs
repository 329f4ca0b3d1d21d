//! Whole connections over several I/O nodes: what the death and the sickness of one of them does to them.

#[cfg(test)]
mod scenes;
#[cfg(test)]
mod world;

use std::time::Duration;

use weft_proto::congestion::Kind;

use scenes::{DELAYS_US, FAULT, KINDS, is_too_long, scene, scenes, show};
use world::{MS, Member, run};

/// [CDP-IO-2] [CDP-IO-4] A default that dies under load stalls its users for little more than one RTO and is left, and what
/// it carried before is no reason to leave it.
#[test]
fn the_death_of_the_default_is_a_stall_of_one_time_out() {
    let runs = scenes("dies", 42, Member::dead);
    for (scene, outcome) in &runs {
        let changes: Vec<_> = outcome.changes.iter().filter(|change| change.end == 0).collect();
        assert!(changes[0].at > scene.faults[0].0, "left while it was well: {changes:?}");
        assert!(changes.len() == 1 || scene.connections > 1, "one change is enough: {changes:?}");
    }
    assert_eq!(
        runs.iter().filter(|(_, outcome)| is_too_long(outcome)).count(),
        0,
        "stalls that are too long"
    );
}

/// [CDP-IO-4] The same where packets get through in one direction, whichever it is.
#[test]
fn a_default_that_is_dead_in_one_direction_is_left() {
    let forth: fn(Member) -> Member = |member| Member { is_dead: [true, false], ..member };
    let back: fn(Member) -> Member = |member| Member { is_dead: [false, true], ..member };
    for (what, becomes) in [("dies forth", forth), ("dies back", back)] {
        for (_, outcome) in scenes(what, 21, becomes) {
            assert!(!is_too_long(&outcome), "{what}: {outcome:?}");
            assert!(!outcome.changes.is_empty());
        }
    }
}

/// [CDP-IO-10] A default that drops three packets in ten, or has become longer by 200 ms, is left, and the others carry what
/// it did.
#[test]
fn goodput_returns_when_the_default_is_sick() {
    let drops: fn(Member) -> Member = |member| Member { loss_per_mille: 300, ..member };
    let delays: fn(Member) -> Member = |member| Member { delay: member.delay + 200 * MS, ..member };
    for (what, becomes) in [("drops 30 %", drops), ("adds 200 ms", delays)] {
        let mut poor = 0;
        let runs = scenes(what, 21, becomes);
        for (scene, outcome) in &runs {
            let healthy = outcome.goodput(FAULT / 2, FAULT);
            let from = scene.faults[0].0 + outcome.rto * 10;
            let part = outcome.goodput(from, scene.time.min(from + 40 * MS)) / healthy;
            show(&format!("{what}: {:.0} %", part * 100.0), scene, outcome);
            poor += usize::from(part < 0.8);
        }
        assert_eq!(poor, 0, "{what}: runs with less than four fifths");
    }
}

/// [CDP-IO-2] [CDP-IO-4] One message at a time: three of them meet the dead default, and no more.
#[test]
fn a_user_that_waits_for_each_answer_meets_a_dead_default_three_times() {
    for delay_us in DELAYS_US {
        let mut scene = scene(Kind::Cubic, 2, Duration::from_micros(delay_us), 1);
        scene.ahead = 0;
        scene.faults = vec![(FAULT, 0, scene.members[0].dead())];
        let outcome = run(&scene);
        show("one at a time", &scene, &outcome);
        // the answer to the message before may be lost as well
        assert!(outcome.pause < outcome.rto * 3 + 10 * MS && outcome.is_whole);
        assert_eq!(outcome.changes.len(), 1);
        let took = outcome.changes[0].at - FAULT;
        assert!(took < outcome.rto * 6, "{took:?} with an RTO of {:?}", outcome.rto);
    }
}

/// [CDP-MTU-6] [CDP-MTU-7] [CDP-MTU-8] Members differ in the size of packet they carry: what goes again through one that carries
/// less may be cut, before and after that becomes the default, and each default proves its size anew.
#[test]
fn a_default_that_carries_less_takes_over() {
    for (kind, loss_per_mille) in KINDS.into_iter().zip([0, 20, 0]) {
        let mut scene = scene(kind, 2, Duration::from_micros(100), 5);
        (scene.mss, scene.time) = (8_944, 400 * MS);
        let [large, small] = [9_000, 1_472].map(|mtu| Member { mtu, loss_per_mille, ..scene.members[0] });
        scene.members = vec![large, small];
        let well_again = FAULT + 150 * MS;
        scene.faults = vec![(FAULT, 0, large.dead()), (well_again, 0, large), (well_again, 1, small.dead())];
        let outcome = run(&scene);
        show("carries less", &scene, &outcome);
        assert!(outcome.is_whole && !is_too_long(&outcome), "{outcome:?}");
        assert_eq!(outcome.longest, [8_944, 1_424]);
    }
}

/// [CDP-IO-2] One I/O node after another dies and comes back.
#[test]
fn a_rolling_crash_is_one_stall_after_another() {
    for kind in KINDS {
        let mut scene = scene(kind, 3, Duration::from_micros(100), 3);
        let well = scene.members[0];
        scene.faults = (0..6)
            .flat_map(|step| {
                let at = FAULT + 20 * MS * u32::try_from(step).unwrap();
                [(at, step % 3, well.dead()), (at + 15 * MS, step % 3, well)]
            })
            .collect();
        let outcome = run(&scene);
        show("rolling", &scene, &outcome);
        assert!(!is_too_long(&outcome) && outcome.is_whole, "{outcome:?}");
    }
}

/// [CDP-IO-2] [CDP-IO-3] A connection opens although its default, or that of the other end, is dead.
#[test]
fn a_connection_opens_over_a_dead_default() {
    for is_dead in [[true, true], [true, false], [false, true]] {
        let mut scene = scene(Kind::Cubic, 2, Duration::from_micros(100), 1);
        scene.members[0].is_dead = is_dead;
        scene.time = 1_000 * MS;
        let outcome = run(&scene);
        let first = outcome.received.iter().position(|bytes| *bytes > 0).unwrap();
        println!("{is_dead:?}: data after {first} ms, changes {:?}", outcome.changes);
        assert!(first < 520, "RTO_INIT is 250 ms, once for the SYN and once for data that has no sample yet");
        assert!(outcome.goodput(800 * MS, 1_000 * MS) > 100_000.0);
    }
}
