//! The body of every context: runs one fiber's job after the other, so that a pooled stack costs no new context.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::block::{Block, Ending};
use crate::storage::Locals;
use crate::switch::Command;

/// Runs jobs for ever. Between two of them nothing on the stack needs dropping.
pub(crate) fn run(block: &Block) -> ! {
    loop {
        run_one(block);
        block.suspend(Command::Exit);
    }
}

#[inline(always)]
fn run_one(block: &Block) {
    if block.is_cancelled() {
        end_unrun(block);
    } else {
        // SAFETY: the job is the one of the closure in the payload, which has not run.
        unsafe { (block.job.get().run)(block) };
    }
    // Also of a fiber that never started: the destructor of its closure may have made some.
    if !block.locals.get().is_null() {
        Locals::drop_all(block);
    }
}

/// Ends a fiber that was cancelled before it started.
#[cold]
#[inline(never)]
fn end_unrun(block: &Block) {
    // What it waits for in the destructor is not ended by the cancellation.
    block.is_shielded.set(true);
    // SAFETY: the job is the one of the closure in the payload, which has not run.
    let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { (block.job.get().drop_closure)(block) }));
    std::mem::forget(dropped);
    block.ending.set(Ending::Cancelled);
}
