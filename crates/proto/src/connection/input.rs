//! A packet comes in: check, table, act (section 10.1, rows 21 to 50).

use bytes::Bytes;
use weft_base::Instant;
use weft_wire::ack::{Acknowledgement, rebuild};
use weft_wire::{Header, Kind, Packet, Reason, Tlvs};

use super::{Connection, Event, Unanswered};
use crate::error::Error;
use crate::lifecycle::State;
use crate::receiver::Place;
use crate::sender::Acked;
use crate::timers::Timer;

/// What a packet says with its acknowledgement.
#[derive(Clone, Copy)]
pub(super) struct Reported<'a> {
    pub(super) kind: Kind,
    /// As the header has it, not scaled.
    pub(super) window: u16,
    pub(super) ece: bool,
    pub(super) tlvs: Option<&'a Tlvs>,
}

impl Connection {
    /// Takes one packet that passed the stateless checks and is of this flow.
    pub fn handle_packet(&mut self, now: Instant, mut packet: Packet) {
        self.take_packet(now, &mut packet);
    }

    /// The same, of a packet that stays where it lies: only data is taken out of it.
    #[inline(always)] // see `Receiver::store`
    pub(super) fn take_packet(&mut self, now: Instant, packet: &mut Packet) {
        self.read_ack(now);
        match self.state {
            State::SynSent => self.handle_in_syn_sent(now, packet.clone()),
            State::SynReceived => self.handle_in_syn_received(now, packet),
            State::Closed => self.stats.unexpected += 1,
            State::Established | State::FinWait | State::CloseWait | State::Quiet => {
                self.handle_synchronized(now, packet);
            }
        }
    }

    pub(super) fn handle_synchronized(&mut self, now: Instant, packet: &mut Packet) {
        match packet.kind() {
            // [CDP-ST-24] a SYN or SYN|ACK in a live connection is challenged
            Kind::Syn | Kind::SynAck if self.state == State::Quiet => self.stats.unexpected += 1,
            Kind::Syn | Kind::SynAck => self.challenge(now),
            Kind::EchoReset => self.handle_echo_reset(now, packet),
            Kind::Reset => self.handle_reset(now, packet),
            Kind::Data | Kind::Ack | Kind::Pin | Kind::Fin => self.handle_numbered(now, packet),
        }
    }

    /// [CDP-CHK-4] Undo the seal, then test SEQ, then the ACK number, and only then act.
    fn handle_numbered(&mut self, now: Instant, packet: &mut Packet) {
        let header = *packet.header();
        let s = packet.seq(self.agreed.sealed);
        let place = self.receiver.place(s);
        if !place.is_current() {
            self.refuse_number(now, header.kind, place);
            return;
        }
        let acknowledgement = rebuild(self.sender.una(), self.sender.nxt(), header.ack);
        if acknowledgement == Acknowledgement::False {
            // [CDP-ACK-5] dropped and challenged
            self.stats.false_acks += 1;
            self.challenge(now);
            return;
        }
        let tlvs = (header.kind != Kind::Data).then(|| packet.tlvs());
        let tlvs = tlvs.as_ref();
        // [CDP-TLV-6] an unknown critical TLV: drop, after the seal has been verified
        if tlvs.is_some_and(|tlvs| tlvs.unknown_critical.is_some()) {
            self.stats.unexpected += 1;
            return;
        }
        self.note_heard(now);
        match acknowledgement {
            Acknowledgement::Valid(full) if self.is_answer(&header, s, full) => {
                self.unread = Some(header.window);
            }
            Acknowledgement::Valid(full)
                if header.kind == Kind::Data && !header.ece && self.is_known(header.window, full) => {}
            Acknowledgement::Valid(full) => {
                let Header { kind, window, ece, .. } = header;
                // [CDP-ST-D] A DAT cannot tell what was discarded, so what it says of a FIN is left for an ACK to say (decision 0063).
                let full = if kind == Kind::Data { self.sender.before_fin(full) } else { full };
                self.handle_acknowledgement(now, now, full, Reported { kind, window, ece, tlvs });
            }
            // [CDP-ACK-4] number, window and SACK are ignored, the rest is processed
            Acknowledgement::Old | Acknowledgement::False => {
                if header.ece {
                    self.stats.ece_received += 1;
                    self.sender.handle_ecn(now);
                }
            }
        }
        if self.state == State::Closed {
            return;
        }
        let Some(tlvs) = tlvs else {
            self.handle_data(now, s, place, packet);
            return self.read_unless_answered(now);
        };
        self.handle_feedback(now, tlvs);
        match header.kind {
            Kind::Fin => self.handle_fin(now, s, place, tlvs),
            Kind::Pin => self.handle_pin(now, tlvs),
            // [CDP-ACK-10] a pure ACK is not answered, except a cookie echo (CDP-CKE-7)
            Kind::Ack if tlvs.cookie.is_some() => self.receiver.request_ack(),
            Kind::Ack | Kind::Data | Kind::Syn | Kind::SynAck | Kind::EchoReset | Kind::Reset => {}
        }
    }

    /// [CDP-SEQ-9] A packet that is not current changes no variable of the connection.
    fn refuse_number(&mut self, now: Instant, kind: Kind, place: Place) {
        self.stats.not_current += 1;
        // [CDP-SEQ-10] a DAT or FIN near the window is challenged; anything else is dropped without an answer
        if matches!(kind, Kind::Data | Kind::Fin) && place == Place::Near {
            self.challenge(now);
        }
    }

    /// A current packet with an honest ACK number came.
    #[inline]
    pub(super) fn note_heard(&mut self, now: Instant) {
        self.stats.packets_received += 1;
        self.heard_at = now;
        self.note_peer(now);
        self.arrivals.note_current();
        self.refused_since = None;
        if !self.heard {
            // [CDP-ST-25] the first current packet: stop the SYN timer, forget the COOKIE
            self.heard = true;
            self.cookie = None;
            self.timers.stop(Timer::Syn);
            self.timers.stop(Timer::SynGiveUp);
        }
    }

    /// Whether the acknowledgement of a DAT without ECE says nothing new. So it is with all that who only receives gets: he has nothing in
    /// flight, and his window stays where it is.
    #[inline]
    pub(super) fn is_known(&self, window: u16, full: weft_base::Seq) -> bool {
        self.sender.knows(full + self.send_window(window))
            && self.unanswered.count == 0
            && !self.timers.is_set(Timer::Persist)
            && !self.timers.is_set(Timer::NoProgress)
    }

    /// [CDP-WND-1] Slots from the ACK number on: WINDOW << scale of the packet's sender.
    fn send_window(&self, window: u16) -> u64 {
        u64::from(window) << self.agreed.send_scale
    }

    /// An honest acknowledgement of all before `full`, which came at `came_at` and is read now.
    pub(super) fn handle_acknowledgement(
        &mut self,
        now: Instant,
        came_at: Instant,
        full: weft_base::Seq,
        reported: Reported<'_>,
    ) {
        let Reported { kind, window, ece, tlvs } = reported;
        // [CDP-WND-12] the answer to a PIN is no duplicate acknowledgement
        let answers_pin = self.unanswered.count > 0 || tlvs.is_some_and(|tlvs| tlvs.time.is_some());
        let acked = Acked {
            came_at,
            full,
            window: self.send_window(window),
            sack: tlvs.and_then(|tlvs| tlvs.sack.as_ref()),
            far_sack: tlvs.and_then(|tlvs| tlvs.far_sack.as_ref()),
            // a DAT cannot, and a PIN need not tell what is held
            is_report: kind == Kind::Ack,
            ece,
            may_be_duplicate: kind == Kind::Ack && !answers_pin,
            // what carries data of its own goes by the peer's default
            by: self.arrivals.now.filter(|_| kind == Kind::Ack),
        };
        let progress = self.sender.handle_ack(now, &acked, &mut self.timers, &mut self.stats);
        // [CDP-WND-11] answered probes do not count towards giving up
        self.unanswered = Unanswered::default();
        if !self.sender.is_window_closed() {
            self.timers.stop(Timer::NoProgress);
        }
        if !self.sender.is_stuck() {
            self.timers.stop(Timer::Persist);
            self.persist_tries = 0;
        }
        if progress.fin && self.state == State::FinWait {
            self.finish_confirmed(now);
        }
    }

    fn handle_feedback(&mut self, now: Instant, tlvs: &Tlvs) {
        // It only grows; an acknowledgement may be overtaken by a later one.
        let known = self.result.discarded_by_peer;
        if let Some(discarded) = tlvs.discarded.filter(|told| told.wrapping_sub(known) < 1 << 31) {
            self.result.discarded_by_peer = discarded;
            self.stats.discarded_by_peer = u64::from(discarded);
        }
        let Some(time) = tlvs.time.filter(|time| time.echoed != 0) else { return };
        if let Some(mss) = self.sender.mtu.handle_echo(time.echoed) {
            self.sender.set_mss(mss);
            self.await_mtu_search(now);
        }
        self.handle_path_echo(now, time.echoed);
    }

    fn handle_data(&mut self, now: Instant, s: weft_base::Seq, place: Place, packet: &mut Packet) {
        let header = packet.header();
        self.sender.rtt.has_answers = true;
        self.receiver.note_congestion(header.ce);
        self.stats.ce_received += u64::from(header.ce);
        // [CDP-SVC-3] Memory was promised for segments of the size that was announced; those that come with it are as long.
        if packet.payload_len() > usize::from(self.config.link_mss) {
            return self.end_for_violation(now, Reason::PROTOCOL);
        }
        match (place, self.state) {
            // [CDP-SEQ-11] before RCV.NXT: acknowledged, and its data ignored
            (Place::Before, _) => self.repeat_ack(now),
            (Place::Within, State::Established | State::FinWait | State::Quiet) => {
                let eom = header.eom;
                self.store(now, s, eom, packet.take_payload());
            }
            // [CDP-ST-43] DAT again
            (Place::Within, _) => self.repeat_ack(now),
            // [CDP-SEQ-11] at or after RCV.EDGE: dropped and challenged
            (Place::AtEdge | Place::Near | Place::Far, _) => self.challenge(now),
        }
        if self.state == State::Quiet {
            self.restart_quiet(now);
        }
    }

    /// A number that has been received before: acknowledge again, in QUIET within the limit of challenges.
    fn repeat_ack(&mut self, now: Instant) {
        self.stats.duplicates += 1;
        if self.state == State::Quiet {
            self.challenge(now);
        } else {
            self.receiver.note_duplicate();
        }
    }

    /// [CDP-ST-21] Store, acknowledge, deliver in order; [CDP-ST-36] or advance over it, discard and count.
    fn store(&mut self, now: Instant, s: weft_base::Seq, eom: bool, payload: Bytes) {
        let stored = match self.receiver.store(s, eom, payload) {
            Ok(stored) => stored,
            Err(reason) => return self.end_for_violation(now, reason),
        };
        self.stats.bytes_received += stored.bytes;
        self.stats.out_of_order += u64::from(stored.out_of_order);
        self.stats.duplicates += u64::from(stored.duplicate);
        if stored.readable {
            self.raise(Event::Readable);
        }
        if self.receiver.take_fin() {
            self.handle_fin_in_order(now);
        }
    }

    /// The peer broke a rule that ends the connection.
    pub(super) fn end_for_violation(&mut self, now: Instant, reason: Reason) {
        self.control.reset = Some(reason);
        self.end(now, Error::Violation(reason));
    }

    fn handle_fin(&mut self, now: Instant, s: weft_base::Seq, place: Place, tlvs: &Tlvs) {
        match place {
            Place::Before => {
                self.repeat_ack(now);
                self.answer_held_fin();
            }
            // [CDP-SEQ-12] a FIN needs no slot: RCV.NXT ≤ s ≤ RCV.EDGE
            Place::Within | Place::AtEdge if s.is_at_or_before(self.receiver.edge()) => {
                self.result.reason = tlvs.reason.map(|(reason, _)| reason).or(self.result.reason);
                // [CDP-ST-31] after a gap: keep it, acknowledge RCV.NXT
                self.receiver.store_fin(s);
                if self.receiver.take_fin() {
                    self.handle_fin_in_order(now);
                }
            }
            Place::Within | Place::AtEdge | Place::Near | Place::Far => self.challenge(now),
        }
        if self.state == State::Quiet {
            self.restart_quiet(now);
        }
    }

    /// [CDP-ST-23] [CDP-WND-10] A current PIN is answered by an ACK, within [CDP-LIM-15].
    fn handle_pin(&mut self, now: Instant, tlvs: &Tlvs) {
        // [CDP-ST-38] restart the FIN give-up if CONFIRM is agreed; the FIN that is answered so is not what [CDP-TMR-2] gives up
        if self.state == State::FinWait && self.agreed.confirm && self.timers.is_set(Timer::FinGiveUp) {
            self.timers.set(Timer::FinGiveUp, now + self.config.fin_give_up);
            self.sender.note_answered(now);
        }
        if self.state == State::Quiet {
            self.challenge(now);
            return;
        }
        if self.pin_answers.allow(now) {
            // [CDP-MTU-3] a token other than 0 is returned
            let token = tlvs.time.map_or(0, |time| time.own);
            if token != 0 {
                let path = self.answer_path();
                self.control.owe_echo(token, path);
            }
            self.receiver.request_ack();
        }
    }

    /// Answers with a pure ACK that carries the present numbers, within [CDP-LIM-2].
    pub(super) fn challenge(&mut self, now: Instant) {
        if self.challenges.allow(now) {
            self.control.challenge = true;
            self.stats.challenges += 1;
        }
    }
}
