//! Exhaustive search of the states of open, close and keep-alive of two ends.
//!
//! The states are those of the real machines: [`weft_proto::Connection`] and [`weft_proto::Listener`] are cloned, and
//! from every state every next step is taken that the network, the clocks or the users could take: any packet among the
//! last few of each direction arrives, be it for the first time or again; either end's next timer fires, however late
//! the other end's clock is; either user closes, writes, reads, or aborts where the scenario lets it. A packet is lost
//! by not arriving before it is one of the last few no more. So loss, duplication and reordering are covered in all
//! combinations within that bound.
//!
//! What is held in every state: the watch over every packet ([`crate::watch::wire`]), exact delivery, no reset
//! believed while the end it speaks for lives, honest results. And from every state the *fair* continuation (all that is in
//! flight is lost, then nothing any more; users finish what they began) must reach the end of both connections within
//! a bounded number of steps: no state is stuck.
//!
//! Two states count as one if their [`fingerprint`]s agree: everything the machines are made of except counters,
//! round-trip measures, congestion control and jitter, with times as their order and coarse age only. The search is
//! exhaustive up to that abstraction and the bounds of the [`Scenario`].

pub mod fingerprint;
pub mod pair;
pub mod search;
mod take;

use std::time::Duration;

use weft_base::Service;
use weft_proto::{Config, KeepAlive, congestion};

pub use search::{Counterexample, Summary, search};

/// A time that no other timer reaches.
const LONG: Duration = Duration::from_secs(1_000);

/// What is searched.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name for reports.
    pub name: &'static str,
    /// How the two open.
    pub opening: Opening,
    /// Messages each user may write, client first.
    pub writes: [u8; 2],
    /// Which users may close.
    pub closes: [bool; 2],
    /// Which users may abort.
    pub aborts: [bool; 2],
    /// Whether the server's node may lose everything once.
    pub restarts: bool,
    /// Whether the ends lose patience with a silent peer soon; otherwise only once nothing else can happen.
    pub keeps_alive: bool,
    /// Whether readers read when they like instead of at once; with CONFIRM agreed.
    pub confirms: bool,
    /// Packets of each direction that may still arrive: the last so many different ones.
    pub in_flight: usize,
    /// Connections that one node makes at most in one history.
    pub incarnations: u8,
    /// States at most; a search that would need more fails.
    pub states_max: usize,
}

/// How two ends open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opening {
    /// A client and a listener that keeps embryos.
    Embryo,
    /// A client and a listener that always answers with cookies.
    Cookie,
    /// Both connect to each other.
    Simultaneous,
}

impl Scenario {
    /// Open and close without data, two packets in flight.
    #[must_use]
    pub fn new(name: &'static str, opening: Opening) -> Self {
        Self {
            name,
            opening,
            writes: [0, 0],
            closes: [true, true],
            aborts: [false, false],
            restarts: false,
            keeps_alive: false,
            confirms: false,
            in_flight: 2,
            incarnations: 2,
            states_max: 2_000_000,
        }
    }

    /// The searches of every test run: the three ways to open, and close.
    #[must_use]
    pub fn brief() -> Vec<Self> {
        vec![
            Self::new("open and close", Opening::Embryo),
            Self::new("open and close with cookies", Opening::Cookie),
            Self { incarnations: 1, ..Self::new("simultaneous open and close", Opening::Simultaneous) },
        ]
    }

    /// The searches of a release build: those, keep-alive, data, aborts, and a server that loses its memory.
    #[must_use]
    pub fn usual() -> Vec<Self> {
        let mut all = Self::brief();
        all.extend([
            Self { keeps_alive: true, incarnations: 1, ..Self::new("keep-alive", Opening::Embryo) },
            Self { writes: [1, 0], incarnations: 1, ..Self::new("one message", Opening::Embryo) },
            Self { aborts: [true, true], ..Self::new("aborts", Opening::Embryo) },
            Self { restarts: true, ..Self::new("a server that restarts", Opening::Embryo) },
        ]);
        all
    }

    /// The searches for which one waits: one packet more of each direction, data both ways, confirmed close.
    #[must_use]
    pub fn deep() -> Vec<Self> {
        let deeper = |scenario: Self| Self { in_flight: 3, states_max: 20_000_000, ..scenario };
        let mut all: Vec<Self> = Self::usual().into_iter().map(deeper).collect();
        all.push(Self { writes: [1, 1], ..Self::new("a message each", Opening::Embryo) });
        all.push(Self { writes: [1, 0], ..Self::new("one message with cookies", Opening::Cookie) });
        all.push(Self { writes: [1, 0], confirms: true, ..Self::new("confirmed close", Opening::Embryo) });
        all.push(Self { writes: [1, 1], ..Self::new("simultaneous, a message each", Opening::Simultaneous) });
        all
    }

    /// The configuration of both ends: every timer that doubles is held at one second and every patience is short, so
    /// that a history has few tries and still all of their ends.
    #[must_use]
    pub fn config(&self) -> Config {
        let mut config = Config::new(Service::Datagram, 512);
        config.message_bytes = None;
        config.coalesce = false;
        config.receive_slots = 4;
        config.send_packets = 4;
        config.pacing = false;
        config.probe_mtu = false;
        config.congestion = congestion::Kind::Fixed;
        config.confirm = self.confirms;
        config.ack_delay = Duration::ZERO;
        config.rto_init = Duration::from_secs(1);
        config.rto_max = Duration::from_secs(1);
        config.syn_time = Duration::from_millis(1_500);
        config.give_up_time = Duration::from_millis(50);
        config.give_up_tries = 3;
        config.fin_give_up = Duration::from_millis(1_500);
        config.keep_alive = if self.keeps_alive {
            KeepAlive { interval: Duration::from_secs(3), expiry: Duration::from_secs(6) }
        } else {
            KeepAlive { interval: LONG, expiry: LONG * 2 }
        };
        config.embryos_max = if self.opening == Opening::Cookie { 0 } else { 4 };
        config
    }
}
