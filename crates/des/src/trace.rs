//! A hash of everything that happened, in order.

/// A rolling 64-bit hash of a run (invariant I10: the same seed gives the same value).
///
/// FNV-1a over words instead of bytes, with a rotation so that high bits reach low ones. It finds a difference between
/// two runs of one program; it does not withstand someone who looks for a collision, and need not. The algorithm is
/// part of what a seed means and is pinned by a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct TraceHash(u64);

impl TraceHash {
    /// The hash of nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    /// Adds one word.
    pub fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
    }

    /// Adds a string of bytes and its length, so that "ab", "c" differs from "a", "bc".
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        self.add(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }

    /// The value so far.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }
}

impl Default for TraceHash {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(parts: &[&[u8]]) -> u64 {
        let mut hash = TraceHash::new();
        for part in parts {
            hash.add_bytes(part);
        }
        hash.value()
    }

    #[test]
    fn order_boundaries_and_single_bits_count() {
        assert_ne!(hash(&[b"ab", b"c"]), hash(&[b"a", b"bc"]));
        assert_ne!(hash(&[b"a", b"b"]), hash(&[b"b", b"a"]));
        assert_ne!(hash(&[b"12345678"]), hash(&[b"1234567\xB8"]));
        assert_eq!(hash(&[b"12345678", b""]), hash(&[b"12345678", b""]));
    }

    #[test]
    fn the_value_of_a_fixed_trace_is_the_same_everywhere() {
        let mut trace = TraceHash::new();
        trace.add(1);
        trace.add(u64::MAX);
        // By hand: FNV offset basis and prime, each product modulo 2^64 rotated left by 23 bits.
        assert_eq!(trace.value(), 0x5C84_7E61_09D2_39D6);
    }
}
