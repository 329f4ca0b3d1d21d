//! The user of one end: follows its script, reacts to events only, and hands what it reads to the checker.
//!
//! A user never tries to read or write on suspicion. It waits for `Connected`, `Readable` and `Writable` as a program
//! that sleeps would, so an event that is never raised shows as an exchange that never completes.

use weft_base::{Instant, Service};
use weft_proto::{Connection, Event, RecvError, SendError};

use crate::content::Content;
use crate::script::{Ending, Script, Writing};
use crate::violation::{Invariant, Violation};
use crate::watch::reader::ReaderWatch;

/// Reads and writes of one step at most, so that one user cannot keep a run to itself.
const STEP_MAX: u32 = 4_096;

/// The user of one end.
#[derive(Clone, Debug)]
pub struct User {
    script: Script,
    service: Service,
    text: Content,
    watch: ReaderWatch,
    opened_at: Instant,
    /// Position in the script's writes, and bytes of that write that went before (streams).
    next_write: usize,
    part: usize,
    written_bytes: u64,
    accepted: u64,
    may_read: bool,
    may_write: bool,
    read_from: Instant,
    write_from: Instant,
    reads_in_burst: u32,
    is_hurried: bool,
    has_closed: bool,
    has_aborted: bool,
    connected_at: Option<Instant>,
    last_read_at: Instant,
    buffer: Vec<u8>,
}

/// What a step came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Something was done, so the connection may have output.
    pub has_acted: bool,
    /// When the user wants to be woken, whatever happens before.
    pub wake_at: Option<Instant>,
}

impl User {
    /// A user that writes `text` and reads what `watch` expects.
    #[must_use]
    pub fn new(
        script: Script,
        service: Service,
        text: Content,
        watch: ReaderWatch,
        opened_at: Instant,
    ) -> Self {
        Self {
            script,
            service,
            text,
            watch,
            opened_at,
            next_write: 0,
            part: 0,
            written_bytes: 0,
            accepted: 0,
            may_read: false,
            may_write: false,
            read_from: Instant::ZERO,
            write_from: Instant::ZERO,
            reads_in_burst: 0,
            is_hurried: false,
            has_closed: false,
            has_aborted: false,
            connected_at: None,
            last_read_at: opened_at,
            buffer: Vec::new(),
        }
    }

    /// What it read, as the checker saw it.
    #[must_use]
    pub fn watch(&self) -> &ReaderWatch {
        &self.watch
    }

    /// What it does.
    #[must_use]
    pub fn script(&self) -> &Script {
        &self.script
    }

    /// What its machine has accepted: messages in datagram service, else bytes.
    #[must_use]
    pub fn written(&self) -> u64 {
        match self.service {
            Service::Datagram => self.next_write as u64,
            Service::Stream => self.written_bytes,
        }
    }

    /// What it has read, in the same unit.
    #[must_use]
    pub fn read(&self) -> u64 {
        match self.service {
            Service::Datagram => self.watch.messages() as u64,
            Service::Stream => self.watch.bytes(),
        }
    }

    /// Whole writes of the script that were accepted.
    #[must_use]
    pub fn written_all(&self) -> usize {
        self.next_write
    }

    /// Calls of `send` that were accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Whether it aborted the connection.
    #[must_use]
    pub fn has_aborted(&self) -> bool {
        self.has_aborted
    }

    /// From the open to the last read.
    #[must_use]
    pub fn reading_time(&self) -> std::time::Duration {
        self.last_read_at - self.connected_at.unwrap_or(self.opened_at)
    }

    /// From now on it makes no pauses: the faults are over and everything is to complete.
    pub fn hurry(&mut self) {
        self.is_hurried = true;
        self.read_from = Instant::ZERO;
        self.write_from = Instant::ZERO;
    }

    /// An event of the connection.
    pub fn handle_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Connected => {
                self.may_write = true;
                self.connected_at = Some(now);
            }
            Event::Readable => self.may_read = true,
            Event::Writable => self.may_write = true,
            Event::PeerClosed => {}
            Event::Closed => self.may_read = true,
        }
    }

    /// Does what it can do now. `written` is what the peer's user has written so far.
    ///
    /// # Errors
    ///
    /// What the checker found wrong with what was read.
    pub fn step(
        &mut self,
        now: Instant,
        connection: &mut Connection,
        written: u64,
    ) -> Result<Step, Violation> {
        let mut has_acted = false;
        for _ in 0..STEP_MAX {
            let acts = self.end(now, connection)
                || self.read_once(now, connection, written)?
                || self.write_once(now, connection)?;
            if !acts {
                return Ok(Step { has_acted, wake_at: self.wake_at(now) });
            }
            has_acted = true;
        }
        Ok(Step { has_acted, wake_at: Some(now) })
    }

    fn wake_at(&self, now: Instant) -> Option<Instant> {
        let reads = (self.may_read && !self.has_closed).then_some(self.read_from);
        let writes = (self.may_write && self.wants_to_write()).then_some(self.write_from);
        let ends = match self.script.ending {
            Ending::CloseAfter(time) | Ending::AbortAfter(time) => Some(self.opened_at + time),
            Ending::WhenWritten | Ending::WhenDone | Ending::AfterPeer => None,
        };
        let ends = ends.filter(|_| !self.has_closed);
        [reads, writes, ends].into_iter().flatten().filter(|at| *at > now).min()
    }

    fn has_written_all(&self) -> bool {
        self.next_write == self.script.writes.len()
    }

    fn wants_to_write(&self) -> bool {
        let waits = match self.script.writing {
            Writing::Freely => false,
            Writing::Last => !self.watch.is_complete(),
            Writing::InTurns { ahead } => self.next_write >= self.watch.messages() + ahead,
        };
        !self.has_closed && !waits && !self.has_written_all()
    }

    /// Closes or aborts if it is time; tells whether it did.
    fn end(&mut self, now: Instant, connection: &mut Connection) -> bool {
        if self.has_closed {
            return false;
        }
        let (is_due, aborts) = match self.script.ending {
            Ending::WhenWritten => (self.has_written_all() && self.connected_at.is_some(), false),
            Ending::WhenDone => {
                (self.has_written_all() && self.watch.is_complete() && self.connected_at.is_some(), false)
            }
            Ending::AfterPeer => (false, false),
            Ending::CloseAfter(time) => (now >= self.opened_at + time, false),
            Ending::AbortAfter(time) => (now >= self.opened_at + time, true),
        };
        if !is_due && !self.watch.has_ended() {
            return false;
        }
        self.has_closed = true;
        if aborts && is_due {
            self.has_aborted = true;
            connection.abort(now);
        } else {
            connection.close(now);
        }
        true
    }

    fn read_once(
        &mut self,
        now: Instant,
        connection: &mut Connection,
        written: u64,
    ) -> Result<bool, Violation> {
        if !self.may_read || self.has_closed || now < self.read_from {
            return Ok(false);
        }
        let state = connection.state();
        let outcome = if self.script.reading.buffer_bytes == 0 {
            match connection.recv_message() {
                Ok(Some(message)) => {
                    let parts: Vec<&[u8]> = message.parts().iter().map(|part| &part[..]).collect();
                    self.watch.handle_read(state, &parts, 0, written)?;
                    Ok(false)
                }
                Ok(None) => Ok(true),
                Err(error) => Err(error),
            }
        } else {
            self.buffer.resize(self.script.reading.buffer_bytes, 0);
            match connection.recv(&mut self.buffer) {
                Ok(received) if received.end_of_file => Ok(true),
                Ok(received) => {
                    let part = &self.buffer[..received.len];
                    self.watch.handle_read(state, &[part], received.truncated, written)?;
                    Ok(false)
                }
                Err(error) => Err(error),
            }
        };
        self.note_read(now, outcome, state, written)
    }

    fn note_read(
        &mut self,
        now: Instant,
        outcome: Result<bool, RecvError>,
        state: weft_proto::State,
        written: u64,
    ) -> Result<bool, Violation> {
        match outcome {
            Ok(true) => {
                self.may_read = false;
                self.watch.handle_end(state, written)?;
            }
            Ok(false) => {
                self.last_read_at = now;
                self.reads_in_burst += 1;
                let pause = self.script.reading.pause;
                if self.reads_in_burst >= self.script.reading.burst && !pause.is_zero() && !self.is_hurried {
                    self.reads_in_burst = 0;
                    self.read_from = now + pause;
                }
            }
            Err(RecvError::WouldBlock | RecvError::Closed | RecvError::Failed(_)) => {
                self.may_read = false;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn write_once(&mut self, now: Instant, connection: &mut Connection) -> Result<bool, Violation> {
        if !self.may_write || !self.wants_to_write() || now < self.write_from {
            return Ok(false);
        }
        let len = self.script.writes[self.next_write];
        let mut bytes = std::mem::take(&mut self.buffer);
        bytes.clear();
        let left = (len - self.part) as u64;
        self.text.write(self.written_bytes..self.written_bytes + left, &mut bytes);
        let outcome = connection.send(&bytes);
        self.buffer = bytes;
        match outcome {
            Ok(taken) => {
                self.note_written(now, taken, len)?;
                Ok(true)
            }
            Err(SendError::WouldBlock | SendError::Closed | SendError::Failed(_)) => {
                self.may_write = false;
                Ok(false)
            }
            Err(SendError::TooBig(limit)) => {
                Err(Violation::new(Invariant::Form, format!("a message of {len} bytes is refused: {limit}")))
            }
        }
    }

    fn note_written(&mut self, now: Instant, taken: usize, len: usize) -> Result<(), Violation> {
        let is_whole = self.part + taken == len;
        if self.service == Service::Datagram && !is_whole {
            return Err(Violation::new(
                Invariant::Prefix,
                format!("send took {taken} of a message of {len} bytes"),
            ));
        }
        self.accepted += 1;
        self.written_bytes += taken as u64;
        self.part = if is_whole { 0 } else { self.part + taken };
        if is_whole {
            self.next_write += 1;
            if !self.script.write_pause.is_zero() && !self.is_hurried {
                self.write_from = now + self.script.write_pause;
            }
        }
        Ok(())
    }
}
