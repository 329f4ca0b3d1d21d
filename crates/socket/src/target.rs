//! Where a connect goes.

use std::fmt;
use std::net::SocketAddr;

use weft_base::{Address, NodeId, Port};
use weft_engine::link::UnderlayText;

use crate::{Node, ResolveError};

/// The far end of a connect: a node named by its number, or by the underlay address where it is reached.
///
/// ```
/// use std::net::SocketAddr;
/// use weft_socket::{Port, Target};
///
/// let underlay: SocketAddr = "192.0.2.7:64064".parse()?;
/// let target = Target::from((underlay, Port::ECHO));
/// assert_eq!(target.to_string(), "192.0.2.7:64064 port 7");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// A node and port; the node's underlay address is known to the node that connects.
    Address(Address),
    /// A port of whichever node answers at an underlay address (open mode, CDP-ADR-7).
    Underlay {
        /// Where the node is reached.
        at: SocketAddr,
        /// The port on that node.
        port: Port,
    },
    /// A node and port, with the underlay address where that node is reached.
    Both {
        /// The node and port.
        address: Address,
        /// Where the node is reached.
        at: SocketAddr,
    },
}

impl Target {
    /// The port of the target.
    #[must_use]
    pub fn port(&self) -> Port {
        match self {
            Self::Address(address) | Self::Both { address, .. } => address.port,
            Self::Underlay { port, .. } => *port,
        }
    }
}

impl Target {
    /// Where its packets go, for people: `UDP 10.0.0.1:64064` where that is known.
    pub(crate) fn underlay(&self) -> String {
        match self {
            Self::Address(address) => format!("the UDP port of node {}", address.node),
            Self::Underlay { at, .. } | Self::Both { at, .. } => format!("UDP {}", UnderlayText(*at)),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "node {} port {}", address.node, address.port),
            Self::Underlay { at, port } => write!(f, "{} port {port}", UnderlayText(*at)),
            Self::Both { address, at } => {
                write!(f, "node {} port {} at {}", address.node, address.port, UnderlayText(*at))
            }
        }
    }
}

impl From<Address> for Target {
    fn from(address: Address) -> Self {
        Self::Address(address)
    }
}

impl From<(NodeId, Port)> for Target {
    fn from((node, port): (NodeId, Port)) -> Self {
        Self::Address(Address { node, port })
    }
}

impl From<(SocketAddr, Port)> for Target {
    fn from((at, port): (SocketAddr, Port)) -> Self {
        Self::Underlay { at, port }
    }
}

impl From<(Address, SocketAddr)> for Target {
    fn from((address, at): (Address, SocketAddr)) -> Self {
        Self::Both { address, at }
    }
}

/// What names the far end of a connect: a [`Target`], what makes one, or a text such as `compute-17:storage` that the
/// node looks up ([`Node::resolve`]).
pub trait ToTarget {
    /// The target, as `node` knows it.
    ///
    /// # Errors
    /// When a text names nobody.
    fn to_target(&self, node: &Node) -> Result<Target, ResolveError>;
}

macro_rules! to_target {
    ($($known:ty),+) => {
        $(impl ToTarget for $known {
            fn to_target(&self, _: &Node) -> Result<Target, ResolveError> {
                Ok((*self).into())
            }
        })+
    };
}

to_target!(Target, Address, (NodeId, Port), (SocketAddr, Port), (Address, SocketAddr));

impl ToTarget for str {
    fn to_target(&self, node: &Node) -> Result<Target, ResolveError> {
        node.resolve(self)
    }
}

impl ToTarget for String {
    fn to_target(&self, node: &Node) -> Result<Target, ResolveError> {
        node.resolve(self)
    }
}

impl<T: ToTarget + ?Sized> ToTarget for &T {
    fn to_target(&self, node: &Node) -> Result<Target, ResolveError> {
        (**self).to_target(node)
    }
}
