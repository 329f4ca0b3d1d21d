//! The control block of a fiber: its processor context, identity, state and result, right above its stack.

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::control::shielded;
use crate::event::Event;
use crate::job::{self, Job, PAYLOAD};
use crate::latch::Latch;
use crate::name::Name;
use crate::queue::{Link, Linked};
use crate::refs::Refs;
use crate::runtime::Shared;
use crate::stack::Region;
use crate::storage::Locals;
use crate::switch::{Command, Context};
use crate::trace;
use crate::wait::{Node, Outcome, word};
use crate::why::Why;
use crate::worker::Worker;

/// How a fiber ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It has not.
    None,
    /// With a value, in the payload.
    Value,
    /// With a panic, boxed in the payload.
    Panicked,
    Cancelled,
    Overflowed,
    /// What it ended with has been taken.
    Taken,
}

/// `flags`: it shall unwind at its next switch point.
pub(crate) const CANCELLED: u32 = 1;

/// A value that has a destructor: not there yet, there for the handle to take or drop, or wanted by nobody.
const VALUE_NONE: u8 = 0;
const VALUE_THERE: u8 = 1;
const VALUE_UNWANTED: u8 = 2;

/// The block and the frames of its shell share a page with room for a shallow fiber.
const _: () = assert!(size_of::<Block>() <= 1024);

/// A fiber.
///
/// Fields that are cells belong to whoever the fiber is with: its worker while it runs or is in a private queue, and
/// the lock of the public queue it is in. Fields that are atomic are looked at from anywhere.
#[repr(C, align(64))]
pub(crate) struct Block {
    link: Link<Self>,
    /// What it waits with.
    pub(crate) node: Node,
    pub(crate) flags: AtomicU32,
    /// The worker that runs it, once it has started.
    pub(crate) home: AtomicPtr<Worker>,
    /// The number of the worker it is bound to, and one; zero if none.
    pub(crate) bound_to: AtomicU32,
    /// Whether any worker may run it although it has started.
    pub(crate) roams: Cell<bool>,
    /// Whether it must wake where it went to sleep, because its worker keeps something for it.
    stays: AtomicBool,
    /// Whether it has run.
    pub(crate) is_started: Cell<bool>,
    /// Whether it never changes threads, since its closure cannot.
    pub(crate) is_local: AtomicBool,
    /// Whether it has started and does not roam, for those who want to bind it.
    pub(crate) is_settled: AtomicBool,
    pub(crate) ending: Cell<Ending>,
    /// Who drops a value that nobody takes. See [`Block::leave_value`].
    value: AtomicU8,
    pub(crate) is_shielded: Cell<bool>,
    sleeps_deep: Cell<bool>,
    pub(crate) context: Context,
    pub(crate) refs: Refs,
    pub(crate) job: Cell<&'static Job>,
    pub(crate) latch: Latch,
    /// Zero if the region is free.
    pub(crate) id: AtomicU64,
    /// What it waits for, as a number; zero if it does not.
    why: AtomicU8,
    has_deadline: AtomicBool,
    object: AtomicUsize,
    /// When it began to wait, by its worker's clock, in nanoseconds.
    since: AtomicU64,
    pub(crate) name: Name,
    pub(crate) permit: Event,
    /// Set by a transport. Not made as new for the next fiber: who waits for it looks again.
    pub(crate) news: Event,
    pub(crate) locals: Cell<*mut Locals>,
    pub(crate) life: trace::Life,
    pub(crate) region: Region,
    pub(crate) shared: *const Shared,
    pub(crate) payload: UnsafeCell<MaybeUninit<[u128; PAYLOAD / 16]>>,
}

// SAFETY: one link, used by run queues only.
unsafe impl Linked for Block {
    #[inline(always)]
    fn link(&self) -> &Link<Self> {
        &self.link
    }
}

// SAFETY: see the type's comment: cells have one owner at a time, handed on through locks and atomic words.
unsafe impl Sync for Block {}
// SAFETY: as above.
unsafe impl Send for Block {}

impl Block {
    /// The place of the block in `region`.
    pub(crate) fn in_region(region: Region) -> NonNull<Self> {
        let (_, block) = region.bounds();
        NonNull::new(ptr::with_exposed_provenance_mut(block)).expect("a region is not at zero")
    }

    /// Makes the block and the context of a region that was never used.
    pub(crate) fn create(region: Region, shared: &Shared) -> NonNull<Self> {
        let place = Self::in_region(region);
        let block = Self {
            link: Link::new(),
            node: Node::of_fiber(place),
            flags: AtomicU32::new(0),
            home: AtomicPtr::new(ptr::null_mut()),
            bound_to: AtomicU32::new(0),
            roams: Cell::new(false),
            stays: AtomicBool::new(false),
            is_started: Cell::new(false),
            is_local: AtomicBool::new(false),
            is_settled: AtomicBool::new(false),
            ending: Cell::new(Ending::None),
            value: AtomicU8::new(0),
            is_shielded: Cell::new(false),
            sleeps_deep: Cell::new(false),
            context: Context::new(region, place),
            refs: Refs::new(),
            job: Cell::new(&Job::NONE),
            latch: Latch::new(),
            id: AtomicU64::new(0),
            why: AtomicU8::new(0),
            has_deadline: AtomicBool::new(false),
            object: AtomicUsize::new(0),
            since: AtomicU64::new(0),
            name: Name::new(),
            permit: Event::new(),
            news: Event::new(),
            locals: Cell::new(ptr::null_mut()),
            life: trace::Life::new(),
            region,
            shared,
            payload: UnsafeCell::new(MaybeUninit::uninit()),
        };
        // SAFETY: the place is the region's, aligned, and nobody else knows of it.
        unsafe { place.write(block) };
        place
    }

    /// Makes the block as new for its next fiber. Nobody else has it.
    #[inline]
    pub(crate) fn reset(&self, id: u64, job: &'static Job) {
        self.flags.store(0, Ordering::Relaxed);
        self.bound_to.store(0, Ordering::Relaxed);
        self.is_started.set(false);
        self.is_local.store(false, Ordering::Relaxed);
        self.value.store(VALUE_NONE, Ordering::Relaxed);
        self.is_settled.store(false, Ordering::Relaxed);
        self.is_shielded.set(false);
        self.ending.set(Ending::None);
        self.job.set(job);
        self.latch.reset();
        self.permit.reset();
        self.name.clear();
        self.refs.reset();
        self.id.store(id, Ordering::Relaxed);
    }

    /// Leaves the stack; returns when the fiber is run again. Called by the fiber itself.
    #[inline(always)]
    pub(crate) fn suspend(&self, command: Command) {
        // SAFETY: this runs on the fiber.
        unsafe { self.context.suspend(command) };
    }

    /// Sleeps on the word, which the caller has put to `WAITING`, until it has come to an end.
    ///
    /// Inlined, as are its callers up to the object: each return across the switch is one the processor predicts wrong.
    #[inline(always)]
    pub(crate) fn wait(&self, why: Why, object: usize, deadline: Option<Instant>) -> Outcome {
        self.begin_wait(why, object);
        let is_unwinding = std::thread::panicking();
        self.sleeps_deep.set(is_unwinding || self.is_shielded.get());
        if deadline.is_none() && !is_unwinding {
            self.suspend(Command::Park);
        } else {
            self.wait_at_home(deadline, is_unwinding && !self.is_shielded.get());
        }
        self.end_wait();
        Outcome::of(self.node.word().load(Ordering::Acquire))
    }

    /// Says what it waits for from now on.
    #[inline(always)]
    pub(crate) fn begin_wait(&self, why: Why, object: usize) {
        self.object.store(object, Ordering::Relaxed);
        self.why.store(why as u8, Ordering::Relaxed);
        // SAFETY: a fiber that runs has a home, which outlives it.
        let home = unsafe { &*self.home.load(Ordering::Relaxed) };
        self.since.store(home.clock(), Ordering::Relaxed);
        trace::waits(why, object);
    }

    /// It waits no more.
    #[inline(always)]
    pub(crate) fn end_wait(&self) {
        self.why.store(0, Ordering::Relaxed);
    }

    /// The worker keeps a timer for it, or the thread counts its panic: it must wake here. The panic may be another's, then
    /// `is_in_doubt`, and the worker looks again when it is over.
    #[cold]
    fn wait_at_home(&self, deadline: Option<Instant>, is_in_doubt: bool) {
        let stayed = self.stay();
        let block = NonNull::from(self);
        // SAFETY: a fiber that runs has a home, which outlives it.
        let home = unsafe { &*self.home.load(Ordering::Relaxed) };
        let timer = deadline.map(|deadline| home.add_timer(deadline, block));
        self.has_deadline.store(deadline.is_some(), Ordering::Relaxed);
        if is_in_doubt {
            home.note_doubt(block);
        }
        self.suspend(Command::Park);
        if is_in_doubt {
            home.forget_doubt(block);
        }
        self.has_deadline.store(false, Ordering::Relaxed);
        if let Some(timer) = timer {
            home.remove_timer(timer);
        }
        self.unstay(stayed);
    }

    /// Lets others run while the thread counts a panic, which may be this fiber's: it goes on here.
    #[cold]
    pub(crate) fn yield_at_home(&self) {
        let stayed = self.stay();
        self.suspend(Command::Yield);
        self.unstay(stayed);
    }

    /// From now on the fiber wakes where it goes to sleep. Returns what was before, for [`unstay`](Self::unstay).
    pub(crate) fn stay(&self) -> bool {
        self.stays.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn unstay(&self, before: bool) {
        self.stays.store(before, Ordering::Relaxed);
    }

    /// The word of a sleep that a cancellation does not end, or that it does.
    #[inline(always)]
    pub(crate) fn parked_word(&self) -> u32 {
        if self.sleeps_deep.get() { word::PARKED_DEEP } else { word::PARKED }
    }

    /// The fiber has come to its end: leaves its value to its handle, or drops it if that is gone.
    ///
    /// The value's destructor may wait, and the value of a local fiber may be one that cannot leave its thread; but the last
    /// reference to the fiber may be the worker's, or be given up on another thread. So a value that has a destructor is dropped
    /// here, on the fiber, or by who drops the handle, which stays where the value may be. What the fiber waits for then is
    /// not ended by a cancellation: its values are being dropped already.
    #[inline]
    pub(crate) fn leave_value(&self) {
        if self.value.swap(VALUE_THERE, Ordering::AcqRel) == VALUE_UNWANTED {
            self.is_shielded.set(true);
            job::drop_ending(self);
        }
    }

    /// The handle is gone, of a fiber whose value has a destructor.
    #[inline]
    pub(crate) fn abandon_value(&self) {
        if self.value.swap(VALUE_UNWANTED, Ordering::AcqRel) == VALUE_THERE {
            shielded(|| job::drop_ending(self));
        }
    }

    /// Whether it can go on with another worker.
    #[inline(always)]
    pub(crate) fn may_change(&self) -> bool {
        (self.roams.get() || !self.is_started.get()) && !self.stays.load(Ordering::Relaxed)
    }

    /// Whether any worker may run it now.
    #[inline(always)]
    pub(crate) fn may_move(&self) -> bool {
        self.may_change() && self.bound_to.load(Ordering::Relaxed) == 0
    }

    #[inline(always)]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & CANCELLED != 0
    }

    /// When it began to wait, on the runtime's clock.
    pub(crate) fn waits_since(&self) -> Duration {
        Duration::from_nanos(self.since.load(Ordering::Relaxed))
    }

    /// The bytes of its stack in use when it was last left, if the switch keeps that.
    pub(crate) fn stack_used(&self) -> Option<usize> {
        let (_, high) = self.region.bounds();
        high.checked_sub(self.context.left_at()?)
    }

    /// What it waits for, the object's address, and whether a deadline ends the wait.
    pub(crate) fn waits_for(&self) -> Option<(Why, usize, bool)> {
        let why = Why::from_number(self.why.load(Ordering::Relaxed))?;
        Some((why, self.object.load(Ordering::Relaxed), self.has_deadline.load(Ordering::Relaxed)))
    }
}
