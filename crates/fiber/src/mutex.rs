//! Mutual exclusion among fibers, wherever they run, and threads.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::Instant;

use weft_sync::face::UnsafeCell;

use crate::cancel;
use crate::gate::Gate;
use crate::wait::Outcome;
use crate::why::Why;

/// A value that one fiber (or thread) at a time may use. Who waits gives its worker to other fibers.
///
/// The lock is handed to those who wait in the order they came. A panic while it is locked unlocks it and leaves the
/// value as it is: there is no poisoning. Among fibers of one worker only, [`local::Mutex`](crate::local::Mutex) is
/// cheaper; for a word in memory shared between processes there is [`shared::Mutex`](crate::shared::Mutex).
///
/// ```
/// static COUNT: weft_fiber::Mutex<u32> = weft_fiber::Mutex::new(0);
///
/// weft_fiber::run(|| {
///     let children: Vec<_> = (0..3).map(|_| weft_fiber::spawn(|| *COUNT.lock() += 1).unwrap()).collect();
///     children.into_iter().for_each(|child| child.join().unwrap());
///     assert_eq!(*COUNT.lock(), 3);
/// })?;
/// # Ok::<(), weft_fiber::RunError>(())
/// ```
pub struct Mutex<T> {
    /// With one permit: that of the holder.
    gate: Gate,
    value: UnsafeCell<T>,
}

// SAFETY: the lock lets one fiber at a time reach the value, so sharing it only moves the value about.
unsafe impl<T: Send> Sync for Mutex<T> {}
// SAFETY: the mutex owns its value.
unsafe impl<T: Send> Send for Mutex<T> {}

impl<T> Mutex<T> {
    /// A free mutex around `value`.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self { gate: Gate::new(1), value: UnsafeCell::new(value) }
    }

    /// A free mutex around `value`.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self { gate: Gate::new(1), value: UnsafeCell::new(value) }
    }

    /// Waits until the mutex is free and takes it.
    ///
    /// A fiber that is cancelled while it waits unwinds.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        if !self.gate.try_take_only() {
            cancel::unwind_if(self.gate.wait(Why::Mutex, None));
        }
        MutexGuard::of(self)
    }

    /// Takes the mutex if it is free now.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.gate.try_take_only().then(|| MutexGuard::of(self))
    }

    /// Waits until the mutex is free and takes it; `None` if that is not before `deadline`.
    pub fn lock_until(&self, deadline: Instant) -> Option<MutexGuard<'_, T>> {
        if let Some(guard) = self.try_lock() {
            return Some(guard);
        }
        let outcome = cancel::unwind_if(self.gate.wait(Why::Mutex, Some(deadline)));
        (outcome == Outcome::Signalled).then(|| MutexGuard::of(self))
    }

    /// A guard for a mutex whose guard was forgotten.
    ///
    /// # Safety
    ///
    /// The caller has locked the mutex, and there is no guard.
    pub unsafe fn make_guard(&self) -> MutexGuard<'_, T> {
        MutexGuard::of(self)
    }

    /// The value of a mutex that nobody shares.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: `&mut self` says that there is no guard.
        self.value.with_mut(|value| unsafe { &mut *value })
    }

    /// The value, without the mutex.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
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
#[must_use = "the mutex is locked only as long as its guard lives"]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    stays: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives out `&T` and nothing else.
unsafe impl<T: Sync> Sync for MutexGuard<'_, T> {}

impl<'a, T> MutexGuard<'a, T> {
    #[inline]
    fn of(mutex: &'a Mutex<T>) -> Self {
        Self { mutex, stays: PhantomData }
    }

    /// Its mutex.
    pub(crate) fn mutex(&self) -> &'a Mutex<T> {
        self.mutex
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
        self.mutex.gate.give_only();
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
