//! The way out of one end: frames of several threads, a heartbeat, and writes that end when the peer is given up.
//!
//! While an end hashes, reads a slow disk or waits for one to be durable, its heartbeat says `Busy` every second; so a
//! silence of the peer means that it is gone. A write that waits for room looks again whenever the stream's own time-out
//! ends, and goes on waiting as long as the peer has not been given up.
//!
//! The lock is held for one frame, so that frames never mix. The reading side takes no lock.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope};
use std::time::Duration;

use super::frame::Frame;
use crate::exit::Failure;

/// Time between two beats.
const BEAT: Duration = Duration::from_secs(1);

pub(super) struct Outward<'a, S> {
    stream: &'a S,
    turn: Mutex<()>,
    is_given_up: AtomicBool,
}

impl<'a, S> Outward<'a, S>
where
    for<'b> &'b S: Write,
{
    pub(super) fn new(stream: &'a S) -> Self {
        Self { stream, turn: Mutex::new(()), is_given_up: AtomicBool::new(false) }
    }

    /// Nothing more is written, and writes that wait end.
    pub(super) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Release);
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire)
    }

    pub(super) fn frame(&self, frame: &Frame) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame.write(&mut bytes)?;
        self.bytes(&bytes)
    }

    /// Writes whole frames.
    pub(super) fn bytes(&self, mut bytes: &[u8]) -> io::Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stream = self.stream;
        while !bytes.is_empty() {
            if self.is_given_up() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            match stream.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => bytes = &bytes[len..],
                // The time of a write that waits for room is over. A connection that has ended is another error, for ever.
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Starts the heartbeat, which goes on until what this returns is dropped.
    pub(super) fn start_beat<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
    ) -> Result<Sender<()>, Failure>
    where
        S: Sync,
    {
        let (alive, over) = mpsc::channel();
        let beating = thread::Builder::new().spawn_scoped(scope, move || self.beat(&over));
        beating.map(|_| alive).map_err(|error| Failure::thread(&error))
    }

    /// Says `Busy` until the other side of `over` is dropped.
    fn beat(&self, over: &Receiver<()>) {
        while over.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
            if self.frame(&Frame::Busy).is_err() {
                // The main thread finds out by itself.
                return;
            }
        }
    }
}
