//! The list of those who wait for one object.

use std::ptr::{self, NonNull};

use weft_sync::face::{UnsafeCell, atomic::AtomicU32};

use super::{Claim, claim, word};
use crate::queue::{Link, Linked};

/// Who waits, as its waker sees it.
#[derive(Clone)]
pub(crate) enum Woken {
    /// A fiber that sleeps and that the waker must make ready.
    #[cfg(not(loom))]
    Fiber(NonNull<crate::block::Block>),
    /// A thread.
    Thread(weft_sync::Unparker),
    /// A fiber that has not gone to sleep yet, and now will not.
    #[cfg(not(loom))]
    Awake,
}

impl Woken {
    /// Makes it go on. No lock is held.
    #[inline(always)]
    pub(crate) fn wake(self) {
        match self {
            #[cfg(not(loom))]
            Self::Fiber(block) => crate::worker::make_ready(block),
            Self::Thread(unparker) => unparker.unpark(),
            #[cfg(not(loom))]
            Self::Awake => {}
        }
    }
}

/// One who waits: a fiber's is in its control block, since it waits for one thing at a time; a thread's is on its stack.
pub(crate) struct Node {
    link: Link<Self>,
    /// See [`crate::wait`].
    word: AtomicU32,
    is_listed: UnsafeCell<bool>,
    /// The round it came in, for objects that let whole rounds go at once.
    round: UnsafeCell<usize>,
    party: Party,
}

enum Party {
    #[cfg(not(loom))]
    Fiber(NonNull<crate::block::Block>),
    Thread(weft_sync::Unparker),
}

// SAFETY: one link, used by wait lists only.
unsafe impl Linked for Node {
    #[inline(always)]
    fn link(&self) -> &Link<Self> {
        &self.link
    }
}

impl Node {
    /// The node of a fiber.
    #[cfg(not(loom))]
    pub(crate) fn of_fiber(block: NonNull<crate::block::Block>) -> Self {
        Self::of(Party::Fiber(block))
    }

    /// The node of a thread that runs no fiber.
    pub(crate) fn of_thread(unparker: weft_sync::Unparker) -> Self {
        Self::of(Party::Thread(unparker))
    }

    fn of(party: Party) -> Self {
        let (is_listed, round) = (UnsafeCell::new(false), UnsafeCell::new(0));
        Self { link: Link::new(), word: AtomicU32::new(word::WAITING), is_listed, round, party }
    }

    #[inline(always)]
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Says which round it came in, under the object's lock.
    pub(crate) fn set_round(&self, round: usize) {
        // SAFETY: only looked at and changed under the object's lock.
        self.round.with_mut(|cell| unsafe { *cell = round });
    }

    fn round(&self) -> usize {
        // SAFETY: as above.
        self.round.with(|round| unsafe { *round })
    }

    /// Whether the node is in a list; asked under the object's lock.
    pub(crate) fn is_listed(&self) -> bool {
        // SAFETY: as above.
        self.is_listed.with(|listed| unsafe { *listed })
    }

    #[inline]
    fn set_listed(&self, value: bool) {
        // SAFETY: as above.
        self.is_listed.with_mut(|listed| unsafe { *listed = value });
    }

    /// Ends its wait; `None` if that has ended already. From then on the one who waited may be gone, and a thread's node with
    /// it: whom to wake is taken before.
    #[inline]
    fn claim(&self) -> Option<Woken> {
        let woken = match &self.party {
            Party::Thread(unparker) => Woken::Thread(unparker.clone()),
            #[cfg(not(loom))]
            Party::Fiber(block) => Woken::Fiber(*block),
        };
        match (claim(&self.word, word::SIGNALLED), woken) {
            (Claim::Late, _) => None,
            #[cfg(not(loom))]
            (Claim::Awake, Woken::Fiber(_)) => Some(Woken::Awake),
            (_, woken) => Some(woken),
        }
    }
}

/// Those who wait for an object, in the order they came. It stands under the object's lock.
pub(crate) struct WaitList {
    head: *const Node,
    tail: *const Node,
}

// SAFETY: the nodes are reached under the object's lock only, and their parties are handles for any thread.
unsafe impl Send for WaitList {}

impl Default for WaitList {
    fn default() -> Self {
        Self::new()
    }
}

impl WaitList {
    pub(crate) const fn new() -> Self {
        Self { head: ptr::null(), tail: ptr::null() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_null()
    }

    /// Adds `node` behind the others.
    ///
    /// # Safety
    ///
    /// The node stays where it is until it has been popped, or removed under the same lock.
    #[inline]
    pub(crate) unsafe fn push(&mut self, node: &Node) {
        node.set_listed(true);
        node.link.set_next(ptr::null());
        node.link.set_prev(self.tail);
        match NonNull::new(self.tail.cast_mut()) {
            None => self.head = node,
            // SAFETY: listed nodes live.
            Some(tail) => unsafe { tail.as_ref() }.link.set_next(node),
        }
        self.tail = node;
    }

    /// Takes the first one whose wait goes on, and ends that wait.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Woken> {
        while let Some(node) = NonNull::new(self.head.cast_mut()) {
            // SAFETY: listed nodes live.
            let node = unsafe { node.as_ref() };
            self.unlink(node);
            if let Some(woken) = node.claim() {
                return Some(woken);
            }
        }
        None
    }

    /// Takes up to a batch of those that came in `round` or before.
    pub(crate) fn pop_batch(&mut self, round: usize) -> Batch {
        let mut batch = Batch { woken: [const { None }; Batch::SIZE], len: 0, is_last: true };
        while let Some(node) = NonNull::new(self.head.cast_mut()).filter(|_| batch.len < Batch::SIZE) {
            // SAFETY: listed nodes live.
            let node = unsafe { node.as_ref() };
            if node.round() > round {
                break;
            }
            self.unlink(node);
            if let Some(woken) = node.claim() {
                batch.woken[batch.len] = Some(woken);
                batch.len += 1;
            }
        }
        // SAFETY: listed nodes live.
        let rest = NonNull::new(self.head.cast_mut()).map(|node| unsafe { node.as_ref() });
        batch.is_last = rest.is_none_or(|node| node.round() > round);
        batch
    }

    /// Takes out `node`, if it is still in.
    #[cold]
    pub(crate) fn remove(&mut self, node: &Node) {
        if node.is_listed() {
            self.unlink(node);
        }
    }

    #[inline]
    fn unlink(&mut self, node: &Node) {
        let (next, prev) = (node.link.next(), node.link.prev());
        match NonNull::new(prev.cast_mut()) {
            None => self.head = next,
            // SAFETY: listed nodes live.
            Some(prev) => unsafe { prev.as_ref() }.link.set_next(next),
        }
        match NonNull::new(next.cast_mut()) {
            None => self.tail = prev,
            // SAFETY: listed nodes live.
            Some(next) => unsafe { next.as_ref() }.link.set_prev(prev),
        }
        node.set_listed(false);
    }
}

/// Some of those who waited, to be woken when the lock is free.
pub(crate) struct Batch {
    woken: [Option<Woken>; Self::SIZE],
    len: usize,
    /// Nobody of them is left: the object is not looked at again, which one of these may give back.
    is_last: bool,
}

impl Batch {
    const SIZE: usize = if cfg!(loom) { 2 } else { 16 };
}

/// Lets go all that `pop_batch` gives: by batches, so that the object's lock is held shortly and never during a wake.
pub(crate) fn release(mut pop_batch: impl FnMut() -> Batch) {
    loop {
        let batch = pop_batch();
        let is_last = batch.is_last;
        batch.woken.into_iter().flatten().for_each(Woken::wake);
        if is_last {
            return;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use weft_sync::Parker;
    use weft_sync::face::atomic::Ordering;

    use super::*;

    /// One of an earlier round gave up waiting and has not taken its node out yet.
    #[test]
    fn a_batch_takes_nobody_who_came_later() {
        let parker = Parker::new();
        let [early, late] = [0, 1].map(|round| {
            let node = Box::new(Node::of_thread(parker.unparker()));
            node.set_round(round);
            node
        });
        let mut list = WaitList::new();
        // SAFETY: the nodes outlive the list.
        unsafe { list.push(&early) };
        // SAFETY: as above.
        unsafe { list.push(&late) };
        early.word().store(word::TIMED_OUT, Ordering::Relaxed);
        assert_eq!(list.pop_batch(0).len, 0);
        assert!(!early.is_listed() && late.is_listed());
        assert_eq!(list.pop_batch(1).len, 1);
        assert!(list.is_empty());
    }
}
