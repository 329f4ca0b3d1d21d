//! An answer leaves before the acknowledgement that came with its question is read.
//!
//! In a conversation each packet brings a message and acknowledges the one that it answers. The peer waits for the next
//! answer, and nothing in that depends on what the acknowledgement says of round trips, windows and timers. So where a packet
//! acknowledges the only one in flight, its data goes to the user at once, and the rest stays unread until the answer has
//! left, until our own acknowledgement is due, or until anything else happens to the connection.

use std::time::Duration;

use weft_base::{Instant, Seq};
use weft_wire::{Header, Packet};

use super::transmit::Lay;
use super::{Connection, Transmit};
use crate::lifecycle::State;
use crate::receiver::{AckDue, Place};
use crate::sender::Acked;
use crate::timers::Timer;

/// How long after it came an acknowledgement may still be unread when the answer leaves: the sender goes by what it knew before.
const AT_ONCE: Duration = Duration::from_micros(50);

impl Connection {
    /// Whether what the latest packet acknowledges is unread: the user is to be shown what came with it and may have an answer.
    /// [`Connection::poll_transmit`] gives that first, then reads the acknowledgement, and so does whatever else is called for
    /// `now`. Counters and measures follow then.
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

    /// Whether a DAT with number `s` that acknowledges all before `full` is part of a conversation: the only packet of either
    /// side that is under way.
    #[inline]
    pub(super) fn is_answer(&self, header: &Header, s: Seq, full: Seq) -> bool {
        self.sender.awaits_answer(full)
            && self.receiver.is_next(s)
            && self.receiver.ack_due() == AckDue::No
            && !(header.ce || header.ece)
            && self.state == State::Established
            && self.heard
            && self.blocked.is_none()
            && self.unanswered.count == 0
    }

    /// Takes the data of such a packet, and leaves its acknowledgement unread if nothing else comes of it.
    pub(super) fn take_answer(&mut self, now: Instant, s: Seq, packet: &mut Packet) {
        self.unread = Some(packet.header().window);
        self.note_heard(now);
        self.handle_data(now, s, Place::Within, packet);
        if self.receiver.ack_due() != AckDue::Later || self.state != State::Established {
            self.read_ack(now);
        }
    }

    /// The next answer, if there is one and it may go.
    pub(super) fn transmit_answer(&mut self, now: Instant, head: &mut Vec<u8>, lay: Lay) -> Option<Transmit> {
        let is_plain = !self.may_have_news()
            && self.receiver.ack_due() != AckDue::Now
            && self.state == State::Established
            && now - self.heard_at < AT_ONCE;
        let numbered = if is_plain { self.sender.poll_answer(now, &mut self.stats) } else { None };
        Some(self.transmit_number(now, numbered?, head, lay))
    }

    /// Reads the acknowledgement that is unread: of the oldest packet in flight, unless that was given up meanwhile.
    #[inline]
    pub(super) fn read_ack(&mut self, now: Instant) {
        let Some(window) = self.unread.take() else { return };
        if self.sender.una() != self.sender.nxt() {
            let window = u64::from(window) << self.agreed.send_scale;
            self.take_acked(now, &Acked::by_data(self.heard_at, self.sender.una() + 1, window));
        }
    }

    /// Whether all that is in flight has been acknowledged, although that is unread.
    pub(super) fn is_answered(&self) -> bool {
        self.has_unread_ack() && self.sender.nxt() == self.sender.una() + 1
    }
}
