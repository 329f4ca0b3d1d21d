//! The bitmap of numbers held out of order (section 9).

use std::fmt;
use std::ops::Range;

/// Words of 64 bits in the longest bitmap.
const WORDS_MAX: usize = 8;

/// Which numbers after the ACK number are held.
///
/// [CDP-SACK-1] Bit 0, the 0x80 of the first byte, stands for ACK number + 1, bit i for ACK number + 1 + i. (The
/// ACK number itself is never held, or it would have been acknowledged.)
///
/// ```
/// use weft_wire::Sack;
///
/// let sack = Sack::from_held([0, 2, 3, 4]);
/// assert!(sack.is_held(0) && !sack.is_held(1));
/// assert_eq!(sack.runs().collect::<Vec<_>>(), [0..1, 2..5]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Sack {
    /// Big-endian words, so that bit i is bit 63 − i % 64 of word i / 64.
    words: [u64; WORDS_MAX],
    /// How many words travel.
    count: u8,
}

impl Sack {
    /// [CDP-LIM-7] Bits in the longest bitmap.
    pub const BITS_MAX: u32 = weft_base::limits::SACK_BITS;

    /// A bitmap, as short as it can be, that holds the bits in `held`; those it cannot reach are left out.
    #[must_use]
    pub fn from_held(held: impl IntoIterator<Item = u32>) -> Self {
        let mut sack = Self::default();
        for bit in held {
            sack.hold(bit);
        }
        sack
    }

    /// The bitmap of these words, the top bit first, as short as it can be.
    #[must_use]
    pub fn from_words(words: [u64; WORDS_MAX]) -> Self {
        let count = words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        #[allow(clippy::cast_possible_truncation)] // at most WORDS_MAX
        let count = count as u8;
        Self { words, count }
    }

    /// The words that travel, the top bit first.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words[..usize::from(self.count)]
    }

    /// Sets bit `bit` and tells whether the bitmap reaches that far.
    pub fn hold(&mut self, bit: u32) -> bool {
        if bit >= Self::BITS_MAX {
            return false;
        }
        let word = (bit / 64) as usize;
        self.words[word] |= 1 << (63 - bit % 64);
        #[allow(clippy::cast_possible_truncation)] // at most WORDS_MAX
        let needed = word as u8 + 1;
        self.count = self.count.max(needed);
        true
    }

    /// Whether ACK number + 1 + `bit` is held.
    #[must_use]
    pub const fn is_held(&self, bit: u32) -> bool {
        bit < Self::BITS_MAX && self.words[(bit / 64) as usize] & (1 << (63 - bit % 64)) != 0
    }

    /// Whether no bit is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// How many numbers are held.
    #[must_use]
    pub fn held(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Bits that travel, a multiple of 64.
    #[must_use]
    pub const fn bits(&self) -> u32 {
        self.count as u32 * 64
    }

    /// The held bits as ascending ranges that neither touch nor overlap.
    #[must_use]
    pub const fn runs(&self) -> Runs {
        Runs { sack: *self, next: 0 }
    }

    /// Reads a bitmap of `value.len()` bytes; `None` unless that is a multiple of 8 in 8..64.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let (words, rest) = value.as_chunks::<8>();
        if words.is_empty() || words.len() > WORDS_MAX || !rest.is_empty() {
            return None;
        }
        let mut sack = Self::default();
        for (word, bytes) in sack.words.iter_mut().zip(words) {
            *word = u64::from_be_bytes(*bytes);
        }
        sack.count = u8::try_from(words.len()).ok()?;
        Some(sack)
    }

    /// Bytes of the value: a multiple of 8, and 8 for the bitmap without a bit.
    pub(crate) const fn value_len(&self) -> usize {
        if self.count == 0 { 8 } else { self.count as usize * 8 }
    }

    pub(crate) fn emit(&self, out: &mut Vec<u8>) {
        for word in &self.words[..self.value_len() / 8] {
            out.extend_from_slice(&word.to_be_bytes());
        }
    }

    /// The first bit at or after `from` that is `held`, or `BITS_MAX`.
    fn next(&self, from: u32, held: bool) -> u32 {
        let mut at = from;
        while at < Self::BITS_MAX {
            let word = self.words[(at / 64) as usize];
            let wanted = if held { word } else { !word } << (at % 64);
            if wanted != 0 {
                return at + wanted.leading_zeros();
            }
            at = (at / 64 + 1) * 64;
        }
        Self::BITS_MAX
    }
}

impl fmt::Debug for Sack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.runs()).finish()
    }
}

/// Iterator over [`Sack::runs`].
#[derive(Clone, Debug)]
pub struct Runs {
    sack: Sack,
    next: u32,
}

impl Iterator for Runs {
    type Item = Range<u32>;

    fn next(&mut self) -> Option<Range<u32>> {
        let start = self.sack.next(self.next, true);
        if start >= Sack::BITS_MAX {
            return None;
        }
        self.next = self.sack.next(start, false);
        Some(start..self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [CDP-SACK-1] Bit 0 is the 0x80 of the first byte and stands for ACK number + 1.
    #[test]
    fn bit_zero_is_the_top_bit_of_the_first_byte() {
        let sack = Sack::parse(&[0xA0, 0, 0, 0, 0, 0, 0, 1]).unwrap();
        assert_eq!(sack.runs().collect::<Vec<_>>(), [0..1, 2..3, 63..64]);
        assert_eq!(sack.held(), 3);
        let mut out = Vec::new();
        sack.emit(&mut out);
        assert_eq!(out, [0xA0, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn words_are_those_of_the_value() {
        let sack = Sack::from_held([0, 63, 130]);
        assert_eq!(sack.words(), [1 << 63 | 1, 0, 1 << 61]);
        assert_eq!(Sack::from_words([1 << 63 | 1, 0, 1 << 61, 0, 0, 0, 0, 0]), sack);
        assert_eq!(Sack::from_words([0; 8]), Sack::default());
    }

    #[test]
    fn a_value_is_a_multiple_of_eight_up_to_sixty_four_bytes() {
        for len in 0..=80 {
            assert_eq!(Sack::parse(&vec![0xFF; len]).is_some(), len % 8 == 0 && (8..=64).contains(&len));
        }
    }

    /// [CDP-LIM-7] A bitmap tells of 512 numbers, and what lies beyond is left for later.
    #[test]
    fn runs_cross_words_and_end_with_the_bitmap() {
        let sack = Sack::from_held((60..70).chain(500..600));
        assert_eq!(sack.runs().collect::<Vec<_>>(), [60..70, 500..512]);
        assert_eq!(sack.bits(), 512);
        assert!(!sack.is_held(512) && !sack.is_held(u32::MAX));
    }

    #[test]
    fn a_bitmap_travels_as_short_as_it_can() {
        assert_eq!(Sack::from_held([63]).value_len(), 8);
        assert_eq!(Sack::from_held([64]).value_len(), 16);
        assert_eq!(Sack::default().value_len(), 8);
    }
}
