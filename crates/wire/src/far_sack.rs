//! A piece of what is held further on than a SACK reaches (section 9).

use arrayvec::ArrayVec;
use weft_base::limits::FAR_SACK_BITS;

/// Words of 64 bits in the longest piece.
const WORDS_MAX: usize = FAR_SACK_BITS as usize / 64;

/// Which numbers are held, from some way after the ACK number on.
///
/// [CDP-SACK-6] Bit i stands for ACK number + 1 + offset + i, in the order of a [`Sack`](crate::Sack).
///
/// ```
/// use weft_wire::FarSack;
///
/// let piece = FarSack::new(512, [0xA000_0000_0000_0000, 1]);
/// assert_eq!(piece.held().collect::<Vec<_>>(), [512, 514, 639]);
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FarSack {
    offset: u32,
    words: ArrayVec<u64, WORDS_MAX>,
}

impl FarSack {
    /// [CDP-LIM-16] Bits in the longest piece.
    pub const BITS_MAX: u32 = FAR_SACK_BITS;

    /// A piece whose bits are those of `words`, the top bit first; what is more than it can hold is left out.
    #[must_use]
    pub fn new(offset: u32, words: impl IntoIterator<Item = u64>) -> Self {
        Self { offset, words: words.into_iter().take(WORDS_MAX).collect() }
    }

    /// Numbers between ACK number + 1 and the first that it tells of.
    #[must_use]
    pub const fn offset(&self) -> u32 {
        self.offset
    }

    /// Its bits, the top bit of a word first.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// How many numbers it tells of.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // at most WORDS_MAX words
    pub fn bits(&self) -> u32 {
        self.words.len() as u32 * 64
    }

    /// The numbers that are held, counted from ACK number + 1.
    pub fn held(&self) -> impl Iterator<Item = u64> {
        let starts = (u64::from(self.offset)..).step_by(64);
        self.words.iter().zip(starts).flat_map(|(word, start)| {
            (0..64).filter(move |bit| word >> (63 - bit) & 1 == 1).map(move |bit| start + bit)
        })
    }

    /// Reads a value; `None` unless it is an offset and at least one word.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let (offset, bitmap) = value.split_first_chunk()?;
        let (words, rest) = bitmap.as_chunks();
        if words.is_empty() || words.len() > WORDS_MAX || !rest.is_empty() {
            return None;
        }
        Some(Self::new(u32::from_be_bytes(*offset), words.iter().map(|word| u64::from_be_bytes(*word))))
    }

    /// Bytes of the value.
    pub(crate) fn value_len(&self) -> usize {
        4 + 8 * self.words.len()
    }

    pub(crate) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_be_bytes());
        for word in &self.words {
            out.extend_from_slice(&word.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [CDP-SACK-6] Bit 0 is the 0x80 of the fifth byte and stands for ACK number + 1 + offset.
    #[test]
    fn a_piece_begins_with_its_offset() {
        let value = [0, 0, 2, 0, 0xA0, 0, 0, 0, 0, 0, 0, 1];
        let piece = FarSack::parse(&value).unwrap();
        assert_eq!((piece.offset(), piece.bits()), (512, 64));
        assert_eq!(piece.held().collect::<Vec<_>>(), [512, 514, 575]);
        let mut out = Vec::new();
        piece.emit(&mut out);
        assert_eq!(out, value);
    }

    /// [CDP-LIM-16] A piece tells of 1,984 numbers, in words of 64.
    #[test]
    fn a_value_is_an_offset_and_one_to_thirty_one_words() {
        for len in 0..=255 {
            let is_right = len % 8 == 4 && (12..=252).contains(&len);
            assert_eq!(FarSack::parse(&vec![0xFF; len]).is_some(), is_right, "{len}");
        }
        assert_eq!(FarSack::new(0, [1; 40]).bits(), FarSack::BITS_MAX);
    }

    #[test]
    fn the_last_number_that_can_be_told_of_overflows_nothing() {
        let piece = FarSack::new(u32::MAX, [1; 31]);
        assert_eq!(piece.held().last(), Some(u64::from(u32::MAX) + 1_983));
    }
}
