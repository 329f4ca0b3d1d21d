//! A fiber as others see it.

use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::block::{Block, CANCELLED};
use crate::error::{BindError, DetachError};
use crate::latch::Refusal;
use crate::runtime::Shared;
use crate::wait::word;
use crate::worker;

/// A reference to a fiber, whatever its result. Clones refer to the same one.
///
/// It may outlive the fiber and its runtime; then nothing it does has an effect.
pub struct Fiber(NonNull<Block>);

// SAFETY: what a reference does works from any thread.
unsafe impl Send for Fiber {}
// SAFETY: as above.
unsafe impl Sync for Fiber {}

impl Fiber {
    /// The fiber that the calling thread runs.
    #[must_use]
    pub fn current() -> Option<Self> {
        worker::current_block().map(Self::share)
    }

    /// A reference to a block that others hold.
    pub(crate) fn share(block: NonNull<Block>) -> Self {
        // SAFETY: the caller has the block.
        unsafe { block.as_ref() }.refs.share();
        Self(block)
    }

    /// Takes over a reference.
    pub(crate) fn own(block: NonNull<Block>) -> Self {
        Self(block)
    }

    /// The pointer of the reference; [`own`](Self::own) takes it back.
    pub(crate) fn as_ptr(&self) -> *const () {
        self.0.as_ptr().cast_const().cast()
    }

    #[inline]
    pub(crate) fn block(&self) -> &Block {
        // SAFETY: the reference keeps the block.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub(crate) fn place(&self) -> NonNull<Block> {
        self.0
    }

    /// Its number, which no other fiber of the runtime has or had.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.block().id.load(Ordering::Relaxed)
    }

    /// Its name; empty if it has none.
    #[must_use]
    pub fn name(&self) -> String {
        self.block().name.get()
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.block().latch.is_open()
    }

    /// Whether it is detached.
    #[must_use]
    pub fn is_detached(&self) -> bool {
        self.block().latch.is_refused()
    }

    /// How many wait for its end at this moment.
    #[must_use]
    pub fn joiners(&self) -> usize {
        self.block().latch.joiners()
    }

    /// Makes its result nobody's: it cannot be joined, and the runtime does not wait for it.
    ///
    /// # Errors
    ///
    /// [`DetachError`] if it is detached, is being joined, or has ended.
    pub fn detach(&self) -> Result<(), DetachError> {
        let block = self.block();
        block.latch.refuse().map_err(detach_error)?;
        self.shared().note_detached();
        Ok(())
    }

    /// Makes it one that can be joined again.
    ///
    /// # Errors
    ///
    /// [`DetachError`] if it is attached or has ended.
    pub fn attach(&self) -> Result<(), DetachError> {
        // Counted first, as it may end at once: attached fibers are never counted too few.
        self.shared().note_detached_no_more();
        self.block().latch.allow().map_err(|refusal| {
            self.shared().was_not_detached();
            detach_error(refusal)
        })
    }

    /// Binds it to that worker, counted from 0: nobody else runs it until it is unbound.
    ///
    /// It changes over when it is next run; so a fiber that binds itself elsewhere yields then. One that starts at this very
    /// moment, and does not roam, stays where it starts.
    ///
    /// # Errors
    ///
    /// [`BindError`] if there is no such worker, or the fiber has started elsewhere and does not roam.
    pub fn bind(&self, worker: usize) -> Result<(), BindError> {
        let block = self.block();
        let workers = self.shared().workers.len();
        if worker >= workers {
            return Err(BindError::NoSuchWorker { worker, workers });
        }
        if block.is_local.load(Ordering::Relaxed) {
            return Err(BindError::Local);
        }
        // SAFETY: null, or a worker of the runtime.
        if let Some(home) = unsafe { block.home.load(Ordering::Relaxed).as_ref() }
            && block.is_settled.load(Ordering::Acquire)
            && home.index != worker
        {
            return Err(BindError::Started { home: home.index });
        }
        block.bound_to.store(u32::try_from(worker + 1).unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }

    /// Lets any worker run it again, if it has not started or roams.
    ///
    /// # Errors
    ///
    /// [`BindError`] if it is not bound, or its closure belongs to its thread.
    pub fn unbind(&self) -> Result<(), BindError> {
        let block = self.block();
        if block.is_local.load(Ordering::Relaxed) {
            return Err(BindError::Local);
        }
        match block.bound_to.swap(0, Ordering::Relaxed) {
            0 => Err(BindError::NotBound),
            _ => Ok(()),
        }
    }

    /// The worker it is bound to.
    #[must_use]
    pub fn bound_to(&self) -> Option<usize> {
        (self.block().bound_to.load(Ordering::Relaxed) as usize).checked_sub(1)
    }

    /// Cancels it: at its next switch point it unwinds, which drops its values, and ends without a result. A fiber that
    /// sleeps is woken for it; one that has not started never does. Cancelling twice is cancelling once.
    pub fn cancel(&self) {
        cancel(self.block());
    }

    /// Ends its [`park`](crate::park), or its next one.
    pub fn unpark(&self) {
        self.block().permit.set();
    }

    /// The most bytes of its stack that have been in use, in whole words, from the top. What fibers before it used counts,
    /// unless it was spawned [`measured`](crate::Spawn::measured).
    #[must_use]
    pub fn high_water(&self) -> usize {
        self.block().region.high_water()
    }

    /// The bytes of its stack.
    #[must_use]
    pub fn stack_size(&self) -> usize {
        self.block().region.usable()
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the shared state lives as long as any region is out, and the reference keeps this one out.
        unsafe { &*self.block().shared }
    }
}

fn detach_error(refusal: Refusal) -> DetachError {
    match refusal {
        Refusal::Detached => DetachError::Detached,
        Refusal::Joined => DetachError::Joined,
        Refusal::Attached => DetachError::Attached,
        Refusal::Ended => DetachError::Ended,
    }
}

/// See [`Fiber::cancel`].
pub(crate) fn cancel(block: &Block) {
    block.flags.fetch_or(CANCELLED, Ordering::SeqCst);
    let sleeps: &AtomicU32 = block.node.word();
    let woken = sleeps.compare_exchange(word::PARKED, word::CANCELLED, Ordering::SeqCst, Ordering::Relaxed);
    if woken.is_ok() {
        worker::make_ready(NonNull::from(block));
    }
}

impl Clone for Fiber {
    fn clone(&self) -> Self {
        Self::share(self.0)
    }
}

impl Drop for Fiber {
    #[inline]
    fn drop(&mut self) {
        worker::release(self.0);
    }
}

impl PartialEq for Fiber {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Fiber {}

impl fmt::Debug for Fiber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fiber({})", crate::listing::title(self.block()))
    }
}
