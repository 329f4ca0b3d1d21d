//! Counters of one connection, and what limits it.

use std::time::Duration;

use weft_base::Instant;

/// What keeps a sender from sending more right now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum LimitedBy {
    /// The application has given nothing to send.
    #[default]
    Application,
    /// The peer has granted no more slots.
    ReceiverWindow,
    /// The congestion controller or its pacer.
    CongestionWindow,
    /// The same, while losses are being repaired.
    PathLoss,
}

impl LimitedBy {
    /// All verdicts, in the order of [`Stats::limited_time_ns`].
    pub const ALL: [Self; 4] =
        [Self::Application, Self::ReceiverWindow, Self::CongestionWindow, Self::PathLoss];

    /// The words a report uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::ReceiverWindow => "receiver window",
            Self::CongestionWindow => "congestion window",
            Self::PathLoss => "path loss",
        }
    }
}

/// Counters since the open. They add up: numbers sent once = acknowledged + in flight + lost and not repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Packets sent, of all kinds.
    pub packets_sent: u64,
    /// Packets that passed the checks up to the seal and the window.
    pub packets_received: u64,
    /// DAT and FIN numbers sent for the first time.
    pub numbers_sent: u64,
    /// Numbers acknowledged.
    pub numbers_acked: u64,
    /// Numbers dropped unacknowledged when the peer closed (row 30).
    pub numbers_dropped: u64,
    /// DAT and FIN packets sent again.
    pub retransmitted: u64,
    /// Numbers declared lost.
    pub lost: u64,
    /// Losses that turned out not to be.
    pub spurious: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Tail-loss probes.
    pub tail_probes: u64,
    /// Bytes of users' data sent, first transmissions only.
    pub bytes_sent: u64,
    /// Bytes of users' data acknowledged to us or held by the peer.
    pub bytes_acked: u64,
    /// Bytes of users' data handed over in order.
    pub bytes_received: u64,
    /// Messages or writes accepted from the user.
    pub messages_sent: u64,
    /// Messages handed to the user; chunks for a stream.
    pub messages_received: u64,
    /// DAT packets that had come before.
    pub duplicates: u64,
    /// DAT packets that came out of order.
    pub out_of_order: u64,
    /// Packets dropped as not current: damaged, late, or hostile (CDP-SEQ-9).
    pub not_current: u64,
    /// Packets dropped for a false acknowledgement (CDP-ACK-5).
    pub false_acks: u64,
    /// Packets dropped for other reasons of the state (row 50).
    pub unexpected: u64,
    /// Challenges sent.
    pub challenges: u64,
    /// DAT packets received with CE.
    pub ce_received: u64,
    /// Acknowledgements received with ECE.
    pub ece_received: u64,
    /// Pure ACKs sent.
    pub acks_sent: u64,
    /// PINs sent.
    pub pins_sent: u64,
    /// Packets we acknowledged but never delivered (CDP-ST-D).
    pub discarded: u64,
    /// The same, as told by the peer.
    pub discarded_by_peer: u64,
    /// Time spent under each verdict of [`LimitedBy::ALL`], in nanoseconds.
    pub limited_time_ns: [u64; 4],
    /// The verdict now.
    pub limited_by: LimitedBy,
}

/// What a snapshot adds to the counters: measures of the path and the windows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PathStats {
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// Least round-trip time of the last ten seconds.
    pub min_rtt: Option<Duration>,
    /// Its variance (RFC 6298).
    pub rtt_var: Duration,
    /// Retransmission time-out.
    pub rto: Duration,
    /// Congestion window, in packets.
    pub congestion_window: u32,
    /// Rate of the pacer, in packets a second.
    pub pacing_rate: Option<u64>,
    /// Name of the congestion controller.
    pub controller: &'static str,
    /// Packets in flight.
    pub in_flight: u32,
    /// Slots the peer has granted beyond what was sent.
    pub send_window: u64,
    /// Slots we have granted beyond what has arrived.
    pub receive_window: u64,
    /// Largest data segment in use, in bytes.
    pub mss: u16,
    /// Bytes that wait to be sent for the first time.
    pub queued_bytes: usize,
}

/// Sums up the time under each verdict.
#[derive(Clone, Debug)]
pub(crate) struct Verdicts {
    /// Since when the time under the present one, [`Stats::limited_by`], is not counted.
    since: Instant,
}

impl Verdicts {
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now }
    }

    pub(crate) fn enter(&mut self, now: Instant, verdict: LimitedBy, stats: &mut Stats) {
        if verdict == stats.limited_by {
            return;
        }
        self.settle(now, stats);
        stats.limited_by = verdict;
    }

    pub(crate) fn settle(&mut self, now: Instant, stats: &mut Stats) {
        let spent = u64::try_from((now - self.since).as_nanos()).unwrap_or(u64::MAX);
        stats.limited_time_ns[stats.limited_by as usize] += spent;
        self.since = now;
    }
}
