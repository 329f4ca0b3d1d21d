//! What an I/O node counts, as JSON for programs and as lines for people.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use weft_base::NodeId;
use weft_forward::{Arrivals, NetworkStats, RelayStats, Stats};
use weft_route::{ClusterFile, Member, NetworkId};

use crate::stat::{array, number, ratio, text, underlay};
use crate::units;

/// What people call the networks and nodes of a cluster.
pub(super) struct Names {
    own: String,
    networks: BTreeMap<NetworkId, String>,
    nodes: BTreeMap<NodeId, String>,
}

impl Names {
    pub(super) fn of(file: &ClusterFile, own: &Member) -> Self {
        Self {
            own: own.label(),
            networks: own.at.iter().map(|at| (at.network, network_name(file, at.network))).collect(),
            nodes: file.cluster.iter().map(|member| (member.node, member.label())).collect(),
        }
    }

    /// The I/O node itself.
    pub(super) fn own(&self) -> &str {
        &self.own
    }

    fn node(&self, node: NodeId) -> String {
        self.nodes.get(&node).cloned().unwrap_or_else(|| node.to_string())
    }
}

/// The name of a network; that of all nodes for which none was named is "common".
pub(super) fn network_name(file: &ClusterFile, network: NetworkId) -> String {
    file.network_name(network).map_or_else(|| "common".to_owned(), ToString::to_string)
}

/// A snapshot as one JSON object.
pub(super) fn json(stats: &Stats, names: &Names) -> Value {
    let networks: Vec<Value> = stats.networks.iter().map(|network| network_json(network, names)).collect();
    json!({
        "node": stats.node.to_string(),
        "underlay": stats.networks.first().map(|network| network.local),
        "networks": networks,
        "relays": stats.relays.iter().map(|relay| relay_json(relay, names)).collect::<Vec<_>>(),
    })
}

fn relay_json(relay: &RelayStats, names: &Names) -> Value {
    json!({
        "node": names.node(relay.node),
        "network": names.networks.get(&relay.network),
        "at": relay.at,
        "left": relay.is_left,
        "refusals": relay.refusals,
    })
}

/// The next I/O nodes for people: those of which something is to be said.
fn relays_line(node: &Value) -> Option<String> {
    let told = |relay: &Value| {
        let left = if relay["left"].as_bool() == Some(true) { "left, " } else { "" };
        let refusals = Some(number(&relay["refusals"])).filter(|count| *count > 0)?;
        let (name, at) = (text(&relay["node"]), underlay(&relay["at"]));
        Some(format!("{name} at {at} ({left}not there {refusals} times)"))
    };
    let told: Vec<String> = array(&node["relays"]).iter().filter_map(told).collect();
    (!told.is_empty()).then(|| format!("    next I/O nodes: {}", told.join(", ")))
}

fn network_json(network: &NetworkStats, names: &Names) -> Value {
    let NetworkStats { arrivals, departures, counters, .. } = network;
    json!({
        "network": names.networks.get(&network.network),
        "link": network.link,
        "underlay": network.local,
        "packets_in": arrivals.packets,
        "bytes_in": arrivals.bytes,
        "receive_calls": counters.receive_calls,
        "receive_overflows": counters.receive_overflows,
        "drops": drops(arrivals),
        "too_far": arrivals.too_far.map(|packet| json!({
            "source": names.node(packet.source),
            "destination": names.node(packet.destination),
            "by": packet.by.map(|io| names.node(io)),
            "underlay": packet.from,
        })),
        "packets_out": departures.packets,
        "bytes_out": departures.bytes,
        "send_calls": counters.send_calls,
        "marked": departures.marked,
        "queued": network.queued,
        "queue_drops": departures.queue_drops,
        "link_drops": departures.link_drops + counters.dropped_oversize + counters.dropped_no_buffers + counters.dropped_unreachable,
    })
}

/// By reason; those that never occurred are left out.
fn drops(arrivals: &Arrivals) -> Map<String, Value> {
    let malformed = arrivals.malformed().map(|(reason, count)| (reason.name().to_owned(), count));
    let refused = arrivals.refused().map(|(reason, count)| (reason.to_string(), count));
    malformed
        .chain(refused)
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (name, count.into()))
        .collect()
}

/// One I/O node for people.
pub(crate) fn lines(name: &str, node: &Value) -> Vec<String> {
    let mut lines = vec![format!("{name}  I/O node {}", text(&node["node"]))];
    for network in array(&node["networks"]) {
        lines.push(format!(
            "    {} ({} at {}): in {} packets, {}  out {} packets, {}  per call {:.1} in, {:.1} out",
            text(&network["network"]),
            text(&network["link"]),
            underlay(&network["underlay"]),
            number(&network["packets_in"]),
            units::bytes(number(&network["bytes_in"])),
            number(&network["packets_out"]),
            units::bytes(number(&network["bytes_out"])),
            ratio(&network["packets_in"], &network["receive_calls"]),
            ratio(&network["packets_out"], &network["send_calls"]),
        ));
        let told: Vec<String> = [
            ("waiting", "queued"),
            ("marked as congested", "marked"),
            ("dropped from a full queue", "queue_drops"),
            ("not taken by the link", "link_drops"),
            ("lost as the receive buffer was full", "receive_overflows"),
        ]
        .into_iter()
        .filter_map(|(what, key)| {
            Some(number(&network[key])).filter(|&count| count > 0).map(|count| format!("{what} {count}"))
        })
        .collect();
        if !told.is_empty() {
            lines.push(format!("        {}", told.join(", ")));
        }
        let drops = network["drops"].as_object().into_iter().flatten();
        let drops: Vec<String> = drops.map(|(reason, count)| format!("{reason} {count}")).collect();
        if !drops.is_empty() {
            lines.push(format!("        not forwarded: {}", drops.join(", ")));
        }
        let too_far = &network["too_far"];
        if too_far.is_object() {
            lines.push(format!(
                "        latest that was forwarded too often: {} to {}, from {} at {}",
                text(&too_far["source"]),
                text(&too_far["destination"]),
                too_far["by"]
                    .as_str()
                    .map_or_else(|| "no I/O node".to_owned(), |io| format!("I/O node {io}")),
                underlay(&too_far["underlay"]),
            ));
        }
    }
    lines.extend(relays_line(node));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_io_node_is_shown_with_its_networks_and_what_it_did_not_forward() {
        let node = json!({
            "node": "11", "underlay": "10.1.0.11:64064",
            "networks": [
                {"network": "lan", "link": "udp", "underlay": "10.1.0.11:64064", "packets_in": 90, "receive_calls": 3,
                 "drops": {"short": 2, "source on another side": 4}, "queue_drops": 5, "marked": 6,
                 "too_far": {"source": "login", "destination": "c-1", "by": "io-2", "underlay": "10.1.0.12:64064"}},
                {"network": "mesh", "link": "udp", "underlay": "10.2.0.11:64064", "packets_out": 84, "send_calls": 4},
            ],
            "relays": [
                {"node": "io-2", "network": "mesh", "at": "10.2.0.12:64064", "left": true, "refusals": 7},
                {"node": "io-3", "network": "mesh", "at": "10.2.0.13:64064", "left": false, "refusals": 0},
            ],
        });
        let all = lines("io-1", &node).join("\n");
        for part in [
            "io-1  I/O node 11",
            "lan (udp at UDP 10.1.0.11:64064): in 90 packets",
            "per call 30.0 in",
            "marked as congested 6, dropped from a full queue 5",
            "not forwarded: short 2, source on another side 4",
            "login to c-1, from I/O node io-2 at UDP 10.1.0.12:64064",
            "out 84 packets",
            "21.0 out",
            "next I/O nodes: io-2 at UDP 10.2.0.12:64064 (left, not there 7 times)",
        ] {
            assert!(all.contains(part), "{part:?} is not in\n{all}");
        }
    }
}
