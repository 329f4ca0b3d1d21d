//! Memory for packets that arrive: large chunks, handed out front to back, used again when nobody holds a piece.

use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};

/// A source of consecutive bytes that become [`Bytes`] without a copy.
///
/// A chunk that has no room left is retired. When a new one is needed, the chunk retired last whose pieces are all
/// gone is taken again, because its lines are the likeliest to be in a cache; only if every retired chunk is still
/// held somewhere is memory allocated, and then the chunk retired first is forgotten (its holders keep it alive).
pub(crate) struct Arena {
    current: BytesMut,
    retired: Vec<BytesMut>,
    chunk_bytes: usize,
    chunks_max: usize,
}

impl Arena {
    /// An arena of chunks of `chunk_bytes` that remembers at most `chunks_max` retired ones. Allocates nothing yet.
    pub(crate) fn new(chunk_bytes: usize, chunks_max: usize) -> Self {
        Self { current: BytesMut::new(), retired: Vec::new(), chunk_bytes, chunks_max }
    }

    /// At least `need` bytes to write to; `need` is at most the chunk size.
    pub(crate) fn spare(&mut self, need: usize) -> &mut [MaybeUninit<u8>] {
        if self.current.capacity() < need {
            self.next_chunk();
        }
        self.current.spare_capacity_mut()
    }

    /// The first `len` bytes of what [`Arena::spare`] gave.
    ///
    /// # Safety
    /// The first `len` bytes of the slice that the last call of [`Arena::spare`] returned have been written.
    pub(crate) unsafe fn take(&mut self, len: usize) -> Bytes {
        debug_assert!(len <= self.current.capacity());
        // SAFETY: the caller wrote these bytes, and `spare` gave no more than the capacity.
        unsafe { self.current.set_len(len) };
        self.current.split().freeze()
    }

    /// A copy of `pieces` laid end to end.
    pub(crate) fn copy(&mut self, pieces: &[&[u8]]) -> Bytes {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        if len > self.chunk_bytes {
            return pieces.concat().into();
        }
        if self.current.capacity() < len {
            self.next_chunk();
        }
        for piece in pieces {
            self.current.extend_from_slice(piece);
        }
        self.current.split().freeze()
    }

    #[cold]
    fn next_chunk(&mut self) {
        let spent = std::mem::take(&mut self.current);
        if spent.capacity() > 0 {
            if self.retired.len() == self.chunks_max {
                self.retired.remove(0);
            }
            self.retired.push(spent);
        }
        let wanted = self.chunk_bytes;
        let free = self.retired.iter_mut().rposition(|chunk| chunk.try_reclaim(wanted));
        self.current = match free {
            Some(index) => self.retired.remove(index),
            None => BytesMut::with_capacity(wanted),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_hold_what_was_copied_and_lie_behind_each_other() {
        let mut arena = Arena::new(64, 2);
        let (first, second) = (arena.copy(&[b"head", b"body"]), arena.copy(&[b"next"]));
        assert_eq!((&first[..], &second[..]), (&b"headbody"[..], &b"next"[..]));
        assert_eq!(first.as_ptr() as usize + first.len(), second.as_ptr() as usize);
    }

    #[test]
    fn a_chunk_nobody_holds_is_used_again() {
        let mut arena = Arena::new(64, 2);
        let first = arena.copy(&[&[1; 60]]);
        let home = first.as_ptr();
        drop(first);
        for _ in 0..10 {
            assert_eq!(arena.copy(&[&[2; 60]]).as_ptr(), home);
        }
    }

    #[test]
    fn a_chunk_somebody_holds_is_left_alone() {
        let mut arena = Arena::new(64, 2);
        let held: Vec<Bytes> = (0..8).map(|n| arena.copy(&[&[n; 60]])).collect();
        for (n, bytes) in (0u8..).zip(&held) {
            assert!(bytes.iter().all(|&byte| byte == n));
        }
        assert_eq!(arena.retired.len(), 2);
    }

    #[test]
    fn more_than_a_chunk_is_copied_too() {
        let mut arena = Arena::new(64, 2);
        assert_eq!(arena.copy(&[&[7; 100], &[8; 5]]).len(), 105);
    }
}
