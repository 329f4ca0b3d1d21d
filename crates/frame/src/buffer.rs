//! The writer's side.

use std::fmt;
use std::ops::Range;

use crate::FramesRef;
use crate::memory::Memory;

/// Memory of a fixed size that is filled from its beginning. Bytes before a mark are frozen: they may be shared and are not
/// written again. The mark only rises.
///
/// An empty one holds no memory.
#[derive(Default)]
pub struct FrameBuffer {
    memory: Option<Memory>,
    len: usize,
    frozen: usize,
}

impl FrameBuffer {
    /// Room for `bytes`, which are zero.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { memory: (bytes > 0).then(|| Memory::zeroed(bytes)), len: 0, frozen: 0 }
    }

    pub(crate) fn of(memory: Memory) -> Self {
        Self { memory: Some(memory), len: 0, frozen: 0 }
    }

    /// Whether the process has more than 64 MiB in buffers of 8 KiB and more, not counting [pages](crate::Pages).
    #[must_use]
    pub fn are_many() -> bool {
        Memory::is_much()
    }

    /// Whether it has [pages](crate::Pages) of its own.
    #[must_use]
    pub fn is_pages(&self) -> bool {
        self.memory.as_ref().is_some_and(Memory::is_pages)
    }

    /// Whether both have such pages, and the system gets those of neither back before those of the other.
    #[must_use]
    pub fn shares_pages(&self, other: &Self) -> bool {
        self.memory.as_ref().zip(other.memory.as_ref()).is_some_and(|(one, other)| one.shares_pages(other))
    }

    /// Whether somebody else has read what lay here, where it lay, since this was asked last ([`Frames::note_read`](crate::Frames::note_read)).
    #[must_use]
    pub fn take_read(&mut self) -> bool {
        self.memory.as_ref().is_some_and(Memory::take_read)
    }

    /// Bytes that there is room for in all.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        self.memory.as_ref().map_or(0, Memory::len)
    }

    /// Bytes that were filled or skipped.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was filled or skipped.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that there is room for behind those.
    #[must_use]
    #[inline]
    pub fn room(&self) -> usize {
        self.capacity() - self.len
    }

    /// Leaves out the next `bytes`, and tells where they begin.
    ///
    /// # Panics
    /// If there is no room for them.
    #[inline]
    pub fn skip(&mut self, bytes: usize) -> usize {
        if bytes > self.room() {
            no_room(bytes, self.room());
        }
        let start = self.len;
        self.len += bytes;
        start
    }

    /// Appends `bytes`.
    ///
    /// # Panics
    /// If there is no room for them.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        let at = self.skip(bytes.len());
        if let Some(memory) = &self.memory {
            // SAFETY: there is room, and what is not frozen is reached by this buffer alone, which is borrowed here as a whole.
            unsafe { memory.write(at, bytes) };
        }
    }

    /// Appends so many bytes, which `fill` writes.
    ///
    /// # Panics
    /// If there is no room for them.
    #[inline]
    pub fn put_by<T>(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8]) -> T) -> T {
        let at = self.skip(bytes);
        match &self.memory {
            // SAFETY: they are there, and what is not frozen is reached by this buffer alone, which is borrowed here as a whole.
            Some(memory) => fill(unsafe { memory.bytes_mut(at..at + bytes) }),
            None => fill(&mut []),
        }
    }

    /// Writes over what begins at `at`.
    ///
    /// # Panics
    /// If some of that is frozen, or not filled.
    #[inline]
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        self.write_by(at, bytes.len(), |to| to.copy_from_slice(bytes));
    }

    /// The same of so many bytes, which `fill` writes.
    ///
    /// # Panics
    /// If some of that is frozen, or not filled.
    #[inline]
    pub fn write_by(&mut self, at: usize, bytes: usize, fill: impl FnOnce(&mut [u8])) {
        let is_there = self.frozen <= at && at <= self.len && bytes <= self.len - at;
        assert!(is_there, "{bytes} bytes at {at}, of {} and {} frozen", self.len, self.frozen);
        if let Some(memory) = &self.memory {
            // SAFETY: as in `put_by`; it lies between what is frozen and the end.
            fill(unsafe { memory.bytes_mut(at..at + bytes) });
        }
    }

    /// These bytes.
    ///
    /// # Panics
    /// If not all of them are filled.
    #[must_use]
    #[inline]
    pub fn get(&self, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} bytes", self.len);
        // SAFETY: they are there, nobody else writes here, and this buffer does not while it is borrowed.
        self.memory.as_ref().map_or(&[], |memory| unsafe { memory.bytes(range) })
    }

    /// Bytes before this place are frozen.
    #[must_use]
    #[inline]
    pub fn frozen(&self) -> usize {
        self.frozen
    }

    /// Nothing is written any more before `end`.
    ///
    /// # Panics
    /// If not all of that is filled.
    #[inline]
    pub fn freeze(&mut self, end: usize) {
        assert!(end <= self.len, "{end} of {} bytes", self.len);
        self.frozen = self.frozen.max(end);
    }

    /// Frozen bytes, to look at or to take a handle to.
    ///
    /// # Panics
    /// If not all of them are frozen, or there are none.
    #[must_use]
    #[inline]
    pub fn frames(&self, range: Range<usize>) -> FramesRef<'_> {
        match &self.memory {
            Some(memory) if range.start < range.end && range.end <= self.frozen => {
                FramesRef::new(memory, range)
            }
            _ => panic!("{range:?} of {} frozen bytes", self.frozen),
        }
    }

    /// Begins anew where nobody holds a handle, and tells whether that is so.
    #[inline]
    pub fn try_clear(&mut self) -> bool {
        let is_free = self.memory.as_ref().is_none_or(Memory::is_only);
        if is_free {
            (self.len, self.frozen) = (0, 0);
        }
        is_free
    }
}

/// A copy in memory of its own.
impl Clone for FrameBuffer {
    fn clone(&self) -> Self {
        let mut copy = Self::with_capacity(self.capacity());
        copy.put(self.get(0..self.len));
        copy.frozen = self.frozen;
        copy
    }
}

impl fmt::Debug for FrameBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.get(0..self.len);
        f.debug_struct("FrameBuffer")
            .field("bytes", &bytes.escape_ascii())
            .field("frozen", &self.frozen)
            .finish()
    }
}

#[cold]
fn no_room(bytes: usize, room: usize) -> ! {
    panic!("{bytes} bytes where there is room for {room}");
}

#[cfg(test)]
mod tests;
