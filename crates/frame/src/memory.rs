//! Bytes that one owner writes and many read.

use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// A byte that may be written through a shared reference.
#[repr(transparent)]
struct Byte(UnsafeCell<u8>);

// SAFETY: who reads or writes bytes keeps readers and the writer apart; see `Memory::bytes` and `Memory::write`.
unsafe impl Sync for Byte {}

/// Zeroed bytes that stay where they are, and handles to them.
#[derive(Clone)]
pub(crate) struct Memory(Arc<[Byte]>);

impl Memory {
    pub(crate) fn zeroed(bytes: usize) -> Self {
        Self((0..bytes).map(|_| Byte(UnsafeCell::new(0))).collect())
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
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
        let start = unsafe { self.0.as_ptr().add(range.start) };
        // SAFETY: a cell is as large as its byte, all are initialized, and the caller keeps writers away.
        unsafe { std::slice::from_raw_parts(start.cast(), range.end - range.start) }
    }

    /// Writes `bytes` from `at` on.
    ///
    /// # Safety
    /// There are so many places, and nobody else reads or writes them meanwhile.
    #[inline]
    pub(crate) unsafe fn write(&self, at: usize, bytes: &[u8]) {
        debug_assert!(at + bytes.len() <= self.len());
        // SAFETY: by the caller, it begins in the memory or at its end.
        let start = unsafe { self.0.as_ptr().add(at) };
        let to = UnsafeCell::raw_get(start.cast::<UnsafeCell<u8>>());
        // SAFETY: there are as many cells, whose bytes may be written through shared references, and the caller keeps all others
        // away, so that `bytes`, which somebody may read, are not among them.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }
}
