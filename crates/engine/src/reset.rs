//! Answers of an end that has no connection: listeners, echo-form RSTs, versions (rows 3 to 8 of section 10.1).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use weft_base::{Instant, NodeId, Seq};
use weft_link::SendBatch;
use weft_proto::{Connection, Secret, Verdict, refusal_of};
use weft_wire::emit::echo_reset;
use weft_wire::{Kind, Packet, Reason, Trigger};

use crate::core::Core;
use crate::counters::Drop as Dropped;
use crate::directory::Way;
use crate::listening::Listening;
use crate::outbox::Outbox;
use crate::port::Port;
use crate::random;
use crate::slot::Slot;
use crate::table::InsertError;

/// Random numbers for a new connection ([CDP-SEQ-3], [CDP-SEQ-4]).
fn secret() -> std::io::Result<Secret> {
    let [iss, entropy] = random::words()?;
    Ok(Secret { iss: Seq::new(iss), entropy })
}

impl Core {
    /// Whether one more echo-form RST may go to `node` ([CDP-LIM-3]); if so it is counted.
    pub(crate) fn may_reset(&self, node: NodeId, now: Instant) -> bool {
        let may = self.resets.lock().allow(now, node);
        if may {
            self.resets_sent.fetch_add(1, Ordering::Relaxed);
        }
        may
    }

    /// A packet that no connection claims: for a listener, or for nobody.
    #[cold]
    pub(crate) fn handle_unknown(
        &self,
        port: &Port,
        packet: &Packet,
        from: SocketAddr,
        now: Instant,
        out: &mut Outbox,
    ) {
        // [CDP-CHK-2] before any step that allocates memory
        if !self.may_come(packet.header(), from) {
            return;
        }
        let listening = self.listeners.read().get(&packet.header().destination.port).cloned();
        match listening {
            Some(listening) => self.ask_listener(port, &listening, packet, from, now, out),
            None => {
                self.drops.count(Dropped::NoConnection);
                // [CDP-ST-3] echo-form RST, REASON 1 for a SYN or a COOKIE, else 2
                if let Some(reason) = refusal_of(packet) {
                    self.refuse_by_reset(packet, from, reason, None, now, out);
                }
            }
        }
    }

    fn ask_listener(
        &self,
        port: &Port,
        listening: &Arc<Listening>,
        packet: &Packet,
        from: SocketAddr,
        now: Instant,
        out: &mut Outbox,
    ) {
        let Ok(secret) = secret() else { return self.drops.count(Dropped::NoRoom) };
        let start = out.batch.heads_mut().len();
        // [CDP-LIM-13] smaller windows when memory is short
        let slots_max = self.budget.slots_max(listening.packet_bytes());
        let to = (packet.kind() == Kind::Syn)
            .then(|| self.straight_to(packet.header().source.node, from))
            .flatten();
        let window = to.and_then(|to| self.peer_window(to, &listening.config));
        match listening.handle_packet(now, packet, secret, slots_max, window, out.batch.heads_mut()) {
            Verdict::Drop if packet.kind().is_reset() => self.drops.count(Dropped::Listener),
            // [CDP-ST-6]
            Verdict::Drop => self.drops.count(Dropped::AcceptFull),
            // [CDP-ST-5] [CDP-CKE-8] one SYN|ACK, no longer than the SYN, to where the SYN came from
            Verdict::Answer => push_answer(&mut out.batch, from, start),
            Verdict::Refuse(reason, detail) => {
                self.drops.count(Dropped::Listener);
                self.refuse_by_reset(packet, from, reason, detail, now, out);
            }
            Verdict::Embryo(connection) => match self.admit(port, listening, *connection, from) {
                Ok(slot) => self.start(&slot, now, out),
                Err(reason) => {
                    listening.note_embryo_gone();
                    self.refuse_if(packet, from, reason, now, out);
                }
            },
            Verdict::Established(connection) => match self.admit(port, listening, *connection, from) {
                Ok(slot) => {
                    self.start(&slot, now, out);
                    out.unaccepted.extend(listening.enqueue(slot, &mut out.wakes));
                }
                Err(reason) => {
                    listening.note_lost();
                    self.refuse_if(packet, from, reason, now, out);
                }
            },
        }
    }

    fn refuse_if(
        &self,
        packet: &Packet,
        to: SocketAddr,
        reason: Option<Reason>,
        now: Instant,
        out: &mut Outbox,
    ) {
        if let Some(reason) = reason {
            self.refuse_by_reset(packet, to, reason, None, now, out);
        }
    }

    /// Puts a connection that a listener made into the table, if memory for its window can be reserved; if not it may
    /// tell why.
    fn admit(
        &self,
        port: &Port,
        listening: &Arc<Listening>,
        mut connection: Connection,
        from: SocketAddr,
    ) -> Result<Arc<Slot>, Option<Reason>> {
        // [CDP-LIM-13] and then refusal
        let bytes = connection.window_bytes();
        if !self.budget.reserve_windows(bytes) {
            self.drops.count(Dropped::NoRoom);
            return Err(Some(Reason::NO_ROOM));
        }
        let gather = listening.gather;
        let way = self.way_back(&mut connection, from);
        let slot = Arc::new(Slot::new(connection, way, port.index, bytes, gather, Some(listening.clone())));
        self.table.insert(slot.clone()).map_err(|error| {
            self.drops.count(Dropped::NoRoom);
            self.budget.release(bytes);
            // Another thread may just have admitted the same one.
            (error == InsertError::Full).then_some(Reason::NO_ROOM)
        })?;
        Ok(slot)
    }

    /// How the packets of a connection go whose first packet came from `from`. [CDP-ENC-6] To a node of the cluster they go
    /// where the cluster says.
    fn way_back(&self, connection: &mut Connection, from: SocketAddr) -> Way {
        let way = self.way_to(connection.flow().remote.node);
        if let Some(Way::Side(side)) = &way
            && let Some(path) = side.path_from(from)
        {
            connection.set_paths(crate::clock::now(), side.paths());
            connection.note_came_by(path);
        }
        way.unwrap_or(Way::Direct(from))
    }

    /// How packets go to a node of the cluster.
    pub(crate) fn way_to(&self, node: NodeId) -> Option<Way> {
        self.directory.way(node).filter(|_| self.directory.is_peer(node))
    }

    fn start(&self, slot: &Arc<Slot>, now: Instant, out: &mut Outbox) {
        self.pump_if_free(slot, now, out);
    }

    /// An echo-form RST, within [CDP-LIM-3].
    fn refuse_by_reset(
        &self,
        packet: &Packet,
        to: SocketAddr,
        reason: Reason,
        detail: Option<u16>,
        now: Instant,
        out: &mut Outbox,
    ) {
        if self.may_reset(packet.header().source.node, now) {
            push_reset(&mut out.batch, to, Trigger::from(packet), reason, detail);
        }
    }

    /// [CDP-HDR-4] A packet of another version is answered by an echo-form RST with REASON 11 and VERSIONS.
    #[cold]
    pub(crate) fn answer_version(&self, trigger: Trigger, to: SocketAddr, now: Instant, out: &mut Outbox) {
        let Some(flow) = trigger.flow() else { return };
        // [CDP-CHK-5] a packet for another node is not ours to answer
        if self.directory.is_ours(flow.local.node) && self.may_reset(flow.remote.node, now) {
            push_reset(&mut out.batch, to, trigger, Reason::VERSION, None);
        }
    }
}

fn push_reset(batch: &mut SendBatch, to: SocketAddr, trigger: Trigger, reason: Reason, detail: Option<u16>) {
    let start = batch.heads_mut().len();
    // [CDP-RST-4] an RST is not answered: then nothing was appended
    if echo_reset(batch.heads_mut(), trigger, reason, detail) {
        push_answer(batch, to, start);
    }
}

fn push_answer(batch: &mut SendBatch, to: SocketAddr, start: usize) {
    let end = batch.heads_mut().len();
    batch.push(to, start..end, Bytes::new(), false);
}
