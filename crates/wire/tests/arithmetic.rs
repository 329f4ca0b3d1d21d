//! Serial numbers and acknowledgements against naive models that count in 128 bits and never wrap.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use weft_base::Seq;
use weft_wire::ack::{Acknowledgement, rebuild};

fn fixed() -> ProptestConfig {
    ProptestConfig {
        cases: 4096,
        rng_seed: RngSeed::Fixed(64_064),
        failure_persistence: None,
        ..Default::default()
    }
}

/// A number of a stream that has gone on for ever, near an edge of 32 or 64 bits more often than not.
fn position() -> impl Strategy<Value = u128> {
    let edges = prop_oneof![
        Just(1_u128 << 64),
        Just(2 << 64),
        Just((1 << 64) + (1 << 32)),
        Just((1 << 64) + (1 << 63))
    ];
    let near = (edges, 0_u128..1 << 31).prop_map(|(edge, offset)| edge + offset - (1 << 30));
    prop_oneof![2 => near, 1 => (1_u128 << 64)..(3 << 64)]
}

#[allow(clippy::cast_possible_truncation)] // the wire carries the low 64 bits
fn seq(position: u128) -> Seq {
    Seq::new(position as u64)
}

/// The one position in `range` whose low 32 bits are `low`, found without any wrapping.
fn with_low(range: std::ops::RangeInclusive<u128>, low: u32) -> Option<u128> {
    let base = (range.start() >> 32) << 32;
    [base, base + (1 << 32)].map(|base| base + u128::from(low)).into_iter().find(|at| range.contains(at))
}

fn model(una: u128, nxt: u128, low: u32) -> Acknowledgement {
    match (with_low(una..=nxt, low), with_low(una - (1 << 30)..=una - 1, low)) {
        (Some(full), _) => Acknowledgement::Valid(seq(full)),
        (None, Some(_)) => Acknowledgement::Old,
        (None, None) => Acknowledgement::False,
    }
}

proptest! {
    #![proptest_config(fixed())]

    /// [CDP-ACK-2] [CDP-ACK-3] [CDP-ACK-4] [CDP-ACK-5] Any 32 bits, with any numbers in flight.
    #[test]
    fn any_low_half_is_judged_as_the_model_judges(una in position(), flight in 0_u128..1 << 30, low: u32) {
        prop_assert_eq!(rebuild(seq(una), seq(una + flight), low), model(una, una + flight, low));
    }

    /// [CDP-ACK-2] [CDP-ACK-3] [CDP-ACK-4] What a peer can really have said comes back whole, or as old.
    #[test]
    fn a_true_acknowledgement_comes_back(
        una in position(), flight in 0_u128..1 << 30, back in 0_u128..=1 << 30, share in 0_u128..=1 << 30,
    ) {
        let nxt = una + flight;
        let ahead = una + flight * share / (1 << 30);
        prop_assert_eq!(rebuild(seq(una), seq(nxt), seq(ahead).low32()), Acknowledgement::Valid(seq(ahead)));
        let late = rebuild(seq(una), seq(nxt), seq(una - back).low32());
        let wanted = if back == 0 { Acknowledgement::Valid(seq(una)) } else { Acknowledgement::Old };
        prop_assert_eq!(late, wanted);
    }

    /// [CDP-SEQ-1] Less than 2^63 apart, serial order is the order of the positions.
    #[test]
    fn serial_order_is_the_order_of_positions(a in position(), apart in 0_u128..1 << 63) {
        let b = a + apart;
        prop_assert_eq!(seq(a).is_before(seq(b)), a < b);
        prop_assert!(!seq(b).is_before(seq(a)));
        prop_assert!(seq(a).is_at_or_before(seq(b)));
        prop_assert_eq!(seq(b).is_at_or_before(seq(a)), a == b);
        prop_assert_eq!(u128::from(seq(b).distance_from(seq(a))), apart);
        prop_assert_eq!(seq(a).later(seq(b)), seq(b));
        prop_assert_eq!(seq(b).later(seq(a)), seq(b));
    }

    /// [CDP-SEQ-2] Adding and taking away wraps at 2^64.
    #[test]
    fn steps_wrap_at_sixty_four_bits(a in position(), step: u64) {
        prop_assert_eq!(seq(a) + step, seq(a + u128::from(step)));
        prop_assert_eq!(seq(a + u128::from(step)) - step, seq(a));
        prop_assert_eq!(u128::from(seq(a).low32()), a % (1 << 32));
    }
}
