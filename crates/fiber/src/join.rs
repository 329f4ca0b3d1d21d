//! Waiting for a fiber's end, and its result.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, needs_drop};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use crate::block::{Block, Ending};
use crate::cancel;
use crate::error::{JoinError, Panic};
use crate::fiber::Fiber;
use crate::job;
use crate::latch::Refusal;
use crate::wait::Outcome;
use crate::worker::{self, Awaited};

/// The right to a fiber's result. Dropping it gives up the result; the fiber runs on, and drops the result at its end.
#[must_use = "dropping the handle gives up the fiber's result"]
pub struct JoinHandle<T> {
    fiber: Fiber,
    value: PhantomData<T>,
}

// SAFETY: the handle is a reference, and a `T` that may come out of it elsewhere.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: a shared handle gives out nothing.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    #[inline]
    pub(crate) fn of(block: NonNull<Block>) -> Self {
        Self { fiber: Fiber::own(block), value: PhantomData }
    }

    /// The fiber.
    pub fn fiber(&self) -> &Fiber {
        &self.fiber
    }

    /// Waits for the fiber's end and takes its result. On a thread that runs no fiber the thread sleeps.
    ///
    /// A fiber that is cancelled while it waits unwinds.
    ///
    /// # Errors
    ///
    /// [`JoinError`] if the fiber has no result.
    #[inline]
    pub fn join(self) -> Result<T, JoinError> {
        let block = self.fiber.block();
        let awaited =
            if block.latch.is_open() { Awaited::NotRun } else { worker::run_awaited(self.fiber.place()) };
        if awaited == Awaited::Cancelled {
            cancel::unwind();
        }
        if !block.latch.is_open() || block.latch.is_refused() || block.ending.get() != Ending::Value {
            wait_for_end(block, awaited)?;
            if block.ending.get() != Ending::Value {
                check(block, true)?;
            }
        }
        block.ending.set(Ending::Taken);
        // SAFETY: it ended with a value, this is the only handle, and the value has just been marked as taken.
        let value = unsafe { job::take(block) };
        // There is no value left to abandon.
        worker::release(ManuallyDrop::new(self).fiber.place());
        Ok(value)
    }

    /// The same, until `deadline` at most; the handle is given back if that passes.
    ///
    /// # Errors
    ///
    /// The handle and [`JoinError::TimedOut`] at the deadline, else as for [`join`](Self::join) without a handle.
    pub fn join_until(self, deadline: Instant) -> Result<T, (Option<Self>, JoinError)> {
        match wait(self.fiber.block(), Some(deadline)) {
            Ok(()) => self.join().map_err(|error| (None, error)),
            Err(JoinError::TimedOut) => Err((Some(self), JoinError::TimedOut)),
            Err(error) => Err((None, error)),
        }
    }

    /// Makes a handle for any number of joiners, who all see the result.
    pub fn share(self) -> Joiner<T>
    where
        T: Sync,
    {
        Joiner(Arc::new(self))
    }
}

impl<T> Drop for JoinHandle<T> {
    #[inline]
    fn drop(&mut self) {
        if needs_drop::<T>() {
            self.fiber.block().abandon_value();
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinHandle({:?})", self.fiber)
    }
}

/// A right to look at a fiber's result, for any number of joiners.
///
/// ```
/// weft_fiber::run(|| {
///     let shared = weft_fiber::spawn(|| 7).unwrap().share();
///     let other = shared.clone();
///     let double = weft_fiber::spawn(move || 2 * other.join().unwrap()).unwrap();
///     assert_eq!((*shared.join().unwrap(), double.join().unwrap()), (7, 14));
/// })?;
/// # Ok::<(), weft_fiber::RunError>(())
/// ```
pub struct Joiner<T>(Arc<JoinHandle<T>>);

impl<T> Joiner<T> {
    /// The fiber.
    #[must_use]
    pub fn fiber(&self) -> &Fiber {
        &self.0.fiber
    }

    /// Waits for the fiber's end and looks at its result.
    ///
    /// # Errors
    ///
    /// [`JoinError`] if the fiber has no result.
    pub fn join(&self) -> Result<&T, JoinError> {
        self.join_until(None)
    }

    /// The same, until `deadline` at most, if one is given.
    ///
    /// # Errors
    ///
    /// [`JoinError::TimedOut`] at the deadline, else as for [`join`](Self::join).
    pub fn join_until(&self, deadline: Option<Instant>) -> Result<&T, JoinError> {
        let block = self.0.fiber.block();
        wait(block, deadline)?;
        check(block, false)?;
        // SAFETY: it ended with a value, which stays as long as this handle: nobody can take it from a shared one.
        Ok(unsafe { job::look(block) })
    }
}

impl<T> Clone for Joiner<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Joiner<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Joiner({:?})", self.0.fiber)
    }
}

/// Waits for the end.
#[inline]
pub(crate) fn wait(block: &Block, deadline: Option<Instant>) -> Result<(), JoinError> {
    match cancel::unwind_if(wait_outcome(block, deadline)?) {
        Outcome::TimedOut => Err(JoinError::TimedOut),
        Outcome::Signalled | Outcome::Cancelled => Ok(()),
    }
}

/// Waits for the end of a fiber that its only joiner may have run.
#[inline]
fn wait_for_end(block: &Block, awaited: Awaited) -> Result<(), JoinError> {
    if awaited == Awaited::NotRun {
        return wait(block, None);
    }
    match block.latch.wait_announced() {
        Ok(outcome) => {
            cancel::unwind_if(outcome);
            Ok(())
        }
        Err(_) => Err(JoinError::Detached),
    }
}

/// Waits for the end, or says what else ended the wait.
#[inline]
pub(crate) fn wait_outcome(block: &Block, deadline: Option<Instant>) -> Result<Outcome, JoinError> {
    if worker::current_block() == Some(NonNull::from(block)) {
        return Err(JoinError::Itself);
    }
    match block.latch.wait(deadline) {
        Ok(outcome) => Ok(outcome),
        Err(Refusal::Detached) => Err(JoinError::Detached),
        Err(Refusal::Joined | Refusal::Attached | Refusal::Ended) => Ok(Outcome::Signalled),
    }
}

/// Whether there is a value; if not, why. `takes` says that nobody else asks, so that a panic can be given away.
fn check(block: &Block, takes: bool) -> Result<(), JoinError> {
    match block.ending.get() {
        Ending::Value => Ok(()),
        Ending::Cancelled => Err(JoinError::Cancelled),
        Ending::None | Ending::Taken => Err(JoinError::Taken),
        Ending::Overflowed => {
            Err(JoinError::StackOverflow { name: crate::listing::title(block), size: block.region.usable() })
        }
        Ending::Panicked if takes => {
            block.ending.set(Ending::Taken);
            // SAFETY: it ended with a panic, which has just been marked as taken.
            let payload = unsafe { job::take::<Box<dyn Any + Send>>(block) };
            Err(JoinError::Panicked(Panic { message: job::message(&*payload), payload: Some(payload) }))
        }
        Ending::Panicked => {
            // SAFETY: it ended with a panic, which stays as long as the handles are shared.
            let message = job::message(&**unsafe { job::look::<Box<dyn Any + Send>>(block) });
            Err(JoinError::Panicked(Panic { message, payload: None }))
        }
    }
}
