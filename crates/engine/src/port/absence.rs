//! Whether who leaves the lead will be back before anybody need be called to take it.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use weft_base::Instant;

/// Who waits again so soon after it left the lead was away for no longer than it takes to answer.
const SOON: Duration = Duration::from_micros(100);
/// After so many such absences in a row the next is taken to be one as well.
const ENOUGH: u32 = 8;

/// Who is away for longer is not waited for.
const LOST: Duration = Duration::from_millis(10);

/// How long the thread that left the lead last used to be away. Only one thread's absences are known at a time.
#[derive(Default)]
pub(super) struct Absences {
    /// Which thread it is, as [`thread_index`](weft_sync::face::thread_index) tells.
    thread: AtomicUsize,
    /// When it left, in nanoseconds; 0 once it has waited again.
    since: AtomicU64,
    /// How often in a row it was back soon.
    short: AtomicU32,
}

impl Absences {
    /// A thread leaves the lead. Whether it will be back soon.
    pub(super) fn begin(&self, thread: usize, now: Instant) -> bool {
        if self.thread.swap(thread, Ordering::Relaxed) != thread {
            self.forget();
        }
        self.since.store(now.as_nanos(), Ordering::Relaxed);
        self.short.load(Ordering::Relaxed) >= ENOUGH
    }

    /// Whether somebody is away.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.since.load(Ordering::Relaxed) > 0
    }

    /// A thread waits again: the one that left, or another that learns whether that one is still away.
    #[cold]
    pub(super) fn end(&self, thread: usize, now: Instant) {
        let time = now.saturating_since(Instant::from_nanos(self.since.load(Ordering::Relaxed)));
        if self.thread.load(Ordering::Relaxed) == thread || time > LOST {
            let short = if time < SOON { self.short.load(Ordering::Relaxed) + 1 } else { 0 };
            self.short.store(short.min(ENOUGH), Ordering::Relaxed);
            self.since.store(0, Ordering::Relaxed);
        }
    }

    /// Nobody is relied on until it has been back soon often enough anew.
    pub(super) fn forget(&self) {
        self.short.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Instant = Instant::from_nanos(1);

    /// So many absences of a thread that take `time` each. Whether it is relied on at the last.
    fn absences(of: &Absences, thread: usize, time: Duration, count: u32) -> bool {
        let mut is_relied_on = false;
        for _ in 0..count {
            is_relied_on = of.begin(thread, BEGIN);
            assert!(of.is_any());
            of.end(thread, BEGIN + time);
            assert!(!of.is_any());
        }
        is_relied_on
    }

    #[test]
    fn who_was_back_soon_eight_times_is_relied_on_until_it_is_not() {
        let known = Absences::default();
        let (short, long) = (Duration::from_micros(99), Duration::from_micros(100));
        assert!(!absences(&known, 3, short, 8));
        assert!(absences(&known, 3, short, 100));
        assert!(absences(&known, 3, long, 1), "the first that is long");
        assert!(!absences(&known, 3, short, 8));
        assert!(absences(&known, 3, short, 1));
    }

    #[test]
    fn one_thread_is_not_taken_for_another() {
        let known = Absences::default();
        absences(&known, 3, Duration::ZERO, 8);
        assert!(!known.begin(4, BEGIN), "it was the other that was back soon");
        known.end(3, BEGIN);
        known.end(3, BEGIN + LOST);
        assert!(known.is_any(), "the fourth is not back");
        absences(&known, 4, Duration::ZERO, 8);
        assert!(known.begin(4, BEGIN));
        known.end(3, BEGIN + LOST + Duration::from_nanos(1));
        assert!(!known.is_any() && !known.begin(4, BEGIN), "it has been away for long");
        absences(&known, 4, Duration::ZERO, 8);
        known.forget();
        assert!(!known.begin(4, BEGIN));
    }
}
