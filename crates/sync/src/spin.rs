//! The papers' spin lock.
//!
//! Algorithm: a flag; taking it is one exchange, freeing it one store. Who finds it taken reads until it looks free
//! (so that waiting threads share the cache line) and tries again. The paper's threads cannot be pre-empted; ours
//! can, so after a bounded number of looks a waiter gives its processor away, possibly to the holder.
//!
//! Races: the exchange acquires and the store releases, so what one holder wrote the next one reads. There is no
//! queue, so no order, and nobody to wake, so no wake to lose.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use crate::face::atomic::{AtomicBool, Ordering};
use crate::face::{Spin, UnsafeCell};

/// A value that one thread at a time may use, for a moment: waiting burns the processor.
#[derive(Default)]
pub struct SpinLock<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the flag lets one thread at a time reach the value.
unsafe impl<T: Send> Sync for SpinLock<T> {}
// SAFETY: the lock owns its value.
unsafe impl<T: Send> Send for SpinLock<T> {}

impl<T> SpinLock<T> {
    /// A free lock around `value`.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// A free lock around `value`.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Spins until the lock is free and takes it.
    #[inline]
    pub fn lock(&self) -> SpinGuard<'_, T> {
        while !self.try_take() {
            self.wait();
        }
        SpinGuard { lock: self, stays: PhantomData }
    }

    /// Takes the lock if it is free now.
    #[inline]
    pub fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
        self.try_take().then(|| SpinGuard { lock: self, stays: PhantomData })
    }

    #[inline]
    fn try_take(&self) -> bool {
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait(&self) {
        let mut spin = Spin::default();
        while self.taken.load(Ordering::Relaxed) {
            if !spin.look_again() {
                spin.give_way();
            }
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for SpinLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(guard) => f.debug_tuple("SpinLock").field(&*guard).finish(),
            None => f.write_str("SpinLock(<locked>)"),
        }
    }
}

/// The right to use the value of a [`SpinLock`]; dropping it unlocks.
#[must_use = "the lock is held only as long as its guard"]
pub struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
    stays: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives out `&T` and nothing else.
unsafe impl<T: Sync> Sync for SpinGuard<'_, T> {}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock, and lends the value no longer than it lives itself.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock, and `&mut self` makes this the only loan.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.taken.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_taken_lock_is_refused_and_a_freed_one_is_not() {
        let lock = SpinLock::new(());
        let taken = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(taken);
        assert!(lock.try_lock().is_some());
    }

    #[test]
    fn no_update_is_lost_among_more_threads_than_processors() {
        let lock = SpinLock::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20_000).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), 80_000);
    }
}
