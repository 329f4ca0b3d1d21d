//! Listening and accepting.

use std::fmt;
use std::time::Duration;

use weft_base::Port;

use crate::reason::errno;

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
