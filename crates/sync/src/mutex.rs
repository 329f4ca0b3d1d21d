//! A mutual-exclusion lock of one word.
//!
//! Algorithm: the word is FREE, HELD, or CONTENDED (held, and somebody may sleep). Locking is one exchange of FREE
//! for HELD; unlocking is one swap to FREE. Who finds it held looks again a bounded number of times, then writes
//! CONTENDED with a swap and sleeps until the word changes.
//!
//! Races:
//! * A sleeper against the unlocker: the unlocker swaps first and wakes second; the sleeper sleeps only while the
//!   word is CONTENDED, which the kernel checks in one step with the sleep. So either the sleeper sees FREE, or it
//!   sleeps before the wake.
//! * Two sleepers, one wake: the woken one takes the lock as CONTENDED, since it cannot know whether it was the
//!   only one. So its own unlock wakes the next; the price is one needless wake at the end of a convoy.
//! * A newcomer may overtake the woken thread. That is deliberate: throughput before order.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use crate::Futex;
use crate::face::{Spin, UnsafeCell, atomic::Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// A value that one thread at a time may use.
///
/// A panic while it is locked unlocks it and leaves the value as it is: there is no poisoning.
#[derive(Default)]
pub struct Mutex<T> {
    word: Futex,
    value: UnsafeCell<T>,
}

// SAFETY: the word lets one thread at a time reach the value, so sharing the lock only moves the value about.
unsafe impl<T: Send> Sync for Mutex<T> {}
// SAFETY: the lock owns its value.
unsafe impl<T: Send> Send for Mutex<T> {}

impl<T> Mutex<T> {
    /// A free lock around `value`.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self { word: Futex::new(FREE), value: UnsafeCell::new(value) }
    }

    /// A free lock around `value`.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self { word: Futex::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Waits until the lock is free and takes it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        if !self.try_take() {
            self.wait_and_take();
        }
        MutexGuard::of(self)
    }

    /// Takes the lock if it is free now.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.try_take().then(|| MutexGuard::of(self))
    }

    /// The value of a lock that nobody shares.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: `&mut self` says that there is no guard and no other thread.
        self.value.with_mut(|value| unsafe { &mut *value })
    }

    /// The value, without the lock.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    #[inline]
    fn try_take(&self) -> bool {
        self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait_and_take(&self) {
        let mut spin = Spin::default();
        // Behind a sleeper it is no use to spin: the holder is slow.
        while self.word.load(Ordering::Relaxed) == HELD && spin.look_again() {}
        if self.try_take() {
            return;
        }
        while self.word.swap(CONTENDED, Ordering::Acquire) != FREE {
            self.word.wait(CONTENDED, None);
        }
    }

    #[inline]
    fn free(&self) {
        if self.word.swap(FREE, Ordering::Release) == CONTENDED {
            self.word.wake_one();
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(guard) => f.debug_tuple("Mutex").field(&*guard).finish(),
            None => f.write_str("Mutex(<locked>)"),
        }
    }
}

/// The right to use the value of a [`Mutex`]; dropping it unlocks.
#[must_use = "the lock is held only as long as its guard"]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    // Not `Send`: the thread that locked unlocks, as a later fair or owner-checking lock would need.
    stays: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives out `&T` and nothing else.
unsafe impl<T: Sync> Sync for MutexGuard<'_, T> {}

impl<'a, T> MutexGuard<'a, T> {
    #[inline]
    fn of(mutex: &'a Mutex<T>) -> Self {
        Self { mutex, stays: PhantomData }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock, and lends the value no longer than it lives itself.
        self.mutex.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock, and `&mut self` makes this the only loan.
        self.mutex.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.free();
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_held_lock_is_refused_and_a_freed_one_is_not() {
        let mutex = Mutex::new(1);
        let held = mutex.lock();
        assert!(mutex.try_lock().is_none());
        assert_eq!(format!("{mutex:?}"), "Mutex(<locked>)");
        drop(held);
        *mutex.try_lock().unwrap() += 1;
        assert_eq!(format!("{mutex:?}"), "Mutex(2)");
        assert_eq!(mutex.into_inner(), 2);
    }

    #[test]
    fn no_update_is_lost_among_threads() {
        let mutex = Mutex::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20_000).for_each(|_| *mutex.lock() += 1));
            }
        });
        assert_eq!(*mutex.lock(), 80_000);
    }

    #[test]
    fn a_panic_unlocks_and_does_not_poison() {
        let mutex = Mutex::new(7);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = mutex.lock();
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(result.is_err());
        assert_eq!(*mutex.lock(), 7);
    }
}
