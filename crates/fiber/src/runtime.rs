//! A runtime: some workers, and what they share.

mod handle;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle as ThreadHandle;
use std::time::{Duration, Instant};

use crate::config::{Config, Hook};
use crate::error::{BuildError, RunError, SpawnError};
use crate::join::JoinHandle;
use crate::queue::Queue;
use crate::rendezvous::Rendezvous;
use crate::spawn::Spawn;
use crate::stack::pool::{Pool, Returned, region_size};
use crate::transport::{self, Drivers};
use crate::worker::{self, Worker};
use crate::{block::Block, stack::overflow};
pub use handle::Handle;

/// How long a runtime that shuts down waits for its cancelled fibers.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where a runtime stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    Running,
    /// It takes no new fibers.
    Closing,
    /// Its workers end.
    Ended,
}

/// What the workers of a runtime share. It lives as long as anybody has a fiber of it.
pub(crate) struct Shared {
    pub(crate) workers: Box<[Worker]>,
    pub(crate) pool: Pool,
    pub(crate) drivers: Drivers,
    pub(crate) rendezvous: Rendezvous,
    /// The size of a region unless a fiber is given another one.
    pub(crate) region_size: usize,
    /// Looks of an idle worker before it sleeps.
    pub(crate) spins: u32,
    /// Workers without a fiber.
    pub(crate) hungry: AtomicUsize,
    /// How often a fiber was detached, and how often one was attached again or ended as such.
    detached: (AtomicU64, AtomicU64),
    /// Fibers spawned by threads that are no workers.
    spawned_outside: AtomicU64,
    /// Such threads that are just spawning one: it counts before they look at the stage, until a worker has it.
    arriving: AtomicUsize,
    stage: AtomicU8,
    started: Instant,
    hook: OnceLock<Hook>,
    pub(crate) on_deadlock: fn(&crate::Deadlock),
    /// Fibers ever spawned when a deadlock was last reported.
    pub(crate) reported: AtomicU64,
}

impl Shared {
    pub(crate) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::SeqCst) {
            0 => Stage::Running,
            1 => Stage::Closing,
            _ => Stage::Ended,
        }
    }

    fn enter(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::SeqCst);
        self.workers.iter().for_each(|worker| {
            worker.ring();
        });
    }

    /// Polls the transports that fibers wait for, and calls the poll hook, if there is one; returns how much they did.
    #[inline]
    pub(crate) fn poll(&self, budget: usize) -> usize {
        // A panic of the hook has been reported; it must not end the worker.
        let called = |hook: &Hook| catch_unwind(AssertUnwindSafe(|| hook(budget))).unwrap_or(0);
        self.drivers.poll(budget) + self.hook.get().map_or(0, called)
    }

    /// The time since the runtime was started.
    pub(crate) fn clock(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn has_hook(&self) -> bool {
        self.hook.get().is_some()
    }

    /// Wakes a worker that sleeps, so that it looks at the lanes.
    pub(crate) fn wake_a_sleeper(&self) {
        let _ = self.workers.iter().any(Worker::ring);
    }

    /// Takes back regions whose fibers are gone. The last ones of a runtime that has ended free its memory.
    pub(crate) fn give_back(&self, blocks: Queue<Block>) {
        if !blocks.is_empty() && self.pool.put(blocks) == Returned::Last {
            // SAFETY: `Runtime::end` left a count for the regions that were still out; this was the last of them.
            unsafe { Arc::decrement_strong_count(self) };
        }
    }

    /// Fibers spawned so far.
    pub(crate) fn spawned(&self) -> u64 {
        let here: u64 = self.workers.iter().map(|worker| worker.spawned.load(Ordering::Relaxed)).sum();
        here + self.spawned_outside.load(Ordering::Relaxed)
    }

    /// Fibers that live, as the counters say at this moment.
    pub(crate) fn live(&self) -> u64 {
        // What ended is counted first: what ends meanwhile makes the answer too large, never too small.
        let finished = self.finished();
        self.spawned().saturating_sub(finished)
    }

    fn finished(&self) -> u64 {
        self.workers.iter().map(|worker| worker.finished.load(Ordering::Acquire)).sum()
    }

    /// Fibers that live and are attached: never too few, whatever happens between the looks at the counters. What makes the
    /// number smaller is looked at first.
    fn live_attached(&self) -> u64 {
        let (begun, ended) = &self.detached;
        let finished = self.finished();
        let begun = begun.load(Ordering::Acquire);
        let spawned = self.spawned();
        (spawned + ended.load(Ordering::Acquire)).saturating_sub(finished + begun)
    }

    /// A fiber is detached from now on.
    pub(crate) fn note_detached(&self) {
        self.detached.0.fetch_add(1, Ordering::AcqRel);
    }

    /// A detached fiber is attached again, or ends.
    pub(crate) fn note_detached_no_more(&self) {
        self.detached.1.fetch_add(1, Ordering::AcqRel);
    }

    /// It was not detached, or has ended as such: one less again.
    pub(crate) fn was_not_detached(&self) {
        self.detached.1.fetch_sub(1, Ordering::AcqRel);
    }

    /// A thread that is no worker spawns a fiber, for as long as the guard lives. Either it finds that the runtime ends, or who
    /// ends it waits.
    pub(crate) fn let_in(&self) -> Arriving<'_> {
        self.arriving.fetch_add(1, Ordering::SeqCst);
        Arriving(&self.arriving)
    }

    /// A number for a fiber that is spawned by a thread that is no worker.
    pub(crate) fn next_id_outside(&self) -> u64 {
        self.spawned_outside.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// A thread that is no worker spawns a fiber.
pub(crate) struct Arriving<'a>(&'a AtomicUsize);

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Workers that run fibers. Dropping it waits for the attached fibers, cancels the detached ones and waits 2 s at most for them to
/// end.
///
/// ```
/// let runtime = weft_fiber::Runtime::builder().workers(2).build()?;
/// let answer = runtime.spawn(|| 6 * 7)?;
/// assert_eq!(answer.join()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Runtime {
    shared: Arc<Shared>,
    threads: Vec<ThreadHandle<()>>,
}

impl Runtime {
    /// A runtime with one worker and the default options.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if the system refuses the thread.
    pub fn new() -> Result<Self, BuildError> {
        Self::builder().build()
    }

    /// A runtime with options.
    #[must_use]
    pub fn builder() -> Config {
        Config::default()
    }

    pub(crate) fn start(config: &Config) -> Result<Self, BuildError> {
        overflow::install();
        let shared = Arc::new(Shared {
            workers: (0..config.workers).map(Worker::new).collect(),
            pool: Pool::new(config.fiber_limit),
            drivers: Drivers::new(),
            rendezvous: Rendezvous::new(config.workers),
            region_size: region_size(config.stack_size),
            spins: config.spins,
            hungry: AtomicUsize::new(0),
            detached: (AtomicU64::new(0), AtomicU64::new(0)),
            spawned_outside: AtomicU64::new(0),
            arriving: AtomicUsize::new(0),
            stage: AtomicU8::new(Stage::Running as u8),
            started: Instant::now(),
            hook: OnceLock::new(),
            on_deadlock: config.on_deadlock,
            reported: AtomicU64::new(0),
        });
        let mut runtime = Self { shared, threads: Vec::new() };
        for worker in &runtime.shared.workers {
            worker.set_shared(&runtime.shared);
        }
        for index in 0..config.workers {
            let shared = runtime.shared.clone();
            let thread = std::thread::Builder::new().name(format!("weft-fiber-{index}"));
            let body = move || {
                transport::install();
                overflow::with_signal_stack(|| shared.workers[index].run());
            };
            let started = thread.spawn(body).map_err(|error| BuildError::Thread(error.to_string()))?;
            runtime.threads.push(started);
        }
        Ok(runtime)
    }

    /// Spawns a fiber; see [`Spawn`] for options.
    ///
    /// # Errors
    ///
    /// [`SpawnError`] at the fiber limit, or without memory for its stack.
    pub fn spawn<T: Send + 'static>(
        &self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, SpawnError> {
        Spawn::new().spawn_on(&self.handle(), body)
    }

    /// Runs `body` as a fiber and waits for its value.
    ///
    /// # Errors
    ///
    /// [`RunError`] if it cannot be spawned or ends without a value.
    pub fn run<T: Send + 'static>(&self, body: impl FnOnce() -> T + Send + 'static) -> Result<T, RunError> {
        let first = Spawn::new().name("main").spawn_on(&self.handle(), body)?;
        Ok(first.join()?)
    }

    /// A handle to spawn with from elsewhere, also when the runtime may have been shut down.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle(self.shared.clone())
    }

    /// Calls `hook` from now on wherever a worker has time: with a large budget when it is idle, with a small one now and
    /// then under load. The hook makes progress of at most that much, never waits, and returns how much it made.
    ///
    /// The first hook stays; returns false if there was one.
    pub fn set_poll_hook(&self, hook: impl Fn(usize) -> usize + Send + Sync + 'static) -> bool {
        let is_first = self.shared.hook.set(Box::new(hook)).is_ok();
        self.shared.workers.iter().for_each(|worker| {
            worker.ring();
        });
        is_first
    }

    /// Waits for the attached fibers, cancels the detached ones, and ends the workers. What dropping does, too.
    pub fn shut_down(self) {
        drop(self);
    }

    fn end(&mut self) {
        if worker::current().is_some_and(|worker| ptr::eq(worker.shared(), &*self.shared)) {
            eprintln!(
                "a runtime was dropped by one of its own fibers and goes on; drop it on another thread"
            );
            std::mem::forget(self.shared.clone());
            return self.threads.clear();
        }
        wait_until(None, || self.shared.live_attached() == 0);
        self.shared.enter(Stage::Closing);
        // What was let in before is waited for as well.
        wait_until(None, || self.shared.arriving.load(Ordering::SeqCst) == 0);
        wait_until(None, || self.shared.live_attached() == 0);
        // Again and again, as one that was just being spawned by another may not have been there to be cancelled.
        wait_until(Some(PATIENCE), || {
            self.shared.pool.for_each(|block| {
                if block.id.load(Ordering::Relaxed) != 0 && !block.latch.is_open() {
                    crate::fiber::cancel(block);
                }
            });
            self.shared.live() == 0
        });
        self.shared.enter(Stage::Ended);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        // Handles of ended fibers may outlive the runtime: a count is left for their regions.
        let for_regions = self.shared.clone();
        if for_regions.pool.close() == Returned::More {
            std::mem::forget(for_regions);
        }
    }
}

/// Waits until `is_so`, looking rarely: shutting down is nothing that happens often.
fn wait_until(patience: Option<Duration>, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    let mut nap = Duration::from_micros(20);
    while !is_so() && patience.is_none_or(|patience| start.elapsed() < patience) {
        std::thread::sleep(nap);
        nap = (nap * 2).min(Duration::from_millis(2));
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle().fmt(f)
    }
}

/// Runs `body` as the first fiber of a runtime of one worker, waits for its value, and shuts the runtime down.
///
/// # Errors
///
/// [`RunError`] if the runtime cannot be started or the fiber ends without a value.
pub fn run<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> Result<T, RunError> {
    Runtime::new()?.run(body)
}
