//! A node: one place in the name space, with its links, its ports and its connections.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use weft_base::{Address, NodeId, Port};
use weft_engine::link::Link;
use weft_engine::route::Cluster;
use weft_engine::{Engine, Scheme, Settings, Workers};

use crate::convert;
use crate::handle::Handle;
use crate::{
    AddError, ClusterFile, ConnectError, ListenError, Listener, Mode, Name, NodeStats, OpenError, Options,
    Socket, ToTarget, cluster,
};

/// A node of the CDP name space in this process.
///
/// A node owns one or more links and everything that runs over them. Clones are the same node. The node ends when
/// the last clone and the last of its sockets and listeners are gone: connections that are still open are then
/// closed by FIN within a bounded time (see [`Node::shutdown`]).
///
/// Nothing of this happens in a process that is killed, or that ends while nodes live in statics or in threads that
/// nobody joins: their peers are left to find out by time-out. Call [`Node::shutdown`] before the process ends.
///
/// ```
/// use weft_socket::{Node, Options, Target};
///
/// // Two nodes in one process, over UDP on the loopback interface.
/// let server = Node::builder().bind("127.0.0.1:0".parse()?).open()?;
/// let client = Node::builder().bind("127.0.0.1:0".parse()?).open()?;
///
/// let listener = server.listen(7, &Options::stream())?;
/// let target = Target::from((server.underlay(), listener.local_address().port));
/// let socket = client.connect(target, &Options::stream())?;
/// let accepted = listener.accept()?;
///
/// socket.send(b"good morning")?;
/// let mut buffer = [0; 64];
/// let len = accepted.recv(&mut buffer)?;
/// assert_eq!(&buffer[..len], b"good morning");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Node {
    pub(crate) engine: Arc<Engine>,
}

impl Node {
    /// Where a node is described before it is opened.
    pub fn builder() -> NodeBuilder {
        NodeBuilder::default()
    }

    /// A node with a random unregistered number on any UDP port of all IPv4 interfaces (open mode, CDP-ADR-8); for peers
    /// over IPv6 bind `[::]:0`, which takes both.
    ///
    /// # Errors
    /// When the operating system gives no socket, thread or descriptor.
    pub fn open() -> Result<Self, OpenError> {
        Self::builder().open()
    }

    /// The number of this node (CDP-ADR-1).
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.engine.node()
    }

    /// The underlay address of the first link; what others connect to. A wildcard address if it was bound to one.
    #[must_use]
    pub fn underlay(&self) -> SocketAddr {
        self.engine.underlay()
    }

    /// Listens on `port`, or on a random free one if `port` is 0 (CDP-ST-2).
    ///
    /// # Errors
    /// When the port is taken, or the memory budget is spent.
    pub fn listen(&self, port: u16, options: &Options) -> Result<Listener, ListenError> {
        let listening = convert::listen(&self.engine, Port::new(port), options)?;
        Ok(Listener::new(self.engine.clone(), listening, options))
    }

    /// Connects and waits until the connection is open (CDP-ST-1). The target is a [`crate::Target`], what makes one, or a
    /// text such as `compute-17:storage` ([`Node::resolve`]).
    ///
    /// # Errors
    /// When the target refuses, does not answer in time, or cannot be named; see [`ConnectError`].
    pub fn connect(&self, target: impl ToTarget, options: &Options) -> Result<Socket, ConnectError> {
        let socket = self.connect_start(target, options)?;
        socket.connect_finish()?;
        Ok(socket)
    }

    /// Begins to connect and returns at once: the socket becomes writable when the connection is open or has failed.
    /// Ask [`Socket::connect_finish`] then.
    ///
    /// # Errors
    /// When the target cannot be named or no local port is free.
    pub fn connect_start(&self, target: impl ToTarget, options: &Options) -> Result<Socket, ConnectError> {
        let target = target.to_target(self)?;
        let slot = convert::connect(&self.engine, target, options)?;
        Ok(Socket::new(Handle::connecting(self.engine.clone(), slot, options, target)))
    }

    /// Says where `node` is reached, for connects by node number and for checking its packets (CDP-ADR-6). Not for I/O nodes,
    /// which are what the cluster says when the node is opened.
    pub fn add_peer(&self, node: NodeId, at: SocketAddr) {
        self.engine.add_peer(node, at);
    }

    /// Lets `node` be found by `name` too ([`Node::resolve`]), as the ranks of a job are.
    ///
    /// # Errors
    /// When another node is called so.
    pub fn add_name(&self, name: Name, node: NodeId) -> Result<(), AddError> {
        self.engine.add_name(name, node)
    }

    /// Whether nodes that neither its cluster nor its user named may talk to this one.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.engine.mode()
    }

    /// A snapshot of all counters: the node, its links, its connections.
    #[must_use]
    pub fn stats(&self) -> NodeStats {
        convert::node_stats(&self.engine.stats())
    }

    /// Closes every connection by FIN, waits at most `limit` until they are closed, and resets what is left
    /// (CDP-ST-H). Later operations say that the node is down, and it is not listed among the running nodes any more.
    /// Returns how many connections had to be reset.
    pub fn shutdown(&self, limit: Duration) -> usize {
        self.engine.shutdown(limit)
    }

    /// The address of `port` on this node.
    #[must_use]
    pub fn address(&self, port: Port) -> Address {
        Address { node: self.id(), port }
    }
}

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

    /// As many [ports](Self::ports) as let a server with many peers use the cores that this process may run on: one on fewer than four,
    /// else two for each core and 32 at most, as few peers are then likely to share one.
    pub fn ports_by_cores(self) -> Self {
        let cores = cores();
        self.ports(if cores < MANY_CORES { 1 } else { (2 * cores).min(PORTS_ENOUGH) })
    }

    /// A [source port](Self::source_ports) for each of so many connections to one peer, 64 at most; none for fewer than two, nor where this
    /// process may run on fewer than four cores.
    pub fn source_ports_by_cores(self, connections: usize) -> Self {
        let is_worth_it = connections > 1 && cores() >= MANY_CORES;
        self.source_ports(if is_worth_it { connections.min(SOURCE_PORTS_ENOUGH) } else { 0 })
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

    /// Longest time a blocked thread polls before it sleeps. Default 50 µs; zero never polls.
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
    /// the capability `CAP_NET_ADMIN` the kernel gives no more than `net.core.wmem_max` and `net.core.rmem_max`.
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

/// Cores below which one port is as good as several.
const MANY_CORES: usize = 4;
/// Ports beyond which more make hardly a difference.
const PORTS_ENOUGH: usize = 32;

const SOURCE_PORTS_ENOUGH: usize = 64;

/// Cores that this process may run on.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The words of the control socket.
fn describe(stats: &weft_engine::EngineStats) -> String {
    convert::node_stats(stats).to_json()
}
