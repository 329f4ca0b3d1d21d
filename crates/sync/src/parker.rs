//! One thread sleeps; others wake it.
//!
//! Algorithm: one word. EMPTY: nothing happened. NOTIFIED: a wake has come and is kept until it is consumed. PARKED:
//! the owner sleeps. Parking subtracts one: NOTIFIED becomes EMPTY and the thread does not sleep, EMPTY becomes
//! PARKED. Waking swaps in NOTIFIED and calls the kernel only if it finds PARKED.
//!
//! Races:
//! * A wake before the park stays in the word; one between the subtraction and the sleep changes the word, and the
//!   kernel refuses the sleep. So no wake is lost.
//! * Several wakes before one park are one wake. What they stand for must be looked up where it is kept.
//! * A wake that meets the end of the time-out is reported as a wake: the word decides, not the kernel.

use std::time::Duration;

use crate::Futex;
use crate::face::{Arc, atomic::Ordering};

const EMPTY: u32 = 0;
const NOTIFIED: u32 = 1;
const PARKED: u32 = u32::MAX; // EMPTY − 1

/// The sleeping side: owned by the one thread that parks.
///
/// ```
/// use std::time::Duration;
/// let parker = weft_sync::Parker::new();
/// let unparker = parker.unparker();
/// std::thread::spawn(move || unparker.unpark());
/// parker.park();
/// assert!(!parker.park_timeout(Duration::from_millis(1)));
/// ```
#[derive(Debug)]
pub struct Parker(Arc<Futex>);

/// The waking side: clone it and hand it to whoever may have news.
#[derive(Clone, Debug)]
pub struct Unparker(Arc<Futex>);

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}

impl Parker {
    /// A parker nobody has woken yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Futex::new(EMPTY)))
    }

    /// A hand that wakes this parker.
    #[must_use]
    pub fn unparker(&self) -> Unparker {
        Unparker(self.0.clone())
    }

    /// Sleeps until woken; returns at once if a wake has come since the last return.
    pub fn park(&self) {
        if self.0.fetch_sub(1, Ordering::Acquire) == NOTIFIED {
            return;
        }
        loop {
            self.0.wait(PARKED, None);
            if self.0.compare_exchange(NOTIFIED, EMPTY, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Sleeps until woken, at most `timeout`. True if a wake was consumed.
    ///
    /// It may return false early (a signal, say): the caller has the clock and decides whether to park again.
    pub fn park_timeout(&self, timeout: Duration) -> bool {
        if self.0.fetch_sub(1, Ordering::Acquire) == NOTIFIED {
            return true;
        }
        self.0.wait(PARKED, Some(timeout));
        self.0.swap(EMPTY, Ordering::Acquire) == NOTIFIED
    }
}

impl Unparker {
    /// Wakes the parker, or lets its next park return at once. What was written before is seen after the park.
    pub fn unpark(&self) {
        if self.0.swap(NOTIFIED, Ordering::Release) == PARKED {
            self.0.wake_one();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn wakes_before_the_park_are_one_wake() {
        let parker = Parker::new();
        parker.unparker().unpark();
        parker.unparker().unpark();
        parker.park();
        assert!(!parker.park_timeout(Duration::from_micros(10)));
    }

    #[test]
    fn two_threads_wake_each_other_in_turn() {
        let (ping, pong) = (Parker::new(), Parker::new());
        let (to_ping, to_pong) = (ping.unparker(), pong.unparker());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for _ in 0..2_000 {
                    ping.park();
                    to_pong.unpark();
                }
            });
            for _ in 0..2_000 {
                to_ping.unpark();
                while !pong.park_timeout(Duration::from_secs(10)) {}
            }
        });
    }
}
