//! Congestion control: how many packets a sender may have in flight, and how fast it should let them go.
//!
//! A controller is a small machine that is told what left, what was acknowledged and what was lost, and is asked for
//! a window in packets and a rate in packets per second. There are three: [`Fixed`], the papers' constant window for
//! dedicated networks; [`Cubic`], the default, which fills a path until it loses packets; and [`Model`], which
//! measures the path's rate and round trip, sends at that rate and keeps queues short.
//!
//! [`Congestion`] holds one of them and enforces what no controller may break: [CDP-CC-3], the window never grows by
//! more than the count of packets newly acknowledged. Congestion control is local to the sender (CDP-CC-1).

mod cubic;
mod fixed;
mod hystart;
mod model;
mod noise;
mod path;
#[cfg(test)]
mod rival;
#[cfg(test)]
mod simulation;
mod standing;
#[cfg(test)]
mod tests;

use std::time::Duration;

use weft_base::{Instant, limits};

pub use self::cubic::Cubic;
pub use self::fixed::Fixed;
pub use self::model::Model;
use crate::rate::RateSample;

/// Packets a connection may send before it has heard anything of the path but how long the open took.
///
/// RFC 6928 gives 10 for paths of which nothing is known. 32 packets of 1472 bytes are 47 KB: less than the one
/// 64 KiB super-packet that a kernel's TCP hands to its device, and a third of the buffer that even small switches
/// give to a port, while a message of the usual sizes crosses a cluster in one round trip. Where that is too much
/// for a path, the first round trip loses packets and the controller reacts as to any loss.
pub const INITIAL_WINDOW: u32 = 32;

/// The same for CUBIC on a long path (RFC 6928). There a slow start that begins with three times the window of others has three
/// times their part of the path when it is full, and that lasts: windows come together in many seconds (decision 0026).
pub const INITIAL_WINDOW_LONG: u32 = 10;

/// The round trip of a path from which on it is a long one, that leaves the cluster: tens of those within one.
pub const LONG_RTT: Duration = Duration::from_millis(1);

/// A window never falls below this many packets, except after a time-out.
pub const WINDOW_MIN: u32 = 2;

/// Greatest window that any controller may ask for (CDP-ACK-6).
#[allow(clippy::cast_possible_truncation)] // 2^30 − 1
pub const WINDOW_MAX: u32 = (limits::IN_FLIGHT_MAX - 1) as u32;

/// Which controller a connection runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Kind {
    /// A constant window that reacts to nothing, for networks declared dedicated (CDP-CC-2; the papers).
    Fixed,
    /// CUBIC by RFC 9438, with HyStart++ by RFC 9406.
    #[default]
    Cubic,
    /// A model of the path's rate and round trip, of the BBR family, for clusters.
    Model,
}

impl Kind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [Self; 3] = [Self::Fixed, Self::Cubic, Self::Model];

    /// The name that options and statistics use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Cubic => "cubic",
            Self::Model => "model",
        }
    }

    /// Whether it goes by [`Ack::delivery`], which costs each packet something to measure.
    #[must_use]
    pub const fn is_by_rate(self) -> bool {
        matches!(self, Self::Model)
    }

    /// The kind called `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// What a controller starts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// First window, in packets; without one it is [`INITIAL_WINDOW`], or [`INITIAL_WINDOW_LONG`].
    pub initial_window: Option<u32>,
    /// The constant window of [`Kind::Fixed`], in packets.
    pub fixed_window: u32,
}

impl Default for Settings {
    /// The first window that suits the path, and a fixed window as large as the default receive window (CDP-LIM-5).
    fn default() -> Self {
        Self { initial_window: None, fixed_window: limits::RECEIVE_SLOTS }
    }
}

/// An acknowledgement that took packets out of flight.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ack {
    /// When it was handled.
    pub now: Instant,
    /// Packets acknowledged, or held by SACK, for the first time.
    pub newly_acked: u32,
    /// Packets still in flight after it.
    pub in_flight: u32,
    /// When the newest of the newly acknowledged packets was last sent; tells where a round trip ends.
    pub sent_at: Instant,
    /// The round-trip sample it gave, if any (CDP-RTX-3).
    pub rtt: Option<Duration>,
    /// Least round trip of the last ten seconds.
    pub min_rtt: Option<Duration>,
    /// Smoothed round trip.
    pub srtt: Option<Duration>,
    /// The delivery rate it measured, if any and if the controller [goes by it](Kind::is_by_rate).
    pub delivery: Option<RateSample>,
    /// Whether the window or the pacing rate held the sender back since the acknowledgement before this one. A
    /// window that is not used for a round trip tells nothing of the path and does not grow.
    pub is_window_limited: bool,
}

/// Packets declared lost, or a time-out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    /// When they were declared lost.
    pub now: Instant,
    /// How many.
    pub lost: u32,
    /// Packets in flight after they were taken out.
    pub in_flight: u32,
    /// When the last of them to be sent was sent; one reaction answers all that was sent before it.
    pub largest_sent_at: Instant,
    /// Whether the retransmission timer ran out, so that nothing is known of what is in flight.
    pub is_timeout: bool,
}

/// A congestion controller. Counts are packets, rates are packets per second.
pub trait Controller {
    /// A packet left; `in_flight` counts it. `is_app_limited` says that the sender has no more for the room it has.
    fn handle_sent(&mut self, _now: Instant, _in_flight: u32, _is_app_limited: bool) {}

    /// Packets were acknowledged.
    fn handle_ack(&mut self, ack: &Ack);

    /// Packets were lost. The loss of a path-MTU probe must not come here (CDP-MTU-4).
    fn handle_loss(&mut self, loss: &Loss);

    /// The receiver saw congestion marks; the newest packet that ECE can speak of was sent at `sent_at` (CDP-CC-5).
    fn handle_ecn(&mut self, now: Instant, sent_at: Instant);

    /// The last reaction to a loss was an error: what was declared lost has arrived after all.
    fn handle_spurious(&mut self, _now: Instant) {}

    /// Packets that may be in flight.
    fn window(&self) -> u32;

    /// Packets per second to be spread evenly, at least 1; `None` to send as the window allows.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }
}

#[derive(Clone, Debug)]
enum Algorithm {
    Fixed(Fixed),
    Cubic(Box<Cubic>),
    Model(Box<Model>),
}

/// What a controller is made from, for an end that has sent nothing: many only receive, or are idle.
#[derive(Clone, Copy, Debug)]
struct Seed {
    kind: Kind,
    settings: Settings,
    now: Instant,
    /// The open took as long as on a path that leaves the cluster.
    is_long: bool,
}

impl Seed {
    fn grow(&self) -> Algorithm {
        let Settings { initial_window, fixed_window } = self.settings;
        let window = initial_window.unwrap_or(INITIAL_WINDOW);
        match self.kind {
            Kind::Fixed => Algorithm::Fixed(Fixed::new(fixed_window)),
            Kind::Cubic if self.is_long && initial_window.is_none() => {
                Algorithm::Cubic(Cubic::new(window).begin_with(INITIAL_WINDOW_LONG).into())
            }
            Kind::Cubic => Algorithm::Cubic(Cubic::new(window).into()),
            Kind::Model => Algorithm::Model(Model::new(window, self.now).into()),
        }
    }
}

/// What a connection may have in flight by itself where packets stay within this host: more than such a path holds, and few enough to stay in
/// the processor's caches on their way.
pub(crate) const NEAR_PACKETS_MAX: u8 = 8;

/// The controller of a connection, one of [`Kind`], held to [CDP-CC-3].
///
/// ```
/// use weft_base::Instant;
/// use weft_proto::congestion::{Congestion, Controller, Kind};
///
/// let congestion = Congestion::new(Kind::Cubic, Instant::ZERO);
/// assert_eq!((congestion.name(), congestion.window()), ("cubic", 32));
/// ```
#[derive(Clone, Debug)]
pub struct Congestion {
    seed: Seed,
    /// Made with the first that it is told.
    algorithm: Option<Algorithm>,
    /// The window given to the sender: what the controller asks for, but never grown beyond what was acknowledged.
    granted: u32,
    /// Packets that may be in flight where they stay within this host.
    pub(crate) near: u8,
}

/// Calls one method of whichever controller is there.
macro_rules! each {
    ($algorithm:expr, $inner:ident => $call:expr) => {
        match $algorithm {
            Algorithm::Fixed($inner) => $call,
            Algorithm::Cubic($inner) => $call,
            Algorithm::Model($inner) => $call,
        }
    };
}

impl Congestion {
    /// A controller of `kind` with the default [`Settings`].
    #[must_use]
    pub fn new(kind: Kind, now: Instant) -> Self {
        Self::with_settings(kind, now, &Settings::default())
    }

    /// A controller of `kind` at the first window of `settings`.
    #[must_use]
    pub fn with_settings(kind: Kind, now: Instant, settings: &Settings) -> Self {
        Self::of(Seed { kind, settings: *settings, now, is_long: false })
    }

    fn of(seed: Seed) -> Self {
        let granted = each!(&seed.grow(), inner => inner.window());
        Self { seed, algorithm: None, granted, near: NEAR_PACKETS_MAX }
    }

    /// The open took so long; says nothing once something was sent.
    pub fn expect(&mut self, rtt: Duration) {
        if rtt >= LONG_RTT && self.algorithm.is_none() {
            *self = Self::of(Seed { is_long: true, ..self.seed });
        }
    }

    /// The name of its kind, as statistics show it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.seed.kind.name()
    }

    #[inline]
    fn algorithm(&mut self) -> &mut Algorithm {
        self.algorithm.get_or_insert_with(|| self.seed.grow())
    }

    /// Takes over a smaller window at once; a larger one as far as `newly_acked` packets allow.
    fn grant(&mut self, newly_acked: u32) {
        let asked = each!(self.algorithm(), inner => inner.window()).min(WINDOW_MAX);
        // [CDP-CC-3] growth is bounded by the packets newly acknowledged, also when a reaction is undone
        self.granted = asked.min(self.granted.saturating_add(newly_acked)).max(1);
    }
}

impl Controller for Congestion {
    fn handle_sent(&mut self, now: Instant, in_flight: u32, is_app_limited: bool) {
        each!(self.algorithm(), inner => inner.handle_sent(now, in_flight, is_app_limited));
        self.grant(0);
    }

    fn handle_ack(&mut self, ack: &Ack) {
        each!(self.algorithm(), inner => inner.handle_ack(ack));
        self.grant(ack.newly_acked);
    }

    fn handle_loss(&mut self, loss: &Loss) {
        each!(self.algorithm(), inner => inner.handle_loss(loss));
        self.grant(0);
    }

    fn handle_ecn(&mut self, now: Instant, sent_at: Instant) {
        each!(self.algorithm(), inner => inner.handle_ecn(now, sent_at));
        self.grant(0);
    }

    fn handle_spurious(&mut self, now: Instant) {
        each!(self.algorithm(), inner => inner.handle_spurious(now));
        self.grant(0);
    }

    fn window(&self) -> u32 {
        self.granted
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.algorithm.as_ref().and_then(|algorithm| each!(algorithm, inner => inner.pacing_rate()))
    }
}
