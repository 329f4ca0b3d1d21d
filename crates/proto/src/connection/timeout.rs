//! A timer fires.

use weft_base::Instant;
use weft_wire::Reason;

use super::Connection;
use crate::error::{Error, Waited};
use crate::lifecycle::{Event as Happening, State};
use crate::mtu;
use crate::timers::Timer;

impl Connection {
    /// Does what is due by `now`; cheap if nothing is.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.read_ack(now);
        while let Some(timer) = self.timers.take_expired(now) {
            self.handle_timer(now, timer);
        }
    }

    fn handle_timer(&mut self, now: Instant, timer: Timer) {
        match timer {
            Timer::Syn => self.handle_syn_timer(now),
            Timer::SynGiveUp => self.give_up_open(now),
            // [CDP-ACK-9] acknowledged within ACK_DELAY
            Timer::Ack => {
                self.note_unanswered(now);
                self.receiver.request_ack();
            }
            Timer::Retransmit => self.handle_retransmit_timer(now),
            Timer::TailProbe => self.sender.handle_tail_timeout(now, &mut self.timers, &mut self.stats),
            Timer::Reorder => self.sender.handle_reorder_timeout(now, &mut self.timers, &mut self.stats),
            Timer::Persist => self.handle_persist_timer(now),
            // the pacer is asked again by the next poll
            Timer::Pace => {}
            Timer::Pin => {
                self.sender.rest_longer();
                self.handle_pin_timer(now);
            }
            Timer::Expiry => {
                self.sender.rest_longer();
                self.handle_expiry_timer(now);
            }
            Timer::FinGiveUp => self.give_up_fin(now),
            Timer::Quiet | Timer::QuietEnd => self.forget(),
            Timer::Mtu => self.handle_mtu_timer(now),
            // NO_PROGRESS: RST|ACK, REASON 7
            Timer::NoProgress => self.drop_peer(now, Reason::STALLED, Waited::Reader),
        }
    }

    /// [CDP-ST-14] [CDP-ST-20] repeat SYN or SYN|ACK; [CDP-ST-26] PIN|ACK, or ACK with COOKIE if one came.
    fn handle_syn_timer(&mut self, now: Instant) {
        match self.state {
            State::SynSent | State::SynReceived => {
                self.note_open_lost();
                self.control.open |= self.active;
            }
            State::Established | State::FinWait if self.cookie.is_some() => {
                self.receiver.request_ack();
                self.repeat_third_packet(now);
            }
            State::Established | State::FinWait => self.handle_third_timer(now),
            State::CloseWait | State::Quiet | State::Closed => {}
        }
    }

    fn give_up_open(&mut self, now: Instant) {
        if self.state == State::FinWait {
            self.finish_unconfirmed(now);
        } else if self.advance(Happening::OpenTimeout) {
            self.end(now, Error::TimedOut(Waited::Open));
        }
    }

    fn handle_retransmit_timer(&mut self, now: Instant) {
        let token = self.jitter.token();
        if self.sender.handle_timeout(now, &self.config, token, &mut self.timers, &mut self.stats).is_ok() {
            return;
        }
        // [CDP-ST-32] R2: RST|ACK once, REASON 6
        self.drop_peer(now, Reason::GAVE_UP, Waited::Acknowledgement);
    }

    /// Ends the connection by RST|ACK, once; in FIN_WAIT that is an unconfirmed close, not an error.
    fn drop_peer(&mut self, now: Instant, reason: Reason, waited: Waited) {
        self.control.reset = Some(reason);
        if self.state == State::FinWait {
            self.finish_unconfirmed(now);
        } else {
            self.advance(Happening::GiveUp);
            self.end(now, Error::TimedOut(waited));
        }
    }

    /// [CDP-WND-9] PIN|ACK probes while the window is closed and data waits, and no data as a probe.
    fn handle_persist_timer(&mut self, now: Instant) {
        if !self.sender.is_stuck() {
            return;
        }
        let silent = self.unanswered.since().is_some_and(|since| now - since >= self.config.give_up_time);
        if silent && self.unanswered.count >= self.config.give_up_tries {
            self.drop_peer(now, Reason::GAVE_UP, Waited::Acknowledgement);
            return;
        }
        self.control.pin = true;
        self.persist_tries = self.persist_tries.saturating_add(1);
    }

    /// [CDP-KA-2] A client that has sent nothing for PIN_INTERVAL sends PIN|ACK (row 34).
    fn handle_pin_timer(&mut self, now: Instant) {
        // [CDP-KA-1] only the client sends PINs of its own accord
        if self.state != State::Established || self.ask_again(now) || !self.active {
            return;
        }
        let interval = self.jitter.around(self.agreed.keep_alive.interval());
        let due = self.sent_at + self.agreed.keep_alive.interval() * 9 / 10;
        if now < due {
            self.timers.set(Timer::Pin, self.sent_at + interval);
            return;
        }
        self.control.pin = true;
        self.timers.set(Timer::Pin, now + interval);
    }

    /// [CDP-KA-3] A server that has heard nothing for EXPIRY, and [CDP-KA-4] a client whose PINs had no answer for
    /// EXPIRY, drop the connection; [CDP-KA-5] RST|ACK with REASON 5, once.
    fn handle_expiry_timer(&mut self, now: Instant) {
        if self.state != State::Established {
            return;
        }
        let since = if self.active { self.unanswered.since().unwrap_or(now) } else { self.heard_at };
        let due = since + self.agreed.keep_alive.expiry();
        if now < due {
            self.timers.set(Timer::Expiry, due);
            return;
        }
        // [CDP-ST-33]
        self.drop_peer(now, Reason::IDLE, Waited::KeepAlive);
    }

    /// [CDP-ST-40] FIN_GIVE_UP: RST|ACK once, REASON 6; the result is "unconfirmed".
    fn give_up_fin(&mut self, now: Instant) {
        if self.state == State::FinWait {
            self.control.reset = Some(Reason::GAVE_UP);
            self.finish_unconfirmed(now);
        }
    }

    /// [CDP-MTU-4] The loss of a probe is no congestion.
    fn handle_mtu_timer(&mut self, now: Instant) {
        // what is sent after a close is not worth a search
        if self.state != State::Established {
            return;
        }
        let again = if self.sender.mtu.is_probing() {
            self.sender.mtu.handle_timeout(self.jitter.token())
        } else {
            self.sender.mtu.begin(self.jitter.token())
        };
        if again {
            self.timers.set(Timer::Mtu, now + self.sender.rtt.rto());
        } else {
            self.await_mtu_search(now);
        }
    }

    /// The search for a larger packet is over; after a fall there is another.
    pub(super) fn await_mtu_search(&mut self, now: Instant) {
        if self.sender.mtu.has_fallen() {
            self.timers.set(Timer::Mtu, now + mtu::RAISE);
        } else {
            self.timers.stop(Timer::Mtu);
        }
    }
}
