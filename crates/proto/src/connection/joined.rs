//! Parts of a message that came together go to who waits for it, and are neither taken apart nor queued.

use weft_base::Instant;
use weft_wire::ack::{Acknowledgement, rebuild};
use weft_wire::{JoinedParts, Kind};

use super::Connection;
use super::input::Reported;
use crate::lifecycle::State;
use crate::receiver::AckDue;

impl Connection {
    /// Copies parts of a message that came by path 0 to the memory of so many bytes that `place` gives: all is as if their packets had been
    /// handled, and the message had been read, or [read ahead](Connection::read_ahead) where they are not its end. It is for a reader that has
    /// the first `ahead` bytes of the message. Tells how many bytes it has more. `None`, and nothing has changed but maybe that memory, where
    /// they are not whole, others are to be read before, or there is more to see to than to acknowledge all that was sent.
    #[must_use]
    pub fn take_joined<'p>(
        &mut self,
        now: Instant,
        parts: &JoinedParts<'_>,
        ahead: u32,
        place: impl FnOnce(usize) -> Option<&'p mut [u8]>,
    ) -> Option<usize> {
        let (una, nxt, first) = (self.sender.una(), self.sender.nxt(), parts.first());
        let coalesce = self.receiver.inbox().coalesces();
        let (packets, bytes) = (parts.packets(), parts.message_bytes(coalesce));
        let may_take = self.state == State::Established
            && self.heard
            && !self.has_unread_ack()
            && self.blocked.is_none()
            // of a message that has begun the acknowledgement may be left to the answer
            && self.receiver.ack_due() <= if ahead > 0 { AckDue::Later } else { AckDue::No }
            && rebuild(una, nxt, first.ack()) == Acknowledgement::Valid(nxt)
            && first.payload().len() <= usize::from(self.config.link_mss)
            && self.receiver.hands_over_parts(packets, ahead, bytes);
        if !may_take {
            return None;
        }
        let to = place(bytes)?;
        // [CDP-CHK-4] what is damaged has another number
        if !parts.copy_to(self.receiver.nxt(), self.agreed.sealed, coalesce, to) {
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
        self.stats.packets_received += u64::from(packets - 1);
        self.stats.bytes_received += parts.data_bytes() as u64;
        self.receiver.note_ahead(packets, bytes, parts.has_end());
        if self.receiver.ack_due() == AckDue::Soon {
            self.must_acknowledge(now);
        }
        if parts.has_end() {
            self.receiver.read(|inbox| inbox.pop_rest(inbox.ahead()));
            self.stats.messages_received += 1;
        }
        Some(bytes)
    }

    /// Whether nothing is to be sent, waited for or told after [`Connection::take_joined`].
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.sender.is_idle() && self.events == 0 && !self.has_urgent_output()
    }
}
