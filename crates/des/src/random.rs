//! Seeded randomness: xoshiro256** (Blackman and Vigna, 2018), its state filled by SplitMix64 as its authors advise.
//!
//! It is not cryptographic and must not be: a run has to repeat from 64 bits of seed on every machine and for as long
//! as seeds are written down in bug reports, so the algorithm is fixed here and pinned by a test.

use std::ops::Range;
use std::time::Duration;

/// A generator whose whole future follows from its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The generator of `seed`.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut at = seed;
        Self { state: std::array::from_fn(|_| split_mix(&mut at)) }
    }

    /// A generator for one part of the world, say one link: its draws neither change nor follow those of other parts,
    /// so adding a draw here does not shift every draw there.
    #[must_use]
    pub fn stream(seed: u64, stream: u64) -> Self {
        let mut at = stream;
        Self::from_seed(seed ^ split_mix(&mut at))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number below `bound`, all equally likely up to 2^-64 · `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number of `range`; its start if it is empty.
    pub fn range(&mut self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end.saturating_sub(range.start))
    }

    /// A position in something of `len` elements; 0 if it is empty.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// One of `choices`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// A number in 0..1, exclusive of 1.
    #[allow(clippy::cast_precision_loss)] // 53 bits fit a double exactly
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with this probability, 0.0 for never and 1.0 for always.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A duration in `range`, in steps of a nanosecond.
    pub fn duration(&mut self, range: Range<Duration>) -> Duration {
        let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.range(nanos(range.start)..nanos(range.end)))
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014): one step of a counter, scrambled.
fn split_mix(at: &mut u64) -> u64 {
    *at = at.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *at;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published first outputs of SplitMix64 for the seed 1234567.
    #[test]
    fn split_mix_gives_its_published_numbers() {
        let mut at = 1_234_567;
        let first: [u64; 3] = std::array::from_fn(|_| split_mix(&mut at));
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    /// The outputs of the reference program of xoshiro256** for the state 1, 2, 3, 4.
    #[test]
    fn the_generator_gives_its_published_numbers() {
        let mut random = Random { state: [1, 2, 3, 4] };
        let first: [u64; 4] = std::array::from_fn(|_| random.next_u64());
        assert_eq!(first, [11_520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
    }

    #[test]
    fn numbers_stay_in_their_range_and_reach_all_of_it() {
        let mut random = Random::from_seed(1);
        let mut seen = [0_u32; 7];
        for _ in 0..7_000 {
            seen[usize::try_from(random.range(10..17) - 10).unwrap()] += 1;
        }
        assert!(seen.iter().all(|&count| (800..1_200).contains(&count)), "{seen:?}");
        assert_eq!((random.below(0), random.below(1), random.range(5..5)), (0, 0, 5));
    }

    #[test]
    fn a_chance_is_kept_to_within_its_sampling_error() {
        let mut random = Random::from_seed(2);
        let hits = (0..100_000).filter(|_| random.chance(0.3)).count();
        assert!((29_400..30_600).contains(&hits), "{hits}");
        assert!(!random.chance(0.0) && random.chance(1.0));
    }

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let mut one = Random::stream(5, 1);
        let mut two = Random::stream(5, 2);
        assert_ne!(one.next_u64(), two.next_u64());
        assert_eq!(Random::stream(5, 1).next_u64(), Random::stream(5, 1).next_u64());
    }
}
