//! Three streams of the `crc32` instruction, joined by carry-less products.
//!
//! The instruction takes eight bytes, has a latency of three cycles and can begin each cycle, so three independent
//! sums keep it busy. A piece is cut into three parts of equal length; the sum of the whole is that of the last part
//! plus those of the first two, each multiplied by x to the number of bits that follow it. Such a product of two
//! remainders is one `pclmulqdq`, and the instruction itself reduces it: `crc32(0, p)` is p · x^32 modulo the polynomial,
//! and the reflected order of bits brings another factor x, so the table holds powers that are 33 too small.

use std::arch::x86_64::{
    _mm_clmulepi64_si128, _mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64, _mm_cvtsi32_si128, _mm_cvtsi128_si64,
};

/// The polynomial, reflected.
const POLYNOMIAL: u32 = 0x82F6_3B78;
/// Words of eight bytes that one part may have: 12 KiB in three of them.
const WORDS_MAX: usize = 511;
/// Below this many words a part, joining costs more than three streams save.
const WORDS_MIN: usize = 6;

/// At `n`: x^(64·n − 33), by which a sum is multiplied that `n` words follow.
pub(crate) static POWERS: [u32; 2 * WORDS_MAX + 1] = powers();

const fn powers() -> [u32; 2 * WORDS_MAX + 1] {
    let mut table = [0; 2 * WORDS_MAX + 1];
    // x^0 is the highest bit, as bits are reflected
    let mut power = over_x(0x8000_0000, 33);
    let mut at = 0;
    while at < table.len() {
        table[at] = power;
        power = times_x(power, 64);
        at += 1;
    }
    table
}

const fn times_x(mut value: u32, times: u32) -> u32 {
    let mut done = 0;
    while done < times {
        value = (value >> 1) ^ if value & 1 == 1 { POLYNOMIAL } else { 0 };
        done += 1;
    }
    value
}

const fn over_x(mut value: u32, times: u32) -> u32 {
    let mut done = 0;
    while done < times {
        let carry = value >> 31;
        value = ((value ^ if carry == 1 { POLYNOMIAL } else { 0 }) << 1) | carry;
        done += 1;
    }
    value
}

/// The CRC32C of what `crc` is that of, and `bytes` behind it.
#[target_feature(enable = "sse4.2,pclmulqdq")]
pub(crate) fn append(crc: u32, mut bytes: &[u8]) -> u32 {
    let mut sum = u64::from(!crc);
    loop {
        let words = (bytes.len() / 24).min(WORDS_MAX);
        if words < WORDS_MIN {
            return !one_stream(sum, bytes);
        }
        let (parts, rest) = bytes.split_at(3 * 8 * words);
        sum = three_streams(sum, parts, words);
        bytes = rest;
    }
}

/// The sum after `parts`, which are three times `words` words.
#[target_feature(enable = "sse4.2,pclmulqdq")]
fn three_streams(sum: u64, parts: &[u8], words: usize) -> u64 {
    let (words_of_all, _) = parts.as_chunks::<8>();
    let (first, others) = words_of_all.split_at(words);
    let (second, third) = others.split_at(words);
    let (mut a, mut b, mut c) = (sum, 0, 0);
    for ((x, y), z) in first.iter().zip(second).zip(third) {
        a = _mm_crc32_u64(a, u64::from_le_bytes(*x));
        b = _mm_crc32_u64(b, u64::from_le_bytes(*y));
        c = _mm_crc32_u64(c, u64::from_le_bytes(*z));
    }
    times_power(a, 2 * words) ^ times_power(b, words) ^ c
}

/// The sum that `words` zero words leave of `sum`.
#[target_feature(enable = "sse4.2,pclmulqdq")]
fn times_power(sum: u64, words: usize) -> u64 {
    #[allow(clippy::cast_possible_truncation)] // a sum has 32 bits
    let sum = sum as u32;
    times(sum, POWERS[words]).into()
}

/// The power by which a sum is multiplied that `bytes` bytes follow.
#[target_feature(enable = "sse4.2,pclmulqdq")]
pub(crate) fn power(bytes: usize) -> u32 {
    let mut words = bytes / 8;
    let mut power = POWERS[words % (2 * WORDS_MAX)];
    while words >= 2 * WORDS_MAX {
        power = times(power, POWERS[2 * WORDS_MAX]);
        words -= 2 * WORDS_MAX;
    }
    one_stream(power.into(), &[0; 7][..bytes % 8])
}

/// The product of a sum and one of the powers.
#[target_feature(enable = "sse4.2,pclmulqdq")]
#[inline]
pub(crate) fn times(sum: u32, power: u32) -> u32 {
    let (sum, power) = (_mm_cvtsi32_si128(sum.cast_signed()), _mm_cvtsi32_si128(power.cast_signed()));
    let product = _mm_clmulepi64_si128::<0>(sum, power);
    #[allow(clippy::cast_possible_truncation)] // a sum has 32 bits
    let sum = _mm_crc32_u64(0, _mm_cvtsi128_si64(product).cast_unsigned()) as u32;
    sum
}

#[target_feature(enable = "sse4.2")]
pub(crate) fn one_stream(sum: u64, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(sum, |sum, word| _mm_crc32_u64(sum, u64::from_le_bytes(*word)));
    #[allow(clippy::cast_possible_truncation)] // a sum has 32 bits
    let sum = sum as u32;
    let (four, rest) = rest.as_chunks::<4>();
    let sum = four.iter().fold(sum, |sum, word| _mm_crc32_u32(sum, u32::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, &byte| _mm_crc32_u8(sum, byte))
}
