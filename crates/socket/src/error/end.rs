//! The end of a connection: under an operation, and by a close.

use std::fmt;
use std::time::Duration;

use weft_base::Address;

use crate::EndReason;
use crate::reason::errno;

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

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the connection to {} ended because {}", self.peer, self.reason)?;
        match self.silent_for {
            Some(silence) => write!(f, " (last heard {silence:?} before); connect again"),
            None => f.write_str("; connect again"),
        }
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
