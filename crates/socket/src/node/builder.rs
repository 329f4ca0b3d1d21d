//! What a node is to be, and how it is opened.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use weft_base::NodeId;
use weft_engine::link::Link;
use weft_engine::route::Cluster;
use weft_engine::{Scheme, Settings, Workers};

use super::Node;
use crate::{ClusterFile, Mode, OpenError, cluster, convert, cores};

/// What a node is to be.
///
/// ```
/// use weft_socket::{Node, NodeId};
///
/// let node = Node::builder()
///     .node(NodeId::new(17).unwrap())
///     .bind("127.0.0.1:0".parse()?)
///     .peer(NodeId::new(18).unwrap(), "127.0.0.1:64064".parse()?)
///     .open()?;
/// assert_eq!(node.id().get(), 17);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
#[must_use = "a builder does nothing until it is opened"]
pub struct NodeBuilder {
    node: Option<NodeId>,
    bind: Option<SocketAddr>,
    links: Vec<Arc<dyn Link>>,
    peers: Vec<(NodeId, SocketAddr)>,
    ports: usize,
    source_ports: usize,
    scheme: Scheme,
    workers: Workers,
    spin: Option<Duration>,
    memory_bytes: Option<usize>,
    socket_buffer_bytes: Option<usize>,
    cluster: Option<ClusterFile>,
    name: Option<String>,
    mode: Option<Mode>,
    io_probe: Option<Duration>,
    linger: Option<Duration>,
    stat_name: Option<String>,
}

impl NodeBuilder {
    /// The number of the node. Default: that of the cluster file's node which [`NodeBuilder::named`] names or which has an address of
    /// this host; without a file a random unregistered one (CDP-ADR-8). A node with a number of its own drops
    /// packets for any other number; one without answers under each unregistered number it is called by.
    pub fn node(mut self, node: NodeId) -> Self {
        self.node = Some(node);
        self
    }

    /// The UDP address to bind. Default: where the cluster says that this node is, or any port on all IPv4 interfaces.
    pub fn bind(mut self, at: SocketAddr) -> Self {
        self.bind = Some(at);
        self
    }

    /// A link to use instead of UDP sockets of the node's own; may be given several times, a port each.
    pub fn link(mut self, link: Arc<dyn Link>) -> Self {
        self.links.push(link);
        self
    }

    /// How many UDP sockets share the bound address (SO_REUSEPORT), each with turns of its own. Default 1.
    ///
    /// The kernel gives all packets of one remote address and UDP port to one of them, so they share the work of a node
    /// with many peers, and not that of one with many connections to one peer, unless that has [source ports](Self::source_ports);
    /// several [workers](Self::workers) share it too. Who waits for a connection serves the port that it comes by.
    pub fn ports(mut self, ports: usize) -> Self {
        self.ports = ports;
        self
    }

    /// As many [ports](Self::ports) as let a server with many peers use the cores that this process may run on: one on a single core,
    /// else two for each core and 32 at most, as few peers are then likely to share one.
    pub fn ports_by_cores(self) -> Self {
        self.ports(cores::ports(cores::count()))
    }

    /// A [source port](Self::source_ports) for each of so many connections to one peer, eight for each core that this process may run on
    /// and 64 at most; none for fewer than two, nor on a single core.
    pub fn source_ports_by_cores(self, connections: usize) -> Self {
        self.source_ports(cores::source_ports(cores::count(), connections))
    }

    /// How many UDP sockets with a port number of their own connections of this node go out by in turn (CDP-ENC-7). Default 0:
    /// they go out by the bound address.
    ///
    /// Several connections to one peer then come by several ports of both nodes, and by several queues of their network cards,
    /// so that the threads which wait for them share the work. Those to nodes of the cluster go out by the bound address, as
    /// these answer to no other (CDP-ENC-6).
    pub fn source_ports(mut self, ports: usize) -> Self {
        self.source_ports = ports;
        self
    }

    /// Where another node is reached; packets of that node from elsewhere are dropped (CDP-ADR-6).
    pub fn peer(mut self, node: NodeId, at: SocketAddr) -> Self {
        self.peers.push((node, at));
        self
    }

    /// Drops packets from nodes that were not named as peers, and connects to no others. Default: what the cluster file
    /// says, which is strict unless it says `open`; without a file false, open mode (CDP-ADR-7). A strict node needs a number
    /// (CDP-ADR-8), see [`NodeBuilder::node`].
    pub fn strict(mut self, strict: bool) -> Self {
        self.mode = Some(if strict { Mode::Strict } else { Mode::Open });
        self
    }

    /// Nodes, networks, I/O nodes and services of a cluster file (CDP-ADR-2, CDP-IO-1), and whether others may talk to
    /// this node. Connections to a node on another network go through I/O nodes, and survive the loss of one.
    ///
    /// Which of its nodes this one is, [`NodeBuilder::named`] or [`NodeBuilder::node`] says; otherwise it is the only one
    /// with an address of this host.
    ///
    /// ```
    /// use weft_socket::{ClusterFile, Node};
    ///
    /// let file = ClusterFile::parse(
    ///     r#"
    ///     [[node]]
    ///     name = "login"
    ///     number = 1
    ///     at = "127.0.0.1:64991"
    ///
    ///     [[node]]
    ///     name = "storage"
    ///     number = 2
    ///     at = "127.0.0.1:64992"
    ///     "#,
    /// )?;
    /// let node = Node::builder().cluster(&file).named("storage").open()?;
    /// assert_eq!((node.id().get(), node.underlay().port()), (2, 64992));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cluster(mut self, file: &ClusterFile) -> Self {
        self.cluster = Some(file.clone());
        self
    }

    /// The name of this node in its cluster file, or its number there as text. A number from [`NodeBuilder::node`] goes
    /// before it.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Time between two probes of an I/O node that was left because it lost packets (CDP-IO-6). Default 5 s.
    pub fn io_probe(mut self, interval: Duration) -> Self {
        self.io_probe = Some(interval);
        self
    }

    /// How the socket table is locked. Default: the scheme that measured best.
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.scheme = scheme;
        self
    }

    /// Threads that do nothing but run turns. Default 0: threads that wait do it, and one service thread per port
    /// that sleeps otherwise.
    ///
    /// Worker `i` serves port `i mod ports`. Several at one port share its packets by connection, so that each stays in order.
    pub fn workers(mut self, threads: usize) -> Self {
        self.workers.threads = threads;
        self
    }

    /// Lets dedicated workers poll without ever sleeping. Default false.
    pub fn spinning_workers(mut self, spin: bool) -> Self {
        self.workers.spin = spin;
        self
    }

    /// Longest time a blocked thread polls before it sleeps. Default 150 µs; zero never polls. After waits of more than
    /// 200 µs it is less, down to a sixty-fourth.
    pub fn spin(mut self, limit: Duration) -> Self {
        self.spin = Some(limit);
        self
    }

    /// Bytes of memory that receive windows may promise, up to three quarters of these, and that messages of several packets may
    /// take beyond their windows, in all (CDP-LIM-13). A connection whose message there is no room for ends with
    /// [`EndReason::NoRoom`](crate::EndReason::NoRoom). Default: half of the machine's memory.
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.memory_bytes = Some(bytes);
        self
    }

    /// Bytes wanted for the kernel's send buffer and for its receive buffer of each UDP socket of the node's own. Default 8 MiB. Without
    /// the capability `CAP_NET_ADMIN` the kernel gives no more than `net.core.wmem_max` and `net.core.rmem_max`. Where that is less than
    /// 768 KiB, a port that one peer floods takes four times as much beside, for as long as it is flooded.
    pub fn socket_buffer_bytes(mut self, bytes: usize) -> Self {
        self.socket_buffer_bytes = Some(bytes);
        self
    }

    /// How long the end of the node waits for connections to close (CDP-ST-H). Default 2 s.
    pub fn linger(mut self, limit: Duration) -> Self {
        self.linger = Some(limit);
        self
    }

    /// Offers the statistics of this node under `name` to other programs of this user; see [`crate::stat`].
    pub fn stat_name(mut self, name: impl Into<String>) -> Self {
        self.stat_name = Some(name.into());
        self
    }

    /// Opens the node.
    ///
    /// # Errors
    /// When the address cannot be bound, the operating system gives no thread or descriptor, or the cluster file does
    /// not tell which of its nodes this is.
    pub fn open(self) -> Result<Node, OpenError> {
        let file = self.cluster.unwrap_or_else(|| (Cluster::default(), Mode::Open).into());
        let own = match (self.node, &self.name) {
            (Some(node), _) => Some(node),
            (None, None) if file.cluster.is_empty() => None,
            (None, name) => cluster::own_node(&file, name.as_deref())?,
        };
        let bind = self.bind.or_else(|| file.cluster.get(own?)?.bind_address());
        let bind = bind.unwrap_or((Ipv4Addr::UNSPECIFIED, 0).into());
        let mut settings = Settings::default();
        settings.node = own;
        settings.bind = bind;
        settings.links = self.links;
        settings.peers = self.peers;
        settings.ports = self.ports.max(1);
        settings.source_ports = self.source_ports;
        settings.scheme = self.scheme;
        settings.workers = self.workers;
        settings.mode = self.mode.unwrap_or(file.mode);
        settings.cluster = file.cluster;
        settings.io_probe = self.io_probe.unwrap_or(settings.io_probe);
        settings.stat = self.stat_name.map(|name| (name, describe as weft_engine::Describe));
        settings.spin = self.spin.unwrap_or(settings.spin);
        settings.memory_bytes = self.memory_bytes.unwrap_or(settings.memory_bytes);
        settings.socket_buffer_bytes = self.socket_buffer_bytes.unwrap_or(settings.socket_buffer_bytes);
        settings.linger = self.linger.unwrap_or(settings.linger);
        let engine = convert::open(settings, bind)?;
        Ok(Node { engine: Arc::new(engine) })
    }
}

/// The words of the control socket.
fn describe(stats: &weft_engine::EngineStats) -> String {
    convert::node_stats(stats).to_json()
}
