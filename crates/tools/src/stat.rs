//! `weft stat`: what the nodes of this user are doing, in the manner of `ss -i`.

use std::thread;
use std::time::Duration;

use serde_json::Value;
use weft_socket::stat::{self, Detail};

use crate::exit::{Code, Failure, cause};
use crate::units::{self, parse_wait};
use crate::{fibers, io_node, net, say};

/// Show the connections and counters of running nodes
///
/// Finds every node of this user on this machine: those of the `weft` command, and those of programs that gave theirs, or
/// their runtime of fibers, a name for statistics. They are found below $XDG_RUNTIME_DIR, if that is this user's, and below
/// /tmp/weft-UID, so the first has to be the same for both.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Nodes to show, by name [default: all]
    names: Vec<String>,

    /// Show the fibers of programs that run some: what each waits for, since when, and its stack
    #[arg(long)]
    fibers: bool,

    /// With the calls on their stacks, for which the workers of these programs stand still for a moment
    #[arg(long, requires = "fibers")]
    frames: bool,

    /// Print a JSON object per node and line
    #[arg(long)]
    pub(crate) json: bool,

    /// Repeat after this time, until Ctrl-C
    #[arg(long, short, value_name = "TIME", value_parser = parse_wait)]
    watch: Option<Duration>,
}

/// Runs the command.
///
/// # Errors
/// [`Code::NoEngine`] when there is nothing to show.
pub fn run(args: &Args) -> Result<(), Failure> {
    loop {
        show(args)?;
        match args.watch {
            Some(pause) => thread::sleep(pause.max(Duration::from_millis(100))),
            None => return Ok(()),
        }
    }
}

/// The nodes that answer of those that are `wanted`, by name, and what they answer; none is wanted for all. A node that
/// crashed leaves its name behind, and says nothing.
///
/// # Errors
/// [`Code::NoEngine`] when they cannot be looked for, [`Code::Protocol`] when one answers nonsense.
pub fn running(wanted: &[String], detail: Detail) -> Result<Vec<(String, Value)>, Failure> {
    let mut names = names()?;
    names.retain(|name| wanted.is_empty() || wanted.contains(name));
    let answers = names
        .into_iter()
        .filter_map(|name| stat::query_detailed(&name, detail).ok().map(|text| (name, text)));
    answers
        .map(|(name, text)| match serde_json::from_str(&text) {
            Ok(node) => Ok((name, node)),
            Err(_) => {
                let what = format!("node {name:?} answers something that is no JSON");
                Err(Failure::new(Code::Protocol, what, "check that both programs have the same version"))
            }
        })
        .collect()
}

fn names() -> Result<Vec<String>, Failure> {
    stat::list().map_err(|error| {
        let what = format!("cannot look for nodes: {}", cause(&error));
        Failure::new(Code::NoEngine, what, "check $XDG_RUNTIME_DIR")
    })
}

fn show(args: &Args) -> Result<(), Failure> {
    let mut nodes = running(&args.names, if args.frames { Detail::Frames } else { Detail::Usual })?;
    if let Some(missing) = args.names.iter().find(|wanted| nodes.iter().all(|(name, _)| name != *wanted)) {
        let next = match names()?.as_slice() {
            names if names.contains(missing) => {
                let what = format!("node {missing:?} runs and does not answer");
                return Err(Failure::new(Code::NoEngine, what, "look again when it is less busy"));
            }
            [] => "no node runs at present".to_owned(),
            names => format!("these run: {}", names.join(", ")),
        };
        return Err(Failure::new(Code::NoEngine, format!("no node is called {missing:?}"), next));
    }
    if args.fibers {
        nodes.retain(|(_, node)| node["fibers"].is_array());
    }
    if nodes.is_empty() && args.fibers {
        let next = "give the runtime of your program a name for statistics, such as stat_name of struct fiber_config";
        return Err(Failure::new(Code::NoEngine, "no program of this user tells of its fibers", next));
    }
    if nodes.is_empty()
        && let Some(silent) = names()?.first()
    {
        let what = format!("node {silent:?} runs and does not answer");
        return Err(Failure::new(Code::NoEngine, what, "look again when it is less busy, or end it"));
    }
    if nodes.is_empty() {
        let next = "start one, such as `weft perf --server`, and look again as the same user";
        return Err(Failure::new(Code::NoEngine, "no node of this user runs on this machine", next));
    }
    for (name, mut node) in nodes {
        if args.json {
            node["name"] = Value::from(name);
            say::json(&node);
        } else {
            let lines = match &node {
                node if node["networks"].is_array() => io_node::lines(&name, node),
                node if node["fibers"].is_array() => fibers::lines(&name, node, args.fibers),
                node => lines(&name, node),
            };
            lines.iter().for_each(|line| say::line(line));
        }
    }
    Ok(())
}

/// One node for people.
fn lines(name: &str, node: &Value) -> Vec<String> {
    let mut lines = vec![format!("{name}  node {} at {}", text(&node["node"]), underlay(&node["underlay"]))];
    for port in array(&node["ports"]) {
        lines.push(format!(
            "    {}: in {} packets, {}  out {} packets, {}  per call {:.1} in, {:.1} out{}",
            text(&port["link"]),
            number(&port["packets_in"]),
            units::bytes(number(&port["bytes_in"])),
            number(&port["packets_out"]),
            units::bytes(number(&port["bytes_out"])),
            ratio(&port["packets_in"], &port["receive_calls"]),
            ratio(&port["packets_out"], &port["send_calls"]),
            drops_text(number(&port["stuck_drops"]), number(&port["receive_overflows"])),
        ));
    }
    let drops: Vec<String> = node["drops"]
        .as_object()
        .map(|drops| drops.iter().map(|(reason, count)| format!("{reason} {count}")).collect())
        .unwrap_or_default();
    if !drops.is_empty() {
        lines.push(format!("    dropped: {}", drops.join(", ")));
    }
    for side in array(&node["sides"]) {
        let io_nodes = array(&side["io_nodes"]).iter().map(io_node_text).collect::<Vec<_>>().join(", ");
        lines.push(format!("    through I/O nodes {io_nodes}; switched {} times", number(&side["switches"])));
    }
    for listener in array(&node["listeners"]) {
        lines.push(format!(
            "  LISTEN       {:<8}  {}  waiting {}, half-open {}, accepted {}",
            text(&listener["service"]),
            text(&listener["address"]),
            number(&listener["waiting"]),
            number(&listener["half_open"]),
            number(&listener["accepted"]),
        ));
    }
    for connection in array(&node["connections"]) {
        lines.extend(connection_lines(connection));
    }
    lines
}

/// An I/O node as its user sees it.
fn io_node_text(io_node: &Value) -> String {
    let role = match (io_node["default"].as_bool(), io_node["demoted"].as_bool()) {
        (Some(true), _) => "default, ",
        (_, Some(true)) => "left, ",
        _ => "",
    };
    format!("{} ({role}{} packets)", text(&io_node["at"]), number(&io_node["packets_sent"]))
}

/// What a port lost between its link and the kernel.
fn drops_text(stuck: u64, overflows: u64) -> String {
    let mut text = String::new();
    if stuck > 0 {
        text += &format!("  dropped {stuck} that the link did not take");
    }
    if overflows > 0 {
        text += &format!("  lost {overflows} that found the receive buffer full");
    }
    text
}

/// When the peer was last heard, and the I/O nodes between, if there are any.
fn contact_text(c: &Value) -> String {
    let through = |io_node: &Value| io_node.as_str().map(|io_node| format!(" through {io_node}"));
    let sent = through(&c["sent_through"]).map(|through| format!(", sent{through}")).unwrap_or_default();
    format!(
        "last heard {} ago{}{sent}",
        time(&c["silence_ns"]),
        through(&c["heard_through"]).unwrap_or_default()
    )
}

fn connection_lines(c: &Value) -> [String; 4] {
    [
        format!(
            "  {:<11}  {:<8}  {} → {} at {}",
            text(&c["state"]),
            text(&c["service"]),
            text(&c["local"]),
            text(&c["peer"]),
            underlay(&c["underlay"])
        ),
        format!(
            "      rtt {} (least {})  rto {}  {} window {}  in flight {}  peer's room {}  own room {}  mss {}",
            time(&c["rtt_ns"]),
            time(&c["rtt_min_ns"]),
            time(&c["rto_ns"]),
            text(&c["congestion"]),
            number(&c["congestion_window"]),
            number(&c["in_flight"]),
            number(&c["send_window"]),
            number(&c["receive_window"]),
            number(&c["mss"]),
        ),
        format!(
            "      sent {} ({} acknowledged, {} queued)  received {}  {}",
            units::bytes(number(&c["bytes_sent"])),
            units::bytes(number(&c["bytes_acked"])),
            units::bytes(number(&c["queued_bytes"])),
            units::bytes(number(&c["bytes_received"])),
            contact_text(c),
        ),
        format!(
            "      packets: sent {}, again {}, lost {}, spurious {}  received {}, twice {}, out of order {}  limited by {}",
            number(&c["packets_sent"]),
            number(&c["retransmitted"]),
            number(&c["lost"]),
            number(&c["spurious"]),
            number(&c["packets_received"]),
            number(&c["duplicates"]),
            number(&c["out_of_order"]),
            text(&c["limited_by"]),
        ),
    ]
}

pub(crate) fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// An underlay address as the one who connects gives it.
pub(crate) fn underlay(value: &Value) -> String {
    text(value).parse().map_or_else(|_| text(value).to_owned(), net::underlay_text)
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

pub(crate) fn ratio(of: &Value, per: &Value) -> f64 {
    number(of) as f64 / number(per).max(1) as f64
}

fn time(value: &Value) -> String {
    value.as_u64().map_or_else(|| "unknown".to_owned(), |nanos| units::duration(Duration::from_nanos(nanos)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_shown_with_links_listeners_and_connections() {
        let node = serde_json::json!({
            "node": "0x800001", "underlay": "127.0.0.1:9", "drops": {"short": 3},
            "ports": [{"link": "udp", "packets_in": 10, "receive_calls": 4, "bytes_in": 2048, "stuck_drops": 5,
                       "receive_overflows": 7}],
            "sides": [{"switches": 1, "io_nodes": [
                {"at": "10.1.0.11:64064", "default": false, "demoted": true, "packets_sent": 4},
                {"at": "10.1.0.12:64064", "default": true, "demoted": false, "packets_sent": 9}]}],
            "listeners": [{"address": "0x800001:7", "service": "stream", "accepted": 2}],
            "connections": [{"state": "ESTABLISHED", "service": "stream", "rtt_ns": 120_000, "limited_by": "path loss",
                             "silence_ns": 3_000_000, "heard_through": "0x00000b", "sent_through": "0x00000c"}],
        });
        let all = lines("perf-7", &node).join("\n");
        for part in [
            "perf-7  node 0x800001 at UDP 127.0.0.1:9",
            "udp: in 10 packets, 2.00 KiB",
            "per call 2.5 in",
            "dropped 5 that the link did not take",
            "lost 7 that found the receive buffer full",
            "dropped: short 3",
            "through I/O nodes 10.1.0.11:64064 (left, 4 packets), 10.1.0.12:64064 (default, 9 packets); switched 1 times",
            "LISTEN       stream    0x800001:7  waiting 0, half-open 0, accepted 2",
            "ESTABLISHED",
            "rtt 120 µs",
            "limited by path loss",
            "last heard 3.00 ms ago through 0x00000b, sent through 0x00000c",
        ] {
            assert!(all.contains(part), "{part:?} is not in\n{all}");
        }
    }
}
