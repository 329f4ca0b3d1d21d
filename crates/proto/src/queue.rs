//! What the user has sent: in packets that have a number yet or none, until the peer has acknowledged it.
//!
//! Bytes are copied once, from the user's buffer into a chunk; packets are pieces of that chunk. In datagram
//! service messages are cut into packets as they come, so that small ones share the packet that is still open
//! (section 7, "Coalescing"); a stream is cut when it leaves, so that a later change of the MSS still counts.

mod chunks;
mod recut;

use std::collections::VecDeque;

use bytes::Bytes;
use weft_base::Service;
use weft_wire::records;

use crate::connection::INLINE_BYTES;
use chunks::{Chunks, LENT_MAX};

pub(crate) use chunks::Piece;

#[allow(clippy::cast_possible_truncation)] // it is 2
const RECORD_HEAD: u32 = records::RECORD_HEAD as u32;
/// A message of less than this part of a packet is not split: what it leaves open costs less than to join it again.
const SMALL_PART: usize = 2;

/// A data segment that is ready to take a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) piece: Piece,
    pub(crate) eom: bool,
}

/// A place in a chunk.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    chunk: u32,
    at: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct SendQueue {
    service: Service,
    mss: u16,
    coalesce: bool,
    /// Whether messages may go on in the next packet: the peer announced MESSAGE.
    may_split: bool,
    /// Records in the open packet.
    open_records: u16,
    /// Packets that are complete (datagram).
    ready: VecDeque<Outgoing>,
    /// Where the packet begins that is still open, in the chunk that is being filled (datagram), or what has no number of the
    /// stream.
    open: Mark,
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
            open_records: 0,
            ready: VecDeque::new(),
            open: Mark::default(),
            bytes: 0,
            chunks: Chunks::default(),
        }
    }

    /// What the open agreed on.
    pub(crate) fn configure(&mut self, mss: u16, coalesce: bool, may_split: bool) {
        self.may_split = may_split;
        self.mss = mss;
        // [CDP-STR-4] COALESCE is ignored in stream service
        self.coalesce = coalesce && self.service == Service::Datagram;
    }

    /// From now on packets are cut to `mss` bytes; those that wait and are longer are cut again.
    pub(crate) fn set_mss(&mut self, mss: u16) {
        if self.service == Service::Datagram && self.open_len() + records::RECORD_HEAD > usize::from(mss) {
            self.finish_packet();
        }
        self.mss = mss;
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

    /// Whether a packet of full size waits, or several.
    pub(crate) fn has_full_packet(&self) -> bool {
        match self.service {
            // what ends a full chunk is as full as it gets
            Service::Stream => {
                self.bytes >= self.mss() || self.bytes > self.chunks.tail_len() - self.unsent_at()
            }
            Service::Datagram => !self.ready.is_empty() || self.open_len() >= self.mss(),
        }
    }

    /// Takes a copy of `data`: one message, or bytes of the stream.
    pub(crate) fn push(&mut self, data: &[u8]) {
        match self.service {
            Service::Stream => self.push_bytes(data),
            Service::Datagram if self.coalesce => self.push_record(data),
            Service::Datagram => self.push_plain(data),
        }
    }

    /// As [`SendQueue::push`], and keeps `data` itself unless it is better copied: where it would share a packet with others.
    pub(crate) fn push_lent(&mut self, mut data: Bytes) {
        let is_plain = self.service == Service::Stream || !self.coalesce || data.len() <= self.mss();
        if data.len() < self.mss() / SMALL_PART || !is_plain {
            return self.push(&data);
        }
        self.finish_packet();
        self.bytes += data.len();
        let most = (LENT_MAX / self.mss()).max(1) * self.mss();
        while !data.is_empty() {
            let piece = self.chunks.lend(data.split_to(data.len().min(most)));
            if self.service == Service::Datagram {
                self.cut_plain(Outgoing { piece, eom: data.is_empty() });
            }
        }
        if self.service == Service::Datagram {
            self.open = self.end();
        }
    }

    /// The next packet, cut to at most one MSS.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Outgoing> {
        let outgoing = match self.service {
            Service::Stream => Outgoing { piece: self.pop_bytes()?, eom: false }, // [CDP-STR-2]
            Service::Datagram => {
                if self.ready.is_empty() {
                    self.finish_packet();
                }
                self.ready.pop_front()?
            }
        };
        self.bytes = self.bytes.saturating_sub(outgoing.piece.len());
        Some(outgoing)
    }

    /// The bytes of a packet that was popped and is not acknowledged.
    #[inline]
    pub(crate) fn get(&self, piece: Piece) -> &[u8] {
        self.chunks.get(piece)
    }

    /// A handle to these bytes.
    pub(crate) fn share(&self, piece: Piece) -> Bytes {
        self.chunks.share(piece)
    }

    /// A piece without bytes behind all that lies here.
    pub(crate) fn nothing(&self) -> Piece {
        self.chunks.tail_from(self.end().at)
    }

    /// What lies before `oldest`, or before what was not popped if nothing is in flight, has been acknowledged.
    #[inline]
    pub(crate) fn release(&mut self, oldest: Option<Piece>) {
        let waiting = || self.ready.front().map_or(self.open.chunk, |packet| packet.piece.chunk);
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
        self.open = Mark::default();
        self.chunks = Chunks::default();
        self.bytes = 0;
        packets
    }

    /// Nothing is in flight: memory that is held for later is given back.
    pub(crate) fn rest(&mut self) {
        if self.is_empty() {
            self.chunks.rest();
            self.open = self.end();
        }
    }

    /// Behind all that lies here.
    fn end(&self) -> Mark {
        #[allow(clippy::cast_possible_truncation)] // chunks are small
        Mark { chunk: self.chunks.tail_number(), at: self.chunks.tail_len() as u32 }
    }

    /// Bytes of the open packet.
    #[inline]
    fn open_len(&self) -> usize {
        self.chunks.tail_len() - self.open.at as usize
    }

    fn push_bytes(&mut self, mut data: &[u8]) {
        let mss = self.mss();
        self.bytes += data.len();
        while !data.is_empty() {
            let capacity = self.chunks.tail_capacity();
            if self.chunks.tail_len() == capacity || capacity - self.unsent_at() < mss {
                self.chunks.begin(data.len(), mss);
            }
            let room = self.chunks.tail_capacity() - self.chunks.tail_len();
            let (now, later) = data.split_at(room.min(data.len()));
            self.chunks.tail().extend_from_slice(now);
            data = later;
        }
    }

    /// Where the bytes of the stream begin, in the chunk that is being filled, that have no number.
    fn unsent_at(&self) -> usize {
        if self.open.chunk == self.chunks.tail_number() { self.open.at as usize } else { 0 }
    }

    /// [CDP-STR-3] A stream sender sends no empty data segment.
    fn pop_bytes(&mut self) -> Option<Piece> {
        let tail = self.chunks.tail_number();
        let mut left = self.chunks.len_of(self.open.chunk) - self.open.at as usize;
        while left == 0 {
            if self.open.chunk == tail {
                return None;
            }
            self.open = Mark { chunk: self.open.chunk.wrapping_add(1), at: 0 };
            left = self.chunks.len_of(self.open.chunk);
        }
        let piece = self.chunks.piece(self.open.chunk, self.open.at, left.min(self.mss()));
        self.open.at += piece.len;
        if self.open.chunk == tail {
            self.seal_if_large(piece);
        }
        Some(piece)
    }

    /// A packet that leaves from where it lies is not to move.
    fn seal_if_large(&mut self, piece: Piece) {
        if piece.len() > INLINE_BYTES {
            self.chunks.seal(piece.end());
            self.open = Mark { chunk: self.chunks.tail_number(), at: 0 };
        }
    }

    /// [CDP-DG-2] [CDP-DG-4] EOM=1 on the only or last part, EOM=0 on those before.
    fn push_plain(&mut self, data: &[u8]) {
        // [CDP-DG-5] parts fill their packets, and the last part is not empty unless the message is
        let (parts, last) = data.split_at(data.len().saturating_sub(1) / self.mss() * self.mss());
        for part in parts.chunks(self.mss()) {
            self.push_packet(part, false);
        }
        self.push_packet(last, true);
    }

    fn push_packet(&mut self, data: &[u8], eom: bool) {
        self.reserve(data.len());
        self.chunks.tail().extend_from_slice(data);
        self.bytes += data.len();
        self.close_packet(eom);
    }

    /// [CDP-COA-1] to [CDP-COA-4]: small messages as records, a full one plain, a long one in records with MORE.
    ///
    /// A message that is too long for what is left of the open packet begins there and goes on in the next, unless it is
    /// small. So messages of any size come to full packets: their rate is set by bytes, and the kernel cuts equal ones.
    fn push_record(&mut self, mut data: &[u8]) {
        let is_small = !self.may_split || data.len() < self.mss() / SMALL_PART;
        if !self.has_room(data.len()) && (is_small || !self.has_room(1)) {
            self.finish_packet();
        }
        if !self.has_room(data.len()) && data.len() <= self.mss() && self.open_len() == 0 {
            return self.push_packet(data, true);
        }
        while !self.has_room(data.len()) {
            // [CDP-DG-5] a part fills its packet, and what follows it is not empty
            let (part, rest) = data.split_at(self.room());
            self.append_record(true, part);
            self.close_packet(false);
            data = rest;
        }
        self.append_record(false, data);
    }

    /// Whether the open packet, or a fresh one, has room for a record of `len` bytes and its head.
    fn has_room(&self, len: usize) -> bool {
        self.open_len() + records::RECORD_HEAD + len <= self.mss() && len <= records::RECORD_LEN_MAX
    }

    /// The longest record that there is room for, where there is any.
    fn room(&self) -> usize {
        self.mss().saturating_sub(self.open_len() + records::RECORD_HEAD).min(records::RECORD_LEN_MAX)
    }

    fn append_record(&mut self, more: bool, data: &[u8]) {
        if self.open_len() == 0 {
            self.reserve(self.mss());
        }
        let fits = records::push_record(self.chunks.tail(), more, data);
        debug_assert!(fits, "cut to the length of a record before");
        self.open_records += 1;
        self.bytes += records::RECORD_HEAD + data.len();
    }

    fn close_packet(&mut self, eom: bool) {
        self.open_records = 0;
        let piece = self.chunks.tail_from(self.open.at);
        self.ready.push_back(Outgoing { piece, eom });
        self.open = self.end();
        self.seal_if_large(piece);
    }

    /// Closes the open packet; a message that has it for itself travels plain.
    fn finish_packet(&mut self) {
        if self.service == Service::Stream || self.open_len() == 0 {
            return;
        }
        let is_alone = self.open_records == 1;
        if is_alone {
            self.open.at += RECORD_HEAD;
            self.bytes -= records::RECORD_HEAD;
        }
        self.close_packet(is_alone);
    }

    /// Room for `bytes` of an open packet, which never moves.
    fn reserve(&mut self, bytes: usize) {
        debug_assert!(self.open_len() == 0, "an open packet never moves");
        if self.chunks.tail_capacity() - self.chunks.tail_len() < bytes {
            self.chunks.begin(bytes, self.mss());
        }
        self.open = self.end();
    }

    /// [CDP-DG-4] EOM=0 in all parts but the last.
    fn cut_plain(&mut self, Outgoing { mut piece, eom }: Outgoing) {
        while piece.len() > self.mss() {
            self.ready.push_back(Outgoing { piece: piece.split_to(self.mss()), eom: false });
        }
        self.ready.push_back(Outgoing { piece, eom });
    }
}

#[cfg(test)]
mod tests;
