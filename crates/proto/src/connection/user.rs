//! What the user of a connection does with it: send and receive.

use std::num::{NonZeroU32, NonZeroUsize};

use bytes::Bytes;
use weft_base::Service;

use super::{Connection, Event};
use crate::error::{RecvError, SendError};
use crate::inbox::{Inbox, Received};
use crate::lifecycle::State;
use crate::message::Message;

/// So much of a message whose end has not come is worth waking who waits for it.
const AHEAD_BYTES: usize = 64 << 10;

impl Connection {
    /// Takes a copy of `data`: one whole message in datagram service, or as many bytes of the stream as fit.
    ///
    /// Returns the bytes taken. Costs one copy, and no packet is made before [`Connection::poll_transmit`].
    ///
    /// # Errors
    ///
    /// [`SendError`]; nothing is taken then.
    pub fn send(&mut self, data: &[u8]) -> Result<usize, SendError> {
        let len = self.admit(data.len(), data.len())?;
        self.sender.queue.push_some(&data[..len], data.len());
        Ok(len)
    }

    /// Bytes of a long message that the packets have which fill `bytes`, or that one of them has, with their headers.
    #[must_use]
    pub fn full_bytes(&self, bytes: usize) -> usize {
        self.sender.queue.full_bytes(bytes)
    }

    /// Takes a copy of the first part of a long message, of `most` bytes or a little more, in full packets, so that these may leave while the
    /// rest is copied; returns its bytes. The queue must have room for `held` bytes, of which there may be fewer than of the message where the
    /// caller waits for room before it goes on with [`Connection::send_rest`]. Until it is complete nothing else is taken, and a FIN waits
    /// for that as well.
    ///
    /// # Errors
    ///
    /// [`SendError`]; nothing is taken then.
    pub fn send_first(&mut self, message: &[u8], most: usize, held: usize) -> Result<usize, SendError> {
        debug_assert!(self.config.service == Service::Datagram, "a stream has no messages");
        self.admit(message.len(), held)?;
        Ok(self.sender.queue.push_part(message, most))
    }

    /// Takes a copy of the next part of that message, of which `rest` was not taken yet; returns its bytes. All of it is taken, and goes nowhere,
    /// where the connection has ended since.
    pub fn send_rest(&mut self, rest: &[u8], most: usize) -> usize {
        if self.is_mid_message() { self.sender.queue.push_part(rest, most) } else { rest.len() }
    }

    /// Whether the rest of a message is still to come, by [`Connection::send_rest`].
    #[must_use]
    #[inline]
    pub fn is_mid_message(&self) -> bool {
        self.sender.queue.is_mid_message()
    }

    /// As [`Connection::send`], but shares `data` with the caller instead of copying it, where that is no loss, until the peer
    /// has acknowledged it.
    ///
    /// # Errors
    ///
    /// [`SendError`]; nothing is taken then.
    pub fn send_lent(&mut self, data: &Bytes) -> Result<usize, SendError> {
        let len = self.admit(data.len(), data.len())?;
        self.sender.queue.push_lent(data.slice(..len));
        Ok(len)
    }

    /// New data of the stream waits where there are less than `bytes` of it, until the next such call or the user closes;
    /// where there are as many all of it may go. What was sent before is sent again all the same.
    pub fn cork(&mut self, bytes: usize) {
        self.sender.is_corked = self.sender.queue.bytes() < bytes;
    }

    fn check_sendable(&self) -> Result<(), SendError> {
        if let Some(error) = self.error {
            return Err(SendError::Failed(error));
        }
        match self.state {
            State::SynSent | State::SynReceived => Err(SendError::WouldBlock),
            State::Established => Ok(()),
            // [CDP-ST-42] EPIPE after the peer's FIN or our own close
            State::FinWait | State::CloseWait | State::Quiet | State::Closed => Err(SendError::Closed),
        }
    }

    /// How many of `bytes` the send queue takes now: a message whole, where it has room for `held` bytes, of a stream what there is room for.
    fn admit(&mut self, bytes: usize, held: usize) -> Result<usize, SendError> {
        self.check_sendable()?;
        let (taken, wanted) = match self.config.service {
            Service::Datagram => {
                // [CDP-DG-6] larger than the limit: EMSGSIZE, and nothing is sent
                let limit = self.message_limit();
                if bytes > limit {
                    return Err(SendError::TooBig(limit));
                }
                // one that needs the queue for itself would never find it empty while shorter ones go in
                let longest = self.blocked.map_or(0, NonZeroUsize::get);
                let waits = longest > self.config.send_bytes && held < longest;
                ((!waits && self.has_room(held)).then_some(bytes), if waits { longest } else { held })
            }
            Service::Stream => {
                let room = self.config.send_bytes.saturating_sub(self.sender.buffered()).min(bytes);
                ((room > 0 || bytes == 0).then_some(room), 1)
            }
        };
        let Some(taken) = taken else {
            self.blocked = Some(NonZeroUsize::new(wanted).unwrap_or(NonZeroUsize::MIN));
            return Err(SendError::WouldBlock);
        };
        // [CDP-STR-3] of a stream nothing is no message
        self.stats.messages_sent += u64::from(taken > 0 || self.config.service == Service::Datagram);
        Ok(taken)
    }

    /// [CDP-LIM-8] Whether a message of `bytes`, or the first byte of a piece of a stream, is taken.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        let buffered = self.sender.buffered();
        match self.config.service {
            Service::Stream => buffered < self.config.send_bytes,
            Service::Datagram => {
                if self.sender.queue.is_mid_message() {
                    return false;
                }
                let packets = self.packets_held();
                let fits = buffered + bytes <= self.config.send_bytes && packets < self.config.send_packets;
                // a message longer than the queue is taken when nothing else is held
                fits || (packets == 0 && buffered == 0)
            }
        }
    }

    /// Packets held for the user: not yet sent, and not yet acknowledged.
    fn packets_held(&self) -> usize {
        self.sender.queue.packets() + self.sender.flight.len()
    }

    /// Raises `Writable` once what was refused fits, and the queue is emptier than just that.
    pub(super) fn note_writable(&mut self) {
        let Some(bytes) = self.blocked else { return };
        let counts_packets = self.config.service == Service::Datagram;
        let is_crowded = self.sender.buffered() > self.config.send_bytes / 2
            || (counts_packets && self.packets_held() > self.config.send_packets * 3 / 4);
        if !is_crowded && self.has_room(bytes.get()) {
            self.blocked = None;
            self.raise(Event::Writable);
        }
    }

    /// The largest message that `send` takes, in bytes (CDP-DG-3, CDP-DG-4); for a stream there is no limit.
    #[must_use]
    pub fn message_limit(&self) -> usize {
        match self.config.service {
            Service::Stream => usize::MAX,
            Service::Datagram => {
                let packet = usize::from(self.sender.mtu.current());
                self.agreed.peer_message.map_or(packet, |message| (message as usize).max(packet))
            }
        }
    }

    /// Copies one message, or as many bytes of the stream as are there and fit.
    ///
    /// # Errors
    ///
    /// [`RecvError`]; an error of the connection follows all data that was in order before it (CDP-ERR-2).
    #[inline] // its result is not copied on its way then: a receiver of small messages has nearly a tenth of its time from that
    pub fn recv(&mut self, buffer: &mut [u8]) -> Result<Received, RecvError> {
        let received = self.receiver.read(|inbox| inbox.read(buffer));
        self.after_read();
        match received {
            Some(received) => {
                self.stats.messages_received += 1;
                Ok(received)
            }
            // what another reader has the beginning of comes before the end
            None if self.is_read_ahead() => Err(RecvError::WouldBlock),
            None => self.nothing_to_read(),
        }
    }

    /// Hands over one message, or one chunk of the stream, where it lies; `None` at the end.
    ///
    /// # Errors
    ///
    /// As for [`Connection::recv`].
    pub fn recv_message(&mut self) -> Result<Option<Message>, RecvError> {
        let message = self.receiver.read(Inbox::pop);
        self.after_read();
        match message {
            Some(message) => {
                self.stats.messages_received += 1;
                Ok(Some(message))
            }
            // see above
            None if self.is_read_ahead() => Err(RecvError::WouldBlock),
            None => self.nothing_to_read().map(|_| None),
        }
    }

    /// As [`Connection::recv_message`], but for the first `ahead` bytes of the message, which the reader has by
    /// [`Connection::read_ahead`].
    ///
    /// # Errors
    ///
    /// As for [`Connection::recv`].
    pub fn recv_rest(&mut self, ahead: NonZeroU32) -> Result<Option<Message>, RecvError> {
        let ahead = ahead.get();
        let rest = self.receiver.read(|inbox| inbox.pop_rest(ahead));
        self.after_read();
        match rest {
            Some(rest) => {
                self.stats.messages_received += 1;
                Ok(Some(rest))
            }
            None => self.nothing_to_read().map(|_| None),
        }
    }

    /// Shows `take` what has come of the next message before its end has, part after part as long as it takes them, and tells how many
    /// bytes it has taken. It is for a reader that waits and has the first `ahead` bytes: no other one has this message from then on, until it
    /// gets the rest with [`Connection::recv_rest`] or has [put back](Connection::put_back) what it took. Nothing comes where another
    /// one has it, and of a stream.
    pub fn read_ahead(&mut self, ahead: u32, take: impl FnMut(&[u8]) -> bool) -> u32 {
        self.receiver.inbox_mut().read_ahead(ahead, take)
    }

    /// Bytes that [`Connection::read_ahead`] may take.
    #[must_use]
    #[inline]
    pub fn bytes_ahead(&self) -> usize {
        self.receiver.inbox().bytes_ahead()
    }

    /// A reader waits no more and puts back what it took by [`Connection::read_ahead`]: another one may have the message.
    pub fn put_back(&mut self, beginning: &[u8]) {
        self.receiver.inbox_mut().put_back(beginning);
        self.raise(Event::Readable);
    }

    /// Whether a reader has the beginning of the next message.
    #[must_use]
    #[inline]
    pub fn is_read_ahead(&self) -> bool {
        self.receiver.inbox().ahead() > 0
    }

    /// [CDP-ST-F] Once the user has read everything the FIN may be acknowledged.
    pub(super) fn after_read(&mut self) {
        if self.held_fin && self.receiver.is_drained() {
            self.held_fin = false;
            self.receiver.request_ack();
        }
    }

    fn nothing_to_read(&self) -> Result<Received, RecvError> {
        let end = Received { len: 0, truncated: 0, end_of_file: true };
        match self.state {
            // [CDP-ERR-2] the error follows the data
            State::Closed => self.error.map_or(Err(RecvError::Closed), |error| Err(RecvError::Failed(error))),
            // [CDP-ST-41] what is queued, then the end of file
            State::CloseWait => Ok(end),
            State::FinWait | State::Quiet => Err(RecvError::Closed),
            State::SynSent | State::SynReceived | State::Established => Err(RecvError::WouldBlock),
        }
    }

    /// Whether `recv` would give something other than [`RecvError::WouldBlock`].
    #[must_use]
    pub fn is_readable(&self) -> bool {
        let inbox = self.receiver.inbox();
        inbox.ahead() == 0 && (!inbox.is_empty() || self.is_end_known())
    }

    /// Whether who has read all learns more than that there is nothing.
    #[inline]
    fn is_end_known(&self) -> bool {
        !matches!(self.state, State::SynSent | State::SynReceived | State::Established)
    }

    /// Whether a reader that may take a message before its end has come finds something: the rest of what it has the beginning of, or
    /// 64 KiB by [`Connection::read_ahead`].
    #[must_use]
    #[inline]
    pub fn is_rest_readable(&self) -> bool {
        let inbox = self.receiver.inbox();
        // a message without end is gone when the connection ends
        inbox.bytes_ahead() >= AHEAD_BYTES || (inbox.ahead() > 0 && !inbox.is_empty())
    }

    /// Whether the next `recv` copies no more than what one packet has, if anything.
    #[must_use]
    #[inline]
    pub fn is_next_short(&self) -> bool {
        self.receiver.inbox().is_next_short()
    }

    /// Whether `send` would do something other than say [`SendError::WouldBlock`].
    #[must_use]
    pub fn is_writable(&self) -> bool {
        match self.check_sendable() {
            Err(SendError::WouldBlock) => false,
            Err(_) => true,
            Ok(()) => self.has_room(self.blocked.map_or(1, NonZeroUsize::get)),
        }
    }
}
