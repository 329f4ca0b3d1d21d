//! The peer's host says that nobody has the peer's UDP port (CDP-ENC-10 to -13).
//!
//! Such a message can be forged, and a firewall may send it for a moment, so an open connection asks before it believes.

use std::time::Duration;

use weft_base::Instant;
use weft_wire::{Header, Reason};

use super::Connection;
use crate::error::Error;
use crate::lifecycle::{Event as Happening, State};
use crate::timers::Timer;

/// For how long the host must say so, and the peer nothing (REFUSED in section 12).
const REFUSED: Duration = Duration::from_secs(1);
/// How often it is asked meanwhile.
const ASK_EACH: Duration = Duration::from_millis(250);
/// When a message is forgotten that no other followed.
const FORGOTTEN: Duration = Duration::from_secs(3);

impl Connection {
    /// Takes the news that a packet met a host where nobody has the peer's UDP port; `head` is the head of that packet as the
    /// message quotes it. For a packet that went straight to the peer's node, not through an I/O node.
    pub fn handle_unreachable(&mut self, now: Instant, head: &Header) {
        self.read_ack(now);
        if !self.may_have_sent(head) {
            self.stats.not_current += 1;
            return;
        }
        match self.state {
            // [CDP-ENC-11] an open ends as by an RST with REASON 1
            State::SynSent | State::SynReceived => {
                self.result.reason = Some(Reason::REFUSED);
                self.advance(Happening::Reset);
                self.end(now, Error::Absent);
            }
            State::Established | State::FinWait => self.doubt(now),
            State::CloseWait | State::Quiet | State::Closed => {}
        }
    }

    /// Whether a packet with this head may be one that this connection sent and has not been told of since.
    ///
    /// [CDP-ENC-10] Of an open the whole number, which is in no case sealed; later the half that the seal leaves in clear.
    #[must_use]
    pub fn may_have_sent(&self, head: &Header) -> bool {
        if head.source != self.flow.local || head.destination != self.flow.remote {
            return false;
        }
        if !self.state.is_synchronized() {
            return head.kind.is_open() && head.seq == self.iss;
        }
        let (una, nxt) = (self.sender.una(), self.sender.nxt());
        let beyond = head.seq.low32().wrapping_sub((una - 1).low32());
        u64::from(beyond) <= nxt.distance_from(una - 1)
    }

    /// [CDP-ENC-12] The first message is a question to the peer, and the peer has REFUSED to answer it.
    fn doubt(&mut self, now: Instant) {
        let since = *self.refused_since.get_or_insert(now);
        if now - since >= REFUSED {
            return self.bury(now);
        }
        if since == now && self.state == State::Established {
            self.control.pin = true;
            self.timers.set(Timer::Pin, now + ASK_EACH);
        }
    }

    /// [CDP-ENC-13] Nothing but such messages for REFUSED: RST|ACK once, REASON 6, should the peer be there after all.
    fn bury(&mut self, now: Instant) {
        self.control.reset = Some(Reason::GAVE_UP);
        if self.state == State::FinWait {
            self.finish_unconfirmed(now);
        } else {
            self.advance(Happening::GiveUp);
            self.end(now, Error::Gone);
        }
    }

    /// The PIN timer of a connection in doubt: asks again, or goes back to keep-alive. Tells whether that was all.
    pub(super) fn ask_again(&mut self, now: Instant) -> bool {
        let Some(since) = self.refused_since else { return false };
        if now - since >= FORGOTTEN {
            self.refused_since = None;
            return false;
        }
        self.control.pin = true;
        self.timers.set(Timer::Pin, now + ASK_EACH);
        true
    }
}
