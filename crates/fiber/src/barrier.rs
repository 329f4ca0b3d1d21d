//! A barrier: fibers wait for each other.

use std::fmt;

use weft_sync::SpinLock;

use crate::cancel;
use crate::wait::{Outcome, Seat, WaitList, release};
use crate::why::Why;

/// Lets a number of fibers go on when all of them have come, again and again.
///
/// ```
/// use std::sync::Arc;
/// weft_fiber::run(|| {
///     let barrier = Arc::new(weft_fiber::Barrier::new(3));
///     let parts: Vec<_> = (0..3)
///         .map(|_| {
///             let barrier = barrier.clone();
///             weft_fiber::spawn(move || barrier.wait()).unwrap()
///         })
///         .collect();
///     let leaders = parts.into_iter().map(|part| part.join().unwrap()).filter(|&leads| leads).count();
///     assert_eq!(leaders, 1);
/// })?;
/// # Ok::<(), weft_fiber::RunError>(())
/// ```
pub struct Barrier {
    size: usize,
    state: SpinLock<State>,
}

struct State {
    arrived: usize,
    round: usize,
    waiters: WaitList,
}

impl Barrier {
    /// A barrier for so many. One for none or one lets everybody pass.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new(size: usize) -> Self {
        Self { size, state: SpinLock::new(State { arrived: 0, round: 0, waiters: WaitList::new() }) }
    }

    /// A barrier for so many.
    #[cfg(loom)]
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self { size, state: SpinLock::new(State { arrived: 0, round: 0, waiters: WaitList::new() }) }
    }

    /// Waits until all have come. True for the one that came last.
    ///
    /// A fiber that is cancelled while it waits unwinds, and then has not come.
    pub fn wait(&self) -> bool {
        let (outcome, leads) = self.wait_outcome();
        cancel::unwind_if(outcome);
        leads
    }

    pub(crate) fn wait_outcome(&self) -> (Outcome, bool) {
        let seat = Seat::take();
        let node = seat.node();
        let mut state = self.state.lock();
        state.arrived += 1;
        let round = state.round;
        if state.arrived >= self.size {
            state.arrived = 0;
            state.round += 1;
            drop(state);
            release(|| self.state.lock().waiters.pop_batch(round));
            return (Outcome::Signalled, true);
        }
        node.set_round(round);
        // SAFETY: the node stays until the wait has ended, and is removed below unless it was popped.
        unsafe { state.waiters.push(node) };
        drop(state);
        let outcome = seat.wait(Why::Barrier, std::ptr::from_ref(self).addr(), None);
        if outcome != Outcome::Signalled {
            let mut state = self.state.lock();
            state.waiters.remove(node);
            // If its round was completed in the meantime, it has been counted there.
            state.arrived -= usize::from(state.round == round);
        }
        (outcome, false)
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("size", &self.size).finish_non_exhaustive()
    }
}
