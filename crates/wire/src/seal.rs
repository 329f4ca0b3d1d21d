//! CRC32C over a packet whose head is in one place and whose body may be in another.
//!
//! The head is masked in a copy of 28 bytes on the stack, so neither a shared frame nor a body is touched.

use crate::header::{HEADER_LEN, IMMUTABLE_MASK, SEAL};

/// [CDP-SEAL-1] C: the CRC32C of the packet with byte 0 masked by 0xF8 and bytes 16..19 taken as zero.
///
/// `rest` is what follows the header, up to LENGTH.
#[must_use]
pub(crate) fn checksum(head: &[u8; HEADER_LEN], rest: &[u8]) -> u32 {
    let head = mask(head, true);
    weft_crc::append(weft_crc::crc32c(&head.0), rest)
}

/// The value of the CRC TLV at `value_at` of `rest` (bytes after the header): the CRC32C of the packet with the
/// mutable bits and this value zero.
#[must_use]
pub(crate) fn open_checksum(head: &[u8; HEADER_LEN], rest: &[u8], value_at: usize) -> u32 {
    let head = mask(head, false);
    let (before, after) = rest.split_at(value_at);
    let crc = weft_crc::append(weft_crc::crc32c(&head.0), before);
    weft_crc::append(weft_crc::append(crc, &[0; 4]), &after[4..])
}

/// Aligned, because the CRC reads eight bytes at a time.
#[repr(align(8))]
struct Masked([u8; HEADER_LEN]);

#[inline]
fn mask(head: &[u8; HEADER_LEN], without_seal: bool) -> Masked {
    let mut masked = Masked(*head);
    masked.0[0] &= IMMUTABLE_MASK;
    if without_seal {
        masked.0[SEAL].fill(0);
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [CDP-SEAL-1] CE, HOP and the sealed half of SEQ are outside; everything else is inside.
    #[test]
    fn every_bit_but_ce_hop_and_the_seal_counts() {
        let plain: [u8; HEADER_LEN] = std::array::from_fn(|i| u8::try_from(i * 37 % 251).unwrap());
        let whole = checksum(&plain, b"body");
        for bit in 0..HEADER_LEN * 8 {
            let mut changed = plain;
            changed[bit / 8] ^= 0x80 >> (bit % 8);
            let outside = SEAL.contains(&(bit / 8)) || (5..8).contains(&bit);
            assert_eq!(checksum(&changed, b"body") == whole, outside, "bit {bit}");
        }
        assert_ne!(checksum(&plain, b"bodx"), whole);
    }
}
