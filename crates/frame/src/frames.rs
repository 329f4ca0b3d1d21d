//! The readers' side.

use std::fmt;
use std::ops::{Deref, Range};

use crate::memory::Memory;

/// A handle to frozen bytes of a [`FrameBuffer`](crate::FrameBuffer), which keeps them.
#[derive(Clone)]
pub struct Frames {
    memory: Memory,
    range: Range<usize>,
}

/// Frozen bytes that are looked at without a handle.
pub struct FramesRef<'a> {
    memory: &'a Memory,
    range: Range<usize>,
}

impl<'a> FramesRef<'a> {
    /// Bytes that the buffer of this memory has frozen.
    #[inline]
    pub(crate) fn new(memory: &'a Memory, range: Range<usize>) -> Self {
        Self { memory, range }
    }

    /// A handle to them. Counts one more, which waits for what was written before; one for a run is enough: [`Frames::join`].
    #[must_use]
    pub fn to_frames(&self) -> Frames {
        Frames { memory: self.memory.clone(), range: self.range.clone() }
    }

    /// Whether they lie in [pages](crate::Pages) that have no room for another `bytes` behind them.
    #[inline]
    #[must_use]
    pub fn fill_pages(&self, bytes: usize) -> bool {
        self.memory.is_pages() && self.memory.len() - self.range.end < bytes
    }
}

impl Frames {
    /// Whether `next` lies behind these bytes; then they belong to them from now on.
    #[inline]
    pub fn join(&mut self, next: &FramesRef<'_>) -> bool {
        let is_next = self.range.end == next.range.start && self.memory.is_same(next.memory);
        if is_next {
            self.range.end = next.range.end;
        }
        is_next
    }

    /// Whether they lie in [pages](crate::Pages) that hold nothing else.
    #[must_use]
    pub fn is_pages(&self) -> bool {
        self.memory.is_pages()
    }

    /// They go to somebody else, who reads them where they lie: [`FrameBuffer::take_read`](crate::FrameBuffer::take_read) tells.
    pub fn note_read(&self) {
        self.memory.note_read();
    }

    /// Gives up the first `bytes`.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn advance(&mut self, bytes: usize) {
        assert!(bytes <= self.len(), "{bytes} of {} bytes", self.len());
        self.range.start += bytes;
    }
}

impl Deref for Frames {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: they are frozen, and so written by nobody while there is a handle.
        unsafe { self.memory.bytes(self.range.clone()) }
    }
}

impl AsRef<[u8]> for Frames {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Deref for FramesRef<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: they are frozen, and the buffer that may begin anew is borrowed.
        unsafe { self.memory.bytes(self.range.clone()) }
    }
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.escape_ascii())
    }
}

impl fmt::Debug for FramesRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.escape_ascii())
    }
}
