//! The CDP machine of one connection; this file wires its parts and holds what the user calls.
//!
//! It is told the time, handed packets and asked for outputs. After any input or command drain
//! [`poll_transmit`](Connection::poll_transmit) until `None`, then [`poll_event`](Connection::poll_event) until
//! `None`, and then ask [`poll_timeout`](Connection::poll_timeout) once. Handing in all packets of a batch before
//! the first `poll_transmit` lets one acknowledgement answer them all.

mod answer;
mod close;
mod input;
mod joined;
mod opening;
mod output;
mod paths;
mod question;
mod report;
mod reset;
#[cfg(test)]
mod tests;
mod third;
mod timeout;
mod train;
mod transmit;
mod unreachable;
mod user;

use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use weft_base::{FlowKey, Instant, Seq};
use weft_wire::{Cookie, Packet, Reason};

use crate::close::CloseResult;
use crate::config::{Config, Secret};
use crate::error::Error;
use crate::inbox::Rules;
use crate::jitter::Jitter;
use crate::lifecycle::{self, State};
use crate::limiter::{ChallengeLimiter, PinLimiter};
use crate::open::{self, Agreed};
use crate::paths::{Arrivals, PATHS_MAX, Probes, Way};
use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::stats::{Stats, Verdicts};
use crate::timers::{Timer, Timers};
use question::{Asked, Question};
use third::Third;

pub use train::PLACED_BYTES_MIN;
pub use transmit::{INLINE_BYTES, Transmit};

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
    /// A probe of another address was answered.
    is_elsewhere: bool,
    /// RST|ACK with this REASON, and then nothing more.
    reset: Option<Reason>,
    /// An echo-form RST that refuses this packet.
    echo: Option<Box<(Packet, Reason, Option<u16>)>>,
    /// Tokens that the next ACKs return, one each (CDP-MTU-3), and the paths by which they do; at most [`ECHOES_MAX`].
    echoes: Option<Box<Echoes>>,
}

impl Control {
    fn owes_echo(&self) -> bool {
        self.echoes.as_ref().is_some_and(|echoes| !echoes.0.is_empty())
    }

    /// More than can be at a time go unanswered, as if they had been lost.
    fn owe_echo(&mut self, token: u32, path: u8) {
        let Echoes(echoes) = &mut **self.echoes.get_or_insert_default();
        if echoes.len() < ECHOES_MAX {
            echoes.push((token, path));
        }
    }

    fn take_echo(&mut self) -> Option<(u32, u8)> {
        let Echoes(echoes) = &mut **self.echoes.as_mut()?;
        (!echoes.is_empty()).then(|| echoes.remove(0))
    }
}

/// Tokens and paths in the order in which they came; most connections never have one.
#[derive(Clone, Debug, Default)]
struct Echoes(Vec<(u32, u8)>);

/// PINs with a token that wait for their ACKs at most: as many may come in one batch, one by each path and one for the MTU.
const ECHOES_MAX: usize = PATHS_MAX as usize + 1;

/// PINs that wait for an answer.
#[derive(Clone, Copy, Debug, Default)]
struct Unanswered {
    /// When the first was sent, if there is one.
    first_at: Instant,
    count: u32,
}

impl Unanswered {
    /// One was sent.
    fn note(&mut self, now: Instant) {
        if self.count == 0 {
            self.first_at = now;
        }
        self.count += 1;
    }

    fn since(&self) -> Option<Instant> {
        (self.count > 0).then_some(self.first_at)
    }
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
    config: Arc<Config>,
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
    cookie: Option<Box<Cookie>>,
    /// Transmissions of SYN or SYN|ACK so far, and where they are on their round.
    open_tries: u16,
    open_way: Way,
    arrivals: Arrivals,
    probes: Option<Box<Probes>>,
    /// Bytes of the SYN that our SYN|ACK must not exceed (CDP-SYN-4).
    syn_len: u16,
    /// A current packet has come since the open (row 25).
    heard: bool,
    third: Third,
    /// The acknowledgement of the peer's FIN is held back until the user has read everything or closed (CDP-ST-F).
    held_fin: bool,
    heard_at: Instant,
    /// The window that the latest packet told, if its acknowledgement is unread: see `answer`.
    unread: Option<u16>,
    question: Question,
    asked: Asked,
    ended_at: Option<Instant>,
    /// The peer's host said that nobody is there, and nothing was heard since (CDP-ENC-12).
    refused_since: Option<Instant>,
    sent_at: Instant,
    unanswered: Unanswered,
    persist_tries: u16,
    /// CECOUNT as it was last told.
    told_ce: u32,
    /// The user found no room in the send queue for so many bytes; an empty message counts as one.
    blocked: Option<NonZeroUsize>,
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
    pub fn connect(now: Instant, flow: FlowKey, config: impl Into<Arc<Config>>, secret: Secret) -> Self {
        let config = config.into();
        // [CDP-ST-1] send SYN, start the SYN timer
        let mut this = Self::new(now, flow, &config, secret, Seq::new(0), State::SynSent);
        this.active = true;
        this.control.open = true;
        this.timers.set(Timer::SynGiveUp, now + config.syn_time);
        this
    }

    fn new(
        now: Instant,
        flow: FlowKey,
        config: &Arc<Config>,
        secret: Secret,
        irs: Seq,
        state: State,
    ) -> Self {
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
            open_way: Way::default(),
            arrivals: Arrivals::default(),
            probes: None,
            syn_len: u16::MAX,
            heard: false,
            third: Third::default(),
            held_fin: false,
            heard_at: now,
            unread: None,
            question: Question::NONE,
            asked: Asked::default(),
            ended_at: None,
            refused_since: None,
            sent_at: now,
            unanswered: Unanswered::default(),
            persist_tries: 0,
            told_ce: 0,
            blocked: None,
            quiet_since: now,
            result: CloseResult::default(),
            error: None,
            events: 0,
            stats: Stats::default(),
            verdicts: Verdicts::new(now),
            config: config.clone(),
        }
    }

    // ── Outputs ───────────────────────────────────────────────────────────────────────────────────────────────

    /// The next event, each at most once until it happens again.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.note_writable();
        if self.events == 0 {
            return None;
        }
        let event = Event::ALL.into_iter().find(|event| self.events & event.bit() != 0)?;
        self.events &= !event.bit();
        Some(event)
    }

    /// When [`Connection::handle_timeout`] must be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
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
}

fn rules(config: &Config) -> Rules {
    let message_bytes = open::announced_message(config);
    Rules { service: config.service, message_bytes, coalesce: false }
}

/// An empty body, for packets that are all head.
fn no_body() -> Bytes {
    Bytes::new()
}
