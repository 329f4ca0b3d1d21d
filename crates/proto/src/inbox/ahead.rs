//! A reader that waits for a long message has its parts as they come, before its end has.
//!
//! Nobody else may read then until the reader has the rest, or has put back what it took.

use bytes::Bytes;

use super::{Entry, Inbox, low32};
use crate::message::Message;

impl Inbox {
    /// Bytes that a reader has of the next message.
    #[inline]
    pub(crate) fn ahead(&self) -> u32 {
        self.ahead
    }

    /// The same of the message whose end has not come: none, where that is not the next one.
    pub(super) fn ahead_of_open(&self) -> usize {
        if self.entries.is_empty() { self.ahead as usize } else { 0 }
    }

    /// Bytes that [`Inbox::read_ahead`] would show.
    #[inline]
    pub(crate) fn bytes_ahead(&self) -> usize {
        match &self.open {
            Some(open) if self.entries.is_empty() => open.message.len(),
            Some(_) | None => 0,
        }
    }

    /// Shows `take` the parts of the next message that have come, where the last has not, as long as it takes them; tells how many bytes
    /// it has taken. It is for a reader that has the first `ahead` bytes of it, and does nothing where another reader has.
    pub(crate) fn read_ahead(&mut self, ahead: u32, take: impl FnMut(&[u8]) -> bool) -> u32 {
        let Some(open) = self.open.as_mut().filter(|_| self.entries.is_empty() && self.ahead == ahead) else {
            return 0;
        };
        let taken = low32(open.message.take_parts(take));
        self.ahead += taken;
        taken
    }

    /// So many more bytes of the next message, which came in so many packets, are with its reader, who has all before; maybe to
    /// its end.
    pub(crate) fn note_ahead(&mut self, packets: u32, bytes: usize, is_end: bool) {
        self.ahead += low32(bytes);
        self.message_bytes += bytes;
        if is_end {
            let slots = packets + self.open.take().map_or(0, |open| open.packets);
            self.push_entry(Entry::Assembled { message: Message::default(), slots }, slots);
        } else {
            self.open.get_or_insert_default().packets += packets;
        }
    }

    /// The rest of the next message, for the reader that has its first `ahead` bytes, once its end has come.
    pub(crate) fn pop_rest(&mut self, ahead: u32) -> Option<Message> {
        if self.ahead == ahead { self.pop_assembled() } else { None }
    }

    /// The reader that has the beginning of the next message puts it back. Does nothing where that message is gone.
    pub(crate) fn put_back(&mut self, beginning: &[u8]) {
        let message = match (self.entries.front_mut(), &mut self.open) {
            (Some(Entry::Assembled { message, .. }), _) => message,
            (None, Some(open)) => &mut open.message,
            (Some(_) | None, _) => return,
        };
        if self.ahead as usize == beginning.len() {
            self.ahead = 0;
            message.put_back(Bytes::copy_from_slice(beginning));
        }
    }
}
