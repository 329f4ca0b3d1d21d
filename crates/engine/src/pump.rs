//! Asks a connection for its outputs, in the order that its room prescribes: packets, events, timer.
//!
//! Every way into a connection (a turn, a timer, a user's call) ends here; there is no second way to transmit.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weft_base::Instant;
use weft_link::Interest as LinkInterest;
use weft_proto::{Event, State};

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
    /// Drains all outputs of a connection into the outbox. The caller holds the lock, and then calls [`Core::unlock`] and
    /// [`Core::finish`].
    pub(crate) fn pump(&self, slot: &Arc<Slot>, live: &mut Guard<'_>, now: Instant, out: &mut Outbox) {
        let now = self.drain_backlog(slot, live, now, out);
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
                Event::Connected => {
                    // A send before that was refused for it, and not for want of room.
                    live.is_blocked = false;
                    self.note_connected(slot, live, out);
                }
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
        slot.waiters.raise(Interest::Readable.bit() | Interest::RestReadable.bit(), &mut out.wakes);
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
            let is_whole = || out.fills_pages() && self.port(slot.home()).link.prefers_whole_pages();
            if is_answer || out.is_full() || is_whole() {
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
        self.near.share(live, now);
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
            bits |= Interest::Readable.bit() | Interest::RestReadable.bit();
        } else if connection.is_rest_readable() {
            bits |= Interest::RestReadable.bit();
        }
        // A send to one that is closing fails at once, whatever is still queued.
        let has_room = state != State::Established || (!live.is_blocked && gather::has_room(slot, live));
        if has_room && connection.is_writable() {
            bits |= Interest::Writable.bit();
        }
        if gather::has_room_for_part(live) {
            bits |= Interest::RestWritable.bit();
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
            slot.waiters.clear(Interest::Readable.bit() | Interest::RestReadable.bit());
        }
    }

    fn note_connected(&self, slot: &Arc<Slot>, live: &mut Live, out: &mut Outbox) {
        if live.connection.owes_third() {
            slot.note_owing();
        }
        if live.side.is_none() {
            self.directory.learn(slot.key().remote.node, live.to);
            self.note_peer(slot, live);
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
    pub(crate) fn look_at_end(&self, slot: &Arc<Slot>, live: &mut Live, out: &mut Outbox) {
        if live.connection.state() == State::Quiet && !live.is_quiet {
            live.is_quiet = true;
            // [CDP-ST-C] no data buffers there
            self.budget.release(live.take_unneeded());
            self.note_quiet(slot, out);
            self.forget_peer(live);
        }
        if live.connection.is_finished() {
            self.remove(slot, live);
        }
    }

    /// Takes a connection out of the table, unless it is, and gives back what was promised for it and is not needed. Handles may live
    /// on, and call this again when something was read.
    pub(crate) fn remove(&self, slot: &Arc<Slot>, live: &mut Live) {
        self.budget.release(live.take_unneeded());
        self.near.forget(&mut live.near);
        if slot.note_removed() {
            return;
        }
        self.table.remove(&slot.key());
        self.forget_peer(live);
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

    /// Does all that there is to do for a slot: drains its outputs, leaves it, and hands them over. Returns the time at its end if that
    /// took any.
    #[inline]
    pub(crate) fn work(
        &self,
        port: &Port,
        slot: &Arc<Slot>,
        mut live: Guard<'_>,
        now: Instant,
    ) -> Option<Instant> {
        let mut out = Outbox::take();
        self.pump(slot, &mut live, now, &mut out);
        self.unlock(slot, live, now, &mut out);
        let end = self.finish(port, &mut out);
        out.put_back();
        end
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
