//! Which RST is believed (section 8).

use weft_base::Instant;
use weft_wire::ack::{Acknowledgement, rebuild};
use weft_wire::{Packet, Reason};

use super::Connection;
use crate::error::Error;
use crate::lifecycle::{Event as Happening, State};

impl Connection {
    /// In SYN_SENT (row 13).
    pub(super) fn handle_refusal(&mut self, now: Instant, packet: &Packet) {
        // [CDP-RST-7] SEQ equals ISS in all 64 bits and WINDOW is 0
        if packet.seq(false) != self.iss || packet.header().window != 0 || !is_believable(packet) {
            self.stats.not_current += 1;
            return;
        }
        if self.drop_unknown(packet) {
            return;
        }
        // [CDP-ST-13] the error by REASON, ECONNREFUSED if none
        let reason = reason_of(packet);
        self.result.reason = Some(reason);
        self.advance(Happening::Reset);
        self.end(now, Error::Refused(reason));
    }

    pub(super) fn handle_echo_reset_in_syn_received(&mut self, now: Instant, packet: &Packet) {
        let high16 = high16((self.irs + 1).low32());
        // [CDP-RST-8] SEQ equals ISS in all 64 bits and WINDOW equals high16(low32(IRS + 1))
        if packet.seq(false) != self.iss || packet.header().window != high16 || !is_believable(packet) {
            self.stats.not_current += 1;
            return;
        }
        self.refuse_embryo(now, packet);
    }

    pub(super) fn handle_reset_in_syn_received(&mut self, now: Instant, packet: &Packet) {
        if packet.seq(self.agreed.sealed) == self.receiver.nxt() && self.has_honest_ack(packet) {
            self.refuse_embryo(now, packet);
        } else {
            self.stats.not_current += 1;
        }
    }

    /// [CDP-ST-19] Drop the embryo; an active end tells its user.
    fn refuse_embryo(&mut self, now: Instant, packet: &Packet) {
        if self.drop_unknown(packet) {
            return;
        }
        let reason = reason_of(packet);
        self.result.reason = Some(reason);
        self.advance(Happening::Reset);
        self.end(now, Error::Refused(reason));
    }

    /// RST|ACK once the open is over.
    pub(super) fn handle_reset(&mut self, now: Instant, packet: &Packet) {
        let s = packet.seq(self.agreed.sealed);
        if !self.receiver.place(s).is_current() {
            self.stats.not_current += 1;
            return;
        }
        // [CDP-RST-5] accepted only if its number equals RCV.NXT in all 64 bits and its ACK number is valid or old
        if s != self.receiver.nxt() {
            // [CDP-RST-6] current but not exact: challenge
            self.challenge(now);
            return;
        }
        if !self.has_honest_ack(packet) {
            self.stats.false_acks += 1;
            return;
        }
        self.accept_reset(now, packet);
    }

    /// Echo-form RST once the open is over.
    pub(super) fn handle_echo_reset(&mut self, now: Instant, packet: &Packet) {
        let s = packet.echoed_seq(self.agreed.sealed);
        let (una, nxt) = (self.sender.una(), self.sender.nxt());
        let in_flight = s.distance_from(una - 1) <= nxt.distance_from(una - 1);
        let behind = high16(self.receiver.nxt().low32()).wrapping_sub(packet.header().window);
        // [CDP-RST-9] SND.UNA − 1 ≤ s ≤ SND.NXT, and WINDOW as far behind RCV.NXT as a window can be
        if !in_flight || u64::from(behind) > 1 + (self.receiver.max_window() >> 16) || !is_believable(packet)
        {
            self.stats.not_current += 1;
            return;
        }
        self.accept_reset(now, packet);
    }

    /// [CDP-TLV-6] Whether a packet whose numbers are right has an unknown critical TLV, and is dropped for that.
    pub(super) fn drop_unknown(&mut self, packet: &Packet) -> bool {
        let is_unknown = packet.tlvs().unknown_critical.is_some();
        self.stats.unexpected += u64::from(is_unknown);
        is_unknown
    }

    fn has_honest_ack(&self, packet: &Packet) -> bool {
        rebuild(self.sender.una(), self.sender.nxt(), packet.header().ack) != Acknowledgement::False
    }

    /// [CDP-RST-4] An RST is not answered.
    fn accept_reset(&mut self, now: Instant, packet: &Packet) {
        if self.drop_unknown(packet) {
            return;
        }
        let reason = reason_of(packet);
        match self.state {
            // [CDP-ST-27] readable data stays, then the error
            State::Established => {
                self.result.reason = Some(reason);
                self.end(now, Error::Reset(reason));
            }
            // [CDP-ST-39] the result is "unconfirmed", not an error
            State::FinWait => {
                self.result.reason = Some(reason);
                self.finish_unconfirmed(now);
            }
            // [CDP-ST-44] note it, keep what is readable
            State::CloseWait => self.result.reason = Some(reason),
            // [CDP-ST-47] drop
            State::Quiet => self.stats.unexpected += 1,
            State::SynSent | State::SynReceived | State::Closed => {}
        }
    }
}

/// [CDP-RST-11] REASON 11 is ignored unless it carries VERSIONS without the version in use.
fn is_believable(packet: &Packet) -> bool {
    let tlvs = packet.tlvs();
    let says_version = tlvs.reason.is_some_and(|(reason, _)| reason == Reason::VERSION);
    !says_version || tlvs.versions.is_some_and(|versions| !versions.contains(&1))
}

/// Why it says that it ends. An ordinary close, which only a FIN can say, is no reason for a reset.
fn reason_of(packet: &Packet) -> Reason {
    let told = packet.tlvs().reason.map(|(reason, _)| reason);
    told.filter(|&reason| reason != Reason::DONE).unwrap_or(Reason::NONE)
}

fn high16(number: u32) -> u16 {
    u16::try_from(number >> 16).unwrap_or(0)
}
