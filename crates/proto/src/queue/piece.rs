//! What a packet holds: bytes of a chunk, told by three numbers.
//!
//! It holds no reference of its own: one that is counted for every packet takes two instructions that wait for every byte that was
//! written before them.

use std::ops::Range;

use weft_wire::HEADER_LEN;

/// Bytes of a chunk. Good until the chunk is released.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Piece {
    /// The number of the chunk.
    pub(super) chunk: u32,
    pub(super) start: u32,
    pub(super) len: u32,
}

impl Piece {
    /// So many bytes, of no chunk.
    #[cfg(test)]
    pub(crate) fn of_bytes(len: u32) -> Self {
        Self { len, ..Self::default() }
    }

    #[inline]
    pub(crate) fn len(self) -> usize {
        self.len as usize
    }

    /// Where it ends in its chunk.
    #[inline]
    pub(super) fn end(self) -> usize {
        self.start as usize + self.len()
    }

    #[inline]
    pub(super) fn range(self) -> Range<usize> {
        self.start as usize..self.end()
    }

    /// One of as many bytes behind it, with room for a head between the two.
    #[inline]
    pub(crate) fn next(self) -> Self {
        Self { start: self.start + self.len + narrow(HEADER_LEN), ..self }
    }

    /// Takes in the bytes of `next`, which lies behind these.
    #[inline]
    pub(crate) fn join(&mut self, next: Self) {
        debug_assert!(next.chunk == self.chunk && next.start as usize == self.end());
        self.len += next.len;
    }

    /// Cuts off the first `len` bytes.
    pub(super) fn split_to(&mut self, len: usize) -> Self {
        let len = narrow(len).min(self.len);
        let first = Self { len, ..*self };
        self.start += len;
        self.len -= len;
        first
    }
}

/// Chunks have at most [`LENT_MAX`](super::chunks::LENT_MAX) bytes, or those of a packet.
#[inline]
#[allow(clippy::cast_possible_truncation)]
pub(super) fn narrow(bytes: usize) -> u32 {
    debug_assert!(u32::try_from(bytes).is_ok());
    bytes as u32
}
