//! The load: one thread per connection and direction, and the counters that others may look at meanwhile.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weft_socket::{RecvError, Socket};

use super::memory::Memory;
use super::protocol::{ConnectionResult, LOOK_INTERVAL, Request, is_pause_recv, is_pause_send};
use weft_base::Service;

/// Smallest buffer for receiving from a stream, in bytes: as much as one turn of the engine mostly brings, which goes there in one pass then, and
/// no more than the second cache has (decision 0088).
const STREAM_BUFFER_BYTES: usize = 512 << 10;
/// How long the receiving side waits for what was sent before it gives up.
const DRAIN_TIME: Duration = Duration::from_secs(20);
/// Messages between two looks at the clock: a look costs as much as a small message.
const CLOCK_EVERY: u64 = 256;
/// Bytes of a message beside which a look at the clock costs nothing.
const LARGE_BYTES: usize = 16 << 10;
/// The total is not known yet.
const UNKNOWN: u64 = u64::MAX;

/// What one direction of one connection has done so far.
#[derive(Debug, Default)]
pub(super) struct Count {
    pub(super) bytes: AtomicU64,
    pub(super) messages: AtomicU64,
    /// Time of the last operation, nanoseconds since the start.
    last_ns: AtomicU64,
}

impl Count {
    fn add(&self, bytes: usize) {
        // One thread writes, others only look: no need for read-modify-write.
        let total = self.bytes.load(Ordering::Relaxed) + bytes as u64;
        self.bytes.store(total, Ordering::Relaxed);
        self.messages.store(self.messages.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    /// The last operation was so long after the start.
    fn mark(&self, elapsed: Duration) {
        self.last_ns.store(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn seconds(&self) -> f64 {
        self.last_ns.load(Ordering::Relaxed) as f64 / 1e9
    }
}

/// One load connection while the test runs.
pub(super) struct Flow {
    pub(super) socket: Socket,
    pub(super) sent: Arc<Count>,
    pub(super) received: Arc<Count>,
    /// Bytes that the other end says it has sent.
    expected: Arc<AtomicU64>,
    /// Whether sending failed; the error itself is told in the end.
    is_unsent: Arc<AtomicBool>,
    sender: Option<JoinHandle<Option<String>>>,
    receiver: Option<JoinHandle<Option<String>>>,
}

impl Flow {
    /// Starts the threads for what this end does. If one cannot be had all flows with the same `stop` stop.
    ///
    /// # Errors
    /// Why there is no thread.
    pub(super) fn start(
        socket: Socket,
        request: &Request,
        sends: bool,
        receives: bool,
        stop: &Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let started_at = Instant::now();
        let size = usize::try_from(request.size_bytes).unwrap_or(usize::MAX);
        let (sent, received) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let expected = Arc::new(AtomicU64::new(UNKNOWN));
        let is_unsent = Arc::new(AtomicBool::new(false));
        socket.set_send_timeout(Some(LOOK_INTERVAL));
        socket.set_recv_timeout(Some(LOOK_INTERVAL));
        let sender = sends.then(|| {
            let load = Sending {
                socket: socket.clone(),
                count: sent.clone(),
                size,
                lends: request.zerocopy,
                limit: request.bytes,
                time: request.bytes.is_none().then(|| request.time()),
                stop: stop.clone(),
                is_unsent: is_unsent.clone(),
            };
            spawn(move || load.run(started_at))
        });
        let receiver = receives.then(|| {
            let load = Receiving {
                socket: socket.clone(),
                count: received.clone(),
                size,
                takes: request.zerocopy,
                expected: expected.clone(),
            };
            spawn(move || load.run(started_at))
        });
        let ends = sender.transpose().and_then(|sender| Ok((sender, receiver.transpose()?)));
        let (sender, receiver) = ends.inspect_err(|_| {
            stop.store(true, Ordering::Relaxed);
            socket.abort();
        })?;
        Ok(Self { socket, sent, received, expected, is_unsent, sender, receiver })
    }

    /// Whether the sending side has stopped by itself.
    pub(super) fn has_sent_all(&self) -> bool {
        self.sender.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Whether a side has stopped although it had more to do.
    pub(super) fn has_broken(&self) -> bool {
        self.is_unsent.load(Ordering::Relaxed) || self.receiver.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Waits until the sending side has stopped; bytes that it sent.
    pub(super) fn finish_sending(&mut self) -> (u64, Option<String>) {
        let error = self.sender.take().and_then(|thread| thread.join().unwrap_or_else(|_| Some(panicked())));
        (self.sent.bytes(), error)
    }

    /// The other end has sent so many bytes. Told to all flows before the first is waited for, as each looks every [`LOOK_INTERVAL`].
    pub(super) fn expect(&self, bytes: u64) {
        self.expected.store(bytes, Ordering::Relaxed);
    }

    /// Waits until what is expected has arrived, or the connection has ended.
    pub(super) fn finish_receiving(&mut self) -> Option<String> {
        self.receiver.take().and_then(|thread| thread.join().unwrap_or_else(|_| Some(panicked())))
    }

    /// Everything counted on this connection.
    pub(super) fn result(&self, error: Option<String>) -> ConnectionResult {
        let counted = ConnectionResult {
            sent_bytes: self.sent.bytes(),
            sent_messages: self.sent.messages(),
            sent_seconds: self.sent.seconds(),
            received_bytes: self.received.bytes(),
            received_messages: self.received.messages(),
            received_seconds: self.received.seconds(),
            error,
            ..ConnectionResult::default()
        };
        counted.with_stats(&self.socket.stats())
    }
}

fn spawn(load: impl FnOnce() -> Option<String> + Send + 'static) -> io::Result<JoinHandle<Option<String>>> {
    thread::Builder::new().name("weft-load".into()).spawn(load)
}

fn panicked() -> String {
    "a thread of the load failed".to_owned()
}

struct Sending {
    socket: Socket,
    count: Arc<Count>,
    size: usize,
    /// Whether the transport shares the data instead of copying it.
    lends: bool,
    limit: Option<u64>,
    /// When to stop, counted from the start. Its own clock tells: under real-time priority no other thread of this core
    /// runs while this one does.
    time: Option<Duration>,
    stop: Arc<AtomicBool>,
    /// Set when sending fails, as a sender that has ended may just as well be done.
    is_unsent: Arc<AtomicBool>,
}

impl Sending {
    fn run(&self, started_at: Instant) -> Option<String> {
        let mut data = Memory::new(self.size);
        data.iter_mut().zip((0..=255).cycle()).for_each(|(byte, value)| *byte = value);
        let data = data.into_bytes();
        let mut left = self.limit.unwrap_or(u64::MAX);
        let error = loop {
            if left == 0 || self.stop.load(Ordering::Relaxed) || self.is_over(started_at) {
                break None;
            }
            let len = self.size.min(usize::try_from(left).unwrap_or(usize::MAX));
            let sent = if self.lends {
                self.socket.send_lent(&data.slice(..len))
            } else {
                self.socket.send(&data[..len])
            };
            match sent {
                Ok(sent) => {
                    self.count.add(sent);
                    left -= sent as u64;
                }
                Err(error) if is_pause_send(&error) => {}
                Err(error) => {
                    self.is_unsent.store(true, Ordering::Relaxed);
                    break Some(error.to_string());
                }
            }
        };
        self.socket.flush();
        self.count.mark(started_at.elapsed());
        error
    }

    /// Looks at the clock after large messages, and now and then after small ones.
    fn is_over(&self, started_at: Instant) -> bool {
        (self.size >= LARGE_BYTES || self.count.messages().is_multiple_of(CLOCK_EVERY))
            && self.time.is_some_and(|time| started_at.elapsed() >= time)
    }
}

struct Receiving {
    socket: Socket,
    count: Arc<Count>,
    size: usize,
    /// Whether it takes what arrives where it lies.
    takes: bool,
    expected: Arc<AtomicU64>,
}

impl Receiving {
    fn run(&self, started_at: Instant) -> Option<String> {
        let is_stream = self.socket.service() == Service::Stream;
        let mut buffer = Memory::new(if is_stream { self.size.max(STREAM_BUFFER_BYTES) } else { self.size });
        // When something came last, if that is more than the count says.
        let (mut heard_at, mut is_marked) = (Instant::now(), true);
        loop {
            // What was sent is known only at the end; the counter is compared when nothing comes any more.
            let received = if self.takes {
                self.socket.recv_message().map(|message| message.len())
            } else {
                self.socket.recv(&mut buffer)
            };
            match received {
                Ok(len) if len > 0 || !is_stream => {
                    self.count.add(len);
                    let (is_complete, messages) = (self.is_complete(), self.count.messages());
                    is_marked = is_stream
                        || is_complete
                        || messages <= CLOCK_EVERY
                        || messages.is_multiple_of(CLOCK_EVERY);
                    if is_marked {
                        heard_at = Instant::now();
                        self.count.mark(heard_at - started_at);
                    }
                    if is_complete {
                        return None;
                    }
                }
                Err(error) if is_pause_recv(&error) => {
                    if !std::mem::replace(&mut is_marked, true) {
                        heard_at = Instant::now().checked_sub(LOOK_INTERVAL).unwrap_or(heard_at);
                        self.count.mark(heard_at - started_at);
                    }
                    if self.is_complete() {
                        return None;
                    }
                    let is_late = self.expected.load(Ordering::Relaxed) != UNKNOWN;
                    if is_late && heard_at.elapsed() > DRAIN_TIME {
                        return Some("the rest of what was sent did not arrive".to_owned());
                    }
                }
                Ok(_) | Err(RecvError::EndOfFile) => {
                    if !is_marked {
                        self.count.mark(started_at.elapsed());
                    }
                    return self.early_end();
                }
                Err(error) => return Some(error.to_string()),
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.count.bytes() >= self.expected.load(Ordering::Relaxed)
    }

    fn early_end(&self) -> Option<String> {
        let is_short = !self.is_complete() && self.expected.load(Ordering::Relaxed) != UNKNOWN;
        is_short.then(|| "the other end closed before all had arrived".to_owned())
    }
}
