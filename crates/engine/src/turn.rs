//! A turn: packets in, machines asked, packets out, wakes given (`STYLE.md`, "One packet in, one message out").

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use weft_base::Instant;
use weft_link::{Received, Refusal};
use weft_proto::State;
use weft_sync::MutexGuard;
use weft_wire::{Header, Refused, Train};

use crate::binding::Binding;
use crate::clock;
use crate::core::Core;
use crate::counters::Drop as Dropped;
use crate::directory::Source;
use crate::outbox::Outbox;
use crate::port::{Port, Turn};
use crate::runner::{Runner, receive};
use crate::slot::{Guard, Slot};

/// What came, and where it is worked off.
pub(crate) struct Intake<'a, 'b> {
    pub(crate) packets: std::vec::Drain<'a, Received>,
    /// What passed the checks and has not been handed to its slot; empty before and after.
    pub(crate) checked: &'a mut Vec<(Train, SocketAddr)>,
    /// The connection that the last packet was for: the next is mostly for it too, and needs no look-up.
    pub(crate) last: &'a mut Option<Arc<Slot>>,
    /// What the thread waits for that runs the turn.
    pub(crate) binding: Option<&'a mut Binding<'b>>,
}

impl Core {
    /// Runs one turn of the port at `now`, unless another thread does. Tells how many packets came in.
    #[inline]
    pub(crate) fn try_turn(&self, port: &Port, runner: Runner, now: Instant) -> Option<usize> {
        self.try_turn_of(port, runner, now, port.inflow.turn_packets())
    }

    /// The same, for so many packets at most.
    pub(crate) fn try_turn_of(
        &self,
        port: &Port,
        runner: Runner,
        now: Instant,
        budget: usize,
    ) -> Option<usize> {
        if let Some(lanes) = &port.lanes {
            return self.try_turn_with(lanes, port, runner, now, budget);
        }
        let mut turn = port.turn.try_lock()?;
        let count = receive(port, &mut turn, runner, now, budget, &mut []);
        self.work_off(port, turn, count, None, now);
        Some(count)
    }

    /// Takes in `count` packets that came with a turn, and does what else there is to do in it.
    pub(crate) fn work_off(
        &self,
        port: &Port,
        mut turn: MutexGuard<'_, Turn>,
        count: usize,
        mut binding: Option<&mut Binding<'_>>,
        mut now: Instant,
    ) {
        let mut out = Outbox::take();
        if count > 0 {
            // It may have come after the thread looked at the clock: while it was at the link, or kept from it (decision 0061).
            now = clock::now();
            if turn.batch.has_placed()
                && let Some(binding) = &mut binding
            {
                self.take_placed(&mut turn.batch, binding, now, &mut out);
            }
            let Turn { batch, checked, last, .. } = &mut *turn;
            let intake = Intake { packets: batch.drain_joined(), checked, last, binding };
            self.take_in(port, intake, now, &mut out);
        }
        self.take_refusals(&mut turn, now, &mut out);
        // Timers after packets: an acknowledgement that lies in the link must not lose to its time-out.
        if port.next_timer() <= now.as_nanos() {
            self.fire_timers(port, now, &mut out);
            port.rest(&mut turn.batch, now);
        }
        drop(turn);
        self.finish(port, &mut out);
        out.put_back();
    }

    /// What hosts said of packets that were sent to them, to the connections that sent them.
    #[inline]
    pub(crate) fn take_refusals(&self, turn: &mut Turn, now: Instant, out: &mut Outbox) {
        if turn.batch.has_refusals() {
            self.handle_refusals(turn.batch.drain_refusals(), now, out);
        }
    }

    #[cold]
    fn handle_refusals(&self, refusals: impl Iterator<Item = Refusal>, now: Instant, out: &mut Outbox) {
        for Refusal { to, head } in refusals {
            let Ok(head) = Header::parse(&head) else { continue };
            let Some(slot) = self.table.find(&head.flow().reversed()) else { continue };
            let mut live = slot.lock();
            // What the host of an I/O node says is nothing about the peer.
            match &live.side {
                None if live.to == to => live.connection.handle_unreachable(now, &head),
                Some(side) if live.connection.may_have_sent(&head) => {
                    if let Some(due) = side.note_gone(to, now) {
                        self.arm_probe(due);
                    }
                }
                None | Some(_) => {}
            }
            self.pump(&slot, &mut live, now, out);
            self.unlock(&slot, live, now, out);
        }
    }

    /// Takes in what came: all of it is checked before the first packet goes to its slot, so that nobody waits for the bytes
    /// of a packet that was taken apart a moment ago.
    #[inline(always)] // as its parts, into both kinds of turns: each call more is one that a waiting peer pays for
    pub(crate) fn take_in(&self, port: &Port, intake: Intake<'_, '_>, now: Instant, out: &mut Outbox) {
        let Intake { packets, checked, last, binding } = intake;
        self.check(port, packets, checked, now, out);
        self.sort(port, checked, last, binding, now, out);
        checked.clear();
        self.end_turn(now, out);
    }

    /// [CDP-CHK-1] The stateless checks, and [CDP-CHK-5] whether it is for us, before any look-up.
    #[inline(always)]
    fn check(
        &self,
        port: &Port,
        packets: std::vec::Drain<'_, Received>,
        checked: &mut Vec<(Train, SocketAddr)>,
        now: Instant,
        out: &mut Outbox,
    ) {
        for Received { from, bytes, size } in packets {
            let mut bytes = bytes.freeze();
            if bytes.len() > size {
                self.check_joined(port, &mut bytes, size, from, checked, now, out);
                if bytes.is_empty() {
                    continue;
                }
            }
            self.keep(Train::new_checked(bytes, port.encapsulation), from, checked, now, out);
        }
    }

    /// The same for packets that came together, but for the last one if it is by itself.
    #[inline(never)] // what comes alone is what somebody waits for, and is the faster the less code lies in its way
    #[allow(clippy::too_many_arguments)] // the parts of one check
    fn check_joined(
        &self,
        port: &Port,
        bytes: &mut Bytes,
        size: usize,
        from: SocketAddr,
        checked: &mut Vec<(Train, SocketAddr)>,
        now: Instant,
        out: &mut Outbox,
    ) {
        while bytes.len() > size {
            let train = Train::split_checked(bytes, size, port.encapsulation);
            self.keep(train, from, checked, now, out);
        }
    }

    #[inline(always)]
    fn keep(
        &self,
        train: Result<Train, Refused>,
        from: SocketAddr,
        checked: &mut Vec<(Train, SocketAddr)>,
        now: Instant,
        out: &mut Outbox,
    ) {
        match train {
            Ok(train) if self.directory.is_ours(train.header().destination.node) => {
                checked.push((train, from));
            }
            Ok(train) => (0..train.len()).for_each(|_| self.drops.count(Dropped::NotOurs)),
            Err(refused) => self.refuse(refused, from, now, out),
        }
    }

    /// Sorts packets to their slots; a run of packets of one flow is looked up and locked once.
    #[inline(always)]
    fn sort(
        &self,
        port: &Port,
        mut trains: &mut [(Train, SocketAddr)],
        last: &mut Option<Arc<Slot>>,
        mut binding: Option<&mut Binding<'_>>,
        now: Instant,
        out: &mut Outbox,
    ) {
        while let Some((first, from)) = trains.first_mut() {
            let flow = first.flow();
            let known = last.take().filter(|slot| slot.key() == flow && !slot.is_removed());
            let Some(slot) = known.or_else(|| self.table.find(&flow)) else {
                if let Some(packet) = first.split_first() {
                    self.handle_unknown(port, &packet, *from, now, out);
                }
                if first.is_empty() {
                    trains = &mut trains[1..];
                }
                continue;
            };
            slot.set_home(port.index);
            let count = 1 + trains[1..].iter().take_while(|(train, _)| train.flow() == flow).count();
            let (run, rest) = trains.split_at_mut(count);
            trains = rest;
            // What its user has in one piece is of one run: in between another thread may read.
            let unbound = binding.as_deref_mut().filter(|binding| !binding.is_done());
            if self.give_run(port, &slot, run, trains.is_empty(), unbound, now, out) {
                *last = (!slot.is_removed()).then_some(slot);
            } else {
                out.touched.push(slot);
            }
        }
    }

    /// Hands a run of packets to their slot. Whether what comes of them was seen to: where they are the last of the turn.
    #[allow(clippy::too_many_arguments)] // the parts of one hand-over
    fn give_run(
        &self,
        port: &Port,
        slot: &Arc<Slot>,
        run: &mut [(Train, SocketAddr)],
        is_last: bool,
        mut binding: Option<&mut Binding<'_>>,
        now: Instant,
        out: &mut Outbox,
    ) -> bool {
        let mut live = slot.try_lock();
        if let Some(live) = &mut live
            && (!out.touched.is_empty() || live.is_wanted())
        {
            self.give_earlier(slot, live, now, out);
        }
        for (train, from) in run {
            self.give(port, slot, live.as_mut(), train, *from, binding.as_deref_mut(), now, out);
        }
        let mut has_read = false;
        if let (Some(binding), Some(live)) = (binding.filter(|binding| binding.is_of(slot)), &mut live) {
            has_read = binding.is_done();
            if has_read {
                binding.take_rest(live);
            } else if live.connection.bytes_ahead() > 0 {
                binding.read_ahead(live);
            }
        }
        let Some(mut live) = live.filter(|_| is_last) else { return false };
        if live.side.is_none() && live.connection.has_unread_ack() && !has_read {
            self.show(slot, &mut live, now, out);
        } else {
            self.pump(slot, &mut live, now, out);
        }
        self.unlock(slot, live, now, out);
        true
    }

    /// What was left while another thread had the slot came before: in this turn, or in one that has said that it is wanted.
    #[cold]
    fn give_earlier(&self, slot: &Arc<Slot>, live: &mut Guard<'_>, now: Instant, out: &mut Outbox) {
        self.drain_backlog(slot, live, now, out);
    }

    /// [CDP-CHK-2] Whether the packet may come from there; asked before anything is allocated for it, and saved where it
    /// comes from the address that its connection sends to.
    pub(crate) fn may_come(&self, header: &Header, from: SocketAddr) -> bool {
        match self.directory.check_source(header.source.node, from) {
            Source::Known | Source::Open => return true,
            Source::Contradicts => self.drops.count(Dropped::Source),
            Source::Stranger => self.drops.count(Dropped::Stranger),
        }
        false
    }

    /// [CDP-CHK-3] Counts what failed the checks, and [CDP-HDR-4] answers other versions.
    #[cold]
    fn refuse(&self, refused: Refused, from: SocketAddr, now: Instant, out: &mut Outbox) {
        self.drops.count_wire(refused.reason());
        if let Refused::Answer(_, trigger) = refused {
            self.answer_version(trigger, from, now, out);
        }
    }

    /// Hands packets to their slot: to the machine, or to the backlog if another thread has the slot.
    #[allow(clippy::too_many_arguments)] // the parts of one hand-over
    fn give(
        &self,
        port: &Port,
        slot: &Arc<Slot>,
        live: Option<&mut Guard<'_>>,
        train: &mut Train,
        from: SocketAddr,
        binding: Option<&mut Binding<'_>>,
        now: Instant,
        out: &mut Outbox,
    ) {
        if let Some(live) = live {
            return self.handle(slot, live, train, from, binding, now, out);
        }
        if !self.may_come(train.header(), from) {
            return;
        }
        port.counters.backlogged.fetch_add(train.len() as u64, Ordering::Relaxed);
        if slot.defer(train.clone(), from).is_err() {
            // The backlog is full: wait for the slot, so that the link's own queue fills.
            let mut live = slot.lock();
            self.drain_backlog(slot, &mut live, now, out);
            // The end of the turn wants the slot once more.
            self.handle(slot, &mut live, train, from, None, now, out);
        }
    }

    /// Once per slot that packets came for: one acknowledgement for all of them, and whatever else is due.
    fn end_turn(&self, now: Instant, out: &mut Outbox) {
        while let Some(slot) = out.touched.pop() {
            self.pump_if_free(&slot, now, out);
        }
    }

    /// Looks after every slot whose timer is due. Peers that are in touch are not forgotten: every connection has a timer.
    #[cold]
    pub(crate) fn fire_timers(&self, port: &Port, now: Instant, out: &mut Outbox) {
        let mut expired = std::mem::take(&mut out.touched);
        if port.take_probe(now) {
            self.probe_sides(now, out);
        }
        port.expire(now, &mut expired);
        for slot in expired.drain(..) {
            let mut live = slot.lock();
            live.connection.handle_timeout(now);
            if live.side.is_none() && live.connection.state() == State::Established {
                self.directory.learn(slot.key().remote.node, live.to);
            }
            self.pump(&slot, &mut live, now, out);
            self.unlock(&slot, live, now, out);
        }
        out.touched = expired;
    }
}
