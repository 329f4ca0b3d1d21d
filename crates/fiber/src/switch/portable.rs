//! The switch of `corosensei`.

use std::cell::{Cell, UnsafeCell};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

use corosensei::stack::{Stack, StackPointer};
use corosensei::{Coroutine, Yielder};

use super::Command;
use crate::block::Block;
use crate::frames::NoFrames;
use crate::shell;
use crate::stack::{PAGE, Region};

/// A coroutine that runs one job after the other, and the fiber's side of it.
pub(crate) struct Context {
    coroutine: UnsafeCell<ManuallyDrop<Coroutine<(), Command, (), Region>>>,
    yielder: Cell<*const Yielder<(), Command>>,
}

impl Context {
    /// A context that runs the shell of `block` at the top of `region`.
    pub(crate) fn new(region: Region, block: NonNull<Block>) -> Self {
        let coroutine = Coroutine::with_stack(region, move |yielder: &Yielder<(), Command>, ()| {
            // SAFETY: the block is written before the context runs, and outlives it.
            let block = unsafe { block.as_ref() };
            block.context.yielder.set(ptr::from_ref(yielder));
            shell::run(block)
        });
        Self { coroutine: UnsafeCell::new(ManuallyDrop::new(coroutine)), yielder: Cell::new(ptr::null()) }
    }

    /// Not known here.
    #[allow(clippy::unused_self)] // the native switch knows it
    pub(crate) fn left_at(&self) -> Option<usize> {
        None
    }

    /// Not known here.
    ///
    /// # Safety
    ///
    /// None is needed; the native switch asks for something.
    #[allow(clippy::unused_self)] // the native switch walks it
    pub(crate) unsafe fn walk(&self, _region: Region, _returns: &mut Vec<usize>) -> Result<(), NoFrames> {
        Err(NoFrames::Unknown)
    }

    /// Runs the fiber until it leaves its stack.
    ///
    /// # Safety
    ///
    /// `block` is the one this context was made with; it is the caller's, and not running.
    #[inline(always)]
    pub(crate) unsafe fn resume(&self, _block: &Block) -> Command {
        // SAFETY: the caller has the fiber, so nobody else touches its context.
        let coroutine = unsafe { &mut *self.coroutine.get() };
        coroutine.resume(()).as_yield().unwrap_or(Command::Exit)
    }

    /// Leaves the fiber's stack; returns when the fiber is run again.
    ///
    /// # Safety
    ///
    /// The caller is the fiber of this context.
    #[inline(always)]
    pub(crate) unsafe fn suspend(&self, command: Command) {
        // SAFETY: the yielder lives as long as the context, on whose stack this runs.
        unsafe { &*self.yielder.get() }.suspend(command);
    }
}

// SAFETY: the region has a guard page at its lower end, and more than the least size above it; both bounds are
// aligned to 64 bytes.
unsafe impl Stack for Region {
    #[inline]
    fn base(&self) -> StackPointer {
        let (_, top) = self.bounds();
        StackPointer::new(top).expect("a region ends above its block, and so not at zero")
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        let (low, _) = self.bounds();
        StackPointer::new(low - PAGE).expect("a region is not at zero")
    }
}
