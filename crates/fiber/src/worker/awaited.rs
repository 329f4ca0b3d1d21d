//! A fiber that waits for the end of one that has not started runs that one itself.
//!
//! If nothing is ready and the fiber is the newest fresh one, it is what the worker would run next. So the joiner does what
//! its worker would, from where it is: it switches to the fiber, and goes on when that has ended. Then nobody parks, nobody is
//! woken, and if nobody else refers to the fiber nothing is exchanged. A fiber that leaves its stack without ending
//! comes back to its joiner, which puts it where it belongs and parks as every joiner does.
//!
//! A fiber that is run so may do the same. The worker attends to other things every so many picks, of which this is one: then
//! the joiner parks, and so does its own joiner, down to the worker. So not more than [`ATTEND`] fibers are nested.

use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use super::{ATTEND, Worker, current};
use crate::block::Block;
use crate::switch::Command;
use crate::why::Why;

/// The bytes that must be left of the joiner's stack: to see to the other fiber takes some of them.
const ROOM: usize = 4096;

/// What became of a fiber that its joiner would run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// It was not run.
    NotRun,
    /// It was run, and its joiner has been counted. It may have ended.
    Run,
    /// It was run and has ended, and its joiner has been cancelled meanwhile.
    Cancelled,
}

/// Runs `block` if it would be next anyway. The caller is about to join it, and nobody else ever will.
#[inline(always)]
pub(crate) fn run_awaited(block: NonNull<Block>) -> Awaited {
    let Some(worker) = current() else { return Awaited::NotRun };
    let joiner = worker.running.load(Ordering::Relaxed);
    match NonNull::new(joiner) {
        // SAFETY: the fiber that runs lives.
        Some(joiner) if worker.is_next(block) => worker.run_for(unsafe { joiner.as_ref() }, block),
        _ => Awaited::NotRun,
    }
}

impl Worker {
    /// Whether `block` is what the worker would run next, and needs nothing else before.
    #[inline(always)]
    fn is_next(&self, block: NonNull<Block>) -> bool {
        self.own(|own| {
            own.fresh.is_first(block)
                && own.ready.is_empty()
                && !own.picks.wrapping_add(1).is_multiple_of(ATTEND)
        })
    }

    #[inline(always)]
    fn run_for(&self, joiner: &Block, block: NonNull<Block>) -> Awaited {
        // SAFETY: the caller has a reference to it.
        let fiber = unsafe { block.as_ref() };
        if joiner.is_cancelled() || std::thread::panicking() || !has_room(joiner) || !fiber.latch.announce() {
            return Awaited::NotRun;
        }
        self.own(|own| {
            own.picks = own.picks.wrapping_add(1);
            own.fresh.pop_front();
        });
        if self.may_run(fiber) {
            joiner.begin_wait(Why::Join, ptr::from_ref(&fiber.latch).addr());
            let is_yielding = self.run_until_left(joiner, block);
            joiner.end_wait();
            if is_yielding {
                // What is fresh shall go first, and the joiner's own park would let what is ready go first.
                joiner.suspend(Command::Yield);
            }
        }
        let unwinds = joiner.is_cancelled() && !joiner.is_shielded.get() && fiber.latch.is_open();
        if unwinds { Awaited::Cancelled } else { Awaited::Run }
    }

    /// Runs `block` until it has left its stack, and the worker goes on with `joiner`. True if it yields.
    #[inline(always)]
    fn run_until_left(&self, joiner: &Block, block: NonNull<Block>) -> bool {
        loop {
            let command = self.resume(block, ptr::from_ref(joiner).cast_mut());
            if command == Command::Exit {
                self.finish_for_joiner(block);
            } else if self.settle(block, command) {
                continue;
            }
            return command == Command::Yield;
        }
    }
}

/// Whether there is room on the joiner's stack, on which this runs, for what a worker does between fibers.
#[inline(always)]
fn has_room(joiner: &Block) -> bool {
    let (low, _) = joiner.region.bounds();
    let here = 0_u8;
    ptr::from_ref(&here).addr().checked_sub(low).is_some_and(|left| left >= ROOM)
}
