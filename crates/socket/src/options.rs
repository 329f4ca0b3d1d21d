//! What a socket is asked to be, before it is connected or listens.

use std::time::Duration;

use weft_base::{Service, limits};

/// When small datagrams may share a packet (specification section 7, "Coalescing").
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Coalescing {
    /// Never; each datagram travels in a packet of its own.
    Off,
    /// While the link is busy with what this socket sent a moment ago; a lone datagram leaves at once
    /// (CDP-COA-7).
    #[default]
    WhenBusy,
    /// As [`WhenBusy`](Self::WhenBusy), and moreover each datagram may wait this long for company. Longer than
    /// 1 ms is taken as 1 ms (CDP-COA-7).
    Delay(Duration),
}

/// Who decides how much may be in flight (specification section 9, CDP-CC-1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CongestionControl {
    /// CUBIC, the default: fair beside kernel TCP.
    #[default]
    Cubic,
    /// A controller that models the path by its rate and round trip, and is not stopped by random loss.
    Model,
    /// A fixed window in packets, for networks declared dedicated (CDP-CC-2).
    Fixed {
        /// The window, in packets.
        packets: u32,
    },
}

/// Options of a socket; give the same value to [`Node::connect`](crate::Node::connect) or
/// [`Node::listen`](crate::Node::listen).
///
/// Each method takes the options and hands them back changed. What is not set stays at the default that the
/// specification names (sections 12 and 13).
///
/// ```
/// use std::time::Duration;
/// use weft_socket::{Coalescing, CongestionControl, Options};
///
/// let options = Options::datagram()
///     .congestion(CongestionControl::Model)
///     .coalescing(Coalescing::Off)
///     .keepalive(Duration::from_secs(10), Duration::from_secs(30))
///     .connect_timeout(Duration::from_secs(2));
/// # let _ = options;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub(crate) service: Service,
    pub(crate) congestion: CongestionControl,
    pub(crate) integrity: bool,
    pub(crate) receive_slots: u32,
    pub(crate) send_bytes: usize,
    pub(crate) coalescing: Coalescing,
    pub(crate) keepalive: Option<(Duration, Duration)>,
    pub(crate) message_bytes: u32,
    pub(crate) confirm: bool,
    pub(crate) mss: Option<u16>,
    pub(crate) local_port: u16,
    pub(crate) accept_limit: usize,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) close_timeout: Option<Duration>,
    pub(crate) send_timeout: Option<Duration>,
    pub(crate) recv_timeout: Option<Duration>,
    pub(crate) no_progress: Option<Duration>,
    pub(crate) give_up: Option<Duration>,
    pub(crate) ack_delay: Option<Duration>,
    pub(crate) rto_init: Option<Duration>,
}

impl Options {
    /// A stream of bytes (specification section 7, "Stream service").
    #[must_use]
    pub fn stream() -> Self {
        Self::of(Service::Stream)
    }

    /// Messages with boundaries (specification section 7, "Datagram service").
    #[must_use]
    pub fn datagram() -> Self {
        Self::of(Service::Datagram)
    }

    /// Options with the defaults for `service`.
    #[must_use]
    pub fn of(service: Service) -> Self {
        Self {
            service,
            congestion: CongestionControl::default(),
            integrity: true,
            receive_slots: limits::RECEIVE_SLOTS,
            send_bytes: limits::SEND_QUEUE_BYTES,
            coalescing: Coalescing::default(),
            keepalive: None,
            message_bytes: limits::MESSAGE_BYTES,
            confirm: false,
            mss: None,
            local_port: 0,
            accept_limit: 128,
            connect_timeout: None,
            close_timeout: None,
            send_timeout: None,
            recv_timeout: None,
            no_progress: None,
            give_up: None,
            ack_delay: None,
            rto_init: None,
        }
    }

    /// The service these options ask for (CDP-SVC-1).
    #[must_use]
    pub fn service(&self) -> Service {
        self.service
    }

    /// The congestion controller of what this end sends (CDP-CC-1).
    #[must_use]
    pub fn congestion(mut self, control: CongestionControl) -> Self {
        self.congestion = control;
        self
    }

    /// Whether packets carry a CRC32C in their sealed sequence number (section 6). Default true. The connection is
    /// sealed if either end asks for it (CDP-SYN-7).
    #[must_use]
    pub fn integrity(mut self, sealed: bool) -> Self {
        self.integrity = sealed;
        self
    }

    /// Packets the peer may have sent that the reader has not taken yet (CDP-LIM-5). Default 1,024; at least 1, at
    /// most 65,535 · 2^14. To a peer on this host, whose packets are as large as the loopback interface carries, so many as take as
    /// much memory, at least 16 unless fewer are asked for.
    #[must_use]
    pub fn receive_slots(mut self, packets: u32) -> Self {
        self.receive_slots = packets.clamp(1, limits::RECEIVE_SLOTS_MAX);
        self
    }

    /// Bytes the send queue holds before `send` blocks (CDP-LIM-8), and one message more where a blocking socket has begun to take a long one
    /// that then finds no room. Default 4 MiB. Of datagrams it holds 1,024 packets at most, those that
    /// are not acknowledged among them.
    #[must_use]
    pub fn send_bytes(mut self, bytes: usize) -> Self {
        self.send_bytes = bytes.max(1);
        self
    }

    /// When small datagrams may share a packet. Default [`Coalescing::WhenBusy`]. Means nothing for streams.
    #[must_use]
    pub fn coalescing(mut self, coalescing: Coalescing) -> Self {
        self.coalescing = coalescing;
        self
    }

    /// A silent client probes after `interval`; an end that hears nothing for `expiry` drops the connection
    /// (section 11). Default 60 s and 300 s. Whole seconds; an expiry below twice the interval is ignored by the peer
    /// (CDP-SYN-12).
    #[must_use]
    pub fn keepalive(mut self, interval: Duration, expiry: Duration) -> Self {
        self.keepalive = Some((interval, expiry));
        self
    }

    /// Largest message this end accepts, in bytes (CDP-LIM-9). Default 16 MiB. Means nothing for streams.
    #[must_use]
    pub fn message_bytes(mut self, bytes: u32) -> Self {
        self.message_bytes = bytes.min(limits::MESSAGE_BYTES_MAX);
        self
    }

    /// Asks that a close is confirmed only once the peer's user has read everything (CDP-ST-F). Default false.
    #[must_use]
    pub fn confirm(mut self, confirm: bool) -> Self {
        self.confirm = confirm;
        self
    }

    /// Largest data segment, in bytes, below what the link allows (CDP-SVC-3). Default: what the link allows.
    #[must_use]
    pub fn mss(mut self, bytes: u16) -> Self {
        self.mss = Some(bytes.clamp(limits::MSS_MIN, limits::MSS_MAX));
        self
    }

    /// The local port of a `connect`, or 0 for a random ephemeral one (CDP-ADR-5). Default 0.
    #[must_use]
    pub fn local_port(mut self, port: u16) -> Self {
        self.local_port = port;
        self
    }

    /// Connections that wait for `accept` (CDP-LIM-4). Default 128; at least 1, at most 4,096.
    #[must_use]
    pub fn accept_limit(mut self, connections: usize) -> Self {
        self.accept_limit = connections.clamp(1, limits::ACCEPT_LIMIT_MAX);
        self
    }

    /// How long `connect` waits. Default SYN_TIME, 63 s (section 12).
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// How long the end of the connection is tried after `close`, from the first FIN, or with [`Options::confirm`] from the peer's
    /// last answer. Default FIN_GIVE_UP, 60 s (section 12).
    #[must_use]
    pub fn close_timeout(mut self, timeout: Duration) -> Self {
        self.close_timeout = Some(timeout);
        self
    }

    /// How long a blocking `send` waits for room. Default: without limit.
    #[must_use]
    pub fn send_timeout(mut self, timeout: Duration) -> Self {
        self.send_timeout = Some(timeout);
        self
    }

    /// How long a blocking `recv` or `accept` waits. Default: without limit.
    #[must_use]
    pub fn recv_timeout(mut self, timeout: Duration) -> Self {
        self.recv_timeout = Some(timeout);
        self
    }

    /// How long a peer may keep its window closed before the connection is reset (NO_PROGRESS, section 12).
    /// Default 300 s; `Duration::MAX` switches it off.
    #[must_use]
    pub fn no_progress(mut self, limit: Duration) -> Self {
        self.no_progress = Some(limit);
        self
    }

    /// How long what was sent may stay unacknowledged before the connection ends (R2, section 12). Default 100 s; at
    /// least 8 tries are made, whatever the time.
    #[must_use]
    pub fn give_up(mut self, time: Duration) -> Self {
        self.give_up = Some(time);
        self
    }

    /// Longest delay of an acknowledgement (ACK_DELAY, section 12). Default 1 ms.
    #[must_use]
    pub fn ack_delay(mut self, delay: Duration) -> Self {
        self.ack_delay = Some(delay);
        self
    }

    /// Retransmission time-out before the first round-trip sample (RTO_INIT, section 12). Default 250 ms, which is
    /// allowed inside one cluster; at least 2 ms.
    #[must_use]
    pub fn rto_init(mut self, timeout: Duration) -> Self {
        self.rto_init = Some(timeout);
        self
    }
}
