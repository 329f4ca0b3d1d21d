//! Jitter for timers and limiters: a small generator from the entropy a connection was given.

/// SplitMix64; good enough to spread timers, and never used for numbers that must be guessed (CDP-SEQ-3).
#[derive(Clone, Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) fn new(entropy: u64) -> Self {
        Self(entropy)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// `time` ± 10 % (CDP-KA-2).
    pub(crate) fn around(&mut self, time: std::time::Duration) -> std::time::Duration {
        time * 9 / 10 + time / 5 * u32::try_from(self.next() % 1024).unwrap_or(0) / 1024
    }

    /// A token that is not 0.
    pub(crate) fn token(&mut self) -> u32 {
        u32::try_from(self.next() >> 32).unwrap_or(1).max(1)
    }
}
