//! How packets are filled: with bytes of the stream, with messages that have one or several to themselves, with records.

use weft_wire::{BodySum, records};

use super::{Outgoing, SMALL_PART, SendQueue};

#[allow(clippy::cast_possible_truncation)] // it is 2
const RECORD_HEAD: u32 = records::RECORD_HEAD as u32;

/// What comes in this size at once is summed up while it is copied: below, many small sums take longer than one large.
const SUMMED_BYTES_MIN: usize = 256;

impl SendQueue {
    /// Bytes of the open packet.
    #[inline]
    pub(super) fn open_len(&self) -> usize {
        (self.chunks.end() - self.open) as usize
    }

    /// Bytes that it may have.
    #[inline]
    pub(super) fn open_max(&self) -> usize {
        usize::from(self.open_max)
    }

    /// [CDP-STR-2] [CDP-STR-3] A stream sender sends EOM=0, and no empty data segment. These are some of `coming` bytes.
    pub(super) fn push_bytes(&mut self, mut data: &[u8], coming: usize) {
        while !data.is_empty() {
            if self.open_len() == 0 {
                self.reserve(self.mss(), data.len(), coming);
            }
            let room = self.open_max() - self.open_len();
            let (now, later) = data.split_at(data.len().min(room));
            self.append(now, coming);
            if now.len() == room {
                self.close_packet(false);
            }
            data = later;
        }
    }

    /// [CDP-DG-2] [CDP-DG-4] EOM=1 on the only or last part, EOM=0 on those before. Until the packets have `most` bytes; tells how many
    /// bytes of the message that were.
    pub(super) fn push_plain(&mut self, data: &[u8], most: usize) -> usize {
        // [CDP-DG-5] parts fill their packets, and the last part is not empty unless the message is
        let (parts, last) = data.split_at(data.len().saturating_sub(1) / self.mss() * self.mss());
        let mut taken = 0;
        for part in parts.chunks(self.mss()) {
            if taken >= most {
                return taken;
            }
            self.push_packet(part, data.len(), false);
            taken += part.len();
        }
        self.push_packet(last, data.len(), true);
        data.len()
    }

    /// A packet of its own for some of the `coming` bytes of a message.
    pub(super) fn push_packet(&mut self, data: &[u8], coming: usize, eom: bool) {
        self.reserve(data.len(), data.len(), coming);
        self.append(data, coming);
        self.close_packet(eom);
    }

    /// [CDP-COA-1] to [CDP-COA-4]: small messages as records, a full one plain, a long one in records with MORE.
    ///
    /// A message that is too long for what is left of the open packet begins there and goes on in the next, unless it is
    /// small. So messages of any size come to full packets: their rate is set by bytes, and the kernel cuts equal ones.
    pub(super) fn push_record(&mut self, data: &[u8]) {
        let len = data.len();
        if self.has_room(len) {
            return self.append_record(false, data, len);
        }
        if !self.may_split || len < self.mss() / SMALL_PART || !self.has_room(1) {
            self.finish_packet();
        }
        self.push_records(data, usize::MAX);
    }

    /// A message, or the rest of one, in records, until these have `most` bytes and fill their packets; tells how many bytes of it that were.
    #[inline(never)] // what a packet has room for does not get here
    pub(super) fn push_records(&mut self, message: &[u8], most: usize) -> usize {
        let (coming, mut data) = (message.len(), message);
        if !self.has_room(1) {
            self.finish_packet();
        }
        while !self.has_room(data.len()) {
            if coming - data.len() >= most {
                return coming - data.len();
            }
            if data.len() <= self.mss() && (self.open_len() == 0 || data.len() <= self.room()) {
                // [CDP-DG-4] the message, or its last part, whose record would have no room, or be too long to tell its length
                self.finish_packet();
                self.push_packet(data, coming, true);
                return coming;
            }
            // [CDP-DG-5] a part fills its packet, and what follows it is not empty
            let (part, rest) = data.split_at(self.room());
            self.append_record(true, part, coming);
            self.close_packet(false);
            data = rest;
        }
        self.append_record(false, data, coming);
        coming
    }

    /// Whether the open packet, or a fresh one, has room for a record of `len` bytes that ends a message, and its head.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.open_len() + records::RECORD_HEAD + len <= self.open_max() && len <= records::RECORD_LEN_MAX
    }

    /// The longest record of a message that goes on that there is room for, where there is any.
    pub(super) fn room(&self) -> usize {
        self.open_max().saturating_sub(self.open_len() + records::RECORD_HEAD)
    }

    /// A record of some of the `coming` bytes of a message.
    #[inline(always)]
    pub(super) fn append_record(&mut self, more: bool, data: &[u8], coming: usize) {
        if self.open_len() == 0 {
            self.reserve(self.mss(), records::RECORD_HEAD + data.len(), coming);
        }
        let head = records::record_head(more, data.len());
        debug_assert!(head.is_some(), "cut to the length of a record before");
        self.append(&head.unwrap_or_default(), records::RECORD_HEAD);
        self.append(data, coming);
        self.open_records += 1;
    }

    /// Appends a piece of the `coming` bytes that came at once.
    #[inline(always)] // for small messages, of which a call would be a tenth of the cost
    fn append(&mut self, bytes: &[u8], coming: usize) {
        self.bytes += bytes.len();
        match self.open_sum {
            None => self.chunks.put(bytes),
            Some(sum) => self.append_to(sum, bytes, coming),
        }
    }

    /// Pieces of what is large are summed up on their way, as the heads of records are; a packet that has others is summed up when
    /// it leaves.
    #[inline(never)]
    fn append_to(&mut self, sum: BodySum, bytes: &[u8], coming: usize) {
        if coming >= SUMMED_BYTES_MIN || bytes.len() == records::RECORD_HEAD {
            self.open_sum = Some(self.chunks.put_summed(bytes, sum));
        } else {
            self.open_sum = None;
            self.chunks.put(bytes);
        }
    }

    pub(super) fn close_packet(&mut self, eom: bool) {
        self.open_records = 0;
        let piece = self.chunks.tail_from(self.open);
        self.ready.push_back(Outgoing { piece, eom, sum: self.open_sum.take() });
        self.open = self.chunks.end();
        self.open_max = self.mss;
    }

    /// Closes the open packet; a message that has it for itself travels plain.
    pub(super) fn finish_packet(&mut self) {
        if self.open_len() == 0 {
            return;
        }
        let is_alone = self.open_records == 1;
        if is_alone {
            self.open += RECORD_HEAD;
            self.open_sum = None;
            self.bytes -= records::RECORD_HEAD;
        }
        self.close_packet(is_alone);
    }

    /// Room for an open packet of `bytes`, or for as many as come, and for its head, where the `rest` of `coming` bytes that came at
    /// once follow: it never moves.
    #[inline]
    fn reserve(&mut self, bytes: usize, rest: usize, coming: usize) {
        debug_assert!(self.open_len() == 0, "an open packet never moves");
        #[allow(clippy::cast_possible_truncation)] // at most the MSS
        let room = self.chunks.reserve(bytes, rest, coming, self.mss()) as u16;
        self.open_max = room;
        self.open = self.chunks.end();
        self.open_sum = (coming >= SUMMED_BYTES_MIN && self.is_summed).then(BodySum::default);
    }

    /// [CDP-DG-4] EOM=0 in all parts but the last.
    pub(super) fn cut_plain(&mut self, Outgoing { mut piece, eom, .. }: Outgoing) {
        while piece.len() > self.mss() {
            self.ready.push_back(Outgoing::new(piece.split_to(self.mss()), false));
        }
        self.ready.push_back(Outgoing::new(piece, eom));
    }
}
