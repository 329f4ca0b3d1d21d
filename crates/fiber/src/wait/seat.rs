//! Who waits: the fiber that runs, or a thread that runs none.

use std::ptr::NonNull;
use std::time::Instant;

use weft_sync::Parker;
use weft_sync::face::atomic::Ordering;

use super::{Node, Outcome, word};
use crate::why::Why;
#[cfg(not(loom))]
use crate::{block::Block, worker};

/// Where the caller waits. A fiber gives its worker to others; a thread sleeps.
pub(crate) struct Seat {
    node: NonNull<Node>,
    #[cfg(not(loom))]
    fiber: Option<NonNull<Block>>,
    /// In a box, so that the node stays where it is.
    thread: Option<Box<ThreadSeat>>,
}

/// A thread's own node, and how it sleeps.
pub(crate) struct ThreadSeat {
    node: Node,
    parker: Parker,
}

impl ThreadSeat {
    fn new() -> Self {
        let parker = Parker::new();
        Self { node: Node::of_thread(parker.unparker()), parker }
    }

    fn wait(&self, deadline: Option<Instant>) -> Outcome {
        loop {
            let now = self.node.word().load(Ordering::Acquire);
            if now != word::WAITING {
                return Outcome::of(now);
            }
            match deadline.map(left) {
                None => self.parker.park(),
                Some(Some(left)) => {
                    self.parker.park_timeout(left);
                }
                Some(None) => {
                    super::claim(self.node.word(), word::TIMED_OUT);
                }
            }
        }
    }
}

/// The time until `deadline`, if there is any left.
pub(crate) fn left(deadline: Instant) -> Option<std::time::Duration> {
    deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
}

impl Seat {
    /// The caller's seat, ready to be put into a list.
    ///
    /// # Panics
    ///
    /// In a condition function or a poll hook, which run on the worker itself and must not wait.
    #[inline(always)]
    pub(crate) fn take() -> Self {
        #[cfg(not(loom))]
        if let Some(block) = worker::current_block() {
            // SAFETY: the fiber that runs lives.
            let fiber = unsafe { block.as_ref() };
            fiber.node.word().store(word::WAITING, Ordering::Relaxed);
            return Self { node: NonNull::from(&fiber.node), fiber: Some(block), thread: None };
        }
        Self::take_thread()
    }

    #[cold]
    #[inline(never)]
    fn take_thread() -> Self {
        #[cfg(not(loom))]
        assert!(
            worker::current().is_none(),
            "a condition function or poll hook tried to wait, which would stop its worker; let it return false"
        );
        let thread = Box::new(ThreadSeat::new());
        let node = NonNull::from(&thread.node);
        Self {
            node,
            #[cfg(not(loom))]
            fiber: None,
            thread: Some(thread),
        }
    }

    /// Who waits, to be put into a list.
    #[inline(always)]
    pub(crate) fn node(&self) -> &Node {
        // SAFETY: it is that of the fiber that runs, or in the box.
        unsafe { self.node.as_ref() }
    }

    /// Waits until the word has come to an end. `object` is the address of what is waited for.
    #[inline(always)]
    pub(crate) fn wait(&self, why: Why, object: usize, deadline: Option<Instant>) -> Outcome {
        #[cfg(not(loom))]
        if let Some(block) = self.fiber {
            // SAFETY: the fiber that runs lives.
            return unsafe { block.as_ref() }.wait(why, object, deadline);
        }
        self.wait_thread(deadline)
    }

    #[cold]
    #[inline(never)]
    fn wait_thread(&self, deadline: Option<Instant>) -> Outcome {
        self.thread.as_ref().map_or(Outcome::Signalled, |thread| thread.wait(deadline))
    }
}
