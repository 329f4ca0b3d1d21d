//! Snapshots as JSON: times in nanoseconds, in fields whose names end in `_ns`.

use std::time::Duration;

use serde_json::{Map, Value, json};
use weft_base::{NodeId, Service};
use weft_engine::{IoNodeStats, SideStats};

use super::{LimitedBy, ListenerStats, NodeStats, PortStats, SocketStats};

impl NodeStats {
    /// The snapshot as one JSON object; times in nanoseconds, names ending in `_ns`.
    #[must_use]
    pub fn to_json(&self) -> String {
        json!({
            "node": self.node.to_string(),
            "underlay": self.underlay.to_string(),
            "resets_sent": self.resets_sent,
            "promised_bytes": self.promised_bytes,
            "quiet": self.quiet,
            "drops": object(self.drops.iter().map(|drop| (drop.name, drop.count.into()))),
            "ports": array(&self.ports, port),
            "sides": array(&self.sides, side),
            "listeners": array(&self.listeners, listener),
            "connections": array(&self.connections, connection),
        })
        .to_string()
    }
}

impl SocketStats {
    /// The snapshot as one JSON object; times in nanoseconds, names ending in `_ns`.
    #[must_use]
    pub fn to_json(&self) -> String {
        connection(self).to_string()
    }
}

fn connection(stats: &SocketStats) -> Value {
    let limited = LimitedBy::ALL.iter().zip(stats.limited_time);
    json!({
        "state": stats.state,
        "service": service(stats.service),
        "local": stats.local.to_string(),
        "peer": stats.peer.to_string(),
        "underlay": stats.underlay.to_string(),
        "rtt_ns": stats.rtt.map(nanos),
        "rtt_min_ns": stats.rtt_min.map(nanos),
        "rtt_variance_ns": nanos(stats.rtt_variance),
        "rto_ns": nanos(stats.rto),
        "congestion": stats.congestion,
        "congestion_window": stats.congestion_window,
        "pacing_rate": stats.pacing_rate,
        "silence_ns": nanos(stats.silence),
        "sent_through": stats.sent_through.as_ref().map(NodeId::to_string),
        "heard_through": stats.heard_through.as_ref().map(NodeId::to_string),
        "in_flight": stats.in_flight,
        "send_window": stats.send_window,
        "receive_window": stats.receive_window,
        "mss": stats.mss,
        "queued_bytes": stats.queued_bytes,
        "bytes_sent": stats.bytes_sent,
        "bytes_acked": stats.bytes_acked,
        "bytes_received": stats.bytes_received,
        "messages_sent": stats.messages_sent,
        "messages_received": stats.messages_received,
        "packets_sent": stats.packets_sent,
        "packets_received": stats.packets_received,
        "retransmitted": stats.retransmitted,
        "lost": stats.lost,
        "spurious": stats.spurious,
        "timeouts": stats.timeouts,
        "duplicates": stats.duplicates,
        "out_of_order": stats.out_of_order,
        "discarded": stats.discarded,
        "discarded_by_peer": stats.discarded_by_peer,
        "limited_by_index": stats.limited_by as u64,
        "limited_by": stats.limited_by.name(),
        "limited_ns": object(limited.map(|(verdict, time)| (verdict.name(), nanos(time).into()))),
    })
}

fn port(stats: &PortStats) -> Value {
    json!({
        "link": stats.link,
        "underlay": stats.underlay.to_string(),
        "turns": stats.turns,
        "busy_turns": stats.busy_turns,
        "packets_in": stats.packets_in,
        "packets_out": stats.packets_out,
        "bytes_in": stats.bytes_in,
        "bytes_out": stats.bytes_out,
        "receive_calls": stats.receive_calls,
        "send_calls": stats.send_calls,
        "sleeps": stats.sleeps,
        "backlogged": stats.backlogged,
        "stuck_drops": stats.stuck_drops,
        "receive_overflows": stats.receive_overflows,
    })
}

fn listener(stats: &ListenerStats) -> Value {
    json!({
        "address": stats.address.to_string(),
        "service": service(stats.service),
        "waiting": stats.waiting,
        "half_open": stats.half_open,
        "accepted": stats.accepted,
    })
}

fn side(stats: &SideStats) -> Value {
    json!({ "switches": stats.switches, "io_nodes": array(&stats.io_nodes, io_node) })
}

fn io_node(stats: &IoNodeStats) -> Value {
    json!({
        "node": stats.node.to_string(),
        "at": stats.at.to_string(),
        "default": stats.is_default,
        "demoted": stats.is_demoted,
        "packets_sent": stats.packets_sent,
    })
}

fn array<T>(parts: &[T], value: impl Fn(&T) -> Value) -> Value {
    parts.iter().map(value).collect()
}

fn object<'a>(fields: impl Iterator<Item = (&'a str, Value)>) -> Value {
    fields.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into()
}

fn service(service: Service) -> &'static str {
    match service {
        Service::Datagram => "datagram",
        Service::Stream => "stream",
    }
}

/// More than the 584 years that fit are told as so many.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_json() {
        let at_work = IoNodeStats {
            node: NodeId::new(11).unwrap(),
            at: "10.1.0.11:64064".parse().unwrap(),
            is_default: true,
            is_demoted: false,
            packets_sent: 7,
        };
        let stats = SideStats { io_nodes: vec![at_work], switches: 2 };
        let node = json!({"node": "0x00000b", "at": "10.1.0.11:64064", "default": true, "demoted": false, "packets_sent": 7});
        assert_eq!(side(&stats), json!({ "switches": 2, "io_nodes": [node] }));
    }
}
