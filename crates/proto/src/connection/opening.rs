//! The open: SYN_SENT, SYN_RCVD, and connections that a listener makes (rows 1 and 10 to 20).

use std::sync::Arc;

use weft_base::{Instant, Service};
use weft_wire::{Kind, Packet, Reason, Tlvs};

use super::{Connection, Event};
use crate::close::CloseResult;
use crate::config::{Config, Secret};
use crate::error::Error;
use crate::lifecycle::{Event as Happening, State};
use crate::mtu;
use crate::open::{self, Agreed};
use crate::receiver::Receiver;
use crate::timers::Timer;

impl Connection {
    /// An embryo for a SYN that a listener accepts (row 4); `theirs` are the SYN's TLVs.
    pub(crate) fn embryo(
        now: Instant,
        syn: &Packet,
        theirs: &Tlvs,
        config: &Arc<Config>,
        secret: Secret,
    ) -> Self {
        let irs = syn.seq(false);
        let mut this = Self::new(now, syn.flow(), config, secret, irs, State::SynReceived);
        this.take_over(open::agree(config, theirs, false), u64::from(syn.header().window));
        this.syn_len = syn.header().length;
        this.control.open = true;
        this.timers.set(Timer::SynGiveUp, now + config.syn_time);
        this
    }

    /// A connection from a cookie that has been verified (row 7); `echo` is the packet that carried it.
    pub(crate) fn from_cookie(
        now: Instant,
        echo: &Packet,
        config: &Arc<Config>,
        secret: Secret,
        agreed: Agreed,
        window: u64,
    ) -> Self {
        let irs = echo.seq(agreed.sealed) - 1;
        let mut this = Self::new(now, echo.flow(), config, secret, irs, State::Established);
        this.take_over(agreed, window);
        this.raise(Event::Connected);
        this.begin_established(now);
        // [CDP-ST-7] ACK at once
        this.handle_packet(now, echo.clone());
        this.receiver.request_ack();
        this
    }

    /// Takes over what was agreed; `window` is the peer's, in slots from its ACK number of our SYN on.
    fn take_over(&mut self, agreed: Agreed, window: u64) {
        self.agreed = agreed;
        self.sender.configure(&self.config, &agreed, window);
        self.receiver.configure(agreed.receive_scale, agreed.coalesce);
    }

    /// Starts what runs in ESTABLISHED: keep-alive, and the search for a larger packet, which may wait.
    pub(super) fn begin_established(&mut self, now: Instant) {
        self.heard_at = now;
        self.timers.set(Timer::Expiry, now + self.agreed.keep_alive.expiry());
        if self.active {
            let interval = self.jitter.around(self.agreed.keep_alive.interval());
            self.timers.set(Timer::Pin, now + interval);
        }
        self.prepare_mtu_search(now);
    }

    /// The search for a larger packet begins at once where no message may be larger than one, and else when there is enough to send, or
    /// a little later.
    pub(super) fn prepare_mtu_search(&mut self, now: Instant) {
        if !self.config.probe_mtu {
            return;
        }
        if self.config.service == Service::Datagram && self.agreed.peer_message.is_none() {
            self.begin_mtu_search(now);
        } else if self.sender.mtu.await_data() {
            self.timers.set(Timer::Mtu, now + mtu::AT_REST);
        }
    }

    /// [CDP-MTU-2] Looks for a larger packet than the path carries for certain.
    #[cold]
    pub(super) fn begin_mtu_search(&mut self, now: Instant) {
        if self.sender.mtu.begin(self.jitter.token()) {
            self.timers.set(Timer::Mtu, now + self.sender.rtt.rto());
        }
    }

    pub(super) fn handle_in_syn_sent(&mut self, now: Instant, packet: Packet) {
        match packet.kind() {
            Kind::SynAck if packet.header().ack == (self.iss + 1).low32() => {
                self.handle_syn_ack(now, &packet);
            }
            Kind::Syn => self.handle_simultaneous_syn(now, packet),
            Kind::EchoReset => self.handle_refusal(now, &packet),
            // [CDP-ST-50] an RST|ACK means nothing here
            Kind::Reset => self.stats.unexpected += 1,
            // [CDP-ST-12] a wrong ACK number, or a packet of another connection: echo-form RST, REASON 2
            Kind::SynAck | Kind::Data | Kind::Fin | Kind::Pin | Kind::Ack => {
                self.stats.unexpected += 1;
                self.control.echo = Some(Box::new((packet, Reason::UNKNOWN, None)));
            }
        }
    }

    /// [CDP-ST-10] Take over the options, send ACK with the COOKIE if one came, go on with the SYN timer.
    fn handle_syn_ack(&mut self, now: Instant, packet: &Packet) {
        let theirs = packet.tlvs();
        if self.refuse_answer(now, packet, &theirs) {
            return;
        }
        self.irs = packet.seq(false);
        self.arrivals.note_current();
        self.receiver = Receiver::new(self.irs, self.config.receive_slots, super::rules(&self.config));
        // [CDP-SYN-9] the window of a SYN|ACK is not scaled
        self.take_over(open::agree(&self.config, &theirs, true), u64::from(packet.header().window));
        if self.state == State::SynSent {
            self.measure_open(now, true);
        } else {
            // our SYN|ACK was sent after what this answers
            self.note_peer(now);
        }
        self.cookie = theirs.cookie.map(Box::new);
        self.advance(Happening::SynAck);
        self.open_tries = 0;
        self.control.open = false;
        self.timers.set(Timer::SynGiveUp, now + self.config.syn_time);
        self.begin_established(now);
        self.begin_third(now);
        self.raise(Event::Connected);
    }

    /// [CDP-SYN-6] [CDP-TLV-5] Whether this SYN|ACK is to be refused, which fails the connect.
    fn refuse_answer(&mut self, now: Instant, packet: &Packet, theirs: &Tlvs) -> bool {
        let Some((reason, detail)) = open::refusal(&self.config, theirs) else { return false };
        self.control.echo = Some(Box::new((packet.clone(), reason, detail)));
        self.advance(Happening::Refused);
        self.end(now, Error::Refused(reason));
        true
    }

    /// [CDP-ST-11] Both ends opened at once: send SYN|ACK.
    fn handle_simultaneous_syn(&mut self, now: Instant, packet: Packet) {
        let theirs = packet.tlvs();
        if let Some((reason, detail)) = open::refusal(&self.config, &theirs) {
            self.stats.unexpected += 1;
            self.control.echo = Some(Box::new((packet, reason, detail)));
            return;
        }
        self.irs = packet.seq(false);
        self.arrivals.note_current();
        self.receiver = Receiver::new(self.irs, self.config.receive_slots, super::rules(&self.config));
        self.take_over(open::agree(&self.config, &theirs, false), u64::from(packet.header().window));
        self.syn_len = packet.header().length;
        self.advance(Happening::Syn);
        self.control.open = true;
        self.open_tries = 0;
        self.timers.stop(Timer::Syn);
        self.heard_at = now;
    }

    pub(super) fn handle_in_syn_received(&mut self, now: Instant, packet: &Packet) {
        let header = *packet.header();
        let acks_ours = header.ack == (self.iss + 1).low32();
        match header.kind {
            // [CDP-ST-17] repeat SYN|ACK, within the limit of challenges
            Kind::Syn => {
                if self.challenges.allow(now) {
                    self.arrivals.note_current();
                    self.syn_len = self.syn_len.min(header.length);
                    self.control.open = true;
                }
            }
            // [CDP-ST-18] the answer to our half of a simultaneous open
            Kind::SynAck if self.active && packet.seq(false) == self.irs && acks_ours => {
                if self.refuse_answer(now, packet, &packet.tlvs()) {
                    return;
                }
                self.sender.raise_edge(self.iss + 1 + u64::from(header.window));
                self.advance(Happening::SynAck);
                self.open_is_over(now, true);
                self.receiver.request_ack();
            }
            // [CDP-ST-K] its sender has our number, which that of the SYN need not have
            Kind::SynAck if self.active && acks_ours => self.handle_syn_ack(now, packet),
            Kind::SynAck => self.stats.unexpected += 1,
            Kind::EchoReset => self.handle_echo_reset_in_syn_received(now, packet),
            Kind::Reset => self.handle_reset_in_syn_received(now, packet),
            // [CDP-ST-I] any other whose ACK number is not low32(ISS + 1) is dropped without an answer, where
            // an embryo does not give way to it
            Kind::Data | Kind::Ack | Kind::Pin | Kind::Fin if !acks_ours => self.stats.unexpected += 1,
            Kind::Data | Kind::Ack | Kind::Pin | Kind::Fin => {
                if !self.receiver.place(packet.seq(self.agreed.sealed)).is_current() {
                    self.stats.not_current += 1;
                    return;
                }
                if header.kind != Kind::Data && self.drop_unknown(packet) {
                    return;
                }
                // [CDP-ST-16] into the accept queue, then as in ESTABLISHED
                self.advance(Happening::OpenAck);
                self.open_is_over(now, header.kind == Kind::Ack);
                self.handle_synchronized(now, &mut packet.clone());
            }
        }
    }

    /// What was sent was answered; if it was sent once, and what answers had nothing to wait for (row 10), that is a round trip.
    fn measure_open(&mut self, now: Instant, is_prompt: bool) {
        self.note_peer(now);
        let took = now - self.sent_at;
        if self.open_tries == 1 {
            if is_prompt {
                self.sender.rtt.sample(now, took);
                self.sender.congestion.expect(took);
            } else {
                self.sender.rtt.expect(took);
                self.sender.congestion.expect(took.saturating_sub(self.config.ack_delay));
            }
            self.note_open_delivered();
        } else if self.has_opened_by_another() {
            self.sender.rtt.expect(took);
            self.sender.congestion.expect(took);
        }
    }

    fn open_is_over(&mut self, now: Instant, is_prompt: bool) {
        self.arrivals.note_current();
        self.measure_open(now, is_prompt);
        self.control.open = false;
        self.open_tries = 0;
        self.timers.stop(Timer::Syn);
        self.timers.stop(Timer::SynGiveUp);
        self.begin_established(now);
        self.raise(Event::Connected);
    }

    /// The connection is over at once; `error` follows what is readable (CDP-ERR-2).
    pub(super) fn end(&mut self, now: Instant, error: Error) {
        self.verdicts.settle(now, &mut self.stats);
        self.error = Some(error);
        self.ended_at = Some(now);
        self.state = State::Closed;
        self.timers.stop_all();
        self.cookie = None;
        self.receiver.end();
        let (dropped, unsent) = self.sender.discard();
        self.stats.numbers_dropped += dropped;
        self.result = CloseResult { undelivered: dropped + unsent as u64, ..self.result };
        self.control.open = false;
        self.control.pin = false;
        self.control.challenge = false;
        self.raise(Event::Closed);
        self.raise(Event::Readable);
        self.raise(Event::Writable);
    }
}
