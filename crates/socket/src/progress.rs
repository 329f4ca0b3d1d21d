//! Progress of a node by a program's own loop of events.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Weak};

use weft_engine::Engine;
use weft_engine::link::AnyReadable;

/// A descriptor that is readable when packets have come for a node, and the call that works them off.
///
/// A thread that blocks in a receive takes its packets itself. One that sleeps in `poll(2)`, `epoll(7)` or the reactor of an
/// asynchronous runtime is woken by another, which has been woken by the packets: two wakes, one behind the other. With the
/// descriptor of this among those that it waits for, its own thread is woken first, and [`Progress::make`] wakes the tasks and
/// makes the descriptors readable ([`Readiness`](crate::Readiness)) that have something now. It tells nothing by itself: what it brings may also
/// have been brought by another thread a moment before.
///
/// While the loop is busy with something else, for more than a millisecond, the node's own threads take over as they would without
/// it: nothing depends on how soon it calls. Timers are theirs in any case. A node may have several of these, in several threads, and ends
/// without regard to them.
///
/// ```
/// use std::os::fd::AsRawFd;
/// use weft_socket::Node;
///
/// let node = Node::builder().bind("127.0.0.1:0".parse()?).open()?;
/// let progress = node.progress()?;
/// assert!(progress.as_raw_fd() >= 0); // give it to epoll(7) with EPOLLIN, and when it is readable:
/// progress.make();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Progress {
    engine: Weak<Engine>,
    heard: Arc<AnyReadable>,
}

impl Progress {
    pub(crate) fn new(engine: &Arc<Engine>) -> io::Result<Self> {
        let heard = engine.attend()?;
        Ok(Self { engine: Arc::downgrade(engine), heard })
    }

    /// Works off what has come, a batch at most. Whether anything had; if not, nothing is left of what came before this call, but for a
    /// flood that a thread of the node takes in, and the descriptor becomes readable when something new comes, also for who waits for
    /// edges (`EPOLLET`).
    #[allow(clippy::must_use_candidate)] // who waits for levels need not know
    pub fn make(&self) -> bool {
        self.engine.upgrade().is_some_and(|engine| engine.make_progress())
    }

    /// Whether the node has ended.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_over(&self) -> bool {
        self.engine.strong_count() == 0
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.upgrade() {
            engine.end_attendance();
        }
    }
}

impl AsFd for Progress {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.heard.as_fd()
    }
}

impl AsRawFd for Progress {
    fn as_raw_fd(&self) -> RawFd {
        self.heard.as_raw_fd()
    }
}
