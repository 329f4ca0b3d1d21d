//! The BSD face of CDP: open a node, listen, connect, accept, send, receive, close.
//!
//! Blocking, non-blocking, with time-outs, through readiness descriptors, or as futures of any executor. A thread that
//! waits here works while it waits: it polls the link itself, then sleeps until something happens.
//!
//! This room must not know packets, timers or links beyond what [`weft_engine`] hands out; it waits, and says in
//! words what happened.
//!
//! ```
//! use weft_socket::{Node, Options};
//!
//! let server = Node::builder().bind("127.0.0.1:0".parse()?).open()?;
//! let listener = server.listen(0, &Options::datagram())?;
//! let target = (server.underlay(), listener.local_address().port);
//!
//! let client = std::thread::spawn(move || -> std::io::Result<usize> {
//!     let node = Node::builder().bind("127.0.0.1:0".parse().unwrap()).open()?;
//!     let socket = node.connect(target, &Options::datagram())?;
//!     socket.send(b"ping")?;
//!     Ok(socket.recv(&mut [0; 16])?)
//! });
//!
//! let socket = listener.accept()?;
//! let message = socket.recv_message()?;
//! socket.send(&message.to_vec())?;
//! assert_eq!(client.join().unwrap()?, 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod asynchronous;
mod close;
mod cluster;
mod convert;
mod cores;
mod datagram;
mod error;
mod handle;
mod listener;
mod message;
mod node;
mod options;
mod progress;
mod readiness;
mod reason;
mod resolve;
mod socket;
pub mod stat;
mod stats;
mod stream;
mod target;

pub use close::CloseResult;
pub use cluster::{LoadError, load_cluster, own_node};
pub use datagram::Datagram;
pub use error::{
    AcceptError, CloseError, ConnectError, Ended, LastPath, ListenError, OpenError, RecvError, SendError,
};
pub use listener::Listener;
pub use message::Message;
pub use node::{Node, NodeBuilder};
pub use options::{Coalescing, CongestionControl, Options};
pub use progress::Progress;
pub use readiness::{Interest, Readiness};
pub use reason::{EndReason, errno};
pub use resolve::{ResolveError, preferred_address};
pub use socket::{Received, Socket};
pub use stats::{
    Counter, IoNodeStats, LimitedBy, ListenerStats, NodeStats, PortStats, SideStats, SocketStats,
};
pub use stream::{Stream, WrongService};
pub use target::{Target, ToTarget};

pub use bytes::Bytes;
pub use weft_base::{Address, NodeId, Port, Service};
pub use weft_engine::route::{
    AddError, AddressText, ClusterFile, FileError, Mode, Name, UnknownNode, UnknownService, WhichError,
};
pub use weft_engine::{Scheme, link};
