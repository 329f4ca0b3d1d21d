//! What a connection is told when it is made.

use std::sync::Arc;
use std::time::Duration;

use weft_base::{Seq, Service, limits};

use crate::congestion;

/// Keep-alive times of a connection (CDP-KA-2, CDP-KA-3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeepAlive {
    /// A client that has sent nothing for this long sends a PIN.
    pub interval: Duration,
    /// An end that has heard nothing for this long drops the connection.
    pub expiry: Duration,
}

impl Default for KeepAlive {
    /// The papers' 60 s and 300 s.
    fn default() -> Self {
        Self { interval: Duration::from_secs(60), expiry: Duration::from_secs(300) }
    }
}

/// What of [`Config`] depends on the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerWindow {
    /// [`Config::link_mss`], in bytes.
    pub link_mss: u16,
    /// [`Config::is_one_link`].
    pub is_one_link: bool,
    /// [`Config::receive_slots`].
    pub receive_slots: u32,
}

/// Settings of one connection or listener; the defaults are those of sections 12 and 13 of the specification.
///
/// A connection keeps a reference to them, so that many with the same settings share one.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Datagrams or a stream (CDP-SVC-1).
    pub service: Service,
    /// Ask for the sealed sequence number (CDP-SEAL-6).
    pub integrity: bool,
    /// Largest data segment our link carries to the peer, in bytes; what MSS announces.
    pub link_mss: u16,
    /// Both nodes are on one link, which carries such segments for certain: the peer's size needs no proof (CDP-MTU-2).
    pub is_one_link: bool,
    /// Slots promised to the peer, in packets (CDP-LIM-5).
    pub receive_slots: u32,
    /// Bytes the send queue takes before `send` says [`WouldBlock`](crate::SendError::WouldBlock) (CDP-LIM-8).
    pub send_bytes: usize,
    /// Packets of the datagram service that the send queue takes, likewise (CDP-LIM-8).
    pub send_packets: usize,
    /// Largest message we accept in datagram service, in bytes; `None` offers no more than one packet (CDP-DG-3).
    pub message_bytes: Option<u32>,
    /// Offer to put several datagrams in one packet (section 7, "Coalescing").
    pub coalesce: bool,
    /// Offer SACK.
    pub sack: bool,
    /// Offer the confirmed close (CDP-ST-F).
    pub confirm: bool,
    /// Keep-alive times we offer.
    pub keep_alive: KeepAlive,
    /// Which congestion controller to run.
    pub congestion: congestion::Kind,
    /// What it starts from.
    pub congestion_settings: congestion::Settings,
    /// Whether to spread packets over the round trip when the controller knows a rate.
    pub pacing: bool,
    /// Whether to look for a larger packet than the path is known to carry (CDP-MTU-2).
    pub probe_mtu: bool,
    /// RTO before the first sample (RTO_INIT).
    pub rto_init: Duration,
    /// Greatest RTO (RTO_MAX).
    pub rto_max: Duration,
    /// Longest delay of an acknowledgement (ACK_DELAY).
    pub ack_delay: Duration,
    /// How long an open is tried (SYN_TIME).
    pub syn_time: Duration,
    /// How long data is tried, at least (R2).
    pub give_up_time: Duration,
    /// How often data is tried, at least (R2).
    pub give_up_tries: u32,
    /// How long a FIN is tried (FIN_GIVE_UP).
    pub fin_give_up: Duration,
    /// How long a peer may keep its window closed while data waits; `None` for ever (NO_PROGRESS).
    pub no_progress: Option<Duration>,
    /// Embryos a listener keeps before it answers with cookies (CDP-LIM-1).
    pub embryos_max: usize,
    /// Connections that wait for `accept` at most (CDP-LIM-4).
    pub accept_limit: usize,
}

impl Config {
    /// Defaults for `service` over a link that carries data segments of `link_mss` bytes.
    #[must_use]
    pub fn new(service: Service, link_mss: u16) -> Self {
        Self {
            service,
            integrity: true,
            link_mss,
            is_one_link: false,
            receive_slots: limits::RECEIVE_SLOTS,
            send_bytes: limits::SEND_QUEUE_BYTES,
            send_packets: limits::SEND_QUEUE_PACKETS,
            message_bytes: match service {
                Service::Datagram => Some(limits::MESSAGE_BYTES),
                Service::Stream => None,
            },
            coalesce: service == Service::Datagram,
            sack: true,
            confirm: false,
            keep_alive: KeepAlive::default(),
            congestion: congestion::Kind::default(),
            congestion_settings: congestion::Settings::default(),
            pacing: true,
            probe_mtu: true,
            rto_init: Duration::from_millis(250),
            rto_max: Duration::from_secs(4),
            ack_delay: Duration::from_millis(1),
            syn_time: Duration::from_secs(63),
            give_up_time: Duration::from_secs(100),
            give_up_tries: 8,
            fin_give_up: Duration::from_secs(60),
            no_progress: Some(Duration::from_secs(300)),
            embryos_max: limits::EMBRYOS_MAX,
            accept_limit: 128,
        }
    }

    /// What of these depends on the peer.
    #[must_use]
    pub fn window(&self) -> PeerWindow {
        let Self { link_mss, is_one_link, receive_slots, .. } = *self;
        PeerWindow { link_mss, is_one_link, receive_slots }
    }

    /// Gives it what a peer gets.
    pub fn set_window(&mut self, window: PeerWindow) {
        let PeerWindow { link_mss, is_one_link, receive_slots } = window;
        (self.link_mss, self.is_one_link, self.receive_slots) = (link_mss, is_one_link, receive_slots);
    }
}

impl From<&Config> for Arc<Config> {
    /// Settings that one connection or listener has for itself.
    fn from(config: &Config) -> Self {
        Self::new(config.clone())
    }
}

/// The random numbers one connection starts from; the machine itself has no random source.
#[derive(Clone, Copy, Debug)]
pub struct Secret {
    /// Our initial sequence number, over all 64 bits from a cryptographic generator (CDP-SEQ-3).
    pub iss: Seq,
    /// Seed of the jitter of this connection's timers and limiters.
    pub entropy: u64,
}
