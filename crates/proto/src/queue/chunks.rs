//! The memory that what is sent lies in until it is acknowledged: chunks of whole packets with room for a head before each,
//! filled one after the other and used again when the peer has acknowledged all in them, and buffers that were lent.

use std::collections::VecDeque;

use bytes::Bytes;
use weft_frame::{FrameBuffer, FramesRef, Pages};
use weft_wire::emit::Head;
use weft_wire::{BodySum, HEADER_LEN};

use super::piece::{Piece, narrow};
use spent::Spent;

/// Bytes of the largest chunk; one allocation for some 44 packets of 1472 bytes.
const CHUNK_BYTES: usize = 64 << 10;
/// Bytes of the smallest, unless a packet has fewer: a connection that says little holds no room for a large packet.
const CHUNK_BYTES_MIN: usize = 2 << 10;
/// Packets from this size on lie in pages that hold nothing else, so that the link may leave them there for who receives them, if they
/// are sealed: a copy that comes late, of a packet that was acknowledged, is read while the pages are filled anew. Smaller ones of a stream do
/// where they are many: those that fill a chunk leave as one. Messages end in packets of other sizes, so that few do (decision 0094).
const PAGED_BYTES: usize = 32 << 10;
/// Bytes that come at once from which on they do. Of fewer there must have been enough to fill half a large packet before (decision 0075):
/// a connection that says little does not hold pages for it.
const PAGED_COMING: usize = 4 << 10;
/// The chunk from which on they do, 16 MiB where all are large: to take pages and to give them back takes two to thirty times as long as to
/// fill them, by their size, so it is for those that are used many times (decisions 0067, 0074); tests have few.
const PAGED_FROM: u32 = if cfg!(test) { 8 } else { 256 };
/// Bytes of the largest chunk that is lent; tests lend more than one.
pub(super) const LENT_MAX: usize = if cfg!(test) { 1 << 10 } else { 1 << 30 };

mod spent;

/// A chunk that nothing is added to.
#[derive(Clone, Debug)]
enum Full {
    Own(FrameBuffer),
    Lent(Bytes),
}

/// Chunks by number, in the order in which they are acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunks {
    /// The one that is being filled.
    tail: FrameBuffer,
    /// The number of the first one; that of the one that is being filled follows those of the full ones.
    first: u32,
    /// Bytes of the last one.
    bytes: u32,
    /// Whether large packets may lie in pages, and whether small ones may.
    pages_large: bool,
    pages_small: bool,
    /// Chunks that were begun since that was put off.
    begun: u32,
    /// An end that has been idle for long has none.
    others: Option<Box<Others>>,
}

/// Chunks that are not being filled.
#[derive(Clone, Debug, Default)]
struct Others {
    full: VecDeque<Full>,
    /// Those whose packets are acknowledged.
    spent: Spent,
}

impl Chunks {
    /// Packets have a checksum or not, and are those of a stream or not.
    pub(super) fn configure(&mut self, is_sealed: bool, is_stream: bool) {
        (self.pages_large, self.pages_small) = (is_sealed, is_sealed && is_stream);
    }

    /// Appends to the chunk that is being filled, where there is room.
    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.tail.put(bytes);
    }

    /// The same, and goes on with the sum of what was appended before.
    #[inline]
    pub(super) fn put_summed(&mut self, bytes: &[u8], sum: BodySum) -> BodySum {
        self.tail.put_by(bytes.len(), |to| sum.copy(bytes, to))
    }

    #[inline]
    pub(super) fn tail_number(&self) -> u32 {
        #[allow(clippy::cast_possible_truncation)]
        // each holds a byte at least, and 2^30 numbers are in flight at most
        self.first.wrapping_add(self.others.as_ref().map_or(0, |others| others.full.len()) as u32)
    }

    /// Where the chunk that is being filled is filled to.
    #[inline]
    pub(super) fn end(&self) -> u32 {
        narrow(self.tail.len())
    }

    /// What lies behind the first `start` bytes of the chunk that is being filled.
    #[inline]
    pub(super) fn tail_from(&self, start: u32) -> Piece {
        Piece { chunk: self.tail_number(), start, len: self.end() - start }
    }

    #[inline]
    pub(super) fn get(&self, piece: Piece) -> &[u8] {
        let range = piece.range();
        match self.full_at(piece.chunk) {
            Some(Full::Own(chunk)) => chunk.get(range),
            Some(Full::Lent(bytes)) => &bytes[range],
            None => self.tail.get(range),
        }
    }

    /// A handle to the bytes of a piece that was lent, which may outlive it.
    pub(super) fn lent(&self, piece: Piece) -> Option<Bytes> {
        match self.full_at(piece.chunk) {
            Some(Full::Lent(bytes)) => Some(bytes.slice(piece.range())),
            Some(Full::Own(_)) | None => None,
        }
    }

    /// Writes `head` before a piece and returns both, which are not written again; `None` where there is no room: what lies there
    /// has left, or leaves before the piece.
    #[inline]
    pub(super) fn lay_head(&mut self, piece: Piece, head: &[u8; HEADER_LEN]) -> Option<Piece> {
        let chunk = self.own_mut(piece.chunk)?;
        let start =
            (piece.start as usize).checked_sub(HEADER_LEN).filter(|&start| chunk.frozen() <= start)?;
        chunk.write(start, head);
        chunk.freeze(piece.end());
        Some(Piece { start: narrow(start), len: piece.len + narrow(HEADER_LEN), ..piece })
    }

    /// The same for pieces that lie one behind the other, as large as `first` all of them, each with the head that `heads` makes
    /// for its bytes, as long as it makes one. Returns all that was laid, behind what has left.
    #[inline]
    pub(super) fn lay_heads(
        &mut self,
        first: Piece,
        mut heads: impl FnMut(Piece, &[u8]) -> Option<Head>,
    ) -> Piece {
        let mut frame = Piece { start: first.start - narrow(HEADER_LEN), len: 0, ..first };
        let Some(chunk) = self.own_mut(first.chunk) else { return frame };
        let mut piece = first;
        while piece.end() <= chunk.len()
            && let Some(head) = heads(piece, chunk.get(piece.range()))
        {
            chunk.write_by(frame.end(), HEADER_LEN, |to| {
                if let Some(to) = to.first_chunk_mut() {
                    head.write(to);
                }
            });
            frame.len += narrow(HEADER_LEN) + piece.len;
            piece = piece.next();
        }
        chunk.freeze(frame.end());
        frame
    }

    /// Nothing is written any more before the end of a piece.
    #[inline]
    pub(super) fn freeze(&mut self, piece: Piece) {
        if let Some(chunk) = self.own_mut(piece.chunk) {
            chunk.freeze(piece.end());
        }
    }

    /// What [`Chunks::lay_head`] returned, to leave from where it lies.
    #[inline]
    pub(super) fn frame(&self, frame: Piece) -> Option<FramesRef<'_>> {
        self.own(frame.chunk).map(|chunk| chunk.frames(frame.range()))
    }

    #[inline]
    fn full_at(&self, chunk: u32) -> Option<&Full> {
        self.others.as_ref()?.full.get(chunk.wrapping_sub(self.first) as usize)
    }

    /// A chunk that is not lent.
    #[inline]
    fn own(&self, chunk: u32) -> Option<&FrameBuffer> {
        match self.full_at(chunk) {
            Some(Full::Own(chunk)) => Some(chunk),
            Some(Full::Lent(_)) => None,
            None => Some(&self.tail),
        }
    }

    #[inline]
    fn own_mut(&mut self, chunk: u32) -> Option<&mut FrameBuffer> {
        let at = chunk.wrapping_sub(self.first) as usize;
        match self.others.as_mut().and_then(|others| others.full.get_mut(at)) {
            Some(Full::Own(chunk)) => Some(chunk),
            Some(Full::Lent(_)) => None,
            None => Some(&mut self.tail),
        }
    }

    /// Leaves room for a head, and has room behind it for a packet of `bytes`, or for the `rest` of `coming` bytes that came at once.
    /// Returns for how many, at most `mss`.
    ///
    /// Where there is none a chunk is begun, for that rest, and twice as large as the one before: so a quiet connection holds little. Of
    /// whole packets of `mss` bytes it is at most [`CHUNK_BYTES`]; one that is smaller than a packet need not hold more than the rest.
    #[inline]
    pub(super) fn reserve(&mut self, bytes: usize, rest: usize, coming: usize, mss: usize) -> usize {
        let is_there = self.tail.room() >= HEADER_LEN + bytes;
        let bytes = if is_there { bytes } else { self.reserve_rest(rest, coming, mss) };
        self.tail.skip(HEADER_LEN);
        bytes
    }

    /// Room for the rest, in what is left of a chunk that is smaller than a packet, or in a new one.
    fn reserve_rest(&mut self, rest: usize, coming: usize, mss: usize) -> usize {
        let is_small = self.tail.capacity() < HEADER_LEN + mss;
        if !is_small || self.tail.room() < HEADER_LEN + rest {
            self.begin(rest, coming, mss);
        }
        mss.min(self.tail.room() - HEADER_LEN)
    }

    #[cold]
    fn begin(&mut self, rest: usize, coming: usize, mss: usize) {
        let packet = HEADER_LEN + mss;
        let most = (CHUNK_BYTES / packet).max(1);
        let doubled = 2 * self.bytes as usize;
        let (is_much, is_whole) = (coming >= PAGED_COMING, most * packet <= doubled.max(rest));
        let is_wanted = if packet >= PAGED_BYTES {
            self.pages_large && (is_much || is_whole)
        } else {
            self.pages_small && is_much && is_whole
        };
        let in_pages = is_wanted && self.may_have_pages();
        self.begun = self.begun.saturating_add(1);
        let is_part = rest < mss && !in_pages;
        let wanted = if is_part { HEADER_LEN + rest } else { rest.div_ceil(mss).max(1) * packet };
        let size = wanted.max(doubled).max(CHUNK_BYTES_MIN);
        let size = if size < packet { size } else { (size / packet).min(most) * packet };
        self.bytes = narrow(size);
        let chunk = if in_pages {
            self.others.get_or_insert_default().spent.in_pages(size)
        } else {
            let again = self.others.as_mut().and_then(|others| others.spent.reclaim(size));
            again.unwrap_or_else(|| FrameBuffer::with_capacity(size))
        };
        self.fill(chunk);
    }

    /// From now on `chunk` is filled.
    fn fill(&mut self, chunk: FrameBuffer) {
        let done = std::mem::replace(&mut self.tail, chunk);
        if !done.is_empty() {
            self.others.get_or_insert_default().full.push_back(Full::Own(done));
        }
    }

    /// Puts in `data`, at most [`LENT_MAX`] bytes, without a copy, behind all that lies here.
    pub(super) fn lend(&mut self, data: Bytes) -> Piece {
        // what follows is not known to be much
        self.bytes = 0;
        self.fill(FrameBuffer::default());
        let piece = Piece { chunk: self.tail_number(), start: 0, len: narrow(data.len()) };
        self.others.get_or_insert_default().full.push_back(Full::Lent(data));
        piece
    }

    /// Nobody asks for chunks before the one with the number `to` any more.
    #[inline]
    pub(super) fn release(&mut self, to: u32) {
        let may_have_pages = self.may_have_pages();
        while self.first != to
            && let Some(others) = &mut self.others
            && let Some(full) = others.full.pop_front()
        {
            self.first = self.first.wrapping_add(1);
            if let Full::Own(chunk) = full
                && chunk.capacity() == self.tail.capacity()
                && (may_have_pages || !chunk.is_pages())
            {
                others.spent.keep(chunk);
            }
        }
    }

    fn may_have_pages(&self) -> bool {
        self.begun > PAGED_FROM
    }

    /// As many chunks go by before some lie in pages as when the connection was new.
    pub(super) fn put_off_pages(&mut self) {
        self.begun = 0;
        if let Some(others) = &mut self.others {
            others.spent.forget_pages();
        }
    }

    /// Nobody asks for anything that lies here: the chunk that is being filled is filled from its beginning again, unless the link
    /// still holds it, and so are those before it, but for some where the process has many (decision 0089).
    pub(super) fn rest(&mut self, are_many: bool) {
        self.first = self.tail_number();
        if !self.tail.try_clear() {
            self.tail = FrameBuffer::default();
        }
        self.others = self.others.take().and_then(|mut others| {
            others.full.clear();
            others.spent.rest(are_many, Pages::are_scarce());
            (!others.spent.is_empty()).then_some(others)
        });
    }

    /// The rest was long: all memory goes back.
    pub(super) fn forget(&mut self) {
        if self.others.as_ref().is_none_or(|others| others.full.is_empty()) {
            self.others = None;
            if self.tail.is_empty() {
                (self.tail, self.bytes) = (FrameBuffer::default(), 0);
            }
        }
    }

    /// Bytes of the chunk that is being filled.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.tail.capacity()
    }

    /// Chunks in pages that are held at rest.
    #[cfg(test)]
    pub(super) fn pages(&self) -> usize {
        self.others.as_ref().map_or(0, |others| others.spent.paged()) + usize::from(self.tail.is_pages())
    }

    /// Packets have another size from now on.
    pub(super) fn forget_size(&mut self) {
        if let Some(others) = &mut self.others {
            others.spent.forget_size();
        }
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests;
