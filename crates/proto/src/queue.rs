//! What the user has sent and no number has been given to yet.
//!
//! Bytes are copied once, from the user's buffer into a chunk; packets are slices of that chunk. In datagram
//! service messages are cut into packets as they come, so that small ones share the packet that is still open
//! (section 7, "Coalescing"); a stream is cut when it leaves, so that a later change of the MSS still counts.

mod chunks;
mod recut;

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use weft_base::Service;
use weft_wire::records;

use chunks::Chunks;

/// A message of less than this part of a packet is not split: what it leaves open costs less than to join it again.
const SMALL_PART: usize = 2;

/// A data segment that is ready to take a number.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) payload: Bytes,
    pub(crate) eom: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct SendQueue {
    service: Service,
    mss: u16,
    coalesce: bool,
    /// Whether messages may go on in the next packet: the peer announced MESSAGE.
    may_split: bool,
    /// Packets that are complete (datagram), or whole chunks of the stream.
    ready: VecDeque<Outgoing>,
    /// The packet that is still open (datagram), or the end of the stream.
    tail: BytesMut,
    /// Records in the open packet.
    open_records: u16,
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
            ready: VecDeque::new(),
            tail: BytesMut::new(),
            open_records: 0,
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
        if self.tail.len() + records::RECORD_HEAD > usize::from(mss) && self.service == Service::Datagram {
            self.finish_packet();
        }
        self.mss = mss;
        self.chunks = Chunks::default();
        if self.may_split && self.ready.iter().any(|packet| packet.payload.len() > self.mss()) {
            self.cut_again();
        }
    }

    /// Bytes that a packet holds.
    #[inline]
    fn mss(&self) -> usize {
        usize::from(self.mss)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.tail.is_empty()
    }

    /// Bytes that wait, the heads of records included.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Complete packets that wait (datagram), or chunks.
    pub(crate) fn packets(&self) -> usize {
        self.ready.len()
    }

    /// Whether a packet of full size waits, or several.
    pub(crate) fn has_full_packet(&self) -> bool {
        !self.ready.is_empty() || self.tail.len() >= self.mss()
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
        self.retire_tail();
        self.bytes += data.len();
        if self.service == Service::Stream {
            return self.ready.push_back(Outgoing { payload: data, eom: false });
        }
        // [CDP-DG-2] [CDP-DG-4]
        while data.len() > self.mss() {
            self.ready.push_back(Outgoing { payload: data.split_to(self.mss()), eom: false });
        }
        self.ready.push_back(Outgoing { payload: data, eom: true });
    }

    /// The next packet, cut to at most one MSS.
    pub(crate) fn pop(&mut self) -> Option<Outgoing> {
        let outgoing = match self.service {
            Service::Stream => Outgoing { payload: self.pop_bytes()?, eom: false }, // [CDP-STR-2]
            Service::Datagram => {
                if self.ready.is_empty() {
                    self.finish_packet();
                }
                self.ready.pop_front()?
            }
        };
        self.bytes = self.bytes.saturating_sub(outgoing.payload.len());
        Some(outgoing)
    }

    /// Forgets all that waits and tells how many packets that were.
    pub(crate) fn clear(&mut self) -> usize {
        self.finish_packet();
        let packets = match self.service {
            Service::Stream => self.bytes.div_ceil(self.mss()),
            Service::Datagram => self.ready.len(),
        };
        self.ready = VecDeque::new();
        self.tail = BytesMut::new();
        self.chunks.forget();
        self.bytes = 0;
        packets
    }

    /// Nothing is in flight: memory that is held for later is given back.
    pub(crate) fn rest(&mut self) {
        self.chunks.forget();
    }

    fn push_bytes(&mut self, mut data: &[u8]) {
        let mss = self.mss();
        self.bytes += data.len();
        while !data.is_empty() {
            if self.tail.len() == self.tail.capacity() || self.tail.capacity() < mss {
                self.retire_tail();
                self.chunks.replace(&mut self.tail, data.len(), mss);
            }
            let room = self.tail.capacity() - self.tail.len();
            let (now, later) = data.split_at(room.min(data.len()));
            self.tail.extend_from_slice(now);
            data = later;
        }
    }

    fn retire_tail(&mut self) {
        if !self.tail.is_empty() {
            let payload = self.tail.split().freeze();
            self.ready.push_back(Outgoing { payload, eom: false });
        }
    }

    fn pop_bytes(&mut self) -> Option<Bytes> {
        let mss = self.mss();
        if let Some(front) = self.ready.front_mut() {
            let payload = front.payload.split_to(mss.min(front.payload.len()));
            if front.payload.is_empty() {
                self.ready.pop_front();
            }
            return Some(payload);
        }
        // [CDP-STR-3] a stream sender sends no empty data segment
        let len = mss.min(self.tail.len());
        (len > 0).then(|| self.tail.split_to(len).freeze())
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
        self.tail.extend_from_slice(data);
        self.ready.push_back(Outgoing { payload: self.tail.split().freeze(), eom });
        self.bytes += data.len();
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
        if !self.has_room(data.len()) && data.len() <= self.mss() && self.tail.is_empty() {
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
        self.tail.len() + records::RECORD_HEAD + len <= self.mss() && len <= records::RECORD_LEN_MAX
    }

    /// The longest record that there is room for, where there is any.
    fn room(&self) -> usize {
        self.mss().saturating_sub(self.tail.len() + records::RECORD_HEAD).min(records::RECORD_LEN_MAX)
    }

    fn append_record(&mut self, more: bool, data: &[u8]) {
        if self.tail.is_empty() {
            self.reserve(self.mss());
        }
        let fits = records::push_record(&mut self.tail, more, data);
        debug_assert!(fits, "cut to the length of a record before");
        self.open_records += 1;
        self.bytes += records::RECORD_HEAD + data.len();
    }

    fn close_packet(&mut self, eom: bool) {
        self.open_records = 0;
        self.ready.push_back(Outgoing { payload: self.tail.split().freeze(), eom });
    }

    /// Closes the open packet; a message that has it for itself travels plain.
    fn finish_packet(&mut self) {
        if self.service == Service::Stream || self.tail.is_empty() {
            return;
        }
        let is_alone = self.open_records == 1;
        if is_alone {
            self.tail.advance(records::RECORD_HEAD);
            self.bytes -= records::RECORD_HEAD;
        }
        self.close_packet(is_alone);
    }

    fn reserve(&mut self, bytes: usize) {
        debug_assert!(self.tail.is_empty(), "an open packet never moves");
        let mss = self.mss();
        if self.tail.capacity() < bytes {
            self.chunks.replace(&mut self.tail, bytes, mss);
        }
    }
}

#[cfg(test)]
mod tests;
