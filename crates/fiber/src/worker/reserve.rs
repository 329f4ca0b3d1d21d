//! The regions a worker keeps for its next fibers, and the end of a fiber's region.

use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use super::{Worker, current};
use crate::block::{Block, Ending};
use crate::error::SpawnError;
use crate::job;
use crate::queue::Queue;
use crate::runtime::Shared;

/// Regions a worker keeps for its next fibers, and how many it takes or gives at once.
const KEEP: usize = 1024;
const BATCH: usize = 64;

impl Worker {
    /// A region of the usual size.
    #[inline]
    pub(crate) fn region(&self) -> Result<NonNull<Block>, SpawnError> {
        self.own(|own| own.free.pop_front()).map_or_else(|| self.region_of_pool(), Ok)
    }

    #[cold]
    #[inline(never)]
    fn region_of_pool(&self) -> Result<NonNull<Block>, SpawnError> {
        let shared = self.shared();
        let size = shared.region_size;
        let mut batch = shared.pool.take(shared, size, BATCH)?;
        let first = batch.pop_front();
        self.own(|own| own.free = batch);
        first.ok_or(SpawnError::Limit { limit: 0 })
    }

    /// A number for a new fiber: the worker's, and a count.
    #[inline]
    pub(crate) fn next_id(&self) -> u64 {
        let count = self.spawned.load(Ordering::Relaxed) + 1;
        self.spawned.store(count, Ordering::Relaxed);
        (self.index as u64 + 1) << 48 | count
    }

    /// Takes back a region whose fiber is gone.
    #[inline]
    fn keep(&self, block: NonNull<Block>) {
        let count = self.own(|own| {
            own.free.push_front(block);
            own.free.len()
        });
        if count > KEEP {
            self.give_back_half();
        }
    }

    #[cold]
    #[inline(never)]
    fn give_back_half(&self) {
        let spare = self.own(|own| {
            let mut spare = Queue::new();
            (0..KEEP / 2).filter_map(|_| own.free.pop_back()).for_each(|block| spare.push_back(block));
            spare
        });
        self.shared().give_back(spare);
    }
}

/// One region of a size that workers do not keep.
pub(crate) fn take_one(shared: &Shared, size: usize) -> Result<NonNull<Block>, SpawnError> {
    shared.pool.take(shared, size, 1)?.pop_front().ok_or(SpawnError::Limit { limit: 0 })
}

/// Gives up a reference to a fiber, and its region with the last one.
#[inline]
pub(crate) fn release(block: NonNull<Block>) {
    // SAFETY: the reference that is given up keeps the block.
    let fiber = unsafe { block.as_ref() };
    if fiber.refs.give_up() {
        free(block, fiber);
    }
}

#[inline]
fn free(block: NonNull<Block>, fiber: &Block) {
    if fiber.ending.get() != Ending::Taken {
        job::drop_ending(fiber);
    }
    fiber.id.store(0, Ordering::Relaxed);
    // SAFETY: the shared state lives as long as any region is out.
    let shared = unsafe { &*fiber.shared };
    match current() {
        Some(worker) if ptr::eq(worker.shared(), shared) && fiber.region.size() == shared.region_size => {
            worker.keep(block);
        }
        _ => give_back(block, shared),
    }
}

#[cold]
#[inline(never)]
fn give_back(block: NonNull<Block>, shared: &Shared) {
    let mut one = Queue::new();
    one.push_back(block);
    shared.give_back(one);
}
