//! A condition variable beside a [`Mutex`].

use std::fmt;
use std::time::Instant;

use weft_sync::SpinLock;

use crate::cancel;
use crate::mutex::{Mutex, MutexGuard};
use crate::wait::{Outcome, Seat, WaitList, release};
use crate::why::Why;

/// Lets fibers wait, with a mutex unlocked, until another one says that something has changed.
///
/// A wait ends only by a notification, a deadline or a cancellation: there are no spurious wakes. What was waited for
/// may nevertheless have been taken by somebody who locked the mutex first, so look again in a loop.
///
/// ```
/// use weft_fiber::{Condvar, Mutex};
/// static READY: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
///
/// weft_fiber::run(|| {
///     let waiter = weft_fiber::spawn(|| {
///         let mut ready = READY.0.lock();
///         while !*ready {
///             ready = READY.1.wait(ready);
///         }
///     });
///     *READY.0.lock() = true;
///     READY.1.notify_one();
///     waiter.unwrap().join().unwrap();
/// })?;
/// # Ok::<(), weft_fiber::RunError>(())
/// ```
pub struct Condvar(SpinLock<State>);

struct State {
    /// Counts calls of `notify_all`, so that each lets go only those who waited before it.
    round: usize,
    waiters: WaitList,
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl Condvar {
    /// A condition variable that nobody waits for.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self(SpinLock::new(State { round: 0, waiters: WaitList::new() }))
    }

    /// A condition variable that nobody waits for.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        Self(SpinLock::new(State { round: 0, waiters: WaitList::new() }))
    }

    /// Unlocks the mutex, waits for a notification, and locks it again.
    ///
    /// A fiber that is cancelled while it waits unwinds, with the mutex unlocked; if it had been notified, the notification goes to
    /// the next that waits.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let mutex = guard.mutex();
        let outcome = cancel::unwind_if(self.wait_unlocked(guard, None));
        self.relock(mutex, outcome)
    }

    /// The same, until `deadline` at most; the flag says whether a notification came.
    pub fn wait_until<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> (MutexGuard<'a, T>, bool) {
        let mutex = guard.mutex();
        let outcome = cancel::unwind_if(self.wait_unlocked(guard, Some(deadline)));
        (self.relock(mutex, outcome), outcome == Outcome::Signalled)
    }

    /// Locks after the wait. Who is cancelled meanwhile uses up no notification.
    fn relock<'a, T>(&self, mutex: &'a Mutex<T>, outcome: Outcome) -> MutexGuard<'a, T> {
        let passed_on = (outcome == Outcome::Signalled).then(|| PassedOn(self));
        let guard = mutex.lock();
        std::mem::forget(passed_on);
        guard
    }

    /// Lets go the one that has waited longest.
    pub fn notify_one(&self) {
        let next = self.0.lock().waiters.pop();
        if let Some(next) = next {
            next.wake();
        }
    }

    /// Lets all go who wait now.
    pub fn notify_all(&self) {
        let mut state = self.0.lock();
        let round = state.round;
        state.round += 1;
        drop(state);
        release(|| self.0.lock().waiters.pop_batch(round));
    }

    fn wait_unlocked<T>(&self, guard: MutexGuard<'_, T>, deadline: Option<Instant>) -> Outcome {
        // Unlocked when the node is in the list already, so that no notification is missed. Unlocking never waits.
        self.wait_outcome(|| drop(guard), deadline)
    }

    /// Queues, calls `unlock`, and waits.
    pub(crate) fn wait_outcome(&self, unlock: impl FnOnce(), deadline: Option<Instant>) -> Outcome {
        let seat = Seat::take();
        let node = seat.node();
        let mut state = self.0.lock();
        node.set_round(state.round);
        // SAFETY: the node stays until the wait has ended, and is removed below unless it was popped.
        unsafe { state.waiters.push(node) };
        drop(state);
        unlock();
        let outcome = seat.wait(Why::Condvar, std::ptr::from_ref(self).addr(), deadline);
        if outcome != Outcome::Signalled {
            self.0.lock().waiters.remove(node);
        }
        outcome
    }
}

/// A notification that goes on to another when it is dropped.
struct PassedOn<'a>(&'a Condvar);

impl Drop for PassedOn<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar")
    }
}
