//! Packets on their way: out of an end, across a network, through an I/O node, to an end.

use bytes::Bytes;
use weft_base::Instant;
use weft_proto::{Transmit, Verdict};
use weft_route::{FORWARDS_MAX, NetworkId, Underlay};
use weft_wire::{Encapsulation, Packet};

use super::super::plan::{NETWORKS, address, io_number};
use super::{FIRST_PORT, Happening, World};
use crate::violation::{Invariant, Violation, ensure};

impl World {
    pub(super) fn flush(&mut self, end: usize) -> Result<(), Violation> {
        let now = self.queue.now();
        let mut head = Vec::new();
        while let Some(transmit) = self.ends[end].connection.poll_transmit(now, &mut head) {
            self.transmit(end, &transmit, &head)?;
            head.clear();
        }
        while self.ends[end].connection.poll_event().is_some() {}
        Ok(())
    }

    pub(super) fn transmit(&mut self, end: usize, transmit: &Transmit, head: &[u8]) -> Result<(), Violation> {
        let node = self.ends[end].node;
        let bytes = Bytes::from([&head[transmit.head.clone()], &transmit.body[..]].concat());
        let is_default = usize::from(transmit.path) == self.nodes[node].set.default_member();
        let is_first_data = bytes[4] & 0x08 != 0 && transmit.attempt == 0;
        // [CDP-IO-2] the first transmission goes through the default
        ensure(!is_first_data || is_default, Invariant::Default, || {
            format!("a first transmission by path {}", transmit.path)
        })?;
        self.numbers.0 += u64::from(is_first_data);
        self.numbers.1 += u64::from(transmit.attempt > 0);
        let Some(to) = self.nodes[node].address(transmit.path) else {
            return Err(Violation::new(Invariant::Form, format!("a packet by path {}", transmit.path)));
        };
        let side = usize::from(node >= self.plan.ends[0]);
        let from = address(NETWORKS[side], self.nodes[node].id.get());
        self.carry(self.queue.now(), side, from, to, bytes);
        Ok(())
    }

    /// A packet crosses a network: to an I/O node or to a node.
    pub(super) fn carry(&mut self, at: Instant, side: usize, from: Underlay, to: Underlay, bytes: Bytes) {
        let at = at + self.plan.delays[side];
        let is = |number: u32| address(NETWORKS[side], number) == to;
        if let Some(io_node) = (0..self.plan.io_nodes).find(|index| is(io_number(*index))) {
            if let Some(network) = NetworkId::new(NETWORKS[side].into()) {
                self.queue.schedule(at, Happening::Pass { io_node, network, from, bytes });
            }
        } else if let Some(node) = self.nodes.iter().position(|node| is(node.id.get())) {
            self.queue.schedule(at, Happening::Arrive { node, from, bytes });
        }
    }

    pub(super) fn pass(
        &mut self,
        io_node: usize,
        network: NetworkId,
        from: Underlay,
        bytes: &Bytes,
    ) -> Result<(), Violation> {
        let now = self.queue.now();
        let leaving = match self.io_nodes[io_node].forward(now, network, from, bytes) {
            Ok(leaving) => leaving,
            Err(dropped) => {
                *self.figures.dropped.entry(dropped.to_string()).or_default() += 1;
                return Ok(());
            }
        };
        self.figures.forwarded += 1;
        let hops = u32::from(leaving.bytes[0] & 0x03);
        // [CDP-FWD-1] no fourth time; [CDP-FWD-2] nothing else is changed
        ensure(hops == u32::from(bytes[0] & 0x03) + 1 && hops <= FORWARDS_MAX, Invariant::Hops, || {
            format!("a packet is forwarded for the {hops}th time")
        })?;
        ensure(leaving.bytes[1..] == bytes[1..], Invariant::Form, || "a forwarder changed a packet".into())?;
        let side = NETWORKS.iter().position(|side| usize::from(*side) == leaving.hop.network.index());
        if let Some(side) = side {
            let own = address(NETWORKS[side], io_number(io_node));
            self.carry(leaving.at, side, own, leaving.hop.to, leaving.bytes);
        }
        Ok(())
    }

    pub(super) fn arrive(&mut self, node: usize, from: Underlay, bytes: Bytes) -> Result<(), Violation> {
        let now = self.queue.now();
        self.hash.add(now.as_nanos());
        self.hash.add_bytes(&bytes);
        let packet = Packet::new_checked(bytes, Encapsulation::Simulated)
            .map_err(|refused| Violation::new(Invariant::Form, format!("no packet arrives: {refused:?}")))?;
        let path = self.nodes[node].side.position(from).and_then(|path| u8::try_from(path).ok());
        let Some(path) = path else {
            return Err(Violation::new(
                Invariant::Form,
                format!("a packet from {from}, which is no I/O node"),
            ));
        };
        let Some(&end) = self.by_flow.get(&(node, packet.flow())) else {
            return self.accept(node, path, &packet);
        };
        self.ends[end].connection.handle_packet_by(now, packet, path);
        self.drive(end)
    }

    pub(super) fn accept(&mut self, node: usize, path: u8, packet: &Packet) -> Result<(), Violation> {
        let now = self.queue.now();
        let session = packet.flow().local.port.get().checked_sub(FIRST_PORT).map(usize::from);
        let Some(session) = session.filter(|session| *session < self.plan.sessions.len()) else {
            return Ok(());
        };
        let secret = self.secret();
        let Some(listener) = self.listeners[node].first_mut() else { return Ok(()) };
        let verdict = listener.handle_packet(now, packet, secret, &mut Vec::new());
        let Verdict::Embryo(mut connection) = verdict else { return Ok(()) };
        connection.set_paths(now, self.nodes[node].paths()?);
        connection.note_came_by(path);
        let end = self.add(node, session, 1, *connection);
        self.drive(end)
    }
}
