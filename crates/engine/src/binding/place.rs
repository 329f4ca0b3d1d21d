//! The memory of a user that a message goes to: a buffer, a vector that grows, or where the message lies.

use std::num::NonZeroU32;
use std::sync::Arc;

use weft_base::Service;
use weft_link::{COPYBREAK_BYTES, RecvBatch};
use weft_proto::{Connection, Message, Received, RecvError};

use super::{Binding, Put};
use crate::slot::Slot;

/// Memory of a user that a message goes to.
pub(crate) trait Place {
    type Taken;

    /// Takes what has come, by the ordinary way.
    fn take(&mut self, connection: &mut Connection) -> Result<Self::Taken, RecvError>;

    /// The same where the beginning of a message may be here.
    fn take_rest(&mut self, connection: &mut Connection) -> Result<Self::Taken, RecvError> {
        self.take(connection)
    }

    /// What is here of a message whose end has not come.
    fn beginning(&self) -> &[u8] {
        &[]
    }

    /// Takes what has come of the next message before its end; whether that was anything.
    fn read_ahead(&mut self, _connection: &mut Connection) -> bool {
        false
    }

    /// That is waited for no more, and was put back.
    fn forget_beginning(&mut self) {}

    /// Has `wait` wait for what comes; returns what that did, and what came here.
    fn bind<T>(
        &mut self,
        slot: &Arc<Slot>,
        wait: impl FnOnce(&mut Binding<'_>) -> T,
    ) -> (T, Option<Self::Taken>);
}

/// Shows `put` what has come of a message behind its first `ahead` bytes, part by part and with its place; whether that has taken anything.
fn read_ahead(
    ahead: &mut u32,
    connection: &mut Connection,
    mut put: impl FnMut(usize, &[u8]) -> bool,
) -> bool {
    let mut at = *ahead as usize;
    let taken = connection.read_ahead(*ahead, |part| {
        let is_taken = put(at, part);
        at += part.len();
        is_taken
    });
    *ahead += taken;
    taken > 0
}

/// A buffer that it is copied to.
pub(crate) struct Buffer<'a> {
    bytes: &'a mut [u8],
    /// Bytes of a message whose end has not come.
    ahead: u32,
}

impl<'a> Buffer<'a> {
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, ahead: 0 }
    }
}

impl Place for Buffer<'_> {
    type Taken = Received;

    #[inline]
    fn take(&mut self, connection: &mut Connection) -> Result<Received, RecvError> {
        connection.recv(self.bytes)
    }

    fn take_rest(&mut self, connection: &mut Connection) -> Result<Received, RecvError> {
        let Some(ahead) = NonZeroU32::new(self.ahead) else { return connection.recv(self.bytes) };
        let rest = connection.recv_rest(ahead)?;
        self.ahead = 0;
        let Some(rest) = rest else { return Ok(Received { len: 0, truncated: 0, end_of_file: true }) };
        let ahead = ahead.get() as usize;
        let len = ahead + rest.copy_to(&mut self.bytes[ahead..]);
        Ok(Received { len, truncated: ahead + rest.len() - len, end_of_file: false })
    }

    fn beginning(&self) -> &[u8] {
        &self.bytes[..self.ahead as usize]
    }

    /// A part that does not fit stays where it is: not all that is put back would be here.
    fn read_ahead(&mut self, connection: &mut Connection) -> bool {
        read_ahead(&mut self.ahead, connection, |at, part| {
            let room = self.bytes.get_mut(at..at + part.len());
            room.map(|room| room.copy_from_slice(part)).is_some()
        })
    }

    fn forget_beginning(&mut self) {
        self.ahead = 0;
    }

    #[inline]
    fn bind<T>(
        &mut self,
        slot: &Arc<Slot>,
        wait: impl FnOnce(&mut Binding<'_>) -> T,
    ) -> (T, Option<Received>) {
        // What does not fit is lost of a message, but stays of a stream.
        let room = if slot.service() == Service::Stream { self.bytes.len() } else { usize::MAX };
        let mut to = Filled { buffer: self, received: None };
        let told = wait(&mut Binding::new(slot, room, &mut to));
        (told, to.received)
    }
}

/// A buffer, and what came there.
struct Filled<'a, 'b> {
    buffer: &'a mut Buffer<'b>,
    received: Option<Received>,
}

impl Put for Filled<'_, '_> {
    fn put(&mut self, data: &[u8], _: &mut RecvBatch) {
        let buffer = &mut self.buffer.bytes;
        let len = data.len().min(buffer.len());
        buffer[..len].copy_from_slice(&data[..len]);
        self.received = Some(Received { len, truncated: data.len() - len, end_of_file: false });
    }

    fn rest(&mut self) -> &mut [u8] {
        let filled = self.received.map_or(0, |received| received.len);
        &mut self.buffer.bytes[filled..]
    }

    fn ahead(&self) -> u32 {
        self.buffer.ahead
    }

    fn next(&mut self, bytes: usize) -> Option<&mut [u8]> {
        let ahead = self.buffer.ahead as usize;
        self.buffer.bytes.get_mut(ahead..ahead + bytes)
    }

    fn note_bytes(&mut self, bytes: usize) {
        let len = std::mem::take(&mut self.buffer.ahead) as usize;
        self.received.get_or_insert(Received { len, truncated: 0, end_of_file: false }).len += bytes;
    }

    fn note_ahead(&mut self, bytes: usize) {
        self.buffer.ahead += narrow(bytes);
    }

    fn read_ahead(&mut self, connection: &mut Connection) -> bool {
        self.buffer.read_ahead(connection)
    }
}

/// A vector that grows as it must, and has nothing else then.
pub(crate) struct Growing<'a> {
    message: &'a mut Vec<u8>,
    /// Bytes of a message whose end has not come.
    ahead: u32,
}

impl<'a> Growing<'a> {
    pub(crate) fn new(message: &'a mut Vec<u8>) -> Self {
        Self { message, ahead: 0 }
    }
}

impl Place for Growing<'_> {
    /// Bytes of it, or the end.
    type Taken = Option<usize>;

    #[inline]
    fn take(&mut self, connection: &mut Connection) -> Result<Option<usize>, RecvError> {
        let message = connection.recv_message()?;
        self.message.clear();
        message.iter().flat_map(Message::parts).for_each(|part| self.message.extend_from_slice(part));
        Ok(message.map(|message| message.len()))
    }

    fn take_rest(&mut self, connection: &mut Connection) -> Result<Option<usize>, RecvError> {
        let Some(ahead) = NonZeroU32::new(self.ahead) else { return self.take(connection) };
        let rest = connection.recv_rest(ahead)?;
        self.ahead = 0;
        if rest.is_none() {
            self.message.clear();
        }
        rest.iter().flat_map(Message::parts).for_each(|part| self.message.extend_from_slice(part));
        Ok(rest.map(|_| self.message.len()))
    }

    fn beginning(&self) -> &[u8] {
        &self.message[..self.ahead as usize]
    }

    fn read_ahead(&mut self, connection: &mut Connection) -> bool {
        read_ahead(&mut self.ahead, connection, |at, part| {
            self.message.truncate(at);
            self.message.extend_from_slice(part);
            true
        })
    }

    fn forget_beginning(&mut self) {
        self.ahead = 0;
        self.message.clear();
    }

    #[inline]
    fn bind<T>(
        &mut self,
        slot: &Arc<Slot>,
        wait: impl FnOnce(&mut Binding<'_>) -> T,
    ) -> (T, Option<Option<usize>>) {
        let mut to = Grown { vector: self, taken: None };
        let told = wait(&mut Binding::new(slot, usize::MAX, &mut to));
        (told, to.taken)
    }
}

/// A vector, and what came there.
struct Grown<'a, 'b> {
    vector: &'a mut Growing<'b>,
    taken: Option<Option<usize>>,
}

impl Put for Grown<'_, '_> {
    fn put(&mut self, data: &[u8], _: &mut RecvBatch) {
        self.vector.message.clear();
        self.vector.message.extend_from_slice(data);
        self.taken = Some(Some(data.len()));
    }

    fn ahead(&self) -> u32 {
        self.vector.ahead
    }

    fn next(&mut self, bytes: usize) -> Option<&mut [u8]> {
        let Growing { message, ahead } = &mut *self.vector;
        let ahead = *ahead as usize;
        message.resize(ahead + bytes, 0);
        Some(&mut message[ahead..])
    }

    fn forget_next(&mut self) {
        self.vector.message.truncate(self.vector.ahead as usize);
    }

    fn note_bytes(&mut self, _: usize) {
        self.vector.ahead = 0;
        self.taken = Some(Some(self.vector.message.len()));
    }

    fn note_ahead(&mut self, bytes: usize) {
        self.vector.ahead += narrow(bytes);
    }

    fn read_ahead(&mut self, connection: &mut Connection) -> bool {
        self.vector.read_ahead(connection)
    }
}

/// The bytes of packets that came together.
#[allow(clippy::cast_possible_truncation)] // they lie in one piece of memory
fn narrow(bytes: usize) -> u32 {
    bytes as u32
}

/// Where it lies.
pub(crate) struct Whole;

impl Place for Whole {
    type Taken = Option<Message>;

    #[inline]
    fn take(&mut self, connection: &mut Connection) -> Result<Option<Message>, RecvError> {
        connection.recv_message()
    }

    /// A small one lies in a copy.
    #[inline]
    fn bind<T>(
        &mut self,
        slot: &Arc<Slot>,
        wait: impl FnOnce(&mut Binding<'_>) -> T,
    ) -> (T, Option<Option<Message>>) {
        let mut taken = None;
        let mut put = |data: &[u8], batch: &mut RecvBatch| {
            taken = Some(Some(Message::whole(batch.copy(&[data]).freeze())));
        };
        let told = wait(&mut Binding::new(slot, COPYBREAK_BYTES, &mut put));
        (told, taken)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn of_a_message_that_was_refused_nothing_is_left_in_a_vector() {
        let mut message = b"what it had".to_vec();
        let vector = &mut Growing::new(&mut message);
        let mut to = Grown { vector, taken: None };
        to.next(5).unwrap().copy_from_slice(b"false");
        to.forget_next();
        assert!(to.taken.is_none() && message.is_empty());
    }
}
