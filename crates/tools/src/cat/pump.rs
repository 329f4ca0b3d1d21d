//! Two directions over one connection: standard input to it, and from it to standard output.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weft_socket::{CloseResult, RecvError, SendError, Socket};

use super::input::{Framing, Input, Next};
use crate::exit::{Code, Failure};
use crate::net;

/// How often the receiving direction looks whether the input has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// How far standard input is.
mod state {
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
    input: Arc<Input>,
    wait: Duration,
    /// How far the input is.
    state: AtomicU8,
    /// What first kept this end from sending all of standard input.
    unsent: OnceLock<Failure>,
    /// Whether somebody still reads standard output.
    is_read: AtomicBool,
    /// Nothing is sent any more.
    is_over: AtomicBool,
}

impl Pump {
    pub(super) fn new(socket: Socket, input: Arc<Input>, wait: Duration) -> Self {
        Self {
            socket,
            input,
            wait,
            state: AtomicU8::new(state::OPEN),
            unsent: OnceLock::new(),
            is_read: AtomicBool::new(true),
            is_over: AtomicBool::new(false),
        }
    }

    /// What the close of the connection tells that was lost.
    pub(super) fn loss(&self, closed: &CloseResult) -> Option<Failure> {
        let there = closed.undelivered + u64::from(closed.discarded_by_peer);
        let here = closed.discarded_here;
        if there > 0 {
            let what = format!("packets sent that the other end did not read: {there}");
            return Some(Failure::new(Code::Lost, what, "look whether it ended before its time"));
        }
        // Who stops to read, as behind `| head`, knows of it.
        let is_loss = here > 0 && self.is_read.load(Ordering::Relaxed);
        is_loss.then(|| {
            let what = format!("packets received that came too late to be written: {here}");
            Failure::new(Code::Lost, what, "give a longer --wait")
        })
    }

    /// Moves both directions until the peer closes, or the input has ended and the peer is silent. The second result is the thread that
    /// sends, which ends when the socket is closed.
    pub(super) fn run(self: &Arc<Self>) -> (Result<(), Failure>, Option<JoinHandle<()>>) {
        let sender = self.clone();
        let spawn = || thread::Builder::new().name("weft-cat-send".into()).spawn(move || sender.send_all());
        let spawned = self.input.open().and_then(|()| spawn().map_err(|error| Failure::thread(&error)));
        let sender = match spawned {
            Ok(sender) => sender,
            Err(failure) => return (Err(failure), None),
        };
        let received = self.receive_all();
        self.is_over.store(true, Ordering::Release);
        let all = received.and_then(|()| self.unsent.get().map_or(Ok(()), |failure| Err(failure.clone())));
        (all, Some(sender))
    }

    fn send_all(&self) {
        let mut any = false;
        let state = loop {
            match self.input.next(&self.is_over) {
                Next::Piece(piece) => match self.send(&piece) {
                    Ok(()) => any = true,
                    Err((rest, error)) => {
                        self.input.give_back(piece[rest..].to_vec());
                        let is_refused = matches!(error, SendError::TimedOut(_) | SendError::TooLong { .. });
                        break if is_refused {
                            self.end_unsent(net::send_failure(&error))
                        } else {
                            state::FAILED
                        };
                    }
                },
                Next::Nothing if self.is_over.load(Ordering::Acquire) => break state::FAILED,
                Next::Nothing => {}
                Next::End => break if any { state::ENDED } else { state::EMPTY },
                Next::Failed(error) => break self.end_unsent(Failure::source("standard input", &error)),
            }
        };
        self.socket.flush();
        self.state.store(state, Ordering::Release);
    }

    /// What was sent before goes its way; that there was more is told in the end.
    fn end_unsent(&self, failure: Failure) -> u8 {
        let _ = self.unsent.set(failure);
        state::ENDED
    }

    /// Sends a whole message, or all of a stream's bytes. A line that is too long is told in the end.
    ///
    /// # Errors
    /// How much was sent when the connection was gone, or took no more in time, or of a block that is too long: what follows it
    /// is of no use without it.
    fn send(&self, piece: &[u8]) -> Result<(), (usize, SendError)> {
        let mut from = 0;
        loop {
            match self.socket.send(&piece[from..]) {
                // The send time-out passed in the midst of a stream: the next call tells whether it goes on.
                Ok(sent) if from + sent < piece.len() => from += sent,
                Ok(_) => return Ok(()),
                Err(error @ SendError::TooLong { .. }) if self.input.framing() == Framing::Lines => {
                    let _ = self.unsent.set(net::send_failure(&error));
                    return Ok(());
                }
                Err(error) => return Err((from, error)),
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
        if self.state.load(Ordering::Acquire) != state::ENDED {
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
            .and_then(
                |()| if self.input.framing() == Framing::Lines { stdout.write_all(b"\n") } else { Ok(()) },
            )
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
