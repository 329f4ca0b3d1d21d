//! Memory for packets that arrive: large chunks, handed out front to back, used again when nobody holds a piece.

use std::mem::MaybeUninit;

use bytes::BytesMut;

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: usize = 64;

/// A source of consecutive bytes that are handed out in pieces without a copy.
///
/// A chunk that has no room left is retired. When a new one is needed, the chunk retired last whose pieces are all
/// gone is taken again, because its lines are the likeliest to be in a cache; only if every retired chunk is still
/// held somewhere is memory allocated, and then the chunk retired first is forgotten (its holders keep it alive).
///
/// Every piece starts on a cache line: the kernel's copy to an unaligned place takes twice as long on some processors
/// (`docs/adr/0003-udp-link.md`).
pub(crate) struct Arena {
    current: BytesMut,
    retired: Vec<BytesMut>,
    chunk_bytes: usize,
    chunks_max: usize,
    /// A chunk was begun since the last [`Arena::rest`].
    is_in_use: bool,
}

impl Arena {
    /// An arena of chunks of `chunk_bytes` that remembers at most `chunks_max` retired ones. Allocates nothing yet.
    pub(crate) fn new(chunk_bytes: usize, chunks_max: usize) -> Self {
        Self { current: BytesMut::new(), retired: Vec::new(), chunk_bytes, chunks_max, is_in_use: false }
    }

    /// At least `need` bytes to write to; `need` is at most the chunk size.
    pub(crate) fn spare(&mut self, need: usize) -> &mut [MaybeUninit<u8>] {
        if self.current.capacity() < need {
            self.next_chunk();
        }
        self.current.spare_capacity_mut()
    }

    /// How many bytes [`Arena::spare`] may be asked for without going to another chunk.
    pub(crate) fn room(&self) -> usize {
        self.current.capacity()
    }

    /// The first `len` bytes of what [`Arena::spare`] gave.
    ///
    /// # Safety
    /// The first `len` bytes of the slice that the last call of [`Arena::spare`] returned have been written.
    pub(crate) unsafe fn take(&mut self, len: usize) -> BytesMut {
        let next = len.next_multiple_of(LINE_BYTES).min(self.current.capacity());
        let rest = self.current.split_off(next);
        let mut piece = std::mem::replace(&mut self.current, rest);
        // SAFETY: the caller wrote these bytes, and `spare` gave no more than there was.
        unsafe { piece.set_len(len) };
        piece
    }

    /// How many chunks are retired.
    #[inline]
    pub(crate) fn retired(&self) -> usize {
        self.retired.len()
    }

    /// Frees retired chunks that nobody holds, but for `kept`; false, and none is freed, if one was begun since the last call.
    pub(crate) fn rest(&mut self, mut kept: usize) -> bool {
        if std::mem::take(&mut self.is_in_use) {
            return false;
        }
        let wanted = self.chunk_bytes + LINE_BYTES;
        self.retired.retain_mut(|chunk| {
            if !chunk.try_reclaim(wanted) {
                return true;
            }
            let is_kept = kept > 0;
            kept = kept.saturating_sub(1);
            is_kept
        });
        true
    }

    /// A copy of `pieces` laid end to end.
    pub(crate) fn copy(&mut self, pieces: &[&[u8]]) -> BytesMut {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        if len > self.chunk_bytes {
            return pieces.concat()[..].into();
        }
        if self.current.capacity() < len {
            self.next_chunk();
        }
        for piece in pieces {
            self.current.extend_from_slice(piece);
        }
        self.current.split()
    }

    #[cold]
    fn next_chunk(&mut self) {
        self.is_in_use = true;
        let spent = std::mem::take(&mut self.current);
        if spent.capacity() > 0 {
            if self.retired.len() == self.chunks_max {
                self.retired.remove(0);
            }
            self.retired.push(spent);
        }
        let wanted = self.chunk_bytes + LINE_BYTES;
        let free = self.retired.iter_mut().rposition(|chunk| chunk.try_reclaim(wanted));
        let mut chunk = match free {
            Some(index) => self.retired.remove(index),
            None => BytesMut::with_capacity(wanted),
        };
        let unaligned = chunk.spare_capacity_mut().as_ptr().align_offset(LINE_BYTES);
        self.current = chunk.split_off(unaligned.min(LINE_BYTES));
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
    fn what_is_taken_starts_on_a_cache_line_and_holds_what_was_written() {
        let mut arena = Arena::new(1 << 10, 2);
        let mut held = Vec::new();
        for (len, byte) in (0..).zip(0u8..100) {
            arena.spare(100)[..len].fill(MaybeUninit::new(byte));
            // SAFETY: `len` bytes have just been written.
            held.push(unsafe { arena.take(len) });
        }
        for (len, bytes) in held.iter().enumerate() {
            assert_eq!(bytes.len(), len);
            assert!(bytes.iter().all(|&byte| usize::from(byte) == len));
            assert!(len == 0 || (bytes.as_ptr() as usize).is_multiple_of(LINE_BYTES));
        }
    }

    #[test]
    fn a_chunk_nobody_holds_is_used_again() {
        // No two pieces fit into one chunk, however that is aligned.
        let mut arena = Arena::new(1 << 10, 2);
        let first = arena.copy(&[&[1; 600]]);
        let home = first.as_ptr();
        drop(first);
        for _ in 0..10 {
            assert_eq!(arena.copy(&[&[2; 600]]).as_ptr(), home);
        }
    }

    #[test]
    fn a_chunk_somebody_holds_is_left_alone() {
        let mut arena = Arena::new(64, 2);
        let held: Vec<BytesMut> = (0..8).map(|n| arena.copy(&[&[n; 60]])).collect();
        for (n, bytes) in (0u8..).zip(&held) {
            assert!(bytes.iter().all(|&byte| byte == n));
        }
        assert_eq!(arena.retired.len(), 2);
    }

    #[test]
    fn after_a_rest_chunks_that_nobody_holds_are_given_back() {
        let mut arena = Arena::new(100, 8);
        let mut held: Vec<BytesMut> = (0..8).map(|n| arena.copy(&[&[n; 100]])).collect();
        held.truncate(2);
        assert_eq!(arena.retired.len(), 7);
        assert!(!arena.rest(3), "it was in use until now");
        assert_eq!(arena.retired.len(), 7);
        assert!(arena.rest(3));
        assert_eq!(arena.retired.len(), 2 + 3, "those that somebody holds, and as many as are to be kept");
        assert_eq!((&held[0][..], &held[1][..]), (&[0; 100][..], &[1; 100][..]));
        assert!(arena.rest(3));
        assert_eq!(arena.retired.len(), 2 + 3);
    }

    #[test]
    fn more_than_a_chunk_is_copied_too() {
        let mut arena = Arena::new(64, 2);
        assert_eq!(arena.copy(&[&[7; 100], &[8; 5]]).len(), 105);
    }
}
