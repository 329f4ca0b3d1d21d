//! Waiting for an object this library owns: a list of waiting fibers and threads, woken by hand-off in O(1).
//!
//! Algorithm: who waits puts a [`Node`] of its own into the object's [`WaitList`], under the object's lock, and
//! parks on its *word*. The word goes WAITING → PARKED (the worker, once the stack has been left) and from either to
//! one end: SIGNALLED by a waker, TIMED_OUT by the worker's timers, CANCELLED by whoever cancels. The end is chosen by
//! a compare-and-exchange, so there is exactly one.
//!
//! Races:
//! * A wake before the stack has been left finds WAITING; the worker then fails to write PARKED and runs the fiber on.
//!   A wake after it finds PARKED, and the waker makes the fiber ready. Nobody else does.
//! * A waker claims a node (writes SIGNALLED) under the object's lock, and touches it no more once the lock is free. A
//!   fiber that timed out or was cancelled takes the lock to remove its node, so the node lives as long as a waker
//!   looks at it. A node that ended otherwise is passed over: what is handed out is never handed to nobody.
//! * The wake itself ([`Woken::wake`]) runs when no lock is held.

mod list;
mod seat;

pub(crate) use list::{Node, WaitList, Woken, release};
pub(crate) use seat::Seat;
#[cfg(not(loom))]
pub(crate) use seat::left;

use weft_sync::face::atomic::{AtomicU32, Ordering};

/// The words' values.
pub(crate) mod word {
    /// On the way to sleep.
    pub(crate) const WAITING: u32 = 0;
    /// Asleep; a cancellation may end it.
    pub(crate) const PARKED: u32 = 1;
    /// Asleep, while the fiber unwinds or has asked not to be cancelled.
    pub(crate) const PARKED_DEEP: u32 = 2;
    /// What was waited for has come.
    pub(crate) const SIGNALLED: u32 = 3;
    /// The deadline has passed.
    pub(crate) const TIMED_OUT: u32 = 4;
    /// The fiber was cancelled.
    pub(crate) const CANCELLED: u32 = 5;
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Signalled,
    TimedOut,
    Cancelled,
}

impl Outcome {
    pub(crate) fn of(word: u32) -> Self {
        match word {
            word::TIMED_OUT => Self::TimedOut,
            word::CANCELLED => Self::Cancelled,
            _ => Self::Signalled,
        }
    }
}

/// What ended a wait found its fiber asleep, or still awake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Asleep,
    Awake,
    /// Somebody else ended the wait.
    Late,
}

/// Ends the wait on `word` with `end`, if it goes on.
#[inline]
pub(crate) fn claim(word: &AtomicU32, end: u32) -> Claim {
    let mut now = word.load(Ordering::Relaxed);
    loop {
        let found = match now {
            word::WAITING => Claim::Awake,
            word::PARKED | word::PARKED_DEEP => Claim::Asleep,
            _ => return Claim::Late,
        };
        match word.compare_exchange_weak(now, end, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return found,
            Err(other) => now = other,
        }
    }
}

/// Whether the wait on `word` goes on, asleep. What its worker did before is seen.
#[cfg(not(loom))]
pub(crate) fn is_parked(word: &AtomicU32) -> bool {
    matches!(word.load(Ordering::Acquire), word::PARKED | word::PARKED_DEEP)
}
