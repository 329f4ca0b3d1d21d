//! A worker's inbox: fibers that must run there and were made ready elsewhere; and its bell.
//!
//! Algorithm: the inbox is a stack that anyone pushes to with a compare-and-exchange and that the owner takes whole with
//! one swap. The bell is a flag that says the owner sleeps or is about to. The owner sets the flag and *then* looks at
//! its inbox and at the lanes once more; the sender pushes and *then* looks at the flag.
//!
//! Races: between each side's write and its look stands a sequentially consistent fence, so at least one of the two
//! sees the other: the owner finds the fiber, or the sender finds the flag and wakes the owner. The flag is taken down
//! by whoever wakes, so several senders wake once. Taking whole rules out the ABA problem.

use std::ptr::{self, NonNull};

use weft_sync::face::atomic::{AtomicBool, AtomicPtr, Ordering, fence};
use weft_sync::{Parker, Unparker};

use crate::queue::{Linked, Queue};

/// Fibers on their way to a worker.
pub(crate) struct Inbox<T> {
    newest: AtomicPtr<T>,
}

impl<T: Linked> Inbox<T> {
    pub(crate) fn new() -> Self {
        Self { newest: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Whether there is nothing, as a hint.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.newest.load(Ordering::Relaxed).is_null()
    }

    /// Adds one; ring the bell after it.
    pub(crate) fn push(&self, element: NonNull<T>) {
        let mut newest = self.newest.load(Ordering::Relaxed);
        loop {
            // SAFETY: the element is in no queue yet, and outlives its stay in this one.
            unsafe { element.as_ref() }.link().set_next(newest);
            match self.newest.compare_exchange_weak(
                newest,
                element.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(other) => newest = other,
            }
        }
    }

    /// Takes all, oldest first.
    pub(crate) fn take(&self) -> Queue<T> {
        let mut queue = Queue::new();
        let mut newest = self.newest.swap(ptr::null_mut(), Ordering::Acquire);
        while let Some(element) = NonNull::new(newest) {
            // SAFETY: the swap made this list ours.
            newest = unsafe { element.as_ref() }.link().next().cast_mut();
            queue.push_front(element);
        }
        queue
    }
}

/// Tells a worker that sleeps of news.
pub(crate) struct Bell {
    sleeps: AtomicBool,
    unparker: Unparker,
}

impl Bell {
    /// A bell, and the worker's side of it.
    pub(crate) fn new() -> (Self, Parker) {
        let parker = Parker::new();
        (Self { sleeps: AtomicBool::new(false), unparker: parker.unparker() }, parker)
    }

    /// The owner will sleep unless it finds something when it looks once more.
    pub(crate) fn set(&self) {
        self.sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Whether nobody has rung since it was set.
    pub(crate) fn is_set(&self) -> bool {
        self.sleeps.load(Ordering::Relaxed)
    }

    /// The owner is awake.
    pub(crate) fn clear(&self) {
        self.sleeps.store(false, Ordering::Relaxed);
    }

    /// Wakes the owner if it sleeps, after something was given to it. True if it did.
    pub(crate) fn ring(&self) -> bool {
        fence(Ordering::SeqCst);
        let wakes = self.sleeps.load(Ordering::Relaxed) && self.sleeps.swap(false, Ordering::Relaxed);
        if wakes {
            self.unparker.unpark();
        }
        wakes
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::queue::tests::{number, value};
    use loom::sync::Arc;

    #[test]
    fn two_senders_and_no_fiber_is_lost() {
        loom::model(|| {
            let inbox = Arc::new(Inbox::new());
            let senders: Vec<_> = (1..=2)
                .map(|part| {
                    let inbox = inbox.clone();
                    loom::thread::spawn(move || inbox.push(number(part)))
                })
                .collect();
            let mut sum = 0;
            let mut taken = inbox.take();
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            let mut rest = inbox.take();
            while let Some(element) = taken.pop_front().or_else(|| rest.pop_front()) {
                sum += value(element);
            }
            assert_eq!(sum, 3);
        });
    }

    #[test]
    fn a_worker_never_sleeps_on_a_fiber_that_was_sent() {
        loom::model(|| {
            let (bell, parker) = Bell::new();
            let shared = Arc::new((Inbox::new(), bell));
            let theirs = shared.clone();
            let sender = loom::thread::spawn(move || {
                theirs.0.push(number(1));
                theirs.1.ring();
            });
            // As a worker goes to sleep.
            let mut queue = shared.0.take();
            while queue.is_empty() {
                shared.1.set();
                if shared.0.is_empty() {
                    parker.park();
                }
                shared.1.clear();
                queue = shared.0.take();
            }
            sender.join().unwrap();
            assert_eq!(queue.len(), 1);
        });
    }
}
