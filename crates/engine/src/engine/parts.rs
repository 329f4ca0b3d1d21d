//! A long message is sent in parts, of which each leaves while the next is copied (decision 0070).

use std::sync::Arc;
use std::time::Duration;

use weft_base::Service;
use weft_link::GROUP_BYTES_MAX;
use weft_proto::{Connection, SendError};

use super::Engine;
use crate::clock;
use crate::progress::Condition;
use crate::slot::Slot;
use crate::waiters::Interest;

/// A message of more bytes is a long one.
const LONG_BYTES: usize = 64 << 10;
/// How many groups of packets, which leave as one, a part of it has. The first has one where nothing else is under way: the sooner that leaves,
/// the sooner the peer has something to do (decision 0077).
const PART_GROUPS: usize = 8;
/// Bytes that no part exceeds by much, for which there must be room.
const PART_BYTES: usize = PART_GROUPS * GROUP_BYTES_MAX;

/// How long a sender waits for room, if nothing leaves.
const PATIENCE: Duration = Duration::from_millis(10);

impl Engine {
    /// As [`Engine::send`], but of a long message no more is copied at a time than what the link takes soon, if the caller `may_wait` for
    /// room. Where there is none for 10 ms all that is left is taken at once, as by [`Engine::send`].
    ///
    /// # Errors
    /// As [`Engine::send`].
    #[inline]
    pub fn send_or_wait(
        &self,
        slot: &Arc<Slot>,
        data: &[u8],
        may_wait: impl FnOnce() -> bool,
    ) -> Result<usize, SendError> {
        if data.len() <= LONG_BYTES || slot.service() == Service::Stream {
            return self.send_by(slot, data, |connection, len| connection.send(&data[..len]));
        }
        self.send_parts(slot, data, may_wait().then_some(PATIENCE))
    }

    /// Sends a long message in parts, of which each leaves while the next is copied, and waits for room for as long as `patience` says.
    #[inline(never)]
    fn send_parts(
        &self,
        slot: &Arc<Slot>,
        message: &[u8],
        patience: Option<Duration>,
    ) -> Result<usize, SendError> {
        let held = if patience.is_some() { PART_BYTES.min(message.len()) } else { message.len() };
        let sent = self.send_by(slot, message, |connection, _| {
            connection.send_first(message, first_part(connection), held)
        })?;
        Rest { engine: self, slot, message, sent }.send(patience);
        Ok(message.len())
    }
}

/// How many bytes of a long message leave first.
fn first_part(connection: &Connection) -> usize {
    if connection.is_flushed() { connection.full_bytes(GROUP_BYTES_MAX) } else { part(connection) }
}

/// How many bytes of it leave then: no more in a group than leaves as one, and no group is begun for what little is left.
fn part(connection: &Connection) -> usize {
    PART_GROUPS * connection.full_bytes(GROUP_BYTES_MAX)
}

/// The rest of a message whose beginning was sent, and which is sent whole whatever happens: also if its fiber unwinds as it waits.
struct Rest<'a> {
    engine: &'a Engine,
    slot: &'a Arc<Slot>,
    message: &'a [u8],
    /// Bytes of it that were.
    sent: usize,
}

impl Rest<'_> {
    fn send(mut self, mut patience: Option<Duration>) {
        while self.sent < self.message.len() {
            patience = patience.filter(|limit| self.wait(*limit));
            self.send_part();
        }
    }

    /// Waits until the next part has room; false where it has none for so long.
    fn wait(&self, limit: Duration) -> bool {
        let (slot, deadline) = (self.slot, Some(clock::now() + limit));
        let condition = Condition::of_slot(slot, Interest::RestWritable, deadline);
        self.engine.core.wait(|| slot.home(), condition, None)
    }

    fn send_part(&mut self) {
        let mut live = self.slot.lock();
        let now = clock::now();
        let most = part(&live.connection);
        self.sent += live.connection.send_rest(&self.message[self.sent..], most);
        let (port, now) = self.engine.see_to(self.slot, live, now);
        port.note_much_sent(now);
        if self.slot.look().connection.is_held_back() {
            port.note_left(now);
        }
    }
}

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        while self.sent < self.message.len() {
            self.send_part();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
