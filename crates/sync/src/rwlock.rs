//! A lock that many may hold to read or one to write, of one word.
//!
//! Algorithm: the word counts readers in its low bits; WRITER says that one writes, PARKED that somebody may sleep.
//! A reader adds one unless there is a writer, or somebody sleeps (so that a stream of readers does not keep a
//! writer out for ever). A writer needs a word without readers and writer. Who must wait looks again a bounded
//! number of times, then sets PARKED on the held word and sleeps until the word changes. Whoever makes the lock
//! free writes zero, and if PARKED was set wakes all sleepers, who try again.
//!
//! Races:
//! * A sleeper against the last holder: PARKED is only ever set on a held word and by an exchange, so its holder's
//!   last step sees it; the kernel puts the thread to sleep only while the word is what it was.
//! * The last step of an unlock may let another thread free the memory of the lock (the `fine` table does). So it
//!   is one exchange, after which only the address of the word is used: a wake of nobody, or a needless one.
//! * A thread must not read-lock twice: a writer that sleeps in between would wait for it, and it for the writer.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use crate::Futex;
use crate::face::{Spin, UnsafeCell, atomic::Ordering};

const WRITER: u32 = 1 << 31;
const PARKED: u32 = 1 << 30;
const READERS: u32 = PARKED - 1;

/// A value that many threads may read, or one may write.
#[derive(Default)]
pub struct RwLock<T> {
    word: Futex,
    value: UnsafeCell<T>,
}

// SAFETY: a writer is alone (`Send`: it may take the value away), readers share it (`Sync`).
unsafe impl<T: Send + Sync> Sync for RwLock<T> {}
// SAFETY: the lock owns its value.
unsafe impl<T: Send> Send for RwLock<T> {}

impl<T> RwLock<T> {
    /// A free lock around `value`.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self { word: Futex::new(0), value: UnsafeCell::new(value) }
    }

    /// A free lock around `value`.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self { word: Futex::new(0), value: UnsafeCell::new(value) }
    }

    /// Waits until nobody writes and holds the lock to read.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        if !self.try_take(reading) {
            self.wait_and_take(reading);
        }
        RwLockReadGuard { lock: self, stays: PhantomData }
    }

    /// Waits until nobody reads or writes and holds the lock to write.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        if !self.try_take(writing) {
            self.wait_and_take(writing);
        }
        RwLockWriteGuard { lock: self, stays: PhantomData }
    }

    /// Holds the lock to read if that needs no waiting.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.try_take(reading).then(|| RwLockReadGuard { lock: self, stays: PhantomData })
    }

    /// Holds the lock to write if it is free now.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.try_take(writing).then(|| RwLockWriteGuard { lock: self, stays: PhantomData })
    }

    /// The value, without the lock.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// Takes the lock as `kind` says; an exchange lost to another reader is tried again.
    #[inline]
    fn try_take(&self, kind: Kind) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while let Some(taken) = kind(word) {
            match self.word.compare_exchange_weak(word, taken, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    #[cold]
    fn wait_and_take(&self, kind: Kind) {
        let mut spin = Spin::default();
        while !self.try_take(kind) {
            if spin.look_again() {
                continue;
            }
            let word = self.word.load(Ordering::Relaxed);
            if kind(word).is_some() {
                continue;
            }
            let parked = word | PARKED;
            let exchange = self.word.compare_exchange(word, parked, Ordering::Relaxed, Ordering::Relaxed);
            if exchange.is_ok() {
                self.word.wait(parked, None);
            }
        }
    }

    #[inline]
    fn free_read(&self) {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let freed = if word == PARKED | 1 { 0 } else { word - 1 };
            match self.word.compare_exchange_weak(word, freed, Ordering::Release, Ordering::Relaxed) {
                Ok(_) if freed == 0 && word != 1 => return self.word.wake_all(),
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    #[inline]
    fn free_write(&self) {
        if self.word.swap(0, Ordering::Release) & PARKED != 0 {
            self.word.wake_all();
        }
    }
}

/// From the word as it is to the word with the lock taken, or `None` if the taker must wait.
type Kind = fn(u32) -> Option<u32>;

fn reading(word: u32) -> Option<u32> {
    (word < READERS).then_some(word + 1) // so neither flag is set, and the count has room
}

fn writing(word: u32) -> Option<u32> {
    (word == 0).then_some(WRITER)
}

impl<T: fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_read() {
            Some(guard) => f.debug_tuple("RwLock").field(&*guard).finish(),
            None => f.write_str("RwLock(<locked>)"),
        }
    }
}

/// The right to read the value of a [`RwLock`]; dropping it gives the right back.
#[must_use = "the lock is held only as long as its guard"]
pub struct RwLockReadGuard<'a, T> {
    lock: &'a RwLock<T>,
    stays: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives out `&T` and nothing else.
unsafe impl<T: Sync> Sync for RwLockReadGuard<'_, T> {}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard is counted as a reader, so nobody writes while it lives.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.free_read();
    }
}

/// The right to write the value of a [`RwLock`]; dropping it unlocks.
#[must_use = "the lock is held only as long as its guard"]
pub struct RwLockWriteGuard<'a, T> {
    lock: &'a RwLock<T>,
    stays: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives out `&T` and nothing else.
unsafe impl<T: Sync> Sync for RwLockWriteGuard<'_, T> {}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the one writer, and there is no reader beside it.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard is the one writer, and `&mut self` makes this the only loan.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.free_write();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn readers_share_and_a_writer_is_alone() {
        let lock = RwLock::new(1);
        let (one, two) = (lock.read(), lock.try_read().unwrap());
        assert_eq!((*one, *two), (1, 1));
        assert!(lock.try_write().is_none());
        drop((one, two));
        let mut writer = lock.write();
        *writer = 2;
        assert!(lock.try_read().is_none() && lock.try_write().is_none());
        drop(writer);
        assert_eq!(lock.into_inner(), 2);
    }

    #[test]
    fn a_sleeping_writer_keeps_new_readers_out() {
        assert_eq!(reading(3), Some(4));
        assert_eq!(reading(PARKED | 3), None);
        assert_eq!(reading(WRITER), None);
        assert_eq!((writing(0), writing(1), writing(WRITER)), (Some(WRITER), None, None));
        // The count is full: wait, do not overflow into the flags.
        assert_eq!(reading(READERS), None);
    }

    #[test]
    fn readers_never_see_half_a_write() {
        let lock = RwLock::new((0_u64, 0_u64));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let mut pair = lock.write();
                        pair.0 += 1;
                        pair.1 += 1;
                    }
                });
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let pair = lock.read();
                        assert_eq!(pair.0, pair.1);
                    }
                });
            }
        });
        assert_eq!(*lock.read(), (20_000, 20_000));
    }
}
