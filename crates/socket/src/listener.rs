//! A port that takes connections.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use weft_base::Address;
use weft_engine::{Engine, Listening, Ready};

use crate::convert::{nanos, nanos_opt};
use crate::handle::Handle;
use crate::readiness::Readiness;
use crate::{AcceptError, Options, Socket};

/// A port that takes connections (CDP-ST-2). Dropping or closing it resets those nobody accepted (CDP-ST-9).
///
/// ```
/// use std::time::Duration;
/// use weft_socket::{AcceptError, Node, Options};
///
/// let node = Node::builder().bind("127.0.0.1:0".parse()?).open()?;
/// let listener = node.listen(0, &Options::stream().accept_limit(16))?;
/// let waited = Duration::from_millis(1);
/// assert_eq!(listener.accept_timeout(waited).unwrap_err(), AcceptError::TimedOut(waited));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Listener {
    engine: Arc<Engine>,
    listening: Arc<Listening>,
    options: Options,
    is_nonblocking: AtomicBool,
    timeout_ns: AtomicU64,
}

impl Listener {
    pub(crate) fn new(engine: Arc<Engine>, listening: Arc<Listening>, options: &Options) -> Self {
        Self {
            engine,
            listening,
            options: options.clone(),
            is_nonblocking: AtomicBool::new(false),
            timeout_ns: AtomicU64::new(nanos(options.recv_timeout)),
        }
    }

    /// Takes the next connection, waiting for one.
    ///
    /// # Errors
    /// See [`AcceptError`].
    pub fn accept(&self) -> Result<Socket, AcceptError> {
        self.accept_within(nanos_opt(self.timeout_ns.load(Ordering::Relaxed)))
    }

    /// Takes the next connection, waiting at most `limit`.
    ///
    /// # Errors
    /// [`AcceptError::TimedOut`] if nobody connected in time.
    pub fn accept_timeout(&self, limit: Duration) -> Result<Socket, AcceptError> {
        self.accept_within(Some(limit))
    }

    /// Takes a connection if one is there, whatever the listener is set to.
    ///
    /// # Errors
    /// [`AcceptError::WouldBlock`] if there is none.
    pub fn try_accept(&self) -> Result<Socket, AcceptError> {
        match self.engine.accept(&self.listening) {
            Some(slot) => Ok(Socket::new(Handle::accepted(self.engine.clone(), slot, &self.options))),
            None if self.listening.is_closed() => Err(AcceptError::Closed),
            None => Err(AcceptError::WouldBlock),
        }
    }

    fn accept_within(&self, limit: Option<Duration>) -> Result<Socket, AcceptError> {
        let deadline = limit.map(|limit| self.engine.now() + limit);
        loop {
            match self.try_accept() {
                Err(AcceptError::WouldBlock) if !self.is_nonblocking.load(Ordering::Relaxed) => {}
                result => return result,
            }
            if !self.engine.wait_accept(&self.listening, deadline) {
                return Err(AcceptError::TimedOut(limit.unwrap_or_default()));
            }
        }
    }

    /// Whether `accept` returns at once instead of waiting.
    pub fn set_nonblocking(&self, nonblocking: bool) {
        self.is_nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    /// How long a blocking `accept` waits; `None` without limit.
    pub fn set_accept_timeout(&self, timeout: Option<Duration>) {
        self.timeout_ns.store(nanos(timeout), Ordering::Relaxed);
    }

    /// Where this listener listens: the node and the port.
    #[must_use]
    pub fn local_address(&self) -> Address {
        self.listening.address()
    }

    /// A descriptor that is readable (`POLLIN`) as long as a connection waits; see [`Readiness`].
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn readiness(&self) -> io::Result<Readiness> {
        self.engine.accept_readiness(&self.listening).map(Readiness::new)
    }

    /// For futures: ready when an accept would return at once; otherwise the task is woken when it may.
    pub fn poll_acceptable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.engine.poll_acceptable(&self.listening, context)
    }

    /// A future that is ready when an accept would return at once.
    pub(crate) fn ready(&self) -> Ready<'_> {
        self.engine.acceptable(&self.listening)
    }

    /// Connections one after the other, for ever, or until the listener is closed.
    pub fn incoming(&self) -> impl Iterator<Item = Result<Socket, AcceptError>> + '_ {
        std::iter::from_fn(|| match self.accept() {
            Err(AcceptError::Closed) => None,
            result => Some(result),
        })
    }

    /// Stops listening; connections that nobody accepted are reset (CDP-ST-9). Blocked accepts return.
    pub fn close(&self) {
        self.engine.unlisten(&self.listening);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.close();
    }
}
