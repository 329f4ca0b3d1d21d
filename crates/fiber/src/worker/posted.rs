//! Posted conditions: what fibers wait for that nobody will tell, so that their worker looks (SCALE paper, section 2).
//!
//! The conditions are on the stacks of the fibers that wait, and are tested on the worker's own stack. When nothing
//! else is ready they are tested all the time; under load, [`UNDER_LOAD`] of them, in turn, every [`EVERY`] picks. So
//! ready fibers are held up by at most that many tests in that many switches.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use super::Worker;
use crate::block::Block;
use crate::job;
use crate::wait::{Claim, claim, is_parked, word};

/// Conditions tested at once while fibers are ready.
pub(super) const UNDER_LOAD: usize = 8;
/// Picks from one test to the next while fibers are ready.
pub(super) const EVERY: u32 = 64;

/// A condition and who waits for it, on that fiber's stack.
pub(crate) struct Posted<'a> {
    block: NonNull<Block>,
    test: NonNull<dyn FnMut() -> bool + 'a>,
    /// What a panic of the test said.
    pub(crate) panic: Option<String>,
    place: usize,
}

impl<'a> Posted<'a> {
    pub(crate) fn new(block: NonNull<Block>, test: &'a mut (dyn FnMut() -> bool + 'a)) -> Self {
        Self { block, test: NonNull::from(test), panic: None, place: usize::MAX }
    }
}

/// The conditions posted at one worker.
pub(super) struct List {
    posted: Vec<NonNull<Posted<'static>>>,
    cursor: usize,
}

impl List {
    pub(super) fn new() -> Self {
        Self { posted: Vec::new(), cursor: 0 }
    }

    fn next(&mut self) -> Option<NonNull<Posted<'static>>> {
        if self.cursor >= self.posted.len() {
            self.cursor = 0;
        }
        let next = self.posted.get(self.cursor).copied();
        self.cursor += 1;
        next
    }

    fn remove(&mut self, place: usize) {
        self.posted.swap_remove(place);
        if let Some(moved) = self.posted.get_mut(place) {
            // SAFETY: listed conditions are on the stacks of fibers that sleep.
            unsafe { moved.as_mut() }.place = place;
        }
    }
}

impl Worker {
    /// How many conditions are posted.
    pub(super) fn posted_len(&self) -> usize {
        self.own(|own| own.posted.posted.len())
    }

    /// Tests `posted` from now on.
    ///
    /// # Safety
    ///
    /// It stays where it is, and its fiber at this worker, until [`withdraw`](Self::withdraw).
    pub(crate) unsafe fn post(&self, posted: NonNull<Posted<'_>>) {
        let mut posted = posted.cast::<Posted<'static>>();
        self.own(|own| {
            // SAFETY: the caller's promise.
            unsafe { posted.as_mut() }.place = own.posted.posted.len();
            own.posted.posted.push(posted);
        });
    }

    /// Tests it no more.
    pub(crate) fn withdraw(&self, posted: NonNull<Posted<'_>>) {
        // SAFETY: the caller's fiber has it on its stack.
        let place = unsafe { posted.as_ref() }.place;
        self.own(|own| own.posted.remove(place));
    }

    /// Tests up to `count` conditions, in turn, and makes the fibers ready whose condition holds. True if any was.
    pub(super) fn test_conditions(&self, count: usize) -> bool {
        let mut found = false;
        for _ in 0..count.min(self.posted_len()) {
            let Some(posted) = self.own(|own| own.posted.next()) else { break };
            found |= self.test(posted);
        }
        found
    }

    fn test(&self, mut posted: NonNull<Posted<'static>>) -> bool {
        // SAFETY: listed conditions are on the stacks of fibers that sleep here, or that are ready and run later.
        let posted = unsafe { posted.as_mut() };
        // SAFETY: as above.
        let fiber_word = unsafe { posted.block.as_ref() }.node.word();
        if !is_parked(fiber_word) {
            return false; // made ready already, and not run yet
        }
        // SAFETY: the test is the sleeping fiber's, and nobody else calls it.
        let holds = catch_unwind(AssertUnwindSafe(|| unsafe { (posted.test.as_mut())() }));
        if let Err(panic) = &holds {
            posted.panic = Some(job::message(&**panic));
        }
        let ends = !matches!(holds, Ok(false)) && claim(fiber_word, word::SIGNALLED) == Claim::Asleep;
        if ends {
            self.push(posted.block);
        }
        ends
    }
}
