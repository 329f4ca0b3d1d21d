//! The close: FIN, the two-way exchange, QUIET (rows 28 to 49).

use weft_base::Instant;
use weft_wire::{Kind, Packet, Reason};

use super::{Connection, Event};
use crate::error::Error;
use crate::lifecycle::{Event as Happening, State};
use crate::timers::Timer;

impl Connection {
    /// Closes both directions: sends what is queued, then FIN; unread data is discarded and counted.
    ///
    /// The result comes with [`Event::Closed`] as [`Connection::close_result`].
    pub fn close(&mut self, now: Instant) {
        match self.state {
            // [CDP-ST-15]
            State::SynSent => {
                self.advance(Happening::Close);
                self.end(now, Error::Aborted);
            }
            // [CDP-ST-9] an embryo of a listener that closes
            State::SynReceived => self.abort(now),
            // [CDP-ST-28] discard and count unread data; what is queued, then FIN
            State::Established => {
                self.advance(Happening::Close);
                self.receiver.discard();
                self.receiver.request_ack();
                self.sender.queue_fin();
                // who waits for room learns that nothing more is taken
                if self.blocked.take().is_some() {
                    self.raise(Event::Writable);
                }
                // [CDP-KA-6] keep-alive does not run outside ESTABLISHED
                self.stop_keep_alive();
            }
            // [CDP-ST-45] discard and count unread data; no FIN
            State::CloseWait => {
                let told = self.receiver.discarded();
                self.receiver.discard();
                // else all is said that there is to say: the FIN was acknowledged when it came, or when all before it was read
                if std::mem::take(&mut self.held_fin) || self.receiver.discarded() != told {
                    self.receiver.request_ack();
                }
                self.advance(Happening::Close);
                self.result.confirmed = true;
                self.enter_quiet(now);
            }
            State::FinWait | State::Quiet | State::Closed => {}
        }
    }

    /// Ends the connection at once by RST|ACK with REASON 3 (row 29).
    pub fn abort(&mut self, now: Instant) {
        self.abort_with(now, Reason::ABORT);
    }

    /// Ends the connection at once, as there is no memory for what [`Connection::bytes_beyond_window`] tells (CDP-LIM-13): REASON 13.
    /// What is finished may be read.
    pub fn refuse_message(&mut self, now: Instant) {
        self.read_ack(now);
        if self.advance(Happening::Abort) {
            self.control.reset = Some(Reason::NO_ROOM);
            self.end(now, Error::NoRoom);
        }
    }

    /// Ends the connection at once and tells the peer why, as when the process dies (CDP-ST-H).
    pub fn abort_with(&mut self, now: Instant, reason: Reason) {
        // what was acknowledged was delivered
        self.read_ack(now);
        match self.state {
            State::SynSent => self.end(now, Error::Aborted),
            State::SynReceived | State::Established | State::FinWait => {
                self.advance(Happening::Abort);
                self.control.reset = Some(reason);
                self.end(now, Error::Aborted);
            }
            State::CloseWait => self.close(now),
            State::Quiet | State::Closed => {}
        }
    }

    fn stop_keep_alive(&mut self) {
        for timer in [Timer::Pin, Timer::Expiry, Timer::Mtu] {
            self.timers.stop(timer);
        }
    }

    /// A FIN has become the next number in order, and RCV.NXT has passed over it.
    pub(super) fn handle_fin_in_order(&mut self, now: Instant) {
        self.advance(Happening::FinInOrder);
        if self.state == State::CloseWait {
            self.enter_close_wait(now);
        }
        // [CDP-ST-37] in FIN_WAIT: ACK, and stay until our own FIN is acknowledged
        self.receiver.request_ack();
    }

    /// [CDP-ST-30] Drop and count own unacknowledged and unsent data. [CDP-ST-B] From here on no DAT is sent.
    fn enter_close_wait(&mut self, now: Instant) {
        let (dropped, unsent) = self.sender.discard();
        self.stats.numbers_dropped += dropped;
        self.result.undelivered = dropped + unsent as u64;
        self.timers.stop_all();
        self.verdicts.settle(now, &mut self.stats);
        self.held_fin = self.agreed.confirm && !self.receiver.is_drained();
        self.answer_held_fin();
        self.raise(Event::PeerClosed);
        self.raise(Event::Readable);
        self.raise(Event::Writable);
    }

    /// [CDP-ST-F] While it is held back, each FIN is answered by PIN|ACK that acknowledges all numbers before it.
    pub(super) fn answer_held_fin(&mut self) {
        if self.held_fin {
            self.control.pin = true;
        }
    }

    /// [CDP-ST-35] The acknowledgement covers our FIN: the result is "confirmed".
    pub(super) fn finish_confirmed(&mut self, now: Instant) {
        self.result.confirmed = true;
        self.advance(Happening::FinAcked);
        self.enter_quiet(now);
    }

    /// The close is over, and the peer may not know: the result is "unconfirmed", which is not an error.
    pub(super) fn finish_unconfirmed(&mut self, now: Instant) {
        self.verdicts.settle(now, &mut self.stats);
        // The FIN is no packet of the user's.
        let fin = u64::from(self.sender.is_fin_out());
        let (dropped, unsent) = self.sender.discard();
        self.stats.numbers_dropped += dropped;
        self.result.undelivered += dropped.saturating_sub(fin) + unsent as u64;
        self.result.confirmed = false;
        self.advance(Happening::FinGiveUp);
        self.timers.stop_all();
        self.raise(Event::Closed);
    }

    /// [CDP-ST-C] Both ends pass through QUIET, keep no data buffers there, and keep receiving there.
    fn enter_quiet(&mut self, now: Instant) {
        self.sender.discard();
        self.timers.stop_all();
        self.quiet_since = now;
        self.verdicts.settle(now, &mut self.stats);
        self.timers.set(Timer::QuietEnd, now + self.quiet_most());
        self.restart_quiet(now);
        self.raise(Event::Closed);
    }

    /// [CDP-ST-46] A DAT or FIN restarts the quiet timer.
    pub(super) fn restart_quiet(&mut self, now: Instant) {
        let quiet = self.sender.rtt.rto() * 3 + self.config.rto_max * 2;
        self.timers.set(Timer::Quiet, now + quiet);
    }

    fn quiet_most(&self) -> std::time::Duration {
        std::time::Duration::from_secs(60).max(self.config.rto_max * 3)
    }

    /// Ends QUIET early, as memory pressure may (row 49), or drops an embryo that gives way ([CDP-ST-J]).
    pub fn forget(&mut self) {
        if self.advance(Happening::Forgotten) {
            self.timers.stop_all();
            self.control.open = false;
        }
    }

    /// Whether another connection may have the same ports: in QUIET and CLOSED, at once.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Quiet | State::Closed)
    }

    /// Whether the packet shows that this connection has to be forgotten, and is then one of an unknown connection: for an
    /// old connection a new SYN (row 48), for an embryo a packet to another that is gone.
    #[inline]
    #[must_use]
    pub fn yields_to(&self, packet: &Packet) -> bool {
        match self.state {
            State::SynSent | State::Established | State::FinWait | State::CloseWait => false,
            State::Quiet | State::Closed => self.is_renewed_by(packet),
            State::SynReceived => !self.active && self.is_disowned_by(packet),
        }
    }

    /// [CDP-ST-G] A new SYN takes the place at once: random initial numbers make a waiting time needless. The SYN that began
    /// this connection is not new, however late it comes again.
    fn is_renewed_by(&self, packet: &Packet) -> bool {
        packet.kind() == Kind::Syn && packet.seq(false) != self.irs
    }

    /// [CDP-ST-J] The peer took the SYN|ACK of another: its number fits, what it acknowledges does not.
    fn is_disowned_by(&self, packet: &Packet) -> bool {
        let is_numbered = matches!(packet.kind(), Kind::Data | Kind::Ack | Kind::Pin | Kind::Fin);
        is_numbered
            && packet.header().ack != (self.iss + 1).low32()
            && self.receiver.place(packet.seq(self.agreed.sealed)).is_current()
    }
}
