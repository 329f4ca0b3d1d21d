//! Two directions over one connection: standard input to it, and from it to standard output.

use std::io::{self, BufRead, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use weft_socket::{CloseResult, RecvError, SendError, Socket};

use crate::exit::Failure;
use crate::net;

/// Bytes moved at a time in a stream.
const BUFFER_BYTES: usize = 128 << 10;
/// How often the receiving direction looks whether the input has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// What a message is on standard input and output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Framing {
    /// There are no messages.
    Stream,
    /// A line, without its line feed.
    Lines,
    /// So many bytes; the last one may be shorter.
    Blocks(usize),
}

/// How far standard input is.
mod input {
    pub(super) const OPEN: u8 = 0;
    /// It ended without a byte: this end only listens.
    pub(super) const EMPTY: u8 = 1;
    /// It ended, and something was sent.
    pub(super) const ENDED: u8 = 2;
    /// Sending failed; the receiving direction will hear why.
    pub(super) const FAILED: u8 = 3;
}

pub(super) struct Pump {
    socket: Socket,
    framing: Framing,
    wait: Duration,
    input: AtomicU8,
    /// What first kept this end from sending all of standard input.
    unsent: OnceLock<Failure>,
    /// Whether somebody still reads standard output.
    is_read: AtomicBool,
}

impl Pump {
    pub(super) fn new(socket: Socket, framing: Framing, wait: Duration) -> Self {
        let input = AtomicU8::new(input::OPEN);
        Self { socket, framing, wait, input, unsent: OnceLock::new(), is_read: AtomicBool::new(true) }
    }

    /// What the close of the connection tells that was lost, as a sentence.
    pub(super) fn loss(&self, closed: &CloseResult) -> Option<String> {
        let there = closed.undelivered + u64::from(closed.discarded_by_peer);
        let here = closed.discarded_here;
        if there > 0 {
            let next = "look whether it ended before its time";
            return Some(format!("packets sent that the other end did not read: {there}; {next}"));
        }
        // Who stops to read, as behind `| head`, knows of it.
        let is_loss = here > 0 && self.is_read.load(Ordering::Relaxed);
        is_loss.then(|| {
            format!("packets received that came too late to be written: {here}; give a longer --wait")
        })
    }

    /// Moves both directions until the peer closes, or the input has ended and the peer is silent.
    pub(super) fn run(self: &Arc<Self>) -> Result<(), Failure> {
        let sender = self.clone();
        // A thread that reads a terminal cannot be stopped; it ends with the process.
        let spawned = thread::Builder::new().name("weft-cat-input".into()).spawn(move || sender.send_all());
        spawned.map_err(|error| Failure::thread(&error))?;
        self.receive_all()?;
        self.unsent.get().map_or(Ok(()), |failure| Err(failure.clone()))
    }

    fn send_all(&self) {
        let mut stdin = io::stdin().lock();
        let sent = match self.framing {
            Framing::Stream => self.send_pieces(&mut stdin, BUFFER_BYTES, false),
            Framing::Lines => self.send_lines(&mut stdin),
            Framing::Blocks(bytes) => self.send_pieces(&mut stdin, bytes, true),
        };
        let state = match sent {
            Ok(true) => input::ENDED,
            Ok(false) => input::EMPTY,
            Err(InputError::Send) => input::FAILED,
            Err(InputError::Read(error)) => self.end_unsent(Failure::source("standard input", &error)),
            Err(InputError::Refused(error)) => self.end_unsent(net::send_failure(&error)),
        };
        self.socket.flush();
        self.input.store(state, Ordering::Release);
    }

    /// What was sent before goes its way; that there was more is told in the end.
    fn end_unsent(&self, failure: Failure) -> u8 {
        let _ = self.unsent.set(failure);
        input::ENDED
    }

    /// Sends pieces of at most `bytes`; `whole` fills each of them but the last. Whether anything was sent.
    fn send_pieces(&self, stdin: &mut impl Read, bytes: usize, whole: bool) -> Result<bool, InputError> {
        let mut buffer = vec![0; bytes];
        let mut any = false;
        loop {
            let mut len = stdin.read(&mut buffer).map_err(InputError::Read)?;
            while whole && len > 0 && len < bytes {
                match stdin.read(&mut buffer[len..]).map_err(InputError::Read)? {
                    0 => break,
                    more => len += more,
                }
            }
            if len == 0 {
                return Ok(any);
            }
            self.send(&buffer[..len])?;
            any = true;
        }
    }

    fn send_lines(&self, stdin: &mut impl BufRead) -> Result<bool, InputError> {
        let mut line = Vec::new();
        let mut any = false;
        loop {
            line.clear();
            if stdin.read_until(b'\n', &mut line).map_err(InputError::Read)? == 0 {
                return Ok(any);
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            self.send(&line)?;
            any = true;
        }
    }

    /// Sends a whole message, or all of a stream's bytes.
    fn send(&self, mut data: &[u8]) -> Result<(), InputError> {
        loop {
            match self.socket.send(data) {
                // The send time-out passed in the midst of a stream: the next call tells whether it goes on.
                Ok(sent) if sent < data.len() => data = &data[sent..],
                Ok(_) => return Ok(()),
                Err(error @ SendError::TooLong { .. }) => {
                    let _ = self.unsent.set(net::send_failure(&error));
                    return Ok(());
                }
                Err(error @ SendError::TimedOut(_)) => return Err(InputError::Refused(error)),
                Err(_) => return Err(InputError::Send),
            }
        }
    }

    fn receive_all(&self) -> Result<(), Failure> {
        let limit = self.socket.recv_timeout();
        let mut heard_at = Instant::now();
        // Counted in looks: while the machine stands still nobody can say anything.
        let mut silence = Duration::ZERO;
        self.socket.set_recv_timeout(Some(LOOK_INTERVAL));
        loop {
            match self.receive_one() {
                Ok(Moved::Message) => (heard_at, silence) = (Instant::now(), Duration::ZERO),
                Ok(Moved::End) => return Ok(()),
                Ok(Moved::Unwritten(error)) => return Err(Failure::output(&error)),
                Err(RecvError::TimedOut(_)) => {
                    silence = if self.has_said_all() { silence + LOOK_INTERVAL } else { Duration::ZERO };
                    if silence > self.wait {
                        return Ok(());
                    }
                    if let Some(limit) = limit.filter(|limit| heard_at.elapsed() >= *limit) {
                        return Err(net::recv_failure(&RecvError::TimedOut(limit)));
                    }
                }
                Err(error) => return Err(net::recv_failure(&error)),
            }
        }
    }

    /// Whether the input has ended, and the other end has acknowledged all of it.
    fn has_said_all(&self) -> bool {
        if self.input.load(Ordering::Acquire) != input::ENDED {
            return false;
        }
        let stats = self.socket.stats();
        stats.queued_bytes == 0 && stats.in_flight == 0
    }

    /// Moves what is there to standard output.
    fn receive_one(&self) -> Result<Moved, RecvError> {
        let message = match self.socket.recv_message() {
            Err(RecvError::EndOfFile) => return Ok(Moved::End),
            result => result?,
        };
        let mut stdout = io::stdout().lock();
        let written = message
            .parts()
            .iter()
            .try_for_each(|part| stdout.write_all(part))
            .and_then(|()| if self.framing == Framing::Lines { stdout.write_all(b"\n") } else { Ok(()) })
            .and_then(|()| stdout.flush());
        Ok(match written {
            Ok(()) => Moved::Message,
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_read.store(false, Ordering::Relaxed);
                Moved::End
            }
            Err(error) => Moved::Unwritten(error),
        })
    }
}

/// What one look at the socket came to.
enum Moved {
    Message,
    /// The peer has closed, or nobody reads standard output any more, as behind `| head`.
    End,
    Unwritten(io::Error),
}

enum InputError {
    /// Standard input failed.
    Read(io::Error),
    /// The socket took no more in time; the connection lives.
    Refused(SendError),
    /// The connection is gone.
    Send,
}
