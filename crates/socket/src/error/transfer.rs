//! Sending and receiving.

use std::time::Duration;
use std::{fmt, io};

use super::{Ended, kind_of};
use crate::reason::errno;

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
