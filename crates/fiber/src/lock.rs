//! The lock under [`Mutex`](crate::Mutex): one word and a list of those who wait.
//!
//! Algorithm: the word is FREE, HELD, or QUEUED (held, and somebody waits). Uncontended, taking and freeing are one
//! exchange each. Who finds it held writes QUEUED and queues, both under the list's lock. Who frees a QUEUED lock pops
//! the first waiter and leaves the word held: the lock is handed over, so nobody overtakes and a wake is never vain.
//!
//! Races: FREE is left only by exchanges of FREE, and QUEUED is written and taken back only under the list's lock. So
//! under that lock a QUEUED word stays, and between HELD and QUEUED one exchange decides against the holder's.

use std::fmt;
use std::time::Instant;

use weft_sync::SpinLock;
use weft_sync::face::atomic::{AtomicU32, Ordering};

use crate::wait::{Node, Outcome, Seat, WaitList};
use crate::why::Why;

const FREE: u32 = 0;
const HELD: u32 = 1;
const QUEUED: u32 = 2;

/// Mutual exclusion without a value. Whoever takes it frees it; [`Mutex`](crate::Mutex) sees to that with a guard.
pub(crate) struct Lock {
    word: AtomicU32,
    waiters: SpinLock<WaitList>,
}

impl Default for Lock {
    fn default() -> Self {
        Self::new()
    }
}

impl Lock {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { word: AtomicU32::new(FREE), waiters: SpinLock::new(WaitList::new()) }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { word: AtomicU32::new(FREE), waiters: SpinLock::new(WaitList::new()) }
    }

    #[inline]
    pub(crate) fn try_lock(&self) -> bool {
        self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock, or says what ended the wait for it.
    #[inline]
    pub(crate) fn lock(&self, deadline: Option<Instant>) -> Outcome {
        if self.try_lock() { Outcome::Signalled } else { self.wait(deadline) }
    }

    /// Frees the lock, or hands it to the first who waits. The caller holds it.
    #[inline]
    pub(crate) fn unlock(&self) {
        if self.word.compare_exchange(HELD, FREE, Ordering::Release, Ordering::Relaxed).is_err() {
            self.hand_over();
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        self.word.load(Ordering::Relaxed) != FREE
    }

    fn wait(&self, deadline: Option<Instant>) -> Outcome {
        let seat = Seat::take();
        let node = Node::new(&seat);
        let mut waiters = self.waiters.lock();
        if self.take_or_mark() {
            return Outcome::Signalled;
        }
        // SAFETY: the node stays until the wait has ended, and is removed below unless it was popped.
        unsafe { waiters.push(&node) };
        drop(waiters);
        let outcome = seat.wait(Why::Mutex, std::ptr::from_ref(self).addr(), deadline);
        if outcome != Outcome::Signalled {
            let mut waiters = self.waiters.lock();
            waiters.remove(&node);
            if waiters.is_empty() && self.word.load(Ordering::Relaxed) == QUEUED {
                self.word.store(HELD, Ordering::Relaxed);
            }
        }
        outcome
    }

    /// Under the list's lock: takes a free lock (true), or marks a held one as waited for.
    fn take_or_mark(&self) -> bool {
        loop {
            let (now, then) = match self.word.load(Ordering::Relaxed) {
                FREE => (FREE, HELD),
                HELD => (HELD, QUEUED),
                _ => return false,
            };
            if self.word.compare_exchange(now, then, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return now == FREE;
            }
        }
    }

    fn hand_over(&self) {
        let mut waiters = self.waiters.lock();
        let next = waiters.pop();
        let then = match (&next, waiters.is_empty()) {
            (None, _) => FREE,
            (Some(_), true) => HELD,
            (Some(_), false) => QUEUED,
        };
        self.word.store(then, Ordering::Release);
        drop(waiters);
        if let Some(next) = next {
            next.wake();
        }
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_held() { "Lock(held)" } else { "Lock(free)" })
    }
}
