//! Bytes that one owner writes and many read.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::Range;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use crate::pages::Slab;

/// Memory of so many bytes begins at a cache line, so that packets that end at one are written and read by whole lines. Smaller pieces would
/// take more from the heap than they have.
const ON_LINES_BYTES: usize = 8 << 10;
const LINE_BYTES: usize = 64;
/// Bytes of such memory that is of the heap, in all of the process.
static HEAP_BYTES: AtomicUsize = AtomicUsize::new(0);
/// So many are many: 64 MiB. Tests have few.
const HEAP_BYTES_MANY: usize = if cfg!(test) { 1 << 20 } else { 64 << 20 };

/// Zeroed bytes that stay where they are, and handles to them.
#[derive(Clone)]
pub(crate) struct Memory(Arc<Place>);

/// Bytes that are written through shared references, and so are never borrowed as a whole.
struct Place {
    start: *mut u8,
    len: usize,
    /// What they are a part of, unless they are of the heap.
    slab: Option<Arc<Slab>>,
    /// Whether somebody else has read them where they lie since this was asked last.
    is_read: AtomicBool,
}

// SAFETY: it owns the bytes, and who reads or writes them keeps readers and the writer apart; see `Memory::bytes` and
// `Memory::write`.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

/// Of so many bytes of the heap.
fn heap_layout(len: usize) -> Layout {
    let align = if len >= ON_LINES_BYTES { LINE_BYTES } else { 1 };
    Layout::from_size_align(len, align)
        .unwrap_or_else(|_| panic!("{len} bytes are more than memory may have"))
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.slab.is_none() {
            if self.len >= ON_LINES_BYTES {
                HEAP_BYTES.fetch_sub(self.len, Ordering::Relaxed);
            }
            // SAFETY: they were allocated with this layout, and this is the last that knows of them.
            unsafe { dealloc(self.start, heap_layout(self.len)) };
        }
    }
}

impl Memory {
    /// # Panics
    /// If `len` is 0.
    pub(crate) fn zeroed(len: usize) -> Self {
        assert!(len > 0, "memory of no bytes");
        let layout = heap_layout(len);
        // SAFETY: it has bytes.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        if len >= ON_LINES_BYTES {
            HEAP_BYTES.fetch_add(len, Ordering::Relaxed);
        }
        Self(Arc::new(Place { start, len, slab: None, is_read: AtomicBool::new(false) }))
    }

    /// The bytes of `slab` in this range.
    ///
    /// # Safety
    /// They are there, and nothing else is ever made of any of them.
    pub(crate) unsafe fn of_pages(slab: Arc<Slab>, range: Range<usize>) -> Self {
        let start = slab.start().wrapping_add(range.start);
        Self(Arc::new(Place { start, len: range.len(), slab: Some(slab), is_read: AtomicBool::new(false) }))
    }

    /// Whether the process has more than 64 MiB of the heap in pieces of 8 KiB and more.
    pub(crate) fn is_much() -> bool {
        HEAP_BYTES.load(Ordering::Relaxed) > HEAP_BYTES_MANY
    }

    pub(crate) fn is_pages(&self) -> bool {
        self.0.slab.is_some()
    }

    /// Whether both lie in pages that go back to the system at the same time.
    pub(crate) fn shares_pages(&self, other: &Self) -> bool {
        let slabs = self.0.slab.as_ref().zip(other.0.slab.as_ref());
        slabs.is_some_and(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// They go to somebody else, who reads them where they lie.
    pub(crate) fn note_read(&self) {
        self.0.is_read.store(true, Ordering::Relaxed);
    }

    /// Whether somebody else has read them there since this was asked last.
    pub(crate) fn take_read(&self) -> bool {
        self.0.is_read.load(Ordering::Relaxed) && self.0.is_read.swap(false, Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len
    }

    #[inline]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether this is the only handle. Then what others did with theirs has happened before.
    pub(crate) fn is_only(&self) -> bool {
        let is_only = Arc::strong_count(&self.0) == 1;
        fence(Ordering::Acquire);
        is_only
    }

    /// These bytes.
    ///
    /// # Safety
    /// There are so many, and none of them is written while the result lives.
    #[inline]
    pub(crate) unsafe fn bytes(&self, range: Range<usize>) -> &[u8] {
        debug_assert!(range.start <= range.end && range.end <= self.len());
        // SAFETY: by the caller, it begins in the memory or at its end.
        let start = unsafe { self.0.start.add(range.start) };
        // SAFETY: all are initialized, and the caller keeps writers away.
        unsafe { slice::from_raw_parts(start, range.end - range.start) }
    }

    /// These bytes, to be written.
    ///
    /// # Safety
    /// There are so many, and nobody else reads or writes them while the result lives.
    #[inline]
    #[allow(clippy::mut_from_ref)] // by the contract
    pub(crate) unsafe fn bytes_mut(&self, range: Range<usize>) -> &mut [u8] {
        debug_assert!(range.start <= range.end && range.end <= self.len());
        // SAFETY: by the caller, it begins in the memory or at its end.
        let start = unsafe { self.0.start.add(range.start) };
        // SAFETY: all are initialized, and the caller keeps all others away.
        unsafe { slice::from_raw_parts_mut(start, range.end - range.start) }
    }

    /// Writes `bytes` from `at` on.
    ///
    /// # Safety
    /// There are so many places, and nobody else reads or writes them meanwhile.
    #[inline]
    pub(crate) unsafe fn write(&self, at: usize, bytes: &[u8]) {
        debug_assert!(at + bytes.len() <= self.len());
        // SAFETY: by the caller, it begins in the memory or at its end.
        let to = unsafe { self.0.start.add(at) };
        // SAFETY: there are as many bytes, and the caller keeps all others away, so that `bytes`, which somebody may read, are not
        // among them.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }
}
