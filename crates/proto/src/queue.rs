//! What the user has sent: in packets that have a number yet or none, until the peer has acknowledged it.
//!
//! Bytes are copied once, from the user's buffer into a chunk, where room for a head is left before each packet: they leave
//! from there. Packets are filled as bytes come, so that small messages share the one that is still open (section 7,
//! "Coalescing"), as do small sends of a stream. What waits when the MSS falls is cut once more.

mod alike;
mod chunks;
mod fill;
mod piece;
mod recut;

use std::collections::VecDeque;

use bytes::Bytes;
use weft_base::Service;
use weft_frame::{FrameBuffer, FramesRef};
use weft_wire::records::RECORD_HEAD;
use weft_wire::{BodySum, HEADER_LEN};

use chunks::{Chunks, LENT_MAX};

pub(crate) use piece::Piece;

/// A message of less than this part of a packet is not split: what it leaves open costs less than to join it again.
const SMALL_PART: usize = 2;

/// Packets that a queue has room to list after a long rest.
const READY_KEPT: usize = 8;

/// A data segment that is ready to take a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) piece: Piece,
    pub(crate) eom: bool,
    /// That of the piece, if it was summed up as it was copied.
    pub(crate) sum: Option<BodySum>,
}

impl Outgoing {
    /// A packet whose sum is not known.
    pub(crate) fn new(piece: Piece, eom: bool) -> Self {
        Self { piece, eom, sum: None }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct SendQueue {
    service: Service,
    mss: u16,
    coalesce: bool,
    /// Whether messages may go on in the next packet: the peer announced MESSAGE.
    may_split: bool,
    /// The rest of the message that came last is still to come.
    is_mid_message: bool,
    /// Records in the open packet.
    open_records: u16,
    /// Packets that are complete; of a stream they may be longer than one, if they were lent or the MSS has fallen.
    ready: VecDeque<Outgoing>,
    /// Where the packet begins that is still open, in the chunk that is being filled.
    open: u32,
    /// Bytes that it may have: where the chunk has less room than a packet, fewer than others.
    open_max: u16,
    /// The sum of what it holds, unless some of that was copied without.
    open_sum: Option<BodySum>,
    /// Large pieces are summed up as they are copied.
    is_summed: bool,
    bytes: usize,
    chunks: Chunks,
}

impl SendQueue {
    pub(crate) fn new(service: Service, mss: u16) -> Self {
        Self {
            service,
            mss,
            coalesce: false,
            may_split: false,
            is_mid_message: false,
            open_records: 0,
            ready: VecDeque::new(),
            open: 0,
            open_max: mss,
            open_sum: None,
            is_summed: false,
            bytes: 0,
            chunks: Chunks::default(),
        }
    }

    /// What the open agreed on.
    pub(crate) fn configure(&mut self, mss: u16, coalesce: bool, may_split: bool, is_sealed: bool) {
        self.chunks.configure(is_sealed, self.service == Service::Stream);
        self.is_summed = is_sealed && BodySum::is_cheap();
        self.may_split = may_split;
        (self.mss, self.open_max) = (mss, mss);
        // [CDP-STR-4] COALESCE is ignored in stream service
        self.coalesce = coalesce && self.service == Service::Datagram;
    }

    /// From now on packets are cut to `mss` bytes; those that wait and are longer are cut again.
    pub(crate) fn set_mss(&mut self, mss: u16) {
        // there is room for a packet of the old size
        self.finish_packet();
        (self.mss, self.open_max) = (mss, mss);
        self.chunks.forget_size();
        if self.may_split && self.ready.iter().any(|packet| packet.piece.len() > self.mss()) {
            self.cut_again();
        }
    }

    /// Bytes that a packet holds.
    #[inline]
    fn mss(&self) -> usize {
        usize::from(self.mss)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // an empty message waits in no byte
        self.bytes == 0 && self.ready.is_empty()
    }

    /// Bytes that wait, the heads of records included.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Complete packets that wait (datagram).
    pub(crate) fn packets(&self) -> usize {
        self.ready.len()
    }

    /// Whether a packet waits to which nothing is added.
    pub(crate) fn has_full_packet(&self) -> bool {
        !self.ready.is_empty() || self.open_len() >= self.open_max()
    }

    /// Whether nothing waits, and a packet has room for so many bytes.
    #[inline]
    pub(crate) fn takes_whole(&self, bytes: usize) -> bool {
        self.is_empty() && bytes <= self.mss() && !self.is_mid_message
    }

    /// Bytes of a message that the packets have which fill `bytes`, or that one of them has.
    pub(crate) fn full_bytes(&self, bytes: usize) -> usize {
        let each = if self.coalesce { self.mss().saturating_sub(RECORD_HEAD) } else { self.mss() };
        (bytes / (HEADER_LEN + self.mss())).max(1) * each
    }

    /// Whether the rest of a message is still to come: nothing else goes behind it.
    #[inline]
    pub(crate) fn is_mid_message(&self) -> bool {
        self.is_mid_message
    }

    /// Takes a copy of `data`: one message, or bytes of the stream.
    pub(crate) fn push(&mut self, data: &[u8]) {
        self.push_some(data, data.len());
    }

    /// The same, where these are the first of `coming` bytes, and the rest comes when there is room.
    pub(crate) fn push_some(&mut self, data: &[u8], coming: usize) {
        match self.service {
            Service::Stream => self.push_bytes(data, coming),
            Service::Datagram if self.coalesce => self.push_record(data),
            Service::Datagram => {
                self.push_plain(data, usize::MAX);
            }
        }
    }

    /// Takes a copy of a message, or of the rest of one, in full packets until those have `most` bytes; tells how many bytes of it
    /// that were.
    pub(crate) fn push_part(&mut self, data: &[u8], most: usize) -> usize {
        let taken = if self.coalesce { self.push_records(data, most) } else { self.push_plain(data, most) };
        self.is_mid_message = taken < data.len();
        taken
    }

    /// As [`SendQueue::push`], and keeps `data` itself unless it is better copied: where it would share a packet with others.
    pub(crate) fn push_lent(&mut self, mut data: Bytes) {
        let is_plain = self.service == Service::Stream || !self.coalesce || data.len() <= self.mss();
        if data.len() < self.mss() / SMALL_PART || !is_plain {
            return self.push(&data);
        }
        match self.service {
            Service::Stream => self.push_lent_bytes(data),
            Service::Datagram => {
                self.finish_packet();
                self.bytes += data.len();
                while !data.is_empty() {
                    let piece = self.lend_some(&mut data);
                    self.cut_plain(Outgoing::new(piece, data.is_empty()));
                }
            }
        }
    }

    /// Full packets are lent. What fills the one that is open, and what fills none, is copied, so that none is short.
    fn push_lent_bytes(&mut self, mut data: Bytes) {
        let coming = data.len();
        let to_fill = if self.open_len() > 0 { self.open_max() - self.open_len() } else { 0 };
        self.push_bytes(&data.split_to(to_fill.min(coming)), coming);
        let rest = data.split_off(data.len() / self.mss() * self.mss());
        self.bytes += data.len();
        while !data.is_empty() {
            let piece = self.lend_some(&mut data);
            self.ready.push_back(Outgoing::new(piece, false));
        }
        self.push_bytes(&rest, coming);
    }

    /// Puts in as many full packets of `data` as a chunk may have. No packet is open.
    fn lend_some(&mut self, data: &mut Bytes) -> Piece {
        debug_assert!(self.open_len() == 0, "an open packet never moves");
        let most = (LENT_MAX / self.mss()).max(1) * self.mss();
        let piece = self.chunks.lend(data.split_to(data.len().min(most)));
        self.open = self.chunks.end();
        piece
    }

    /// The next packet, of a stream at most one MSS.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Outgoing> {
        if self.ready.is_empty() {
            self.finish_packet();
        }
        let mss = self.mss();
        let first = self.ready.front_mut()?;
        let outgoing = if self.service == Service::Stream && first.piece.len() > mss {
            first.sum = None;
            Outgoing::new(first.piece.split_to(mss), false)
        } else {
            self.ready.pop_front()?
        };
        self.bytes = self.bytes.saturating_sub(outgoing.piece.len());
        Some(outgoing)
    }

    /// The bytes of a packet that was popped and is not acknowledged.
    #[inline]
    pub(crate) fn get(&self, piece: Piece) -> &[u8] {
        self.chunks.get(piece)
    }

    /// A handle to these bytes, if they were lent.
    pub(crate) fn lent(&self, piece: Piece) -> Option<Bytes> {
        self.chunks.lent(piece)
    }

    /// Lays the head before a packet that leaves for the first time, and which stays as it is from then on; returns both, or
    /// `None` where there is no room.
    #[inline]
    pub(crate) fn lay_head(&mut self, piece: Piece, head: &[u8; HEADER_LEN]) -> Option<Piece> {
        self.chunks.lay_head(piece, head)
    }

    /// A packet leaves as a copy: no head is laid over it.
    #[inline]
    pub(crate) fn freeze(&mut self, piece: Piece) {
        self.chunks.freeze(piece);
    }

    /// What [`SendQueue::lay_head`] has made.
    #[inline]
    pub(crate) fn frame(&self, frame: Piece) -> Option<FramesRef<'_>> {
        self.chunks.frame(frame)
    }

    /// A piece without bytes behind all that lies here.
    pub(crate) fn nothing(&self) -> Piece {
        self.chunks.tail_from(self.chunks.end())
    }

    /// What lies before `oldest`, or before what was not popped if nothing is in flight, has been acknowledged.
    #[inline]
    pub(crate) fn release(&mut self, oldest: Option<Piece>) {
        let waiting = || self.ready.front().map_or(self.chunks.tail_number(), |packet| packet.piece.chunk);
        let first = oldest.map_or_else(waiting, |piece| piece.chunk);
        self.chunks.release(first);
    }

    /// Forgets all that waits and is in flight and tells how many packets waited.
    pub(crate) fn clear(&mut self) -> usize {
        self.finish_packet();
        let packets = match self.service {
            Service::Stream => self.bytes.div_ceil(self.mss()),
            Service::Datagram => self.ready.len(),
        };
        self.ready = VecDeque::new();
        self.is_mid_message = false;
        self.open = 0;
        self.chunks = Chunks::default();
        self.bytes = 0;
        packets
    }

    /// Nothing is in flight: memory is used from its beginning again, or given back where the process has much.
    pub(crate) fn rest(&mut self) {
        if self.is_empty() {
            let are_many = FrameBuffer::are_many();
            self.chunks.rest(are_many);
            if are_many {
                self.shorten_list();
            }
            self.open = self.chunks.end();
        }
    }

    /// As many chunks as a connection fills before there are pages for it go by without again.
    pub(crate) fn put_off_pages(&mut self) {
        self.chunks.put_off_pages();
    }

    /// Some time has passed: memory that was kept for more is given back, if nothing waits. Nothing is in flight.
    pub(crate) fn rest_longer(&mut self) {
        if self.is_empty() {
            self.chunks.forget();
            self.shorten_list();
            self.open = self.chunks.end();
        }
    }

    fn shorten_list(&mut self) {
        if self.ready.capacity() > READY_KEPT {
            self.ready.shrink_to(READY_KEPT);
        }
    }

    /// Chunks in pages that are held.
    #[cfg(test)]
    pub(crate) fn pages(&self) -> usize {
        self.chunks.pages()
    }
}

#[cfg(test)]
mod tests;
