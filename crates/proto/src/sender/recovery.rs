//! An acknowledgement comes in, or does not: what has arrived, what is lost, and what the controller is told.

use std::time::Duration;

use weft_base::Instant;

use super::{Acked, DUPLICATE_ACKS, Reaction, Recovery, Sender};
use crate::config::Config;
use crate::congestion::{self, Controller};
use crate::flight::{Losses, Progress};
use crate::stats::Stats;
use crate::timers::{Timer, Timers};

/// What a time-out was about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// What is in flight and was sent before this moment is lost.
    Lost { sent_before: Instant },
    /// It was on its way.
    Late,
}

impl Sender {
    pub(crate) fn handle_ack(
        &mut self,
        now: Instant,
        acked: &Acked<'_>,
        timers: &mut Timers,
        stats: &mut Stats,
    ) -> Progress {
        let came_at = acked.came_at;
        let min_rtt = self.rtt.min_rtt();
        let edge_before = self.edge;
        self.end_reaction();
        self.flight.set_heard_by(acked.by);
        self.flight.note_far(acked.far_sack);
        let mut progress = self.flight.acknowledge(came_at, acked.full, min_rtt);
        if progress.acked > 0 {
            self.queue.release(self.flight.oldest().map(|segment| segment.piece));
        }
        self.raise_edge(acked.full + acked.window);
        if let Some(sack) = acked.sack {
            self.flight.mark_held(came_at, 0, sack.words(), min_rtt, &mut progress);
        }
        if let Some(piece) = acked.far_sack {
            self.flight.mark_held(came_at, piece.offset(), piece.words(), min_rtt, &mut progress);
        }
        if acked.is_report {
            self.rtt.has_answers &= !self.flight.is_empty();
            self.flight.set_named(acked.far_sack);
        }
        self.measure(now, came_at, min_rtt, &progress);
        let verdict = self.judge_timeout(&progress);
        let moved = progress.acked > 0;
        if moved {
            self.progress_at = now;
            self.probe_out = false;
        }
        let is_duplicate =
            !moved && acked.may_be_duplicate && edge_before == self.edge && !self.flight.is_empty();
        let mut lost = self.detect_losses(came_at, timers);
        if !self.flight.has_sack() {
            lost.add(self.count_duplicates(moved, is_duplicate));
        }
        if let Some(Verdict::Lost { sent_before }) = verdict {
            lost.add(self.flight.declare_lost_before(sent_before));
        }
        if self.flight.tallies.is_some() {
            self.flight.settle();
        }
        self.go_on_repairing(&progress);
        let is_timeout = matches!(verdict, Some(Verdict::Lost { .. }));
        self.tell_controller(came_at, &progress, lost, is_timeout, acked.ece);
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
            // with SACK a hole is found by what is held after it: the time-out is for a path that is silent
            self.rearm(now, moved || self.flight.has_sack(), timers);
        }
        progress
    }

    /// What no bitmap can name counts as in flight, although it may have arrived. So that it does not keep lost numbers from
    /// being sent again, each that arrives lets two of them go, whatever the window (RFC 6937, slow start reduction bound).
    fn go_on_repairing(&mut self, progress: &Progress) {
        if progress.delivered > 0 && self.flight.is_partly_unknown() {
            self.force = self.force.max(progress.delivered.saturating_add(1).min(self.flight.lost()));
        }
    }

    /// [CDP-RTX-4] A fresh sample ends the back-off; an ACK that moves SND.UNA without one divides it by four.
    /// An acknowledgement that is read later than it came was stamped before anybody looked for it, and so perhaps long before: where
    /// that would make the round trip the least ever, it is taken to have come when it is read.
    fn measure(&mut self, now: Instant, came_at: Instant, min_rtt: Option<Duration>, progress: &Progress) {
        match progress.rtt {
            Some(rtt) => {
                self.was_late = false;
                let is_least = min_rtt.is_some_and(|least| rtt < least);
                self.rtt.sample(came_at, if is_least { rtt + (now - came_at) } else { rtt });
            }
            None if progress.acked > 0 => self.rtt.ease(),
            None => {}
        }
    }

    /// [CDP-RTX-6] What an acknowledgement says of a time-out before it (RFC 5682, F-RTO): one that brings only what was
    /// sent since shows that what was sent before is lost; with any other it was late.
    fn judge_timeout(&mut self, progress: &Progress) -> Option<Verdict> {
        let verdict = match self.doubt.filter(|_| progress.delivered > 0) {
            Some(_) if progress.is_from_first => Some(Verdict::Late),
            Some(sent_before) => Some(Verdict::Lost { sent_before }),
            None => None,
        };
        if progress.delivered > 0 {
            self.doubt = None;
        }
        self.was_late |= verdict == Some(Verdict::Late) || progress.spurious > 0;
        if verdict != Some(Verdict::Late) {
            self.flight.trust_repeated(progress);
        }
        verdict
    }

    fn detect_losses(&mut self, now: Instant, timers: &mut Timers) -> Losses {
        let losses = self.flight.detect_losses(now, &self.rtt);
        match losses.next {
            Some(due) => timers.set(Timer::Reorder, due),
            None => timers.stop(Timer::Reorder),
        }
        losses
    }

    /// Without SACK: three duplicates declare a number lost, and after them each partial acknowledgement of what was sent by then
    /// (RFC 6582).
    fn count_duplicates(&mut self, moved: bool, is_duplicate: bool) -> Losses {
        if moved {
            self.duplicate_acks = 0;
            if let Recovery::UpTo(end) | Recovery::TimedOut(end) = self.recovery
                && end.is_at_or_before(self.una())
            {
                self.recovery = Recovery::No;
            }
        }
        self.duplicate_acks += u32::from(is_duplicate);
        let is_third =
            is_duplicate && self.duplicate_acks == DUPLICATE_ACKS && matches!(self.recovery, Recovery::No);
        if is_third {
            self.recovery = Recovery::UpTo(self.nxt());
        }
        if is_third || (moved && matches!(self.recovery, Recovery::UpTo(_))) {
            return self.flight.declare_first_lost(1);
        }
        Losses::default()
    }

    fn tell_controller(
        &mut self,
        now: Instant,
        progress: &Progress,
        losses: Losses,
        is_timeout: bool,
        ece: bool,
    ) {
        // [CDP-IO-9] what other paths bring says nothing of this one
        if progress.on_path > 0 {
            let min_rtt = self.rtt.min_rtt();
            self.congestion.handle_ack(&congestion::Ack {
                now,
                newly_acked: progress.on_path,
                in_flight: self.flight.in_flight(),
                sent_at: progress.sent_at,
                rtt: progress.rtt,
                min_rtt,
                srtt: self.rtt.srtt(),
                delivery: self.flight.rate.as_mut().and_then(|rate| rate.take_sample(min_rtt)),
                is_window_limited: self.was_limited,
            });
            self.was_limited = false;
        }
        self.take_back(now, progress.spurious);
        self.tell_loss(now, losses, is_timeout);
        if ece {
            self.handle_ecn(now);
        }
    }

    /// [CDP-CC-5] The path has marked a packet: as one loss, at most once per round trip.
    pub(crate) fn handle_ecn(&mut self, now: Instant) {
        if self.ecn_recover.is_at_or_before(self.una()) {
            self.congestion.handle_ecn(now, self.flight.newest_sent_at());
            self.ecn_recover = self.nxt();
        }
    }

    /// What was sent by the controller's last answer to losses has been acknowledged: what proves an error from now on was none of these.
    fn end_reaction(&mut self) {
        if self.reaction.lost > 0 && self.reaction.until.is_at_or_before(self.una()) {
            (self.reaction.lost, self.reaction.refuted) = (0, 0);
        }
    }

    /// The controller's answer to losses is an error when none of them was one.
    fn take_back(&mut self, now: Instant, spurious: u32) {
        if spurious == 0 || self.reaction.lost == 0 {
            return;
        }
        self.reaction.refuted += spurious;
        if self.reaction.refuted >= self.reaction.lost {
            self.reaction = Reaction { until: self.una(), lost: 0, refuted: 0 };
            self.congestion.handle_spurious(now);
        }
    }

    fn tell_loss(&mut self, now: Instant, losses: Losses, is_timeout: bool) {
        // [CDP-IO-9] what other paths lose is no congestion of this one
        let is_elsewhere = losses.count > 0 && losses.on_path == 0;
        if is_elsewhere || (losses.count == 0 && !is_timeout) {
            return;
        }
        if self.reaction.until.is_at_or_before(self.una()) {
            self.reaction = Reaction { until: self.nxt(), lost: 0, refuted: 0 };
        }
        self.reaction.lost += losses.on_path;
        self.congestion.handle_loss(&congestion::Loss {
            now,
            lost: losses.on_path,
            in_flight: self.flight.in_flight(),
            largest_sent_at: losses.sent_at,
            is_timeout,
        });
    }

    /// The reorder timer: numbers that were only late are lost now.
    pub(crate) fn handle_reorder_timeout(&mut self, now: Instant, timers: &mut Timers, stats: &mut Stats) {
        let losses = self.detect_losses(now, timers);
        self.flight.settle();
        stats.lost += u64::from(losses.count);
        self.tell_loss(now, losses, false);
        self.renew_pacing_rate();
    }

    /// The peer has what is repeated, and says so without acknowledging it (CDP-ST-F): R2 begins anew.
    pub(crate) fn note_answered(&mut self, now: Instant) {
        self.progress_at = now;
    }

    /// The retransmission time-out; `Err` when the peer is given up (R2). `token` is one for a PIN.
    pub(crate) fn handle_timeout(
        &mut self,
        now: Instant,
        config: &Config,
        token: u32,
        timers: &mut Timers,
        stats: &mut Stats,
    ) -> Result<(), ()> {
        if self.is_probe_better(timers) {
            self.handle_tail_timeout(now, timers, stats);
            return Ok(());
        }
        let Some(oldest) = self.flight.oldest() else { return Ok(()) };
        // [CDP-IO-3] no doubling until each member has been tried
        let has_tried_all = oldest.way.has_tried_all(self.flight.paths());
        // [CDP-TMR-2] not before both the time and the number of tries have passed
        if u32::from(oldest.transmissions) >= config.give_up_tries
            && now - self.progress_at >= config.give_up_time
        {
            return Err(());
        }
        stats.timeouts += 1;
        if std::mem::take(&mut self.was_late) {
            // What was late should have come by now. Answers that seem to be of first transmissions may be quick since the
            // path has become so, and then each time-out would repair one number and find itself in error again.
            self.rtt.forget_least();
        }
        if oldest.piece.len() > self.mtu.large()
            && let Some(mss) = self.mtu.handle_large_loss(token)
        {
            self.set_mss(mss);
            if config.probe_mtu {
                // what lies between is found by probes
                timers.set(Timer::Mtu, now + self.rtt.rto());
            }
        }
        // [CDP-RTX-1] sent again until it is acknowledged; what becomes of the others the answer to it shows
        // two at a time when the first went unanswered, so that a path that loses much is not left for a loss or two
        let has_sack = self.flight.has_sack();
        let count = if self.doubt.is_some() { 2 } else { 1 };
        let losses = self.flight.declare_first_lost(if has_sack { count } else { usize::MAX });
        stats.lost += u64::from(losses.count);
        // behind a full bitmap nothing is heard of the others, although the path need not be silent
        if has_sack && !self.flight.is_beyond_bitmap() {
            self.doubt = self.doubt.or(Some(now));
            self.force = losses.count.max(1);
        } else {
            self.tell_loss(now, losses, !has_sack);
            self.renew_pacing_rate();
            self.force = 1;
        }
        if has_tried_all {
            self.rtt.back_off();
        }
        self.probe_due = false;
        self.duplicate_acks = 0;
        if !has_sack {
            self.recovery = Recovery::TimedOut(self.nxt());
        }
        timers.stop(Timer::TailProbe);
        timers.stop(Timer::Reorder);
        timers.set(Timer::Retransmit, now + self.rtt.rto());
        Ok(())
    }

    /// Whether the tail probe takes the place of a time-out that comes before it: its answer, with SACK, shows what
    /// is lost as well as a time-out does, and costs nothing where the peer was only away (RFC 8985, section 7.2).
    fn is_probe_better(&self, timers: &Timers) -> bool {
        timers.is_set(Timer::TailProbe) && self.flight.has_sack() && !self.flight.has_held()
    }

    /// [CDP-RTX-5] A tail probe; the time-out is counted from it.
    pub(crate) fn handle_tail_timeout(&mut self, now: Instant, timers: &mut Timers, stats: &mut Stats) {
        timers.stop(Timer::TailProbe);
        if !self.flight.is_empty() {
            stats.tail_probes += 1;
            self.probe_due = true;
            self.probe_out = true;
            timers.set(Timer::Retransmit, now + self.rtt.rto());
        }
    }
}
