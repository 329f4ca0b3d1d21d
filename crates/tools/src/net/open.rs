//! Opens the node that the flags describe, with recording and damage wrapped around its link.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weft_base::{NodeId, limits};
use weft_launch::{Job, Place};
use weft_link::{Ethernet, EthernetOptions, Fault, FaultCounts, Faults, Link, Pcap, Trace, Udp, UdpOptions};
use weft_route::{Cluster, Member};
use weft_socket::{Node, NodeBuilder, OpenError, stat};

use super::{LinkChoice, NodeFlags, ThisCluster, job};
use crate::exit::{self, Code, Failure, cause};
use crate::{say, signal};

/// How long a finished command tries to end its connections in good order.
const FAREWELL: Duration = Duration::from_secs(2);
/// The same for an interrupted one.
const HASTY_FAREWELL: Duration = Duration::from_millis(300);

/// Whether others look for this node, and therefore where it is by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It listens: UDP port 64064.
    Server,
    /// It connects to an address of this family: any UDP port.
    Client(IpAddr),
}

impl Role {
    pub(super) fn default_address(self) -> SocketAddr {
        match self {
            Self::Server => (Ipv4Addr::UNSPECIFIED, limits::UDP_PORT).into(),
            // A loopback peer is reached from the loopback address, so that nobody else can speak to this end.
            Self::Client(peer) if peer.is_loopback() && peer.is_ipv4() => (Ipv4Addr::LOCALHOST, 0).into(),
            Self::Client(peer) if peer.is_loopback() => (Ipv6Addr::LOCALHOST, 0).into(),
            Self::Client(peer) if peer.is_ipv4() => (Ipv4Addr::UNSPECIFIED, 0).into(),
            Self::Client(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        }
    }
}

/// A node of this process, and the wrappers around its link that can be asked afterwards. Clones are the same node.
#[derive(Clone)]
pub struct LocalNode(Arc<Opened>);

/// What a [`LocalNode`] is.
pub struct Opened {
    /// The node.
    pub node: Node,
    /// What names its services.
    pub(super) cluster: Cluster,
    /// The job to join.
    job: Mutex<Option<Job>>,
    launcher_wait: Duration,
    fault: Option<Arc<Fault<Arc<dyn Link>>>>,
    pcap: Option<Arc<Pcap<Arc<dyn Link>, File>>>,
}

impl Deref for LocalNode {
    type Target = Opened;

    fn deref(&self) -> &Opened {
        &self.0
    }
}

/// With a name for statistics; without, where there is no place for them and nobody asked for it.
fn named(builder: NodeBuilder, flags: &NodeFlags, command: &str) -> NodeBuilder {
    match (&flags.stat_name, stat::directory()) {
        (Some(name), _) => builder.stat_name(name),
        (None, Ok(_)) => builder.stat_name(format!("{command}-{}", std::process::id())),
        (None, Err(error)) => {
            say::note(&format!("weft: `weft stat` will not find this: {error}"));
            builder
        }
    }
}

/// The UDP ports of a node with this role, or of a rank of a job.
fn udp_ports(builder: NodeBuilder, flags: &NodeFlags, role: Option<Role>) -> NodeBuilder {
    let builder = match (flags.ports, role) {
        (Some(ports), _) => builder.ports(ports),
        (None, Some(Role::Server)) => builder.ports_by_cores(),
        (None, _) => builder,
    };
    match flags.source_ports {
        Some(ports) => builder.source_ports(ports),
        // Ranks answer to the address that they were told.
        None if role.is_none() => builder,
        None => builder.source_ports_by_cores(flags.connections),
    }
}

impl LocalNode {
    /// Opens the node of `command` that `flags` describe. In a job it is a rank, and is to [`LocalNode::join`].
    ///
    /// # Errors
    /// [`Code::Address`] if the address is taken, [`Code::Destination`] if the recording cannot be made; whatever a
    /// launcher does wrong.
    pub fn open(flags: &NodeFlags, role: Role, command: &str) -> Result<Self, Failure> {
        let named = ThisCluster::named(&flags.cluster)?;
        let job = if named.is_none() { flags.job()? } else { None };
        let Some(job) = job else {
            let cluster = if named.is_some() { named } else { ThisCluster::of_host(&flags.cluster)? };
            return Self::open_in(flags, role, command, cluster.as_ref());
        };
        let bind =
            flags.bind.map_or_else(|| job.bind(false).map_err(|error| told(Code::Address, &error)), Ok)?;
        Self::open_at(flags, None, bind, command, Some(job), None)
    }

    /// As [`LocalNode::open`], as a node of `cluster` if there is one.
    pub(super) fn open_in(
        flags: &NodeFlags,
        role: Role,
        command: &str,
        cluster: Option<&ThisCluster>,
    ) -> Result<Self, Failure> {
        let own = cluster.map(|cluster| cluster.own(flags.node.as_ref())).transpose()?.flatten();
        let bind = flags.bind.or_else(|| own.and_then(Member::bind_address));
        let place = cluster.map(|cluster| (cluster, own.map(|own| own.node)));
        let bind = bind.unwrap_or(role.default_address());
        Self::open_at(flags, Some(role), bind, command, None, place)
    }

    /// As [`LocalNode::open`], at `bind` and as a rank of `job`, which has no other role.
    pub(super) fn open_at(
        flags: &NodeFlags,
        role: Option<Role>,
        bind: SocketAddr,
        command: &str,
        job: Option<Job>,
        cluster: Option<(&ThisCluster, Option<NodeId>)>,
    ) -> Result<Self, Failure> {
        let mut builder = named(Node::builder(), flags, command).bind(bind).workers(flags.workers);
        let number = match (&job, cluster) {
            (Some(job), _) => Some(job.node()),
            (None, Some((_, Some(own)))) => Some(own),
            (None, _) => flags.number()?,
        };
        if let Some(number) = number {
            builder = builder.node(number);
        }
        if let Some((cluster, _)) = cluster {
            builder = builder.cluster(&cluster.file);
        }
        if let Some(interval) = flags.cluster.io_probe {
            builder = builder.io_probe(interval);
        }
        if let Some(spin) = flags.spin_time {
            builder = builder.spin(spin);
        }
        if let Some(bytes) = flags.socket_buffer {
            if !matches!(flags.link, LinkChoice::Udp) {
                let what =
                    "--socket-buffer is of UDP sockets, and a node on --link packet:INTERFACE has none";
                return Err(Failure::new(Code::Usage, what, "leave one of the two out"));
            }
            builder = builder.socket_buffer_bytes(bytes);
        }
        let is_wrapped =
            flags.pcap.is_some() || flags.trace || flags.fault.is_some() || flags.fault_in.is_some();
        let mut opened = Wrapped::default();
        match &flags.link {
            _ if is_wrapped => {
                opened = Wrapped::around(flags, bind)?;
                builder = builder.link(
                    opened.link.take().ok_or_else(|| bind_failure(bind, &io::ErrorKind::NotFound.into()))?,
                );
            }
            LinkChoice::Udp => builder = udp_ports(builder, flags, role),
            LinkChoice::Packet(interface) => {
                let group =
                    Ethernet::open_group(interface, flags.ports.unwrap_or(1), &EthernetOptions::default());
                for link in group.map_err(|error| told(Code::Address, &error))? {
                    builder = builder.link(Arc::new(link));
                }
            }
        }
        let node = builder.open().map_err(|error| open_failure(&error, bind))?;
        let local = Self(Arc::new(Opened {
            node,
            cluster: cluster.map(|(cluster, _)| cluster.file.cluster.clone()).unwrap_or_default(),
            job: Mutex::new(job),
            launcher_wait: flags.job.launcher_wait,
            fault: opened.fault,
            pcap: opened.pcap,
        }));
        let last = local.farewell();
        exit::before_end(last);
        Ok(local)
    }

    /// Joins the job, if there is one and it has not been done: waits until all ranks have come, and tells the node where
    /// they are. Who listens joins after that, so that nobody comes before.
    ///
    /// # Errors
    /// [`Code::NoAnswer`] if ranks are missing, [`Code::Lost`] if the launcher fails, [`Code::Address`] if a rank cannot be
    /// reached.
    pub fn join(&self) -> Result<Vec<Place>, Failure> {
        let job = self.job.lock().unwrap_or_else(PoisonError::into_inner).take();
        job.map_or_else(|| Ok(Vec::new()), |job| job::join(job, &self.node, self.launcher_wait))
    }

    /// Ends the node in good order: connections are closed, the recording is complete.
    pub fn shutdown(&self) {
        self.end(FAREWELL);
    }

    /// Ends the node when the user interrupts the program; `last_words` are said first.
    pub fn shutdown_on_interrupt(&self, last_words: impl FnOnce() + Send + 'static) {
        let farewell = self.farewell();
        signal::on_interrupt(move || {
            last_words();
            farewell();
        });
    }

    /// Ends the node in haste, if it is still there: whoever keeps this does not keep it alive.
    fn farewell(&self) -> impl Fn() + Send + 'static {
        let node = Arc::downgrade(&self.0);
        move || {
            if let Some(node) = node.upgrade() {
                Self(node).end(HASTY_FAREWELL);
            }
        }
    }

    fn end(&self, limit: Duration) {
        self.node.shutdown(limit);
        if let Some(Err(error)) = self.pcap.as_ref().map(|pcap| pcap.flush()) {
            let why = cause(&error);
            say::note(&format!("weft: the recording is not complete: {why}; look at where --pcap writes to"));
        }
    }

    /// What the damage did to packets sent and received, if there was any damage to do.
    #[must_use]
    pub fn fault_counts(&self) -> Option<(FaultCounts, FaultCounts)> {
        self.fault.as_ref().map(|fault| fault.counts())
    }
}

/// A link with recording and damage around it. Recordings show the wire: what was damaged on its way out, and what
/// is to be damaged on its way in.
#[derive(Default)]
struct Wrapped {
    link: Option<Arc<dyn Link>>,
    fault: Option<Arc<Fault<Arc<dyn Link>>>>,
    pcap: Option<Arc<Pcap<Arc<dyn Link>, File>>>,
}

impl Wrapped {
    fn around(flags: &NodeFlags, bind: SocketAddr) -> Result<Self, Failure> {
        let mut link: Arc<dyn Link> = match &flags.link {
            LinkChoice::Udp => {
                let mut options = UdpOptions::default();
                options.buffer_bytes = flags.socket_buffer.unwrap_or(options.buffer_bytes);
                let udp = Udp::bind_with(bind, &options);
                Arc::new(udp.map_err(|error| bind_failure(bind, &error))?)
            }
            LinkChoice::Packet(interface) => {
                Arc::new(Ethernet::open(interface).map_err(|error| told(Code::Address, &error))?)
            }
        };
        let mut wrapped = Self::default();
        if let Some(path) = &flags.pcap {
            let pcap = Pcap::create(link, path)
                .map_err(|error| Failure::destination(&path.to_string_lossy(), &error))?;
            let pcap = Arc::new(pcap);
            wrapped.pcap = Some(pcap.clone());
            link = pcap;
        }
        if flags.trace {
            link = Arc::new(Trace::new(link, io::stderr()));
        }
        if flags.fault.is_some() || flags.fault_in.is_some() {
            let (outward, inward) =
                (flags.fault.unwrap_or(Faults::NONE), flags.fault_in.unwrap_or(Faults::NONE));
            let fault = Fault::new(link, flags.fault_seed, outward, inward)
                .map_err(|error| Failure::new(Code::Other, cause(&error), "raise the limit of open files"))?;
            let fault = Arc::new(fault);
            wrapped.fault = Some(fault.clone());
            link = fault;
        }
        wrapped.link = Some(link);
        Ok(wrapped)
    }
}

fn open_failure(error: &OpenError, bind: SocketAddr) -> Failure {
    if let OpenError::Bind { source, .. } = error {
        return bind_failure(bind, source);
    }
    let is_wrong = matches!(error, OpenError::Invalid { .. });
    told(if is_wrong { Code::Usage } else { Code::Other }, error)
}

/// The failure that `error` tells, with the next step behind a semicolon.
pub(crate) fn told(code: Code, error: &impl std::fmt::Display) -> Failure {
    let text = error.to_string();
    let (what, next) = text.split_once("; ").unwrap_or((&text, ""));
    Failure::new(code, what, next)
}

fn bind_failure(bind: SocketAddr, source: &io::Error) -> Failure {
    let is = |kind| source.kind() == kind;
    let next = if is(io::ErrorKind::AddrInUse) {
        "another program has that UDP port; end it, or give another with --bind IP:PORT, which clients name by --underlay-port"
    } else if is(io::ErrorKind::PermissionDenied) {
        "give a port from 1024 on, or the capability CAP_NET_BIND_SERVICE"
    } else {
        "give an address of this machine with --bind IP:PORT"
    };
    Failure::new(Code::Address, format!("cannot bind UDP {bind}: {}", cause(source)), next)
}
