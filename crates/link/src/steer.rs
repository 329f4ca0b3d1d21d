//! Small programs that the kernel runs to choose one of several sockets for what comes (classic BPF).

use std::io;
use std::os::fd::BorrowedFd;

use crate::sockopt;

/// An odd number without a pattern: 2^32 over the golden ratio.
pub(crate) const SPREAD: u32 = 0x9E37_79B1;
const HASH_SHIFT: u32 = 16;

/// One step of a program, which goes `jt` steps further where a comparison holds, and `jf` where it does not.
const fn step(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    #[allow(clippy::cast_possible_truncation)] // codes have 16 bits
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// What [`hash_at`] makes of a word.
pub(crate) const fn hash(word: u32) -> u32 {
    word.wrapping_mul(SPREAD) >> HASH_SHIFT
}

/// Loads a word, and makes 16 bits of it that say nothing of its neighbours'.
pub(crate) const fn hash_at(at: i32) -> [libc::sock_filter; 3] {
    let word = step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at.cast_unsigned(), 0, 0);
    [word, with(libc::BPF_MUL, SPREAD), with(libc::BPF_RSH, HASH_SHIFT)]
}

/// Loads a word of what the packet carries.
pub(crate) const fn word_at(at: usize) -> libc::sock_filter {
    #[allow(clippy::cast_possible_truncation)] // some bytes
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at as u32, 0, 0)
}

/// Loads half a word.
pub(crate) const fn half_at(at: i32) -> libc::sock_filter {
    step(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, at.cast_unsigned(), 0, 0)
}

/// Loads a byte.
pub(crate) const fn byte_at(at: i32) -> libc::sock_filter {
    step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, at.cast_unsigned(), 0, 0)
}

/// Reckons with a constant: `BPF_MUL` and its like.
pub(crate) const fn with(operation: u32, k: u32) -> libc::sock_filter {
    step(libc::BPF_ALU | operation | libc::BPF_K, k, 0, 0)
}

/// Puts the result aside.
pub(crate) const fn put_aside() -> libc::sock_filter {
    step(libc::BPF_MISC | libc::BPF_TAX, 0, 0, 0)
}

/// Adds what was put aside.
pub(crate) const fn add_aside() -> libc::sock_filter {
    step(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X, 0, 0, 0)
}

/// Goes so many steps further unless the result is `k`.
pub(crate) const fn skip_unless(k: u32, steps: u8) -> libc::sock_filter {
    step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, k, 0, steps)
}

/// Goes so many steps further in any case.
pub(crate) const fn skip(steps: u32) -> libc::sock_filter {
    step(libc::BPF_JMP | libc::BPF_JA, steps, 0, 0)
}

/// The result is the answer.
pub(crate) const fn answer() -> libc::sock_filter {
    step(libc::BPF_RET | libc::BPF_A, 0, 0, 0)
}

/// `k` is the answer.
pub(crate) const fn answer_is(k: u32) -> libc::sock_filter {
    step(libc::BPF_RET | libc::BPF_K, k, 0, 0)
}

/// Gives the kernel a program.
pub(crate) fn set(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    program: &mut [libc::sock_filter],
) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(io::Error::other)?;
    let value = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    sockopt::set(socket, level, option, &value)
}
