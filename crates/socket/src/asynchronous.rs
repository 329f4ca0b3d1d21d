//! Sockets for `async` code, with any executor.
//!
//! The futures here need no reactor: a task that cannot go on leaves its waker with the connection, and the thread
//! whose turn brings what it waits for wakes it. [`Readiness`](crate::Readiness) serves runtimes that would rather
//! watch a descriptor. A future that is dropped before it is ready, as by a time-out, leaves no waker behind.
//!
//! What comes wakes a thread of the node, which wakes the task's. A runtime whose own thread makes the node's progress
//! ([`crate::Progress`]) is woken itself, which spares a tenth of a round trip where both ends sleep; with tokio by one line (the
//! feature `tokio`, `keep_going`).
//!
//! ```
//! use weft_socket::asynchronous::{AsyncListener, AsyncSocket, connect};
//! use weft_socket::{Node, Options};
//!
//! let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! runtime.block_on(async {
//!     let server = Node::builder().bind("127.0.0.1:0".parse()?).open()?;
//!     let client = Node::builder().bind("127.0.0.1:0".parse()?).open()?;
//!     let listener = AsyncListener::from(server.listen(0, &Options::stream())?);
//!     let target = (server.underlay(), listener.get_ref().local_address().port);
//!     let socket = connect(&client, target, &Options::stream()).await?;
//!     socket.send(b"hello").await?;
//!     let accepted: AsyncSocket = listener.accept().await?;
//!     let mut buffer = [0; 16];
//!     assert_eq!(accepted.recv(&mut buffer).await?, 5);
//!     Ok::<(), Box<dyn std::error::Error>>(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::cell::Cell;
use std::task::Poll;
#[cfg(feature = "tokio")]
use std::{convert::Infallible, io};

use weft_engine::Interest;

use crate::{
    AcceptError, CloseError, CloseResult, ConnectError, Listener, Message, Node, Options, RecvError,
    SendError, Socket, ToTarget,
};

/// A [`Socket`] whose operations are futures.
#[derive(Clone, Debug)]
pub struct AsyncSocket {
    socket: Socket,
}

/// A [`Listener`] whose accept is a future.
#[derive(Debug)]
pub struct AsyncListener {
    listener: Listener,
}

/// Connects without blocking the thread, but for the look-up of a host's name where `target` is a text with one: look it up beforehand if
/// that may take long.
///
/// # Errors
/// As [`Node::connect`].
pub async fn connect(
    node: &Node,
    target: impl ToTarget,
    options: &Options,
) -> Result<AsyncSocket, ConnectError> {
    let socket = node.connect_start(target, options)?;
    socket.set_nonblocking(true);
    loop {
        match socket.connect_finish() {
            Err(ConnectError::InProgress) => socket.ready(Interest::Connected).await,
            Err(error) => return Err(error),
            Ok(()) => return Ok(AsyncSocket { socket }),
        }
    }
}

/// A task of tokio that makes a node's progress, on the thread of the runtime that sleeps for all tasks.
///
/// ```
/// use weft_socket::asynchronous::{AsyncListener, connect, keep_going};
/// use weft_socket::{Node, Options};
///
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
/// runtime.block_on(async {
///     let server = Node::builder().bind("127.0.0.1:0".parse()?).open()?;
///     let client = Node::builder().bind("127.0.0.1:0".parse()?).open()?;
///     tokio::spawn(keep_going(server.progress()?));
///     tokio::spawn(keep_going(client.progress()?));
///
///     let listener = AsyncListener::from(server.listen(0, &Options::datagram())?);
///     let target = (server.underlay(), listener.get_ref().local_address().port);
///     let socket = connect(&client, target, &Options::datagram()).await?;
///     socket.send(b"hello").await?;
///     assert_eq!(listener.accept().await?.recv(&mut [0; 16]).await?, 5);
///     Ok::<(), Box<dyn std::error::Error>>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When the process has no descriptor left, and [`io::ErrorKind::NotConnected`] when the node has ended, which it does not keep from
/// that. The node goes on without it.
///
/// # Panics
/// Outside of a runtime of tokio that has its I/O enabled.
#[cfg(feature = "tokio")]
pub async fn keep_going(progress: crate::Progress) -> io::Result<Infallible> {
    use tokio::io::{Interest, unix::AsyncFd};

    #[allow(deprecated)] // what is put in its place is `unsafe`, and unknown to most versions
    let progress = AsyncFd::with_interest(progress, Interest::READABLE)?;
    loop {
        let mut ready = progress.readable().await?;
        if progress.get_ref().is_over() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if progress.get_ref().make() {
            let_others_go_on().await;
        } else {
            ready.clear_ready();
        }
    }
}

/// Operations on a thread after which its other tasks have a turn, however much is there at once: a receiver that is slower than
/// its sender always finds something.
const OPERATIONS_AT_A_TURN: u32 = 64;

thread_local! {
    static OPERATIONS: Cell<u32> = const { Cell::new(0) };
}

/// Before an operation: lets other tasks go on now and then.
async fn take_turns() {
    let operations = OPERATIONS.get() + 1;
    OPERATIONS.set(operations % OPERATIONS_AT_A_TURN);
    if operations == OPERATIONS_AT_A_TURN {
        let_others_go_on().await;
    }
}

/// Ready when all tasks have had their turn that can go on now.
async fn let_others_go_on() {
    let mut has_waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl From<Socket> for AsyncSocket {
    /// The socket becomes non-blocking.
    fn from(socket: Socket) -> Self {
        socket.set_nonblocking(true);
        Self { socket }
    }
}

impl From<Listener> for AsyncListener {
    /// The listener becomes non-blocking.
    fn from(listener: Listener) -> Self {
        listener.set_nonblocking(true);
        Self { listener }
    }
}

impl AsyncListener {
    /// Takes the next connection.
    ///
    /// # Errors
    /// [`AcceptError::Closed`].
    pub async fn accept(&self) -> Result<AsyncSocket, AcceptError> {
        take_turns().await;
        loop {
            match self.listener.try_accept() {
                Err(AcceptError::WouldBlock) => {
                    self.listener.ready().await;
                }
                Err(error) => return Err(error),
                Ok(socket) => return Ok(socket.into()),
            }
        }
    }

    /// The listener.
    #[must_use]
    pub fn get_ref(&self) -> &Listener {
        &self.listener
    }
}

impl AsyncSocket {
    /// Sends one message, or all the bytes for a stream. A stream send that is dropped half-way has sent a part.
    ///
    /// # Errors
    /// As [`Socket::send`].
    pub async fn send(&self, data: &[u8]) -> Result<usize, SendError> {
        take_turns().await;
        let mut sent = 0;
        loop {
            match self.socket.try_send(&data[sent..]) {
                Ok(len) => sent += len,
                Err(SendError::WouldBlock | SendError::NotConnected) => {
                    self.socket.ready(Interest::Writable).await;
                    continue;
                }
                Err(_) if sent > 0 => return Ok(sent),
                Err(error) => return Err(error),
            }
            if sent == data.len() {
                return Ok(sent);
            }
        }
    }

    /// Receives one message, or bytes for a stream.
    ///
    /// # Errors
    /// As [`Socket::recv`].
    pub async fn recv(&self, buffer: &mut [u8]) -> Result<usize, RecvError> {
        take_turns().await;
        loop {
            match self.socket.try_recv(buffer) {
                Err(RecvError::WouldBlock) => self.socket.ready(Interest::Readable).await,
                result => return result,
            }
        }
    }

    /// Takes the next message where it lies.
    ///
    /// # Errors
    /// As [`Socket::recv_message`].
    pub async fn recv_message(&self) -> Result<Message, RecvError> {
        take_turns().await;
        loop {
            match self.socket.try_recv_message() {
                Err(RecvError::WouldBlock) => self.socket.ready(Interest::Readable).await,
                result => return result,
            }
        }
    }

    /// Closes and gives the result.
    ///
    /// # Errors
    /// As [`Socket::close`].
    pub async fn close(&self) -> Result<CloseResult, CloseError> {
        self.socket.close_start();
        loop {
            match self.socket.close_result() {
                Some(result) => return result,
                None => self.socket.ready(Interest::Closed).await,
            }
        }
    }

    /// The socket.
    #[must_use]
    pub fn get_ref(&self) -> &Socket {
        &self.socket
    }
}
