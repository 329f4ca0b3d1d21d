//! Snapshots of counters, for people and programs.

mod side;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use weft_base::{Address, NodeId, Service};

use side::side_json;
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
    /// Bytes of memory promised to peers as receive slots (CDP-LIM-13).
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

    /// The snapshot as one JSON object; times in nanoseconds, names ending in `_ns`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(1024);
        // Writing to a `String` cannot fail.
        let _ = write!(
            out,
            "{{\"node\":\"{}\",\"underlay\":\"{}\",\"resets_sent\":{},\"promised_bytes\":{},\"quiet\":{}",
            self.node, self.underlay, self.resets_sent, self.promised_bytes, self.quiet
        );
        let drops = self.drops.iter().map(|drop| format!("\"{}\":{}", drop.name, drop.count));
        let _ = write!(out, ",\"drops\":{{{}}}", join(drops));
        let _ = write!(out, ",\"ports\":[{}]", join(self.ports.iter().map(PortStats::to_json)));
        let _ = write!(out, ",\"sides\":[{}]", join(self.sides.iter().map(side_json)));
        let _ = write!(out, ",\"listeners\":[{}]", join(self.listeners.iter().map(ListenerStats::to_json)));
        let _ =
            write!(out, ",\"connections\":[{}]}}", join(self.connections.iter().map(SocketStats::to_json)));
        out
    }
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(",")
}

fn service_name(service: Service) -> &'static str {
    match service {
        Service::Datagram => "datagram",
        Service::Stream => "stream",
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            control if control.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

impl PortStats {
    fn to_json(&self) -> String {
        format!(
            "{{\"link\":{},\"underlay\":\"{}\",\"turns\":{},\"busy_turns\":{},\"packets_in\":{},\"packets_out\":{},\
             \"bytes_in\":{},\"bytes_out\":{},\"receive_calls\":{},\"send_calls\":{},\"sleeps\":{},\"backlogged\":{},\"stuck_drops\":{},\"receive_overflows\":{}}}",
            quoted(&self.link),
            self.underlay,
            self.turns,
            self.busy_turns,
            self.packets_in,
            self.packets_out,
            self.bytes_in,
            self.bytes_out,
            self.receive_calls,
            self.send_calls,
            self.sleeps,
            self.backlogged,
            self.stuck_drops,
            self.receive_overflows
        )
    }
}

impl ListenerStats {
    fn to_json(&self) -> String {
        format!(
            "{{\"address\":\"{}\",\"service\":\"{}\",\"waiting\":{},\"half_open\":{},\"accepted\":{}}}",
            self.address,
            service_name(self.service),
            self.waiting,
            self.half_open,
            self.accepted
        )
    }
}

fn or_null(value: Option<u128>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| value.to_string())
}

fn node_or_null(node: Option<NodeId>) -> String {
    node.map_or_else(|| "null".to_owned(), |node| format!("\"{node}\""))
}

impl SocketStats {
    /// The snapshot as one JSON object; times in nanoseconds, names ending in `_ns`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = format!(
            "{{\"state\":\"{}\",\"service\":\"{}\",\"local\":\"{}\",\"peer\":\"{}\",\"underlay\":\"{}\"",
            self.state,
            service_name(self.service),
            self.local,
            self.peer,
            self.underlay
        );
        let _ = write!(
            out,
            ",\"rtt_ns\":{},\"rtt_min_ns\":{},\"rtt_variance_ns\":{},\"rto_ns\":{},\"congestion\":\"{}\",\
             \"congestion_window\":{},\"pacing_rate\":{}",
            or_null(self.rtt.map(|time| time.as_nanos())),
            or_null(self.rtt_min.map(|time| time.as_nanos())),
            self.rtt_variance.as_nanos(),
            self.rto.as_nanos(),
            self.congestion,
            self.congestion_window,
            or_null(self.pacing_rate.map(u128::from))
        );
        let _ = write!(
            out,
            ",\"silence_ns\":{},\"sent_through\":{},\"heard_through\":{}",
            self.silence.as_nanos(),
            node_or_null(self.sent_through),
            node_or_null(self.heard_through)
        );
        for (name, count) in self.counts() {
            let _ = write!(out, ",\"{name}\":{count}");
        }
        let _ = write!(out, ",\"limited_by\":\"{}\",\"limited_ns\":{{", self.limited_by.name());
        let times = LimitedBy::ALL.iter().zip(self.limited_time);
        out.push_str(&join(
            times.map(|(verdict, time)| format!("\"{}\":{}", verdict.name(), time.as_nanos())),
        ));
        out.push_str("}}");
        out
    }

    fn counts(&self) -> [(&'static str, u64); 21] {
        [
            ("in_flight", u64::from(self.in_flight)),
            ("send_window", self.send_window),
            ("receive_window", self.receive_window),
            ("mss", u64::from(self.mss)),
            ("queued_bytes", self.queued_bytes as u64),
            ("bytes_sent", self.bytes_sent),
            ("bytes_acked", self.bytes_acked),
            ("bytes_received", self.bytes_received),
            ("messages_sent", self.messages_sent),
            ("messages_received", self.messages_received),
            ("packets_sent", self.packets_sent),
            ("packets_received", self.packets_received),
            ("retransmitted", self.retransmitted),
            ("lost", self.lost),
            ("spurious", self.spurious),
            ("timeouts", self.timeouts),
            ("duplicates", self.duplicates),
            ("out_of_order", self.out_of_order),
            ("discarded", self.discarded),
            ("discarded_by_peer", self.discarded_by_peer),
            ("limited_by_index", self.limited_by as u64),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_json_is_quoted() {
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
    }
}
