//! What has arrived in order and the user has not read yet.
//!
//! A packet of records is kept as it came and taken apart while the user reads, so that a packet costs one entry
//! however many messages it carries. An entry gives its slots back when its last message has been read.

mod ahead;
mod read;
mod records;
mod rules;

use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use weft_base::Service;
use weft_wire::records::record_at;
use weft_wire::{Reason, Segments};

use crate::message::Message;
pub(crate) use rules::Rules;

/// Packets that may lie here before those that came alone are copied.
const LENT_MAX: u32 = 16;
/// Bytes from the end of one data segment to the next where both came together: a head, and what it takes to begin on a cache line.
const APART_MAX: u32 = 256;

/// What `recv` gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)] // no two fields that a caller would read as one: together they wait until what was just written has left for the cache
pub struct Received {
    /// Bytes written to the buffer.
    pub len: usize,
    /// The peer has closed and everything has been read; `len` is 0.
    pub end_of_file: bool,
    /// Bytes of the message that did not fit and are lost, as with `recv(2)` on a datagram socket.
    pub truncated: usize,
}

#[derive(Clone, Debug)]
enum Entry {
    /// One message in one packet, or a packet of the stream.
    Packet(Bytes),
    /// Packets of the stream that came together.
    Packets(Segments),
    /// A message of several packets, but for what a reader has of it ahead of its end.
    Assembled { message: Message, slots: u32 },
    /// Whole records of one packet; none of them has MORE. No slot of their own where the packet ends with the beginning of another
    /// message, which has it.
    Records { payload: Bytes, slots: u32 },
}

/// The parts of a message that have come, and in how many packets.
#[derive(Clone, Debug, Default)]
struct Open {
    message: Message,
    packets: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Inbox {
    rules: Rules,
    entries: VecDeque<Entry>,
    /// The message whose end has not come. Behind a pointer, as few connections have one.
    open: Option<Box<Open>>,
    slots_used: u32,
    /// Bytes that a reader has of the next message, which is one of several packets; they are no more among its parts.
    ahead: u32,
    /// Bytes of messages of several packets, finished or not.
    message_bytes: usize,
    /// Where the last data segment ended, as it came; modulo 2^32.
    last_end: u32,
}

impl Inbox {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            entries: VecDeque::new(),
            open: None,
            slots_used: 0,
            ahead: 0,
            message_bytes: 0,
            last_end: 0,
        }
    }

    pub(crate) fn set_coalesce(&mut self, coalesce: bool) {
        // [CDP-STR-4] COALESCE is ignored in stream service
        self.rules.coalesce = coalesce && self.rules.service == Service::Datagram;
    }

    /// Slots that unread packets hold.
    pub(crate) fn slots_used(&self) -> u32 {
        self.slots_used
    }

    /// Bytes of messages of several packets that lie here beyond `slots` packets of up to `packet_bytes`: their parts have left
    /// their slots (CDP-DG-7).
    #[inline]
    pub(crate) fn bytes_beyond(&self, slots: u32, packet_bytes: u16) -> usize {
        if self.message_bytes == 0 {
            return 0;
        }
        let beyond = self.packets().saturating_sub(slots) as usize;
        beyond.saturating_mul(packet_bytes.into()).min(self.message_bytes)
    }

    /// Packets that lie here, open parts included.
    #[inline]
    fn packets(&self) -> u32 {
        self.slots_used + self.open.as_ref().map_or(0, |open| open.packets)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether what is read next came in one packet. Of a stream all that is there is read.
    #[inline]
    pub(crate) fn is_next_short(&self) -> bool {
        match self.entries.front() {
            None => true,
            Some(Entry::Records { .. }) => true,
            Some(Entry::Packet(_)) => !self.is_stream(),
            Some(Entry::Packets(_) | Entry::Assembled { .. }) => false,
        }
    }

    /// Takes the next data segment in order, which [`Inbox::check`] has passed.
    pub(crate) fn push(&mut self, eom: bool, payload: Bytes) -> Result<(), Reason> {
        let payload = self.settle(payload);
        match self.rules.service {
            Service::Stream => {
                // [CDP-STR-3] an empty data segment is acknowledged and otherwise ignored
                if !payload.is_empty() {
                    self.push_entry(Entry::Packet(payload), 1);
                }
                Ok(())
            }
            Service::Datagram if eom => self.push_last_part(payload),
            Service::Datagram if self.rules.coalesce => self.push_records(payload),
            Service::Datagram => self.push_part(payload),
        }
    }

    /// Takes data segments of the stream that came together, behind the one that was taken last.
    pub(crate) fn push_segments(&mut self, segments: Segments) {
        // [CDP-STR-3] see above
        if segments.bytes() > 0 {
            // none of them is alone
            self.last_end = low32(segments.memory().as_ptr_range().end.addr());
            let count = segments.len();
            self.push_entry(Entry::Packets(segments), count);
        }
    }

    /// Whether a message has begun whose end has not come.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.open.is_some()
    }

    /// Packets of that one, or else of the message that came last, as far as it is not read.
    pub(crate) fn newest_packets(&self) -> u32 {
        match (&self.open, self.entries.back()) {
            (Some(open), _) => open.packets,
            (None, Some(Entry::Assembled { slots, .. })) => *slots,
            (None, Some(Entry::Packet(_) | Entry::Packets(_) | Entry::Records { .. }) | None) => 1,
        }
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.rules.service == Service::Stream
    }

    /// [CDP-WND-2] True bytes count. A data segment keeps all the memory that it was received into, with what came for others: much more
    /// than it has, where it came alone. So when its user is behind, one that does not lie next to the one before is copied.
    #[inline]
    fn settle(&mut self, payload: Bytes) -> Bytes {
        let start = low32(payload.as_ptr().addr());
        let is_alone = start.wrapping_sub(self.last_end) > APART_MAX;
        self.last_end = start.wrapping_add(low32(payload.len()));
        if is_alone && self.packets() >= LENT_MAX { Bytes::copy_from_slice(&payload) } else { payload }
    }

    /// [CDP-DG-2] EOM=1: the whole message, or the last part if earlier parts are open.
    fn push_last_part(&mut self, payload: Bytes) -> Result<(), Reason> {
        if self.open.is_none() {
            self.check_size(payload.len())?;
            self.push_entry(Entry::Packet(payload), 1);
            return Ok(());
        }
        self.push_part(payload)?;
        self.finish_message(false);
        Ok(())
    }

    fn push_part(&mut self, payload: Bytes) -> Result<(), Reason> {
        let before = self.open.as_ref().map_or(0, |open| self.ahead_of_open() + open.message.len());
        self.check_size(before + payload.len())?;
        self.message_bytes += payload.len();
        // [CDP-DG-7] a part leaves its slot for the message buffer
        let open = self.open.get_or_insert_default();
        open.message.push(payload);
        open.packets += 1;
        Ok(())
    }

    /// The last part has come, in a packet that goes on behind it or not.
    fn finish_message(&mut self, goes_on: bool) {
        if let Some(open) = self.open.take() {
            let Open { message, packets } = *open;
            let slots = packets - u32::from(goes_on);
            self.push_entry(Entry::Assembled { message, slots }, slots);
        }
    }

    fn push_entry(&mut self, entry: Entry, slots: u32) {
        self.entries.push_back(entry);
        self.slots_used += slots;
    }

    /// The next message, or the next chunk of the stream; `None` if there is none, or another reader has its beginning.
    pub(crate) fn pop(&mut self) -> Option<Message> {
        match self.entries.front_mut()? {
            Entry::Records { payload, .. } => {
                let record = record_at(payload, 0)?;
                let end = record.range.end;
                let message = Message::whole(payload.slice(record.range));
                payload.advance(end);
                if payload.is_empty() {
                    self.drop_front();
                }
                Some(message)
            }
            Entry::Packet(payload) => {
                let message = Message::whole(std::mem::take(payload));
                self.drop_front();
                Some(message)
            }
            Entry::Packets(segments) => {
                let message = Message::whole(segments.next()?);
                self.slots_used -= 1;
                if segments.is_empty() {
                    self.drop_front();
                }
                Some(message)
            }
            Entry::Assembled { .. } if self.ahead > 0 => None,
            Entry::Assembled { .. } => self.pop_assembled(),
        }
    }

    /// The next message, or what a reader has not of it; `None` if that is not one of several packets.
    pub(super) fn pop_assembled(&mut self) -> Option<Message> {
        let Some(Entry::Assembled { message, .. }) = self.entries.front_mut() else { return None };
        let message = std::mem::take(message);
        self.note_gone(message.len());
        self.drop_front();
        Some(message)
    }

    /// So many bytes of messages of several packets are read, or dropped.
    fn note_gone(&mut self, bytes: usize) {
        self.message_bytes -= bytes;
    }

    fn drop_front(&mut self) {
        let slots = match self.entries.pop_front() {
            Some(Entry::Assembled { message, slots }) => {
                let ahead = std::mem::take(&mut self.ahead) as usize;
                self.note_gone(ahead + message.len());
                slots
            }
            Some(Entry::Records { slots, .. }) => slots,
            Some(Entry::Packet(_)) => 1,
            Some(Entry::Packets(segments)) => segments.len(),
            None => 0,
        };
        self.slots_used -= slots;
    }

    /// Drops everything and tells how many packets that were, open parts included (CDP-DG-10).
    pub(crate) fn clear(&mut self) -> u32 {
        let packets = self.packets();
        *self = Self::new(self.rules);
        packets
    }

    /// Drops the parts of a message whose end will not come, and tells how many packets those were.
    pub(crate) fn clear_open(&mut self) -> u32 {
        let Some(open) = self.open.take() else { return 0 };
        let ahead = self.ahead_of_open();
        self.note_gone(ahead + open.message.len());
        if ahead > 0 {
            self.ahead = 0;
        }
        open.packets
    }
}

#[allow(clippy::cast_possible_truncation)] // as it says
fn low32(number: usize) -> u32 {
    number as u32
}

#[cfg(test)]
mod tests;
