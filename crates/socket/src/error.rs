//! One small set of errors per operation, each with its errno (specification section 16).

use std::net::SocketAddr;
use std::time::Duration;
use std::{fmt, io};

use weft_base::{Address, NodeId, Port, Service};

use crate::reason::errno;
use crate::{EndReason, Target};

/// Why a node could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The underlay address could not be bound.
    Bind {
        /// The address that was asked for.
        at: SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
    /// A thread, descriptor or random number could not be had.
    System {
        /// What was wanted.
        what: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// An option of the builder does not make sense.
    Invalid {
        /// The sentence that says so.
        why: String,
    },
}

/// Why a socket could not listen.
#[derive(Debug)]
#[non_exhaustive]
pub enum ListenError {
    /// Somebody listens on the port already (EADDRINUSE).
    InUse(Port),
    /// No port is free (EADDRNOTAVAIL).
    NoPortFree,
    /// The memory budget of the process is spent (ENOBUFS, CDP-LIM-13).
    NoRoom,
    /// The node was shut down (ENETDOWN).
    NodeDown,
}

/// Why a connect failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The target answered with a refusal; the errno is that of the reason.
    Refused {
        /// Where the connect went.
        target: Target,
        /// The reason the target gave.
        reason: EndReason,
        /// The detail that came with the reason, such as the type of a refused TLV.
        detail: Option<u16>,
    },
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

/// Why an accept gave no socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AcceptError {
    /// Nobody connected so far and the listener is non-blocking (EAGAIN).
    WouldBlock,
    /// Nobody connected within the time-out (EAGAIN, as BSD sockets say).
    TimedOut(Duration),
    /// The listener was closed (EINVAL).
    Closed,
}

/// How and why a connection ended under an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The peer of the connection.
    pub peer: Address,
    /// Why it ended.
    pub reason: EndReason,
    /// How long before the end the peer was last heard (CDP-TMR-3), if known.
    pub silent_for: Option<Duration>,
}

/// Why a send took nothing, or not everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SendError {
    /// The send queue is full and the socket is non-blocking (EAGAIN).
    WouldBlock,
    /// The send queue stayed full for the send time-out (EAGAIN, as BSD sockets say).
    TimedOut(Duration),
    /// The message is longer than what the peer or this end takes (EMSGSIZE, CDP-DG-6).
    TooLong {
        /// Bytes of the message.
        len: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// This end closed, or the peer's end of connection arrived (EPIPE).
    Closed,
    /// The connection is not open yet (ENOTCONN).
    NotConnected,
    /// No memory or budget for the queue (ENOBUFS).
    NoMemory,
    /// The connection ended; the errno is that of the reason.
    Ended(Ended),
}

/// Why a receive gave no data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RecvError {
    /// Nothing arrived so far and the socket is non-blocking (EAGAIN).
    WouldBlock,
    /// Nothing arrived within the receive time-out (EAGAIN, as BSD sockets say).
    TimedOut(Duration),
    /// The peer closed and everything was read. Streams say it as `Ok(0)`; datagrams, which may be empty, so.
    EndOfFile,
    /// The connection is not open yet, or this end closed it (ENOTCONN).
    NotConnected,
    /// The connection ended; the errno is that of the reason.
    Ended(Ended),
}

/// Why a close gave no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CloseError {
    /// The close goes on in the background and the socket is non-blocking (EAGAIN).
    WouldBlock,
    /// The result did not come within the time-out; the close goes on in the background (EAGAIN).
    TimedOut(Duration),
    /// The connection had ended before the close; the errno is that of the reason.
    Ended(Ended),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { at, source } => {
                write!(
                    f,
                    "cannot bind {at}: {source}; free that UDP port or bind another one (port 0 takes any)"
                )
            }
            Self::System { what, source } => {
                write!(f, "cannot get {what}: {source}; look at the limits of this process (ulimit -a)")
            }
            Self::Invalid { why } => f.write_str(why),
        }
    }
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(port) => {
                write!(
                    f,
                    "port {port} is in use by another listener of this node; choose another, or 0 for any"
                )
            }
            Self::NoPortFree => {
                f.write_str("no port is free on this node; close listeners that are not needed")
            }
            Self::NoRoom => f.write_str(
                "the memory budget of this node is spent; close connections or give the node a larger budget",
            ),
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

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { target, reason, detail: None } => {
                write!(f, "{target} refused the connection because {reason}; check the port and the listener")
            }
            Self::Refused { target, reason, detail: Some(detail) } => {
                write!(
                    f,
                    "{target} refused the connection because {reason} (detail {detail}); check both versions"
                )
            }
            Self::TimedOut { target, after } => {
                write!(
                    f,
                    "{target} did not answer within {after:?}; check the address, and that UDP passes the way"
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

impl fmt::Display for AcceptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldBlock => f.write_str("nobody connected so far; wait until the listener is readable"),
            Self::TimedOut(after) => {
                write!(f, "nobody connected within {after:?}; wait longer or check the clients")
            }
            Self::Closed => f.write_str("the listener was closed; listen again"),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the connection to {} ended because {}", self.peer, self.reason)?;
        match self.silent_for {
            Some(silence) => write!(f, " (last heard {silence:?} before); connect again"),
            None => f.write_str("; connect again"),
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldBlock => f.write_str("the send queue is full; wait until the socket is writable"),
            Self::TimedOut(after) => {
                write!(
                    f,
                    "the peer took nothing for {after:?}; it may be slow or gone, so wait longer or close"
                )
            }
            Self::TooLong { len, limit } => {
                write!(
                    f,
                    "a message of {len} bytes is above the limit of {limit}; split it or agree on a larger one"
                )
            }
            Self::Closed => f.write_str("the connection is closed for sending; open another one"),
            Self::NotConnected => {
                f.write_str("the connection is not open yet; wait until the socket is writable")
            }
            Self::NoMemory => f.write_str("no memory is left for the send queue; let the peer read first"),
            Self::Ended(ended) => ended.fmt(f),
        }
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldBlock => f.write_str("nothing arrived so far; wait until the socket is readable"),
            Self::TimedOut(after) => {
                write!(f, "nothing arrived within {after:?}; wait longer or check the peer")
            }
            Self::EndOfFile => f.write_str("the peer closed and everything was read; close this end too"),
            Self::NotConnected => f.write_str("the connection is not open; connect first"),
            Self::Ended(ended) => ended.fmt(f),
        }
    }
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldBlock => f.write_str("the close goes on in the background; ask for its result later"),
            Self::TimedOut(after) => {
                write!(f, "the peer did not confirm the close within {after:?}; it goes on in the background")
            }
            Self::Ended(ended) => ended.fmt(f),
        }
    }
}

impl OpenError {
    /// The errno of the operating system, or EINVAL.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::Bind { source, .. } | Self::System { source, .. } => {
                source.raw_os_error().unwrap_or(errno::EINVAL)
            }
            Self::Invalid { .. } => errno::EINVAL,
        }
    }
}

impl ListenError {
    /// The errno of section 16.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::InUse(_) => errno::EADDRINUSE,
            Self::NoPortFree => errno::EADDRNOTAVAIL,
            Self::NoRoom => errno::ENOBUFS,
            Self::NodeDown => errno::ENETDOWN,
        }
    }
}

impl ConnectError {
    /// The errno of section 16.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::Refused { reason: EndReason::None, .. } => errno::ECONNREFUSED, // CDP-ST-13
            Self::Refused { reason, .. } => reason.errno(),
            Self::TimedOut { .. } => errno::ETIMEDOUT,
            Self::WrongService { .. } => errno::EPROTOTYPE,
            Self::NoRoute(_) | Self::Stranger(_) => errno::EHOSTUNREACH,
            Self::InUse(_) => errno::EADDRINUSE,
            Self::NoPortFree(_) | Self::ToItself(_) => errno::EADDRNOTAVAIL,
            Self::NoRoom => errno::ENOBUFS,
            Self::InProgress => errno::EINPROGRESS,
            Self::NodeDown => errno::ENETDOWN,
        }
    }
}

impl AcceptError {
    /// The errno of section 16.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::WouldBlock | Self::TimedOut(_) => errno::EAGAIN,
            Self::Closed => errno::EINVAL,
        }
    }
}

impl SendError {
    /// The errno of section 16.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::WouldBlock | Self::TimedOut(_) => errno::EAGAIN,
            Self::TooLong { .. } => errno::EMSGSIZE,
            Self::Closed => errno::EPIPE,
            Self::NotConnected => errno::ENOTCONN,
            Self::NoMemory => errno::ENOBUFS,
            Self::Ended(ended) => ended.reason.errno(),
        }
    }
}

impl RecvError {
    /// The errno of section 16; 0 for the end of file.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::WouldBlock | Self::TimedOut(_) => errno::EAGAIN,
            Self::EndOfFile => 0,
            Self::NotConnected => errno::ENOTCONN,
            Self::Ended(ended) => ended.reason.errno(),
        }
    }
}

impl CloseError {
    /// The errno of section 16.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::WouldBlock | Self::TimedOut(_) => errno::EAGAIN,
            Self::Ended(ended) => ended.reason.errno(),
        }
    }
}

/// The kind that `std` gives an errno, where it has one.
fn kind_of(errno: i32) -> io::ErrorKind {
    io::Error::from_raw_os_error(errno).kind()
}

macro_rules! into_io {
    ($($error:ty),*) => {$(
        impl std::error::Error for $error {}

        impl From<$error> for io::Error {
            /// Keeps the kind of the errno and the sentence of the error.
            fn from(error: $error) -> Self {
                Self::new(kind_of(error.errno()), error)
            }
        }
    )*};
}

into_io!(ListenError, ConnectError, AcceptError, SendError, CloseError);

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Bind { source, .. } | Self::System { source, .. } => Some(source),
            Self::Invalid { .. } => None,
        }
    }
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        Self::new(kind_of(error.errno()), error)
    }
}

impl std::error::Error for RecvError {}

impl From<RecvError> for io::Error {
    /// The end of file becomes [`io::ErrorKind::UnexpectedEof`].
    fn from(error: RecvError) -> Self {
        match error {
            RecvError::EndOfFile => Self::new(io::ErrorKind::UnexpectedEof, error),
            RecvError::WouldBlock
            | RecvError::TimedOut(_)
            | RecvError::NotConnected
            | RecvError::Ended(_) => Self::new(kind_of(error.errno()), error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_connect_is_a_connection_refused_for_std() {
        let target = Target::from((NodeId::unregistered(1), Port::ECHO));
        let refused = ConnectError::Refused { target, reason: EndReason::Refused, detail: None };
        assert!(refused.to_string().contains("port 7"), "{refused}");
        assert_eq!(io::Error::from(refused).kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_full_queue_is_would_block_for_std() {
        assert_eq!(io::Error::from(SendError::WouldBlock).kind(), io::ErrorKind::WouldBlock);
        assert_eq!(io::Error::from(RecvError::WouldBlock).kind(), io::ErrorKind::WouldBlock);
    }
}
