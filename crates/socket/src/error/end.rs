//! The end of a connection: under an operation, and by a close.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use weft_base::{Address, NodeId};
use weft_engine::link::UnderlayText;

use crate::EndReason;
use crate::reason::errno;

/// By which way the ends of a connection last had to do with each other (CDP-TMR-3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastPath {
    /// The underlay address that the last packet to the peer went to: the peer's, or that of an I/O node.
    pub to: SocketAddr,
    /// The I/O node that it went through; `None` where the peer is reached directly.
    pub sent_through: Option<NodeId>,
    /// The I/O node through which the peer was last heard.
    pub heard_through: Option<NodeId>,
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
    /// By which way, where the above is known.
    pub last_path: Option<LastPath>,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the connection to {} ended because {}", self.peer, self.reason)?;
        match self.silent_for {
            Some(silence) => {
                write!(f, " (last heard {silence:.1?} before")?;
                self.last_path.map_or(Ok(()), |path| path.fmt(f))?;
                f.write_str("); connect again")
            }
            None => f.write_str("; connect again"),
        }
    }
}

impl fmt::Display for LastPath {
    /// What follows "last heard .. before".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(io_node) = self.heard_through {
            write!(f, " through I/O node {io_node}")?;
        }
        write!(f, ", last sent to ")?;
        if let Some(io_node) = self.sent_through {
            write!(f, "I/O node {io_node} at ")?;
        }
        write!(f, "{}", UnderlayText(self.to))
    }
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
