//! Why an operation did not do what was asked, and why a connection ended.

use std::fmt;

use weft_wire::Reason;

/// Why a connection ended without an ordinary close (section 16).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Error {
    /// The peer reset the open connection and gave this reason.
    Reset(Reason),
    /// The open failed: the peer refused it, or we its answer, for this reason.
    Refused(Reason),
    /// The open failed: the peer's host says that nobody has its UDP port.
    Absent,
    /// The peer's host says that nobody has its UDP port any more.
    Gone,
    /// Nothing came back in time.
    TimedOut(Waited),
    /// The peer broke a rule of the protocol; we reset the open connection and gave this reason.
    Violation(Reason),
    /// There is no memory here for the message that the peer sends; we reset the open connection and gave REASON 13.
    NoRoom,
    /// Our own user aborted the connection.
    Aborted,
}

/// What was waited for in vain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Waited {
    /// An answer to our SYN within SYN_TIME.
    Open,
    /// An acknowledgement of data within R2.
    Acknowledgement,
    /// Any sign of life within EXPIRY.
    KeepAlive,
    /// Room in the window of a peer that does not read, within NO_PROGRESS.
    Reader,
}

/// The error numbers that section 16 assigns, in words; the C face maps them to `errno`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[allow(missing_docs)] // each is the `errno` of the same name
pub enum Errno {
    ConnReset,
    ConnRefused,
    TimedOut,
    Proto,
    PrototypeMismatch,
    ProtoNoSupport,
    MsgSize,
    Access,
    NetDown,
    BadMsg,
    ConnAborted,
}

impl Error {
    /// The error number of this end (section 16, column "errno at the receiver").
    #[must_use]
    pub fn errno(self) -> Errno {
        match self {
            Self::Refused(Reason::NONE | Reason::UNKNOWN) => Errno::ConnRefused,
            Self::Reset(reason) | Self::Refused(reason) | Self::Violation(reason) => reason_errno(reason),
            Self::NoRoom => reason_errno(Reason::NO_ROOM),
            Self::Absent => Errno::ConnRefused,
            Self::Gone => Errno::ConnReset,
            Self::TimedOut(_) => Errno::TimedOut,
            Self::Aborted => Errno::ConnAborted,
        }
    }
}

fn reason_errno(reason: Reason) -> Errno {
    match reason {
        Reason::REFUSED | Reason::NO_ROOM | Reason::COOKIE => Errno::ConnRefused,
        Reason::IDLE | Reason::GAVE_UP | Reason::STALLED => Errno::TimedOut,
        Reason::PROTOCOL | Reason::FALSE_ACK => Errno::Proto,
        Reason::SERVICE => Errno::PrototypeMismatch,
        Reason::OPTION | Reason::VERSION => Errno::ProtoNoSupport,
        Reason::TOO_BIG => Errno::MsgSize,
        Reason::FORBIDDEN => Errno::Access,
        Reason::LEAVING => Errno::NetDown,
        Reason::KEYS => Errno::BadMsg,
        // [CDP-ERR-1] an unknown REASON is taken as code 0
        _ => Errno::ConnReset,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reset(reason) => write!(f, "the peer reset the connection ({reason})"),
            Self::Refused(reason) => write!(f, "the peer refused the connection ({reason})"),
            Self::Absent => f.write_str("nobody has the peer's UDP port"),
            Self::Gone => f.write_str("nobody has the peer's UDP port any more"),
            Self::TimedOut(Waited::Open) => f.write_str("the peer did not answer the open"),
            Self::TimedOut(Waited::Acknowledgement) => f.write_str("the peer acknowledged nothing any more"),
            Self::TimedOut(Waited::KeepAlive) => f.write_str("the peer gave no sign of life"),
            Self::TimedOut(Waited::Reader) => f.write_str("the peer did not read and kept its window closed"),
            Self::Violation(reason) => write!(f, "the peer broke the protocol ({reason})"),
            Self::NoRoom => f.write_str("there is no memory here for the peer's message"),
            Self::Aborted => f.write_str("the connection was aborted at this end"),
        }
    }
}

impl std::error::Error for Error {}

/// Why `send` took nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendError {
    /// The send queue is full, or the connection is not open yet: try again after `Writable` (EAGAIN).
    WouldBlock,
    /// The message is longer than the peer takes; the limit in bytes (EMSGSIZE, CDP-DG-6).
    TooBig(usize),
    /// The peer has closed, or this end has (EPIPE, row 42).
    Closed,
    /// The connection has ended.
    Failed(Error),
}

/// Why `recv` gave nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvError {
    /// Nothing is there yet: try again after `Readable` (EAGAIN).
    WouldBlock,
    /// This end has closed (ENOTCONN).
    Closed,
    /// The connection has ended, and everything that had arrived in order was read before (CDP-ERR-2).
    Failed(Error),
}
