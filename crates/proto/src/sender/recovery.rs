//! An acknowledgement comes in, or does not: what has arrived, what is lost, and what the controller is told.

use weft_base::Instant;

use super::{Acked, DUPLICATE_ACKS, Sender};
use crate::congestion::{self, Controller};
use crate::flight::{Losses, Progress};
use crate::stats::Stats;
use crate::timers::{Timer, Timers};

impl Sender {
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
        self.renew_pacing_rate();
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
        self.renew_pacing_rate();
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
        self.renew_pacing_rate();
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
}
