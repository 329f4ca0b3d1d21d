//! CRC32C over a packet whose head is in one place and whose body may be in another.
//!
//! The head is masked as words and summed up from a copy on the stack, so neither a shared frame nor a body is touched.

use std::num::NonZeroU64;

use weft_crc::Behind;

use crate::words::Words;

/// [CDP-SEAL-1] C: the CRC32C of the packet with byte 0 masked by 0xF8 and bytes 16..19 taken as zero.
///
/// `rest` is what follows the header, up to LENGTH.
#[must_use]
#[inline]
pub(crate) fn checksum(head: Words, rest: &[u8]) -> u32 {
    weft_crc::append(weft_crc::crc32c(&head.immutable().unsealed().bytes()), rest)
}

/// The same, and copies `rest` to `to`, which has as many bytes, in the same pass where the processor can.
#[inline]
pub(crate) fn copy_and_sum(head: Words, rest: &[u8], to: &mut [u8]) -> u32 {
    weft_crc::append_copy(weft_crc::crc32c(&head.immutable().unsealed().bytes()), rest, to)
}

/// The same of a packet that has `before` between its head and `rest`, which is not copied.
#[inline]
pub(crate) fn copy_behind_and_sum(head: Words, before: &[u8], rest: &[u8], to: &mut [u8]) -> u32 {
    weft_crc::append_copy(checksum(head, before), rest, to)
}

/// The same, of a body of which the sum is known.
#[must_use]
#[inline]
pub(crate) fn checksum_with(head: Words, body: BodySum, behind: Behind) -> u32 {
    behind.combine(weft_crc::crc32c(&head.immutable().unsealed().bytes()), body.get())
}

/// What is known of the checksum of a packet before it has a head: the sum of its data segment, taken as that was copied. By
/// default that of none.
///
/// It is one word, and so is one that may not be there: what was stored as two a moment ago is to be had as one only when all stores before are
/// done, and these are those of the copy (decision 0105).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BodySum(NonZeroU64);

impl Default for BodySum {
    fn default() -> Self {
        Self::new(0)
    }
}

impl BodySum {
    fn new(sum: u32) -> Self {
        Self(NonZeroU64::MIN | u64::from(sum) << 32)
    }

    #[allow(clippy::cast_possible_truncation)] // it has so many bits
    fn get(self) -> u32 {
        (self.0.get() >> 32) as u32
    }

    /// Whether it costs less to take it while the data is copied than when the packet leaves.
    #[must_use]
    pub fn is_cheap() -> bool {
        weft_crc::sums_while_copying()
    }

    /// That of a data segment with `bytes` behind it, which are copied to `to`.
    ///
    /// # Panics
    ///
    /// If `to` has not as many.
    #[must_use]
    #[inline]
    pub fn copy(self, bytes: &[u8], to: &mut [u8]) -> Self {
        Self::new(weft_crc::append_copy(self.get(), bytes, to))
    }
}

/// The value of the CRC TLV at `value_at` of `rest` (bytes after the header): the CRC32C of the packet with the
/// mutable bits and this value zero.
#[must_use]
pub(crate) fn open_checksum(head: Words, rest: &[u8], value_at: usize) -> u32 {
    let (before, after) = rest.split_at(value_at);
    let crc = weft_crc::append(weft_crc::crc32c(&head.immutable().bytes()), before);
    weft_crc::append(weft_crc::append(crc, &[0; 4]), &after[4..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::HEADER_LEN;

    #[test]
    fn a_sum_that_may_not_be_there_is_one_word() {
        assert_eq!(size_of::<Option<BodySum>>(), size_of::<BodySum>());
        for sum in [0, 1, u32::MAX] {
            assert_eq!(BodySum::new(sum).get(), sum);
        }
    }

    /// Where the half of SEQ lies that carries the seal.
    const SEAL: std::ops::Range<usize> = 16..20;

    /// [CDP-SEAL-1] CE, HOP and the sealed half of SEQ are outside; everything else is inside.
    #[test]
    fn every_bit_but_ce_hop_and_the_seal_counts() {
        let plain: [u8; HEADER_LEN] = std::array::from_fn(|i| u8::try_from(i * 37 % 251).unwrap());
        let whole = checksum(Words::read(&plain), b"body");
        for bit in 0..HEADER_LEN * 8 {
            let mut changed = plain;
            changed[bit / 8] ^= 0x80 >> (bit % 8);
            let outside = SEAL.contains(&(bit / 8)) || (5..8).contains(&bit);
            assert_eq!(checksum(Words::read(&changed), b"body") == whole, outside, "bit {bit}");
        }
        assert_ne!(checksum(Words::read(&plain), b"bodx"), whole);
    }
}
