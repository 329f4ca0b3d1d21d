//! The regions of a runtime: those in use, and those kept for the next fibers.

use std::ptr::NonNull;

use weft_sync::{Mutex, MutexGuard};

use super::{PAGE, REGION_MIN, Region, slab::Slab};
use crate::block::Block;
use crate::error::SpawnError;
use crate::queue::Queue;
use crate::runtime::Shared;

/// Free regions of a runtime, shared by its workers. Each worker keeps some at hand and comes here for more.
pub(crate) struct Pool(Mutex<State>);

struct State {
    classes: Vec<Class>,
    /// Regions that are with fibers or with workers.
    issued: usize,
    limit: usize,
    is_closed: bool,
}

/// Regions of one size.
struct Class {
    region_size: usize,
    free: Queue<Block>,
    slabs: Vec<Slab>,
}

/// What is left to do when the last region of a closed pool came back.
#[derive(PartialEq, Eq)]
pub(crate) enum Returned {
    More,
    /// Nobody has a region any more: the runtime's memory can go.
    Last,
}

/// The size of the region for a stack of so many bytes.
pub(crate) fn region_size(stack_size: usize) -> usize {
    (stack_size.min(1 << 40) + 2 * PAGE).next_multiple_of(PAGE).max(REGION_MIN)
}

impl Pool {
    pub(crate) fn new(limit: usize) -> Self {
        Self(Mutex::new(State { classes: Vec::new(), issued: 0, limit, is_closed: false }))
    }

    /// Takes up to `count` regions of that size for fibers of `shared`; at least one, or an error.
    pub(crate) fn take(
        &self,
        shared: &Shared,
        region_size: usize,
        count: usize,
    ) -> Result<Queue<Block>, SpawnError> {
        let mut state = self.0.lock();
        let mut taken = Queue::new();
        while taken.len() < count {
            if state.issued >= state.limit {
                break;
            }
            match state.take(shared, region_size) {
                Ok(block) => taken.push_back(block),
                Err(_) if !taken.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        if taken.is_empty() { Err(SpawnError::Limit { limit: state.limit }) } else { Ok(taken) }
    }

    /// Puts regions back. Their fibers have ended and nobody refers to them.
    pub(crate) fn put(&self, mut blocks: Queue<Block>) -> Returned {
        let mut state = self.0.lock();
        while let Some(block) = blocks.pop_front() {
            // SAFETY: the block was handed back, so it lives and is ours.
            let size = unsafe { block.as_ref() }.region.size();
            state.issued -= 1;
            state.class(size).free.push_front(block);
        }
        if state.is_closed && state.issued == 0 { Returned::Last } else { Returned::More }
    }

    /// No more fibers will be made.
    pub(crate) fn close(&self) -> Returned {
        let mut state = self.0.lock();
        state.is_closed = true;
        if state.issued == 0 { Returned::Last } else { Returned::More }
    }

    /// Calls `look` with every control block there is, of fibers and of free regions. Blocks stay as long as the pool. No region
    /// comes or goes meanwhile; fibers go on.
    pub(crate) fn for_each<'a>(&'a self, mut look: impl FnMut(&'a Block)) {
        let state: MutexGuard<'_, State> = self.0.lock();
        for slab in state.classes.iter().flat_map(|class| &class.slabs) {
            // SAFETY: a region that was given out has a block.
            slab.regions().for_each(|region| look(unsafe { Block::in_region(region).as_ref() }));
        }
    }
}

impl State {
    fn class(&mut self, region_size: usize) -> &mut Class {
        let known = self.classes.iter().position(|class| class.region_size == region_size);
        let at = known.unwrap_or_else(|| {
            self.classes.push(Class { region_size, free: Queue::new(), slabs: Vec::new() });
            self.classes.len() - 1
        });
        &mut self.classes[at]
    }

    fn take(&mut self, shared: &Shared, region_size: usize) -> Result<NonNull<Block>, SpawnError> {
        let room = self.limit - self.issued;
        let class = self.class(region_size);
        let block = match class.free.pop_front() {
            Some(block) => block,
            None => Block::create(class.region(room)?, shared),
        };
        self.issued += 1;
        Ok(block)
    }
}

impl Class {
    /// A region that was never used.
    fn region(&mut self, room: usize) -> Result<Region, SpawnError> {
        let no_memory =
            |error: std::io::Error| SpawnError::Stack { size: self.region_size, cause: error.to_string() };
        if let Some(slab) = self.slabs.last_mut()
            && let Some(region) = slab.next().map_err(no_memory)?
        {
            return Ok(region);
        }
        self.slabs.push(Slab::map(self.region_size, room).map_err(no_memory)?);
        let slab = self.slabs.last_mut().expect("it was just pushed");
        let region = slab.next().map_err(no_memory)?;
        Ok(region.expect("a new slab has room"))
    }
}
