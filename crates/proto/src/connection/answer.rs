//! An answer leaves before the acknowledgement that came with its question is read.
//!
//! In a conversation each packet brings a message and acknowledges the one that it answers. The peer waits for the next
//! answer, and nothing in that depends on what the acknowledgement says of round trips, windows and timers. So where a packet
//! acknowledges the only one in flight, its data goes to the user at once, and the rest stays unread until the answer has
//! left, until our own acknowledgement is due, or until anything else happens to the connection.

use std::time::Duration;

use weft_base::{Instant, Seq};
use weft_wire::{Header, Kind};

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
            && self.sender.awaits_answer(full)
            && self.receiver.is_next(s)
            && self.receiver.ack_due() == AckDue::No
            && !(header.ce || header.ece)
            && self.state == State::Established
            && self.heard
            && self.blocked.is_none()
            && self.unanswered.count == 0
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
        self.has_unread_ack()
            && !self.may_have_news()
            && self.receiver.ack_due() != AckDue::Now
            && self.state == State::Established
            && now - self.heard_at < AT_ONCE
            && self.sender.may_answer()
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
