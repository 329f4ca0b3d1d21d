//! Asks a connection for its outputs, in the order that its room prescribes: packets, events, timer.
//!
//! Every way into a connection (a turn, a timer, a user's call) ends here; there is no second way to transmit.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weft_base::{FlowKey, Instant};
use weft_link::Interest as LinkInterest;
use weft_proto::{Event, State};
use weft_wire::{Packet, Train};

use crate::core::Core;
use crate::gather::{self, LISTED};
use crate::outbox::Outbox;
use crate::port::Port;
use crate::side::Run;
use crate::slot::{Guard, Live, Slot};
use crate::waiters::Interest;

/// How long a full link is waited for before what it does not take is dropped, as a network would.
const LINK_PATIENCE: Duration = Duration::from_millis(5);

impl Core {
    /// Hands packets to the machine, which takes their data. What the connection gives way to goes to the outbox.
    #[inline]
    pub(crate) fn handle(
        &self,
        slot: &Arc<Slot>,
        live: &mut Live,
        train: &mut Train,
        from: SocketAddr,
        now: Instant,
        out: &mut Outbox,
    ) {
        match train.one_mut() {
            Some(packet) => self.handle_packet(slot, live, packet, from, now, out),
            None => self.handle_several(slot, live, train, from, now, out),
        }
    }

    #[inline(never)] // what comes alone is what somebody waits for, and is the faster the less code lies in its way
    fn handle_several(
        &self,
        slot: &Arc<Slot>,
        live: &mut Live,
        train: &mut Train,
        from: SocketAddr,
        now: Instant,
        out: &mut Outbox,
    ) {
        if live.connection.state() == State::Established
            && let Some(path) = live.path_from(from)
        {
            return live.connection.take_train_by(now, train, path);
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
        // [CDP-ADR-7] In open mode packets go to where the last current packet came from; [CDP-ENC-6] to a node of the
        // cluster they go to the address that the cluster gives.
        if live.connection.stats(now).packets_received != before
            && !self.directory.is_peer(slot.key().remote.node)
        {
            live.to = from;
            self.directory.learn(slot.key().remote.node, from);
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

    /// Hands the packets that others left at the busy slot to the machine.
    #[inline]
    pub(crate) fn drain_backlog(
        &self,
        slot: &Arc<Slot>,
        live: &mut Guard<'_>,
        now: Instant,
        out: &mut Outbox,
    ) {
        while let Some((mut train, from)) = live.next_deferred() {
            self.handle(slot, live, &mut train, from, now, out);
        }
    }

    /// Drains all outputs of a connection into the outbox. The caller holds the lock, and then calls [`Core::unlock`] and
    /// [`Core::finish`].
    pub(crate) fn pump(&self, slot: &Arc<Slot>, live: &mut Guard<'_>, now: Instant, out: &mut Outbox) {
        self.drain_backlog(slot, live, now, out);
        let live_now = &mut **live;
        self.count_messages(live_now, now);
        if let Some(side) = &live_now.side
            && let Some(due) = side.consult(&mut live_now.connection, now)
        {
            self.arm_probe(due);
        }
        if self.transmit(slot, live, now, out) {
            // An answer is handed to the link before anything else, and then its slot is pumped again.
            return;
        }
        let mut again = 0;
        while let Some(event) = live.connection.poll_event() {
            match event {
                Event::Connected => self.note_connected(slot, live, out),
                Event::Readable => again |= Interest::Readable.bit(),
                Event::Writable => live.is_blocked = false,
                Event::PeerClosed | Event::Closed => {
                    live.is_blocked = false;
                    again |= Interest::Readable.bit() | Interest::Writable.bit();
                }
            }
        }
        self.publish(slot, live, again, out);
        if let Some(due) = live.connection.poll_timeout() {
            self.port(slot.home()).arm(slot, live, due);
        }
        if !matches!(live.connection.state(), State::Established) {
            self.look_at_end(slot, live, out);
        }
    }

    /// A packet came to which the user may have an answer: shows it, and leaves the rest until there is one, or until the timer
    /// that waits for it.
    pub(crate) fn show(&self, slot: &Arc<Slot>, live: &mut Live, now: Instant, out: &mut Outbox) {
        slot.waiters.raise(Interest::Readable, &mut out.wakes);
        let due = live.connection.await_answer(now);
        self.port(slot.home()).arm(slot, live, due);
    }

    /// Puts what may leave into the outbox. True if that is an answer, behind which there is an acknowledgement to read.
    fn transmit(&self, slot: &Arc<Slot>, live: &mut Guard<'_>, now: Instant, out: &mut Outbox) -> bool {
        if !slot.claim_transmit(live) {
            return false;
        }
        if live.is_gathering {
            slot.gathering_since.store(LISTED, Ordering::Relaxed);
            live.note_transmit();
        }
        self.ease_cork(slot, live, now);
        let before = out.batch.len();
        let mut run = Run::default();
        let mut is_answer = false;
        let is_exhausted = loop {
            if is_answer || out.is_full() {
                break false;
            }
            let room = out.room();
            let mut polled = live.connection.poll_transmit_in_place(now, out.batch.heads_mut(), room);
            let Some(transmit) = &mut polled else { break true };
            // [CDP-LIM-3] echo-form RSTs within the limits of the process
            if !transmit.is_echo_reset || self.may_reset(slot.key().remote.node, now) {
                let to = live.send_by(transmit.path, transmit.packets, &mut run);
                out.push(to, &live.connection, transmit);
            }
            is_answer = live.connection.has_unread_ack();
        };
        if let Some(side) = &live.side {
            side.count(run);
        }
        self.note_rest(slot, live, now);
        if out.batch.len() == before && is_exhausted {
            // Nothing for the link: the claim goes back at once, while the lock still keeps others from marking it.
            slot.unclaim_transmit(live);
            return false;
        }
        live.has_read = false;
        out.claims.push((slot.clone(), !is_exhausted));
        is_answer
    }

    /// Makes the conditions of the slot what the connection says.
    pub(crate) fn publish(&self, slot: &Slot, live: &Live, again: u32, out: &mut Outbox) {
        let connection = &live.connection;
        let state = connection.state();
        let mut bits = 0;
        if connection.is_readable() {
            bits |= Interest::Readable.bit();
        }
        if !live.is_blocked && connection.is_writable() && gather::has_room(slot, live) {
            bits |= Interest::Writable.bit();
        }
        if !matches!(state, State::SynSent | State::SynReceived) {
            bits |= Interest::Connected.bit();
        }
        if matches!(state, State::Quiet | State::Closed) {
            bits |= Interest::Closed.bit();
        }
        slot.waiters.set(bits, again & bits, &mut out.wakes);
    }

    /// After a receive that left nothing to send: the slot is not readable any more if that was the last.
    #[inline]
    pub(crate) fn note_taken(&self, slot: &Slot, live: &Live) {
        if !live.connection.is_readable() {
            slot.waiters.clear(Interest::Readable);
        }
    }

    fn note_connected(&self, slot: &Arc<Slot>, live: &mut Live, out: &mut Outbox) {
        if live.side.is_none() {
            self.directory.learn(slot.key().remote.node, live.to);
        }
        if std::mem::take(&mut live.is_embryo)
            && let Some(listening) = &slot.listening
        {
            out.unaccepted.extend(listening.take_in(slot.clone(), &mut out.wakes));
        }
    }

    /// [CDP-ST-9] Nobody will accept it.
    #[cold]
    fn reset_unaccepted(&self, slot: &Arc<Slot>, now: Instant, out: &mut Outbox) {
        let mut live = slot.lock();
        live.is_released = true;
        live.connection.abort(now);
        self.pump(slot, &mut live, now, out);
        self.unlock(slot, live, now, out);
    }

    /// What the table must know of a connection that is past ESTABLISHED or not there yet.
    fn look_at_end(&self, slot: &Arc<Slot>, live: &mut Live, out: &mut Outbox) {
        if live.connection.state() == State::Quiet && !live.is_quiet {
            live.is_quiet = true;
            // [CDP-ST-C] no data buffers there
            self.budget.release(live.take_unneeded());
            self.note_quiet(slot, out);
        }
        if live.connection.is_finished() {
            self.remove(slot, live);
        }
    }

    /// Takes a connection out of the table, unless it is, and gives back what was promised for it and is not needed. Handles may live
    /// on, and call this again when something was read.
    pub(crate) fn remove(&self, slot: &Arc<Slot>, live: &mut Live) {
        self.budget.release(live.take_unneeded());
        if slot.note_removed() {
            return;
        }
        self.table.remove(&slot.key());
        // It may have come in by another port than its present one.
        self.ports.iter().for_each(|port| port.forget(slot));
        if let Some((port, timer)) = live.timer.take() {
            self.port(port as usize).disarm(timer);
        }
        if std::mem::take(&mut live.is_embryo)
            && let Some(listening) = &slot.listening
        {
            listening.note_embryo_gone();
        }
    }

    /// Unlocks, after doing what others left while the slot was locked.
    #[inline]
    pub(crate) fn unlock(&self, slot: &Arc<Slot>, mut live: Guard<'_>, now: Instant, out: &mut Outbox) {
        while let Err(wanted) = live.leave() {
            live = wanted;
            self.pump(slot, &mut live, now, out);
        }
    }

    /// Pumps a slot, or leaves word for the thread that has it.
    pub(crate) fn pump_if_free(&self, slot: &Arc<Slot>, now: Instant, out: &mut Outbox) {
        if let Some(mut live) = slot.want() {
            self.pump(slot, &mut live, now, out);
            self.unlock(slot, live, now, out);
        }
    }

    /// With no lock held: hands the packets to the link, gives the claims back, and polls again who has more.
    /// Returns the time at its end if it took any.
    pub(crate) fn finish(&self, port: &Port, out: &mut Outbox) -> Option<Instant> {
        let mut end = None;
        while out.has_work() {
            send(port, out);
            let mut claims = std::mem::take(&mut out.claims);
            let now = crate::clock::now();
            end = Some(now);
            for (slot, has_more) in claims.drain(..) {
                let is_marked = slot.release_sent(now);
                if has_more || is_marked {
                    self.pump_if_free(&slot, now, out);
                }
            }
            if out.claims.is_empty() {
                out.claims = claims;
            }
            if let Some(oldest) = out.crowded_out.pop() {
                self.free_quiet(&oldest, now, out);
            }
            if let Some(slot) = out.unaccepted.pop() {
                self.reset_unaccepted(&slot, now, out);
            }
            if let Some((packet, from)) = out.given_way.pop() {
                self.handle_unknown(port, &packet, from, now, out);
            }
        }
        end
    }
}

/// Hands the batch to the link, and waits a little where the link takes no more.
fn send(port: &Port, out: &mut Outbox) {
    let mut waited = false;
    while !out.batch.is_empty() {
        match port.link.send(&mut out.batch) {
            Ok(_) => break,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && !waited => {
                waited = true;
                if let Some(fd) = port.link.send_fd() {
                    // Whatever comes of it, the link is tried once more.
                    let _ = weft_link::wait_for(&mut [LinkInterest::writable(fd)], Some(LINK_PATIENCE));
                }
            }
            Err(_) => {
                port.counters.stuck_drops.fetch_add(out.batch.len() as u64, Ordering::Relaxed);
                out.batch.clear();
            }
        }
    }
    out.batch.clear();
    out.note_sent();
}
