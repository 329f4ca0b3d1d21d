//! Several paths to the peer: which there are, how they do, and probes of them (section 14.2).

use weft_base::Instant;
use weft_wire::emit::emit_control;
use weft_wire::{Emit, Kind, Packet, Time, Tlvs};

use super::transmit::control_packet;
use super::{Connection, Transmit};
use crate::lifecycle::State;
use crate::paths::{ELSEWHERE, PathReport, Paths};
use crate::timers::Timer;

impl Connection {
    /// The paths to the peer.
    #[must_use]
    pub fn paths(&self) -> Paths {
        self.sender.flight.paths()
    }

    /// Tells which paths there are and which is the default; where that changes, what is in flight is probed by it.
    ///
    /// Ask [`Connection::poll_transmit`] afterwards.
    pub fn set_paths(&mut self, now: Instant, paths: Paths) {
        self.read_ack(now);
        let is_change = paths.default_path() != self.paths().default_path();
        self.sender.set_paths(now, paths, &self.config, &mut self.timers, &mut self.stats);
        if is_change {
            self.open_way.restart();
            self.timers.stop(Timer::Mtu);
            if self.state == State::Established {
                self.prepare_mtu_search(now);
            }
            // a SYN that waits for its answer is sent again by the new default
            self.control.open |= self.active && self.open_tries > 0 && !self.state.is_synchronized();
        }
    }

    /// As [`Connection::handle_packet`], of a packet that came by `path`.
    pub fn handle_packet_by(&mut self, now: Instant, mut packet: Packet, path: u8) {
        self.take_packet_by(now, &mut packet, path);
    }

    /// As [`Connection::handle_packet_by`], of a packet that stays where it lies: only data is taken out of it.
    pub fn take_packet_by(&mut self, now: Instant, packet: &mut Packet, path: u8) {
        self.arrivals.now = Some(path);
        self.take_packet(now, packet);
        self.arrivals.now = None;
    }

    /// The packet that made this connection, which a listener handled, came by `path`: its answer goes there.
    pub fn note_came_by(&mut self, path: u8) {
        self.arrivals.now = Some(path);
        self.arrivals.note_current();
        self.arrivals.now = None;
    }

    /// What has been learnt of one path since this was last asked; ask until `None`.
    pub fn take_path_report(&mut self) -> Option<PathReport> {
        self.sender.flight.tallies.as_mut()?.take()
    }

    /// Sends a PIN|ACK with a TIME token by `path`; its answer comes in a [`PathReport`] (CDP-IO-6). Does nothing where
    /// there is no such path or the connection is not open.
    pub fn probe_path(&mut self, now: Instant, path: u8) {
        let is_open = self.state == State::Established && self.cookie.is_none();
        if is_open && path < self.paths().count() {
            let token = self.jitter.token();
            self.probes.get_or_insert_default().ask(now, path, token);
        }
    }

    /// Asks an address from which a packet has come that is none of the paths whether the peer is there, by a PIN|ACK with a TIME token that
    /// goes to [`ELSEWHERE`]; with the same token where the same address `is_asked` already, as the way there may take longer than that. False
    /// where the connection can ask nobody now.
    pub fn probe_elsewhere(&mut self, now: Instant, is_asked: bool) -> bool {
        let may_ask = matches!(self.state, State::Established | State::FinWait) && self.cookie.is_none();
        if may_ask {
            let token = self.jitter.token();
            let probes = self.probes.get_or_insert_default();
            if !(is_asked && probes.ask_again(ELSEWHERE)) {
                probes.ask(now, ELSEWHERE, token);
            }
        }
        may_ask
    }

    /// Whether that has been answered since this was last asked.
    pub fn take_answer_from_elsewhere(&mut self) -> bool {
        std::mem::take(&mut self.control.is_elsewhere)
    }

    /// [CDP-IO-6] A PIN|ACK with TIME token. It is about the path, so it does not count as a sign of life of either end.
    #[cold]
    pub(super) fn transmit_path_probe(&mut self, head: &mut Vec<u8>) -> Option<Transmit> {
        if self.receiver.owes_echo() {
            return None;
        }
        let (path, own) = self.probes.as_mut()?.take_due()?;
        let tlvs = Tlvs { time: Some(Time { own, echoed: 0 }), ..Tlvs::default() };
        self.stats.pins_sent += 1;
        self.stats.packets_sent += 1;
        let start = head.len();
        let header = self.header(Kind::Pin);
        emit_control(head, &header, &tlvs, &Emit::sealed(self.agreed.sealed));
        Some(control_packet(start..head.len(), path))
    }

    /// A token came back: the answer to a probe counts where it came by the path that was probed.
    #[cold]
    pub(super) fn handle_path_echo(&mut self, now: Instant, token: u32) {
        let Some(probes) = &mut self.probes else { return };
        let Some((path, after)) = probes.handle_echo(now, token) else { return };
        if path == ELSEWHERE {
            self.control.is_elsewhere = true;
            return;
        }
        if self.arrivals.now.is_none_or(|by| by == path)
            && let Some(tallies) = &mut self.sender.flight.tallies
        {
            tallies.note_answer(path, after);
        }
    }

    /// The path for an answer.
    pub(super) fn answer_path(&self) -> u8 {
        self.arrivals.answer_by(self.paths())
    }

    /// The path for a packet without a number that is sent until it is answered, after so many tries without.
    pub(super) fn asking_path(&self, tries: u32) -> u8 {
        self.paths().nth(tries)
    }

    /// The SYN, or the SYN|ACK of an end that opened as well, was not answered in time.
    pub(super) fn note_open_lost(&mut self) {
        if let Some(tallies) = &mut self.sender.flight.tallies
            && self.open_way.is_present()
        {
            tallies.note_loss_since(self.open_way.last(), self.sent_at);
        }
    }

    /// [CDP-IO-12] Whether our latest SYN was answered, by the member that it went through, and the default was silent. A
    /// SYN|ACK comes back by the path of its SYN ([CDP-IO-11]), so it answers no earlier one.
    pub(super) fn has_opened_by_another(&self) -> bool {
        let paths = self.paths();
        self.active
            && self.open_tries <= u16::from(paths.count())
            && self.arrivals.now == Some(self.open_way.last())
            && !self.open_way.is_by_default(paths)
    }

    /// The peer is heard.
    #[inline]
    pub(super) fn note_peer(&mut self, now: Instant) {
        if let Some(tallies) = &mut self.sender.flight.tallies {
            tallies.note_heard(now);
        }
    }

    /// Whether the peer has answered of late all that it was to answer, so that an unanswered probe by this connection says
    /// something of the path and not of the peer (CDP-IO-6).
    #[must_use]
    pub fn is_in_touch(&self) -> bool {
        let is_answered = self.sender.flight.tallies.as_ref().is_none_or(|tallies| tallies.is_in_touch());
        self.state == State::Established && self.cookie.is_none() && self.unanswered.count == 0 && is_answered
    }

    /// What the open sent once was answered.
    pub(super) fn note_open_delivered(&mut self) {
        if let Some(tallies) = &mut self.sender.flight.tallies
            && self.open_way.is_present()
        {
            tallies.note_delivery(self.open_way.last());
        }
    }
}
