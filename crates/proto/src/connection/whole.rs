//! A message of several packets that came together goes to who waits for it, and is neither taken apart nor queued.

use weft_base::Instant;
use weft_wire::ack::{Acknowledgement, rebuild};
use weft_wire::{JoinedMessage, Kind};

use super::Connection;
use super::input::Reported;
use crate::lifecycle::State;
use crate::receiver::AckDue;

impl Connection {
    /// Copies a message that came by path 0 to the memory of so many bytes that `place` gives: all is as if its packets had been handled and it
    /// had been read. Tells its bytes. `None`, and nothing has changed but maybe that memory, where it is not whole, another is to be read
    /// before, or there is more to see to than to acknowledge all that was sent.
    #[must_use]
    pub fn take_message<'p>(
        &mut self,
        now: Instant,
        message: &JoinedMessage<'_>,
        place: impl FnOnce(usize) -> Option<&'p mut [u8]>,
    ) -> Option<usize> {
        let (una, nxt, first) = (self.sender.una(), self.sender.nxt(), message.first());
        let coalesce = self.receiver.inbox().coalesces();
        let bytes = message.message_bytes(coalesce);
        let may_take = self.state == State::Established
            && self.heard
            && !self.has_unread_ack()
            && self.blocked.is_none()
            && self.receiver.ack_due() == AckDue::No
            && rebuild(una, nxt, first.ack()) == Acknowledgement::Valid(nxt)
            && first.payload().len() <= usize::from(self.config.link_mss)
            && self.receiver.hands_over_message(message.packets(), bytes);
        if !may_take {
            return None;
        }
        let to = place(bytes)?;
        // [CDP-CHK-4] what is damaged has another number
        if !message.copy_to(self.receiver.nxt(), self.agreed.sealed, coalesce, to) {
            return None;
        }
        self.arrivals.now = Some(0);
        self.note_heard(now);
        self.arrivals.now = None;
        if !self.is_known(first.window(), nxt) {
            let by_data = Reported { kind: Kind::Data, window: first.window(), ece: false, tlvs: None };
            self.handle_acknowledgement(now, now, nxt, by_data);
        }
        self.sender.rtt.has_answers = true;
        self.receiver.note_handed_over(message.packets());
        self.stats.packets_received += u64::from(message.packets() - 1);
        self.stats.bytes_received += message.data_bytes() as u64;
        self.stats.messages_received += 1;
        if self.receiver.ack_due() == AckDue::Soon {
            self.must_acknowledge(now);
        }
        Some(bytes)
    }

    /// Whether nothing is to be sent, waited for or told after [`Connection::take_message`].
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.sender.is_idle() && self.events == 0 && !self.has_urgent_output()
    }
}
