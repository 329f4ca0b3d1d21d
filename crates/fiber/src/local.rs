//! Locks among fibers that share a thread, without atomic operations.
//!
//! They cannot be shared with another thread, so only fibers spawned by [`spawn_local`](crate::spawn_local) and the
//! one that spawns them can share one; the compiler sees to it. Nobody runs between a look and the act on it, since all
//! switches are voluntary.

use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::cancel;
use crate::wait::{Outcome, Seat, WaitList};
use crate::why::Why;

/// Those who wait, on one thread.
#[derive(Default)]
struct Waiters(UnsafeCell<WaitList>);

impl Waiters {
    const fn new() -> Self {
        Self(UnsafeCell::new(WaitList::new()))
    }

    /// `use_it` runs nothing that comes back here.
    #[inline(always)]
    fn with<R>(&self, use_it: impl FnOnce(&mut WaitList) -> R) -> R {
        // SAFETY: the type is for one thread, and no call is made within another.
        use_it(unsafe { &mut *self.0.get() })
    }

    #[inline(never)]
    fn wait(&self, why: Why) -> Outcome {
        let seat = Seat::take();
        let node = seat.node();
        // SAFETY: the node stays until the wait has ended, and is removed below unless it was popped.
        self.with(|list| unsafe { list.push(node) });
        let outcome = seat.wait(why, std::ptr::from_ref(self).addr(), None);
        if outcome != Outcome::Signalled {
            self.with(|list| list.remove(node));
        }
        cancel::unwind_if(outcome)
    }

    /// Wakes the first that waits. True if there was one.
    #[inline(always)]
    fn wake_first(&self) -> bool {
        if self.with(|list| list.is_empty()) {
            return false;
        }
        self.pop_and_wake()
    }

    #[inline(never)]
    fn pop_and_wake(&self) -> bool {
        let next = self.with(WaitList::pop);
        let found = next.is_some();
        if let Some(next) = next {
            next.wake();
        }
        found
    }
}

/// A value that one fiber of this thread at a time may use. It is handed on in the order of asking.
///
/// ```
/// use std::rc::Rc;
/// use weft_fiber::{local, spawn_local, yield_now};
///
/// weft_fiber::run(|| {
///     let count = Rc::new(local::Mutex::new(0));
///     let theirs = count.clone();
///     let child = spawn_local(move || *theirs.lock() += 1).unwrap();
///     let mut mine = count.lock();
///     yield_now(); // the child runs, and waits
///     *mine += 1;
///     drop(mine);
///     child.join().unwrap();
///     assert_eq!(*count.lock(), 2);
/// })?;
/// # Ok::<(), weft_fiber::RunError>(())
/// ```
pub struct Mutex<T> {
    is_held: Cell<bool>,
    waiters: Waiters,
    value: UnsafeCell<T>,
}

impl<T> Mutex<T> {
    /// A free mutex around `value`.
    pub const fn new(value: T) -> Self {
        Self { is_held: Cell::new(false), waiters: Waiters::new(), value: UnsafeCell::new(value) }
    }

    /// Waits until the mutex is free and takes it.
    ///
    /// # Panics
    ///
    /// On a thread that runs no fiber, if it is held: nobody could free it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        if self.is_held.replace(true) {
            wait_on_fiber(&self.waiters, Why::Mutex);
        }
        MutexGuard(self)
    }

    /// Takes the mutex if it is free now.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        (!self.is_held.replace(true)).then(|| MutexGuard(self))
    }

    /// The value of a mutex that nobody shares.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// The value, without the mutex.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

#[inline(always)]
fn wait_on_fiber(waiters: &Waiters, why: Why) {
    assert!(
        crate::worker::current_block().is_some(),
        "this thread runs no fiber, so nobody could end its wait for a local lock; use the shared form"
    );
    waiters.wait(why);
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
pub struct MutexGuard<'a, T>(&'a Mutex<T>);

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the mutex, and lends the value no longer than it lives itself.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the mutex, and `&mut self` makes this the only loan.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Handed over, it stays held.
        if !self.0.waiters.wake_first() {
            self.0.is_held.set(false);
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A number of permits among fibers of one thread.
///
/// ```
/// let semaphore = weft_fiber::local::Semaphore::new(0);
/// semaphore.post();
/// semaphore.wait();
/// assert!(!semaphore.try_wait());
/// ```
#[derive(Default)]
pub struct Semaphore {
    permits: Cell<usize>,
    waiters: Waiters,
}

impl Semaphore {
    /// A semaphore with so many permits.
    #[must_use]
    pub const fn new(permits: usize) -> Self {
        Self { permits: Cell::new(permits), waiters: Waiters::new() }
    }

    /// Waits for a permit and takes it.
    ///
    /// # Panics
    ///
    /// On a thread that runs no fiber, if there is none: nobody could post.
    #[inline]
    pub fn wait(&self) {
        if !self.try_wait() {
            wait_on_fiber(&self.waiters, Why::Semaphore);
        }
    }

    /// Takes a permit if there is one.
    #[inline]
    pub fn try_wait(&self) -> bool {
        let permits = self.permits.get();
        self.permits.set(permits.saturating_sub(1));
        permits > 0
    }

    /// Gives a permit. At `usize::MAX` permits it changes nothing.
    #[inline]
    pub fn post(&self) {
        if !self.waiters.wake_first() {
            self.permits.set(self.permits.get().saturating_add(1));
        }
    }

    /// The permits that nobody has taken.
    #[must_use]
    pub fn permits(&self) -> usize {
        self.permits.get()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Semaphore").field(&self.permits()).finish()
    }
}
