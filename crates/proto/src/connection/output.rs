//! What goes out: an ordered list of producers, each asked "is anything due?".

use std::time::Duration;

use weft_base::Instant;
use weft_wire::emit::{echo_reset, emit_control};
use weft_wire::{Emit, FarSack, Grease, HEADER_LEN, Header, Kind, Reason, Sack, Time, Tlvs};

use super::transmit::{Lay, Transmit, control_packet};
use super::{Connection, Control};
use crate::lifecycle::State;
use crate::open;
use crate::receiver::AckDue;
use crate::stats::LimitedBy;
use crate::timers::Timer;

impl Connection {
    /// The next packet; its head is appended to `head`. `None` when nothing may go now.
    pub fn poll_transmit(&mut self, now: Instant, head: &mut Vec<u8>) -> Option<Transmit> {
        self.poll_packet(now, head, Lay::There)
    }

    /// As [`Connection::poll_transmit`], but what leaves for the first time is not copied: [`Connection::frame`] tells where it
    /// lies. Packets that follow each other lie end to end there; those of one size come together, up to `room` bytes, or one.
    pub fn poll_transmit_in_place(
        &mut self,
        now: Instant,
        head: &mut Vec<u8>,
        room: usize,
    ) -> Option<Transmit> {
        self.poll_packet(now, head, Lay::Here(room))
    }

    fn poll_packet(&mut self, now: Instant, head: &mut Vec<u8>, lay: Lay) -> Option<Transmit> {
        let is_answer = self.may_answer(now);
        if !is_answer {
            self.read_ack(now);
            if self.may_have_news() {
                let news = self.transmit_news(now, head);
                // Without a state that is shared there is nothing else to send.
                if news.is_some() || !self.state.is_synchronized() {
                    return news;
                }
            }
            if self.receiver.ack_due() >= AckDue::Soon
                && self.must_acknowledge(now)
                && let Some(feedback) = self.transmit_feedback(now, head)
            {
                return Some(feedback);
            }
        }
        if let Some(numbered) = self.next_number(now, is_answer) {
            return Some(self.transmit_number(now, numbered, head, lay));
        }
        let last = self.transmit_ack(now, head);
        if last.is_none() {
            self.settle(now);
        }
        last
    }

    /// Whether there may be something to send besides data and its acknowledgement, which is seldom.
    #[inline]
    pub(super) fn may_have_news(&self) -> bool {
        let Control { open, challenge, pin, .. } = self.control;
        !self.state.is_synchronized()
            || open | challenge | pin
            || self.control.echo.is_some()
            || self.cookie.is_some()
            || self.probes.is_some()
            || self.sender.mtu.may_have_news()
    }

    /// What comes before data and its acknowledgement.
    fn transmit_news(&mut self, now: Instant, head: &mut Vec<u8>) -> Option<Transmit> {
        if self.state == State::Closed {
            return self.transmit_last_words(head);
        }
        if let Some((packet, reason, detail)) = self.control.echo.take().map(|echo| *echo) {
            return transmit_echo_reset(head, &packet, reason, detail, self.answer_path());
        }
        if !self.state.is_synchronized() {
            return std::mem::take(&mut self.control.open).then(|| self.transmit_open(now, head));
        }
        if self.probes.is_some()
            && let Some(probe) = self.transmit_path_probe(head)
        {
            return Some(probe);
        }
        self.transmit_cookie(now, head)
            .or_else(|| self.transmit_mtu_probe(now, head))
            .or_else(|| self.transmit_pin(now, head))
            .or_else(|| self.transmit_challenge(now, head))
    }

    /// RST|ACK or the refusal of a SYN|ACK, and then nothing.
    fn transmit_last_words(&mut self, head: &mut Vec<u8>) -> Option<Transmit> {
        if let Some((packet, reason, detail)) = self.control.echo.take().map(|echo| *echo) {
            return transmit_echo_reset(head, &packet, reason, detail, self.answer_path());
        }
        let reason = self.control.reset.take()?;
        // [CDP-RST-1] RST|ACK, sealed as agreed, SEQ = SND.NXT, with REASON
        let tlvs = Tlvs { reason: Some((reason, None)), discarded: self.told_discarded(), ..Tlvs::default() };
        let path = self.answer_path();
        Some(self.transmit_control(Kind::Reset, &tlvs, head, path))
    }

    /// SYN, or SYN|ACK.
    fn transmit_open(&mut self, now: Instant, head: &mut Vec<u8>) -> Transmit {
        let is_syn = self.state == State::SynSent;
        self.open_tries = self.open_tries.saturating_add(1);
        self.sent_at = now;
        let path = if self.active {
            // [CDP-IO-3] no doubling until each member has been tried
            let rounds = (u32::from(self.open_tries) + 1).saturating_sub(self.paths().count().into());
            let wait = doubled(self.config.rto_init, rounds, self.config.rto_max);
            // [CDP-CKE-4] a passive end repeats SYN|ACK only in answer to a SYN
            self.timers.set(Timer::Syn, now + wait);
            self.open_way.advance(self.sender.flight.paths())
        } else {
            // it answers a SYN, whose sender goes around
            self.answer_path()
        };
        let kind = if is_syn { Kind::Syn } else { Kind::SynAck };
        let mut header = Header::new(kind, self.flow);
        // [CDP-SEQ-5] the SYN takes ISS
        header.seq = self.iss;
        header.rtx = self.open_tries > 1;
        // [CDP-SYN-9] not scaled
        header.window = u16::try_from(self.config.receive_slots).unwrap_or(u16::MAX);
        let (tlvs, options) = if is_syn {
            // [CDP-TLV-9] one TLV that nobody knows
            let grease = Some(Grease::random(self.jitter.next()));
            (open::offer(&self.config), Emit { grease, ..Emit::default() })
        } else {
            header.ack = (self.irs + 1).low32();
            (
                open::answer(&self.config, &self.agreed),
                Emit { max_len: Some(self.syn_len), ..Emit::default() },
            )
        };
        let start = head.len();
        emit_control(head, &header, &tlvs, &options);
        self.stats.packets_sent += 1;
        control_packet(start..head.len(), path)
    }

    /// [CDP-CKE-9] Until the COOKIE may be forgotten nothing but cookie echoes is sent.
    fn transmit_cookie(&mut self, now: Instant, head: &mut Vec<u8>) -> Option<Transmit> {
        self.cookie.as_ref()?;
        let due = self.receiver.ack_due() != AckDue::No || std::mem::take(&mut self.control.challenge);
        let path = match self.open_tries {
            0 => self.answer_path(),
            tries => self.asking_path(tries.into()),
        };
        due.then(|| Transmit { path, ..self.transmit_pure_ack(now, head) })
    }

    fn transmit_mtu_probe(&mut self, now: Instant, head: &mut Vec<u8>) -> Option<Transmit> {
        // one may be lost by what it is for, and a mark with it
        if self.cookie.is_some() || !self.heard || self.receiver.owes_echo() {
            return None;
        }
        let may_ask = matches!(self.state, State::Established | State::FinWait);
        let question = if may_ask { self.sender.mtu.take_question() } else { None };
        let (size, own) = match question {
            Some(own) => (0, own),
            None if self.state == State::Established => {
                let probe = self.sender.mtu.take_probe()?;
                self.timers.set(Timer::Mtu, now + self.sender.rtt.rto());
                probe
            }
            None => return None,
        };
        // [CDP-MTU-2] a PIN|ACK padded to the size, with a TIME token; [CDP-MTU-5] not padded where it asks for small ones
        let discarded = self.told_discarded();
        let tlvs = Tlvs { time: Some(Time { own, echoed: 0 }), discarded, ..Tlvs::default() };
        let pad_to = u16::try_from(HEADER_LEN + usize::from(size)).unwrap_or(u16::MAX);
        let start = head.len();
        let header = self.header(Kind::Pin);
        emit_control(head, &header, &tlvs, &Emit { pad_to, ..Emit::sealed(self.agreed.sealed) });
        self.stats.packets_sent += 1;
        // one that is lost says that the path does not carry it, not that the peer is silent
        self.stats.pins_sent += 1;
        self.sent_at = now;
        Some(control_packet(start..head.len(), self.paths().default_path()))
    }

    fn transmit_pin(&mut self, now: Instant, head: &mut Vec<u8>) -> Option<Transmit> {
        if self.cookie.is_some() || !std::mem::take(&mut self.control.pin) {
            return None;
        }
        let (sack, far_sack) = self.told_sack();
        let tlvs = Tlvs { discarded: self.told_discarded(), sack, far_sack, ..Tlvs::default() };
        // [CDP-ST-F] in CLOSE_WAIT it answers a FIN; else it asks, and goes around until it is answered
        let path = if self.state == State::CloseWait {
            self.answer_path()
        } else {
            self.asking_path(self.unanswered.count)
        };
        let transmit = self.transmit_control(Kind::Pin, &tlvs, head, path);
        self.note_pin(now);
        Some(transmit)
    }

    fn note_pin(&mut self, now: Instant) {
        self.stats.pins_sent += 1;
        self.sent_at = now;
        self.unanswered.note(now);
        if self.active && self.state == State::Established {
            // [CDP-KA-4] counted from the first PIN without an answer
            self.timers
                .set_if_stopped(Timer::Expiry, self.unanswered.first_at + self.agreed.keep_alive.expiry());
        }
    }

    fn transmit_challenge(&mut self, now: Instant, head: &mut Vec<u8>) -> Option<Transmit> {
        std::mem::take(&mut self.control.challenge).then(|| self.transmit_pure_ack(now, head))
    }

    /// An acknowledgement that a DAT packet cannot carry, as it needs TLVs.
    fn transmit_feedback(&mut self, now: Instant, head: &mut Vec<u8>) -> Option<Transmit> {
        let needs_tlvs = self.control.owes_echo()
            || self.receiver.is_holding()
            || self.receiver.ce_count() != self.told_ce
            || self.told_discarded().is_some();
        needs_tlvs.then(|| self.transmit_pure_ack(now, head))
    }

    fn transmit_ack(&mut self, now: Instant, head: &mut Vec<u8>) -> Option<Transmit> {
        (self.receiver.ack_due() == AckDue::Now).then(|| self.transmit_pure_ack(now, head))
    }

    fn transmit_pure_ack(&mut self, now: Instant, head: &mut Vec<u8>) -> Transmit {
        // [CDP-IO-6] the answer to a probe comes back by the path that it was sent by
        let (echoed, path) = self.control.take_echo().unwrap_or_else(|| (0, self.answer_path()));
        self.told_ce = self.receiver.ce_count();
        let mut header = self.header(Kind::Ack);
        self.note_acknowledgement();
        header.ece = self.receiver.acknowledged() && self.cookie.is_none();
        let (sack, far_sack) = self.told_sack();
        let tlvs = Tlvs {
            cookie: self.cookie.as_deref().cloned(),
            sack,
            far_sack,
            time: (echoed != 0).then_some(Time { own: 0, echoed }),
            ce_count: (self.told_ce > 0).then_some(self.told_ce),
            discarded: self.told_discarded(),
            ..Tlvs::default()
        };
        self.timers.stop(Timer::Ack);
        if self.control.owes_echo() {
            self.receiver.request_ack();
        }
        self.sent_at = now;
        self.stats.acks_sent += 1;
        let start = head.len();
        emit_control(head, &header, &tlvs, &Emit::sealed(self.agreed.sealed));
        self.stats.packets_sent += 1;
        control_packet(start..head.len(), path)
    }

    fn transmit_control(&mut self, kind: Kind, tlvs: &Tlvs, head: &mut Vec<u8>, path: u8) -> Transmit {
        let start = head.len();
        let header = self.header(kind);
        emit_control(head, &header, tlvs, &Emit::sealed(self.agreed.sealed));
        self.stats.packets_sent += 1;
        control_packet(start..head.len(), path)
    }

    /// [CDP-HDR-12] SEQ is SND.NXT; [CDP-HDR-14] with ACK=1 low32(RCV.NXT) and the present window.
    pub(super) fn header(&mut self, kind: Kind) -> Header {
        let mut header = Header::new(kind, self.flow);
        header.seq = self.sender.nxt();
        // [CDP-WND-1] the window counts from the ACK number, also where that holds a FIN back
        let acknowledged = self.receiver.ack_number(self.held_fin);
        header.window = self.receiver.grant(acknowledged);
        header.ack = acknowledged.low32();
        // [CDP-CC-4] a probe may go before the acknowledgement that is due
        header.ece = kind == Kind::Pin && self.receiver.take_echo();
        header
    }

    /// [CDP-SACK-2] [CDP-SACK-6] while numbers after RCV.NXT are held, if the peer sent SACKOK.
    fn told_sack(&mut self) -> (Option<Sack>, Option<FarSack>) {
        if self.agreed.peer_sack && self.receiver.is_holding() {
            (self.receiver.sack(), self.receiver.far_sack())
        } else {
            (None, None)
        }
    }

    /// [CDP-ST-D] In FIN_WAIT, QUIET and CLOSE_WAIT discarded packets are told.
    pub(super) fn told_discarded(&self) -> Option<u32> {
        let discarded = self.receiver.discarded();
        (discarded > 0 && self.state != State::Established).then_some(discarded)
    }

    pub(super) fn note_verdict(&mut self, now: Instant, verdict: LimitedBy) {
        self.verdicts.enter(now, verdict, &mut self.stats);
    }

    /// Nothing may go now: arm what watches over that.
    fn settle(&mut self, now: Instant) {
        if self.receiver.ack_due() == AckDue::Later {
            self.timers.set_if_stopped(Timer::Ack, now + self.config.ack_delay);
        }
        if self.sender.is_stuck() {
            let wait = doubled(self.sender.rtt.rto(), u32::from(self.persist_tries) + 1, self.config.rto_max);
            self.timers.set_if_stopped(Timer::Persist, now + wait);
        }
        if let Some(patience) = self.config.no_progress
            && self.sender.is_window_closed()
        {
            self.timers.set_if_stopped(Timer::NoProgress, now + patience);
        }
    }
}

/// `base` doubled after each try but the first, up to `most`.
pub(super) fn doubled(base: Duration, tries: u32, most: Duration) -> Duration {
    base.saturating_mul(1 << tries.saturating_sub(1).min(20)).min(most.max(base))
}

fn transmit_echo_reset(
    head: &mut Vec<u8>,
    packet: &weft_wire::Packet,
    reason: Reason,
    detail: Option<u16>,
    path: u8,
) -> Option<Transmit> {
    let start = head.len();
    echo_reset(head, packet, reason, detail)
        .then(|| Transmit { is_echo_reset: true, ..control_packet(start..head.len(), path) })
}
