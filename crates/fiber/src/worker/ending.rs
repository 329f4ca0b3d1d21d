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
        fiber.life.end();
        let is_detached = fiber.latch.open();
        self.count_end(is_detached);
        release(block);
    }

    /// The same for its joiner, who calls this: if nobody else refers to it, nothing is exchanged.
    #[inline(always)]
    pub(super) fn finish_for_joiner(&self, block: NonNull<Block>) {
        // SAFETY: the joiner keeps its reference.
        let fiber = unsafe { block.as_ref() };
        if fiber.refs.give_up_alone() {
            fiber.life.end();
            let is_detached = fiber.latch.open_alone();
            self.count_end(is_detached);
        } else {
            self.finish(block);
        }
    }

    /// Counts a fiber whose latch is open: until then it may be detached, or attached, by whoever refers to it.
    #[inline(always)]
    fn count_end(&self, is_detached: bool) {
        if is_detached {
            self.shared().note_detached_no_more();
        }
        self.finished.store(self.finished.load(Ordering::Relaxed) + 1, Ordering::Release);
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
        fiber.life.end();
        let is_detached = fiber.latch.open();
        self.count_end(is_detached);
    }
}
