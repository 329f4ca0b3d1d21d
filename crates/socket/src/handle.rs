//! What the clones of a socket share, and the loops that wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use weft_engine::{Engine, Interest, Slot};

use crate::convert::{self, nanos, nanos_opt};
use crate::{
    CloseError, CloseResult, ConnectError, Message, Options, Received, RecvError, SendError, Target,
};

/// A socket without its face: the slot, and how its user wants to wait.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) engine: Arc<Engine>,
    pub(crate) slot: Arc<Slot>,
    target: Option<Target>,
    connect_timeout_ns: u64,
    is_nonblocking: AtomicBool,
    send_timeout_ns: AtomicU64,
    recv_timeout_ns: AtomicU64,
}

impl Handle {
    pub(crate) fn connecting(
        engine: Arc<Engine>,
        slot: Arc<Slot>,
        options: &Options,
        target: Target,
    ) -> Self {
        Self::new(engine, slot, options, Some(target))
    }

    pub(crate) fn accepted(engine: Arc<Engine>, slot: Arc<Slot>, options: &Options) -> Self {
        Self::new(engine, slot, options, None)
    }

    fn new(engine: Arc<Engine>, slot: Arc<Slot>, options: &Options, target: Option<Target>) -> Self {
        Self {
            engine,
            slot,
            target,
            connect_timeout_ns: nanos(Some(options.connect_timeout.unwrap_or(convert::SYN_TIME))),
            is_nonblocking: AtomicBool::new(false),
            send_timeout_ns: AtomicU64::new(nanos(options.send_timeout)),
            recv_timeout_ns: AtomicU64::new(nanos(options.recv_timeout)),
        }
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.is_nonblocking.load(Ordering::Relaxed)
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        self.is_nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    pub(crate) fn send_timeout(&self) -> Option<Duration> {
        nanos_opt(self.send_timeout_ns.load(Ordering::Relaxed))
    }

    pub(crate) fn set_send_timeout(&self, timeout: Option<Duration>) {
        self.send_timeout_ns.store(nanos(timeout), Ordering::Relaxed);
    }

    pub(crate) fn recv_timeout(&self) -> Option<Duration> {
        nanos_opt(self.recv_timeout_ns.load(Ordering::Relaxed))
    }

    pub(crate) fn set_recv_timeout(&self, timeout: Option<Duration>) {
        self.recv_timeout_ns.store(nanos(timeout), Ordering::Relaxed);
    }

    /// Waits until the open is decided, and takes up its result.
    pub(crate) fn connect_finish(&self) -> Result<(), ConnectError> {
        let target = self.target.unwrap_or_else(|| Target::from(self.slot.key().remote));
        let timeout = Duration::from_nanos(self.connect_timeout_ns);
        let deadline = self.engine.now() + timeout;
        loop {
            match convert::connect_result(&self.engine, &self.slot, target, timeout) {
                Some(result) => return result,
                None if self.is_nonblocking() => return Err(ConnectError::InProgress),
                None => {}
            }
            if !self.engine.wait_connected(&self.slot, deadline) {
                self.engine.abort(&self.slot);
                return Err(ConnectError::TimedOut { target, after: timeout });
            }
        }
    }

    pub(crate) fn try_send(&self, data: &[u8]) -> Result<usize, SendError> {
        convert::send(&self.engine, &self.slot, data, || false)
    }

    /// Sends all of a message, or all the bytes for a stream; a stream that times out tells what it took.
    pub(crate) fn send(&self, data: &[u8]) -> Result<usize, SendError> {
        let may_wait = || !self.is_nonblocking();
        self.send_all(data.len(), |sent| convert::send(&self.engine, &self.slot, &data[sent..], may_wait))
    }

    /// As [`Handle::send`], sharing `data` with the caller.
    pub(crate) fn send_lent(&self, data: &Bytes) -> Result<usize, SendError> {
        self.send_all(data.len(), |sent| convert::send_lent(&self.engine, &self.slot, &data.slice(sent..)))
    }

    /// Has `give` send what lies behind the first so many of `len` bytes, until they all are sent.
    fn send_all(
        &self,
        len: usize,
        give: impl Fn(usize) -> Result<usize, SendError>,
    ) -> Result<usize, SendError> {
        let mut sent = 0;
        let mut deadline = None;
        loop {
            match give(sent) {
                Ok(more) => sent += more,
                Err(SendError::WouldBlock | SendError::NotConnected) if !self.is_nonblocking() => {
                    let timeout = self.send_timeout();
                    if deadline.is_none() {
                        deadline = timeout.map(|timeout| self.engine.now() + timeout);
                    }
                    if !self.engine.wait(&self.slot, Interest::Writable, deadline) && sent == 0 {
                        return Err(SendError::TimedOut(timeout.unwrap_or_default()));
                    }
                    if deadline.is_some_and(|deadline| self.engine.now() >= deadline) && sent > 0 {
                        return Ok(sent);
                    }
                    continue;
                }
                Err(_) if sent > 0 => return Ok(sent),
                Err(error) => return Err(error),
            }
            if sent == len || self.is_nonblocking() {
                return Ok(sent);
            }
        }
    }

    pub(crate) fn try_recv(&self, buffer: &mut [u8]) -> Result<Received, RecvError> {
        match self.engine.recv(&self.slot, buffer) {
            Ok(received) => convert::received(&self.slot, &received),
            Err(error) => Err(convert::recv_error(&self.engine, &self.slot, error)),
        }
    }

    pub(crate) fn recv(&self, buffer: &mut [u8]) -> Result<Received, RecvError> {
        if self.is_nonblocking() {
            return self.try_recv(buffer);
        }
        let timeout = self.recv_timeout();
        match self.engine.recv_within(&self.slot, buffer, timeout) {
            Ok(received) => convert::received(&self.slot, &received),
            Err(error) => Err(self.late(error, timeout)),
        }
    }

    pub(crate) fn try_recv_message(&self) -> Result<Message, RecvError> {
        match self.engine.recv_message(&self.slot) {
            Ok(message) => convert::message(message),
            Err(error) => Err(convert::recv_error(&self.engine, &self.slot, error)),
        }
    }

    pub(crate) fn recv_message(&self) -> Result<Message, RecvError> {
        if self.is_nonblocking() {
            return self.try_recv_message();
        }
        let timeout = self.recv_timeout();
        match self.engine.recv_message_within(&self.slot, timeout) {
            Ok(message) => convert::message(message),
            Err(error) => Err(self.late(error, timeout)),
        }
    }

    pub(crate) fn recv_into(&self, message: &mut Vec<u8>) -> Result<usize, RecvError> {
        let (engine, timeout) = (&self.engine, self.recv_timeout());
        let received = if self.is_nonblocking() {
            let received = engine.recv_into(&self.slot, message);
            received.map_err(|error| convert::recv_error(engine, &self.slot, error))
        } else {
            let received = engine.recv_into_within(&self.slot, message, timeout);
            received.map_err(|error| self.late(error, timeout))
        };
        received?.ok_or(RecvError::EndOfFile)
    }

    /// What a receive says that has waited: if it would still block it has timed out.
    #[cold]
    fn late(&self, error: weft_engine::RecvError, timeout: Option<Duration>) -> RecvError {
        if error == weft_engine::RecvError::WouldBlock {
            return RecvError::TimedOut(timeout.unwrap_or_default());
        }
        convert::recv_error(&self.engine, &self.slot, error)
    }

    /// Closes, and if it `waits` does so for the result, at most `limit`.
    pub(crate) fn close(&self, limit: Option<Duration>, waits: bool) -> Result<CloseResult, CloseError> {
        self.engine.close(&self.slot);
        let deadline = limit.map(|limit| self.engine.now() + limit);
        loop {
            if let Some(result) = self.close_result() {
                return result;
            }
            if !waits {
                return Err(CloseError::WouldBlock);
            }
            if !self.engine.wait(&self.slot, Interest::Closed, deadline) {
                return Err(CloseError::TimedOut(limit.unwrap_or_default()));
            }
        }
    }

    pub(crate) fn close_result(&self) -> Option<Result<CloseResult, CloseError>> {
        convert::close_result(&self.engine, &self.slot)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // The last handle is gone: an orderly close goes on in the background, unless there is no order.
        if std::thread::panicking() {
            self.engine.abandon(&self.slot);
        } else {
            self.engine.release(&self.slot);
        }
    }
}
