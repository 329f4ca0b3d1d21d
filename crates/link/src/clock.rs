//! The kernel's clock as one number. The standard library's has two, seconds and nanoseconds, and taking one reading from another
//! costs as much as half of the reading.

use std::mem::MaybeUninit;

/// Nanoseconds of the monotonic clock, which the wall clock does not move; from when is the kernel's business.
#[must_use]
#[inline]
#[allow(clippy::cast_sign_loss)] // a clock of this kind never goes below zero
pub fn monotonic_nanos() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: there is room for what is written.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr()) };
    // SAFETY: the call fails for no clock that exists, and every Linux has this one.
    let time = unsafe { time.assume_init() };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn it_goes_as_fast_as_the_standard_librarys() {
        let (outer, before) = (Instant::now(), monotonic_nanos());
        let inner = Instant::now();
        std::thread::sleep(Duration::from_millis(2));
        let least = inner.elapsed();
        let took = Duration::from_nanos(monotonic_nanos() - before);
        assert!(least <= took && took <= outer.elapsed(), "{took:?} beside {least:?}");
    }
}
