//! What a worker does when a fiber has left its stack for good.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::{Worker, release};
use crate::block::{Block, Ending};

impl Worker {
    /// A fiber has ended and left its stack.
    #[inline]
    pub(super) fn finish(&self, block: NonNull<Block>) {
        // SAFETY: the fiber's own reference is given up at the end of this function only.
        let fiber = unsafe { block.as_ref() };
        self.count_end(fiber);
        fiber.latch.open();
        release(block);
    }

    /// The same for its joiner, who calls this: if nobody else refers to it, nothing is exchanged.
    #[inline(always)]
    pub(super) fn finish_for_joiner(&self, block: NonNull<Block>) {
        // SAFETY: the joiner keeps its reference.
        let fiber = unsafe { block.as_ref() };
        if fiber.refs.give_up_alone() {
            self.count_end(fiber);
            fiber.latch.open_alone();
        } else {
            self.finish(block);
        }
    }

    #[inline(always)]
    fn count_end(&self, fiber: &Block) {
        if fiber.latch.is_refused() {
            self.shared().note_detached_no_more();
        }
        self.finished.store(self.finished.load(Ordering::Relaxed) + 1, Ordering::Release);
        fiber.life.end();
    }

    /// A fiber has come to the end of its stack. What is on it may be borrowed, so it is never used again.
    #[cold]
    pub(super) fn bury(&self, block: NonNull<Block>) {
        // SAFETY: the fiber's own reference is never given up.
        let fiber = unsafe { block.as_ref() };
        eprintln!(
            "fiber {} overflowed its stack of {} bytes and was ended; spawn it with a larger one",
            crate::listing::title(fiber),
            fiber.region.usable()
        );
        fiber.ending.set(Ending::Overflowed);
        self.count_end(fiber);
        fiber.latch.open();
    }
}
