//! A value that is made once.

use std::fmt;

use weft_sync::SpinLock;
use weft_sync::face::UnsafeCell;
use weft_sync::face::atomic::{AtomicBool, Ordering};

use crate::cancel;
use crate::wait::{Outcome, Seat, WaitList};
use crate::why::Why;

/// A cell that the first who needs it fills, while the others wait.
///
/// If the one that fills it panics or is cancelled, the next one tries.
///
/// ```
/// static CELL: weft_fiber::OnceCell<String> = weft_fiber::OnceCell::new();
/// assert_eq!(CELL.get(), None);
/// assert_eq!(CELL.get_or_init(|| "made".to_owned()), "made");
/// assert_eq!(CELL.get_or_init(|| unreachable!()), "made");
/// ```
pub struct OnceCell<T> {
    is_ready: AtomicBool,
    state: SpinLock<State>,
    value: UnsafeCell<Option<T>>,
}

struct State {
    is_taken: bool,
    waiters: WaitList,
}

// SAFETY: the value is written by one, before `is_ready`, and only read after it.
unsafe impl<T: Send + Sync> Sync for OnceCell<T> {}
// SAFETY: the cell owns its value.
unsafe impl<T: Send> Send for OnceCell<T> {}

impl<T> Default for OnceCell<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> OnceCell<T> {
    /// An empty cell.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        let state = SpinLock::new(State { is_taken: false, waiters: WaitList::new() });
        Self { is_ready: AtomicBool::new(false), state, value: UnsafeCell::new(None) }
    }

    /// An empty cell.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        let state = SpinLock::new(State { is_taken: false, waiters: WaitList::new() });
        Self { is_ready: AtomicBool::new(false), state, value: UnsafeCell::new(None) }
    }

    /// The value, if it has been made.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        if !self.is_ready.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: it was written before `is_ready`, and is never written again.
        self.value.with(|value| unsafe { (*value).as_ref() })
    }

    /// The value; `make` makes it if nobody has.
    ///
    /// A fiber that is cancelled while another one makes the value unwinds. `make` must not ask for the same cell:
    /// it would wait for itself.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        loop {
            if let Some(value) = self.get() {
                return value;
            }
            if cancel::unwind_if(self.take_turn()) == Outcome::Signalled && self.get().is_none() {
                break;
            }
        }
        let turn = Turn(self);
        let made = make();
        // SAFETY: the turn is ours, and nobody reads before `is_ready`.
        self.value.with_mut(|value| unsafe { *value = Some(made) });
        self.is_ready.store(true, Ordering::Release);
        drop(turn);
        self.get().expect("it was just made")
    }

    /// Waits for the turn to make the value; then looks whether that is still needed.
    fn take_turn(&self) -> Outcome {
        let seat = Seat::take();
        let node = seat.node();
        let mut state = self.state.lock();
        if self.is_ready.load(Ordering::Relaxed) {
            return Outcome::TimedOut; // nothing to do: the caller looks again
        }
        if !std::mem::replace(&mut state.is_taken, true) {
            return Outcome::Signalled;
        }
        // SAFETY: the node stays until the wait has ended, and is removed below unless it was popped.
        unsafe { state.waiters.push(node) };
        drop(state);
        let outcome = seat.wait(Why::Once, std::ptr::from_ref(self).addr(), None);
        if outcome != Outcome::Signalled {
            self.state.lock().waiters.remove(node);
        } else if self.get().is_some() {
            self.pass_turn();
        }
        outcome
    }

    /// Hands the turn to the next who waits, who will make the value or find it made.
    fn pass_turn(&self) {
        let mut state = self.state.lock();
        let next = state.waiters.pop();
        state.is_taken = next.is_some();
        drop(state);
        if let Some(next) = next {
            next.wake();
        }
    }
}

/// The right to make the value; given on when it ends, whether by success or by unwinding.
struct Turn<'a, T>(&'a OnceCell<T>);

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        self.0.pass_turn();
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnceCell").field(&self.get()).finish()
    }
}
