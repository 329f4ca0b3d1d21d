//! What fibers in C wait for: mutex, semaphore, condition variable, barrier, words, functions (`fiber.h`).

use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicU64;

use weft_fiber::{Barrier, Condition, ConditionError, Condvar, Semaphore, shared};

use crate::boundary::{Failure, call};
use crate::fiber::{deadline, timed_out};
use crate::fiber_objects::{OwnedMutex, make, object};

/// Makes a mutex.
///
/// # Safety
/// `mutex` is NULL or a `struct fiber_mutex` that nobody uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_mutex_init(mutex: *mut c_void) -> c_int {
    // SAFETY: the contract of this function.
    unsafe { make(mutex, OwnedMutex::new()) }
}

/// Locks a mutex.
///
/// # Safety
/// `mutex` is NULL or a `struct fiber_mutex`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_mutex_lock(mutex: *mut c_void, timeout_ns: i64) -> c_int {
    // SAFETY: the contract of this function.
    call(|| unsafe { object::<OwnedMutex>(mutex) }?.lock(timeout_ns).map(|()| 0))
}

/// Unlocks a mutex.
///
/// # Safety
/// `mutex` is NULL or a `struct fiber_mutex`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_mutex_unlock(mutex: *mut c_void) -> c_int {
    // SAFETY: the contract of this function.
    call(|| unsafe { object::<OwnedMutex>(mutex) }?.guard().map(|_| 0))
}

/// Makes a semaphore.
///
/// # Safety
/// `semaphore` is NULL or a `struct fiber_sem` that nobody uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_sem_init(semaphore: *mut c_void, permits: usize) -> c_int {
    // SAFETY: the contract of this function.
    unsafe { make(semaphore, Semaphore::new(permits)) }
}

/// Takes a permit.
///
/// # Safety
/// `semaphore` is NULL or a `struct fiber_sem`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_sem_wait(semaphore: *mut c_void, timeout_ns: i64) -> c_int {
    call(|| {
        // SAFETY: the contract of this function.
        let semaphore = unsafe { object::<Semaphore>(semaphore) }?;
        match deadline(timeout_ns) {
            None => semaphore.wait(),
            Some(deadline) if semaphore.wait_until(deadline) => {}
            Some(_) => return Err(timed_out()),
        }
        Ok(0)
    })
}

/// Gives a permit.
///
/// # Safety
/// `semaphore` is NULL or a `struct fiber_sem`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_sem_post(semaphore: *mut c_void) -> c_int {
    call(|| {
        // SAFETY: the contract of this function.
        unsafe { object::<Semaphore>(semaphore) }?.post();
        Ok(0)
    })
}

/// Makes a condition variable.
///
/// # Safety
/// `condition` is NULL or a `struct fiber_cond` that nobody uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_cond_init(condition: *mut c_void) -> c_int {
    // SAFETY: the contract of this function.
    unsafe { make(condition, Condvar::new()) }
}

/// Unlocks the mutex, waits, and locks it again.
///
/// # Safety
/// `condition` is NULL or a `struct fiber_cond`, `mutex` NULL or a `struct fiber_mutex`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_cond_wait(
    condition: *mut c_void,
    mutex: *mut c_void,
    timeout_ns: i64,
) -> c_int {
    call(|| {
        // SAFETY: the contract of this function.
        let condition = unsafe { object::<Condvar>(condition) }?;
        // SAFETY: the contract of this function.
        let mutex = unsafe { object::<OwnedMutex>(mutex) }?;
        let guard = mutex.guard()?;
        let (guard, was_notified) = match deadline(timeout_ns) {
            None => (condition.wait(guard), true),
            Some(deadline) => condition.wait_until(guard, deadline),
        };
        mutex.keep(guard);
        if was_notified { Ok(0) } else { Err(timed_out()) }
    })
}

/// Lets one go who waits.
///
/// # Safety
/// `condition` is NULL or a `struct fiber_cond`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_cond_signal(condition: *mut c_void) -> c_int {
    call(|| {
        // SAFETY: the contract of this function.
        unsafe { object::<Condvar>(condition) }?.notify_one();
        Ok(0)
    })
}

/// Lets all go who wait.
///
/// # Safety
/// `condition` is NULL or a `struct fiber_cond`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_cond_broadcast(condition: *mut c_void) -> c_int {
    call(|| {
        // SAFETY: the contract of this function.
        unsafe { object::<Condvar>(condition) }?.notify_all();
        Ok(0)
    })
}

/// Makes a barrier.
///
/// # Safety
/// `barrier` is NULL or a `struct fiber_barrier` that nobody uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_barrier_init(barrier: *mut c_void, size: usize) -> c_int {
    // SAFETY: the contract of this function.
    unsafe { make(barrier, Barrier::new(size)) }
}

/// Waits for the others; 1 for the last that comes, 0 for the others.
///
/// # Safety
/// `barrier` is NULL or a `struct fiber_barrier`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_barrier_wait(barrier: *mut c_void) -> c_int {
    // SAFETY: the contract of this function.
    call(|| Ok(c_int::from(unsafe { object::<Barrier>(barrier) }?.wait())))
}

/// The word at `place`, which others may change at any time.
///
/// # Safety
/// `place` is NULL or a `uint64_t` that stays where it is for `'a`.
unsafe fn word<'a>(place: *const u64) -> Result<&'a AtomicU64, Failure> {
    if place.is_null() || !place.is_aligned() {
        return Err(Failure::new(libc::EFAULT, "the word is NULL or not aligned to 8 bytes"));
    }
    // SAFETY: not NULL and aligned, and an atomic has the layout of its word.
    Ok(unsafe { &*place.cast::<AtomicU64>() })
}

/// Comparisons of `fiber_wait_words`.
pub const FIBER_EQUAL: c_int = 0;
/// See [`FIBER_EQUAL`].
pub const FIBER_NOT_EQUAL: c_int = 1;
/// See [`FIBER_EQUAL`].
pub const FIBER_LESS: c_int = 2;
/// See [`FIBER_EQUAL`].
pub const FIBER_NOT_LESS: c_int = 3;

/// Waits until the comparison of two words holds.
///
/// # Safety
/// `left` and `right` are NULL or words that stay where they are during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_wait_words(
    left: *const u64,
    comparison: c_int,
    right: *const u64,
    timeout_ns: i64,
) -> c_int {
    call(|| {
        // SAFETY: the contract of this function.
        let left = unsafe { word(left) }?;
        // SAFETY: the contract of this function.
        let right = unsafe { word(right) }?;
        let condition = match comparison {
            FIBER_EQUAL => Condition::equal(left, right),
            FIBER_NOT_EQUAL => Condition::not_equal(left, right),
            FIBER_LESS => Condition::less(left, right),
            FIBER_NOT_LESS => Condition::not_less(left, right),
            other => {
                return Err(Failure::invalid(format!("{other} is no comparison; give one of FIBER_EQUAL …")));
            }
        };
        wait_until(|| condition.holds(), timeout_ns)
    })
}

/// Waits until `test` returns something else than 0.
///
/// # Safety
/// `test` may be called with `argument` from any worker until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_wait_until(
    test: Option<extern "C" fn(*mut c_void) -> c_int>,
    argument: *mut c_void,
    timeout_ns: i64,
) -> c_int {
    call(|| {
        let test = test.ok_or_else(|| Failure::new(libc::EFAULT, "the condition function is NULL"))?;
        wait_until(|| test(argument) != 0, timeout_ns)
    })
}

fn wait_until(test: impl FnMut() -> bool, timeout_ns: i64) -> Result<c_int, Failure> {
    let waited = match deadline(timeout_ns) {
        None => weft_fiber::wait_until(test),
        Some(deadline) => weft_fiber::wait_until_deadline(test, deadline),
    };
    match waited {
        Ok(()) => Ok(0),
        Err(ConditionError::TimedOut) => Err(timed_out()),
        Err(error) => Err(Failure::new(libc::EIO, error)),
    }
}

/// Locks a word that processes may share.
///
/// # Safety
/// `lock` is NULL or a word that stays where it is during the call, used by nothing but these two functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_word_lock(lock: *mut u64, timeout_ns: i64) -> c_int {
    call(|| {
        // SAFETY: the contract of this function.
        let lock = shared::Mutex::of(unsafe { word(lock) }?);
        match deadline(timeout_ns) {
            None => lock.lock(),
            Some(deadline) if lock.lock_until(deadline) => {}
            Some(_) => return Err(timed_out()),
        }
        Ok(0)
    })
}

/// Unlocks a word that processes may share.
///
/// # Safety
/// As for [`fiber_word_lock`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_word_unlock(lock: *mut u64) -> c_int {
    call(|| {
        // SAFETY: the contract of this function.
        let lock = shared::Mutex::of(unsafe { word(lock) }?);
        if lock.unlock() { Ok(0) } else { Err(Failure::new(libc::EPERM, "the word is not locked")) }
    })
}
