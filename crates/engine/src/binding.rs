//! A message goes from where the link has it to the memory of who waits for it (early binding: F. Khun Jush, section 3.1.3).
//!
//! Who waits for a message runs turns himself. Where a packet that comes alone is the next one of a conversation, for which all is
//! known before, it is neither taken apart nor queued, and its slot is entered once. Where packets of a stream come together their data
//! goes there in the pass that their checksums take, and is not queued either (decision 0060). Any other takes the ordinary way.

use std::net::SocketAddr;
use std::sync::Arc;

use weft_base::{Instant, Service};
use weft_link::{COPYBREAK_BYTES, RecvBatch, Shown};
use weft_proto::{Connection, Message, Received, RecvError};
use weft_wire::{Encapsulation, Lone, Train};

use crate::clock;
use crate::core::Core;
use crate::inflow::Arrived;
use crate::port::{Port, TURN_PACKETS, Turn};
use crate::runner::{Runner, begin, note_arrived, receive};
use crate::slot::{Guard, Live, Slot};

/// Where the next message of a connection is to go.
pub(crate) struct Binding<'a> {
    slot: &'a Arc<Slot>,
    /// Bytes that it must not exceed.
    room: usize,
    is_done: bool,
    to: &'a mut dyn Put,
}

/// What takes a message, or bytes of a stream.
trait Put {
    /// Takes a message, maybe to memory of the batch.
    fn put(&mut self, data: &[u8], batch: &mut RecvBatch);

    /// Where the bytes of a stream go that come next; nowhere if there is no room.
    fn rest(&mut self) -> &mut [u8] {
        &mut []
    }

    /// So many came there.
    fn note_bytes(&mut self, _bytes: usize) {}
}

impl<F: FnMut(&[u8], &mut RecvBatch)> Put for F {
    fn put(&mut self, data: &[u8], batch: &mut RecvBatch) {
        self(data, batch);
    }
}

impl<'a> Binding<'a> {
    fn new(slot: &'a Arc<Slot>, room: usize, to: &'a mut dyn Put) -> Self {
        Self { slot, room, is_done: false, to }
    }

    /// Whether the message, or bytes of the stream, have come.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    pub(crate) fn is_of(&self, slot: &Arc<Slot>) -> bool {
        Arc::ptr_eq(self.slot, slot)
    }

    /// Takes packets that came together by path `path`, whose slot the caller has.
    pub(crate) fn take_train(&mut self, live: &mut Live, train: &mut Train, path: u8, now: Instant) {
        let bytes = live.connection.take_train_by(now, train, path, self.to.rest());
        self.note_bytes(bytes);
    }

    /// Takes what came behind those in the same run, and whose slot the caller still has.
    pub(crate) fn take_rest(&mut self, live: &mut Live) {
        let bytes = live.connection.read_unread(self.to.rest());
        self.note_bytes(bytes);
    }

    fn note_bytes(&mut self, bytes: usize) {
        if bytes > 0 {
            self.to.note_bytes(bytes);
            self.is_done = true;
        }
    }

    /// Takes the message of a packet, if it is the one that is waited for and may be had at once; the slot is still to be left then.
    #[inline]
    fn take(
        &mut self,
        packet: &[u8],
        from: SocketAddr,
        encapsulation: Encapsulation,
        now: Instant,
        batch: &mut RecvBatch,
    ) -> Option<Guard<'a>> {
        let lone = Lone::new_checked(packet, self.slot.key(), encapsulation)?;
        let mut live = self.slot.try_lock()?;
        // What others left at the slot goes before: who enters it next, by the ordinary way, sees to that.
        let is_alone = live.side.is_none() && from == live.to && !live.is_wanted();
        if !is_alone || lone.payload().len() > self.room {
            return None;
        }
        let data = live.connection.take_answer(now, &lone)?;
        self.to.put(data, batch);
        self.is_done = true;
        Some(live)
    }
}

impl Core {
    /// As [`Core::try_turn`], but the message that `binding` waits for goes there.
    #[inline]
    pub(crate) fn try_turn_for(
        &self,
        port: &Port,
        binding: &mut Binding<'_>,
        runner: Runner,
        now: Instant,
    ) -> Option<usize> {
        if port.lanes.is_some() {
            return self.try_turn(port, runner, now);
        }
        let mut turn = port.turn.try_lock()?;
        let (count, bound) = receive_for(port, &mut turn, binding, runner, now);
        let is_due = port.next_timer() <= now.as_nanos();
        if let Some(live) = bound {
            drop(turn);
            self.leave_bound(port, binding.slot, live, now);
            if is_due {
                self.try_turn(port, runner, now);
            }
        } else if count > 0 || is_due || turn.batch.has_refusals() {
            self.work_off(port, turn, count, Some(binding), now);
            if binding.is_done {
                self.note_read(port, binding.slot, now);
            }
        }
        Some(count)
    }

    /// The user has bytes of a stream that came with a turn. What the turn sent went before he read them.
    fn note_read(&self, port: &Port, slot: &Arc<Slot>, now: Instant) {
        let mut live = slot.lock_briefly();
        live.has_read = true;
        live.connection.note_read();
        if let Err(live) = live.leave() {
            self.work(port, slot, live, now);
        }
    }

    /// Leaves a slot whose message was taken.
    #[inline]
    fn leave_bound(&self, port: &Port, slot: &Arc<Slot>, mut live: Guard<'_>, now: Instant) {
        slot.set_home(port.index);
        live.has_read = true;
        let due = live.connection.await_answer(now);
        port.arm(slot, &mut live, due);
        let wanted = if live.connection.has_urgent_output() { Some(live) } else { live.leave().err() };
        if let Some(live) = wanted {
            // what the message acknowledges may be read now, and it came after `now` (decision 0061)
            self.work(port, slot, live, clock::now());
        }
    }
}

/// As [`receive`], but a packet that comes alone is shown to `binding`, where it lies if the link can do so. If its message was
/// taken it is among those that are told, and no more in the batch.
#[inline]
fn receive_for<'a>(
    port: &Port,
    turn: &mut Turn,
    binding: &mut Binding<'a>,
    runner: Runner,
    now: Instant,
) -> (usize, Option<Guard<'a>>) {
    let (mut bound, mut bytes) = (None, 0);
    let shown = port.link.recv_lone(runner.looks(), &mut |from, packet| {
        bytes = packet.len() as u64;
        bound = binding.take(packet, from, port.encapsulation, now, &mut turn.batch);
        bound.is_some()
    });
    if shown != Shown::Left {
        begin(port, runner, now);
        let is_taken = shown == Shown::Taken;
        let (packets, pieces) = (is_taken.into(), is_taken.into());
        note_arrived(port, turn, runner, Arrived { packets, pieces, bytes }, now);
        return (is_taken.into(), bound);
    }
    let count = receive(port, turn, runner, now, TURN_PACKETS);
    if let Some(received) = turn.batch.take_only() {
        bound = binding.take(&received.bytes, received.from, port.encapsulation, now, &mut turn.batch);
        if bound.is_none() {
            turn.batch.push(received.from, received.bytes);
        }
    }
    (count, bound)
}

/// Memory of a user that a message goes to.
pub(crate) trait Place {
    type Taken;

    /// Takes what has come, by the ordinary way.
    fn take(&mut self, connection: &mut Connection) -> Result<Self::Taken, RecvError>;

    /// Has `wait` wait for what comes; returns what that did, and what came here.
    fn bind<T>(
        &mut self,
        slot: &Arc<Slot>,
        wait: impl FnOnce(&mut Binding<'_>) -> T,
    ) -> (T, Option<Self::Taken>);
}

/// A buffer that it is copied to.
pub(crate) struct Buffer<'a>(pub(crate) &'a mut [u8]);

impl Place for Buffer<'_> {
    type Taken = Received;

    #[inline]
    fn take(&mut self, connection: &mut Connection) -> Result<Received, RecvError> {
        connection.recv(self.0)
    }

    #[inline]
    fn bind<T>(
        &mut self,
        slot: &Arc<Slot>,
        wait: impl FnOnce(&mut Binding<'_>) -> T,
    ) -> (T, Option<Received>) {
        // What does not fit is lost of a message, but stays of a stream.
        let room = if slot.service() == Service::Stream { self.0.len() } else { usize::MAX };
        let mut to = Filled { buffer: self.0, received: None };
        let told = wait(&mut Binding::new(slot, room, &mut to));
        (told, to.received)
    }
}

/// A buffer, and what came there.
struct Filled<'a> {
    buffer: &'a mut [u8],
    received: Option<Received>,
}

impl Put for Filled<'_> {
    fn put(&mut self, data: &[u8], _: &mut RecvBatch) {
        let len = data.len().min(self.buffer.len());
        self.buffer[..len].copy_from_slice(&data[..len]);
        self.received = Some(Received { len, truncated: data.len() - len, end_of_file: false });
    }

    fn rest(&mut self) -> &mut [u8] {
        let filled = self.received.map_or(0, |received| received.len);
        &mut self.buffer[filled..]
    }

    fn note_bytes(&mut self, bytes: usize) {
        let none = Received { len: 0, truncated: 0, end_of_file: false };
        self.received.get_or_insert(none).len += bytes;
    }
}

/// A vector that grows as it must, and has nothing else then.
pub(crate) struct Growing<'a>(pub(crate) &'a mut Vec<u8>);

impl Place for Growing<'_> {
    /// Bytes of it, or the end.
    type Taken = Option<usize>;

    #[inline]
    fn take(&mut self, connection: &mut Connection) -> Result<Option<usize>, RecvError> {
        let message = connection.recv_message()?;
        self.0.clear();
        message.iter().flat_map(Message::parts).for_each(|part| self.0.extend_from_slice(part));
        Ok(message.map(|message| message.len()))
    }

    #[inline]
    fn bind<T>(
        &mut self,
        slot: &Arc<Slot>,
        wait: impl FnOnce(&mut Binding<'_>) -> T,
    ) -> (T, Option<Option<usize>>) {
        let mut taken = None;
        let mut put = |data: &[u8], _: &mut RecvBatch| {
            self.0.clear();
            self.0.extend_from_slice(data);
            taken = Some(Some(data.len()));
        };
        let told = wait(&mut Binding::new(slot, usize::MAX, &mut put));
        (told, taken)
    }
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
mod tests;
