//! The list of those who wait for one object.

use std::ptr::{self, NonNull};

use weft_sync::face::{UnsafeCell, atomic::AtomicU32};

use super::{Claim, Seat, claim, word};
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
    #[inline]
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

/// One who waits, on its own stack.
pub(crate) struct Node {
    link: Link<Self>,
    is_listed: UnsafeCell<bool>,
    word: NonNull<AtomicU32>,
    party: Party,
    /// The round it came in, for objects that let whole rounds go at once.
    round: usize,
}

enum Party {
    #[cfg(not(loom))]
    Fiber(NonNull<crate::block::Block>),
    Thread(weft_sync::Unparker),
}

// SAFETY: one link, used by wait lists only.
unsafe impl Linked for Node {
    fn link(&self) -> &Link<Self> {
        &self.link
    }
}

impl Node {
    /// A node of whoever sits in `seat`, which must outlive it.
    #[inline]
    pub(crate) fn new(seat: &Seat) -> Self {
        let party = match seat {
            #[cfg(not(loom))]
            Seat::Fiber(block) => Party::Fiber(*block),
            Seat::Thread(thread) => Party::Thread(thread.unparker()),
        };
        Self {
            link: Link::new(),
            is_listed: UnsafeCell::new(false),
            word: NonNull::from(seat.word()),
            party,
            round: 0,
        }
    }

    /// The same, of this round.
    pub(crate) fn in_round(mut self, round: usize) -> Self {
        self.round = round;
        self
    }

    /// Whether the node is in a list; asked under the object's lock.
    pub(crate) fn is_listed(&self) -> bool {
        // SAFETY: only looked at and changed under the object's lock.
        self.is_listed.with(|listed| unsafe { *listed })
    }

    #[inline]
    fn set_listed(&self, value: bool) {
        // SAFETY: as above.
        self.is_listed.with_mut(|listed| unsafe { *listed = value });
    }

    /// Ends its wait; `None` if that has ended already.
    #[inline]
    fn claim(&self) -> Option<Woken> {
        // SAFETY: the word is the seat's, which outlives the node.
        let found = claim(unsafe { self.word.as_ref() }, word::SIGNALLED);
        match (found, &self.party) {
            (Claim::Late, _) => None,
            (_, Party::Thread(unparker)) => Some(Woken::Thread(unparker.clone())),
            #[cfg(not(loom))]
            (Claim::Asleep, Party::Fiber(block)) => Some(Woken::Fiber(*block)),
            #[cfg(not(loom))]
            (Claim::Awake, Party::Fiber(_)) => Some(Woken::Awake),
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
        let mut batch = Batch { woken: [const { None }; Batch::SIZE], len: 0 };
        // SAFETY: listed nodes live.
        let first =
            |list: &Self| NonNull::new(list.head.cast_mut()).map(|node| unsafe { node.as_ref() }.round);
        while batch.len < Batch::SIZE && first(self).is_some_and(|came| came <= round) {
            let Some(woken) = self.pop() else { break };
            batch.woken[batch.len] = Some(woken);
            batch.len += 1;
        }
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
}

impl Batch {
    const SIZE: usize = if cfg!(loom) { 2 } else { 16 };
}

/// Lets go all that `pop_batch` gives: by batches, so that the object's lock is held shortly and never during a wake.
pub(crate) fn release(mut pop_batch: impl FnMut() -> Batch) {
    loop {
        let batch = pop_batch();
        let is_last = batch.len < Batch::SIZE;
        batch.woken.into_iter().flatten().for_each(Woken::wake);
        if is_last {
            return;
        }
    }
}
