//! A node: one place in the name space, with its links, its ports and its connections.

mod builder;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use weft_base::{Address, NodeId, Port};
use weft_engine::Engine;

pub use self::builder::NodeBuilder;
use crate::convert;
use crate::handle::Handle;
use crate::{
    AddError, ConnectError, ListenError, Listener, Mode, Name, NodeStats, OpenError, Options, Progress,
    Socket, ToTarget,
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
    /// The peer hears that it is open with what is sent next, or when this thread waits for it, or asks for a descriptor to wait by, or
    /// calls [`Socket::flush`]; after a millisecond in any case (decision 0069).
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

    /// For a loop of events of the program's own, or an asynchronous runtime: what its thread waits for, so that what comes for this
    /// node wakes no other before it.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn progress(&self) -> io::Result<Progress> {
        Progress::new(&self.engine)
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
