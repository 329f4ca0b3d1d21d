//! Where fibers live: regions of memory, each a guard page, a stack, and the control block right above it.
//!
//! ```text
//! low                                                        high
//! | guard page | stack, growing down  ◄──────────── | Block |      one region; a slab is many, side by side
//! ```
//!
//! The control block shares the stack's first page, as in Figure 6 of the SCALE paper, so that a fiber with a shallow
//! stack costs one page. Regions come from slabs that are mapped once, without reserving memory, and stay mapped as
//! long as anybody holds a fiber of their runtime: a late look at a control block is always a look at one.
//!
//! Guard pages are put in place with `MADV_GUARD_INSTALL` (Linux 6.13), which costs no mapping of its own; older
//! kernels get `mprotect`, and then `vm.max_map_count` bounds the number of fibers.

pub(crate) mod overflow;
pub(crate) mod pool;
mod slab;

use std::ptr::NonNull;

use crate::block::Block;

/// The smallest region: a guard page, a page of stack below the block's, and the block's page.
pub(crate) const REGION_MIN: usize = 4 * PAGE;
/// Distances of a control block from the end of its region: how many there are, and their step in bytes.
const COLORS: usize = 8;
const COLOR: usize = 256;
/// The size of a page, or of several; regions are made of whole ones. On processors that leave the size to the kernel it is the largest
/// that there is, 64 KiB.
pub(crate) const PAGE: usize = if cfg!(target_arch = "x86_64") { 4096 } else { 1 << 16 };

/// One region, by its bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    base: usize,
    size: usize,
}

impl Region {
    pub(crate) fn new(base: NonNull<u8>, size: usize) -> Self {
        Self { base: base.addr().get(), size }
    }

    /// The bytes a fiber can use, its control block aside.
    pub(crate) fn usable(&self) -> usize {
        self.block() - self.base - PAGE
    }

    /// Whether `address` lies in the guard page.
    pub(crate) fn guards(&self, address: usize) -> bool {
        (self.base..self.base + PAGE).contains(&address)
    }

    /// Where the control block is: at the upper end, but for a distance that differs from one region to the next. A level-1
    /// cache goes by the address within the page; without it the blocks of all fibers would fight for the same few lines.
    fn block(&self) -> usize {
        let color = (self.base / self.size) % COLORS * COLOR;
        self.base + self.size - size_of::<Block>() - color
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The lowest and the highest address of the stack.
    pub(crate) fn bounds(&self) -> (usize, usize) {
        (self.base + PAGE, self.block())
    }

    /// The bytes of the stack that have ever been written, found by the first that is not zero.
    pub(crate) fn high_water(&self) -> usize {
        let (low, high) = self.bounds();
        let word = size_of::<usize>();
        let mut at = low;
        // SAFETY: the stack is mapped; what its fiber writes meanwhile makes the answer older, not the read wrong,
        // since words are read whole.
        while at < high && unsafe { std::ptr::with_exposed_provenance::<usize>(at).read_volatile() } == 0 {
            at += word;
        }
        high - at
    }

    /// Gives the stack's memory back to the system, except for the page of the control block.
    pub(crate) fn discard_below(&self) {
        let (low, high) = self.bounds();
        let end = high & !(PAGE - 1);
        // SAFETY: the pages belong to this region; what is in them is not needed, says the caller by calling.
        unsafe { libc::madvise(std::ptr::with_exposed_provenance_mut(low), end - low, libc::MADV_DONTNEED) };
    }
}
