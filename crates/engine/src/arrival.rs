//! Packets come to their connection: by the path they should, from elsewhere, or for one that is over and makes way, to them or to
//! a new one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use weft_base::{FlowKey, Instant};
use weft_proto::{PLACED_BYTES_MIN, State};
use weft_wire::{Packet, Train};

use crate::binding::Binding;
use crate::clock;
use crate::core::Core;
use crate::outbox::Outbox;
use crate::slot::{Guard, Live, Moving, Slot};

/// How long the answer of a peer that seems to have moved is waited for before it is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(20);

impl Core {
    /// Hands packets to the machine, which takes their data. What the connection gives way to goes to the outbox.
    #[inline]
    #[allow(clippy::too_many_arguments)] // the parts of one hand-over
    pub(crate) fn handle(
        &self,
        slot: &Arc<Slot>,
        live: &mut Live,
        train: &mut Train,
        from: SocketAddr,
        binding: Option<&mut Binding<'_>>,
        now: Instant,
        out: &mut Outbox,
    ) {
        let is_bound = binding.is_some() && usize::from(train.packet_bytes()) > PLACED_BYTES_MIN;
        match train.one_mut().filter(|_| !is_bound) {
            Some(packet) => self.handle_packet(slot, live, packet, from, now, out),
            None => self.handle_several(slot, live, train, from, binding, now, out),
        }
    }

    #[inline(never)] // what comes alone is what somebody waits for, and is the faster the less code lies in its way
    #[allow(clippy::too_many_arguments)] // see above
    fn handle_several(
        &self,
        slot: &Arc<Slot>,
        live: &mut Live,
        train: &mut Train,
        from: SocketAddr,
        binding: Option<&mut Binding<'_>>,
        now: Instant,
        out: &mut Outbox,
    ) {
        if live.connection.state() == State::Established
            && let Some(path) = live.path_from(from)
        {
            match binding.filter(|binding| binding.is_of(slot)) {
                Some(binding) => binding.take_train(live, train, path, now),
                None => {
                    live.connection.take_train_by(now, train, path, &mut []);
                }
            }
            return;
        }
        while let Some(mut packet) = train.split_first() {
            self.handle_packet(slot, live, &mut packet, from, now, out);
        }
    }

    fn handle_packet(
        &self,
        slot: &Arc<Slot>,
        live: &mut Live,
        packet: &mut Packet,
        from: SocketAddr,
        now: Instant,
        out: &mut Outbox,
    ) {
        if let Some(path) = live.path_from(from) {
            if live.connection.yields_to(packet) {
                return self.make_way(slot, live, packet, from, out);
            }
            return live.connection.take_packet_by(now, packet, path);
        }
        self.handle_from_elsewhere(slot, live, packet, from, now, out);
    }

    /// A packet from another underlay address than the connection sends to.
    #[cold]
    fn handle_from_elsewhere(
        &self,
        slot: &Arc<Slot>,
        live: &mut Live,
        packet: &Packet,
        from: SocketAddr,
        now: Instant,
        out: &mut Outbox,
    ) {
        if !self.may_come(packet.header(), from) {
            return;
        }
        if live.connection.yields_to(packet) {
            return self.make_way(slot, live, packet, from, out);
        }
        let before = live.connection.stats(now).packets_received;
        live.connection.handle_packet(now, packet.clone());
        // [CDP-ADR-7] In open mode packets go to where the last current packet came from, if the peer answers there (decision 0064);
        // [CDP-ENC-6] to a node of the cluster they go to the address that the cluster gives.
        if live.connection.stats(now).packets_received != before
            && !self.directory.is_peer(slot.key().remote.node)
        {
            self.look_for_peer(slot, live, from, now);
        }
    }

    /// The peer seems to be elsewhere. Anybody can write that on a packet, so it is asked there before more than a word is sent to it.
    fn look_for_peer(&self, slot: &Arc<Slot>, live: &mut Live, from: SocketAddr, now: Instant) {
        let has_answered = live.connection.take_answer_from_elsewhere();
        let is_asked = live.moving.as_ref().is_some_and(|moving| moving.to == from);
        match &live.moving {
            Some(_) if is_asked && has_answered => {}
            Some(moving) if now - moving.asked_at < ASK_AGAIN => return,
            Some(_) | None => {
                if live.connection.probe_elsewhere(now, is_asked) {
                    live.moving = Some(Box::new(Moving { to: from, asked_at: now }));
                    return;
                }
                // What is still sent then are answers, one for one.
            }
        }
        live.moving = None;
        self.follow_peer(slot, live, from);
    }

    /// Tells the links where the packets of a connection come from, once it is open: before, that may be anywhere.
    pub(crate) fn note_peer(&self, slot: &Slot, live: &mut Live) {
        if self.ports.len() > 1 && live.noted_at.is_none() {
            let home = slot.home();
            live.noted_at = u16::try_from(home).ok();
            self.port(home).link.note_peer(live.to);
        }
    }

    /// Tells them that nothing more comes from there.
    pub(crate) fn forget_peer(&self, live: &mut Live) {
        if let Some(home) = live.noted_at.take() {
            self.port(home.into()).link.forget_peer(live.to);
        }
    }

    /// The packets of a connection come from elsewhere now, and its own go there.
    fn follow_peer(&self, slot: &Slot, live: &mut Live, to: SocketAddr) {
        let is_noted = live.noted_at.is_some();
        self.forget_peer(live);
        live.to = to;
        self.directory.learn(slot.key().remote.node, to);
        if is_noted {
            self.note_peer(slot, live);
        }
    }

    /// [CDP-ST-48] [CDP-ST-J] Forgets a connection that is over, or an embryo, in favour of a packet, where a listener has the
    /// port. Elsewhere it stays, and the packet is refused as if it were not there.
    #[cold]
    fn make_way(
        &self,
        slot: &Arc<Slot>,
        live: &mut Live,
        packet: &Packet,
        from: SocketAddr,
        out: &mut Outbox,
    ) {
        out.given_way.push((packet.clone(), from));
        if !self.listeners.read().contains_key(&packet.header().destination.port) {
            return;
        }
        live.connection.forget();
        self.publish(slot, live, 0, out);
        self.look_at_end(slot, live, out);
        self.remove(slot, live);
    }

    /// Whether a new connection may take this flow; one that is over makes way for it ([CDP-ST-G]).
    pub(crate) fn make_free(&self, flow: &FlowKey) -> bool {
        let Some(slot) = self.table.find(flow) else { return true };
        if !slot.look().connection.is_over() {
            return false;
        }
        let mut live = slot.lock();
        live.connection.forget();
        self.remove(&slot, &mut live);
        true
    }

    /// Hands the packets that others left at the busy slot to the machine. Returns the time, which is `now` if there were none.
    #[inline]
    pub(crate) fn drain_backlog(
        &self,
        slot: &Arc<Slot>,
        live: &mut Guard<'_>,
        mut now: Instant,
        out: &mut Outbox,
    ) -> Instant {
        while let Some((mut train, from)) = live.next_deferred() {
            // It may have come after this thread looked at the clock and took the slot (decision 0061).
            now = clock::now();
            self.handle(slot, live, &mut train, from, None, now, out);
        }
        now
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
