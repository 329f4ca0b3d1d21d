//! A message goes from where the link has it to the memory of who waits for it (early binding: F. Khun Jush, section 3.1.3).
//!
//! Who waits for a message runs turns himself. Where a packet that comes alone is the next one of a conversation, for which all is
//! known before, it is neither taken apart nor queued, and its slot is entered once. Where packets of a stream come together their data
//! goes there in the pass that their checksums take, and is not queued either (decision 0060); that of large ones of a flood is there before
//! anything is known of them (decision 0079). A message whose packets come together is copied there as it is summed up as well (decision 0081), and
//! parts of a long one go there before its end has come (decision 0070), those that come together in the same way (decision 0086). Any other takes
//! the ordinary way.

mod place;

use std::net::SocketAddr;
use std::sync::Arc;

use weft_base::{Instant, Service};
use weft_link::{Received, RecvBatch, Shown};
use weft_proto::{Connection, PLACED_BYTES_MIN};
use weft_wire::{Encapsulation, JoinedParts, Lone, Train};

use crate::clock;
use crate::core::Core;
use crate::inflow::Arrived;
use crate::outbox::Outbox;
use crate::port::{Port, Turn};
use crate::runner::{Runner, begin, note_arrived, receive};
use crate::slot::{Guard, Live, Slot};

pub(crate) use place::{Buffer, Growing, Place, Whole};

/// Where the next message of a connection is to go.
pub(crate) struct Binding<'a> {
    slot: &'a Arc<Slot>,
    /// Bytes that it must not exceed.
    room: usize,
    is_done: bool,
    ahead: Ahead,
    /// Whether who waits has more of a message than when the wait began.
    is_ahead: bool,
    to: &'a mut dyn Put,
}

/// What may be taken of a message before its end, which who waits puts back if that does not come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Ahead {
    Nothing,
    /// Parts that come together.
    Joined,
    All,
}

/// What takes a message, or bytes of a stream.
trait Put {
    /// Takes a message, maybe to memory of the batch.
    fn put(&mut self, data: &[u8], batch: &mut RecvBatch);

    /// Where the bytes of a stream go that come next; nowhere if there is no room.
    fn rest(&mut self) -> &mut [u8] {
        &mut []
    }

    /// Bytes that are there of a message whose end has not come.
    fn ahead(&self) -> u32 {
        0
    }

    /// Where so many bytes of a message go behind those; nowhere if there is no room. They are there by [`Put::note_bytes`] or
    /// [`Put::note_ahead`], or [not](Put::forget_next).
    fn next(&mut self, _bytes: usize) -> Option<&mut [u8]> {
        None
    }

    /// They were damaged, or others.
    fn forget_next(&mut self) {}

    /// So many came there, and with them all.
    fn note_bytes(&mut self, _bytes: usize) {}

    /// So many came there, and the end did not.
    fn note_ahead(&mut self, _bytes: usize) {}

    /// As [`Place::read_ahead`].
    fn read_ahead(&mut self, _connection: &mut Connection) -> bool {
        false
    }
}

impl<F: FnMut(&[u8], &mut RecvBatch)> Put for F {
    fn put(&mut self, data: &[u8], batch: &mut RecvBatch) {
        self(data, batch);
    }
}

impl<'a> Binding<'a> {
    fn new(slot: &'a Arc<Slot>, room: usize, to: &'a mut dyn Put) -> Self {
        Self { slot, room, is_done: false, ahead: Ahead::Nothing, is_ahead: false, to }
    }

    /// Whether the message, or bytes of the stream, have come.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    /// From now on so much of a message is taken before its end has come.
    pub(crate) fn let_read(&mut self, ahead: Ahead) {
        self.ahead = ahead;
    }

    /// Whether the wait ends: all has come, or more of a message, the rest of which is waited for anew.
    #[inline]
    pub(crate) fn ends_wait(&self) -> bool {
        self.is_done || self.is_ahead
    }

    /// Whether bytes of a stream are waited for.
    pub(crate) fn is_of_stream(&self) -> bool {
        self.slot.service() == Service::Stream
    }

    pub(crate) fn is_of(&self, slot: &Arc<Slot>) -> bool {
        Arc::ptr_eq(self.slot, slot)
    }

    /// Takes packets that came together by path `path`, whose slot the caller has.
    pub(crate) fn take_train(&mut self, live: &mut Live, train: &mut Train, path: u8, now: Instant) {
        let bytes = live.connection.take_train_by(now, train, path, self.to.rest());
        self.note_bytes(bytes);
    }

    /// Where the data of packets may go before anything is known of them: nowhere, unless it is bytes of a stream.
    fn place(&mut self) -> &mut [u8] {
        if self.slot.service() == Service::Stream { self.to.rest() } else { &mut [] }
    }

    /// Takes packets whose data lies with who waits, and leaves in the batch what is not to be had so.
    fn take_placed(&mut self, live: Option<&mut Live>, batch: &mut RecvBatch, now: Instant) {
        let (flow, mut live) = (self.slot.key(), live);
        let bytes = batch.settle_placed(self.place(), |placed, data| {
            let live = live.as_deref_mut()?;
            let path = live.path_from(placed.from)?;
            live.connection.take_placed(now, &Lone::of_parts(&placed.head, data, flow)?, path)
        });
        self.note_bytes(bytes);
    }

    /// Takes what came behind those in the same run, and whose slot the caller still has.
    pub(crate) fn take_rest(&mut self, live: &mut Live) {
        let bytes = live.connection.read_unread(self.to.rest());
        self.note_bytes(bytes);
    }

    /// Takes what has come of a message whose end has not.
    pub(crate) fn read_ahead(&mut self, live: &mut Live) {
        if self.ahead == Ahead::All {
            self.is_ahead |= self.to.read_ahead(&mut live.connection);
        }
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

    /// The same of a large packet, or of those that came together, with all of a message or a part.
    #[inline(never)] // see `take_placed`
    fn take_parts(&mut self, packets: &Received, encapsulation: Encapsulation) -> Option<Guard<'a>> {
        let Received { from, bytes, size } = packets;
        let parts = JoinedParts::new_checked(bytes, *size, self.slot.key(), encapsulation)
            .filter(|parts| parts.has_end() || self.ahead >= Ahead::Joined)?;
        let mut live = self.slot.try_lock()?;
        if live.side.is_some() || *from != live.to || live.is_wanted() {
            return None;
        }
        let (ahead, mut may_be_written) = (self.to.ahead(), false);
        // It may have come after the thread looked at the clock (decision 0061).
        let taken = live.connection.take_joined(clock::now(), &parts, ahead, |bytes| {
            may_be_written = true;
            self.to.next(bytes)
        });
        let Some(bytes) = taken else {
            if may_be_written {
                self.to.forget_next();
            }
            return None;
        };
        if parts.has_end() {
            self.note_bytes(bytes);
        } else {
            self.to.note_ahead(bytes);
            self.is_ahead = true;
        }
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

    /// Takes the packets whose data lies with who waits; what is not to be had so comes before all others then.
    #[inline(never)] // what comes alone is what somebody waits for, and is the faster the less code lies in its way
    pub(crate) fn take_placed(
        &self,
        batch: &mut RecvBatch,
        binding: &mut Binding<'_>,
        now: Instant,
        out: &mut Outbox,
    ) {
        let slot = binding.slot;
        let Some(mut live) = slot.try_lock() else { return binding.take_placed(None, batch, now) };
        // what others left came before
        self.drain_backlog(slot, &mut live, now, out);
        binding.take_placed(Some(&mut live), batch, now);
        if batch.is_empty() {
            self.pump(slot, &mut live, now, out);
        } else {
            out.touched.push(slot.clone());
        }
        self.unlock(slot, live, now, out);
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

    /// Leaves a slot whose message was taken, or a part of it.
    #[inline]
    fn leave_bound(&self, port: &Port, slot: &Arc<Slot>, mut live: Guard<'_>, now: Instant) {
        slot.set_home(port.index);
        live.has_read = true;
        let due = live.connection.await_answer(now);
        port.arm(slot, &mut live, due);
        let connection = &live.connection;
        let is_settled =
            connection.has_unread_ack() || (connection.is_settled() && slot.waiters.are_writable());
        let wanted =
            if connection.has_urgent_output() || !is_settled { Some(live) } else { live.leave().err() };
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
    let count = receive(port, turn, runner, now, port.inflow.turn_packets(), binding.place());
    if let Some(received) = turn.batch.take_only() {
        bound = binding.take(&received.bytes, received.from, port.encapsulation, now, &mut turn.batch);
        if bound.is_none()
            && received.bytes.len() > PLACED_BYTES_MIN
            && binding.slot.service() == Service::Datagram
        {
            bound = binding.take_parts(&received, port.encapsulation);
        }
        if bound.is_none() {
            turn.batch.push(received.from, received.bytes);
        }
    } else if binding.slot.service() == Service::Datagram
        && let Some(packets) = turn.batch.take_joined()
    {
        bound = binding.take_parts(&packets, port.encapsulation);
        if bound.is_none() {
            turn.batch.put_back(packets);
        }
    }
    (count, bound)
}

#[cfg(all(test, not(loom)))]
mod tests;
