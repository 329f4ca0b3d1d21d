//! The third packet of an open: an ACK of its own, or what the user says at once (row 10).

use std::time::Duration;

use weft_base::Instant;

use super::Connection;
use crate::lifecycle::State;
use crate::timers::Timer;

/// Within such a time the ACK still tells the peer how long a round trip takes.
const PROMPT: Duration = Duration::from_micros(50);

/// How it leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Third {
    /// As the answer to the SYN|ACK.
    #[default]
    AtOnce,
    /// With what the user says, if that is soon.
    Joins,
    /// It is to leave so, and has not, unless something else has.
    Owed,
}

impl Connection {
    /// The user waits for the open and then goes on at once: the third packet of the open may be what he says then.
    ///
    /// Whoever waits for the peer afterwards calls [`Connection::confirm_open`].
    pub fn join_third(&mut self) {
        if self.state == State::SynSent {
            self.third = Third::Joins;
        }
    }

    /// Whether the third packet of the open waits for what the user says.
    #[must_use]
    pub fn owes_third(&self) -> bool {
        // nothing but the SYN was sent
        self.third == Third::Owed && self.stats.packets_sent == 1
    }

    /// The user has nothing to say: the third packet leaves, if it has not yet.
    ///
    /// Ask [`Connection::poll_transmit`] afterwards.
    pub fn confirm_open(&mut self, now: Instant) {
        if !self.owes_third() {
            return;
        }
        if now - self.heard_at < PROMPT {
            self.send_third(now);
        } else {
            self.handle_third_timer(now);
        }
    }

    /// [CDP-ST-10] The SYN|ACK came. An echo of a cookie goes alone, and a SYN that was repeated waits for nothing more.
    pub(super) fn begin_third(&mut self, now: Instant) {
        if self.third == Third::Joins && self.cookie.is_none() && self.stats.packets_sent == 1 {
            self.third = Third::Owed;
            self.timers.set(Timer::Syn, now + self.config.ack_delay);
        } else {
            self.send_third(now);
        }
    }

    fn send_third(&mut self, now: Instant) {
        self.third = Third::AtOnce;
        self.receiver.request_ack();
        self.timers.set(Timer::Syn, now + self.sender.rtt.rto());
    }

    /// [CDP-ST-26] The peer was not heard yet: PIN|ACK, unless the third packet has left since with what the user said.
    pub(super) fn handle_third_timer(&mut self, now: Instant) {
        if std::mem::take(&mut self.third) == Third::Owed && self.stats.packets_sent > 1 {
            self.timers.set(Timer::Syn, now + self.sender.rtt.rto());
        } else {
            self.control.pin = true;
            self.repeat_third_packet(now);
        }
    }

    /// When it is to be repeated.
    pub(super) fn repeat_third_packet(&mut self, now: Instant) {
        self.open_tries = self.open_tries.saturating_add(1);
        let wait = super::output::doubled(self.config.rto_init, self.open_tries.into(), self.config.rto_max);
        self.timers.set(Timer::Syn, now + wait);
    }
}
