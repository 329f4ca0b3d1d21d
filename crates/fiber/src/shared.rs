//! Locks that are words in memory, which processes may share.
//!
//! Nobody in another process can hand anything over, so these locks are polled: who finds one taken posts the condition
//! that it is free, and tries again. They have no order and no owner, and a process that ends while it holds one leaves
//! it taken. All bits zero are a free mutex, and a semaphore without permits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::cancel;
use crate::condition;
use crate::wait::Outcome;

/// Mutual exclusion by a word of 64 bits.
///
/// ```
/// let lock = weft_fiber::shared::Mutex::new();
/// lock.lock();
/// assert!(!lock.try_lock());
/// assert!(lock.unlock());
/// assert!(!lock.unlock()); // it was free
/// ```
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Mutex(AtomicU64);

impl Mutex {
    /// A free one.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The mutex that a word is, wherever it lies.
    #[must_use]
    pub fn of(word: &AtomicU64) -> &Self {
        // SAFETY: the mutex is that word and nothing else.
        unsafe { &*std::ptr::from_ref(word).cast() }
    }

    /// Waits until it is free and takes it. A fiber that is cancelled while it waits unwinds.
    pub fn lock(&self) {
        cancel::unwind_if(self.lock_outcome(None));
    }

    /// Takes it if it is free now.
    pub fn try_lock(&self) -> bool {
        self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// The same, until `deadline` at most; false if that passed.
    pub fn lock_until(&self, deadline: Instant) -> bool {
        cancel::unwind_if(self.lock_outcome(Some(deadline))) == Outcome::Signalled
    }

    /// Frees it. False if it was free: whoever calls this without holding it has an error.
    pub fn unlock(&self) -> bool {
        self.0.swap(0, Ordering::Release) != 0
    }

    pub(crate) fn lock_outcome(&self, deadline: Option<Instant>) -> Outcome {
        poll(|| self.try_lock(), || self.0.load(Ordering::Relaxed) == 0, deadline)
    }
}

/// A number of permits in a word of 64 bits.
///
/// ```
/// let semaphore = weft_fiber::shared::Semaphore::new(1);
/// semaphore.wait();
/// assert!(!semaphore.try_wait());
/// semaphore.post();
/// assert!(semaphore.try_wait());
/// ```
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Semaphore(AtomicU64);

impl Semaphore {
    /// One with so many permits.
    #[must_use]
    pub const fn new(permits: u64) -> Self {
        Self(AtomicU64::new(permits))
    }

    /// Waits for a permit and takes it. A fiber that is cancelled while it waits unwinds.
    pub fn wait(&self) {
        cancel::unwind_if(self.wait_outcome(None));
    }

    /// Takes a permit if there is one.
    pub fn try_wait(&self) -> bool {
        let take = |permits: u64| permits.checked_sub(1);
        self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, take).is_ok()
    }

    /// The same, until `deadline` at most; false if that passed.
    pub fn wait_until(&self, deadline: Instant) -> bool {
        cancel::unwind_if(self.wait_outcome(Some(deadline))) == Outcome::Signalled
    }

    /// Gives a permit. At `u64::MAX` permits it changes nothing.
    pub fn post(&self) {
        let give = |permits: u64| permits.checked_add(1);
        let _ = self.0.fetch_update(Ordering::Release, Ordering::Relaxed, give);
    }

    /// The permits that nobody has taken, at this moment.
    #[must_use]
    pub fn permits(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn wait_outcome(&self, deadline: Option<Instant>) -> Outcome {
        poll(|| self.try_wait(), || self.0.load(Ordering::Relaxed) > 0, deadline)
    }
}

/// Tries until it has it, with `looks_free` as the posted condition in between.
fn poll(take: impl Fn() -> bool, looks_free: impl Fn() -> bool, deadline: Option<Instant>) -> Outcome {
    while !take() {
        let (outcome, _) = condition::wait_outcome(&looks_free, deadline);
        if outcome != Outcome::Signalled {
            return outcome;
        }
    }
    Outcome::Signalled
}
