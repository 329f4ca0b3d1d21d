//! A fiber that has left its stack goes to sleep, and is made ready by who ends its sleep.
//!
//! A fiber that unwinds sleeps deep: no cancellation ends its wait. But a thread only says that it counts a panic, which may be
//! that of another fiber that sleeps as it unwinds. So while one does, all that fall asleep on its thread sleep deep, are kept in
//! mind, and stay. Who unwinds stays, too, and keeps the count above zero: when it is zero, on the worker's own stack, none of
//! those unwinds, and they sleep on as others do.

use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Worker, here};
use crate::block::{Block, CANCELLED};
use crate::fiber::{Fiber, cancel};
use crate::wait::word;

impl Worker {
    /// Puts a fiber to sleep that has left its stack. False if its wait has ended in the meantime.
    #[inline(always)]
    pub(super) fn has_parked(&self, fiber: &Block) -> bool {
        if fiber.roams.get() { has_roamer_parked(fiber) } else { has_parked_here(fiber) }
    }

    /// A fiber falls asleep here that may be one that unwinds.
    pub(crate) fn note_doubt(&self, block: NonNull<Block>) {
        self.own(|own| own.in_doubt.push(block));
    }

    /// It has woken.
    pub(crate) fn forget_doubt(&self, block: NonNull<Block>) {
        self.own(|own| own.in_doubt.retain(|other| *other != block));
    }

    /// Lets cancellations wake those who fell asleep in doubt, if no fiber of this thread unwinds any more. True if one did.
    #[inline(always)]
    pub(super) fn end_doubt(&self) -> bool {
        !self.own(|own| own.in_doubt.is_empty()) && !std::thread::panicking() && self.sleep_less_deep()
    }

    #[cold]
    #[inline(never)]
    fn sleep_less_deep(&self) -> bool {
        let mut is_any_cancelled = false;
        for block in self.own(|own| std::mem::take(&mut own.in_doubt)) {
            // SAFETY: it stays here and has not run since it fell asleep, so it lives.
            let fiber = unsafe { block.as_ref() };
            let (deep, parked) = (word::PARKED_DEEP, word::PARKED);
            let sleeps =
                fiber.node.word().compare_exchange(deep, parked, Ordering::SeqCst, Ordering::Relaxed);
            // As in `has_parked_here`: whoever cancels sees the word, or the flag is seen.
            if sleeps.is_ok() && fiber.flags.load(Ordering::SeqCst) & CANCELLED != 0 {
                cancel(fiber);
                is_any_cancelled = true;
            }
        }
        is_any_cancelled
    }
}

/// The same for one that roams: as soon as it sleeps it may run elsewhere and end, and another fiber begin in its block. A
/// reference keeps the block until a cancellation has been seen to.
#[cold]
#[inline(never)]
fn has_roamer_parked(fiber: &Block) -> bool {
    let _kept = Fiber::share(NonNull::from(fiber));
    has_parked_here(fiber)
}

/// See [`Worker::has_parked`]. Nobody else runs the fiber meanwhile, or the caller keeps its block.
#[inline(always)]
fn has_parked_here(fiber: &Block) -> bool {
    let (word, parked) = (fiber.node.word(), fiber.parked_word());
    if word.compare_exchange(word::WAITING, parked, Ordering::SeqCst, Ordering::Acquire).is_err() {
        return false;
    }
    // Whoever cancels sets the flag before it looks at the word; one of the two sees the other.
    let is_cancelled = fiber.flags.load(Ordering::SeqCst) & CANCELLED != 0;
    if is_cancelled && parked == word::PARKED {
        // Not resumed from here: since the exchange a fiber that roams may have run elsewhere.
        cancel(fiber);
    }
    true
}

/// Makes a fiber ready whose sleep the caller has ended.
#[inline(always)]
pub(crate) fn make_ready(block: NonNull<Block>) {
    // SAFETY: a fiber that sleeps lives, and only the one that ended its sleep makes it ready.
    let fiber = unsafe { block.as_ref() };
    let home = fiber.home.load(Ordering::Relaxed);
    let here = here();
    if ptr::eq(home, here) {
        // SAFETY: it is this thread's worker.
        unsafe { &*here }.push(block);
    } else {
        make_ready_elsewhere(block, fiber, here);
    }
}

#[cold]
#[inline(never)]
fn make_ready_elsewhere(block: NonNull<Block>, fiber: &Block, here: *const Worker) {
    let shared = fiber.shared;
    // SAFETY: null, or this thread's worker.
    let here = unsafe { here.as_ref() }.filter(|here| ptr::eq(shared, here.shared()));
    if let Some(here) = here.filter(|_| fiber.may_move()) {
        return here.push(block);
    }
    // Once it is delivered it may run to its end, and the runtime with it, unless that has the caller for a worker: this count keeps
    // the worker that is rung.
    let kept = here.is_none().then(|| {
        // SAFETY: it is an `Arc`'s, and lives while the fiber does, which sleeps.
        unsafe { Arc::increment_strong_count(shared) };
        // SAFETY: the count is this one's.
        unsafe { Arc::from_raw(shared) }
    });
    // SAFETY: a fiber that has slept has a home, one of the workers of the shared state.
    unsafe { &*fiber.home.load(Ordering::Relaxed) }.deliver(block);
    drop(kept);
}
