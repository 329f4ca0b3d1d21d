//! Polls an end's outputs, runs its user, arms its timer, and lets the checkers look.

use bytes::Bytes;
use weft_base::Instant;
use weft_proto::{Connection, State, Transmit};
use weft_wire::{Encapsulation, Packet};

use super::{Happening, World};
use crate::end::Stage;
use crate::journal::Entry;
use crate::violation::{Invariant, Violation, ensure};

/// Packets that one end may emit without the clock moving.
const PACKETS_MAX: u32 = 20_000;
/// Bytes of packets that leave as one, as an engine has it.
const BATCH_BYTES: usize = 65_000;
/// Rounds of outputs and user in one drive.
const ROUNDS_MAX: u32 = 2_000;
/// Timer events of one end in a row without the clock moving.
const FIRINGS_MAX: u32 = 50;
/// How long a connection waits for `accept`.
const ACCEPT_DELAY: std::time::Duration = std::time::Duration::from_millis(1);

impl World {
    /// Everything an end has to do now.
    pub(super) fn drive(&mut self, end: usize) -> Result<(), Violation> {
        self.drive_unnamed(end).map_err(|violation| {
            let at = &self.ends[end];
            violation.of(format_args!("end {end} (session {} role {} {:?})", at.session, at.role, at.flow))
        })
    }

    fn drive_unnamed(&mut self, end: usize) -> Result<(), Violation> {
        let now = self.queue.now();
        if self.ends[end].connection.as_ref().is_some_and(Connection::has_unread_ack) {
            // as an engine does: its user may have an answer, which is asked for before anything else
            self.raise(end);
            self.run_user(end)?;
        }
        for round in 0.. {
            ensure(round < ROUNDS_MAX, Invariant::Termination, || {
                "outputs and user keep each other busy".into()
            })?;
            if self.ends[end].connection.is_none() {
                return Ok(());
            }
            self.flush(end)?;
            self.raise(end);
            self.note_stage(end);
            if !self.run_user(end)? {
                break;
            }
        }
        self.ends[end].check(now)?;
        self.arm(end)
    }

    fn flush(&mut self, end: usize) -> Result<(), Violation> {
        let now = self.queue.now();
        for count in 0.. {
            ensure(count < PACKETS_MAX, Invariant::Termination, || {
                format!("{PACKETS_MAX} packets in one turn")
            })?;
            let mut head = std::mem::take(&mut self.head);
            head.clear();
            let polled = self.ends[end].connection.as_mut().and_then(|connection| {
                let transmit = connection.poll_transmit_in_place(now, &mut head, BATCH_BYTES)?;
                // what lies in its memory stays there on its way, so that it would show if it was written again
                let bytes = match connection.frame(&transmit) {
                    Some(frame) => Bytes::from_owner(frame.to_frames()),
                    None => [&head[transmit.head.clone()], &transmit.body[..]].concat().into(),
                };
                Some((transmit, bytes))
            });
            self.head = head;
            let Some((transmit, bytes)) = polled else { return Ok(()) };
            let size = bytes.len() / transmit.packets as usize;
            for start in (0..bytes.len()).step_by(size) {
                self.emit(end, &transmit, bytes.slice(start..start + size))?;
            }
        }
        Ok(())
    }

    /// One of the packets of `transmit`.
    fn emit(&mut self, end: usize, transmit: &Transmit, bytes: Bytes) -> Result<(), Violation> {
        let packet = Packet::new_checked(bytes, Encapsulation::Simulated)
            .map_err(|refused| Violation::new(Invariant::Form, format!("it sends no packet: {refused:?}")))?;
        if transmit.is_echo_reset && !self.is_echo_allowed(end) {
            self.ends[end].watch.handle_sent(&packet, &self.opens)?;
            return Ok(());
        }
        if packet.kind().is_open() {
            self.opens.note(&packet);
        }
        let at = &mut self.ends[end];
        let said = at.watch.handle_sent(&packet, &self.opens)?;
        let (node, flow) = (at.node, at.flow);
        ensure(packet.flow() == flow.reversed(), Invariant::Form, || "a packet of another flow".into())?;
        self.learn_peer(end);
        self.transmit(node, packet.bytes().clone(), flow, said, transmit.may_fragment)
    }

    fn is_echo_allowed(&mut self, end: usize) -> bool {
        let now = self.queue.now();
        let at = &self.ends[end];
        self.nodes[at.node].echo_resets.allow(now, at.flow.remote.node)
    }

    /// The numbers an end uses show who it is and whom it speaks to.
    fn learn_peer(&mut self, end: usize) {
        let at = &mut self.ends[end];
        if let Some(iss) = at.watch.iss() {
            self.by_number.entry(iss).or_insert(end);
        }
        if at.peer.is_none() {
            at.peer = at.watch.irs().and_then(|irs| self.by_number.get(&irs).copied());
        }
    }

    fn raise(&mut self, end: usize) {
        let now = self.queue.now();
        let journal = &mut self.journal;
        self.ends[end].take_events(now, |event| journal.note(now, Entry::Raised { end, event }));
    }

    /// Follows an end that a listener made from embryo to accept queue.
    pub(super) fn note_stage(&mut self, end: usize) {
        let at = &mut self.ends[end];
        let (Stage::Embryo(port), Some(connection)) = (at.stage, &at.connection) else { return };
        if connection.is_embryo() {
            return;
        }
        let node = at.node;
        let is_ready = connection.state() != State::Closed;
        at.stage = if is_ready { Stage::Waiting(port) } else { Stage::Gone };
        let Some(listening) = self.nodes[node].listeners.get_mut(&port) else { return };
        listening.embryos -= 1;
        if is_ready {
            listening.listener.note_ready();
            self.enqueue(node, port, end);
        } else {
            listening.listener.note_embryo_gone();
        }
    }

    pub(super) fn enqueue(&mut self, node: usize, port: u16, end: usize) {
        let now = self.queue.now();
        if let Some(listening) = self.nodes[node].listeners.get_mut(&port) {
            listening.queue.push_back(end);
            self.queue.schedule(now + ACCEPT_DELAY, Happening::Accept { node, port });
        }
    }

    /// The user of a listener accepts one connection.
    pub(super) fn accept(&mut self, node: usize, port: u16) -> Result<(), Violation> {
        let now = self.queue.now();
        let until = self.nodes[node].suspended_until;
        if now < until {
            self.queue.schedule(until, Happening::Accept { node, port });
            return Ok(());
        }
        let Some(listening) = self.nodes[node].listeners.get_mut(&port) else { return Ok(()) };
        let (embryos, ready) = (listening.embryos, listening.queue.len());
        let config = listening.listener.config();
        crate::watch::memory::check_listener(config, embryos, ready)?;
        let Some(end) = listening.queue.pop_front() else { return Ok(()) };
        listening.listener.note_accepted();
        self.ends[end].stage = Stage::Owned;
        self.drive(end)
    }

    /// Lets the user act; tells whether it did.
    fn run_user(&mut self, end: usize) -> Result<bool, Violation> {
        let now = self.queue.now();
        if self.ends[end].stage != Stage::Owned {
            return Ok(false);
        }
        let written = self.written_by_peer(end);
        let at = &mut self.ends[end];
        let Some(connection) = &mut at.connection else { return Ok(false) };
        let step = at.user.step(now, connection, written)?;
        if let Some(wake_at) = step.wake_at
            && at.wake_at.is_none_or(|set| wake_at < set || set <= now)
        {
            at.wake_at = Some(wake_at);
            self.queue.schedule(wake_at, Happening::User { end, at: wake_at });
        }
        Ok(step.has_acted)
    }

    /// What the user at the other end has written, or all it could have if that end is not known yet.
    fn written_by_peer(&self, end: usize) -> u64 {
        self.ends[end].peer.map_or(u64::MAX, |peer| self.ends[peer].user.written())
    }

    /// Schedules the timer if it changed; takes an ended connection out of the table.
    fn arm(&mut self, end: usize) -> Result<(), Violation> {
        let now = self.queue.now();
        let at = &mut self.ends[end];
        let Some(connection) = &at.connection else { return Ok(()) };
        if connection.is_finished() {
            let is_listed = at.is_listed;
            ensure(connection.poll_timeout().is_none(), Invariant::Ending, || {
                "an ended connection has a timer".into()
            })?;
            at.timer_at = None;
            if is_listed {
                self.forget(end);
            }
            return Ok(());
        }
        let due = connection.poll_timeout();
        // In CLOSE_WAIT only the user can act, and nothing watches over the peer any more (CDP-KA-6).
        let waits_for_user = connection.state() == State::CloseWait;
        ensure(due.is_some() || waits_for_user, Invariant::Liveness, || {
            format!("no timer is set in {:?}", connection.state())
        })?;
        let late = self.plan.nodes[at.node].timer_late;
        let due = due.map(|due| due.max(now) + self.random.duration(std::time::Duration::ZERO..late));
        // A timer that moves later is left to fire early and be armed again, as a lazy wheel does.
        if let Some(due) = due
            && at.timer_at.is_none_or(|set| due < set)
        {
            at.timer_at = Some(due);
            self.queue.schedule(due, Happening::Timer { end, at: due });
        }
        Ok(())
    }

    /// A timer event: it counts only if it is the one that the end waits for.
    pub(super) fn fire(&mut self, end: usize, due: Instant) -> Result<(), Violation> {
        let now = self.queue.now();
        let node = self.ends[end].node;
        if self.ends[end].timer_at != Some(due) {
            return Ok(());
        }
        if now < self.nodes[node].suspended_until {
            let until = self.nodes[node].suspended_until;
            self.ends[end].timer_at = Some(until);
            self.queue.schedule(until, Happening::Timer { end, at: until });
            return Ok(());
        }
        let at = &mut self.ends[end];
        at.timer_at = None;
        let again = if at.fired_at.0 == now { at.fired_at.1 + 1 } else { 0 };
        at.fired_at = (now, again);
        ensure(again < FIRINGS_MAX, Invariant::Termination, || {
            format!("end {end}: its timer fires {FIRINGS_MAX} times at one time")
        })?;
        let Some(connection) = &mut at.connection else { return Ok(()) };
        let was_due = connection.poll_timeout();
        connection.handle_timeout(now);
        if was_due.is_some_and(|due| due <= now) {
            self.journal.note(now, Entry::Fired { end });
        }
        self.drive(end)
    }

    /// A user wakes up.
    pub(super) fn wake(&mut self, end: usize, due: Instant) -> Result<(), Violation> {
        if self.ends[end].wake_at != Some(due) {
            return Ok(());
        }
        let now = self.queue.now();
        let until = self.nodes[self.ends[end].node].suspended_until;
        if now < until {
            self.ends[end].wake_at = Some(until);
            self.queue.schedule(until, Happening::User { end, at: until });
            return Ok(());
        }
        self.ends[end].wake_at = None;
        self.drive(end)
    }
}
