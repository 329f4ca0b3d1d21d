//! A descriptor for `poll(2)`, `epoll(7)` and the reactors of asynchronous runtimes.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use weft_engine::link::Waker;

/// What a caller waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Interest {
    /// A receive would return at once; for a listener, an accept.
    Readable,
    /// A send would return at once; for a connect that was started, its result is there.
    Writable,
    /// The result of a close is there.
    Closed,
}

impl From<Interest> for weft_engine::Interest {
    fn from(interest: Interest) -> Self {
        match interest {
            Interest::Readable => Self::Readable,
            Interest::Writable => Self::Writable,
            Interest::Closed => Self::Closed,
        }
    }
}

/// An eventfd that is readable (`POLLIN`, `EPOLLIN`) exactly as long as a condition of a socket holds.
///
/// Level-triggered: the descriptor becomes readable when the condition begins to hold and stays so until an operation
/// on the socket finds that it holds no more ([`SendError::WouldBlock`](crate::SendError::WouldBlock),
/// [`RecvError::WouldBlock`](crate::RecvError::WouldBlock)). Each new arrival writes to it again, so edge-triggered
/// waiting works too. Never read from or write to it. What comes wakes a thread of the node first, unless the program makes
/// the node's [`Progress`](crate::Progress) itself. The descriptor lives as long as this value or its socket.
///
/// ```
/// use std::os::fd::AsRawFd;
/// use weft_socket::{Interest, Node, Options};
///
/// let node = Node::builder().bind("127.0.0.1:0".parse()?).open()?;
/// let listener = node.listen(0, &Options::stream())?;
/// let readiness = listener.readiness()?;
/// assert!(readiness.as_raw_fd() >= 0); // give it to poll(2) with POLLIN
/// # let _ = Interest::Readable;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Readiness {
    waker: Arc<Waker>,
}

impl Readiness {
    pub(crate) fn new(waker: Arc<Waker>) -> Self {
        Self { waker }
    }
}

impl AsFd for Readiness {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

impl AsRawFd for Readiness {
    fn as_raw_fd(&self) -> RawFd {
        self.waker.fd()
    }
}
