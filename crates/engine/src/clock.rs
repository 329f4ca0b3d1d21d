//! The only clock of the product: monotonic, counted from the first time anybody asked.

use std::sync::OnceLock;

use weft_base::Instant;
use weft_link::monotonic_nanos;

/// One second before anybody asked, in nanoseconds of the kernel's clock; where that is younger, a number before its zero.
static ORIGIN: OnceLock<u64> = OnceLock::new();

/// Now, on a clock that the wall clock does not move ([CDP-TMR-1]).
///
/// It starts at one second, so that the origin lies before everything and 0 can stand for "never" in atomics.
pub(crate) fn now() -> Instant {
    let nanos = monotonic_nanos();
    Instant::from_nanos(nanos.wrapping_sub(*ORIGIN.get_or_init(|| nanos.wrapping_sub(1_000_000_000))))
}

/// Cycles of the time stamp counter for which [`about`] takes the clock to stand: 2 µs where it counts at 2 GHz.
#[cfg(target_arch = "x86_64")]
const MOMENT_CYCLES: u64 = 4_000;

/// About now: what this thread's last look at the clock said, if that was a moment ago.
///
/// What only decides whether to wait for company asks this (decision 0024). The kernel's clock waits for all that was begun before it is read, which for a small message is as long as the rest of its
/// sending. The processor's own counter says whether it has moved; a thread that was moved to another core whose counter is
/// behind finds the difference too large and looks.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn about() -> Instant {
    thread_local! {
        static LAST: std::cell::Cell<(u64, Instant)> = const { std::cell::Cell::new((0, Instant::ZERO)) };
    }
    // SAFETY: every x86-64 processor has the instruction, and Linux lets user space have it.
    let cycles = unsafe { std::arch::x86_64::_rdtsc() };
    let (looked_at, then) = LAST.get();
    if cycles.wrapping_sub(looked_at) < MOMENT_CYCLES {
        return then;
    }
    let now = now();
    LAST.set((cycles, now));
    now
}

/// About now, which elsewhere is now.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn about() -> Instant {
    now()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// [CDP-TMR-1] Time only goes forward.
    #[test]
    fn time_goes_forward_and_never_reads_zero() {
        let first = now();
        assert!(first.as_nanos() > 0);
        assert!(now() >= first);
    }

    /// What is about now was now a moment ago, however often it is asked for.
    #[test]
    fn about_now_follows_the_clock() {
        for _ in 0..100_000 {
            let (before, about) = (now(), about());
            assert!(about <= now());
            assert!(before - about < Duration::from_micros(50), "{before:?} {about:?}");
        }
        let before = now();
        std::thread::sleep(Duration::from_millis(1));
        assert!(about() - before >= Duration::from_millis(1));
    }
}
