//! A counting semaphore among fibers, wherever they run, and threads.
//!
//! Algorithm: permits and waiters under one spin lock. A post that finds a waiter hands it the permit; so permits and
//! waiters never exist together, nobody overtakes, and both calls are one exchange when nobody waits.

use std::fmt;
use std::time::Instant;

use weft_sync::SpinLock;

use crate::cancel;
use crate::wait::{Node, Outcome, Seat, WaitList};
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
pub struct Semaphore(SpinLock<State>);

struct State {
    permits: usize,
    waiters: WaitList,
}

impl Semaphore {
    /// A semaphore with so many permits.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new(permits: usize) -> Self {
        Self(SpinLock::new(State { permits, waiters: WaitList::new() }))
    }

    /// A semaphore with so many permits.
    #[cfg(loom)]
    #[must_use]
    pub fn new(permits: usize) -> Self {
        Self(SpinLock::new(State { permits, waiters: WaitList::new() }))
    }

    /// Waits for a permit and takes it. A fiber that is cancelled while it waits unwinds.
    #[inline]
    pub fn wait(&self) {
        if !self.try_wait() {
            cancel::unwind_if(self.wait_outcome(None));
        }
    }

    /// Takes a permit if there is one.
    #[inline]
    pub fn try_wait(&self) -> bool {
        let mut state = self.0.lock();
        let has_one = state.permits > 0;
        state.permits -= usize::from(has_one);
        has_one
    }

    /// Waits for a permit and takes it; false if there was none before `deadline`.
    pub fn wait_until(&self, deadline: Instant) -> bool {
        cancel::unwind_if(self.wait_outcome(Some(deadline))) == Outcome::Signalled
    }

    /// Gives a permit. At `usize::MAX` permits it changes nothing.
    #[inline]
    pub fn post(&self) {
        let mut state = self.0.lock();
        let next = state.waiters.pop();
        if next.is_none() {
            state.permits = state.permits.saturating_add(1);
        }
        drop(state);
        if let Some(next) = next {
            next.wake();
        }
    }

    /// The permits that nobody has taken, at this moment.
    #[must_use]
    pub fn permits(&self) -> usize {
        self.0.lock().permits
    }

    /// Takes a permit, or says what ended the wait.
    pub(crate) fn wait_outcome(&self, deadline: Option<Instant>) -> Outcome {
        let seat = Seat::take();
        let node = Node::new(&seat);
        let mut state = self.0.lock();
        if state.permits > 0 {
            state.permits -= 1;
            return Outcome::Signalled;
        }
        // SAFETY: the node stays until the wait has ended, and is removed below unless it was popped.
        unsafe { state.waiters.push(&node) };
        drop(state);
        let outcome = seat.wait(Why::Semaphore, std::ptr::from_ref(self).addr(), deadline);
        if outcome != Outcome::Signalled {
            self.0.lock().waiters.remove(&node);
        }
        outcome
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Semaphore").field(&self.permits()).finish()
    }
}
