//! One end of a connection, with its user.

use std::time::Duration;

use weft_base::Instant;
use weft_proto::{Connection, SendError, State};

use super::Stall;
use crate::content::Content;
use crate::violation::{Invariant, Violation, ensure};

/// One end.
#[derive(Debug)]
pub struct End {
    /// Index of its node.
    pub node: usize,
    /// Index of its session.
    pub session: usize,
    /// The machine.
    pub connection: Connection,
    /// When its timer event that counts is due.
    pub timer_at: Option<Instant>,
    ours: Content,
    theirs: Content,
    /// Bytes written.
    pub written: u64,
    /// Bytes read.
    pub read: u64,
    read_at: Instant,
    pause: Duration,
    /// The RTO of the sender at the other end when the default that it used failed.
    watched: Option<Duration>,
}

impl End {
    /// One end of a session with this key; `role` is 0 for the end that connects.
    #[must_use]
    pub fn new(
        now: Instant,
        node: usize,
        session: usize,
        role: u64,
        key: u64,
        connection: Connection,
    ) -> Self {
        Self {
            node,
            session,
            connection,
            timer_at: None,
            ours: Content::new(key + role),
            theirs: Content::new(key + 1 - role),
            written: 0,
            read: 0,
            read_at: now,
            pause: Duration::ZERO,
            watched: None,
        }
    }

    /// The user writes so many bytes, as far as there is room.
    ///
    /// # Errors
    ///
    /// I8, if the connection is not fit for it any more.
    pub fn write(&mut self, bytes: usize) -> Result<(), Violation> {
        let mut text = Vec::with_capacity(bytes);
        self.ours.write(self.written..self.written + bytes as u64, &mut text);
        match self.connection.send(&text) {
            Ok(taken) => self.written += taken as u64,
            Err(SendError::WouldBlock) => {}
            Err(error) => return Err(Violation::new(Invariant::Ending, format!("a user sees: {error:?}"))),
        }
        Ok(())
    }

    /// The user reads all there is.
    ///
    /// # Errors
    ///
    /// I1, if it is not what was written; I8, if there is an error.
    pub fn read_all(&mut self, now: Instant) -> Result<(), Violation> {
        let mut buffer = [0; 8_192];
        while let Ok(got) = self.connection.recv(&mut buffer) {
            if got.end_of_file {
                break;
            }
            let wrong = self.theirs.first_difference(self.read, &buffer[..got.len]);
            ensure(wrong.is_none(), Invariant::Prefix, || format!("a wrong byte after {} bytes", self.read))?;
            self.read += got.len as u64;
            self.pause = self.pause.max(now - self.read_at);
            self.read_at = now;
        }
        // the end of file: the other end has closed
        if self.connection.state() == State::CloseWait {
            self.connection.close(now);
        }
        let error = self.connection.error();
        ensure(error.is_none(), Invariant::Ending, || format!("a user sees: {error:?}"))
    }

    /// The sender at the other end uses an I/O node that fails now.
    pub fn watch(&mut self, now: Instant, rto: Duration) {
        self.watched = Some(rto);
        self.pause = Duration::ZERO;
        self.read_at = now;
    }

    /// How long the reader waited since [`End::watch`], if that was called.
    pub fn take_stall(&mut self, now: Instant, period: Duration) -> Option<Stall> {
        let rto = self.watched.take()?;
        Some(Stall { pause: self.pause.max(now - self.read_at), rto, period })
    }
}
