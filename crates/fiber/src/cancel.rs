//! Cancellation: a fiber that was cancelled unwinds at its next switch point, so that its values are dropped.

use crate::wait::Outcome;

/// What a cancelled fiber unwinds with; [`shell`](crate::shell) knows it again.
#[cfg(not(loom))]
pub(crate) struct Cancelled;

/// Whether `payload`, caught by [`catch_unwind`](std::panic::catch_unwind), is a cancellation on its way.
///
/// Who catches panics on a fiber resumes it, or ends the fiber in an orderly way: its waits go on being ended.
#[cfg(not(loom))]
#[must_use]
pub fn is_cancellation(payload: &(dyn std::any::Any + Send)) -> bool {
    payload.is::<Cancelled>()
}

/// Unwinds the fiber if a wait ended because it was cancelled.
#[inline(always)]
pub(crate) fn unwind_if(outcome: Outcome) -> Outcome {
    if outcome == Outcome::Cancelled {
        unwind();
    }
    outcome
}

/// Unwinds the fiber. The panic hook is not called: this is no panic.
#[cold]
#[inline(never)]
pub(crate) fn unwind() -> ! {
    #[cfg(not(loom))]
    std::panic::resume_unwind(Box::new(Cancelled));
    #[cfg(loom)]
    unreachable!("threads are not cancelled");
}
