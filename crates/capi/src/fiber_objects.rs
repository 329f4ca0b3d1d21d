//! The objects that fibers in C wait for: opaque, in memory of the caller, with a mark that `_init` writes. One without it is EINVAL.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use weft_fiber::{Barrier, Condvar, Fiber, Mutex, MutexGuard, Semaphore};

use crate::boundary::{Failure, call};
use crate::fiber::{deadline, timed_out};

/// Bytes of an opaque object.
pub const FIBER_OBJECT_SIZE: usize = 64;

/// An object in memory of the caller.
#[derive(Debug)]
#[repr(C)]
struct Marked<T> {
    mark: AtomicU64,
    value: T,
}

/// The kinds of object, each with its mark.
pub(crate) trait Object {
    const MARK: u64;
}

/// A mutex that knows its holder.
pub(crate) struct OwnedMutex {
    mutex: Mutex<()>,
    owner: AtomicU64,
}

impl Object for OwnedMutex {
    const MARK: u64 = 0x6d75_7465_7820_3031;
}
impl Object for Semaphore {
    const MARK: u64 = 0x7365_6d61_7068_3031;
}
impl Object for Condvar {
    const MARK: u64 = 0x636f_6e64_7661_3031;
}
impl Object for Barrier {
    const MARK: u64 = 0x6261_7272_6965_3031;
}

/// Makes an object at `place`.
///
/// # Safety
/// `place` is NULL or `FIBER_OBJECT_SIZE` writable bytes, aligned for a `uint64_t`, that nobody uses as an object.
pub(crate) unsafe fn make<T: Object>(place: *mut c_void, value: T) -> c_int {
    const { assert!(size_of::<Marked<T>>() <= FIBER_OBJECT_SIZE) };
    call(|| {
        if place.is_null() || !place.cast::<Marked<T>>().is_aligned() {
            return Err(Failure::new(libc::EFAULT, "the object is NULL or not aligned to 8 bytes"));
        }
        // SAFETY: not NULL, aligned, large enough, and nobody else's by the contract of this function.
        unsafe { place.cast::<Marked<T>>().write(Marked { mark: AtomicU64::new(T::MARK), value }) };
        Ok(0)
    })
}

/// The object at `place`.
///
/// # Safety
/// `place` is NULL or `FIBER_OBJECT_SIZE` readable bytes that stay where they are during the call.
pub(crate) unsafe fn object<'a, T: Object>(place: *const c_void) -> Result<&'a T, Failure> {
    let place = place.cast::<Marked<T>>();
    if place.is_null() || !place.is_aligned() {
        return Err(Failure::new(libc::EFAULT, "the object is NULL or not aligned to 8 bytes"));
    }
    // SAFETY: not NULL and aligned; the first word may be read whatever the bytes are.
    let mark = unsafe { &*place.cast::<AtomicU64>() };
    if mark.load(Ordering::Acquire) != T::MARK {
        return Err(Failure::invalid(
            "the object is not of this kind, or was never initialised; call its _init",
        ));
    }
    // SAFETY: the mark says that `make` wrote this object.
    Ok(unsafe { &(*place).value })
}

/// Who holds a mutex: the fiber's number, or a thread's with a bit that no fiber has.
fn holder() -> u64 {
    std::thread_local!(static THREAD: u8 = const { 0 });
    Fiber::current()
        .map_or_else(|| THREAD.with(|it| std::ptr::from_ref(it).addr() as u64) | 1 << 63, |it| it.id())
}

impl OwnedMutex {
    pub(crate) fn new() -> Self {
        Self { mutex: Mutex::new(()), owner: AtomicU64::new(0) }
    }

    pub(crate) fn lock(&self, timeout_ns: i64) -> Result<(), Failure> {
        if self.owner.load(Ordering::Relaxed) == holder() {
            return Err(Failure::new(libc::EDEADLK, "the caller holds this mutex already; unlock it first"));
        }
        let guard = match deadline(timeout_ns) {
            None => Some(self.mutex.lock()),
            Some(deadline) => self.mutex.lock_until(deadline),
        };
        self.keep(guard.ok_or_else(timed_out)?);
        Ok(())
    }

    /// The caller has locked the mutex, and holds it until [`OwnedMutex::guard`].
    pub(crate) fn keep(&self, guard: MutexGuard<'_, ()>) {
        std::mem::forget(guard);
        self.owner.store(holder(), Ordering::Relaxed);
    }

    /// The guard that was kept.
    pub(crate) fn guard(&self) -> Result<MutexGuard<'_, ()>, Failure> {
        if self.owner.load(Ordering::Relaxed) != holder() {
            return Err(Failure::new(
                libc::EPERM,
                "the caller does not hold this mutex; its holder unlocks it",
            ));
        }
        self.owner.store(0, Ordering::Relaxed);
        // SAFETY: the owner is the caller, who has locked it; the guard was forgotten there.
        Ok(unsafe { self.mutex.make_guard() })
    }
}
