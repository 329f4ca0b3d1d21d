//! The sending half: what goes next, when it counts as lost, and how fast it goes.

mod near;
mod output;
mod recovery;

use weft_base::{Instant, Seq, limits};
use weft_wire::{BodySum, FarSack, Sack};

use crate::config::Config;
use crate::congestion::Congestion;
use crate::flight::Flight;
use crate::mtu::Mtu;
use crate::open::Agreed;
use crate::pacer::Pacer;
use crate::paths::Paths;
use crate::queue::SendQueue;
use crate::rtt::Rtt;
use crate::stats::Stats;
use crate::timers::Timers;

/// Duplicate acknowledgements that declare a number lost where there is no SACK (CDP-RTX-5).
const DUPLICATE_ACKS: u32 = 3;

/// A numbered packet that is to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbered {
    pub(crate) seq: Seq,
    /// How many numbers after SND.UNA: the flight has its data there.
    pub(crate) at: usize,
    pub(crate) eom: bool,
    pub(crate) fin: bool,
    /// That of its data, if it was summed up as it was copied.
    pub(crate) sum: Option<BodySum>,
    /// 0 for the first transmission, k for retransmission k.
    pub(crate) attempt: u32,
    /// The path it goes by (CDP-IO-2).
    pub(crate) path: u8,
}

/// What a valid acknowledgement says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked<'a> {
    /// When it came, which may be before it is read.
    pub(crate) came_at: Instant,
    /// The number before which everything has arrived.
    pub(crate) full: Seq,
    /// Slots from there on.
    pub(crate) window: u64,
    pub(crate) sack: Option<&'a Sack>,
    pub(crate) far_sack: Option<&'a FarSack>,
    /// What it does not name is not held, as far as it can name.
    pub(crate) is_report: bool,
    pub(crate) ece: bool,
    /// It could be a duplicate acknowledgement: a pure ACK that answers no probe (CDP-WND-12).
    pub(crate) may_be_duplicate: bool,
    /// The path it came by, where that is known.
    pub(crate) by: Option<u8>,
}

/// Whether `close` has asked for a FIN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fin {
    No,
    Queued,
    Sent,
}

/// Without SACK: what three duplicate acknowledgements have begun (RFC 6582).
#[derive(Clone, Copy, Debug)]
enum Recovery {
    No,
    /// Partial acknowledgements up to here declare the next number lost.
    UpTo(Seq),
    /// A time-out has declared lost all up to here: nothing but the window says what is sent again, and duplicates say nothing.
    TimedOut(Seq),
}

/// The losses that the controller answered last. When all of them turn out not to be, it takes the answer back.
#[derive(Clone, Copy, Debug)]
struct Reaction {
    /// SND.NXT at the first of them; what is lost from here on is another matter.
    until: Seq,
    lost: u32,
    refuted: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Sender {
    pub(crate) queue: SendQueue,
    pub(crate) flight: Flight,
    pub(crate) rtt: Rtt,
    pub(crate) congestion: Congestion,
    pub(crate) mtu: Mtu,
    pacer: Pacer,
    edge: Seq,
    fin: Fin,
    duplicate_acks: u32,
    /// Of use without SACK only.
    recovery: Recovery,
    /// ECE is answered again only for numbers from here on (CDP-CC-5).
    ecn_recover: Seq,
    /// A tail probe is due, and one is out for this tail.
    probe_due: bool,
    probe_out: bool,
    /// So many numbers a time-out lets go whatever the window of the congestion controller.
    force: u32,
    /// The first time-out whose cause is not known yet: packets lost, or an answer late.
    doubt: Option<Instant>,
    /// An answer was taken for that of an earlier transmission, and no round trip was measured since.
    was_late: bool,
    reaction: Reaction,
    /// The congestion window held something back since the last acknowledgement.
    was_limited: bool,
    /// When SND.UNA last moved or an idle sender began (R2).
    progress_at: Instant,
    pacing: bool,
    /// Packets a second that the controller wants, if it does; worked out for the first packet since it has learnt something.
    pacing_rate: Option<u64>,
    is_pacing_rate_old: bool,
    /// New data waits for more of it.
    pub(crate) is_corked: bool,
}

impl Sender {
    pub(crate) fn new(now: Instant, iss: Seq, config: &Config) -> Self {
        let mut flight = Flight::new(iss + 1);
        flight.set_sack(config.sack);
        flight.rate = config.congestion.is_by_rate().then(Box::default);
        Self {
            queue: SendQueue::new(config.service, config.link_mss),
            flight,
            rtt: Rtt::new(config.rto_init, config.ack_delay, config.rto_max),
            congestion: Congestion::with_settings(config.congestion, now, &config.congestion_settings),
            mtu: Mtu::new(config.link_mss, limits::MSS_MIN),
            pacer: Pacer::new(now),
            edge: iss + 1,
            fin: Fin::No,
            duplicate_acks: 0,
            recovery: Recovery::No,
            ecn_recover: iss + 1,
            probe_due: false,
            probe_out: false,
            force: 0,
            doubt: None,
            was_late: false,
            reaction: Reaction { until: iss + 1, lost: 0, refuted: 0 },
            was_limited: false,
            progress_at: now,
            pacing: config.pacing,
            pacing_rate: None,
            is_pacing_rate_old: false,
            is_corked: false,
        }
    }

    /// What the open agreed on, and the peer's window in slots; nothing has been sent yet.
    pub(crate) fn configure(&mut self, config: &Config, agreed: &Agreed, window: u64) {
        let mtu = if config.is_one_link { Mtu::on_one_link } else { Mtu::new };
        self.mtu = mtu(config.link_mss, agreed.peer_mss);
        let may_split = agreed.peer_message.is_some();
        self.queue.configure(self.mtu.current(), agreed.coalesce, may_split, agreed.sealed);
        self.flight.set_sack(config.sack && agreed.peer_sack);
        self.flight.set_large(self.mtu.large());
        self.edge = self.una();
        self.raise_edge(self.una() + window);
    }

    /// Which paths there are. A change of the default is a change of path for all that follows.
    ///
    /// [CDP-IO-9] Round trips, congestion and the size of packets begin anew on the new default, and losses on the one that
    /// was left are no signal of it. What is in flight is probed by it at once, so that nothing waits for a time-out of
    /// the old one.
    pub(crate) fn set_paths(
        &mut self,
        now: Instant,
        paths: Paths,
        config: &Config,
        timers: &mut Timers,
        stats: &mut Stats,
    ) {
        let is_change = paths.default_path() != self.flight.paths().default_path();
        self.flight.set_paths(paths);
        if !is_change {
            return;
        }
        self.rtt.change_path();
        if let Some(rate) = &mut self.flight.rate {
            rate.change_path(now);
        }
        self.mtu.change_path();
        self.set_mss(self.mtu.current());
        self.congestion = Congestion::with_settings(config.congestion, now, &config.congestion_settings);
        self.pacing_rate = None;
        self.is_pacing_rate_old = false;
        self.reaction = Reaction { until: self.una(), lost: 0, refuted: 0 };
        self.ecn_recover = self.nxt();
        if self.flight.has_lost() {
            // What was lost waits for no room on a path that has carried nothing yet.
            self.force = self.force.max(1);
        } else {
            self.handle_tail_timeout(now, timers, stats);
        }
    }

    /// Data segments are cut to `mss` from now on.
    pub(crate) fn set_mss(&mut self, mss: u16) {
        self.queue.set_mss(mss);
        self.flight.set_large(self.mtu.large());
    }

    pub(crate) fn una(&self) -> Seq {
        self.flight.una()
    }

    pub(crate) fn nxt(&self) -> Seq {
        self.flight.nxt()
    }

    pub(crate) fn edge(&self) -> Seq {
        self.edge
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.flight.is_empty() && self.queue.is_empty() && !self.queue.is_mid_message()
    }

    pub(crate) fn queue_fin(&mut self) {
        if self.fin == Fin::No {
            self.fin = Fin::Queued;
        }
    }

    /// Data waits, nothing is in flight that could bring an acknowledgement, and the window is closed (CDP-WND-9).
    pub(crate) fn is_stuck(&self) -> bool {
        !self.queue.is_empty() && self.flight.is_empty() && !self.nxt().is_before(self.edge)
    }

    /// Data waits and the window is closed.
    pub(crate) fn is_window_closed(&self) -> bool {
        !self.queue.is_empty() && !self.nxt().is_before(self.edge)
    }

    /// Whether one packet is in flight, all there was to send, nothing is in doubt, and an acknowledgement of all before `full` is
    /// of that one.
    #[inline]
    pub(crate) fn awaits_answer(&self, full: Seq) -> bool {
        self.flight.is_one()
            && full == self.nxt()
            && self.queue.is_empty()
            && self.fin == Fin::No
            && self.doubt.is_none()
            && !self.probe_out
    }

    /// Whether an acknowledgement with this right edge brings nothing: all is acknowledged, and the window goes as far already.
    #[inline]
    pub(crate) fn knows(&self, edge: Seq) -> bool {
        self.flight.is_empty() && edge.is_at_or_before(self.edge)
    }

    /// Bytes held for the user: not yet sent, and not yet acknowledged.
    pub(crate) fn buffered(&self) -> usize {
        self.queue.bytes() + self.flight.bytes()
    }

    /// Whether the FIN has a number that was not acknowledged.
    pub(crate) fn is_fin_out(&self) -> bool {
        self.fin == Fin::Sent && !self.flight.is_empty()
    }

    /// What an acknowledgement of all before `full` says if it says nothing of the FIN.
    pub(crate) fn before_fin(&self, full: Seq) -> Seq {
        if self.is_fin_out() && full == self.nxt() { full - 1 } else { full }
    }

    /// Forgets all that was to be sent (row 30); returns numbers dropped and packets that never got one.
    pub(crate) fn discard(&mut self) -> (u64, usize) {
        self.probe_due = false;
        self.force = 0;
        self.doubt = None;
        self.fin = Fin::No;
        let unsent = self.queue.clear();
        (self.flight.clear(), unsent)
    }

    /// [CDP-WND-5] SND.EDGE is the greatest edge of all valid acknowledgements.
    pub(crate) fn raise_edge(&mut self, edge: Seq) {
        // [CDP-ACK-6] fewer than 2^30 numbers in flight, whatever the peer grants
        let most = self.una() + (limits::IN_FLIGHT_MAX - 1);
        if self.edge.is_before(edge) {
            self.edge = if most.is_before(edge) { self.edge.later(most) } else { edge };
        }
    }
}
