//! Sending, receiving, closing one connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use weft_base::Instant;
use weft_proto::{CloseResult, Connection, Error, Message, Received, RecvError, SendError, State};
use weft_wire::Reason;

use super::Engine;
use crate::binding::{Buffer, Growing, Place, Whole};
use crate::clock;
use crate::gather;
use crate::port::Port;
use crate::runner::Runner;
use crate::slot::{Guard, Live, Slot};
use crate::stats::Contact;
use crate::waiters::Interest;

/// What is copied under a lock that is held briefly: about what a packet has.
const BRIEF_BYTES: usize = 2048;

/// How long a sender goes on without a look at what came in.
const LOOK_AFTER: Duration = Duration::from_micros(20);

impl Engine {
    /// Sends one message, or as many bytes of the stream as there is room for. Never blocks.
    ///
    /// # Errors
    /// [`SendError`]; nothing is taken then.
    pub fn send(&self, slot: &Arc<Slot>, data: &[u8]) -> Result<usize, SendError> {
        self.send_or_wait(slot, data, || false)
    }

    /// As [`Engine::send`], but shares `data` with the caller instead of copying it, where it is not small, until the peer has
    /// acknowledged it.
    ///
    /// # Errors
    /// [`SendError`]; nothing is taken then.
    pub fn send_lent(&self, slot: &Arc<Slot>, data: &Bytes) -> Result<usize, SendError> {
        self.send_by(slot, data, |connection, len| connection.send_lent(&data.slice(..len)))
    }

    /// Has `give` send as many bytes of `data` as there is room for.
    #[inline]
    pub(super) fn send_by(
        &self,
        slot: &Arc<Slot>,
        data: &[u8],
        give: impl FnOnce(&mut Connection, usize) -> Result<usize, SendError>,
    ) -> Result<usize, SendError> {
        let (core, len) = (&*self.core, data.len());
        let is_brief = len <= BRIEF_BYTES;
        let mut live = if is_brief { slot.lock_briefly() } else { slot.lock() };
        if live.has_read && live.connection.has_unread_ack() {
            match self.answer(slot, live, data) {
                Ok(()) => return Ok(len),
                Err(unanswered) => live = unanswered,
            }
        }
        let room = gather::room(slot, &live).unwrap_or(usize::MAX).min(len);
        let is_gated = room == 0 && len > 0;
        let result = if is_gated { Err(SendError::WouldBlock) } else { give(&mut live.connection, room) };
        if result.is_ok() && gather::may_gather(slot, &live) {
            if !live.is_gathering {
                // The service thread is called then, which is more than a moment.
                live.stay();
            }
            core.note_gathering(slot, &mut live);
            match live.leave() {
                Ok(()) => return result,
                Err(wanted) => live = wanted,
            }
        }
        live.stay();
        let now = clock::now();
        if !is_brief {
            let port = core.port(slot.home());
            port.note_much_sent(now);
            port.note_back(now);
        }
        let cork = gather::cork(slot, &live, now);
        live.set_cork(cork);
        live.is_blocked = !is_gated && result == Err(SendError::WouldBlock);
        let (port, now) = self.see_to(slot, live, now);
        if result == Err(SendError::WouldBlock) {
            core.try_turn(port, Runner::User, now);
            self.note_nothing(slot, &slot.waiters, Interest::Writable);
        } else if !is_brief && slot.look().connection.is_held_back() {
            port.note_left(now);
        }
        result
    }

    /// Lets leave what was sent, and looks at what came in if nobody has of late. Returns the time at its end.
    #[inline]
    pub(crate) fn see_to(&self, slot: &Arc<Slot>, live: Guard<'_>, now: Instant) -> (&Port, Instant) {
        let core = &*self.core;
        let port = core.port(slot.home());
        port.inflow.note_user_sends(now);
        // What came in meanwhile is stamped with the time it is seen, or a round trip would seem to take none.
        let now = core.work(port, slot, live, now).unwrap_or(now);
        if now.as_nanos().saturating_sub(port.user_turn_at.load(Ordering::Relaxed)) > LOOK_AFTER_NS {
            core.try_turn(port, Runner::User, now);
        }
        (port, now)
    }

    /// Copies the next message, or the next bytes of the stream; what `buffer` has behind these may have been overwritten, also where it is
    /// an error. Never blocks.
    ///
    /// # Errors
    /// [`RecvError`].
    pub fn recv(&self, slot: &Arc<Slot>, buffer: &mut [u8]) -> Result<Received, RecvError> {
        self.take_after_turn(slot, &mut Buffer::new(buffer))
    }

    /// As [`Engine::recv`], but waits until there is something, or until so much time has passed; without limit for `None`.
    ///
    /// # Errors
    /// [`RecvError::WouldBlock`] when the time has passed, and the others of [`Engine::recv`].
    pub fn recv_within(
        &self,
        slot: &Arc<Slot>,
        buffer: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<Received, RecvError> {
        self.take_within(slot, &mut Buffer::new(buffer), timeout)
    }

    /// Hands over the next message, or the next piece of the stream, where it lies; `None` at the end. Never blocks.
    ///
    /// # Errors
    /// [`RecvError`].
    pub fn recv_message(&self, slot: &Arc<Slot>) -> Result<Option<Message>, RecvError> {
        self.take_after_turn(slot, &mut Whole)
    }

    /// As [`Engine::recv_message`], but waits as [`Engine::recv_within`] does.
    ///
    /// # Errors
    /// As [`Engine::recv_within`].
    pub fn recv_message_within(
        &self,
        slot: &Arc<Slot>,
        timeout: Option<Duration>,
    ) -> Result<Option<Message>, RecvError> {
        self.take_within(slot, &mut Whole, timeout)
    }

    /// Copies the next message, or the next piece of the stream, to `message` in place of what that has, and tells its bytes; `None` at
    /// the end. Never blocks.
    ///
    /// # Errors
    /// [`RecvError`].
    pub fn recv_into(&self, slot: &Arc<Slot>, message: &mut Vec<u8>) -> Result<Option<usize>, RecvError> {
        self.take_after_turn(slot, &mut Growing::new(message))
    }

    /// As [`Engine::recv_into`], but waits as [`Engine::recv_within`] does.
    ///
    /// # Errors
    /// As [`Engine::recv_within`].
    pub fn recv_into_within(
        &self,
        slot: &Arc<Slot>,
        message: &mut Vec<u8>,
        timeout: Option<Duration>,
    ) -> Result<Option<usize>, RecvError> {
        self.take_within(slot, &mut Growing::new(message), timeout)
    }

    /// Takes what is there, and waits for it if need be.
    #[inline(always)] // what was received goes its own way, and is not copied on it
    fn take_within<P: Place>(
        &self,
        slot: &Arc<Slot>,
        place: &mut P,
        timeout: Option<Duration>,
    ) -> Result<P::Taken, RecvError> {
        if slot.is_ready(Interest::Readable) {
            match self.take(slot, |connection| place.take(connection)) {
                Ok(taken) => return Ok(taken),
                Err(RecvError::WouldBlock) => {}
                Err(error) => return Err(error),
            }
        }
        self.wait_and_take(slot, place, timeout)
    }

    /// Takes what is there, after one turn if nothing is.
    #[inline]
    fn take_after_turn<P: Place>(&self, slot: &Arc<Slot>, place: &mut P) -> Result<P::Taken, RecvError> {
        if slot.is_ready(Interest::Readable) {
            return self.take(slot, |connection| place.take(connection));
        }
        let (port, now) = (self.core.port(slot.home()), clock::now());
        if !port.is_left_to_service(now) {
            let (_, bound) =
                place.bind(slot, |binding| self.core.try_turn_for(port, binding, Runner::User, now));
            if let Some(taken) = bound {
                return Ok(taken);
            }
        }
        self.take(slot, |connection| place.take(connection))
    }

    /// Of the result nothing is asked but whether it is one: a look at the error would have it copied in pieces, each across what was
    /// just written, which takes a receiver of small messages a seventh of its time.
    #[inline]
    pub(super) fn take<T>(
        &self,
        slot: &Arc<Slot>,
        take: impl FnOnce(&mut Connection) -> Result<T, RecvError>,
    ) -> Result<T, RecvError> {
        let core = &*self.core;
        let mut live = slot.lock_briefly();
        let mut is_read_ahead = false;
        if !live.connection.is_next_short() {
            live.stay();
            is_read_ahead = live.connection.is_read_ahead();
        }
        let result = take(&mut live.connection);
        let is_taken = result.is_ok();
        live.has_read |= is_taken;
        // Memory of a long message that was just read is given back the long way, and then others may read again.
        let is_short =
            live.message_steps == 0 && !is_read_ahead && live.connection.state() == State::Established;
        if is_short && !live.connection.has_urgent_output() {
            // Nothing is to be sent: no clock, no outbox.
            core.note_taken(slot, &live);
            match live.leave() {
                Ok(()) => {
                    if !is_taken {
                        self.note_nothing(slot, &slot.waiters, Interest::Readable);
                    }
                    return result;
                }
                Err(wanted) => live = wanted,
            }
        }
        live.stay();
        core.work(core.port(slot.home()), slot, live, clock::now());
        if !is_taken && !slot.is_ready(Interest::Readable) {
            self.note_nothing(slot, &slot.waiters, Interest::Readable);
        }
        result
    }

    /// Locks the slot, does something to its connection, and sends what comes of it.
    pub(super) fn operate<T>(&self, slot: &Arc<Slot>, operation: impl FnOnce(&mut Live, Instant) -> T) -> T {
        let core = &*self.core;
        let mut live = slot.lock();
        let now = clock::now();
        let outcome = operation(&mut live, now);
        live.set_cork(0);
        core.work(core.port(slot.home()), slot, live, now);
        outcome
    }

    /// Lets what gathers for a common packet leave now, and the third packet of an open.
    pub fn flush(&self, slot: &Arc<Slot>) {
        self.operate(slot, |live, now| live.connection.confirm_open(now));
        slot.note_confirmed();
    }

    /// Begins to close. Wait for [`Interest::Closed`], then ask [`Engine::close_result`].
    pub fn close(&self, slot: &Arc<Slot>) {
        self.operate(slot, |live, now| live.connection.close(now));
    }

    /// Ends the connection at once by a reset.
    pub fn abort(&self, slot: &Arc<Slot>) {
        self.operate(slot, |live, now| live.connection.abort(now));
    }

    /// The last handle of the slot is gone: closes what is open, and lets the slot go when that is over.
    pub fn release(&self, slot: &Arc<Slot>) {
        self.operate(slot, |live, now| {
            live.is_released = true;
            live.connection.close(now);
        });
    }

    /// As [`Engine::release`], by a thread that fails: the connection is reset, so that its peer does not take what arrived
    /// for the whole. A close that has begun goes on.
    pub fn abandon(&self, slot: &Arc<Slot>) {
        self.operate(slot, |live, now| {
            live.is_released = true;
            if live.connection.state() != State::FinWait {
                // [CDP-ST-H] RST|ACK with REASON 4
                live.connection.abort_with(now, Reason::DIED);
            }
        });
    }

    /// The result of the close, or the error the connection ended by, once it is known.
    #[must_use]
    pub fn close_result(&self, slot: &Slot) -> Option<(CloseResult, Option<Error>)> {
        let live = slot.look();
        live.connection.close_result().map(|result| (result, live.connection.error()))
    }

    /// When and by which way this end and the peer last had to do with each other ([CDP-TMR-3]).
    #[must_use]
    pub fn last_contact(&self, slot: &Slot) -> Contact {
        slot.look().last_contact(clock::now())
    }
}

/// [`LOOK_AFTER`] in nanoseconds.
#[allow(clippy::cast_possible_truncation)] // microseconds
const LOOK_AFTER_NS: u64 = LOOK_AFTER.as_nanos() as u64;
