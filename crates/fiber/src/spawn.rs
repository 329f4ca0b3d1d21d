//! Spawning, with options.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::block::Block;
use crate::error::SpawnError;
use crate::job::{self, JobOf};
use crate::join::JoinHandle;
use crate::runtime::{Handle, Shared, Stage};
use crate::stack::pool::region_size;
use crate::worker::{self, Worker};

/// Options of a fiber.
///
/// A fiber spawned with [`spawn`](Self::spawn) may be taken by any worker until it starts, and then stays where it is: so
/// what it keeps of its thread across a switch, in safe Rust, is right. [`roaming`](Self::roaming) gives that up.
///
/// ```
/// weft_fiber::run(|| {
///     let child = weft_fiber::Spawn::new().name("child").stack_size(256 * 1024).spawn(|| 7);
///     let child = child.unwrap();
///     assert_eq!(child.fiber().name(), "child");
///     assert_eq!(child.join().unwrap(), 7);
/// })?;
/// # Ok::<(), weft_fiber::RunError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "options spawn nothing; call spawn"]
pub struct Spawn<'a> {
    name: &'a str,
    stack_size: Option<usize>,
    worker: Option<usize>,
    is_detached: bool,
    is_measured: bool,
    roams: bool,
}

impl<'a> Spawn<'a> {
    /// The default options: no name, the runtime's stack size, attached, bound to no worker.
    pub fn new() -> Self {
        Self::default()
    }

    /// A name for listings and reports; the first 32 bytes are kept.
    pub fn name(mut self, name: &'a str) -> Self {
        self.name = name;
        self
    }

    /// The bytes of its stack, rounded up to whole pages.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Binds it to that worker, counted from 0.
    pub fn bind(mut self, worker: usize) -> Self {
        self.worker = Some(worker);
        self
    }

    /// Detached: its result is nobody's, and the runtime does not wait for it.
    pub fn detached(mut self) -> Self {
        self.is_detached = true;
        self
    }

    /// Lets any worker run it at any time, so that it may go to sleep on one thread and wake on another. A fiber of
    /// [`spawn_local`](Self::spawn_local) stays nevertheless.
    ///
    /// # Safety
    ///
    /// Across a switch point of the fiber nothing may be kept that belongs to its thread: no reference to a thread-local
    /// variable, no guard that must be dropped on the thread that made it, nothing that is shared with others by staying on
    /// one thread. While the fiber unwinds its waits do not move it.
    pub unsafe fn roaming(mut self) -> Self {
        self.roams = true;
        self
    }

    /// Clears its stack first, so that [`Fiber::high_water`](crate::Fiber::high_water) is its own mark and not that of an
    /// earlier fiber.
    pub fn measured(mut self) -> Self {
        self.is_measured = true;
        self
    }

    /// Spawns a fiber on the runtime of the fiber that runs.
    ///
    /// # Errors
    ///
    /// [`SpawnError`] at the fiber limit, without memory, or on a thread that belongs to no runtime.
    #[inline]
    pub fn spawn<T: Send + 'static>(
        self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, SpawnError> {
        let worker = worker::current().ok_or(SpawnError::NotAFiber)?;
        let block = self.prepare(worker.shared(), Some(worker), body)?;
        if self.worker.is_none() {
            worker.push_fresh(block);
        } else {
            worker.push(block);
        }
        Ok(JoinHandle::of(block))
    }

    /// Spawns a fiber on the runtime of `handle`, from any thread.
    ///
    /// # Errors
    ///
    /// As for [`spawn`](Self::spawn), and [`SpawnError::ShutDown`].
    pub fn spawn_on<T: Send + 'static>(
        self,
        handle: &Handle,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, SpawnError> {
        let shared = &*handle.0;
        if let Some(worker) = worker::current()
            && std::ptr::eq(worker.shared(), shared)
        {
            return self.spawn(body);
        }
        let _arriving = shared.let_in();
        let block = self.prepare(shared, None, body)?;
        // SAFETY: the block was just made, and is in no queue yet.
        let id = unsafe { block.as_ref() }.id.load(Ordering::Relaxed);
        let turn = usize::try_from(id).unwrap_or(0) % shared.workers.len();
        shared.workers[self.worker.unwrap_or(turn)].deliver(block);
        Ok(JoinHandle::of(block))
    }

    /// Spawns a fiber whose closure cannot leave this thread. It is bound to this worker for its whole life.
    ///
    /// # Errors
    ///
    /// As for [`spawn`](Self::spawn).
    #[inline]
    pub fn spawn_local<T: 'static>(
        self,
        body: impl FnOnce() -> T + 'static,
    ) -> Result<JoinHandle<T>, SpawnError> {
        let worker = worker::current().ok_or(SpawnError::NotAFiber)?;
        let block =
            Self { worker: Some(worker.index), ..self }.prepare(worker.shared(), Some(worker), body)?;
        // SAFETY: the block was just made, and is in no queue yet.
        unsafe { block.as_ref() }.is_local.store(true, Ordering::Relaxed);
        worker.push(block);
        Ok(JoinHandle::of(block))
    }

    /// A fiber in no queue yet.
    #[inline]
    fn prepare<F: FnOnce() -> T + 'static, T: 'static>(
        &self,
        shared: &Shared,
        worker: Option<&Worker>,
        body: F,
    ) -> Result<NonNull<Block>, SpawnError> {
        if shared.stage() != Stage::Running {
            return Err(SpawnError::ShutDown);
        }
        let workers = shared.workers.len();
        if let Some(worker) = self.worker.filter(|&worker| worker >= workers) {
            return Err(SpawnError::NoSuchWorker { worker, workers });
        }
        let block = match (worker, self.stack_size) {
            (Some(worker), None) => worker.region()?,
            (_, size) => worker::take_one(shared, size.map_or(shared.region_size, region_size))?,
        };
        // SAFETY: the region is nobody else's.
        let fiber = unsafe { block.as_ref() };
        let id = worker.map_or_else(|| shared.next_id_outside(), Worker::next_id);
        fiber.reset(id, JobOf::<F, T>::JOB);
        fiber.roams.set(self.roams);
        // SAFETY: the payload of a block that was reset is empty.
        unsafe { job::put(fiber, body) };
        self.apply(fiber, shared);
        fiber.life.begin(id, self.name);
        Ok(block)
    }

    /// The options that few fibers have.
    #[inline]
    fn apply(&self, fiber: &Block, shared: &Shared) {
        if !self.name.is_empty() {
            fiber.name.set(self.name);
        }
        if let Some(worker) = self.worker {
            fiber.bound_to.store(u32::try_from(worker + 1).unwrap_or(0), Ordering::Relaxed);
        }
        if self.is_detached && fiber.latch.refuse().is_ok() {
            shared.note_detached();
        }
        if self.is_measured {
            fiber.region.discard_below();
        }
    }
}

/// Spawns a fiber on the runtime of the fiber that runs; see [`Spawn`] for options.
///
/// # Errors
///
/// [`SpawnError`] at the fiber limit, without memory, or on a thread that belongs to no runtime.
#[inline]
pub fn spawn<T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, SpawnError> {
    Spawn::new().spawn(body)
}

/// Spawns a fiber that never leaves this thread, so that its closure may hold what cannot be sent to another.
///
/// # Errors
///
/// As for [`spawn`].
#[inline]
pub fn spawn_local<T: 'static>(body: impl FnOnce() -> T + 'static) -> Result<JoinHandle<T>, SpawnError> {
    Spawn::new().spawn_local(body)
}
