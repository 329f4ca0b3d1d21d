//! The memory that what is sent is copied to: chunks of whole packets, used again when the peer has acknowledged all in them.

use bytes::BytesMut;

/// Bytes of the largest chunk; one allocation for some 44 packets of 1472 bytes.
const CHUNK_BYTES: usize = 64 << 10;
/// Spent chunks that are kept for use again: 2 MiB, as much as is in flight on a fast path.
const SPENT_MAX: usize = 32;

/// Where fresh chunks come from. A chunk that is used again has its lines in a cache and its pages mapped.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunks {
    /// Chunks of the largest size without room, in the order in which they were filled.
    spent: Vec<BytesMut>,
    /// The size of the last one.
    size: usize,
}

impl Chunks {
    /// A chunk with room for whole packets of `mss` bytes, in place of `spent`; for `bytes` of them, but no more than
    /// [`CHUNK_BYTES`]. Each is twice the one before, so that a quiet connection holds little.
    pub(super) fn replace(&mut self, spent: &mut BytesMut, bytes: usize, mss: usize) {
        let whole = |bytes: usize| bytes.div_ceil(mss) * mss;
        let most = (CHUNK_BYTES / mss).max(1) * mss;
        let size = whole(bytes.max(self.size * 2)).min(most).max(bytes.min(mss));
        let last = std::mem::replace(&mut self.size, size);
        let free = self.spent.iter_mut().rposition(|chunk| chunk.try_reclaim(size));
        let fresh = match free {
            Some(at) => self.spent.remove(at),
            None => BytesMut::with_capacity(size),
        };
        let spent = std::mem::replace(spent, fresh);
        if last < most {
            return;
        }
        if self.spent.len() == SPENT_MAX {
            self.spent.remove(0);
        }
        self.spent.push(spent);
    }

    /// Holds no memory any more.
    pub(super) fn forget(&mut self) {
        self.spent = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: usize = 1_000;
    const FULL: usize = CHUNK_BYTES / MSS * MSS;

    /// A chunk of the largest size in place of the last, filled with `byte`.
    fn fill(chunks: &mut Chunks, tail: &mut BytesMut, byte: u8) -> BytesMut {
        chunks.replace(tail, FULL, MSS);
        assert_eq!((tail.len(), tail.capacity()), (0, FULL));
        tail.resize(FULL, byte);
        tail.split()
    }

    #[test]
    fn chunks_grow_from_one_packet_to_the_largest() {
        let (mut chunks, mut tail) = (Chunks::default(), BytesMut::new());
        let mut sizes = Vec::new();
        for _ in 0..9 {
            chunks.replace(&mut tail, 1, MSS);
            sizes.push(tail.capacity() / MSS);
        }
        assert_eq!(sizes, [1, 2, 4, 8, 16, 32, 64, 65, 65]);
        chunks.replace(&mut BytesMut::new(), 10 * FULL, MSS);
        assert_eq!(chunks.size, FULL);
    }

    #[test]
    fn a_chunk_is_used_again_once_nobody_holds_a_piece() {
        let (mut chunks, mut tail) = (Chunks::default(), BytesMut::new());
        let mut held: Vec<BytesMut> = (0..4).map(|byte| fill(&mut chunks, &mut tail, byte)).collect();
        let homes: Vec<_> = held.iter().map(|piece| piece.as_ptr()).collect();
        let piece = held[1].split_to(MSS);
        held.truncate(1);
        let again: Vec<BytesMut> = (4..7).map(|byte| fill(&mut chunks, &mut tail, byte)).collect();
        assert_eq!(again[0].as_ptr(), homes[2], "the fourth was not spent yet");
        assert_eq!(again[1].as_ptr(), homes[3]);
        assert!(!homes.contains(&again[2].as_ptr()), "the others are held");
        assert!(piece.iter().all(|&byte| byte == 1) && held[0].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn so_many_are_kept_and_none_after_a_rest() {
        let (mut chunks, mut tail) = (Chunks::default(), BytesMut::new());
        let held: Vec<BytesMut> = (0..100).map(|byte| fill(&mut chunks, &mut tail, byte)).collect();
        assert_eq!(chunks.spent.len(), SPENT_MAX);
        chunks.forget();
        assert_eq!(chunks.spent.capacity(), 0);
        drop(held);
    }
}
