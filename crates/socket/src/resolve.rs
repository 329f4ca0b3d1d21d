//! From `NAME:SERVICE` to the end of a connection.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use weft_base::limits;
use weft_engine::link::Mac;
use weft_engine::route;
use weft_engine::route::{AddressText, Mode, ParseAddressError, UnknownNode, UnknownService};

use crate::reason::errno;
use crate::{Address, Node, Target};

/// Why a text names no end of a connection.
#[derive(Debug)]
#[non_exhaustive]
pub enum ResolveError {
    /// It is not `HOST[:PORT]` (EINVAL).
    Text(ParseAddressError),
    /// It gives no port (EINVAL).
    NoPort(AddressText),
    /// No service is called so (EINVAL).
    Service(UnknownService),
    /// No node of the cluster is called so, and the node is strict (EHOSTUNREACH).
    Node(UnknownNode),
    /// Neither a node of the cluster nor a host is called so (EHOSTUNREACH).
    Host {
        /// The node, and names close to it.
        unknown: UnknownNode,
        /// What the resolver of this host said.
        source: io::Error,
    },
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(error) => error.fmt(f),
            Self::NoPort(text) => route::ResolveError::NoPort(text.clone()).fmt(f),
            Self::Service(error) => error.fmt(f),
            Self::Node(error) => error.fmt(f),
            Self::Host { unknown, source } => {
                write!(f, "no host is called {:?} ({source}), and {unknown}", unknown.wanted)
            }
        }
    }
}

impl ResolveError {
    /// The errno of section 16.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::Text(_) | Self::NoPort(_) | Self::Service(_) => errno::EINVAL,
            Self::Node(_) | Self::Host { .. } => errno::EHOSTUNREACH,
        }
    }
}

impl Node {
    /// The end of a connection that `text` names: `NAME:SERVICE` of the cluster file or of a job, in which a number or an
    /// address may stand for the name, and a number for the service. A node that is not strict also takes the name or
    /// address of a host, for whichever node is there at UDP port 64064, and the address of an Ethernet interface in brackets.
    ///
    /// ```
    /// use weft_socket::{ClusterFile, Node, Target};
    ///
    /// let file = ClusterFile::parse(
    ///     r#"
    ///     [services]
    ///     storage = 2000
    ///
    ///     [[node]]
    ///     name = "login"
    ///     number = 1
    ///     at = "127.61.9.1"
    ///
    ///     [[node]]
    ///     name = "compute-17"
    ///     number = 17
    ///     at = "127.61.9.17"
    ///     "#,
    /// )?;
    /// let node = Node::builder().cluster(&file).named("login").open()?;
    /// let target = node.resolve("compute-17:storage")?;
    /// assert_eq!(target.to_string(), "node 0x000011 port 2000");
    ///
    /// let unknown = node.resolve("compute-71:storage").unwrap_err();
    /// let sentence = "no node of the cluster is called \"compute-71\"; did you mean compute-17?";
    /// assert_eq!(unknown.to_string(), sentence);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the text is of another form, or names somebody unknown; see [`ResolveError`]. A host that is not known here
    /// may take the resolver of the operating system as long as it takes.
    pub fn resolve(&self, text: &str) -> Result<Target, ResolveError> {
        let text: AddressText = text.parse().map_err(ResolveError::Text)?;
        let (port, member) = self
            .engine
            .cluster(|cluster| (cluster.port(&text), cluster.member(&text.host).map(|member| member.node)));
        let port = port.map_err(ResolveError::Service)?.ok_or_else(|| ResolveError::NoPort(text.clone()))?;
        let unknown = match member {
            Ok(node) => return Ok(Target::Address(Address { node, port })),
            Err(unknown) if self.engine.mode() == Mode::Strict => return Err(ResolveError::Node(unknown)),
            Err(unknown) => unknown,
        };
        // a node that was learned, perhaps; who looks hosts up would take 200 for the address 0.0.0.200
        if let Ok(node) = text.host.parse() {
            return Ok(Target::Address(Address { node, port }));
        }
        match self.look_up(&text.host) {
            Ok(at) => Ok(Target::Underlay { at, port }),
            Err(source) => Err(ResolveError::Host { unknown, source }),
        }
    }

    /// Where the operating system says that `host` is, if possible of the family that this node is bound to.
    fn look_up(&self, host: &str) -> io::Result<SocketAddr> {
        if let Ok(interface) = host.parse::<Mac>() {
            return Ok(interface.underlay());
        }
        let found: Vec<SocketAddr> = (host, limits::UDP_PORT).to_socket_addrs()?.collect();
        let at = preferred_address(&found, self.underlay().is_ipv4());
        at.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
    }
}

/// The address to take of those that the operating system `found` for a name: the first of the family that is wanted, or
/// else the first of all.
///
/// ```
/// let found = ["[::1]:7".parse()?, "127.0.0.1:7".parse()?];
/// assert_eq!(weft_socket::preferred_address(&found, true), Some(found[1]));
/// assert_eq!(weft_socket::preferred_address(&found[..1], true), Some(found[0]));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[must_use]
pub fn preferred_address(found: &[SocketAddr], wants_ipv4: bool) -> Option<SocketAddr> {
    found.iter().find(|at| at.is_ipv4() == wants_ipv4).or(found.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConnectError, Options};

    #[test]
    fn a_number_is_that_of_a_node_and_no_address_though_no_cluster_names_it() {
        let node = Node::builder().bind("127.0.0.1:0".parse().unwrap()).open().unwrap();
        for (text, number) in [("200:7", 200), ("0x8000c8:7", 0x0080_00c8)] {
            let target = node.resolve(text).unwrap();
            assert!(
                matches!(target, Target::Address(Address { node, .. }) if node.get() == number),
                "{target}"
            );
        }
        let failed = node.connect("200:7", &Options::stream()).unwrap_err();
        assert!(matches!(failed, ConnectError::NoRoute(node) if node.get() == 200), "{failed}");
        assert!(matches!(node.resolve("127.0.0.9:7"), Ok(Target::Underlay { .. })));
    }
}
