//! Fibers in C: the process's runtime, numbers for fibers, and what is done with them (`fiber.h`).
//!
//! A fiber is a number in a table; a call looks it up and takes a share, so that a wrong number is ESRCH and never a stale
//! pointer. A cancelled fiber does not unwind through frames of C: its calls end with ECANCELED, again and again.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weft_fiber::{BuildError, DetachError, Fiber, Handle, JoinError, Joiner, Runtime};

use weft_socket::stat::Offer;

use crate::boundary::{self, Failure, call};
use crate::fiber_list::offered;

/// `struct fiber_config`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FiberConfig {
    /// Its own size, so that it can grow.
    pub size: u32,
    /// Workers; 0 is one.
    pub workers: u32,
    /// Bytes of a stack; 0 is the default.
    pub stack_size: usize,
    /// Fibers at once; 0 is the default.
    pub fiber_limit: usize,
    /// Name under which the fibers are told of; NULL for none.
    pub stat_name: *const c_char,
}

/// The runtime of this process, and its place among what `weft stat` shows.
struct Running {
    /// Taken out by who shuts it down: until that is over, fibers make others.
    runtime: Option<Runtime>,
    handle: Handle,
    offer: Option<Offer>,
}

static RUNNING: Mutex<Option<Running>> = Mutex::new(None);
static FIBERS: LazyLock<Mutex<HashMap<u64, Arc<Entry>>>> = LazyLock::new(Mutex::default);

/// A fiber of the table.
pub(crate) struct Entry {
    joiner: Joiner<isize>,
    /// Its function is over; under the table's lock.
    has_returned: AtomicBool,
}

impl Entry {
    pub(crate) fn new(joiner: Joiner<isize>) -> Arc<Self> {
        Arc::new(Self { joiner, has_returned: AtomicBool::new(false) })
    }
}

fn running() -> MutexGuard<'static, Option<Running>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn fibers() -> MutexGuard<'static, HashMap<u64, Arc<Entry>>> {
    FIBERS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn handle() -> Result<Handle, Failure> {
    let handle = running().as_ref().map(|running| running.handle.clone());
    handle.ok_or_else(|| Failure::new(libc::ESHUTDOWN, "no fibers are run; call fiber_init first"))
}

fn find(fiber: u64) -> Result<Arc<Entry>, Failure> {
    let entry = fibers().get(&fiber).cloned();
    entry
        .ok_or_else(|| Failure::new(libc::ESRCH, format!("there is no fiber {fiber}, or it has been joined")))
}

/// The deadline that is so many nanoseconds away; `None` is never.
pub(crate) fn deadline(timeout_ns: i64) -> Option<Instant> {
    weft_fiber::deadline(Duration::from_nanos(u64::try_from(timeout_ns).ok()?))
}

pub(crate) fn timed_out() -> Failure {
    Failure::new(libc::ETIMEDOUT, "the time was over before it came about; wait again to wait longer")
}

fn not_a_fiber(error: impl std::fmt::Display) -> Failure {
    Failure::new(libc::EPERM, error)
}

/// Starts the workers of this process.
///
/// # Safety
/// `config` is NULL or points to a `struct fiber_config`, whose text is NULL or ends in zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_init(config: *const FiberConfig) -> c_int {
    call(|| {
        let mut builder = Runtime::builder();
        let mut stat_name = None;
        if !config.is_null() {
            // SAFETY: the contract of this function.
            let config = unsafe { boundary::read(config) }?;
            if config.size as usize != size_of::<FiberConfig>() {
                return Err(Failure::invalid(
                    "size is not that of struct fiber_config; use FIBER_CONFIG_INIT",
                ));
            }
            builder = builder.workers(config.workers.max(1) as usize);
            if config.stack_size != 0 {
                builder = builder.stack_size(config.stack_size);
            }
            if config.fiber_limit != 0 {
                builder = builder.fiber_limit(config.fiber_limit);
            }
            if !config.stat_name.is_null() {
                // SAFETY: a text, by the contract of this function.
                stat_name = Some(unsafe { boundary::text(config.stat_name) }?);
            }
        }
        let mut running = running();
        if running.is_some() {
            return Err(Failure::new(
                libc::EBUSY,
                "fibers are run already; call fiber_init once, or again after fiber_shutdown has returned",
            ));
        }
        let runtime = builder.build().map_err(|error| match error {
            BuildError::Thread(_) => Failure::new(libc::EAGAIN, error),
            BuildError::Option { .. } | _ => Failure::invalid(error),
        })?;
        let handle = runtime.handle();
        let offer = stat_name.map(|name| offered(name, handle.clone())).transpose()?;
        *running = Some(Running { runtime: Some(runtime), handle, offer });
        Ok(0)
    })
}

/// Waits for the attached fibers, cancels the others, and ends the workers.
#[unsafe(no_mangle)]
pub extern "C" fn fiber_shutdown() -> c_int {
    call(|| {
        if Fiber::current().is_some() {
            return Err(Failure::new(
                libc::EDEADLK,
                "a fiber cannot wait for itself; call this from a thread",
            ));
        }
        let ended =
            running().as_mut().and_then(|running| Some((running.runtime.take()?, running.offer.take())));
        let (runtime, offer) = ended.ok_or_else(|| {
            Failure::new(libc::ESHUTDOWN, "no fibers are run, or another thread is shutting them down")
        })?;
        drop(offer);
        runtime.shut_down();
        fibers().clear();
        *running() = None;
        Ok(0)
    })
}

/// What a fiber's function has with it. A detached fiber that ends will not be joined, so it leaves the table itself when this is
/// dropped, also if it was cancelled before it began; one that is detached from now on leaves it then.
pub(crate) struct Leaves {
    /// Who spawns the fiber, and drops this if that fails.
    spawner: u64,
}

impl Leaves {
    pub(crate) fn new() -> Self {
        Self { spawner: fiber_self() }
    }
}

impl Drop for Leaves {
    fn drop(&mut self) {
        if fiber_self() != self.spawner {
            forget_if_detached();
        }
    }
}

fn forget_if_detached() {
    let Some(me) = Fiber::current() else { return };
    let mut table = fibers();
    let gone = if me.is_detached() { table.remove(&me.id()) } else { None };
    if let Some(entry) = table.get(&me.id()) {
        entry.has_returned.store(true, Ordering::Relaxed);
    }
    drop(table);
    drop(gone);
}

/// Waits for the end of a fiber and its result.
///
/// # Safety
/// `result` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_join(fiber: u64, timeout_ns: i64, result: *mut isize) -> c_int {
    call(|| {
        let entry = find(fiber)?;
        let joined = entry.joiner.join_until(deadline(timeout_ns)).copied();
        if !matches!(joined, Err(JoinError::TimedOut | JoinError::Detached | JoinError::Itself)) {
            let gone = fibers().remove(&fiber);
            drop(gone);
        }
        let value = joined?;
        if !result.is_null() {
            // SAFETY: the contract of this function.
            unsafe { boundary::write(result, value) }?;
        }
        Ok(0)
    })
}

/// Ends the fiber that runs. It returns only if it fails.
///
/// The frames of C on its stack are unwound, which their compiler's tables allow unless they were left out.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn fiber_exit(result: isize) -> c_int {
    let refused = weft_fiber::exit(result);
    call(|| match refused {
        Err(error) => Err(not_a_fiber(error)),
        Ok(never) => match never {},
    })
}

/// Lets others run.
#[unsafe(no_mangle)]
pub extern "C" fn fiber_yield() -> c_int {
    call(|| {
        weft_fiber::yield_now();
        Ok(0)
    })
}

/// The number of the fiber that runs; 0 on a thread that runs none.
#[unsafe(no_mangle)]
pub extern "C" fn fiber_self() -> u64 {
    Fiber::current().map_or(0, |fiber| fiber.id())
}

/// Makes a fiber's result nobody's.
#[unsafe(no_mangle)]
pub extern "C" fn fiber_detach(fiber: u64) -> c_int {
    call(|| {
        let entry = find(fiber)?;
        let mut table = fibers();
        let has_ended = match entry.joiner.fiber().detach() {
            // As for a thread: it is forgotten.
            Err(DetachError::Ended) => true,
            detached => detached.map(|()| entry.has_returned.load(Ordering::Relaxed))?,
        };
        let gone = if has_ended { table.remove(&fiber) } else { None };
        drop(table);
        drop(gone);
        Ok(0)
    })
}

/// Makes a fiber joinable again.
#[unsafe(no_mangle)]
pub extern "C" fn fiber_attach(fiber: u64) -> c_int {
    call(|| Ok(find(fiber)?.joiner.fiber().attach().map(|()| 0)?))
}

/// Binds a fiber to a worker.
#[unsafe(no_mangle)]
pub extern "C" fn fiber_bind(fiber: u64, worker: c_int) -> c_int {
    call(|| {
        let worker = usize::try_from(worker).map_err(|_| Failure::invalid("workers are counted from 0"))?;
        Ok(find(fiber)?.joiner.fiber().bind(worker).map(|()| 0)?)
    })
}

/// Unbinds a fiber.
#[unsafe(no_mangle)]
pub extern "C" fn fiber_unbind(fiber: u64) -> c_int {
    call(|| Ok(find(fiber)?.joiner.fiber().unbind().map(|()| 0)?))
}

/// Cancels a fiber.
#[unsafe(no_mangle)]
pub extern "C" fn fiber_cancel(fiber: u64) -> c_int {
    call(|| {
        find(fiber)?.joiner.fiber().cancel();
        Ok(0)
    })
}

/// Ends a fiber's park, or its next one.
#[unsafe(no_mangle)]
pub extern "C" fn fiber_unpark(fiber: u64) -> c_int {
    call(|| {
        find(fiber)?.joiner.fiber().unpark();
        Ok(0)
    })
}

/// Sleeps until unparked.
#[unsafe(no_mangle)]
pub extern "C" fn fiber_park(timeout_ns: i64) -> c_int {
    call(|| {
        let parked = match deadline(timeout_ns) {
            None => weft_fiber::park().map(|()| true),
            Some(deadline) => weft_fiber::park_until(deadline),
        };
        if parked.map_err(not_a_fiber)? { Ok(0) } else { Err(timed_out()) }
    })
}

/// Sleeps.
#[unsafe(no_mangle)]
pub extern "C" fn fiber_sleep(ns: u64) -> c_int {
    call(|| {
        weft_fiber::sleep(Duration::from_nanos(ns));
        Ok(0)
    })
}

/// Waits until so many wait for this fiber's end.
#[unsafe(no_mangle)]
pub extern "C" fn fiber_wait_for_joiners(joiners: usize) -> c_int {
    call(|| weft_fiber::wait_for_joiners(joiners).map(|()| 0).map_err(not_a_fiber))
}

/// The most bytes of a fiber's stack that were ever in use; -1 if there is no such fiber.
#[unsafe(no_mangle)]
pub extern "C" fn fiber_high_water(fiber: u64) -> libc::ssize_t {
    call(|| Ok(find(fiber)?.joiner.fiber().high_water().cast_signed()))
}

/// A function of C with its argument, called on workers.
pub(crate) struct Hook(extern "C" fn(usize, *mut c_void) -> usize, *mut c_void);

// SAFETY: whoever gives the hook says that every worker may call it.
unsafe impl Send for Hook {}
// SAFETY: as above.
unsafe impl Sync for Hook {}

impl Hook {
    fn call(&self, budget: usize) -> usize {
        self.0(budget, self.1)
    }
}

/// Has idle workers call `hook`.
///
/// # Safety
/// `hook` may be called with `argument` from any worker until the shutdown.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_set_poll(
    hook: Option<extern "C" fn(usize, *mut c_void) -> usize>,
    argument: *mut c_void,
) -> c_int {
    call(|| {
        let hook = hook.ok_or_else(|| Failure::new(libc::EFAULT, "the hook is NULL"))?;
        let hook = Hook(hook, argument);
        let running = running();
        let runtime = running.as_ref().and_then(|running| running.runtime.as_ref());
        let runtime = runtime.ok_or_else(|| Failure::new(libc::ESHUTDOWN, "call fiber_init first"))?;
        match runtime.set_poll_hook(move |budget| hook.call(budget)) {
            true => Ok(0),
            false => Err(Failure::new(libc::EALREADY, "there is a hook already, and the first one stays")),
        }
    })
}
