//! A worker: an OS thread that runs fibers, one at a time, each until it leaves its stack by itself.
//!
//! ```text
//! spawn ──► fresh (newest first) ──┐                      ┌─ Yield ──► ready, at the end
//!             │ oldest             ├─► execute ─► command ┤  Park  ──► its word says PARKED; whoever wakes it ──► ready
//!             ▼                    │                      └─ Exit  ──► latch opened, region to the pool
//!           lane ──► other workers │
//! wakes, inbox ──► ready (FIFO) ───┘
//! ```
//!
//! `fresh` and `ready` are the worker's own and cost no atomic operation. Fibers that have not started are run newest
//! first, which keeps few of a fork-join tree alive, and the oldest of them are put into the lane for other workers.
//! A fiber that leaves by yielding lets fresh fibers go first, one that parks or ends lets ready ones go first; every
//! [`ATTEND`] picks the order is the other way round and the oldest fresh fiber joins the ready ones, so each fiber
//! runs within a bounded number of switches.

mod attend;
mod awaited;
mod ending;
mod idle;
mod parking;
mod posted;
mod reserve;
mod timers;

pub(crate) use awaited::{Awaited, run_awaited};
pub(crate) use parking::make_ready;
pub(crate) use posted::Posted;
pub(crate) use reserve::{release, take_one};

use std::cell::{Cell, UnsafeCell};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::task::Waker;

use weft_sync::Parker;
use weft_sync::scheduler::Driver;

use crate::block::Block;
use crate::inbox::Inbox;
use crate::lane::Lane;
use crate::queue::{Line, Queue};
use crate::runtime::Shared;
use crate::sleep::Place;
use crate::switch::Command;

/// After so many picks a worker looks at its inbox, its timers and the posted conditions.
const ATTEND: u32 = 16;

thread_local! {
    /// The worker that a thread is.
    static HERE: Cell<*const Worker> = const { Cell::new(ptr::null()) };
}

/// The worker of this thread, or null.
///
/// Not inlined: a fiber that roams may come back on another thread, and the compiler would keep the address of the
/// first thread's variables across the switch.
#[inline(never)]
fn here() -> *const Worker {
    HERE.get()
}

/// The worker this thread is, running a fiber or not.
#[inline(always)]
pub(crate) fn current<'a>() -> Option<&'a Worker> {
    // SAFETY: a worker's thread ends before its worker does, and what runs on it ends before the thread.
    unsafe { here().as_ref() }
}

/// The fiber that runs on this thread.
#[inline(always)]
pub(crate) fn current_block() -> Option<NonNull<Block>> {
    NonNull::new(current()?.running.load(Ordering::Relaxed))
}

/// One worker. The first part is for everybody, `own` for its thread only.
#[repr(align(128))]
pub(crate) struct Worker {
    pub(crate) index: usize,
    shared: AtomicPtr<Shared>,
    lane: Lane<Block>,
    inbox: Inbox<Block>,
    /// Where it sleeps.
    place: Place<Arc<dyn Driver>>,
    /// The fiber that runs; null while the worker looks after other things.
    pub(crate) running: AtomicPtr<Block>,
    /// Fibers begun and ended here; written by this worker only.
    pub(crate) spawned: AtomicU64,
    pub(crate) finished: AtomicU64,
    /// The runtime's clock as this worker last read it, in nanoseconds: for how long fibers wait is told by it.
    clock: AtomicU64,
    own: UnsafeCell<Own>,
}

/// What only the worker's thread touches.
struct Own {
    ready: Line<Block>,
    fresh: Queue<Block>,
    free: Queue<Block>,
    picks: u32,
    /// Whether the last fiber left by yielding.
    fresh_first: bool,
    parker: Option<Parker>,
    /// Ends its sleep without the bell: the lead of a transport is free.
    waker: Waker,
    /// Looks before it sleeps, at present.
    looks: u32,
    posted: posted::List,
    timers: timers::List,
    /// Fibers that fell asleep while the thread counted a panic; see [`parking`].
    in_doubt: Vec<NonNull<Block>>,
}

// SAFETY: `own` is touched by the worker's thread only; see `own`.
unsafe impl Sync for Worker {}
// SAFETY: a worker is handed to its thread before that starts.
unsafe impl Send for Worker {}

impl Worker {
    pub(crate) fn new(index: usize) -> Self {
        let (place, parker) = Place::new();
        let own = Own {
            ready: Line::new(),
            fresh: Queue::new(),
            free: Queue::new(),
            picks: 0,
            fresh_first: false,
            waker: Waker::from(Arc::new(parker.unparker())),
            looks: u32::MAX,
            parker: Some(parker),
            posted: posted::List::new(),
            timers: timers::List::new(),
            in_doubt: Vec::new(),
        };
        Self {
            index,
            shared: AtomicPtr::new(ptr::null_mut()),
            lane: Lane::new(),
            inbox: Inbox::new(),
            place,
            running: AtomicPtr::new(ptr::null_mut()),
            spawned: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            clock: AtomicU64::new(0),
            own: UnsafeCell::new(own),
        }
    }

    /// Tells the worker where it belongs, before anything runs.
    pub(crate) fn set_shared(&self, shared: &Shared) {
        self.shared.store(ptr::from_ref(shared).cast_mut(), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: set before the first fiber; the shared state owns its workers and outlives them.
        unsafe { &*self.shared.load(Ordering::Relaxed) }
    }

    /// Runs `use_it` on what belongs to this thread. `use_it` calls nothing that comes back here.
    #[inline(always)]
    fn own<R>(&self, use_it: impl FnOnce(&mut Own) -> R) -> R {
        // SAFETY: only the worker's thread calls this, and no call is made within another.
        use_it(unsafe { &mut *self.own.get() })
    }

    /// The worker's thread.
    pub(crate) fn run(&self) {
        HERE.set(self);
        while let Some(block) = self.pick().or_else(|| self.wait_for_work()) {
            self.execute(block);
        }
        let free = self.own(|own| std::mem::replace(&mut own.free, Queue::new()));
        self.shared().give_back(free);
        self.shared().rendezvous.leave(self.index);
        HERE.set(ptr::null());
    }

    /// The next fiber to run; none also when the worker shall end.
    #[inline]
    fn pick(&self) -> Option<NonNull<Block>> {
        let picks = self.own(|own| {
            own.picks = own.picks.wrapping_add(1);
            own.picks
        });
        if picks.is_multiple_of(ATTEND) && !self.attend(picks) {
            return None;
        }
        let next = self.own(|own| {
            if own.fresh_first {
                own.fresh.pop_front().or_else(|| own.ready.pop())
            } else {
                own.ready.pop().or_else(|| own.fresh.pop_front())
            }
        });
        next.or_else(|| self.lane.take())
    }

    /// Runs a fiber until it leaves its stack, and does what it asked for.
    #[inline]
    fn execute(&self, block: NonNull<Block>) {
        // SAFETY: what is in a queue lives.
        let fiber = unsafe { block.as_ref() };
        if self.may_run(fiber) {
            while self.settle(block, self.resume(block, ptr::null_mut())) {}
        }
    }

    /// Runs a fiber until it leaves its stack; then this worker runs `after` again, or nothing.
    #[inline(always)]
    fn resume(&self, block: NonNull<Block>, after: *mut Block) -> Command {
        // SAFETY: the worker has the fiber, which is ready.
        let fiber = unsafe { block.as_ref() };
        self.running.store(block.as_ptr(), Ordering::Relaxed);
        let runs = fiber.life.enter();
        // SAFETY: as above.
        let command = unsafe { fiber.context.resume(fiber) };
        fiber.life.leave(runs);
        self.running.store(after, Ordering::Relaxed);
        self.own(|own| own.fresh_first = command == Command::Yield);
        command
    }

    /// Does what a fiber asked for that has left its stack. True if it shall be run on at once.
    #[inline(always)]
    fn settle(&self, block: NonNull<Block>, command: Command) -> bool {
        match command {
            Command::Yield => self.push(block),
            // SAFETY: a fiber that has left its stack and not ended lives.
            Command::Park => return !self.has_parked(unsafe { block.as_ref() }),
            Command::Exit => self.finish(block),
            Command::Overflow => self.bury(block),
        }
        false
    }

    /// Makes this worker the fiber's home when it starts; sends away a fiber that is bound elsewhere.
    #[inline(always)]
    fn may_run(&self, fiber: &Block) -> bool {
        // A fiber that has started and does not roam is only ever given to its home.
        if fiber.is_settled.load(Ordering::Relaxed) {
            return true;
        }
        self.may_start(fiber)
    }

    #[inline]
    fn may_start(&self, fiber: &Block) -> bool {
        let bound_to = fiber.bound_to.load(Ordering::Relaxed);
        if bound_to != 0 && bound_to as usize != self.index + 1 && fiber.may_change() {
            self.send_to(fiber, bound_to);
            return false;
        }
        fiber.home.store(ptr::from_ref(self).cast_mut(), Ordering::Relaxed);
        fiber.is_started.set(true);
        fiber.is_settled.store(!fiber.roams.get(), Ordering::Release);
        self.feed();
        true
    }

    #[cold]
    fn send_to(&self, fiber: &Block, number: u32) {
        let target = &self.shared().workers[number as usize - 1];
        fiber.home.store(ptr::from_ref(target).cast_mut(), Ordering::Relaxed);
        target.deliver(NonNull::from(fiber));
    }

    /// Takes in a fiber that was spawned here.
    #[inline]
    pub(crate) fn push_fresh(&self, block: NonNull<Block>) {
        let count = self.own(|own| {
            own.fresh.push_front(block);
            own.fresh.len()
        });
        let others = self.shared().workers.len() - 1;
        if others > 0 && (self.lane.len() < self.hungry() || count > 1 && self.lane.len() < others) {
            self.offer_oldest();
        }
    }

    /// Puts the oldest fresh fiber where other workers find it. False if there is none.
    fn offer_oldest(&self) -> bool {
        let oldest = self.own(|own| own.fresh.pop_back());
        oldest.is_some_and(|oldest| {
            self.offer(oldest);
            true
        })
    }

    /// Before a fiber runs, which may take long: has one on offer for each worker that has none.
    #[inline]
    fn feed(&self) {
        while self.lane.len() < self.hungry() && self.offer_oldest() {}
    }

    /// Workers that look for a fiber.
    #[inline(always)]
    fn hungry(&self) -> usize {
        self.shared().hungry.load(Ordering::Relaxed)
    }

    fn offer(&self, block: NonNull<Block>) {
        self.lane.give(block);
        self.shared().wake_a_sleeper();
    }

    /// Takes in a fiber that is ready and runs here.
    #[inline(always)]
    pub(crate) fn push(&self, block: NonNull<Block>) {
        // SAFETY: a fiber that is ready lives.
        let fiber = unsafe { block.as_ref() };
        if fiber.roams.get() && fiber.may_move() && self.hungry() > 0 {
            return self.offer(block);
        }
        self.own(|own| own.ready.push(block));
    }

    /// Hands over a fiber from anywhere.
    pub(crate) fn deliver(&self, block: NonNull<Block>) {
        self.inbox.push(block);
        self.ring();
    }

    /// Wakes the worker if it sleeps. True if it did.
    pub(crate) fn ring(&self) -> bool {
        self.place.call(|driver| driver.wake())
    }
}
