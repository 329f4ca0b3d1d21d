//! `weft io-node`: forwards between the networks of a cluster.

mod snapshot;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use weft_engine::control::Control;
use weft_forward::IoNode;
use weft_link::{Fault, Faults, Link, Udp, UdpOptions};
use weft_route::{Attachment, ClusterFile, Forwarder, Kind, Member, NetworkId, Underlay};

use crate::exit::{Code, Failure, cause};
use crate::net::{self, ClusterChoice, ClusterFlags, NodeName, ThisCluster};
use crate::units::parse_duration;
use crate::{say, signal, stat};
use snapshot::Names;
pub(crate) use snapshot::lines;

/// How long what lies in the sockets is forwarded after an interrupt.
const DRAIN: Duration = Duration::from_secs(1);

/// Forward packets between the networks of a cluster, as one of its I/O nodes
///
/// Nodes that share no network reach each other through it. It keeps no connections: what it forwards may take another I/O node
/// at any time. Ctrl-C or SIGTERM ends it when what it has received is sent on; `weft stat` shows what it does meanwhile.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The cluster file, the same for all nodes [default: $WEFT_CLUSTER, else /etc/weft/cluster.toml]
    #[arg(long, value_name = "FILE", default_value = "auto", hide_default_value = true)]
    cluster: ClusterChoice,

    /// Which of its nodes this is, by name or number [default: the only one with an address of this host]
    #[arg(long, value_name = "NAME|N")]
    node: Option<NodeName>,

    /// How long to poll after a packet before sleeping, such as 20us
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    spin_time: Duration,

    /// Name under which `weft stat` finds this node [default: io-node-PID]
    #[arg(long, value_name = "NAME")]
    stat_name: Option<String>,

    /// Damage what is sent: a list such as loss=1%,delay=5ms, with the words of `weft perf --help`
    #[arg(long, value_name = "LIST")]
    fault: Option<Faults>,

    /// Damage what is received, with the same words
    #[arg(long, value_name = "LIST")]
    fault_in: Option<Faults>,

    /// Damage this network only
    #[arg(long, value_name = "NETWORK")]
    fault_network: Option<String>,

    /// Seed of the damage; the same seed damages the same packets
    #[arg(long, value_name = "N", default_value_t = 1)]
    fault_seed: u64,

    /// Print JSON: a line when it forwards, and a line with all counts in the end
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the command.
///
/// # Errors
/// [`Code::Source`] or [`Code::Usage`] if the file cannot be read or is wrong, or names no such I/O node, [`Code::Address`] if
/// an address of its cannot be bound.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (file, member) = own(args)?;
    let links = open_links(args, &file, &member)?;
    let names = Arc::new(Names::of(&file, &member));
    let node =
        IoNode::start(Forwarder::new(member.node, file.cluster), links, args.spin_time).map_err(|error| {
            Failure::new(Code::Other, cause(&error), "raise the limit of open files and threads")
        })?;
    let control = {
        let (watch, names) = (node.watcher(), names.clone());
        let name = args.stat_name.clone().unwrap_or_else(|| format!("io-node-{}", std::process::id()));
        Control::open(&name, Arc::new(move |_| snapshot::json(&watch(), &names).to_string()))
    };
    let control = control.map_err(|error| net::told(Code::Address, &error))?;
    let interrupt = signal::first()
        .map_err(|error| Failure::new(Code::Other, cause(&error), "run it where signals can be caught"))?;
    announce(args, &names, &snapshot::json(&node.stats(), &names));
    // The thread behind it waits for signals as long as the program runs.
    let _ = interrupt.recv();
    let last = snapshot::json(&node.stop(DRAIN), &names);
    drop(control);
    if args.json {
        say::event(&json!({ "event": "end", "node": last }));
    } else {
        lines(names.own(), &last).iter().for_each(|line| say::remark(line));
    }
    Ok(())
}

fn announce(args: &Args, names: &Names, now: &serde_json::Value) {
    if args.json {
        say::event(&json!({ "event": "forwarding", "node": now }));
        return;
    }
    let at = stat::array(&now["networks"]);
    let at =
        at.iter().map(|at| format!("{} at {}", stat::text(&at["network"]), stat::underlay(&at["underlay"])));
    say::remark(&format!("{} forwards between {}", names.own(), at.collect::<Vec<_>>().join(" and ")));
    say::remark("Ctrl-C ends it");
}

/// The cluster, and the I/O node in it that this is.
fn own(args: &Args) -> Result<(ClusterFile, Member), Failure> {
    let flags = ClusterFlags { cluster: args.cluster.clone(), io_probe: None };
    let named = ThisCluster::named(&flags)?;
    let Some(cluster) = named.map_or_else(|| ThisCluster::of_host(&flags), |named| Ok(Some(named)))? else {
        return Err(Failure::new(Code::Usage, "there is no cluster file", "name it with --cluster FILE"));
    };
    match cluster.own(args.node.as_ref())?.cloned() {
        Some(member) if member.kind == Kind::Io => Ok((cluster.file, member)),
        Some(member) => {
            let what = format!("{} is no I/O node but of kind {}", member.label(), member.kind);
            Err(Failure::new(Code::Usage, what, "name the I/O node with --node NAME"))
        }
        None => {
            let what = "the cluster file does not name this node";
            Err(Failure::new(Code::Usage, what, "name the I/O node with --node NAME"))
        }
    }
}

/// A network and the way to it.
type Way = (NetworkId, Arc<dyn Link>);

/// A way to each network of `member`.
fn open_links(args: &Args, file: &ClusterFile, member: &Member) -> Result<Vec<Way>, Failure> {
    let name = |at: &Attachment| snapshot::network_name(file, at.network);
    if let Some(wanted) = &args.fault_network
        && !member.at.iter().any(|at| name(at) == *wanted)
    {
        let on: Vec<String> = member.at.iter().map(name).collect();
        let what = format!("{} is on no network {wanted:?}", member.label());
        return Err(Failure::new(Code::Usage, what, format!("give one of {}", on.join(", "))));
    }
    let open = |attachment: &Attachment| {
        let Underlay::Udp(at) = attachment.at;
        // What comes is from many nodes: none of them gets a socket of its own.
        let options = UdpOptions { direct: false, ..UdpOptions::default() };
        let udp = Udp::bind_with(at, &options).map_err(|error| {
            let next = "end the program that has it, or correct the address of this node in the cluster file";
            Failure::new(
                Code::Address,
                format!("cannot bind {}: {}", net::underlay_text(at), cause(&error)),
                next,
            )
        })?;
        let is_damaged = args.fault_network.as_ref().is_none_or(|network| *network == name(attachment));
        let link = if is_damaged { damaged(args, Arc::new(udp))? } else { Arc::new(udp) };
        Ok((attachment.network, link))
    };
    member.at.iter().map(open).collect()
}

/// The link with the damage that the flags ask for.
fn damaged(args: &Args, link: Arc<dyn Link>) -> Result<Arc<dyn Link>, Failure> {
    if args.fault.is_none() && args.fault_in.is_none() {
        return Ok(link);
    }
    let (outward, inward) = (args.fault.unwrap_or(Faults::NONE), args.fault_in.unwrap_or(Faults::NONE));
    let fault = Fault::new(link, args.fault_seed, outward, inward);
    Ok(Arc::new(
        fault.map_err(|error| Failure::new(Code::Other, cause(&error), "raise the limit of open files"))?,
    ))
}
