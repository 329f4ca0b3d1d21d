//! The user's handle of a connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use weft_base::{Address, Service};
use weft_engine::Ready;

use crate::convert;
use crate::handle::Handle;
use crate::readiness::{Interest, Readiness};
use crate::{CloseError, CloseResult, ConnectError, Message, RecvError, SendError, SocketStats};

/// What a receive gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// Bytes written to the buffer.
    pub len: usize,
    /// Bytes of the message that did not fit and are lost. Always 0 for streams.
    pub truncated: usize,
}

/// One end of a connection, of either service.
///
/// Clones are the same socket. All methods take `&self`, and several threads may use one socket at once. When the
/// last clone is dropped without a close, the connection is closed in the background; if that happens because a thread
/// panics, or a fiber is cancelled, before it was closed, it is reset instead, and the peer is told that the process died
/// (CDP-ST-H).
///
/// ```
/// use weft_socket::{Node, Options, Target};
///
/// let server = Node::builder().bind("127.0.0.1:0".parse()?).open()?;
/// let client = Node::builder().bind("127.0.0.1:0".parse()?).open()?;
/// let listener = server.listen(0, &Options::datagram())?;
///
/// let socket = client.connect((server.underlay(), listener.local_address().port), &Options::datagram())?;
/// socket.send(b"one message")?;
/// socket.send(b"another")?;
///
/// let accepted = listener.accept()?;
/// assert_eq!(accepted.recv_message()?.to_vec(), b"one message");
/// assert_eq!(accepted.recv_message()?.to_vec(), b"another");
///
/// let result = socket.close()?;
/// assert!(result.is_clean());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Socket {
    handle: Arc<Handle>,
}

impl Socket {
    pub(crate) fn new(handle: Handle) -> Self {
        Self { handle: Arc::new(handle) }
    }

    /// Takes up the result of [`Node::connect_start`](crate::Node::connect_start): waits for it, or says
    /// [`ConnectError::InProgress`] if the socket is non-blocking.
    ///
    /// # Errors
    /// When the target refused or did not answer.
    pub fn connect_finish(&self) -> Result<(), ConnectError> {
        self.handle.connect_finish()
    }

    /// Sends one message (datagram), or bytes (stream), and returns how many bytes were taken.
    ///
    /// A message is taken whole or not at all. A blocking socket takes one of more than 64 KiB as it leaves (decisions 0070, 0077), in the time that
    /// the link takes for it, or at once if nothing leaves for 10 ms. A blocking stream takes everything, or less, and at least one byte, if
    /// the send time-out passes or the connection ends meanwhile: then the next call tells why. A non-blocking one takes
    /// what there is room for, at least one byte. What was taken is delivered in order as long as the connection lives.
    ///
    /// # Errors
    /// See [`SendError`]; in all cases but a stream's partial `Ok` nothing was taken.
    pub fn send(&self, data: &[u8]) -> Result<usize, SendError> {
        self.handle.send(data)
    }

    /// As [`Socket::send`], without the copy: the bytes are shared with the caller until the peer has acknowledged them, and
    /// with them the whole buffer that `data` is a part of. Where a copy costs less, as for small messages that share a
    /// packet and for those bytes of a stream that fill none, it is made all the same.
    ///
    /// ```
    /// # fn send(socket: &weft_socket::Socket) -> Result<(), weft_socket::SendError> {
    /// let data = weft_socket::Bytes::from(vec![7; 1 << 20]);
    /// socket.send_lent(&data)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Socket::send`].
    pub fn send_lent(&self, data: &Bytes) -> Result<usize, SendError> {
        self.handle.send_lent(data)
    }

    /// As [`Socket::send`], but never blocks, whatever the socket is set to.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] when there is no room now, and the others of [`Socket::send`].
    pub fn try_send(&self, data: &[u8]) -> Result<usize, SendError> {
        self.handle.try_send(data)
    }

    /// Receives one message (datagram), or bytes (stream), and returns how many bytes were written to `buffer`. Those
    /// behind them may have been overwritten, also where none came or an error is returned.
    ///
    /// A stream says `Ok(0)` at the end of file. A datagram may be empty, so there the end of file is
    /// [`RecvError::EndOfFile`]; what does not fit `buffer` is lost, see [`Socket::recv_whole`].
    ///
    /// A fast stream is received with the least processor time into 512 KiB: what comes together goes there at once, as far as there is room,
    /// and the rest is copied by the next call.
    ///
    /// # Errors
    /// See [`RecvError`]. Everything that arrived in order before an error is delivered first (CDP-ERR-2).
    pub fn recv(&self, buffer: &mut [u8]) -> Result<usize, RecvError> {
        self.handle.recv(buffer).map(|received| received.len)
    }

    /// As [`Socket::recv`], and tells how many bytes of the message did not fit.
    ///
    /// # Errors
    /// As [`Socket::recv`].
    pub fn recv_whole(&self, buffer: &mut [u8]) -> Result<Received, RecvError> {
        self.handle.recv(buffer)
    }

    /// As [`Socket::recv`], but never blocks, whatever the socket is set to.
    ///
    /// # Errors
    /// [`RecvError::WouldBlock`] when nothing is there, and the others of [`Socket::recv`].
    pub fn try_recv(&self, buffer: &mut [u8]) -> Result<usize, RecvError> {
        self.handle.try_recv(buffer).map(|received| received.len)
    }

    /// Takes the next message, or the next piece of a stream, where it lies, without a copy.
    ///
    /// # Errors
    /// As [`Socket::recv`]; the end of file is [`RecvError::EndOfFile`] for both services.
    pub fn recv_message(&self) -> Result<Message, RecvError> {
        self.handle.recv_message()
    }

    /// Receives the next message, or the next piece of a stream, whole, in place of what `message` has, and returns its bytes. The vector
    /// grows where it must, and is best used again: the quickest way to receive messages of any size.
    ///
    /// ```
    /// # fn echo(socket: &weft_socket::Socket) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut message = Vec::new();
    /// loop {
    ///     socket.recv_into(&mut message)?;
    ///     socket.send(&message)?;
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Socket::recv`]; the end of file is [`RecvError::EndOfFile`] for both services. `message` has what it had before then, or
    /// nothing.
    pub fn recv_into(&self, message: &mut Vec<u8>) -> Result<usize, RecvError> {
        self.handle.recv_into(message)
    }

    /// As [`Socket::recv_message`], but never blocks, whatever the socket is set to.
    ///
    /// # Errors
    /// [`RecvError::WouldBlock`] when nothing is there, and the others of [`Socket::recv_message`].
    pub fn try_recv_message(&self) -> Result<Message, RecvError> {
        self.handle.try_recv_message()
    }

    /// Makes small messages that gather for a common packet leave now. Does not wait for the peer.
    pub fn flush(&self) {
        self.handle.engine.flush(&self.handle.slot);
    }

    /// Closes the connection and waits for its result (CDP-ST-28, CDP-ST-E): what was sent is delivered first, what
    /// was not read is discarded and counted. The end of the connection is tried for FIN_GIVE_UP (60 s), then the result is
    /// unconfirmed; with [`Options::confirm`](crate::Options::confirm) for as long as the peer answers and its user has not read
    /// everything. [`Socket::close_timeout`] sets a limit.
    ///
    /// # Errors
    /// [`CloseError::WouldBlock`] if the socket is non-blocking: ask [`Socket::close_result`] later.
    /// [`CloseError::Ended`] if the connection had ended by a reset or a time-out.
    pub fn close(&self) -> Result<CloseResult, CloseError> {
        self.handle.close(None, !self.handle.is_nonblocking())
    }

    /// As [`Socket::close`], but waits at most `limit`; the close then goes on in the background.
    ///
    /// # Errors
    /// [`CloseError::TimedOut`], and those of [`Socket::close`].
    pub fn close_timeout(&self, limit: Duration) -> Result<CloseResult, CloseError> {
        self.handle.close(Some(limit), !self.handle.is_nonblocking())
    }

    /// As [`Socket::close_timeout`], without a limit for `None`, and waits also where the socket is set not to.
    ///
    /// # Errors
    /// [`CloseError::TimedOut`] and [`CloseError::Ended`].
    pub fn wait_closed(&self, limit: Option<Duration>) -> Result<CloseResult, CloseError> {
        self.handle.close(limit, true)
    }

    /// The result of a close that goes on in the background, or `None` while there is none.
    #[must_use]
    pub fn close_result(&self) -> Option<Result<CloseResult, CloseError>> {
        self.handle.close_result()
    }

    /// Ends the connection at once by a reset; what was not delivered is lost (CDP-ST-29).
    pub fn abort(&self) {
        self.handle.engine.abort(&self.handle.slot);
    }

    /// Whether operations return at once instead of waiting. Holds for all clones.
    pub fn set_nonblocking(&self, nonblocking: bool) {
        self.handle.set_nonblocking(nonblocking);
    }

    /// How long a blocking send waits for room; `None` without limit.
    pub fn set_send_timeout(&self, timeout: Option<Duration>) {
        self.handle.set_send_timeout(timeout);
    }

    /// The time-out of a blocking send.
    #[must_use]
    pub fn send_timeout(&self) -> Option<Duration> {
        self.handle.send_timeout()
    }

    /// How long a blocking receive waits; `None` without limit.
    pub fn set_recv_timeout(&self, timeout: Option<Duration>) {
        self.handle.set_recv_timeout(timeout);
    }

    /// The time-out of a blocking receive.
    #[must_use]
    pub fn recv_timeout(&self) -> Option<Duration> {
        self.handle.recv_timeout()
    }

    /// A descriptor that is readable (`POLLIN`) as long as the condition holds; see [`Readiness`].
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn readiness(&self, interest: Interest) -> io::Result<Readiness> {
        self.handle.engine.readiness(&self.handle.slot, interest.into()).map(Readiness::new)
    }

    /// Whether a receive would return at once: with data, the end of file, or an error.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.handle.slot.is_ready(weft_engine::Interest::Readable)
    }

    /// Whether a send would return at once: there is room, or an error.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.handle.slot.is_ready(weft_engine::Interest::Writable)
    }

    /// For futures: ready when [`Socket::is_readable`]; otherwise the task is woken when it may be. This and the others of its kind keep the
    /// task's waker until then, or until the connection ends: for tasks that come and go there is [`crate::asynchronous`].
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.handle.engine.poll_ready(&self.handle.slot, weft_engine::Interest::Readable, context)
    }

    /// For futures: ready when [`Socket::is_writable`]; otherwise the task is woken when it may be.
    pub fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.handle.engine.poll_ready(&self.handle.slot, weft_engine::Interest::Writable, context)
    }

    /// A future that is ready when the condition holds.
    pub(crate) fn ready(&self, interest: weft_engine::Interest) -> Ready<'_> {
        self.handle.engine.ready(&self.handle.slot, interest)
    }

    /// For futures: ready when [`Socket::connect_finish`] would return at once.
    pub fn poll_connected(&self, context: &mut Context<'_>) -> Poll<()> {
        self.handle.engine.poll_ready(&self.handle.slot, weft_engine::Interest::Connected, context)
    }

    /// For futures: ready when [`Socket::close_result`] gives one.
    pub fn poll_closed(&self, context: &mut Context<'_>) -> Poll<()> {
        self.handle.engine.poll_ready(&self.handle.slot, weft_engine::Interest::Closed, context)
    }

    /// Begins to close without waiting for the result.
    pub fn close_start(&self) {
        self.handle.engine.close(&self.handle.slot);
    }

    /// The service of this socket.
    #[must_use]
    pub fn service(&self) -> Service {
        self.handle.slot.service()
    }

    /// This end of the connection.
    #[must_use]
    pub fn local_address(&self) -> Address {
        self.handle.slot.key().local
    }

    /// The other end of the connection.
    #[must_use]
    pub fn peer_address(&self) -> Address {
        self.handle.slot.key().remote
    }

    /// The underlay address packets to the peer go to at present.
    #[must_use]
    pub fn peer_underlay(&self) -> SocketAddr {
        self.handle.slot.peer_underlay()
    }

    /// A snapshot of the counters of this connection.
    #[must_use]
    pub fn stats(&self) -> SocketStats {
        convert::socket_stats(&self.handle.engine.slot_stats(&self.handle.slot))
    }
}
