//! The state LISTEN: embryos below a threshold, cookies above it (rows 4 to 9, section 10.2).

use std::sync::Arc;

use weft_base::{Instant, limits};
use weft_wire::emit::emit_control;
use weft_wire::{Emit, Header, Kind, Packet, Reason, Tlvs};

use crate::config::{Config, PeerWindow, Secret};
use crate::connection::Connection;
use crate::cookie::{self, CookieKeys};
use crate::open;

/// What a listener makes of a packet that no connection claims.
#[derive(Debug)]
pub enum Verdict {
    /// Say nothing.
    Drop,
    /// An answer was appended to the buffer: send it and keep nothing.
    Answer,
    /// Refuse by an echo-form RST with this REASON and detail, within the limits of the process (CDP-LIM-3).
    Refuse(Reason, Option<u16>),
    /// A connection in SYN_RCVD: put it into the table and poll it.
    Embryo(Box<Connection>),
    /// A connection that a cookie proved: put it into the table and the accept queue, and poll it.
    Established(Box<Connection>),
}

/// One listening port.
///
/// It counts its embryos and the connections that wait for `accept`; whoever keeps them says when one goes.
#[derive(Clone, Debug)]
pub struct Listener {
    config: Arc<Config>,
    keys: CookieKeys,
    /// Until then SYNs are answered with cookies whatever the number of embryos.
    cookies_until: Instant,
    embryos: usize,
    ready: usize,
    accept_limit: usize,
    /// Receive slots that the settings give a connection; `config` has what it gets at present.
    receive_slots_max: u32,
    /// What a connection gets whose peer has a window of its own, and whether that of the next SYN has.
    of_peer: Arc<Config>,
    is_of_peer: bool,
}

impl Listener {
    /// A listener whose connections get `config`; `key` is fresh from a cryptographic generator.
    #[must_use]
    pub fn new(now: Instant, config: impl Into<Arc<Config>>, key: [u8; 32]) -> Self {
        let config = config.into();
        Self {
            keys: CookieKeys::new(now, key),
            cookies_until: now,
            embryos: 0,
            ready: 0,
            // [CDP-LIM-4] 1..4096
            accept_limit: config.accept_limit.clamp(1, limits::ACCEPT_LIMIT_MAX),
            receive_slots_max: config.receive_slots,
            of_peer: config.clone(),
            is_of_peer: false,
            config,
        }
    }

    /// The settings its connections get.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Connections made from now on get `slots` receive slots: at most what the settings say, and no fewer than a cookie
    /// promises. Returns how many that are.
    ///
    /// [CDP-LIM-13] This is how windows become smaller when memory is short.
    pub fn set_receive_slots(&mut self, slots: u32) -> u32 {
        let slots = slots.clamp(self.cookie_slots(), self.receive_slots_max);
        if self.config.receive_slots != slots {
            Arc::make_mut(&mut self.config).receive_slots = slots;
        }
        slots
    }

    /// The connection that is made for the next SYN gets `window`, whatever the settings say. `None`: it gets what others get.
    ///
    /// What is made of a cookie gets what the settings say: its SYN|ACK has told that, and nothing is kept of whom.
    pub fn set_peer_window(&mut self, window: Option<PeerWindow>) {
        self.is_of_peer = window.is_some();
        if let Some(window) = window
            && self.of_peer.window() != window
        {
            Arc::make_mut(&mut self.of_peer).set_window(window);
        }
    }

    /// [CDP-WND-3] The edge of a SYN|ACK with a COOKIE stands although nothing is kept, so it promises what every
    /// connection gets. The first ACK promises the rest.
    fn cookie_slots(&self) -> u32 {
        self.receive_slots_max.min(limits::RECEIVE_SLOTS_MIN)
    }

    /// Whether the key of the cookies is due to be replaced by [`Listener::replace_key`] (CDP-CKE-3).
    #[must_use]
    pub fn wants_key(&self, now: Instant) -> bool {
        self.keys.is_due(now)
    }

    /// Takes a fresh key; cookies of the one before stay good as long as they are young enough.
    pub fn replace_key(&mut self, now: Instant, key: [u8; 32]) {
        self.keys.replace(now, key);
    }

    /// Whether no more connections may wait for `accept` (CDP-LIM-4).
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.ready >= self.accept_limit
    }

    /// An embryo has finished its open and waits for `accept`.
    pub fn note_ready(&mut self) {
        self.note_embryo_gone();
        self.ready += 1;
    }

    /// An embryo has been dropped.
    pub fn note_embryo_gone(&mut self) {
        self.embryos = self.embryos.saturating_sub(1);
    }

    /// A connection has left the accept queue.
    pub fn note_accepted(&mut self) {
        self.ready = self.ready.saturating_sub(1);
    }

    /// Takes a packet to this port that no connection claims. `secret` is used if it leads to a connection; an
    /// answer is appended to `head`.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        packet: &Packet,
        secret: Secret,
        head: &mut Vec<u8>,
    ) -> Verdict {
        match packet.kind() {
            // [CDP-RST-4] an RST is not answered
            Kind::EchoReset | Kind::Reset => Verdict::Drop,
            Kind::Syn => self.handle_syn(now, packet, secret, head),
            Kind::Ack => {
                let tlvs = packet.tlvs();
                if tlvs.cookie.is_some() { self.handle_cookie(now, packet, &tlvs, secret) } else { unknown() }
            }
            // [CDP-ST-8] any other packet
            Kind::SynAck | Kind::Data | Kind::Fin | Kind::Pin => unknown(),
        }
    }

    fn handle_syn(&mut self, now: Instant, syn: &Packet, secret: Secret, head: &mut Vec<u8>) -> Verdict {
        let theirs = syn.tlvs();
        if let Some((reason, detail)) = open::refusal(&self.config, &theirs) {
            return Verdict::Refuse(reason, detail);
        }
        // [CDP-ST-6] accept queue full: drop
        if self.is_full() {
            return Verdict::Drop;
        }
        // [CDP-ST-4] [CDP-LIM-1] below the threshold an embryo. [CDP-CKE-A] The threshold stays crossed while a cookie is good: a
        // client keeps the first SYN|ACK it gets, and the embryo of its repeated SYN has another number.
        if self.embryos < self.config.embryos_max && now >= self.cookies_until {
            self.embryos += 1;
            let config = if self.is_of_peer { &self.of_peer } else { &self.config };
            return Verdict::Embryo(Box::new(Connection::embryo(now, syn, &theirs, config, secret)));
        }
        // [CDP-ST-5] [CDP-CKE-1] above it SYN|ACK with COOKIE once, and nothing is kept
        self.answer_with_cookie(now, syn, &theirs, head);
        self.cookies_until = now + cookie::LIFE_MAX;
        Verdict::Answer
    }

    fn answer_with_cookie(&mut self, now: Instant, syn: &Packet, theirs: &Tlvs, head: &mut Vec<u8>) {
        let irs = syn.seq(false);
        let agreed = open::agree(&self.config, theirs, false);
        let window = u16::try_from(self.cookie_slots()).unwrap_or(u16::MAX);
        let made = self.keys.make(now, syn.flow(), irs, &agreed, syn.header().window);
        let mut header = Header::new(Kind::SynAck, syn.flow());
        header.seq = made.iss;
        header.ack = (irs + 1).low32();
        header.window = window;
        let tlvs = Tlvs { cookie: Some(made.cookie), ..open::answer(&self.config, &agreed) };
        // [CDP-SYN-4] not longer than the SYN
        let options = Emit { max_len: Some(syn.header().length), ..Emit::default() };
        emit_control(head, &header, &tlvs, &options);
    }

    /// [CDP-CKE-6] MAC, seal, SEQ = IRS + 1 and ACK number = low32(ISS + 1) before anything is allocated.
    fn handle_cookie(&mut self, now: Instant, packet: &Packet, tlvs: &Tlvs, secret: Secret) -> Verdict {
        // [CDP-ST-6] accept queue full: drop
        if self.is_full() {
            return Verdict::Drop;
        }
        let Some(echo) = &tlvs.cookie else { return unknown() };
        let sealed = cookie::is_sealed(echo);
        let irs = packet.seq(sealed) - 1;
        match self.keys.check(now, packet.flow(), irs, packet.header().ack, echo) {
            // [CDP-TLV-6]
            Ok(_) if tlvs.unknown_critical.is_some() => Verdict::Drop,
            Ok(proved) => {
                self.ready += 1;
                let secret = Secret { iss: proved.iss, ..secret };
                let window = u64::from(proved.window);
                // [CDP-ST-7]
                let made = Connection::from_cookie(now, packet, &self.config, secret, proved.agreed, window);
                Verdict::Established(Box::new(made))
            }
            // [CDP-ST-8] a bad or late COOKIE: REASON 19
            Err(_) => Verdict::Refuse(Reason::COOKIE, None),
        }
    }
}

fn unknown() -> Verdict {
    Verdict::Refuse(Reason::UNKNOWN, None)
}

/// The REASON by which an end refuses a packet to a port where nobody listens, or `None` for a packet that is not
/// answered (row 3).
#[must_use]
pub fn refusal_of(packet: &Packet) -> Option<Reason> {
    match packet.kind() {
        // [CDP-RST-4]
        Kind::EchoReset | Kind::Reset => None,
        // [CDP-ST-3] REASON 1 for a SYN or a COOKIE, else 2
        Kind::Syn => Some(Reason::REFUSED),
        Kind::Ack if packet.tlvs().cookie.is_some() => Some(Reason::REFUSED),
        Kind::Ack | Kind::SynAck | Kind::Data | Kind::Fin | Kind::Pin => Some(Reason::UNKNOWN),
    }
}
