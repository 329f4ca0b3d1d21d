//! Folding: what was summed up is multiplied by x to the number of bits that it is moved by, and added to what lies there.
//!
//! A register holds four values of 16 bytes. Such a value stands for the polynomial L·x^64 + H of its two words, so moving it by
//! d words is L·x^(64·(d+1)) + H·x^(64·d), modulo the polynomial. Of reflected words the carry-less product brings a factor x^33,
//! which the table of powers takes into account (see `x86`). Four registers are moved over 256 bytes at a time, as a
//! product has a latency of several cycles; then they are moved to one, its four values to one, and two `crc32` reduce that.

use std::arch::x86_64::{
    __m128i, __m512i, _mm_crc32_u64, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_extract_epi64, _mm_xor_si128,
    _mm512_castsi128_si512, _mm512_clmulepi64_epi128, _mm512_extracti32x4_epi32, _mm512_loadu_si512,
    _mm512_set_epi64, _mm512_setzero_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512,
};

use crate::x86::{POWERS, one_stream};

/// Bytes of a register.
const REGISTER: usize = 64;
/// Bytes that are folded at a time, and fewest that it is worth to fold.
pub(crate) const BYTES_MIN: usize = 4 * REGISTER;
/// The table of `_mm512_ternarylogic_epi64` for the sum of three bits.
const XOR: i32 = 0x96;

/// The CRC32C of what `crc` is that of, and `bytes` behind it, at least [`BYTES_MIN`].
#[target_feature(enable = "sse4.2,pclmulqdq,avx512f,vpclmulqdq")]
pub(crate) fn append(crc: u32, bytes: &[u8]) -> u32 {
    let (registers, rest) = bytes.as_chunks::<REGISTER>();
    let (blocks, singles) = registers.as_chunks::<4>();
    let Some((first, blocks)) = blocks.split_first() else { return crate::x86::append(crc, bytes) };
    let [mut a, mut b, mut c, mut d] = [load(&first[0]), load(&first[1]), load(&first[2]), load(&first[3])];
    // what came before adds to the first bytes
    a = _mm512_xor_si512(a, _mm512_castsi128_si512(_mm_cvtsi64_si128(i64::from(!crc))));
    let far = by(4 * REGISTER);
    for block in blocks {
        a = fold(a, far, load(&block[0]));
        b = fold(b, far, load(&block[1]));
        c = fold(c, far, load(&block[2]));
        d = fold(d, far, load(&block[3]));
    }
    let near = by(REGISTER);
    let mut sum = fold(a, by(3 * REGISTER), fold(b, by(2 * REGISTER), fold(c, near, d)));
    for single in singles {
        sum = fold(sum, near, load(single));
    }
    let sum = reduce(sum);
    let (low, high) = (_mm_cvtsi128_si64(sum).cast_unsigned(), _mm_extract_epi64::<1>(sum).cast_unsigned());
    !one_stream(_mm_crc32_u64(_mm_crc32_u64(0, low), high), rest)
}

#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8; REGISTER]) -> __m512i {
    // SAFETY: there are as many bytes as are loaded.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// The two powers that move a value by so many bytes, for its first word and its second.
fn powers(bytes: usize) -> [i64; 2] {
    [POWERS[bytes / 8 + 1].into(), POWERS[bytes / 8].into()]
}

/// What moves all four values of a register by so many bytes.
#[target_feature(enable = "avx512f")]
fn by(bytes: usize) -> __m512i {
    let [first, second] = powers(bytes);
    _mm512_set_epi64(second, first, second, first, second, first, second, first)
}

/// `moved` by `powers`, and `there`.
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn fold(moved: __m512i, powers: __m512i, there: __m512i) -> __m512i {
    let first = _mm512_clmulepi64_epi128::<0x00>(moved, powers);
    let second = _mm512_clmulepi64_epi128::<0x11>(moved, powers);
    _mm512_ternarylogic_epi64::<XOR>(first, second, there)
}

/// Four values to the place of the last.
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn reduce(sum: __m512i) -> __m128i {
    let ([a, b], [c, d], [e, f]) = (powers(48), powers(32), powers(16));
    let moved = fold(sum, _mm512_set_epi64(0, 0, f, e, d, c, b, a), _mm512_setzero_si512());
    let last = _mm512_extracti32x4_epi32::<3>(sum);
    let [one, two, three] = [
        _mm512_extracti32x4_epi32::<0>(moved),
        _mm512_extracti32x4_epi32::<1>(moved),
        _mm512_extracti32x4_epi32::<2>(moved),
    ];
    _mm_xor_si128(_mm_xor_si128(one, two), _mm_xor_si128(three, last))
}
