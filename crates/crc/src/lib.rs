//! CRC32C, the checksum under each packet's seal (`docs/spec/cdp.md`, CDP-SEAL-1).
//!
//! This room must not know packets: it has bytes and processor instructions. Everything here is a function of its
//! arguments. On an x86-64 with SSE4.2 and PCLMULQDQ three streams of the instruction `crc32` do the work, with AVX-512 and
//! VPCLMULQDQ carry-less products of 64 bytes at a time do most of it; elsewhere the crate `crc32c`, which knows other processors
//! and none (`docs/adr/0009-checksum.md` has the figures).
//!
//! ```
//! assert_eq!(weft_crc::crc32c(b"123456789"), 0xE306_9283);
//! assert_eq!(weft_crc::append(weft_crc::crc32c(b"1234"), b"56789"), 0xE306_9283);
//! ```

#[cfg(target_arch = "x86_64")]
mod fold;
#[cfg(target_arch = "x86_64")]
mod x86;

/// The CRC32C of `bytes`: polynomial 1EDC6F41 reflected, initial value and final XOR FFFFFFFF.
#[must_use]
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    append(0, bytes)
}

/// The CRC32C of some bytes and `bytes` behind them, where `crc` is that of the former.
#[must_use]
#[inline]
pub fn append(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if can_multiply() {
        if can_fold(bytes.len()) {
            // SAFETY: the processor has the four features that the function needs.
            return unsafe { fold::append(crc, bytes) };
        }
        // SAFETY: the processor has the two features that the function needs.
        return unsafe { x86::append(crc, bytes) };
    }
    crc32c::crc32c_append(crc, bytes)
}

/// Whether this processor takes one pass for [`append_copy`], and one product for [`Behind::combine`]. Elsewhere they only work.
#[must_use]
#[inline]
pub fn sums_while_copying() -> bool {
    #[cfg(target_arch = "x86_64")]
    return can_fold(fold::BYTES_MIN);
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// As [`append`], and copies `bytes` to `to`: in one pass where the processor can fold.
///
/// ```
/// let mut copy = [0; 5];
/// assert_eq!(weft_crc::append_copy(weft_crc::crc32c(b"1234"), b"56789", &mut copy), 0xE306_9283);
/// assert_eq!(&copy, b"56789");
/// ```
///
/// # Panics
/// If `to` has not as many bytes.
#[must_use]
#[inline]
pub fn append_copy(crc: u32, bytes: &[u8], to: &mut [u8]) -> u32 {
    assert_eq!(bytes.len(), to.len(), "a copy has as many bytes");
    #[cfg(target_arch = "x86_64")]
    if can_fold(bytes.len()) {
        // SAFETY: the processor has the four features that the function needs.
        return unsafe { fold::append_copy(crc, bytes, to) };
    }
    to.copy_from_slice(bytes);
    append(crc, bytes)
}

/// So many bytes, which lie behind others: what is known of the sums of both makes that of the whole.
///
/// ```
/// let [first, second] = [weft_crc::crc32c(b"1234"), weft_crc::crc32c(b"56789")];
/// assert_eq!(weft_crc::Behind::bytes(5).combine(first, second), 0xE306_9283);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Behind {
    /// What moves a sum over them: a power of x, or where nothing multiplies, how many they are.
    by: usize,
}

impl Behind {
    /// Takes one product for each 8 KiB.
    #[must_use]
    #[inline]
    pub fn bytes(bytes: usize) -> Self {
        #[cfg(target_arch = "x86_64")]
        if can_multiply() {
            // SAFETY: the processor has the two features that the function needs.
            return Self { by: unsafe { x86::power(bytes) } as usize };
        }
        Self { by: bytes }
    }

    /// The CRC32C of the whole, where `first` is that of what lies before, and `second` that of these bytes. Takes one product.
    #[must_use]
    #[inline]
    pub fn combine(self, first: u32, second: u32) -> u32 {
        #[cfg(target_arch = "x86_64")]
        if can_multiply() {
            #[allow(clippy::cast_possible_truncation)] // a power has 32 bits
            let power = self.by as u32;
            // SAFETY: the processor has the two features that the function needs.
            return second ^ unsafe { x86::times(first, power) };
        }
        crc32c::crc32c_combine(first, second, self.by)
    }
}

/// Whether so many bytes are folded.
#[cfg(target_arch = "x86_64")]
#[inline]
fn can_fold(bytes: usize) -> bool {
    bytes >= fold::BYTES_MIN
        && can_multiply()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("vpclmulqdq")
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn can_multiply() -> bool {
    is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("pclmulqdq")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bit by bit, as the polynomial says.
    fn slow(crc: u32, bytes: &[u8]) -> u32 {
        let step = |crc: u32| (crc >> 1) ^ if crc & 1 == 1 { 0x82F6_3B78 } else { 0 };
        !bytes.iter().fold(!crc, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc)))
    }

    /// [CDP-SEAL-1] The polynomial, initial value and final XOR are those of CRC32C.
    #[test]
    fn the_check_values_of_the_standards() {
        assert_eq!(crc32c(b""), 0);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        // RFC 3720, B.4
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
    }

    /// Whether `sum` is right for every length up to that of a jumbo packet.
    fn sweep(sum: impl Fn(&[u8]) -> u32) {
        let bytes: Vec<u8> = (0..9_100_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let mut crc = 0;
        for len in 0..bytes.len() {
            assert_eq!(sum(&bytes[..len]), crc, "{len}");
            crc = slow(crc, &bytes[len..=len]);
        }
    }

    #[test]
    fn every_length_up_to_a_jumbo_packet() {
        sweep(crc32c);
    }

    /// Where the processor can fold, the other tests do not come to three streams of any length.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn three_streams_of_every_length() {
        if !is_x86_feature_detected!("sse4.2") || !is_x86_feature_detected!("pclmulqdq") {
            weft_skip::skipped!("this processor has no SSE4.2 or no PCLMULQDQ");
            return;
        }
        // SAFETY: the processor has the two features that the function needs.
        sweep(|bytes| unsafe { x86::append(0, bytes) });
    }

    #[test]
    fn copies_of_every_length_up_to_a_jumbo_packet() {
        sweep(|bytes| {
            let mut copy = vec![0; bytes.len()];
            let sum = append_copy(0, bytes, &mut copy);
            assert!(copy == bytes, "{} bytes", bytes.len());
            sum
        });
    }

    /// What is known of two parts makes the whole, up to the largest datagram and beyond.
    #[test]
    fn sums_of_two_parts_of_any_length() {
        let bytes: Vec<u8> = (0..70_000_u32).map(|at| (at % 253) as u8).collect();
        let head = crc32c(b"head");
        for len in (0..9_000).chain([32_768, 65_507, 70_000]) {
            let part = &bytes[..len];
            assert_eq!(Behind::bytes(len).combine(head, crc32c(part)), append(head, part), "{len}");
        }
    }

    #[test]
    fn more_than_one_block_of_any_kind() {
        let bytes: Vec<u8> = (0..70_000_u32).map(|at| (at % 251) as u8).collect();
        assert_eq!(crc32c(&bytes), slow(0, &bytes));
    }

    proptest! {
        #[test]
        fn pieces_at_any_place_make_the_whole(
            bytes in proptest::collection::vec(any::<u8>(), 0..3_000),
            start in 0_usize..16,
            cut in any::<prop::sample::Index>(),
            crc in any::<u32>(),
        ) {
            let bytes = &bytes[start.min(bytes.len())..];
            let (a, b) = bytes.split_at(cut.index(bytes.len() + 1));
            prop_assert_eq!(append(append(crc, a), b), slow(crc, bytes));
            prop_assert_eq!(Behind::bytes(b.len()).combine(append(crc, a), crc32c(b)), slow(crc, bytes));
            let mut copy = vec![0xA5; bytes.len() + 1];
            prop_assert_eq!(append_copy(crc, bytes, &mut copy[..bytes.len()]), slow(crc, bytes));
            prop_assert!(copy.starts_with(bytes) && copy.ends_with(&[0xA5]));
            prop_assert_eq!(append(crc, bytes), crc32c::crc32c_append(crc, bytes));
        }
    }
}
