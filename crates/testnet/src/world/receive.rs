//! A packet reaches a node: checks, look-up, connection or listener or refusal.

use bytes::Bytes;
use weft_base::FlowKey;
use weft_proto::{Connection, Verdict, refusal_of};
use weft_wire::emit::echo_reset;
use weft_wire::{Encapsulation, Kind, Packet, Reason, Refused, Trigger};

use super::{Happening, World, user_of};
use crate::end::Stage;
use crate::journal::Entry;
use crate::path::Arrival;
use crate::violation::{Invariant, Violation, ensure};
use crate::watch::wire::{EndWatch, Said};

impl World {
    /// A packet comes out of a path: it waits for the next turn of its node.
    pub(super) fn handle_arrival(&mut self, node: usize, arrival: Arrival) {
        let now = self.queue.now();
        let is_damaged = arrival.is_damaged;
        self.journal.note(now, Entry::Arrived { node, bytes: arrival.bytes.clone(), is_damaged });
        let at = &mut self.nodes[node];
        if !at.is_up {
            return;
        }
        at.inbox.push(arrival);
        if !at.has_turn {
            at.has_turn = true;
            let turn = (now + self.plan.nodes[node].turn_delay).max(at.suspended_until);
            self.queue.schedule(turn, Happening::Turn { node });
        }
    }

    /// Hands over all packets that wait, and then drives the connections they touched: one acknowledgement may
    /// answer several packets.
    pub(super) fn take_turn(&mut self, node: usize) -> Result<(), Violation> {
        let now = self.queue.now();
        if now < self.nodes[node].suspended_until {
            let at = self.nodes[node].suspended_until;
            self.queue.schedule(at, Happening::Turn { node });
            return Ok(());
        }
        self.nodes[node].has_turn = false;
        let mut touched = Vec::new();
        for arrival in std::mem::take(&mut self.nodes[node].inbox) {
            if let Some(end) = self.receive(node, &arrival)?
                && !touched.contains(&end)
            {
                touched.push(end);
            }
        }
        touched.into_iter().try_for_each(|end| self.drive(end))
    }

    /// Takes one packet; gives the end that it touched.
    fn receive(&mut self, node: usize, arrival: &Arrival) -> Result<Option<usize>, Violation> {
        let packet = match Packet::new_checked(arrival.bytes.clone(), Encapsulation::Simulated) {
            Ok(packet) => packet,
            Err(refused) => {
                *self.drops.entry(refused.reason().name()).or_default() += 1;
                return self.answer_refused(node, &refused, arrival.bytes.len()).map(|()| None);
            }
        };
        let flow = packet.flow();
        if flow.local.node != self.nodes[node].id {
            *self.drops.entry("of another node").or_default() += 1;
            return Ok(None);
        }
        let proves = !arrival.is_damaged && self.proves(flow, &self.said[arrival.tag]);
        self.nodes[node].books.handle_arrival(flow, arrival.bytes.len(), proves);
        match self.nodes[node].table.get(&flow).copied() {
            Some(end) if !self.makes_way(node, end, &packet) => {
                self.deliver(end, &packet, arrival);
                Ok(Some(end))
            }
            Some(end) => {
                self.forget(end);
                self.receive_unclaimed(node, &packet, arrival)
            }
            None => self.receive_unclaimed(node, &packet, arrival),
        }
    }

    /// Whether `said` shows that its sender received an answer of this node on this flow.
    fn proves(&self, flow: FlowKey, said: &Said) -> bool {
        let ours =
            said.acks.filter(|(irs, _)| self.opens.offer(*irs).is_some_and(|offer| offer.flow == flow));
        ours.is_some_and(|(irs, _)| said.proves(irs))
    }

    /// [CDP-ST-48] A new SYN to a listener takes the place of a connection in QUIET or CLOSED.
    fn makes_way(&self, node: usize, end: usize, packet: &Packet) -> bool {
        self.nodes[node].listeners.contains_key(&packet.flow().local.port.get())
            && self.ends[end].connection.as_ref().is_none_or(|connection| connection.yields_to(packet))
    }

    fn deliver(&mut self, end: usize, packet: &Packet, arrival: &Arrival) {
        let now = self.queue.now();
        let end = &mut self.ends[end];
        if !arrival.is_damaged {
            end.watch.handle_arrival(&self.said[arrival.tag]);
        }
        if let Some(connection) = &mut end.connection {
            connection.handle_packet(now, packet.clone());
        }
    }

    fn receive_unclaimed(
        &mut self,
        node: usize,
        packet: &Packet,
        arrival: &Arrival,
    ) -> Result<Option<usize>, Violation> {
        let now = self.queue.now();
        let at = &mut self.nodes[node];
        let secret = at.secret();
        let port = packet.flow().local.port.get();
        let Some(listening) = at.listeners.get_mut(&port) else {
            return refusal_of(packet)
                .map_or(Ok(()), |reason| self.refuse(node, packet, reason, None))
                .map(|()| None);
        };
        if listening.listener.wants_key(now) {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&secret.entropy.to_le_bytes());
            key[8..16].copy_from_slice(&secret.iss.get().to_le_bytes());
            listening.listener.replace_key(now, key);
        }
        let mut head = Vec::new();
        match listening.listener.handle_packet(now, packet, secret, &mut head) {
            Verdict::Drop => Ok(None),
            Verdict::Answer => self.answer_open(node, head).map(|()| None),
            Verdict::Refuse(reason, detail) => self.refuse(node, packet, reason, detail).map(|()| None),
            Verdict::Embryo(connection) => {
                listening.embryos += 1;
                let irs = self.said[arrival.tag].iss.unwrap_or(0);
                let mut watch = EndWatch::of_embryo(irs);
                watch.handle_arrival(&self.said[arrival.tag]);
                self.adopt(node, *connection, irs, watch, Stage::Embryo(port)).map(Some)
            }
            Verdict::Established(connection) => {
                let said = self.said[arrival.tag].clone();
                let irs = said.iss.unwrap_or(0);
                let iss = self.opens.answer_to(packet.flow(), packet.header().ack).ok_or_else(|| {
                    Violation::new(Invariant::Form, "a cookie of a SYN|ACK that was never sent is taken")
                })?;
                let mut watch = EndWatch::of_cookie(iss, irs, &self.opens);
                watch.handle_arrival(&said);
                let end = self.adopt(node, *connection, irs, watch, Stage::Waiting(port))?;
                self.by_number.entry(iss).or_insert(end);
                self.enqueue(node, port, end);
                Ok(Some(end))
            }
        }
    }

    /// A connection that a listener made gets its place in the table and its user.
    fn adopt(
        &mut self,
        node: usize,
        connection: Connection,
        irs: u64,
        watch: EndWatch,
        stage: Stage,
    ) -> Result<usize, Violation> {
        let now = self.queue.now();
        let Some(&client) = self.by_number.get(&irs) else {
            return Err(Violation::new(
                Invariant::Form,
                "a connection is made for a SYN that was never sent",
            ));
        };
        let session = self.ends[client].session;
        let flow = connection.flow();
        let port = flow.local.port.get();
        let config = self.nodes[node].listeners[&port].listener.config().clone();
        let plan = &self.plan.sessions[session];
        let theirs = plan.client_script.writes.clone();
        let user = user_of(plan.server_script.clone(), theirs, &config, irs, 1, now);
        let end = self.add(node, session, 1, flow, connection, config, user, watch, stage);
        self.ends[end].peer = Some(client);
        Ok(end)
    }

    /// Sends the SYN|ACK of a listener that keeps nothing.
    fn answer_open(&mut self, node: usize, head: Vec<u8>) -> Result<(), Violation> {
        let packet = Packet::new_checked(Bytes::from(head), Encapsulation::Simulated).map_err(|refused| {
            Violation::new(Invariant::Form, format!("an answer that is no packet: {refused:?}"))
        })?;
        self.opens.note(&packet);
        let flow = packet.flow().reversed();
        let irs = self.irs_of(flow, packet.header().ack);
        let iss = packet.seq(false).get();
        let said = Said {
            iss: Some(iss),
            acks: irs.map(|irs| (irs, 1)),
            edge: 1 + u64::from(packet.header().window),
            ..Said::without_connection(Kind::SynAck)
        };
        self.transmit(node, packet.bytes().clone(), flow, said, false)
    }

    /// The initial number of the client of `flow` that a SYN|ACK with this ACK number answers.
    fn irs_of(&self, flow: FlowKey, ack: u32) -> Option<u64> {
        self.opens.answer_to(flow.reversed(), ack)
    }

    /// An echo-form RST, within the limits of the process (CDP-LIM-3).
    fn refuse(
        &mut self,
        node: usize,
        packet: &Packet,
        reason: Reason,
        detail: Option<u16>,
    ) -> Result<(), Violation> {
        self.echo(node, packet.flow(), packet.into(), packet.bytes().len(), reason, detail)
    }

    fn answer_refused(&mut self, node: usize, refused: &Refused, len: usize) -> Result<(), Violation> {
        let Refused::Answer(_, trigger) = refused else { return Ok(()) };
        let Some(flow) = trigger.flow().filter(|flow| flow.local.node == self.nodes[node].id) else {
            return Ok(());
        };
        self.nodes[node].books.handle_arrival(flow, len, false);
        self.echo(node, flow, trigger.clone(), len, Reason::VERSION, None)
    }

    fn echo(
        &mut self,
        node: usize,
        flow: FlowKey,
        trigger: Trigger,
        len: usize,
        reason: Reason,
        detail: Option<u16>,
    ) -> Result<(), Violation> {
        let now = self.queue.now();
        let mut head = Vec::new();
        if !self.nodes[node].echo_resets.allow(now, flow.remote.node)
            || !echo_reset(&mut head, trigger, reason, detail)
        {
            return Ok(());
        }
        // [CDP-RST-3]
        ensure(head.len() <= len, Invariant::Amplification, || {
            format!("an echo-form RST of {} bytes for a trigger of {len}", head.len())
        })?;
        self.transmit(node, Bytes::from(head), flow, Said::without_connection(Kind::EchoReset), false)
    }
}
