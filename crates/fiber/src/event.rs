//! A wake that is kept until it is taken: what `park` waits for.

use std::time::Instant;

use weft_sync::SpinLock;

use crate::wait::{Node, Outcome, Seat, WaitList};
use crate::why::Why;

/// Set or not set; waiting takes it. Several sets before one wait are one.
pub(crate) struct Event(SpinLock<State>);

struct State {
    is_set: bool,
    waiters: WaitList,
}

impl Event {
    pub(crate) fn new() -> Self {
        Self(SpinLock::new(State { is_set: false, waiters: WaitList::new() }))
    }

    pub(crate) fn set(&self) {
        let mut state = self.0.lock();
        let next = state.waiters.pop();
        state.is_set |= next.is_none();
        drop(state);
        if let Some(next) = next {
            next.wake();
        }
    }

    pub(crate) fn clear(&self) {
        self.0.lock().is_set = false;
    }

    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Outcome {
        let seat = Seat::take();
        let node = Node::new(&seat);
        let mut state = self.0.lock();
        if std::mem::take(&mut state.is_set) {
            return Outcome::Signalled;
        }
        // SAFETY: the node stays until the wait has ended, and is removed below unless it was popped.
        unsafe { state.waiters.push(&node) };
        drop(state);
        let outcome = seat.wait(Why::Park, std::ptr::from_ref(self).addr(), deadline);
        if outcome != Outcome::Signalled {
            self.0.lock().waiters.remove(&node);
        }
        outcome
    }
}
