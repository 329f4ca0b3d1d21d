//! Folding: what was summed up is multiplied by x to the number of bits that it is moved by, and added to what lies there.
//!
//! A register holds four values of 16 bytes. Such a value stands for the polynomial L·x^64 + H of its two words, so moving it by
//! d words is L·x^(64·(d+1)) + H·x^(64·d), modulo the polynomial. Of reflected words the carry-less product brings a factor x^33,
//! which the table of powers takes into account (see `x86`). Four registers are moved over 256 bytes at a time, as a
//! product has a latency of several cycles; then they are moved to one, its four values to one, and two `crc32` reduce that.

use std::arch::x86_64::{
    __m128i, __m512i, _MM_HINT_T0, _mm_crc32_u64, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_extract_epi64,
    _mm_prefetch, _mm_xor_si128, _mm512_castsi128_si512, _mm512_clmulepi64_epi128, _mm512_extracti32x4_epi32,
    _mm512_loadu_si512, _mm512_set_epi64, _mm512_setzero_si512, _mm512_storeu_si512,
    _mm512_ternarylogic_epi64, _mm512_xor_si512,
};

use crate::x86::{POWERS, one_stream};

/// Bytes of a register.
const REGISTER: usize = 64;
/// Bytes that are folded at a time, and fewest that it is worth to fold.
pub(crate) const BYTES_MIN: usize = 4 * REGISTER;
/// How far ahead of the stores lines are prefetched, in bytes: what is sent lies where the peer's core has read, and stores are done in their
/// order, each as its line is there (decision 0105).
const AHEAD: usize = 1 << 10;
/// Copies of more bytes prefetch none: of many stores of whole lines in a row the processor does without what the lines held.
const PREFETCHED_MAX: usize = 16 << 10;
/// The table of `_mm512_ternarylogic_epi64` for the sum of three bits.
const XOR: i32 = 0x96;

/// The CRC32C of what `crc` is that of, and `bytes` behind it, at least [`BYTES_MIN`].
#[target_feature(enable = "sse4.2,pclmulqdq,avx512f,vpclmulqdq")]
pub(crate) fn append(crc: u32, bytes: &[u8]) -> u32 {
    run::<false>(crc, bytes, &mut [])
}

/// The same, and copies `bytes` to `to`, which has as many: while the products are made, loads and stores cost nothing.
#[target_feature(enable = "sse4.2,pclmulqdq,avx512f,vpclmulqdq")]
pub(crate) fn append_copy(crc: u32, bytes: &[u8], to: &mut [u8]) -> u32 {
    run::<true>(crc, bytes, to)
}

/// What fills no block goes first, so that nothing waits behind the products: bytes that fill no register by `crc32`, and up to three
/// registers before the first block, in a block whose others are zero.
#[target_feature(enable = "sse4.2,pclmulqdq,avx512f,vpclmulqdq")]
fn run<const COPIES: bool>(crc: u32, bytes: &[u8], to: &mut [u8]) -> u32 {
    if COPIES && let (Some(first), copy) = (bytes.first_chunk(), to.first_chunk_mut()) {
        // more than there is before the first register, which does no harm
        load_one::<COPIES>(first, copy);
    }
    let (head, registers) = bytes.as_rchunks::<REGISTER>();
    let (_, copies) = to.as_rchunks_mut::<REGISTER>();
    let (singles, blocks) = registers.as_rchunks::<4>();
    let (single_copies, block_copies) = copies.as_rchunks_mut::<4>();
    let mut block_copies = block_copies.iter_mut();
    let mut blocks = blocks.iter();
    let zero = _mm512_setzero_si512();
    // what came before adds to the bytes that follow it
    let before = one_stream(u64::from(!crc), head);
    let before = _mm512_castsi128_si512(_mm_cvtsi64_si128(i64::from(before)));
    let mut single_copies = single_copies.iter_mut();
    let mut load_single = |single| load_one::<COPIES>(single, single_copies.next());
    let [mut a, mut b, mut c, mut d] = match singles {
        [x, y, z] => [zero, _mm512_xor_si512(load_single(x), before), load_single(y), load_single(z)],
        [y, z] => [zero, zero, _mm512_xor_si512(load_single(y), before), load_single(z)],
        [z] => [zero, zero, zero, _mm512_xor_si512(load_single(z), before)],
        _ => {
            let Some(first) = blocks.next() else { unreachable!("{} bytes", bytes.len()) };
            let [a, b, c, d] = load_block::<COPIES>(first, block_copies.next());
            [_mm512_xor_si512(a, before), b, c, d]
        }
    };
    let far = by(4 * REGISTER);
    for block in blocks {
        let copy = block_copies.next();
        if let Some(copy) = &copy
            && bytes.len() <= PREFETCHED_MAX
        {
            prefetch(copy.as_ptr_range().start.cast());
        }
        let [e, f, g, h] = load_block::<COPIES>(block, copy);
        (a, b, c, d) = (fold(a, far, e), fold(b, far, f), fold(c, far, g), fold(d, far, h));
    }
    let sum = fold(a, by(3 * REGISTER), fold(b, by(2 * REGISTER), fold(c, by(REGISTER), d)));
    let sum = reduce(sum);
    let (low, high) = (_mm_cvtsi128_si64(sum).cast_unsigned(), _mm_extract_epi64::<1>(sum).cast_unsigned());
    #[allow(clippy::cast_possible_truncation)] // a sum has 32 bits
    let sum = _mm_crc32_u64(_mm_crc32_u64(0, low), high) as u32;
    !sum
}

/// Prefetches the lines of a block that lies `AHEAD`. To do so for writing is no gain.
fn prefetch(block: *const i8) {
    for line in 0..BYTES_MIN / REGISTER {
        // SAFETY: a hint, whatever lies there.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(block.wrapping_add(AHEAD + line * REGISTER)) };
    }
}

/// Four registers, which are stored as well if `COPIES`.
#[target_feature(enable = "avx512f")]
fn load_block<const COPIES: bool>(
    block: &[[u8; REGISTER]; 4],
    copy: Option<&mut [[u8; REGISTER]; 4]>,
) -> [__m512i; 4] {
    let [a, b, c, d] = block;
    let mut copies = copy.into_iter().flatten();
    [
        load_one::<COPIES>(a, copies.next()),
        load_one::<COPIES>(b, copies.next()),
        load_one::<COPIES>(c, copies.next()),
        load_one::<COPIES>(d, copies.next()),
    ]
}

/// A register, which is stored as well if `COPIES`.
#[target_feature(enable = "avx512f")]
fn load_one<const COPIES: bool>(bytes: &[u8; REGISTER], copy: Option<&mut [u8; REGISTER]>) -> __m512i {
    let register = load(bytes);
    if COPIES && let Some(copy) = copy {
        // SAFETY: there is room for as many bytes as are stored.
        unsafe { _mm512_storeu_si512(copy.as_mut_ptr().cast(), register) };
    }
    register
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
