//! What goes next: a tail probe, a lost number, new data, the FIN.

use weft_base::Instant;

use super::{Fin, Numbered, Sender};
use crate::congestion::Controller;
use crate::queue::Outgoing;
use crate::stats::{LimitedBy, Stats};
use crate::timers::{Timer, Timers};

impl Sender {
    /// The next numbered packet that may go, or what holds the sender back. An answer is asked for where [`Sender::may_answer`]; no
    /// timer is set for it before the acknowledgement is read.
    pub(crate) fn poll(
        &mut self,
        now: Instant,
        is_answer: bool,
        timers: &mut Timers,
        stats: &mut Stats,
    ) -> Result<Numbered, LimitedBy> {
        let mut lost = None;
        if !is_answer {
            if let Some(at) = self.take_tail_probe() {
                return Ok(self.resend(now, at, timers, stats));
            }
            lost = self.flight.next_lost();
            if lost.is_none() && (!self.has_new() || self.is_corked()) {
                return Err(self.idle_verdict());
            }
            if lost.is_none() && !self.is_in_window() {
                return Err(LimitedBy::ReceiverWindow);
            }
            self.check_congestion(now, timers)?;
            self.force = self.force.saturating_sub(1);
        }
        Ok(match lost {
            Some(at) => self.resend(now, at, timers, stats),
            None => match self.send_new(now, is_answer, timers, stats) {
                Some(numbered) => numbered,
                None => return Err(LimitedBy::Application),
            },
        })
    }

    /// Whether new data may go as an answer, if there is some: before the acknowledgement of the only packet in flight is read, as if
    /// nothing were in flight.
    pub(crate) fn may_answer(&self) -> bool {
        self.flight.is_one()
            && !self.is_corked()
            && self.nxt().is_before(self.edge)
            && self.congestion.window() > 1
            && self.pacer.has_credit()
    }

    fn idle_verdict(&mut self) -> LimitedBy {
        let in_flight = self.flight.in_flight();
        if let Some(rate) = &mut self.flight.rate
            && in_flight < self.congestion.window()
        {
            rate.mark_app_limited(in_flight);
        }
        LimitedBy::Application
    }

    /// New data while there is some and the window is open, else a number that the peer does not hold; that at once where it
    /// can go by another path than the one that is silent.
    fn take_tail_probe(&mut self) -> Option<usize> {
        if !std::mem::take(&mut self.probe_due) {
            return None;
        }
        if !self.flight.paths().are_several() && self.has_new() && !self.is_corked() && self.is_in_window() {
            self.force = 1;
            return None;
        }
        self.flight.tail()
    }

    fn has_new(&self) -> bool {
        !self.queue.is_empty() || self.is_fin_next()
    }

    /// [CDP-ST-28] What is queued goes first, the rest of a message that is still to come included.
    fn is_fin_next(&self) -> bool {
        self.fin == Fin::Queued && !self.queue.is_mid_message()
    }

    /// Whether new data waits for more of it.
    fn is_corked(&self) -> bool {
        self.is_corked && self.fin != Fin::Queued
    }

    /// [CDP-WND-6] no DAT at or after SND.EDGE; [CDP-WND-7] a FIN may take SND.EDGE itself.
    fn is_in_window(&self) -> bool {
        let nxt = self.nxt();
        if self.queue.is_empty() { nxt.is_at_or_before(self.edge) } else { nxt.is_before(self.edge) }
    }

    fn check_congestion(&mut self, now: Instant, timers: &mut Timers) -> Result<(), LimitedBy> {
        if self.force > 0 {
            return Ok(());
        }
        let is_repairing = self.flight.has_lost() || self.doubt.is_some();
        let verdict = if is_repairing { LimitedBy::PathLoss } else { LimitedBy::CongestionWindow };
        if self.doubt.is_some() {
            return Err(verdict);
        }
        if self.flight.in_flight() >= self.congestion.window() {
            self.was_limited = true;
            return Err(verdict);
        }
        if self.has_near_share() {
            return Err(verdict);
        }
        // What goes alone waits for nobody, as long as the bucket is known to hold a packet. A repair does not wait for that
        // either: it gives no sample (CDP-RTX-3), so what paces may be the round trip of an outage long over.
        if self.flight.in_flight() == 0
            && (self.flight.has_lost() || self.flight.is_empty() && self.pacer.has_credit())
        {
            return Ok(());
        }
        if let Some(rate) = self.pacing_rate()
            && let Err(due) = self.pacer.poll(now, rate)
        {
            self.was_limited = true;
            timers.set(Timer::Pace, due);
            return Err(verdict);
        }
        Ok(())
    }

    /// What the controller wants, with all that it has learnt.
    fn pacing_rate(&mut self) -> Option<u64> {
        if std::mem::take(&mut self.is_pacing_rate_old) {
            self.pacing_rate = self.congestion.pacing_rate();
        }
        self.pacing_rate
    }

    /// The controller has learnt something.
    pub(super) fn renew_pacing_rate(&mut self) {
        self.is_pacing_rate_old = self.pacing;
    }

    fn send_new(
        &mut self,
        now: Instant,
        is_answer: bool,
        timers: &mut Timers,
        stats: &mut Stats,
    ) -> Option<Numbered> {
        let seq = self.nxt();
        let (Outgoing { piece, eom, sum }, fin) = match self.queue.pop() {
            Some(outgoing) => (outgoing, false),
            // [CDP-ST-28] with the next number
            None if self.is_fin_next() => {
                self.fin = Fin::Sent;
                (Outgoing::new(self.queue.nothing(), false), true)
            }
            None => return None,
        };
        if self.flight.is_empty() {
            self.progress_at = now;
        }
        stats.numbers_sent += 1;
        stats.bytes_sent += piece.len() as u64;
        let at = self.flight.len();
        self.flight.push(now, piece, eom, fin);
        self.note_sent(now, 1);
        if !is_answer {
            self.rearm(now, false, timers);
        }
        let path = self.flight.paths().default_path();
        Some(Numbered { seq, at, eom, fin, sum, attempt: 0, path })
    }

    /// `count` packets of new data leave at once behind `last`, which was sent just now, and are like it.
    pub(crate) fn note_alike(
        &mut self,
        now: Instant,
        last: Outgoing,
        count: u32,
        timers: &mut Timers,
        stats: &mut Stats,
    ) {
        stats.numbers_sent += u64::from(count);
        stats.bytes_sent += u64::from(count) * last.piece.len() as u64;
        self.flight.push_alike(now, last, count);
        self.note_sent(now, count);
        self.rearm(now, false, timers);
    }

    /// Packets of new data that may leave at once, whatever there is. What holds back more is for [`Sender::poll`] to say.
    pub(crate) fn room(&mut self, now: Instant) -> u32 {
        if self.force > 0 || self.doubt.is_some() || self.flight.has_lost() || self.is_near() {
            return 0;
        }
        let slots = if self.nxt().is_before(self.edge) { self.edge.distance_from(self.nxt()) } else { 0 };
        let slots = u32::try_from(slots).unwrap_or(u32::MAX);
        let window = self.congestion.window().saturating_sub(self.flight.in_flight());
        let credit = match self.pacing_rate() {
            Some(rate) => self.pacer.poll(now, rate).unwrap_or(0),
            None => u32::MAX,
        };
        slots.min(window).min(credit)
    }

    fn resend(&mut self, now: Instant, at: usize, timers: &mut Timers, stats: &mut Stats) -> Numbered {
        let (seq, segment) = self.flight.resend(now, at);
        stats.retransmitted += 1;
        // [CDP-SEQ-6] the same data segment and the same EOM
        let numbered = Numbered {
            seq,
            at,
            eom: segment.eom,
            fin: segment.fin,
            sum: None,
            attempt: u32::from(segment.transmissions) - 1,
            path: segment.way.last(),
        };
        self.note_sent(now, 1);
        self.rearm(now, at == 0, timers);
        numbered
    }

    fn note_sent(&mut self, now: Instant, packets: u32) {
        self.pacer.sent(packets);
        self.congestion.handle_sent(now, self.flight.in_flight(), self.queue.is_empty());
        if self.flight.in_flight() == 1 {
            // it may have noticed a pause
            self.renew_pacing_rate();
        }
    }

    /// Some time has passed: memory that was kept for more goes if nothing is in flight.
    pub(crate) fn rest_longer(&mut self) {
        if self.flight.is_empty() {
            self.queue.rest_longer();
        }
    }

    /// Sets the retransmission timer and the tail probe; `restart` if the oldest number changed or went again.
    pub(super) fn rearm(&mut self, now: Instant, restart: bool, timers: &mut Timers) {
        if self.flight.is_empty() {
            self.queue.rest();
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
        // [CDP-RTX-5] one tail probe
        let may_probe = !self.probe_out && self.doubt.is_none() && !self.flight.has_lost();
        let wait = if may_probe { self.rtt.probe(self.flight.in_flight() == 1) } else { None };
        match wait {
            Some(wait) => timers.set(Timer::TailProbe, now + wait),
            None => timers.stop(Timer::TailProbe),
        }
    }
}
