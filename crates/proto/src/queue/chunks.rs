//! The memory that what is sent lies in until it is acknowledged: chunks of whole packets, filled one after the other and used
//! again when the peer has acknowledged all in them, and buffers that were lent.
//!
//! A packet is a [`Piece`], three numbers. It holds no reference of its own: one that is counted for every packet takes two
//! instructions that wait for every byte that was written before them.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Bytes of the largest chunk; one allocation for some 44 packets of 1472 bytes.
const CHUNK_BYTES: usize = 64 << 10;
/// Spent chunks that are kept for use again: 2 MiB, as much as is in flight on a fast path.
const SPENT_MAX: usize = 32;
/// Bytes of the largest chunk that is lent; tests lend more than one.
pub(super) const LENT_MAX: usize = if cfg!(test) { 1 << 10 } else { 1 << 30 };

/// Bytes of a chunk. Good until the chunk is released.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Piece {
    /// The number of the chunk.
    pub(super) chunk: u32,
    pub(super) start: u32,
    pub(super) len: u32,
}

impl Piece {
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.len as usize
    }

    /// Where it ends in its chunk.
    #[inline]
    pub(super) fn end(self) -> usize {
        self.start as usize + self.len()
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

/// A chunk that nothing is added to.
#[derive(Clone, Debug)]
struct Full {
    bytes: Bytes,
    is_lent: bool,
}

/// Chunks by number, in the order in which they are acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunks {
    /// The one that is being filled.
    tail: BytesMut,
    /// The number of the first one; that of the one that is being filled follows those of the full ones.
    first: u32,
    /// The size of the last one.
    size: u32,
    /// An end that is idle has none.
    others: Option<Box<Others>>,
}

/// Chunks that are not being filled.
#[derive(Clone, Debug, Default)]
struct Others {
    full: VecDeque<Full>,
    /// Of the largest size, without room or without anything in them.
    spent: Vec<BytesMut>,
}

impl Others {
    fn keep(&mut self, chunk: BytesMut) {
        if self.spent.len() == SPENT_MAX {
            self.spent.remove(0);
        }
        self.spent.push(chunk);
    }

    fn reclaim(&mut self, size: usize) -> Option<BytesMut> {
        let at = self.spent.iter_mut().rposition(|chunk| chunk.try_reclaim(size))?;
        Some(self.spent.remove(at))
    }
}

impl Chunks {
    /// The chunk that is being filled.
    #[inline]
    pub(super) fn tail(&mut self) -> &mut BytesMut {
        &mut self.tail
    }

    #[inline]
    pub(super) fn tail_number(&self) -> u32 {
        #[allow(clippy::cast_possible_truncation)]
        // each holds a byte at least, and 2^30 numbers are in flight at most
        self.first.wrapping_add(self.others.as_ref().map_or(0, |others| others.full.len()) as u32)
    }

    #[inline]
    pub(super) fn tail_len(&self) -> usize {
        self.tail.len()
    }

    #[inline]
    pub(super) fn tail_capacity(&self) -> usize {
        self.tail.capacity()
    }

    /// What lies behind the first `start` bytes of the chunk that is being filled.
    #[inline]
    pub(super) fn tail_from(&self, start: u32) -> Piece {
        Piece { chunk: self.tail_number(), start, len: narrow(self.tail.len()) - start }
    }

    /// `len` bytes from `start` on, which lie in that chunk.
    #[inline]
    pub(super) fn piece(&self, chunk: u32, start: u32, len: usize) -> Piece {
        debug_assert!(start as usize + len <= self.len_of(chunk));
        Piece { chunk, start, len: narrow(len) }
    }

    /// Bytes in a chunk that was not released.
    #[inline]
    pub(super) fn len_of(&self, chunk: u32) -> usize {
        self.full_at(chunk).map_or(self.tail.len(), |full| full.bytes.len())
    }

    #[inline]
    pub(super) fn get(&self, piece: Piece) -> &[u8] {
        let range = piece.start as usize..piece.end();
        match self.full_at(piece.chunk) {
            Some(full) => &full.bytes[range],
            None => &self.tail[range],
        }
    }

    /// A handle to the bytes of a piece, which may outlive it. Copies those of the chunk that is being filled.
    pub(super) fn share(&self, piece: Piece) -> Bytes {
        match self.full_at(piece.chunk) {
            Some(full) => full.bytes.slice(piece.start as usize..piece.end()),
            None => Bytes::copy_from_slice(self.get(piece)),
        }
    }

    #[inline]
    fn full_at(&self, chunk: u32) -> Option<&Full> {
        self.others.as_ref()?.full.get(chunk.wrapping_sub(self.first) as usize)
    }

    /// Begins a chunk with room for whole packets of `mss` bytes; for `bytes` of them, but no more than [`CHUNK_BYTES`]. Each is
    /// twice the one before, so that a quiet connection holds little.
    pub(super) fn begin(&mut self, bytes: usize, mss: usize) {
        let whole = |bytes: usize| bytes.div_ceil(mss) * mss;
        let most = (CHUNK_BYTES / mss).max(1) * mss;
        let size = whole(bytes.max(self.size as usize * 2)).min(most).max(bytes.min(mss));
        let was_largest = std::mem::replace(&mut self.size, narrow(size)) as usize == most;
        let fresh = self.others.as_mut().and_then(|others| others.reclaim(size));
        let done = std::mem::replace(&mut self.tail, fresh.unwrap_or_else(|| BytesMut::with_capacity(size)));
        if !done.is_empty() {
            self.push_full(done.freeze(), false);
        } else if was_largest {
            self.others.get_or_insert_default().keep(done);
        }
    }

    fn push_full(&mut self, bytes: Bytes, is_lent: bool) {
        self.others.get_or_insert_default().full.push_back(Full { bytes, is_lent });
    }

    /// Nothing is added any more behind the first `end` bytes of the chunk that is being filled; those behind them begin the next.
    pub(super) fn seal(&mut self, end: usize) {
        if end > 0 {
            let sealed = self.tail.split_to(end).freeze();
            self.push_full(sealed, false);
        }
    }

    /// Puts in `data`, at most [`LENT_MAX`] bytes, without a copy, behind all that lies here.
    pub(super) fn lend(&mut self, data: Bytes) -> Piece {
        self.seal(self.tail.len());
        let piece = Piece { chunk: self.tail_number(), start: 0, len: narrow(data.len()) };
        self.push_full(data, true);
        piece
    }

    /// Nobody asks for chunks before the one with the number `to` any more.
    #[inline]
    pub(super) fn release(&mut self, to: u32) {
        while self.first != to
            && let Some(others) = &mut self.others
            && let Some(full) = others.full.pop_front()
        {
            self.first = self.first.wrapping_add(1);
            // of what is still on its way somewhere else, or was lent, no more is known here
            if !full.is_lent
                && let Ok(mut chunk) = full.bytes.try_into_mut()
                && chunk.capacity() == self.size as usize
            {
                chunk.clear();
                others.keep(chunk);
            }
        }
    }

    /// Nobody asks for anything that lies here: the chunk that is being filled is filled from its beginning again, and no other
    /// memory is held.
    pub(super) fn rest(&mut self) {
        self.first = self.tail_number();
        self.tail.clear();
        self.others = None;
    }

    /// Packets have another size from now on.
    pub(super) fn forget_size(&mut self) {
        if let Some(others) = &mut self.others {
            others.spent = Vec::new();
        }
        self.size = 0;
    }
}

/// Chunks have at most [`LENT_MAX`] bytes, or those of a packet.
#[inline]
#[allow(clippy::cast_possible_truncation)]
fn narrow(bytes: usize) -> u32 {
    debug_assert!(u32::try_from(bytes).is_ok());
    bytes as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: usize = 1_000;
    const FULL: usize = CHUNK_BYTES / MSS * MSS;

    /// Begins a chunk of the largest size and fills it with `byte`.
    fn fill(chunks: &mut Chunks, byte: u8) -> Piece {
        chunks.begin(FULL, MSS);
        assert_eq!((chunks.tail_len(), chunks.tail_capacity()), (0, FULL));
        chunks.tail().resize(FULL, byte);
        chunks.tail_from(0)
    }

    fn home(chunks: &Chunks, piece: Piece) -> *const u8 {
        chunks.get(piece).as_ptr()
    }

    #[test]
    fn chunks_grow_from_one_packet_to_the_largest() {
        let mut chunks = Chunks::default();
        let mut sizes = Vec::new();
        for _ in 0..9 {
            chunks.begin(1, MSS);
            sizes.push(chunks.tail_capacity() / MSS);
            chunks.tail().resize(MSS, 0);
        }
        assert_eq!(sizes, [1, 2, 4, 8, 16, 32, 64, 65, 65]);
        chunks.begin(10 * FULL, MSS);
        assert_eq!(chunks.tail_capacity(), FULL);
    }

    #[test]
    fn a_piece_is_what_was_written_until_its_chunk_is_released() {
        let mut chunks = Chunks::default();
        let pieces: Vec<Piece> = (0..5).map(|byte| fill(&mut chunks, byte)).collect();
        let all_are = |chunks: &Chunks, from: u8| {
            (from..5).all(|byte| chunks.get(pieces[usize::from(byte)]).iter().all(|&is| is == byte))
        };
        assert!(all_are(&chunks, 0));
        chunks.release(pieces[3].chunk);
        assert_eq!(chunks.others.as_ref().unwrap().full.len(), 1);
        fill(&mut chunks, 9);
        assert!(all_are(&chunks, 3));
    }

    #[test]
    fn a_chunk_is_used_again_once_it_is_released_and_nobody_shares_it() {
        let mut chunks = Chunks::default();
        let pieces: Vec<Piece> = (0..4).map(|byte| fill(&mut chunks, byte)).collect();
        let homes: Vec<_> = pieces.iter().map(|&piece| home(&chunks, piece)).collect();
        let shared = chunks.share(pieces[1]);
        chunks.release(pieces[3].chunk);
        let mut refill = |byte| {
            let piece = fill(&mut chunks, byte);
            home(&chunks, piece)
        };
        let again = [4, 5, 6].map(&mut refill);
        assert_eq!(again[..2], [homes[2], homes[0]], "the last first");
        assert!(!homes.contains(&again[2]), "one is shared, and one is not released");
        assert!(shared.iter().all(|&byte| byte == 1));
    }

    #[test]
    fn what_is_sealed_keeps_its_number_and_the_rest_begins_the_next() {
        let mut chunks = Chunks::default();
        fill(&mut chunks, 1);
        let mut all = chunks.tail_from(0);
        let first = all.split_to(MSS);
        chunks.seal(first.len());
        assert_eq!((chunks.tail_number(), chunks.tail_len()), (first.chunk.wrapping_add(1), FULL - MSS));
        assert!(chunks.get(first).iter().all(|&byte| byte == 1));
        assert!(chunks.full_at(first.chunk).is_some(), "it can be shared");
    }

    #[test]
    fn lent_bytes_lie_between_what_was_written_before_and_after() {
        let mut chunks = Chunks::default();
        chunks.begin(FULL, MSS);
        chunks.tail().extend_from_slice(b"before");
        let before = chunks.tail_from(0);
        let lent = chunks.lend(Bytes::from_static(b"lent"));
        chunks.tail().extend_from_slice(b"after");
        let after = chunks.tail_from(0);
        assert_eq!([before, lent, after].map(|piece| chunks.get(piece)), [&b"before"[..], b"lent", b"after"]);
        assert_eq!([before, lent, after].map(|piece| piece.chunk), [0, 1, 2]);
        chunks.release(after.chunk);
        assert!(
            chunks.others.unwrap().spent.is_empty(),
            "of the first chunk a part is in use, and lent bytes are not ours"
        );
    }

    #[test]
    fn so_many_are_kept_and_none_after_a_rest() {
        let mut chunks = Chunks::default();
        (0..100).for_each(|byte| _ = fill(&mut chunks, byte));
        chunks.release(chunks.tail_number());
        assert_eq!(chunks.others.as_ref().unwrap().spent.len(), SPENT_MAX);
        let number = chunks.tail_number();
        chunks.rest();
        assert!(chunks.others.is_none());
        assert_eq!((chunks.tail_number(), chunks.tail_len(), chunks.tail_capacity()), (number, 0, FULL));
    }
}
