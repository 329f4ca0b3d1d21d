//! Posted conditions: a fiber says what must hold before it goes on, and its worker looks (SCALE paper, section 2).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::block::Block;
use crate::cancel;
use crate::error::ConditionError;
use crate::job;
use crate::wait::{Outcome, Seat};
use crate::why::Why;
use crate::worker::{self, Posted};

/// A side of a comparison: a word that others change, which may be in memory shared between processes, or a number.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a> {
    /// A word.
    Word(&'a AtomicU64),
    /// A number.
    Number(u64),
}

impl Operand<'_> {
    #[inline]
    fn value(self) -> u64 {
        match self {
            Self::Word(word) => word.load(Ordering::Acquire),
            Self::Number(number) => number,
        }
    }
}

impl<'a> From<&'a AtomicU64> for Operand<'a> {
    fn from(word: &'a AtomicU64) -> Self {
        Self::Word(word)
    }
}

impl From<u64> for Operand<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

/// A comparison of two words. What was written before the word that makes it hold is seen after the wait.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use weft_fiber::Condition;
/// let (sent, acknowledged) = (AtomicU64::new(3), AtomicU64::new(2));
/// let all_acknowledged = Condition::equal(&sent, &acknowledged);
/// assert!(!all_acknowledged.holds());
/// acknowledged.store(3, Ordering::Release);
/// assert!(all_acknowledged.holds());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Condition<'a> {
    left: Operand<'a>,
    right: Operand<'a>,
    compare: fn(u64, u64) -> bool,
}

impl<'a> Condition<'a> {
    fn new(
        left: impl Into<Operand<'a>>,
        right: impl Into<Operand<'a>>,
        compare: fn(u64, u64) -> bool,
    ) -> Self {
        Self { left: left.into(), right: right.into(), compare }
    }

    /// Both are the same.
    pub fn equal(left: impl Into<Operand<'a>>, right: impl Into<Operand<'a>>) -> Self {
        Self::new(left, right, |left, right| left == right)
    }

    /// They differ.
    pub fn not_equal(left: impl Into<Operand<'a>>, right: impl Into<Operand<'a>>) -> Self {
        Self::new(left, right, |left, right| left != right)
    }

    /// `left` is less than `right`.
    pub fn less(left: impl Into<Operand<'a>>, right: impl Into<Operand<'a>>) -> Self {
        Self::new(left, right, |left, right| left < right)
    }

    /// `left` is not less than `right`.
    pub fn not_less(left: impl Into<Operand<'a>>, right: impl Into<Operand<'a>>) -> Self {
        Self::new(left, right, |left, right| left >= right)
    }

    /// Whether it holds now.
    #[must_use]
    #[inline]
    pub fn holds(&self) -> bool {
        (self.compare)(self.left.value(), self.right.value())
    }
}

/// Waits until `condition` holds.
///
/// # Errors
///
/// None at present; the type is that of [`wait_until`].
pub fn wait_for(condition: &Condition<'_>) -> Result<(), ConditionError> {
    wait_until(|| condition.holds())
}

/// Waits until `test` returns true, as a channel's poll would. The worker calls it on its own stack whenever it has the
/// chance: all the time when no fiber is ready, else 8 posted conditions, in turn, every 64 switches. So it should be
/// short, and it must not wait or yield; that would stop the worker, and is refused with a panic.
///
/// On a thread that runs no fiber the thread tests by itself, and sleeps shortly in between. A fiber that is cancelled while
/// it waits unwinds.
///
/// # Errors
///
/// [`ConditionError::Panicked`] if `test` panics.
pub fn wait_until(test: impl FnMut() -> bool) -> Result<(), ConditionError> {
    wait(test, None)
}

/// The same, until `deadline` at most; `test` is called once more then, by the fiber.
///
/// # Errors
///
/// [`ConditionError`] if it does not hold at the deadline, or if `test` panics.
pub fn wait_until_deadline(test: impl FnMut() -> bool, deadline: Instant) -> Result<(), ConditionError> {
    wait(test, Some(deadline))
}

fn wait(test: impl FnMut() -> bool, deadline: Option<Instant>) -> Result<(), ConditionError> {
    let (outcome, panic) = wait_outcome(test, deadline);
    match (cancel::unwind_if(outcome), panic) {
        (_, Some(panic)) => Err(ConditionError::Panicked(panic)),
        (Outcome::TimedOut, None) => Err(ConditionError::TimedOut),
        (Outcome::Signalled | Outcome::Cancelled, None) => Ok(()),
    }
}

/// Waits, and says what ended the wait and what a panic of the test said.
pub(crate) fn wait_outcome(
    mut test: impl FnMut() -> bool,
    deadline: Option<Instant>,
) -> (Outcome, Option<String>) {
    let Some(block) = worker::current_block() else { return (poll_on_thread(test, deadline), None) };
    let mut posted = Posted::new(block, &mut test);
    let outcome = post(block, NonNull::from(&mut posted), deadline);
    let panic = posted.panic.take();
    if outcome != Outcome::TimedOut || panic.is_some() {
        return (outcome, panic);
    }
    // The worker may have had no chance to look since it came true: it slept, or looked at the clock first.
    match catch_unwind(AssertUnwindSafe(test)) {
        Ok(true) => (Outcome::Signalled, None),
        Ok(false) => (outcome, None),
        Err(panic) => (outcome, Some(job::message(&*panic))),
    }
}

fn post(block: NonNull<Block>, posted: NonNull<Posted<'_>>, deadline: Option<Instant>) -> Outcome {
    // SAFETY: the fiber that runs lives.
    let fiber = unsafe { block.as_ref() };
    let stayed = fiber.stay();
    let seat = Seat::take();
    let Some(worker) = worker::current() else { return Outcome::Cancelled };
    // SAFETY: the fiber stays at this worker, and the condition is withdrawn before its stack frame ends.
    unsafe { worker.post(posted) };
    let outcome = seat.wait(Why::Condition, posted.as_ptr().addr(), deadline);
    worker.withdraw(posted);
    fiber.unstay(stayed);
    outcome
}

/// A thread without a worker looks by itself.
fn poll_on_thread(mut test: impl FnMut() -> bool, deadline: Option<Instant>) -> Outcome {
    const SPINS: u32 = 100;
    const YIELDS: u32 = 200;
    let mut looks = 0_u32;
    while !test() {
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Outcome::TimedOut;
        }
        match looks {
            0..SPINS => std::hint::spin_loop(),
            SPINS..YIELDS => std::thread::yield_now(),
            _ => std::thread::sleep(Duration::from_micros(50)),
        }
        looks = looks.saturating_add(1);
    }
    Outcome::Signalled
}
