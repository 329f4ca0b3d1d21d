//! A counting semaphore among fibers, wherever they run, and threads.

use std::fmt;
use std::time::Instant;

use crate::cancel;
use crate::gate::{Gate, PERMITS_MAX};
use crate::wait::Outcome;
use crate::why::Why;

/// A number of permits: waiting takes one, posting gives one. Who waits is served in the order it came.
///
/// ```
/// let semaphore = weft_fiber::Semaphore::new(1);
/// semaphore.wait();
/// assert!(!semaphore.try_wait());
/// semaphore.post();
/// assert!(semaphore.try_wait());
/// ```
pub struct Semaphore(Gate);

impl Semaphore {
    /// The most permits a semaphore can have: 2^59 - 1 with words of 64 bits.
    pub const PERMITS_MAX: usize = PERMITS_MAX;

    /// A semaphore with so many permits, or as many as it can have.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new(permits: usize) -> Self {
        Self(Gate::new(if permits < PERMITS_MAX { permits } else { PERMITS_MAX }))
    }

    /// A semaphore with so many permits, or as many as it can have.
    #[cfg(loom)]
    #[must_use]
    pub fn new(permits: usize) -> Self {
        Self(Gate::new(permits.min(PERMITS_MAX)))
    }

    /// Waits for a permit and takes it. A fiber that is cancelled while it waits unwinds.
    #[inline]
    pub fn wait(&self) {
        if !self.0.try_take() {
            cancel::unwind_if(self.0.wait(Why::Semaphore, None));
        }
    }

    /// Takes a permit if there is one.
    #[inline]
    pub fn try_wait(&self) -> bool {
        self.0.try_take()
    }

    /// Waits for a permit and takes it; false if there was none before `deadline`.
    pub fn wait_until(&self, deadline: Instant) -> bool {
        self.0.try_take()
            || cancel::unwind_if(self.0.wait(Why::Semaphore, Some(deadline))) == Outcome::Signalled
    }

    /// Gives a permit. At [`PERMITS_MAX`](Self::PERMITS_MAX) it changes nothing.
    #[inline]
    pub fn post(&self) {
        self.0.give();
    }

    /// The permits that nobody has taken, at this moment.
    #[must_use]
    pub fn permits(&self) -> usize {
        self.0.permits()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Semaphore").field(&self.permits()).finish()
    }
}
