//! Who waits: the fiber that runs, or a thread that runs none.

use std::time::Instant;

use weft_sync::face::atomic::{AtomicU32, Ordering};
use weft_sync::{Parker, Unparker};

use super::{Outcome, word};
use crate::why::Why;
#[cfg(not(loom))]
use crate::{block::Block, worker};
#[cfg(not(loom))]
use std::ptr::NonNull;

/// Where the caller waits.
pub(crate) enum Seat {
    /// A fiber gives its worker to others.
    #[cfg(not(loom))]
    Fiber(NonNull<Block>),
    /// A thread sleeps.
    Thread(ThreadSeat),
}

/// A thread's own word, and how it sleeps.
pub(crate) struct ThreadSeat {
    word: AtomicU32,
    parker: Parker,
}

impl ThreadSeat {
    pub(crate) fn unparker(&self) -> Unparker {
        self.parker.unparker()
    }

    fn new() -> Self {
        Self { word: AtomicU32::new(word::WAITING), parker: Parker::new() }
    }

    fn wait(&self, deadline: Option<Instant>) -> Outcome {
        loop {
            let now = self.word.load(Ordering::Acquire);
            if now != word::WAITING {
                return Outcome::of(now);
            }
            match deadline.map(left) {
                None => self.parker.park(),
                Some(Some(left)) => {
                    self.parker.park_timeout(left);
                }
                Some(None) => {
                    super::claim(&self.word, word::TIMED_OUT);
                }
            }
        }
    }
}

/// The time until `deadline`, if there is any left.
pub(crate) fn left(deadline: Instant) -> Option<std::time::Duration> {
    deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
}

#[cfg(loom)]
impl Seat {
    pub(crate) fn take() -> Self {
        Self::Thread(ThreadSeat::new())
    }

    pub(crate) fn word(&self) -> &AtomicU32 {
        let Self::Thread(thread) = self;
        &thread.word
    }

    pub(crate) fn wait(&self, _why: Why, _object: usize, deadline: Option<Instant>) -> Outcome {
        let Self::Thread(thread) = self;
        thread.wait(deadline)
    }
}

#[cfg(not(loom))]
impl Seat {
    /// The caller's seat, ready to be put into a list.
    ///
    /// # Panics
    ///
    /// In a condition function or a poll hook, which run on the worker itself and must not wait.
    #[inline]
    pub(crate) fn take() -> Self {
        match worker::current_block() {
            Some(block) => {
                // SAFETY: the fiber that runs lives.
                unsafe { block.as_ref() }.word.store(word::WAITING, Ordering::Relaxed);
                Self::Fiber(block)
            }
            None => Self::take_thread(),
        }
    }

    #[cold]
    fn take_thread() -> Self {
        assert!(
            worker::current().is_none(),
            "a condition function or poll hook tried to wait, which would stop its worker; let it return false"
        );
        Self::Thread(ThreadSeat::new())
    }

    #[inline]
    pub(crate) fn word(&self) -> &AtomicU32 {
        match self {
            // SAFETY: the fiber that runs lives.
            Self::Fiber(block) => &unsafe { block.as_ref() }.word,
            Self::Thread(thread) => &thread.word,
        }
    }

    /// Waits until the word has come to an end. `object` is the address of what is waited for.
    #[inline(always)]
    pub(crate) fn wait(&self, why: Why, object: usize, deadline: Option<Instant>) -> Outcome {
        match self {
            // SAFETY: the fiber that runs lives.
            Self::Fiber(block) => unsafe { block.as_ref() }.wait(why, object, deadline),
            Self::Thread(thread) => thread.wait(deadline),
        }
    }
}
