//! What travels: bytes that follow from a key and an offset, so that a reader can check them without the writer.

use std::ops::Range;

/// One direction of one connection: the key of its bytes and the lengths of its messages.
///
/// The bytes are those of one endless text per key; message k is the next piece of it. A lost, repeated, swapped or
/// shortened message therefore shows as a wrong byte or a wrong length at once, in both services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    key: u64,
}

impl Content {
    /// The text of `key`.
    #[must_use]
    pub fn new(key: u64) -> Self {
        Self { key: scramble(key) }
    }

    /// Appends the bytes of `range` (offsets into the text) to `target`.
    pub fn write(&self, range: Range<u64>, target: &mut Vec<u8>) {
        let mut at = range.start;
        while at < range.end {
            let word = self.word(at / 8);
            let from = usize::try_from(at % 8).unwrap_or(0);
            let take = (8 - from).min(usize::try_from(range.end - at).unwrap_or(8));
            target.extend_from_slice(&word[from..from + take]);
            at += take as u64;
        }
    }

    /// The first position at which `bytes`, read at `offset`, differ from the text.
    #[must_use]
    pub fn first_difference(&self, offset: u64, bytes: &[u8]) -> Option<usize> {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let word = self.word(at / 8);
            let from = usize::try_from(at % 8).unwrap_or(0);
            let take = (8 - from).min(bytes.len() - done);
            let (want, got) = (&word[from..from + take], &bytes[done..done + take]);
            if want != got {
                return want.iter().zip(got).position(|(want, got)| want != got).map(|i| done + i);
            }
            done += take;
        }
        None
    }

    fn word(&self, index: u64) -> [u8; 8] {
        scramble(self.key ^ index.wrapping_mul(0xD6E8_FEB8_6659_FD93)).to_le_bytes()
    }
}

/// A fixed one-to-one mixing of 64 bits (the finisher of MurmurHash3).
fn scramble(word: u64) -> u64 {
    let mut mixed = word ^ (word >> 33);
    mixed = mixed.wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    mixed ^= mixed >> 33;
    mixed = mixed.wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    mixed ^ (mixed >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(key: u64, range: Range<u64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        Content::new(key).write(range, &mut bytes);
        bytes
    }

    #[test]
    fn pieces_join_to_the_whole_wherever_it_is_cut() {
        let whole = text(9, 0..100);
        for cut in 0..100 {
            let joined = [text(9, 0..cut), text(9, cut..100)].concat();
            assert_eq!(joined, whole, "cut at {cut}");
        }
    }

    #[test]
    fn a_reader_finds_the_first_wrong_byte() {
        let mut bytes = text(3, 5..50);
        assert_eq!(Content::new(3).first_difference(5, &bytes), None);
        bytes[17] ^= 1;
        assert_eq!(Content::new(3).first_difference(5, &bytes), Some(17));
        assert!(Content::new(3).first_difference(6, &text(3, 5..50)).is_some(), "one byte late");
        assert!(Content::new(4).first_difference(5, &text(3, 5..50)).is_some(), "of another key");
    }
}
