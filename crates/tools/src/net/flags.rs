//! The flags that several commands share, each with its name, its help and its effect in one place.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use weft_base::{NodeId, Port, Service, limits};
use weft_link::Faults;
use weft_route::Cluster;
use weft_socket::{Address, Coalescing, CongestionControl, Options, Target as SocketTarget};

use super::cluster::port_of;
use super::{ClusterFlags, JobFlags, LinkChoice, NodeName};
use crate::exit::Failure;
use crate::target::{Target, ethernet, look_up};
use crate::units::{parse_bytes, parse_duration, parse_socket_address, parse_wait, parse_within};

/// What this end is.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "This node")]
pub struct NodeFlags {
    /// Name in the cluster file, or node number, 1 to 0xfffffe [default: the node of the cluster that has an address of this
    /// host; without a cluster a random unregistered number, or rank + 1 in a job]
    ///
    /// A node with a number of its own answers to that number only; without one it answers to each unregistered number
    /// (0x800000 to 0xfffffe) that it is called by.
    #[arg(long, value_name = "NAME|N")]
    pub node: Option<NodeName>,

    /// UDP address to bind; port 0 takes any [default: that of the cluster file; without one port 64064 when
    /// listening, else and in a job any]
    #[arg(long, visible_alias = "underlay", value_name = "IP:PORT", value_parser = parse_socket_address)]
    pub bind: Option<SocketAddr>,

    /// What carries the packets: udp, or packet:INTERFACE for Ethernet frames without IP and UDP [default: udp]
    ///
    /// Both ends need the same. Ethernet needs the capability CAP_NET_RAW and reaches hosts on the same Ethernet, which are
    /// named by the Ethernet address of their interface, such as 02:00:00:00:00:2a, in place of HOST.
    #[arg(long, value_name = "LINK", default_value_t, hide_default_value = true, conflicts_with = "bind")]
    pub link: LinkChoice,

    /// Sockets or rings that share what arrives, each served by a thread of its own where there are as many workers
    ///
    /// All that comes from one UDP port of one peer comes by one of them, so they share the work of a node with many peers. What is recorded,
    /// traced or damaged comes by one alone. [default: 1, and over UDP on hosts with several cores two for each core, 32 at most, for
    /// who listens outside of a job and records, traces and damages nothing]
    #[arg(long, value_name = "N", value_parser = parse_ports,
        conflicts_with_all = ["pcap", "trace", "fault", "fault_in"])]
    pub ports: Option<usize>,

    /// UDP ports that connections of this node go out by in turn, beside the one it is bound to
    ///
    /// Connections to one peer then share several cores of both hosts, and queues of their network cards, instead of one. Nodes of a
    /// cluster and ranks of a job answer to the bound port alone, so connections to them go out by that. [default: 0, and for `perf
    /// --parallel` on hosts with several cores one for each connection, eight for each core and 64 at most]
    #[arg(long, value_name = "N", value_parser = parse_additional,
        conflicts_with_all = ["pcap", "trace", "fault", "fault_in", "link"])]
    pub source_ports: Option<usize>,

    /// Connections to one peer that the command is about to make, where it knows.
    #[arg(skip)]
    pub connections: usize,

    /// Threads that do nothing but move packets
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse_additional)]
    pub workers: usize,

    /// How long a waiting thread polls before it sleeps, such as 50us [default: 150us]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub spin_time: Option<Duration>,

    /// Bytes wanted for the kernel's send and receive buffers of a UDP socket, such as 208K [default: 8M]
    ///
    /// Without the capability CAP_NET_ADMIN the kernel gives no more than net.core.wmem_max and net.core.rmem_max, which `weft doctor`
    /// shows. Where that is less than 768K, a port that receives a fast stream opens four more sockets of that size for it.
    #[arg(long, value_name = "SIZE", value_parser = parse_usize_bytes)]
    pub socket_buffer: Option<usize>,

    /// Name under which `weft stat` finds this node [default: COMMAND-PID]
    #[arg(long, value_name = "NAME")]
    pub stat_name: Option<String>,

    /// Record every packet on the wire to FILE, as pcapng for Wireshark
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,

    /// Print a line for every packet on the wire to standard error
    #[arg(long)]
    pub trace: bool,

    /// Damage what is sent: a list such as loss=1%,duplicate=1%,reorder=2%/8,delay=5ms
    ///
    /// Known are loss, burst=STARTS/ENDS, duplicate, reorder=SHARE/PACKETS, delay, jitter, corrupt and truncate.
    #[arg(long, value_name = "LIST")]
    pub fault: Option<Faults>,

    /// Damage what is received, with the same words
    #[arg(long, value_name = "LIST")]
    pub fault_in: Option<Faults>,

    /// Seed of the damage; the same seed damages the same packets
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub fault_seed: u64,

    /// Where names come from.
    #[command(flatten)]
    pub cluster: ClusterFlags,

    /// Whether it is a rank of a job.
    #[command(flatten)]
    pub job: JobFlags,
}

/// Who the other end is, beyond `HOST[:PORT]`.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "The other node")]
pub struct PeerFlags {
    /// Number of the other node [default: whichever node answers there]
    #[arg(long, value_name = "N")]
    pub peer_node: Option<NodeId>,

    /// UDP port of the other node
    #[arg(long, value_name = "PORT", default_value_t = limits::UDP_PORT, value_parser = |text: &str| parse_within(text, 1_u16, u16::MAX))]
    pub underlay_port: u16,

    /// UDP address of the other node, instead of looking HOST up
    #[arg(long, value_name = "IP:PORT", conflicts_with = "underlay_port", value_parser = parse_peer_underlay)]
    pub peer_underlay: Option<SocketAddr>,
}

impl PeerFlags {
    /// The end that `target` names and its underlay address, such as the link of `node` reaches; `default_port` where it names no
    /// port, and the services of `cluster` where it names one.
    ///
    /// # Errors
    /// [`crate::exit::Code::UnknownHost`].
    pub fn target(
        &self,
        target: &Target,
        default_port: Port,
        node: &NodeFlags,
        cluster: &Cluster,
    ) -> Result<(SocketTarget, SocketAddr), Failure> {
        let port = port_of(cluster, target.port.as_ref(), default_port)?;
        let at = match self.peer_underlay {
            Some(at) => at,
            None => match node.link {
                LinkChoice::Udp => look_up(&target.host, self.underlay_port, node.bind.map(|at| at.ip()))?,
                LinkChoice::Packet(_) => ethernet(&target.host)?,
            },
        };
        let peer = match self.peer_node {
            Some(node) => (Address { node, port }, at).into(),
            None => (at, port).into(),
        };
        Ok((peer, at))
    }
}

/// Options of the sockets. What is not given stays at the default of the specification.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Socket options")]
pub struct SocketFlags {
    /// Congestion control of what this end sends: cubic, model, or fixed:PACKETS [default: cubic]
    #[arg(long, value_name = "NAME", value_parser = parse_congestion)]
    pub congestion: Option<CongestionControl>,

    /// Do not ask for sealed sequence numbers; the connection is sealed all the same if the other end asks
    #[arg(long)]
    pub no_integrity: bool,

    /// Packets the other end may send ahead of the reader; within a host, where they are larger, fewer: as many bytes [default: 1024]
    #[arg(long, value_name = "PACKETS", value_parser = |text: &str| parse_within(text, 1, limits::RECEIVE_SLOTS_MAX))]
    pub receive_slots: Option<u32>,

    /// Bytes the send queue holds, such as 4M; of datagrams 1,024 packets at most, with those in flight [default: 4M]
    #[arg(long, value_name = "SIZE", value_parser = parse_some_bytes)]
    pub send_bytes: Option<usize>,

    /// Largest message this end takes, such as 64K [default: 16M]
    #[arg(long, value_name = "SIZE", value_parser = parse_u32_bytes)]
    pub message_bytes: Option<u32>,

    /// When small messages share a packet: off, busy, or a time to wait of at most 1ms [default: busy]
    #[arg(long, value_name = "WHEN", value_parser = parse_coalescing)]
    pub coalescing: Option<Coalescing>,

    /// Silence after which to probe, and after which to drop the connection, such as 10s/30s [default: 60s/300s]
    #[arg(long, value_name = "INTERVAL/EXPIRY", value_parser = parse_keepalive)]
    pub keepalive: Option<(Duration, Duration)>,

    /// Confirm a close only when the other end's user has read everything
    #[arg(long)]
    pub confirm: bool,

    /// Largest data segment, 512 to 65507 bytes [default: what the link allows]
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| parse_within(text, 512_u16, 65_507))]
    pub mss: Option<u16>,

    /// CDP port of this end when it connects, the first of several connections [default: a random free one]
    #[arg(long, value_name = "PORT")]
    pub local_port: Option<u16>,

    /// How long to wait for a connection
    #[arg(long, value_name = "TIME", value_parser = parse_wait, default_value = "10s")]
    pub connect_timeout: Duration,

    /// How long to try to deliver the rest after a close [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub close_timeout: Option<Duration>,

    /// How long the other end may refuse to read before it is dropped [default: 300s; of `send` and `recv`: for ever]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub no_progress: Option<Duration>,

    /// How long what was sent may stay unacknowledged before the connection ends [default: 100s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub give_up: Option<Duration>,

    /// Longest delay of an acknowledgement [default: 1ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub ack_delay: Option<Duration>,

    /// First retransmission time-out [default: 250ms]
    #[arg(long, value_name = "TIME", value_parser = parse_wait)]
    pub rto_init: Option<Duration>,

    /// Connections that may wait to be accepted [default: 128]
    #[arg(long, value_name = "N", value_parser = |text: &str| parse_within(text, 1_u16, 4_096))]
    pub accept_limit: Option<u16>,
}

impl SocketFlags {
    /// The options for a socket of `service`.
    #[must_use]
    pub fn options(&self, service: Service) -> Options {
        self.options_over(Options::of(service))
    }

    /// The same for a transfer, whose ends say themselves that they live, however long one has no use for data.
    #[must_use]
    pub fn transfer_options(&self) -> Options {
        self.options_over(Options::of(Service::Stream).no_progress(NO_LIMIT))
    }

    fn options_over(&self, options: Options) -> Options {
        let mut options = options.integrity(!self.no_integrity).confirm(self.confirm);
        options = options.connect_timeout(self.connect_timeout);
        // One line per flag: taken over if it was given.
        options = with(options, self.congestion, Options::congestion);
        options = with(options, self.receive_slots, Options::receive_slots);
        options = with(options, self.send_bytes, Options::send_bytes);
        options = with(options, self.message_bytes, Options::message_bytes);
        options = with(options, self.coalescing, Options::coalescing);
        options = with(options, self.keepalive, |o, (interval, expiry)| o.keepalive(interval, expiry));
        options = with(options, self.mss, Options::mss);
        options = with(options, self.local_port, Options::local_port);
        options = with(options, self.close_timeout, Options::close_timeout);
        options = with(options, self.no_progress, Options::no_progress);
        options = with(options, self.give_up, Options::give_up);
        options = with(options, self.ack_delay, Options::ack_delay);
        options = with(options, self.rto_init, Options::rto_init);
        with(options, self.accept_limit.map(usize::from), Options::accept_limit)
    }
}

/// A time that no transfer takes.
const NO_LIMIT: Duration = Duration::from_secs(10 * 365 * 86_400);

fn with<T>(options: Options, value: Option<T>, set: impl FnOnce(Options, T) -> Options) -> Options {
    match value {
        Some(value) => set(options, value),
        None => options,
    }
}

/// Most ports of one node: each has its buffers, threads and descriptors.
const PORTS_MAX: usize = 64;

fn parse_peer_underlay(text: &str) -> Result<SocketAddr, String> {
    match parse_socket_address(text) {
        Ok(at) if at.port() == 0 => Err(format!(
            "{text:?} is no address of another node: its port is not 0, give the UDP port that it listens on"
        )),
        at => at,
    }
}

fn parse_ports(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(ports) if (1..=PORTS_MAX).contains(&ports) => Ok(ports),
        _ => Err(format!("give 1 to {PORTS_MAX}")),
    }
}

/// As many workers, or ports that may be none.
fn parse_additional(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if count <= PORTS_MAX => Ok(count),
        _ => Err(format!("give 0 to {PORTS_MAX}")),
    }
}

/// Reads the name of a congestion control.
///
/// # Errors
/// A sentence that names what would be accepted.
pub fn parse_congestion(text: &str) -> Result<CongestionControl, String> {
    match text.split_once(':') {
        None if text == "cubic" => Ok(CongestionControl::Cubic),
        None if text == "model" => Ok(CongestionControl::Model),
        Some(("fixed", packets)) => match packets.parse() {
            Ok(packets) if packets > 0 => Ok(CongestionControl::Fixed { packets }),
            _ => Err(format!("{packets:?} is not a window; give a number of packets, such as fixed:512")),
        },
        _ => Err("give cubic, model, or fixed:PACKETS".to_owned()),
    }
}

fn parse_coalescing(text: &str) -> Result<Coalescing, String> {
    match text {
        "off" => Ok(Coalescing::Off),
        "busy" => Ok(Coalescing::WhenBusy),
        _ => match parse_duration(text) {
            Ok(delay) if delay <= Duration::from_millis(1) => Ok(Coalescing::Delay(delay)),
            _ => Err("give off, busy, or a time of at most 1ms, such as 200us".to_owned()),
        },
    }
}

fn parse_keepalive(text: &str) -> Result<(Duration, Duration), String> {
    let (interval, expiry) = text.split_once('/').ok_or("give two times with a slash, such as 10s/30s")?;
    let (interval, expiry) = (parse_duration(interval)?, parse_duration(expiry)?);
    // CDP-SYN-12: a peer ignores anything shorter.
    if interval < Duration::from_secs(1) || expiry < interval * 2 {
        return Err("the interval must be at least 1s, and the expiry at least twice the interval".to_owned());
    }
    Ok((interval, expiry))
}

fn parse_usize_bytes(text: &str) -> Result<usize, String> {
    parse_bytes(text).and_then(|bytes| usize::try_from(bytes).map_err(|_| format!("{text:?} is too large")))
}

fn parse_some_bytes(text: &str) -> Result<usize, String> {
    match parse_usize_bytes(text)? {
        0 => Err(format!("{text:?} is not possible here; give a size such as 4M")),
        bytes => Ok(bytes),
    }
}

fn parse_u32_bytes(text: &str) -> Result<u32, String> {
    let bytes = parse_bytes(text)?;
    let bytes = u32::try_from(bytes).ok().filter(|bytes| (1..=limits::MESSAGE_BYTES_MAX).contains(bytes));
    bytes.ok_or_else(|| {
        format!("{text:?} is not possible here; give 1 to {} bytes", limits::MESSAGE_BYTES_MAX)
    })
}

#[cfg(test)]
mod tests;
