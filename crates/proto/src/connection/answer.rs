//! An answer leaves before the acknowledgement that came with its question is read.
//!
//! In a conversation each packet brings a message and acknowledges the one that it answers. The peer waits for the next
//! answer, and nothing in that depends on what the acknowledgement says of round trips, windows and timers. So where a packet
//! acknowledges the only one in flight, its data goes to the user at once, and the rest stays unread until the answer has
//! left, until our own acknowledgement is due, or until anything else happens to the connection.

use std::time::Duration;

use weft_base::{Instant, Seq, Service};
use weft_wire::ack::{Acknowledgement, rebuild};
use weft_wire::emit::data_head;
use weft_wire::{HEADER_LEN, Header, Kind, Lone};

use super::Connection;
use super::input::Reported;
use crate::lifecycle::State;
use crate::receiver::AckDue;
use crate::timers::Timer;

/// How long after it came an acknowledgement may still be unread when the answer leaves: the sender goes by what it knew before.
const AT_ONCE: Duration = Duration::from_micros(50);

impl Connection {
    /// Whether what the latest packet acknowledges is unread: the user is to be shown what came with it and may have an answer.
    /// [`Connection::poll_transmit`] gives that first and then reads the acknowledgement; the next packet, a timer and a change of
    /// paths read it before all else. Counters and measures follow then (decision 0029).
    #[must_use]
    #[inline]
    pub fn has_unread_ack(&self) -> bool {
        self.unread.is_some()
    }

    /// When [`Connection::handle_timeout`] must be called while an acknowledgement is unread and no answer comes: our own is due
    /// then (CDP-ACK-9).
    pub fn await_answer(&mut self, now: Instant) -> Instant {
        let due = now + self.config.ack_delay;
        self.timers.set_if_stopped(Timer::Ack, due);
        due
    }

    /// Whether a packet with number `s` that acknowledges all before `full` is a DAT of a conversation: the only packet of
    /// either side that is under way.
    #[inline]
    pub(super) fn is_answer(&self, header: &Header, s: Seq, full: Seq) -> bool {
        header.kind == Kind::Data
            && !(header.ce || header.ece)
            && self.receiver.is_next(s)
            && self.is_conversation(full)
    }

    #[inline]
    fn is_conversation(&self, full: Seq) -> bool {
        self.sender.awaits_answer(full)
            && self.receiver.ack_due() == AckDue::No
            && self.state == State::Established
            && self.heard
            && self.blocked.is_none()
            && self.unanswered.count == 0
    }

    /// Takes a packet of a conversation whose message, or piece of a stream, goes to the user at once: all is as if it had been
    /// handled and read. `None`, and nothing has changed, where it is another packet, or its data has to wait for other data.
    #[must_use]
    #[inline]
    pub fn take_answer<'p>(&mut self, now: Instant, packet: &Lone<'p>) -> Option<&'p [u8]> {
        let Acknowledgement::Valid(full) = rebuild(self.sender.una(), self.sender.nxt(), packet.ack()) else {
            return None;
        };
        let payload = packet.payload();
        if self.has_unread_ack()
            || payload.len() > usize::from(self.config.link_mss)
            || !self.is_conversation(full)
            || !self.receiver.hands_over(packet.eom(), payload.len())
            // the number last, as it takes the checksum
            || !self.receiver.is_next(packet.seq(self.agreed.sealed))
        {
            return None;
        }
        self.arrivals.now = Some(0);
        self.note_heard(now);
        self.arrivals.now = None;
        self.unread = Some(packet.window());
        self.receiver.note_handed_over();
        self.stats.bytes_received += payload.len() as u64;
        self.stats.messages_received += 1;
        Some(payload)
    }

    /// An acknowledgement stays unread only where the packet that brought it asked for nothing but an answer.
    #[inline]
    pub(super) fn read_unless_answered(&mut self, now: Instant) {
        if self.has_unread_ack()
            && (self.receiver.ack_due() != AckDue::Later || self.state != State::Established)
        {
            self.read_ack(now);
        }
    }

    /// Whether there is an answer to send before anything else.
    #[inline]
    pub(super) fn may_answer(&self, now: Instant) -> bool {
        self.is_answer_due(now) && self.sender.may_answer() && !self.sender.queue.is_empty()
    }

    /// Whether an answer would go before anything else.
    #[inline]
    fn is_answer_due(&self, now: Instant) -> bool {
        self.has_unread_ack()
            && !self.may_have_news()
            && self.receiver.ack_due() != AckDue::Now
            && self.state == State::Established
            && now - self.heard_at < AT_ONCE
    }

    /// The head of the packet in which `data` leaves if it is sent now, where that is an answer that goes before anything else and
    /// is all there is to send. It may be handed to the link before the connection is given the data, which it must be right after,
    /// by [`Connection::note_answered`]; if the packet did not leave, the data is sent as if this had not been asked.
    #[must_use]
    #[inline]
    pub fn head_of_answer(&mut self, now: Instant, data: &[u8]) -> Option<[u8; HEADER_LEN]> {
        let is_datagram = self.config.service == Service::Datagram;
        let is_due = self.is_answer_due(now)
            && self.sender.may_answer()
            && self.sender.queue.takes_whole(data.len())
            && !self.receiver.owes_echo()
            && (is_datagram || !data.is_empty())
            && self.has_room(data.len());
        if !is_due {
            return None;
        }
        let mut header = self.header(Kind::Data);
        // [CDP-STR-2] a stream sender sends EOM=0; [CDP-DG-4] a message that has its packet for itself travels plain
        header.eom = is_datagram;
        Some(data_head(&header, data, self.agreed.sealed))
    }

    /// `data` has left behind the head that [`Connection::head_of_answer`] gave: takes a copy, and all is as if it had been sent and
    /// polled for.
    pub fn note_answered(&mut self, now: Instant, data: &[u8]) {
        self.stats.messages_sent += 1;
        self.sender.queue.push(data);
        let polled = self.sender.poll(now, true, &mut self.timers, &mut self.stats);
        debug_assert!(polled.is_ok(), "what leaves before it is queued is all there is");
        if let Ok(numbered) = polled {
            let piece = self.sender.flight.piece(numbered.at);
            debug_assert_eq!(self.sender.queue.get(piece), data);
            self.sender.queue.freeze(piece);
            self.note_number_sent(now);
            self.stats.packets_sent += 1;
        }
    }

    /// Reads the acknowledgement that is unread: of the oldest packet in flight, unless that was given up meanwhile.
    #[inline]
    pub(super) fn read_ack(&mut self, now: Instant) {
        if let Some(window) = self.unread.take()
            && self.sender.una() != self.sender.nxt()
        {
            let by_data = Reported { kind: Kind::Data, window, ece: false, tlvs: None };
            self.handle_acknowledgement(now, self.heard_at, self.sender.una() + 1, by_data);
        }
    }

    /// Whether all that is in flight has been acknowledged, although that is unread.
    pub(super) fn is_answered(&self) -> bool {
        self.has_unread_ack() && self.sender.nxt() == self.sender.una() + 1
    }
}
