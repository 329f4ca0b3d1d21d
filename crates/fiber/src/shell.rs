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

#[inline(never)]
fn run_one(block: &Block) {
    let job = block.job.get();
    if block.is_cancelled() {
        // SAFETY: the job is the one of the closure in the payload, which has not run.
        let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { (job.drop_closure)(block) }));
        std::mem::forget(dropped);
        block.ending.set(Ending::Cancelled);
        return;
    }
    // SAFETY: as above.
    unsafe { (job.run)(block) };
    block.leave_value();
    if !block.locals.get().is_null() {
        Locals::drop_all(block);
    }
}
