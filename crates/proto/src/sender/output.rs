//! What goes next: a tail probe, a lost number, new data, the FIN.

use weft_base::Instant;

use super::{Fin, Numbered, Sender};
use crate::congestion::Controller;
use crate::stats::{LimitedBy, Stats};
use crate::timers::{Timer, Timers};

impl Sender {
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
        if lost.is_none() && (!self.has_new() || self.is_corked()) {
            return Err(self.idle_verdict());
        }
        if lost.is_none() && !self.is_in_window() {
            return Err(LimitedBy::ReceiverWindow);
        }
        self.check_congestion(now, timers)?;
        self.force = self.force.saturating_sub(1);
        Ok(match lost {
            Some(at) => self.resend(now, at, timers, stats),
            None => match self.send_new(now, timers, stats) {
                Some(numbered) => numbered,
                None => return Err(LimitedBy::Application),
            },
        })
    }

    /// New data that answers what acknowledges the only packet in flight, before that acknowledgement is read; no timer is set
    /// for it before then. `None` where it may not go as if nothing were in flight.
    pub(crate) fn poll_answer(&mut self, now: Instant, stats: &mut Stats) -> Option<Numbered> {
        let may_go = self.flight.is_one()
            && !self.queue.is_empty()
            && !self.is_corked()
            && self.is_in_window()
            && self.congestion.window() > 1
            && self.pacer.has_credit();
        if !may_go {
            return None;
        }
        let numbered = self.push_new(now, stats)?;
        self.count_sent(now);
        Some(numbered)
    }

    fn idle_verdict(&mut self) -> LimitedBy {
        let in_flight = self.flight.in_flight();
        if in_flight < self.congestion.window() {
            self.flight.rate.mark_app_limited(in_flight);
        }
        LimitedBy::Application
    }

    /// New data while there is some and the window is open, else a number that the peer does not hold; that at once where it
    /// can go by another path than the one that is silent.
    fn take_tail_probe(&mut self) -> Option<usize> {
        if !std::mem::take(&mut self.probe_due) {
            return None;
        }
        if !self.flight.paths().are_several() && self.has_new() && self.is_in_window() {
            self.force = 1;
            return None;
        }
        self.flight.tail()
    }

    fn has_new(&self) -> bool {
        !self.queue.is_empty() || self.fin == Fin::Queued
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
        // what goes alone waits for nobody, as long as the bucket is known to hold a packet
        if self.flight.is_empty() && self.pacer.has_credit() {
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

    fn send_new(&mut self, now: Instant, timers: &mut Timers, stats: &mut Stats) -> Option<Numbered> {
        let numbered = self.push_new(now, stats)?;
        self.note_sent(now, false, timers);
        Some(numbered)
    }

    /// Gives the next number to what waits.
    fn push_new(&mut self, now: Instant, stats: &mut Stats) -> Option<Numbered> {
        let seq = self.nxt();
        let (piece, eom, fin) = match self.queue.pop() {
            Some(outgoing) => (outgoing.piece, outgoing.eom, false),
            // [CDP-ST-28] what is queued first, then FIN with the next number
            None if self.fin == Fin::Queued => {
                self.fin = Fin::Sent;
                (self.queue.nothing(), false, true)
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
        let path = self.flight.paths().default_path();
        Some(Numbered { seq, at, eom, fin, attempt: 0, path })
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
            attempt: u32::from(segment.transmissions) - 1,
            path: segment.way.last(),
        };
        self.note_sent(now, at == 0, timers);
        numbered
    }

    fn note_sent(&mut self, now: Instant, oldest: bool, timers: &mut Timers) {
        self.count_sent(now);
        self.rearm(now, oldest, timers);
    }

    fn count_sent(&mut self, now: Instant) {
        self.pacer.sent(1);
        self.congestion.handle_sent(now, self.flight.in_flight(), self.queue.is_empty());
        if self.flight.in_flight() == 1 {
            // it may have noticed a pause
            self.renew_pacing_rate();
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
