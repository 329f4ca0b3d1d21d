//! The CDP machine of one connection; this file wires its parts and holds what the user calls.
//!
//! It is told the time, handed packets and asked for outputs. After any input or command drain
//! [`poll_transmit`](Connection::poll_transmit) until `None`, then [`poll_event`](Connection::poll_event) until
//! `None`, and then ask [`poll_timeout`](Connection::poll_timeout) once. Handing in all packets of a batch before
//! the first `poll_transmit` lets one acknowledgement answer them all.

mod close;
mod input;
mod opening;
mod output;
mod reset;
#[cfg(test)]
mod tests;
mod timeout;

use bytes::Bytes;
use weft_base::{FlowKey, Instant, NodeId, Seq, Service};
use weft_wire::{Cookie, Packet, Reason};

use crate::close::CloseResult;
use crate::config::{Config, Secret};
use crate::error::{Error, RecvError, SendError};
use crate::inbox::{Message, Received, Rules};
use crate::jitter::Jitter;
use crate::lifecycle::{self, State};
use crate::limiter::{ChallengeLimiter, PinLimiter};
use crate::open::{self, Agreed};
use crate::receiver::{AckDue, Receiver};
use crate::sender::Sender;
use crate::stats::{PathStats, Stats, Verdicts};
use crate::timers::{Timer, Timers};

pub use output::Transmit;

/// Something the user of a connection waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Event {
    /// The open is over: data may be sent.
    Connected,
    /// There is something to read: data, the end, or an error.
    Readable,
    /// The send queue has room again.
    Writable,
    /// The peer has closed.
    PeerClosed,
    /// The connection has ended, or the close is over; see [`Connection::error`] and [`Connection::close_result`].
    Closed,
}

impl Event {
    const ALL: [Self; 5] = [Self::Connected, Self::Readable, Self::Writable, Self::PeerClosed, Self::Closed];

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// What must go out besides numbered packets.
#[derive(Clone, Debug, Default)]
struct Control {
    /// SYN or SYN|ACK, whichever the state calls for.
    open: bool,
    /// A pure ACK as a challenge.
    challenge: bool,
    /// A PIN|ACK.
    pin: bool,
    /// RST|ACK with this REASON, and then nothing more.
    reset: Option<Reason>,
    /// An echo-form RST that refuses this packet.
    echo: Option<(Packet, Reason, Option<u16>)>,
    /// The token that the next ACK returns (CDP-MTU-3).
    echoed_token: u32,
}

/// PINs that wait for an answer.
#[derive(Clone, Copy, Debug, Default)]
struct Unanswered {
    since: Option<Instant>,
    count: u32,
}

/// The machine of one connection.
///
/// ```
/// use weft_base::{Address, FlowKey, Instant, NodeId, Port, Seq, Service};
/// use weft_proto::{Config, Connection, Secret, State};
///
/// let end = |node, port| Address { node: NodeId::new(node).unwrap(), port: Port::new(port).unwrap() };
/// let flow = FlowKey { local: end(1, 50_000), remote: end(2, 7) };
/// let secret = Secret { iss: Seq::new(0x1234), entropy: 99 };
/// let config = Config::new(Service::Stream, 1444);
/// let mut client = Connection::connect(Instant::ZERO, flow, &config, secret);
///
/// let mut packet = Vec::new();
/// let syn = client.poll_transmit(Instant::ZERO, &mut packet).unwrap();
/// assert_eq!(syn.head, 0..packet.len());
/// assert_eq!(packet[4], 0x02, "a SYN");
/// assert!(client.poll_timeout().is_some(), "it will be repeated");
/// assert_eq!(client.state(), State::SynSent);
/// ```
#[derive(Clone, Debug)]
pub struct Connection {
    flow: FlowKey,
    config: Config,
    state: State,
    /// This end called `connect`: the client (CDP-KA-1).
    active: bool,
    iss: Seq,
    irs: Seq,
    agreed: Agreed,
    sender: Sender,
    receiver: Receiver,
    timers: Timers,
    jitter: Jitter,
    challenges: ChallengeLimiter,
    pin_answers: PinLimiter,
    control: Control,
    /// The server's state that we return until we hear from it (CDP-CKE-5).
    cookie: Option<Cookie>,
    /// Transmissions of SYN or SYN|ACK so far.
    open_tries: u32,
    /// Bytes of the SYN that our SYN|ACK must not exceed (CDP-SYN-4).
    syn_len: u16,
    /// A current packet has come since the open (row 25).
    heard: bool,
    heard_at: Instant,
    sent_at: Instant,
    unanswered: Unanswered,
    persist_tries: u32,
    /// CECOUNT as it was last told.
    told_ce: u32,
    /// The user found the send queue full.
    blocked: bool,
    quiet_since: Instant,
    result: CloseResult,
    error: Option<Error>,
    events: u8,
    stats: Stats,
    verdicts: Verdicts,
}

impl Connection {
    /// Opens to `flow.remote` (row 1).
    #[must_use]
    pub fn connect(now: Instant, flow: FlowKey, config: &Config, secret: Secret) -> Self {
        // [CDP-ST-1] send SYN, start the SYN timer
        let mut this = Self::new(now, flow, config, secret, Seq::new(0), State::SynSent);
        this.active = true;
        this.control.open = true;
        this.timers.set(Timer::SynGiveUp, now + config.syn_time);
        this
    }

    fn new(now: Instant, flow: FlowKey, config: &Config, secret: Secret, irs: Seq, state: State) -> Self {
        let mut jitter = Jitter::new(secret.entropy);
        Self {
            flow,
            state,
            active: false,
            iss: secret.iss,
            irs,
            agreed: Agreed::before_open(config),
            sender: Sender::new(now, secret.iss, config),
            receiver: Receiver::new(irs, config.receive_slots, rules(config)),
            timers: Timers::default(),
            challenges: ChallengeLimiter::new(jitter.next()),
            pin_answers: PinLimiter::new(),
            jitter,
            control: Control::default(),
            cookie: None,
            open_tries: 0,
            syn_len: u16::MAX,
            heard: false,
            heard_at: now,
            sent_at: now,
            unanswered: Unanswered::default(),
            persist_tries: 0,
            told_ce: 0,
            blocked: false,
            quiet_since: now,
            result: CloseResult::default(),
            error: None,
            events: 0,
            stats: Stats::default(),
            verdicts: Verdicts::new(now),
            config: config.clone(),
        }
    }

    // ── Commands ──────────────────────────────────────────────────────────────────────────────────────────────

    /// Takes a copy of `data`: one whole message in datagram service, or as many bytes of the stream as fit.
    ///
    /// Returns the bytes taken. Costs one copy, and no packet is made before [`Connection::poll_transmit`].
    ///
    /// # Errors
    ///
    /// [`SendError`]; nothing is taken then.
    pub fn send(&mut self, data: &[u8]) -> Result<usize, SendError> {
        self.check_sendable()?;
        match self.config.service {
            Service::Datagram => self.send_message(data),
            Service::Stream => self.send_bytes(data),
        }
    }

    fn check_sendable(&self) -> Result<(), SendError> {
        if let Some(error) = self.error {
            return Err(SendError::Failed(error));
        }
        match self.state {
            State::SynSent | State::SynReceived => Err(SendError::WouldBlock),
            State::Established => Ok(()),
            // [CDP-ST-42] EPIPE after the peer's FIN or our own close
            State::FinWait | State::CloseWait | State::Quiet | State::Closed => Err(SendError::Closed),
        }
    }

    fn send_message(&mut self, data: &[u8]) -> Result<usize, SendError> {
        // [CDP-DG-6] larger than the limit: EMSGSIZE, and nothing is sent
        let limit = self.message_limit();
        if data.len() > limit {
            return Err(SendError::TooBig(limit));
        }
        let packets = self.sender.queue.packets() + self.sender.flight.len();
        let is_full = self.sender.buffered() + data.len() > self.config.send_bytes
            || packets >= self.config.send_packets;
        // [CDP-LIM-8] a message longer than the queue is taken when nothing else waits
        if is_full && !self.sender.queue.is_empty() {
            self.blocked = true;
            return Err(SendError::WouldBlock);
        }
        self.sender.queue.push(data);
        self.stats.messages_sent += 1;
        Ok(data.len())
    }

    fn send_bytes(&mut self, data: &[u8]) -> Result<usize, SendError> {
        let room = self.config.send_bytes.saturating_sub(self.sender.buffered()).min(data.len());
        if room == 0 && !data.is_empty() {
            self.blocked = true;
            return Err(SendError::WouldBlock);
        }
        // [CDP-STR-3] nothing to send makes no packet
        if room > 0 {
            self.sender.queue.push(&data[..room]);
            self.stats.messages_sent += 1;
        }
        Ok(room)
    }

    /// The largest message that `send` takes, in bytes (CDP-DG-3, CDP-DG-4); for a stream there is no limit.
    #[must_use]
    pub fn message_limit(&self) -> usize {
        match self.config.service {
            Service::Stream => usize::MAX,
            Service::Datagram => {
                let packet = usize::from(self.sender.mtu.current());
                self.agreed.peer_message.map_or(packet, |message| (message as usize).max(packet))
            }
        }
    }

    /// Copies one message, or as many bytes of the stream as are there and fit.
    ///
    /// # Errors
    ///
    /// [`RecvError`]; an error of the connection follows all data that was in order before it (CDP-ERR-2).
    pub fn recv(&mut self, buffer: &mut [u8]) -> Result<Received, RecvError> {
        let received = self.receiver.read(|inbox| inbox.read(buffer));
        self.after_read();
        match received {
            Some(received) => {
                self.stats.messages_received += 1;
                Ok(received)
            }
            None => self.nothing_to_read(),
        }
    }

    /// Hands over one message, or one chunk of the stream, where it lies; `None` at the end.
    ///
    /// # Errors
    ///
    /// As for [`Connection::recv`].
    pub fn recv_message(&mut self) -> Result<Option<Message>, RecvError> {
        let message = self.receiver.read(crate::inbox::Inbox::pop);
        self.after_read();
        match message {
            Some(message) => {
                self.stats.messages_received += 1;
                Ok(Some(message))
            }
            None => self.nothing_to_read().map(|_| None),
        }
    }

    /// [CDP-ST-F] Once the user has read everything the FIN may be acknowledged.
    fn after_read(&mut self) {
        if self.state == State::CloseWait && self.agreed.confirm && self.receiver.is_drained() {
            self.receiver.request_ack();
        }
    }

    fn nothing_to_read(&self) -> Result<Received, RecvError> {
        let end = Received { len: 0, truncated: 0, end_of_file: true };
        match self.state {
            // [CDP-ERR-2] the error follows the data
            State::Closed => self.error.map_or(Err(RecvError::Closed), |error| Err(RecvError::Failed(error))),
            // [CDP-ST-41] what is queued, then the end of file
            State::CloseWait => Ok(end),
            State::FinWait | State::Quiet => Err(RecvError::Closed),
            State::SynSent | State::SynReceived | State::Established => Err(RecvError::WouldBlock),
        }
    }

    // ── Outputs ───────────────────────────────────────────────────────────────────────────────────────────────

    /// The next event, each at most once until it happens again.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.note_writable();
        let event = Event::ALL.into_iter().find(|event| self.events & event.bit() != 0)?;
        self.events &= !event.bit();
        Some(event)
    }

    /// When [`Connection::handle_timeout`] must be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    fn note_writable(&mut self) {
        let half = self.config.send_bytes / 2;
        let packets = self.sender.queue.packets() + self.sender.flight.len();
        if self.blocked && self.sender.buffered() <= half && packets <= self.config.send_packets * 3 / 4 {
            self.blocked = false;
            self.raise(Event::Writable);
        }
    }

    fn raise(&mut self, event: Event) {
        self.events |= event.bit();
    }

    /// Moves by the table of [`lifecycle`]; tells whether the event meant anything.
    fn advance(&mut self, event: lifecycle::Event) -> bool {
        match self.state.after(event) {
            Some(state) => {
                self.state = state;
                true
            }
            None => false,
        }
    }

    // ── Getters ───────────────────────────────────────────────────────────────────────────────────────────────

    /// The state.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// The two ends.
    #[must_use]
    pub fn flow(&self) -> FlowKey {
        self.flow
    }

    /// The node at the other end.
    #[must_use]
    pub fn peer(&self) -> NodeId {
        self.flow.remote.node
    }

    /// The service.
    #[must_use]
    pub fn service(&self) -> Service {
        self.config.service
    }

    /// Whether this end called `connect`.
    #[must_use]
    pub fn is_client(&self) -> bool {
        self.active
    }

    /// Whether this is a connection that a listener made and that has not finished its open.
    #[must_use]
    pub fn is_embryo(&self) -> bool {
        !self.active && self.state == State::SynReceived
    }

    /// What the open agreed on; defaults before that.
    #[must_use]
    pub fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// Whether `recv` would give something other than [`RecvError::WouldBlock`].
    #[must_use]
    pub fn is_readable(&self) -> bool {
        !self.receiver.inbox().is_empty() || self.nothing_to_read() != Err(RecvError::WouldBlock)
    }

    /// Whether `send` would do something other than say [`SendError::WouldBlock`].
    #[must_use]
    pub fn is_writable(&self) -> bool {
        match self.check_sendable() {
            Err(SendError::WouldBlock) => false,
            Err(_) => true,
            Ok(()) => {
                let packets = self.sender.queue.packets() + self.sender.flight.len();
                self.sender.buffered() < self.config.send_bytes && packets < self.config.send_packets
            }
        }
    }

    /// Whether an acknowledgement is owed at once, as after a read that opens the window: poll for it.
    #[must_use]
    pub fn has_urgent_output(&self) -> bool {
        self.receiver.ack_due() == AckDue::Now || self.control.reset.is_some() || self.control.pin
    }

    /// Whether everything sent has been acknowledged.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.sender.is_idle()
    }

    /// Bytes accepted from the user that the peer has not acknowledged.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.sender.buffered()
    }

    /// Bytes that wait for their first transmission, and whether a full packet is among them.
    #[must_use]
    pub fn waiting(&self) -> (usize, bool) {
        (self.sender.queue.bytes(), self.sender.queue.has_full_packet())
    }

    /// The connection is over and sends nothing more: its entry can go.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.state == State::Closed && self.control.reset.is_none() && self.control.echo.is_none()
    }

    /// Why the connection ended, if it did so without an ordinary close.
    #[must_use]
    pub fn error(&self) -> Option<Error> {
        self.error
    }

    /// The result of the close, once it is known (CDP-ST-E).
    #[must_use]
    pub fn close_result(&self) -> Option<CloseResult> {
        match self.state {
            State::Quiet | State::Closed => {
                Some(CloseResult { discarded: self.receiver.discarded(), ..self.result })
            }
            State::SynSent | State::SynReceived | State::Established | State::FinWait | State::CloseWait => {
                None
            }
        }
    }

    /// When a current packet last came from the peer (CDP-TMR-3).
    #[must_use]
    pub fn heard_at(&self) -> Instant {
        self.heard_at
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self, now: Instant) -> Stats {
        let mut stats = self.stats;
        self.verdicts.clone().settle(now, &mut stats);
        stats.discarded = u64::from(self.receiver.discarded());
        stats
    }

    /// Measures of the path and the windows.
    #[must_use]
    pub fn path_stats(&self) -> PathStats {
        use crate::congestion::Controller;
        let sender = &self.sender;
        PathStats {
            srtt: sender.rtt.srtt(),
            min_rtt: sender.rtt.min_rtt(),
            rtt_var: sender.rtt.variance(),
            rto: sender.rtt.rto(),
            congestion_window: sender.congestion.window(),
            pacing_rate: sender.congestion.pacing_rate(),
            controller: sender.congestion.name(),
            in_flight: sender.flight.in_flight(),
            send_window: if sender.nxt().is_before(sender.edge()) {
                sender.edge().distance_from(sender.nxt())
            } else {
                0
            },
            receive_window: self.receiver.window(),
            mss: sender.mtu.current(),
            queued_bytes: sender.queue.bytes(),
        }
    }
}

fn rules(config: &Config) -> Rules {
    let message_bytes = open::announced_message(config);
    Rules { service: config.service, message_bytes, coalesce: false }
}

/// An empty body, for packets that are all head.
fn no_body() -> Bytes {
    Bytes::new()
}
