//! Connecting.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use weft_base::{Address, NodeId, Port, Service};

use crate::reason::errno;
use crate::{EndReason, ResolveError, Target};

/// Why a connect failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The text that was to name the target does not (EHOSTUNREACH for somebody unknown, EINVAL for another form).
    Unresolved(ResolveError),
    /// The target answered with a refusal; the errno is that of the reason.
    Refused {
        /// Where the connect went.
        target: Target,
        /// The reason the target gave.
        reason: EndReason,
        /// The detail that came with the reason, such as the type of a refused TLV.
        detail: Option<u16>,
    },
    /// The target's host says that no process has its UDP port (ECONNREFUSED, CDP-ENC-11).
    Absent(Target),
    /// No answer (ETIMEDOUT).
    TimedOut {
        /// Where the connect went.
        target: Target,
        /// How long it waited.
        after: Duration,
    },
    /// The target is of the other service (EPROTOTYPE, CDP-SYN-6).
    WrongService {
        /// Where the connect went.
        target: Target,
        /// The service that was asked for.
        asked: Service,
    },
    /// The node number has no known underlay address (EHOSTUNREACH).
    NoRoute(NodeId),
    /// The system knows no way to the target, or permits none (the errno is the system's, such as ENETUNREACH).
    NoWay {
        /// Where the connect was to go.
        target: Target,
        /// What the system says.
        source: io::Error,
    },
    /// The node is strict, and no peer of it is at that address (EHOSTUNREACH).
    Stranger(SocketAddr),
    /// The local port is in use towards that target (EADDRINUSE).
    InUse(Port),
    /// No ephemeral port is free towards that target, or it is this very address (EADDRNOTAVAIL).
    NoPortFree(Target),
    /// The target is the address that connects (EADDRNOTAVAIL, CDP-HDR-16).
    ToItself(Address),
    /// The memory budget of the process is spent (ENOBUFS, CDP-LIM-13).
    NoRoom,
    /// The socket is non-blocking and the handshake goes on (EINPROGRESS).
    InProgress,
    /// The node was shut down (ENETDOWN).
    NodeDown,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unresolved(error) => error.fmt(f),
            Self::Refused { target, reason, detail: None } => {
                write!(f, "{target} refused the connection because {reason}; check the port and the listener")
            }
            Self::Refused { target, reason, detail: Some(detail) } => {
                write!(
                    f,
                    "{target} refused the connection because {reason} (detail {detail}); check both versions"
                )
            }
            Self::Absent(target) => {
                write!(
                    f,
                    "nothing listens at {}; start the node there, or check its address",
                    target.underlay()
                )
            }
            Self::TimedOut { target, after } => {
                write!(
                    f,
                    "{target} did not answer within {after:?}; check the address, that the node runs, and that no firewall drops its packets"
                )
            }
            Self::WrongService { target, asked } => write!(
                f,
                "{target} does not offer the {} service; connect with the other service",
                service_name(*asked)
            ),
            Self::NoRoute(node) => {
                write!(
                    f,
                    "node {node} has no known underlay address; add it as a peer or give its host and port"
                )
            }
            Self::NoWay { target, source } => write!(
                f,
                "no packet can leave for {target}: {source}; check that address, the one this node is bound to, and the routes of this host"
            ),
            Self::Stranger(at) => {
                write!(f, "no peer is known at {at}, and this node is strict; add it as a peer")
            }
            Self::InUse(port) => {
                write!(f, "local port {port} is in use towards that target; choose another, or 0 for any")
            }
            Self::NoPortFree(target) => {
                write!(f, "no ephemeral port is free towards {target}; close connections to it first")
            }
            Self::ToItself(address) => {
                write!(f, "{address} cannot connect to itself; connect from another local port")
            }
            Self::NoRoom => f.write_str(
                "the memory budget of this node is spent; close connections or give the node a larger budget",
            ),
            Self::InProgress => {
                f.write_str("the connection is being opened; wait until the socket is writable")
            }
            Self::NodeDown => f.write_str("the node was shut down; open another one"),
        }
    }
}

fn service_name(service: Service) -> &'static str {
    match service {
        Service::Datagram => "datagram",
        Service::Stream => "stream",
    }
}

impl ConnectError {
    /// The errno of section 16.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::Unresolved(error) => error.errno(),
            Self::Refused { reason: EndReason::None, .. } => errno::ECONNREFUSED, // CDP-ST-13
            Self::Refused { reason, .. } => reason.errno(),
            Self::Absent(_) => errno::ECONNREFUSED,
            Self::TimedOut { .. } => errno::ETIMEDOUT,
            Self::WrongService { .. } => errno::EPROTOTYPE,
            Self::NoRoute(_) | Self::Stranger(_) => errno::EHOSTUNREACH,
            Self::NoWay { source, .. } => source.raw_os_error().unwrap_or(errno::EHOSTUNREACH),
            Self::InUse(_) => errno::EADDRINUSE,
            Self::NoPortFree(_) | Self::ToItself(_) => errno::EADDRNOTAVAIL,
            Self::NoRoom => errno::ENOBUFS,
            Self::InProgress => errno::EINPROGRESS,
            Self::NodeDown => errno::ENETDOWN,
        }
    }
}

impl From<ResolveError> for ConnectError {
    fn from(error: ResolveError) -> Self {
        Self::Unresolved(error)
    }
}
