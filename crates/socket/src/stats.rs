//! Snapshots of counters, for people and programs.

mod json;

use std::net::SocketAddr;
use std::time::Duration;

use weft_base::{Address, NodeId, Service};

pub use weft_engine::{IoNodeStats, SideStats};

/// What kept a sender from sending more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum LimitedBy {
    /// The application gave nothing to send.
    #[default]
    Application,
    /// The peer granted no more room: its reader is slow.
    ReceiverWindow,
    /// The congestion controller or its pacer held back.
    CongestionWindow,
    /// The same, while losses were being repaired.
    PathLoss,
}

impl LimitedBy {
    /// All verdicts, in the order of [`SocketStats::limited_time`].
    pub const ALL: [Self; 4] =
        [Self::Application, Self::ReceiverWindow, Self::CongestionWindow, Self::PathLoss];

    /// The words a report uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::ReceiverWindow => "receiver window",
            Self::CongestionWindow => "congestion window",
            Self::PathLoss => "path loss",
        }
    }
}

/// Counters and measures of one connection.
#[derive(Clone, PartialEq, Debug)]
pub struct SocketStats {
    /// The state of section 10, in words: `ESTABLISHED` and so on.
    pub state: &'static str,
    /// Datagram or stream.
    pub service: Service,
    /// This end.
    pub local: Address,
    /// The other end.
    pub peer: Address,
    /// The underlay address packets go to.
    pub underlay: SocketAddr,
    /// How long the peer has not been heard (CDP-TMR-3).
    pub silence: Duration,
    /// The I/O node through which the last packet went; `None` where the peer is reached directly.
    pub sent_through: Option<NodeId>,
    /// The I/O node through which the peer was last heard.
    pub heard_through: Option<NodeId>,
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Least round-trip time lately.
    pub rtt_min: Option<Duration>,
    /// Variance of the round-trip time (RFC 6298).
    pub rtt_variance: Duration,
    /// Retransmission time-out.
    pub rto: Duration,
    /// Name of the congestion controller.
    pub congestion: &'static str,
    /// Congestion window, in packets.
    pub congestion_window: u32,
    /// Rate of the pacer in packets a second, if it paces.
    pub pacing_rate: Option<u64>,
    /// Packets in flight.
    pub in_flight: u32,
    /// Packets the peer has room for beyond those sent.
    pub send_window: u64,
    /// Packets this end has room for beyond those received.
    pub receive_window: u64,
    /// Largest data segment in use, in bytes.
    pub mss: u16,
    /// Bytes accepted from the user that were not sent yet.
    pub queued_bytes: usize,
    /// Bytes of user data sent, without retransmissions.
    pub bytes_sent: u64,
    /// Bytes of user data acknowledged by the peer.
    pub bytes_acked: u64,
    /// Bytes of user data that arrived in order.
    pub bytes_received: u64,
    /// Messages (or writes) accepted from the user.
    pub messages_sent: u64,
    /// Messages (or pieces of a stream) handed to the user.
    pub messages_received: u64,
    /// Packets sent, of all kinds.
    pub packets_sent: u64,
    /// Packets received that passed the checks.
    pub packets_received: u64,
    /// Data packets sent again.
    pub retransmitted: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Losses that turned out to be late arrivals.
    pub spurious: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Data packets that arrived more than once.
    pub duplicates: u64,
    /// Data packets that arrived out of order.
    pub out_of_order: u64,
    /// Packets acknowledged here but never delivered to the reader.
    pub discarded: u64,
    /// The same at the peer, as it told.
    pub discarded_by_peer: u64,
    /// What limits the sender now.
    pub limited_by: LimitedBy,
    /// Time spent under each verdict, in the order of [`LimitedBy::ALL`].
    pub limited_time: [Duration; 4],
}

impl SocketStats {
    /// The verdict over the life of the connection: where most of the time went, the application's own idling apart
    /// unless it took nearly everything.
    #[must_use]
    pub fn mostly_limited_by(&self) -> LimitedBy {
        let total: Duration = self.limited_time.iter().sum();
        let [application, rest @ ..] = self.limited_time;
        if application * 10 >= total * 9 {
            return LimitedBy::Application;
        }
        let worst = rest.iter().enumerate().max_by_key(|(_, time)| **time).map_or(0, |(index, _)| index);
        LimitedBy::ALL[worst + 1]
    }
}

/// A counter with its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    /// What is counted, in the words of the specification where it has them.
    pub name: &'static str,
    /// How often.
    pub count: u64,
}

/// Counters of one port: a link and its turns.
#[derive(Clone, PartialEq, Debug)]
pub struct PortStats {
    /// The link in words: `udp`, `fault(udp)`, `loopback`.
    pub link: String,
    /// The underlay address of the link.
    pub underlay: SocketAddr,
    /// Turns run.
    pub turns: u64,
    /// Turns that found packets.
    pub busy_turns: u64,
    /// Packets that came in.
    pub packets_in: u64,
    /// Packets that went out.
    pub packets_out: u64,
    /// Bytes that came in, headers of the underlay apart.
    pub bytes_in: u64,
    /// Bytes that went out, headers of the underlay apart.
    pub bytes_out: u64,
    /// Receive calls that brought something.
    pub receive_calls: u64,
    /// Send calls that took something.
    pub send_calls: u64,
    /// Packets that found the kernel's receive buffer full, as a network would drop them.
    pub receive_overflows: u64,
    /// Times a thread went to sleep waiting for the link.
    pub sleeps: u64,
    /// Packets left at a slot that was busy.
    pub backlogged: u64,
    /// Packets dropped because the link took no more for some milliseconds, as a network would drop them.
    pub stuck_drops: u64,
}

/// A listener, as a snapshot shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListenerStats {
    /// Where it listens.
    pub address: Address,
    /// Datagram or stream.
    pub service: Service,
    /// Connections that wait for `accept`.
    pub waiting: usize,
    /// Connections whose open is not finished.
    pub half_open: usize,
    /// Connections accepted so far.
    pub accepted: u64,
}

/// Everything a node counts.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeStats {
    /// The node.
    pub node: NodeId,
    /// The underlay address of the first link.
    pub underlay: SocketAddr,
    /// The ports, one per link.
    pub ports: Vec<PortStats>,
    /// Packets dropped, by reason (CDP-CHK-3); reasons that never occurred are left out.
    pub drops: Vec<Counter>,
    /// Echo-form RSTs sent.
    pub resets_sent: u64,
    /// Bytes of memory promised to peers as receive slots, or taken by messages of several packets (CDP-LIM-13).
    pub promised_bytes: usize,
    /// Connections in QUIET (CDP-LIM-12).
    pub quiet: usize,
    /// The I/O nodes between this node and others, side by side.
    pub sides: Vec<SideStats>,
    /// Who listens.
    pub listeners: Vec<ListenerStats>,
    /// All connections.
    pub connections: Vec<SocketStats>,
}

impl NodeStats {
    /// All packets dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|drop| drop.count).sum()
    }
}
