//! Opening a node.

use std::net::SocketAddr;
use std::{fmt, io};

use super::kind_of;
use crate::reason::errno;
use crate::{UnknownNode, WhichError};

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
    /// The cluster has no node that is called as this one is to be.
    Unknown(UnknownNode),
    /// The cluster does not tell which of its nodes this is.
    Which(WhichError),
    /// An option of the builder does not make sense, or the name for statistics is taken or has no place.
    Invalid {
        /// The sentence that says so.
        why: String,
    },
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
            Self::Unknown(error) => error.fmt(f),
            Self::Which(error) => error.fmt(f),
            Self::Invalid { why } => f.write_str(why),
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
            Self::Unknown(_) | Self::Which(_) | Self::Invalid { .. } => errno::EINVAL,
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Bind { source, .. } | Self::System { source, .. } => Some(source),
            Self::Unknown(error) => Some(error),
            Self::Which(error) => Some(error),
            Self::Invalid { .. } => None,
        }
    }
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        Self::new(kind_of(error.errno()), error)
    }
}
