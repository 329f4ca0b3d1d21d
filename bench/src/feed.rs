//! A link without a wire: packets made beforehand lie ready, so that who takes them in is measured alone.
//!
//! The CDP papers measure the receiving side "assuming that the underlying network link has infinite bandwidth"; this is
//! that link. Between two loads a thread that receives sleeps in [`Link::recv`], so that it takes no processor from the
//! thread that makes the next load; it is awake when that comes, or the wakes would be measured.

use std::collections::VecDeque;
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use weft_link::{Link, LinkInfo, PollFds, Received, RecvBatch, SendBatch, Waker};

use crate::tube;

/// Longest sleep of a receiver, so that timers are looked at.
const NAP: Duration = Duration::from_millis(1);

/// Queues for what is sent.
const QUEUES: usize = 32;

/// Packets that were sent, and where to, on lines of their own.
#[derive(Default)]
#[repr(align(128))]
struct Queue(Mutex<Vec<(SocketAddr, Vec<u8>)>>);

impl Queue {
    /// The number of the one of this thread.
    fn of_thread() -> usize {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
        }
        NUMBER.with(|number| number % QUEUES)
    }
}

/// Tells how many packets were taken and are not worked off.
type Waiting = Box<dyn Fn() -> usize + Send + Sync>;

/// Opens for the loads of several feeds at the same moment, when all threads that receive are awake.
#[derive(Debug, Default)]
pub struct Gate(AtomicBool);

impl Gate {
    /// What was laid ready comes, from when this returns.
    pub fn open(&self) -> Instant {
        let now = Instant::now();
        self.0.store(true, Ordering::Release);
        now
    }

    /// What is laid ready from now on waits.
    pub fn shut(&self) {
        self.0.store(false, Ordering::Release);
    }

    fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The link: a queue of packets that came, and what was sent.
pub struct Feed {
    local: SocketAddr,
    gate: Arc<Gate>,
    /// Who makes the packets, and never waits for them.
    maker: ThreadId,
    load: Mutex<Load>,
    filled: Condvar,
    /// For a receiver that sleeps on a descriptor: readable while packets lie ready.
    ready: Waker,
    emptied: Condvar,
    /// By thread, as network cards have queues for several cores: none waits for another's.
    sent: [Queue; QUEUES],
    waiting: RwLock<Option<Waiting>>,
}

#[derive(Debug)]
struct Load {
    packets: VecDeque<Received>,
    /// When a receiver came for more and found nothing, and none waits that was taken: everything has been worked off.
    done_at: Option<Instant>,
    /// Nobody sleeps here any more.
    is_closed: bool,
}

impl Feed {
    /// An empty link; this thread makes what comes by it while the gate is open.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new(local: SocketAddr, gate: Arc<Gate>) -> io::Result<Self> {
        let load = Mutex::new(Load { packets: VecDeque::new(), done_at: None, is_closed: false });
        let maker = std::thread::current().id();
        let (filled, emptied, ready) = (Condvar::new(), Condvar::new(), Waker::new()?);
        Ok(Self {
            local,
            gate,
            maker,
            load,
            filled,
            ready,
            emptied,
            sent: Default::default(),
            waiting: RwLock::default(),
        })
    }

    /// Has `waiting` tell how many packets were taken and are not worked off, where several threads take them.
    pub fn watch(&self, waiting: impl Fn() -> usize + Send + Sync + 'static) {
        *self.waiting.write().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(waiting));
    }

    /// No more loads come: no receiver sleeps here any more, where it would hold up the engine's end, and nobody asks any
    /// more when this returns.
    pub fn close(&self) {
        lock(&self.load).is_closed = true;
        self.filled.notify_all();
        *self.waiting.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn is_waited_for(&self) -> bool {
        let waiting = self.waiting.read().unwrap_or_else(PoisonError::into_inner);
        waiting.as_ref().is_some_and(|waiting| waiting() > 0)
    }

    /// Packets that are there at once. Who sleeps here wakes.
    pub fn fill(&self, packets: VecDeque<Received>) {
        let mut load = lock(&self.load);
        *load = Load { packets, done_at: None, is_closed: false };
        // Under the lock, or it could come after everything is worked off.
        self.ready.wake();
        self.filled.notify_all();
    }

    /// Sleeps until everything has been worked off; when that was.
    #[must_use]
    pub fn wait(&self) -> Instant {
        let mut load = lock(&self.load);
        loop {
            if let Some(done_at) = load.done_at {
                return done_at;
            }
            load = self.emptied.wait(load).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What was sent since the last question.
    #[must_use]
    pub fn take_sent(&self) -> Vec<(SocketAddr, Vec<u8>)> {
        self.sent.iter().flat_map(|queue| std::mem::take(&mut *lock(&queue.0))).collect()
    }
}

impl Link for Feed {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        let mut load = lock(&self.load);
        if !load.packets.is_empty() && !self.gate.is_open() {
            return Ok(0);
        }
        if load.packets.is_empty() {
            if load.is_closed || self.is_waited_for() {
                return Ok(0);
            }
            if load.done_at.is_none() {
                load.done_at = Some(Instant::now());
                self.ready.drain();
                self.emptied.notify_all();
            }
            if std::thread::current().id() == self.maker {
                return Ok(0);
            }
            load = self.filled.wait_timeout(load, NAP).unwrap_or_else(PoisonError::into_inner).0;
        }
        let count = batch.room().min(load.packets.len());
        batch.packets_mut().extend(load.packets.drain(..count));
        Ok(count)
    }

    fn send(&self, batch: &mut SendBatch) -> io::Result<usize> {
        let count = batch.len();
        // Copied before the lock is taken: a network card does not make one sender wait for another's copies.
        let frames: Vec<_> =
            batch.iter().map(|frame| (frame.to, [frame.head, frame.body].concat())).collect();
        lock(&self.sent[Queue::of_thread()].0).extend(frames);
        batch.clear();
        Ok(count)
    }

    fn info(&self) -> LinkInfo {
        tube::info("feed", self.local)
    }

    fn poll_fds(&self) -> PollFds {
        PollFds::from_iter([self.ready.fd()])
    }
}

impl Debug for Feed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("local", &self.local).field("load", &self.load).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
