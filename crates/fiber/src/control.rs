//! What a fiber does with itself: yield, park, sleep, wait for its joiners.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::cancel;
use crate::error::NotAFiber;
use crate::event::Event;
use crate::fiber::Fiber;
use crate::switch::Command;
use crate::wait::{Outcome, Seat};
use crate::why::Why;
use crate::worker;

/// Lets other fibers that are ready run first. On a thread that runs no fiber, gives the processor away.
///
/// A fiber that was cancelled unwinds here, unless one unwinds on this thread already: it, or one that sleeps in a destructor.
#[inline]
pub fn yield_now() {
    let Some(block) = worker::current_block() else { return std::thread::yield_now() };
    // SAFETY: the fiber that runs lives.
    let block = unsafe { block.as_ref() };
    if std::thread::panicking() {
        return block.yield_at_home();
    }
    block.suspend(Command::Yield);
    if block.is_cancelled() && !block.is_shielded.get() {
        cancel::unwind();
    }
}

/// Unwinds the fiber that runs if it was cancelled, and not where that is put off ([`shielded`]): a switch point without a switch.
pub fn check_cancelled() {
    // SAFETY: the fiber that runs lives.
    let is_shielded =
        worker::current_block().is_some_and(|block| unsafe { block.as_ref() }.is_shielded.get());
    if is_cancelled() && !is_shielded && !std::thread::panicking() {
        cancel::unwind();
    }
}

/// Whether the fiber that runs was cancelled.
#[must_use]
pub fn is_cancelled() -> bool {
    // SAFETY: the fiber that runs lives.
    worker::current_block().is_some_and(|block| unsafe { block.as_ref() }.is_cancelled())
}

/// Calls `body` with cancellation put off: the fiber's waits in it are not ended by one.
pub fn shielded<R>(body: impl FnOnce() -> R) -> R {
    struct Shield(Option<NonNull<crate::block::Block>>, bool);
    impl Drop for Shield {
        fn drop(&mut self) {
            if let Some(block) = self.0 {
                // SAFETY: the fiber that runs lives, and it is the same one: this is on its stack.
                unsafe { block.as_ref() }.is_shielded.set(self.1);
            }
        }
    }
    let block = worker::current_block();
    // SAFETY: the fiber that runs lives.
    let before = block.is_some_and(|block| unsafe { block.as_ref() }.is_shielded.replace(true));
    let _shield = Shield(block, before);
    body()
}

/// Sleeps until somebody calls [`Fiber::unpark`]; returns at once if that has happened since the last return.
///
/// # Errors
///
/// [`NotAFiber`] on a thread that runs no fiber. A [`Waiter`] is for both.
pub fn park() -> Result<(), NotAFiber> {
    park_with(None).map(|_| ())
}

/// The same, until `deadline` at most; false if that passed.
///
/// # Errors
///
/// [`NotAFiber`] on a thread that runs no fiber.
pub fn park_until(deadline: Instant) -> Result<bool, NotAFiber> {
    park_with(Some(deadline))
}

fn park_with(deadline: Option<Instant>) -> Result<bool, NotAFiber> {
    let block = worker::current_block().ok_or(NotAFiber)?;
    // SAFETY: the fiber that runs lives.
    let outcome = unsafe { block.as_ref() }.permit.wait(deadline);
    Ok(cancel::unwind_if(outcome) == Outcome::Signalled)
}

/// The moment so much later than now; `None` if no clock will ever show it.
#[must_use]
pub fn deadline(after: Duration) -> Option<Instant> {
    Instant::now().checked_add(after)
}

/// Sleeps for so long at least: the fiber, or the thread if it runs none.
pub fn sleep(duration: Duration) {
    match deadline(duration) {
        Some(deadline) => sleep_until(deadline),
        None => Waiter::new().wait(),
    }
}

/// Sleeps until then at least.
pub fn sleep_until(deadline: Instant) {
    cancel::unwind_if(sleep_outcome(deadline));
}

pub(crate) fn sleep_outcome(deadline: Instant) -> Outcome {
    let seat = Seat::take();
    seat.wait(Why::Sleep, 0, Some(deadline))
}

/// Waits until so many wait for the end of the fiber that runs; when it then ends, all of them go on: the paper's barrier
/// by join count.
///
/// # Errors
///
/// [`NotAFiber`] on a thread that runs no fiber.
pub fn wait_for_joiners(joiners: usize) -> Result<(), NotAFiber> {
    let fiber = Fiber::current().ok_or(NotAFiber)?;
    cancel::unwind_if(fiber.block().latch.wait_for_joiners(joiners));
    Ok(())
}

/// The number of the worker that runs the calling fiber.
#[must_use]
pub fn current_worker() -> Option<usize> {
    worker::current_block()?;
    worker::current().map(|worker| worker.index)
}

/// Binds the fiber that runs to the worker it is on.
///
/// # Errors
///
/// [`NotAFiber`] on a thread that runs no fiber.
pub fn bind_here() -> Result<(), NotAFiber> {
    let block = worker::current_block().ok_or(NotAFiber)?;
    let worker = worker::current().ok_or(NotAFiber)?;
    let number = u32::try_from(worker.index + 1).unwrap_or(0);
    // SAFETY: the fiber that runs lives.
    unsafe { block.as_ref() }.bound_to.store(number, Ordering::Relaxed);
    Ok(())
}

/// Something one fiber or thread waits on and others wake: the handle that the transport is given.
///
/// A wake before the wait is kept; several are one.
///
/// ```
/// let waiter = weft_fiber::Waiter::new();
/// let theirs = waiter.clone();
/// std::thread::spawn(move || theirs.wake());
/// waiter.wait(); // this thread sleeps; on a fiber, its worker would run others
/// ```
#[derive(Clone)]
pub struct Waiter(Arc<Event>);

impl Waiter {
    /// A waiter that nobody has woken.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Event::new()))
    }

    /// Waits until woken. A fiber that is cancelled while it waits unwinds.
    pub fn wait(&self) {
        cancel::unwind_if(self.0.wait(None));
    }

    /// The same, until `deadline` at most; false if that passed.
    #[must_use]
    pub fn wait_until(&self, deadline: Instant) -> bool {
        cancel::unwind_if(self.0.wait(Some(deadline))) == Outcome::Signalled
    }

    /// Wakes who waits, or lets the next wait return at once. Any thread may call it.
    pub fn wake(&self) {
        self.0.set();
    }
}

impl Default for Waiter {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waiter")
    }
}
