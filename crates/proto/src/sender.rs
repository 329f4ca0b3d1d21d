//! The sending half: what goes next, when it counts as lost, and how fast it goes.

use std::time::Duration;

use bytes::Bytes;
use weft_base::{Instant, Seq, limits};
use weft_wire::Sack;

use crate::config::Config;
use crate::congestion::{self, Congestion, Controller};
use crate::flight::{Flight, Losses, Progress};
use crate::mtu::Mtu;
use crate::pacer::Pacer;
use crate::queue::SendQueue;
use crate::rtt::Rtt;
use crate::stats::{LimitedBy, Stats};
use crate::timers::{Timer, Timers};

/// Duplicate acknowledgements that declare a number lost where there is no SACK (CDP-RTX-5).
const DUPLICATE_ACKS: u32 = 3;

/// A numbered packet that is to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Numbered {
    pub(crate) seq: Seq,
    pub(crate) payload: Bytes,
    pub(crate) eom: bool,
    pub(crate) fin: bool,
    /// 0 for the first transmission, k for retransmission k (CDP-IO-2).
    pub(crate) attempt: u32,
}

/// What a valid acknowledgement says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked<'a> {
    /// The number before which everything has arrived.
    pub(crate) full: Seq,
    /// Slots from there on.
    pub(crate) window: u64,
    pub(crate) sack: Option<&'a Sack>,
    pub(crate) ece: bool,
    /// It could be a duplicate acknowledgement: a pure ACK that answers no probe (CDP-WND-12).
    pub(crate) may_be_duplicate: bool,
}

/// Whether `close` has asked for a FIN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fin {
    No,
    Queued,
    Sent,
}

#[derive(Clone, Debug)]
pub(crate) struct Sender {
    pub(crate) queue: SendQueue,
    pub(crate) flight: Flight,
    pub(crate) rtt: Rtt,
    pub(crate) congestion: Congestion,
    pub(crate) mtu: Mtu,
    pacer: Pacer,
    edge: Seq,
    fin: Fin,
    duplicate_acks: u32,
    /// Without SACK: partial acknowledgements up to here declare the next number lost.
    recover: Option<Seq>,
    /// ECE is answered again only for numbers from here on (CDP-CC-5).
    ecn_recover: Seq,
    /// A tail probe is due, and one is out for this tail.
    probe_due: bool,
    probe_out: bool,
    /// A time-out lets one number go whatever the window of the congestion controller.
    force: bool,
    /// The congestion window held something back since the last acknowledgement.
    was_limited: bool,
    /// When SND.UNA last moved or an idle sender began (R2).
    progress_at: Instant,
    give_up_time: Duration,
    give_up_tries: u32,
    ack_delay: Duration,
    pacing: bool,
}

impl Sender {
    pub(crate) fn new(now: Instant, iss: Seq, config: &Config) -> Self {
        Self {
            queue: SendQueue::new(config.service, config.link_mss),
            flight: Flight::new(iss + 1),
            rtt: Rtt::new(config.rto_init, config.ack_delay, config.rto_max),
            congestion: Congestion::with_settings(config.congestion, now, &config.congestion_settings),
            mtu: Mtu::new(config.link_mss, limits::MSS_MIN),
            pacer: Pacer::new(now),
            edge: iss + 1,
            fin: Fin::No,
            duplicate_acks: 0,
            recover: None,
            ecn_recover: iss + 1,
            probe_due: false,
            probe_out: false,
            force: false,
            was_limited: false,
            progress_at: now,
            give_up_time: config.give_up_time,
            give_up_tries: config.give_up_tries,
            ack_delay: config.ack_delay,
            pacing: config.pacing,
        }
    }

    /// What the open agreed on.
    pub(crate) fn configure(&mut self, link_mss: u16, peer_mss: u16, coalesce: bool) {
        self.mtu = Mtu::new(link_mss, peer_mss);
        self.queue.configure(self.mtu.current(), coalesce);
        self.flight.set_large(self.mtu.large());
    }

    /// Data segments are cut to `mss` from now on.
    pub(crate) fn set_mss(&mut self, mss: u16) {
        self.queue.set_mss(mss);
        self.flight.set_large(self.mtu.large());
    }

    pub(crate) fn una(&self) -> Seq {
        self.flight.una()
    }

    pub(crate) fn nxt(&self) -> Seq {
        self.flight.nxt()
    }

    pub(crate) fn edge(&self) -> Seq {
        self.edge
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.flight.is_empty() && self.queue.is_empty()
    }

    pub(crate) fn queue_fin(&mut self) {
        if self.fin == Fin::No {
            self.fin = Fin::Queued;
        }
    }

    /// Data waits, nothing is in flight that could bring an acknowledgement, and the window is closed (CDP-WND-9).
    pub(crate) fn is_stuck(&self) -> bool {
        !self.queue.is_empty() && self.flight.is_empty() && !self.nxt().is_before(self.edge)
    }

    /// Data waits and the window is closed.
    pub(crate) fn is_window_closed(&self) -> bool {
        !self.queue.is_empty() && !self.nxt().is_before(self.edge)
    }

    /// Bytes held for the user: not yet sent, and not yet acknowledged.
    pub(crate) fn buffered(&self) -> usize {
        self.queue.bytes() + self.flight.bytes()
    }

    /// Forgets all that was to be sent (row 30); returns numbers dropped and packets that never got one.
    pub(crate) fn discard(&mut self) -> (u64, usize) {
        self.probe_due = false;
        self.force = false;
        self.fin = Fin::No;
        let unsent = self.queue.clear();
        (self.flight.clear(), unsent)
    }

    // ── Inputs ────────────────────────────────────────────────────────────────────────────────────────────────

    /// [CDP-WND-5] SND.EDGE is the greatest edge of all valid acknowledgements.
    pub(crate) fn raise_edge(&mut self, edge: Seq) {
        // [CDP-ACK-6] fewer than 2^30 numbers in flight, whatever the peer grants
        let most = self.una() + (limits::IN_FLIGHT_MAX - 1);
        if self.edge.is_before(edge) {
            self.edge = if most.is_before(edge) { self.edge.later(most) } else { edge };
        }
    }

    pub(crate) fn handle_ack(
        &mut self,
        now: Instant,
        acked: Acked<'_>,
        timers: &mut Timers,
        stats: &mut Stats,
    ) -> Progress {
        let min_rtt = self.rtt.min_rtt();
        let edge_before = self.edge;
        let mut progress = self.flight.acknowledge(now, acked.full, min_rtt);
        self.raise_edge(acked.full + acked.window);
        if let Some(sack) = acked.sack {
            self.flight.mark_held(now, acked.full, sack, min_rtt, &mut progress);
        }
        self.measure(now, &progress);
        let moved = progress.acked > 0;
        if moved {
            self.progress_at = now;
            self.probe_out = false;
            self.duplicate_acks = 0;
        } else if acked.may_be_duplicate && acked.sack.is_none() && edge_before == self.edge {
            self.duplicate_acks += 1;
        }
        let lost = self.detect_losses(now, moved, timers);
        self.tell_controller(now, &progress, lost, acked.ece);
        if progress.delivered > 0 {
            self.mtu.handle_delivery(progress.large);
        }
        stats.numbers_acked += progress.acked;
        stats.bytes_acked += progress.bytes;
        stats.spurious += u64::from(progress.spurious);
        stats.lost += u64::from(lost.count);
        stats.ece_received += u64::from(acked.ece);
        if moved || progress.delivered > 0 {
            self.rearm(now, moved, timers);
        }
        progress
    }

    /// [CDP-RTX-4] A fresh sample ends the back-off; an ACK that moves SND.UNA without one divides it by four.
    fn measure(&mut self, now: Instant, progress: &Progress) {
        match progress.rtt {
            Some(rtt) => self.rtt.sample(now, rtt),
            None if progress.acked > 0 => self.rtt.ease(),
            None => {}
        }
    }

    fn detect_losses(&mut self, now: Instant, moved: bool, timers: &mut Timers) -> Losses {
        let mut losses = self.flight.detect_losses(now, self.rtt.min_rtt());
        match losses.next {
            Some(due) => timers.set(Timer::Reorder, due),
            None => timers.stop(Timer::Reorder),
        }
        // without SACK: three duplicates, and after them each partial acknowledgement
        let partial = moved && self.recover.is_some_and(|recover| self.una().is_before(recover));
        if self.duplicate_acks == DUPLICATE_ACKS || (partial && !self.flight.has_held()) {
            let oldest = self.flight.declare_oldest_lost();
            losses.count += oldest.count;
            losses.sent_at = losses.sent_at.max(oldest.sent_at);
            self.recover = Some(self.nxt());
        } else if self.recover.is_some_and(|recover| recover.is_at_or_before(self.una())) {
            self.recover = None;
        }
        losses
    }

    fn tell_controller(&mut self, now: Instant, progress: &Progress, losses: Losses, ece: bool) {
        if progress.delivered > 0 {
            let min_rtt = self.rtt.min_rtt();
            self.congestion.handle_ack(&congestion::Ack {
                now,
                newly_acked: progress.delivered,
                in_flight: self.flight.in_flight(),
                sent_at: progress.sent_at,
                rtt: progress.rtt,
                min_rtt,
                srtt: self.rtt.srtt(),
                delivery: self.flight.rate.take_sample(min_rtt),
                is_window_limited: self.was_limited,
            });
            self.was_limited = false;
        }
        if progress.spurious > 0 && !self.flight.has_lost() {
            self.congestion.handle_spurious(now);
        }
        self.tell_loss(now, losses, false);
        // [CDP-CC-5] as to one loss, at most once per round trip
        if ece && self.ecn_recover.is_at_or_before(self.una()) {
            self.congestion.handle_ecn(now, self.flight.newest_sent_at());
            self.ecn_recover = self.nxt();
        }
    }

    fn tell_loss(&mut self, now: Instant, losses: Losses, is_timeout: bool) {
        if losses.count == 0 && !is_timeout {
            return;
        }
        self.congestion.handle_loss(&congestion::Loss {
            now,
            lost: losses.count,
            in_flight: self.flight.in_flight(),
            largest_sent_at: losses.sent_at,
            is_timeout,
        });
    }

    /// The reorder timer: numbers that were only late are lost now.
    pub(crate) fn handle_reorder_timeout(&mut self, now: Instant, timers: &mut Timers, stats: &mut Stats) {
        let losses = self.detect_losses(now, false, timers);
        stats.lost += u64::from(losses.count);
        self.tell_loss(now, losses, false);
    }

    /// The retransmission time-out; `Err` when the peer is given up (R2).
    pub(crate) fn handle_timeout(
        &mut self,
        now: Instant,
        timers: &mut Timers,
        stats: &mut Stats,
    ) -> Result<(), ()> {
        let Some(oldest) = self.flight.oldest() else { return Ok(()) };
        // [CDP-TMR-2] not before both the time and the number of tries have passed
        if oldest.transmissions >= self.give_up_tries && now - self.progress_at >= self.give_up_time {
            return Err(());
        }
        stats.timeouts += 1;
        if oldest.payload.len() > self.mtu.large()
            && let Some(mss) = self.mtu.handle_large_loss()
        {
            self.set_mss(mss);
        }
        // [CDP-RTX-1] sent again until it is acknowledged
        let losses = self.flight.declare_all_lost();
        stats.lost += u64::from(losses.count);
        self.tell_loss(now, losses, true);
        self.rtt.back_off();
        self.force = true;
        self.probe_due = false;
        self.duplicate_acks = 0;
        timers.stop(Timer::TailProbe);
        timers.stop(Timer::Reorder);
        timers.set(Timer::Retransmit, now + self.rtt.rto());
        Ok(())
    }

    pub(crate) fn handle_tail_timeout(&mut self, stats: &mut Stats) {
        if !self.flight.is_empty() {
            stats.tail_probes += 1;
            self.probe_due = true;
            self.probe_out = true;
        }
    }

    // ── Output ────────────────────────────────────────────────────────────────────────────────────────────────

    /// The next numbered packet that may go, or what holds the sender back.
    pub(crate) fn poll(
        &mut self,
        now: Instant,
        timers: &mut Timers,
        stats: &mut Stats,
    ) -> Result<Numbered, LimitedBy> {
        if let Some(at) = self.take_tail_probe() {
            return Ok(self.resend(now, at, timers, stats));
        }
        let lost = self.flight.next_lost();
        if lost.is_none() && !self.has_new() {
            return Err(self.idle_verdict());
        }
        if lost.is_none() && !self.is_in_window() {
            return Err(LimitedBy::ReceiverWindow);
        }
        self.check_congestion(now, timers)?;
        self.force = false;
        Ok(match lost {
            Some(at) => self.resend(now, at, timers, stats),
            None => match self.send_new(now, timers, stats) {
                Some(numbered) => numbered,
                None => return Err(LimitedBy::Application),
            },
        })
    }

    fn idle_verdict(&mut self) -> LimitedBy {
        self.flight.rate.mark_app_limited(self.flight.in_flight());
        LimitedBy::Application
    }

    /// New data while there is some and the window is open, else the last number that the peer does not hold.
    fn take_tail_probe(&mut self) -> Option<usize> {
        if !std::mem::take(&mut self.probe_due) {
            return None;
        }
        if self.has_new() && self.is_in_window() {
            self.force = true;
            return None;
        }
        self.flight.last_unheld()
    }

    fn has_new(&self) -> bool {
        !self.queue.is_empty() || self.fin == Fin::Queued
    }

    /// [CDP-WND-6] no DAT at or after SND.EDGE; [CDP-WND-7] a FIN may take SND.EDGE itself.
    fn is_in_window(&self) -> bool {
        let nxt = self.nxt();
        if self.queue.is_empty() { nxt.is_at_or_before(self.edge) } else { nxt.is_before(self.edge) }
    }

    fn check_congestion(&mut self, now: Instant, timers: &mut Timers) -> Result<(), LimitedBy> {
        if self.force {
            return Ok(());
        }
        let verdict = if self.flight.has_lost() { LimitedBy::PathLoss } else { LimitedBy::CongestionWindow };
        if self.flight.in_flight() >= self.congestion.window() {
            self.was_limited = true;
            return Err(verdict);
        }
        if self.pacing
            && let Some(rate) = self.congestion.pacing_rate()
            && let Err(due) = self.pacer.poll(now, rate)
        {
            timers.set(Timer::Pace, due);
            return Err(verdict);
        }
        Ok(())
    }

    fn send_new(&mut self, now: Instant, timers: &mut Timers, stats: &mut Stats) -> Option<Numbered> {
        let seq = self.nxt();
        let (payload, eom, fin) = match self.queue.pop() {
            Some(outgoing) => (outgoing.payload, outgoing.eom, false),
            // [CDP-ST-28] what is queued first, then FIN with the next number
            None if self.fin == Fin::Queued => {
                self.fin = Fin::Sent;
                (Bytes::new(), false, true)
            }
            None => return None,
        };
        if self.flight.is_empty() {
            self.progress_at = now;
        }
        self.flight.push(now, payload.clone(), eom, fin);
        stats.numbers_sent += 1;
        stats.bytes_sent += payload.len() as u64;
        self.note_sent(now, false, timers);
        Some(Numbered { seq, payload, eom, fin, attempt: 0 })
    }

    fn resend(&mut self, now: Instant, at: usize, timers: &mut Timers, stats: &mut Stats) -> Numbered {
        let (seq, segment) = self.flight.resend(now, at);
        stats.retransmitted += 1;
        self.note_sent(now, at == 0, timers);
        // [CDP-SEQ-6] the same data segment and the same EOM
        Numbered {
            seq,
            payload: segment.payload,
            eom: segment.eom,
            fin: segment.fin,
            attempt: segment.transmissions - 1,
        }
    }

    fn note_sent(&mut self, now: Instant, oldest: bool, timers: &mut Timers) {
        self.pacer.sent(1);
        self.congestion.handle_sent(now, self.flight.in_flight(), self.queue.is_empty());
        self.rearm(now, oldest, timers);
    }

    /// Sets the retransmission timer and the tail probe; `restart` if the oldest number changed or went again.
    fn rearm(&mut self, now: Instant, restart: bool, timers: &mut Timers) {
        if self.flight.is_empty() {
            timers.stop(Timer::Retransmit);
            timers.stop(Timer::TailProbe);
            timers.stop(Timer::Reorder);
            return;
        }
        let due = now + self.rtt.rto();
        if restart {
            timers.set(Timer::Retransmit, due);
        } else {
            timers.set_if_stopped(Timer::Retransmit, due);
        }
        // [CDP-RTX-5] one tail probe after 2·SRTT, and a margin for the peer's delayed acknowledgement
        let probe = self.rtt.srtt().filter(|_| !self.probe_out && !self.flight.has_lost());
        match probe {
            Some(srtt) => timers.set(Timer::TailProbe, now + srtt * 2 + self.ack_delay * 3 / 2),
            None => timers.stop(Timer::TailProbe),
        }
    }
}
