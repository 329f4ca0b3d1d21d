//! Takes a step: packets reach their machines, timers fire, users act, and every output is watched.

use std::time::Duration;

use bytes::Bytes;
use weft_base::{Instant, Seq};
use weft_proto::{Connection, Listener, RecvError, Secret, State, Verdict, refusal_of};
use weft_wire::emit::echo_reset;
use weft_wire::{Encapsulation, Kind, Packet, Reason};

use super::fingerprint::of_packet;
use super::pair::{Flying, Pair, Side, Step};
use crate::violation::{Invariant, Violation, ensure};
use crate::watch::wire::{EndWatch, Said};

/// Packets that one end may emit in one step.
const PACKETS_MAX: u32 = 50;
/// Time a packet takes: longer than the interval of challenges, so that none is held back. One that is held back is as
/// one that is lost.
const ON_THE_WAY: Duration = Duration::from_millis(20);

impl Pair {
    /// Takes a step.
    ///
    /// # Errors
    ///
    /// An invariant that does not hold afterwards.
    pub fn take(&mut self, step: Step) -> Result<(), Violation> {
        match step {
            Step::Deliver(at) => {
                let flying = if self.is_fair { self.flight.remove(at) } else { self.flight[at].clone() };
                self.now += ON_THE_WAY;
                self.deliver(&flying)
            }
            Step::Fire(side) => self.fire(side),
            Step::Close(side) => {
                self.sides[side].has_closed = true;
                self.command(side, Connection::close)
            }
            Step::Abort(side) => {
                (self.sides[side].has_closed, self.sides[side].has_aborted) = (true, true);
                self.command(side, Connection::abort)
            }
            Step::Write(side) => self.write(side),
            Step::Read(side) => self.read(side).and_then(|()| self.drive(side)),
            Step::Restart => {
                self.has_restarted = true;
                self.note_gone(1);
                self.sides[1].connection = None;
                self.listener = Some(Listener::new(self.now, self.scenario.config(), [8; 32]));
                Ok(())
            }
        }
    }

    fn command(
        &mut self,
        side: usize,
        command: impl FnOnce(&mut Connection, Instant),
    ) -> Result<(), Violation> {
        let now = self.now;
        if let Some(connection) = &mut self.sides[side].connection {
            command(connection, now);
        }
        self.drive(side)
    }

    /// Timers fire in their order at each side, and in any order between the sides.
    fn fire(&mut self, side: usize) -> Result<(), Violation> {
        let Some(connection) = &mut self.sides[side].connection else { return Ok(()) };
        let Some(due) = connection.poll_timeout() else { return Ok(()) };
        self.now = self.now.max(due);
        connection.handle_timeout(self.now);
        self.drive(side)
    }

    fn write(&mut self, side: usize) -> Result<(), Violation> {
        let user = &mut self.sides[side];
        user.writes_left -= 1;
        let message = [u8::try_from(user.written).unwrap_or(0); 3];
        let Some(connection) = &mut user.connection else { return Ok(()) };
        if connection.send(&message).is_ok() {
            user.written += 1;
        }
        self.drive(side)
    }

    fn deliver(&mut self, flying: &Flying) -> Result<(), Violation> {
        let side = flying.to;
        let yields = self.sides[side]
            .connection
            .as_ref()
            .is_none_or(|connection| connection.yields_to(&flying.packet));
        let makes_way = side == 1 && self.listener.is_some() && yields;
        let is_there =
            self.sides[side].connection.as_ref().is_some_and(|connection| !connection.is_finished());
        if !is_there || makes_way {
            self.note_gone(side);
            self.sides[side].connection.iter_mut().for_each(Connection::forget);
            return self.deliver_unclaimed(flying);
        }
        let was = self.sides[side].state();
        self.sides[side].watch.handle_arrival(&flying.said);
        let now = self.now;
        if let Some(connection) = &mut self.sides[side].connection {
            connection.handle_packet(now, flying.packet.clone());
        }
        self.check_reset(side, was, &flying.packet)?;
        self.drive(side)
    }

    /// No false reset: an end that a packet ended must speak to an end that is gone.
    fn check_reset(&self, side: usize, was: Option<State>, packet: &Packet) -> Result<(), Violation> {
        let is_reset = packet.kind().is_reset();
        let has_ended = was != Some(State::Closed) && self.sides[side].state() == Some(State::Closed);
        if !has_ended {
            return Ok(());
        }
        let peer = &self.sides[1 - side];
        let (iss, irs) = (self.sides[side].watch.iss(), self.sides[side].watch.irs());
        let is_gone = peer
            .gone
            .iter()
            .any(|(own, theirs)| (own.is_some() && *own == irs) || (theirs.is_some() && *theirs == iss));
        let meets_nobody = irs.is_none() && !peer.gone.is_empty();
        ensure(is_reset && (is_gone || meets_nobody), Invariant::Ending, || {
            format!("false reset: side {side} was {was:?} and believes {}", packet.header())
        })
    }

    fn deliver_unclaimed(&mut self, flying: &Flying) -> Result<(), Violation> {
        let side = flying.to;
        let packet = &flying.packet;
        let may_make = self.sides[side].made < self.scenario.incarnations;
        let Some(listener) = self.listener.as_mut().filter(|_| side == 1) else {
            return refusal_of(packet).map_or(Ok(()), |reason| self.refuse(side, packet, reason, None));
        };
        if !may_make && matches!(packet.kind(), Kind::Syn | Kind::Ack) {
            return Ok(()); // beyond the bound of the search, as if it had been lost
        }
        let iss = 2 << 60 | u64::from(self.sides[side].made + 1) << 40 | 0xFFFF_FFFE;
        let secret = Secret { iss: Seq::new(iss), entropy: 7 };
        let mut head = Vec::new();
        match listener.handle_packet(self.now, packet, secret, &mut head) {
            Verdict::Drop => Ok(()),
            Verdict::Answer => self.answer(head),
            Verdict::Refuse(reason, detail) => self.refuse(side, packet, reason, detail),
            Verdict::Embryo(connection) => {
                let watch = EndWatch::of_embryo(flying.said.iss.unwrap_or(0));
                self.adopt(*connection, watch, &flying.said)
            }
            Verdict::Established(connection) => {
                listener.note_accepted();
                let iss = self.opens.answer_to(packet.flow(), packet.header().ack).unwrap_or(0);
                let watch = EndWatch::of_cookie(iss, flying.said.iss.unwrap_or(0), &self.opens);
                self.adopt(*connection, watch, &flying.said)
            }
        }
    }

    fn adopt(&mut self, connection: Connection, watch: EndWatch, said: &Said) -> Result<(), Violation> {
        self.note_gone(1);
        let side = &mut self.sides[1];
        let fresh = Side::new(self.scenario.writes[1], watch);
        *side = Side {
            gone: std::mem::take(&mut side.gone),
            made: side.made + 1,
            connection: Some(connection),
            ..fresh
        };
        side.is_again = side.gone.contains(&(side.watch.iss(), side.watch.irs()));
        side.watch.handle_arrival(said);
        self.drive(1)
    }

    /// Remembers that the connection of a side has ended.
    fn note_gone(&mut self, side: usize) {
        let side = &mut self.sides[side];
        let names = (side.watch.iss(), side.watch.irs());
        if side.connection.is_some() && !side.gone.contains(&names) {
            side.gone.push(names);
        }
    }

    fn answer(&mut self, head: Vec<u8>) -> Result<(), Violation> {
        let packet = checked(head)?;
        self.opens.note(&packet);
        let irs = self.opens.answer_to(packet.flow(), packet.header().ack);
        let edge = 1 + u64::from(packet.header().window);
        let iss = Some(packet.seq(false).get());
        let said =
            Said { iss, acks: irs.map(|irs| (irs, 1)), edge, ..Said::without_connection(Kind::SynAck) };
        self.launch(1, packet, said);
        Ok(())
    }

    fn refuse(
        &mut self,
        side: usize,
        packet: &Packet,
        reason: Reason,
        detail: Option<u16>,
    ) -> Result<(), Violation> {
        let mut head = Vec::new();
        if echo_reset(&mut head, packet, reason, detail) {
            let packet = checked(head)?;
            self.launch(side, packet, Said::without_connection(Kind::EchoReset));
        }
        Ok(())
    }

    fn launch(&mut self, from: usize, packet: Packet, said: Said) {
        let seq = if said.iss.is_some() { said.number } else { packet.seq(false).get() };
        let print = of_packet(&packet, seq ^ said.iss.unwrap_or(0)) ^ from as u64;
        let flying = Flying { to: 1 - from, packet, said, print };
        if self.is_fair {
            self.flight.push(flying);
            return;
        }
        // A second copy of the same words adds nothing: any packet may arrive again as it is.
        self.flight.retain(|other| other.print != print);
        self.flight.push(flying);
        let older = self.flight.iter().filter(|other| other.to == 1 - from).count();
        if older > self.scenario.in_flight
            && let Some(oldest) = self.flight.iter().position(|other| other.to == 1 - from)
        {
            self.flight.remove(oldest);
        }
    }

    /// Takes a side's outputs, lets its user read, and looks whether it has ended.
    pub(super) fn drive(&mut self, side: usize) -> Result<(), Violation> {
        let now = self.now;
        self.sides[side].print.set(None);
        for count in 0.. {
            ensure(count < PACKETS_MAX, Invariant::Termination, || {
                format!("{PACKETS_MAX} packets in one step")
            })?;
            let mut head = Vec::new();
            let user = &mut self.sides[side];
            let Some(connection) = &mut user.connection else { return Ok(()) };
            let Some(transmit) = connection.poll_transmit(now, &mut head) else { break };
            head.extend_from_slice(&transmit.body);
            let packet = checked(head)?;
            if packet.kind().is_open() {
                self.opens.note(&packet);
            }
            let said = user.watch.handle_sent(&packet, &self.opens)?;
            self.launch(side, packet, said);
        }
        if let Some(connection) = &mut self.sides[side].connection {
            while connection.poll_event().is_some() {}
        }
        if !self.scenario.confirms {
            self.read(side)?;
        }
        if self.sides[side].state() == Some(State::Closed) {
            self.note_gone(side);
        }
        Ok(())
    }

    fn read(&mut self, side: usize) -> Result<(), Violation> {
        let written = self.sides[1 - side].written;
        let user = &mut self.sides[side];
        let Some(connection) = &mut user.connection else { return Ok(()) };
        while !user.has_ended && !user.has_closed && !connection.is_embryo() {
            match connection.recv_message() {
                Ok(Some(message)) => {
                    let expected = [u8::try_from(user.read).unwrap_or(0); 3];
                    let is_right = message.into_bytes()[..] == expected && user.read < written;
                    ensure(is_right, Invariant::Prefix, || {
                        format!("message {} of {written} is wrong", user.read)
                    })?;
                    user.read += 1;
                }
                Ok(None) => user.has_ended = true,
                Err(RecvError::WouldBlock | RecvError::Closed | RecvError::Failed(_)) => break,
            }
        }
        Ok(())
    }
}

fn checked(bytes: Vec<u8>) -> Result<Packet, Violation> {
    Packet::new_checked(Bytes::from(bytes), Encapsulation::Simulated)
        .map_err(|refused| Violation::new(Invariant::Form, format!("not a packet: {refused:?}")))
}

#[cfg(test)]
mod tests;
