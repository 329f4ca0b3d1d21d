//! Pages that hold packets and nothing else, now or later.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::{Advice, MmapOptions, MmapRaw};

use crate::FrameBuffer;
use crate::memory::Memory;

/// Bytes that are taken from the system at a time: what one entry of the processor's page tables may name as a whole. Who refers to
/// a few of such pages counts one reference, and every look at what they are finds the same line of memory.
const SLAB_BYTES: usize = 2 << 20;
/// What is cut off them begins where a page does, also on systems whose smallest ones are the largest: arm64 has some of 64 KiB.
const PAGE_BYTES: usize = 64 << 10;
/// Slabs that a process has at once: 256 MiB. Tests have few.
const SLABS_MAX: usize = if cfg!(test) { 8 } else { 128 };
static SLABS: AtomicUsize = AtomicUsize::new(0);

/// Pages that go back to the system when nobody knows of any of them.
pub(crate) struct Slab(MmapRaw);

impl Slab {
    /// None where the system gives none, or a process has its share.
    #[cold]
    fn new() -> Option<Arc<Self>> {
        if are_more_than(SLABS_MAX - 1) {
            return None;
        }
        let pages = MmapOptions::new().len(SLAB_BYTES).map_anon().ok()?;
        // Pages of the smallest kind do as well.
        let _ = pages.advise(Advice::HugePage);
        SLABS.fetch_add(1, Ordering::Relaxed);
        Some(Arc::new(Self(MmapRaw::from(pages))))
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.0.as_mut_ptr()
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        SLABS.fetch_sub(1, Ordering::Relaxed);
    }
}

fn are_more_than(slabs: usize) -> bool {
    SLABS.load(Ordering::Relaxed) > slabs
}

/// Cuts buffers for large packets, which the system takes from where they lie, off whole pages: nobody else's bytes come to lie in
/// pages that it may still read. No page is cut off twice. They come from the system 2 MiB at a time, as a huge page where it has
/// one, and go back when none of those is in use (decision 0074).
///
/// A clone begins with none.
#[derive(Default)]
pub struct Pages {
    slab: Option<Arc<Slab>>,
    used: usize,
}

impl Pages {
    /// Room for `bytes`, which are zero, in pages of its own. Where the system gives none, or the process has 256 MiB of them, and
    /// for more than 2 MiB, it is [as any other](FrameBuffer::with_capacity).
    #[must_use]
    pub fn buffer(&mut self, bytes: usize) -> FrameBuffer {
        self.cut(bytes).map_or_else(|| FrameBuffer::with_capacity(bytes), FrameBuffer::of)
    }

    /// Whether it has none that were not cut off yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slab.is_none() || self.used == SLAB_BYTES
    }

    /// Whether the process has more than half of the pages that it may have at once.
    #[must_use]
    pub fn are_scarce() -> bool {
        are_more_than(SLABS_MAX / 2)
    }

    fn cut(&mut self, bytes: usize) -> Option<Memory> {
        let size = bytes.next_multiple_of(PAGE_BYTES);
        if bytes == 0 || size > SLAB_BYTES {
            return None;
        }
        if self.slab.is_none() || size > SLAB_BYTES - self.used {
            (self.slab, self.used) = (Slab::new(), 0);
        }
        let slab = self.slab.as_ref()?;
        let at = self.used;
        self.used += size;
        // What cannot be there at once comes as it is written to.
        let _ = slab.0.advise_range(Advice::PopulateWrite, at, bytes);
        // SAFETY: there is room, what was cut off before lies before, and nobody else cuts off this slab.
        Some(unsafe { Memory::of_pages(Arc::clone(slab), at..at + bytes) })
    }
}

impl Clone for Pages {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("used", &self.used).finish()
    }
}

#[cfg(test)]
mod tests;
