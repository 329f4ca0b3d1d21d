//! Random numbers from the operating system, asked anew each time.
//!
//! [CDP-SEQ-3] and [CDP-SEQ-4]: the kernel's generator covers all bits, and a forked or restored process shares no
//! state with its parent, because no state is kept here.

use std::io;

/// So many words of 64 random bits, by one call, which takes 0.4 µs on an EPYC, as it does for one word.
///
/// # Errors
/// When the operating system gives none, which ends the operation that wanted them: a guessable ISS is worse than
/// no connection.
pub(crate) fn words<const N: usize>() -> io::Result<[u64; N]> {
    let mut words = [[0; 8]; N];
    getrandom::fill(words.as_flattened_mut())
        .map_err(|error| io::Error::other(format!("no random numbers: {error}")))?;
    Ok(words.map(u64::from_le_bytes))
}

/// 64 random bits.
///
/// # Errors
/// As [`words`].
pub(crate) fn u64() -> io::Result<u64> {
    words().map(|[word]| word)
}

/// 32 random bits.
///
/// # Errors
/// As [`words`].
pub(crate) fn u32() -> io::Result<u32> {
    #[allow(clippy::cast_possible_truncation)] // half of the bits are enough
    words().map(|[word]| word as u32)
}

#[cfg(test)]
mod tests {
    /// [CDP-SEQ-4] Nothing is kept in the process that a fork could copy: each number comes from the kernel, so two
    /// that are asked for from the same memory image differ.
    #[test]
    fn no_number_depends_on_what_the_process_remembers() {
        let numbers: std::collections::HashSet<u64> = (0..1_000).map(|_| super::u64().unwrap()).collect();
        assert_eq!(numbers.len(), 1_000);
    }

    /// [CDP-SEQ-3] All 64 bits are in use.
    #[test]
    fn every_bit_is_sometimes_set_and_sometimes_not() {
        let (mut all, mut any) = (u64::MAX, 0);
        for _ in 0..200 {
            let number = super::u64().unwrap();
            all &= number;
            any |= number;
        }
        assert_eq!((all, any), (0, u64::MAX));
    }
}
