//! Storage of its own for each fiber, by keys (`fiber.h`).

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use weft_fiber::{FiberLocal, NotAFiber};

use crate::boundary::{self, Failure, Returned, call};

/// Keys of a process at most.
pub const FIBER_KEYS_MAX: usize = 1024;

type Destructor = extern "C" fn(*mut c_void);

/// What is done with the values of each key when their fiber ends.
static KEYS: Mutex<Vec<Option<Destructor>>> = Mutex::new(Vec::new());
static VALUES: FiberLocal<RefCell<Values>> = FiberLocal::new(|| RefCell::new(Values(Vec::new())));

/// A fiber's values, by key.
struct Values(Vec<*mut c_void>);

impl Drop for Values {
    fn drop(&mut self) {
        for (key, value) in self.0.drain(..).enumerate().filter(|(_, value)| !value.is_null()) {
            let destructor = keys().get(key).copied().flatten();
            if let Some(destructor) = destructor {
                destructor(value);
            }
        }
    }
}

impl Returned for *mut c_void {
    const FAILED: Self = std::ptr::null_mut();
}

fn keys() -> MutexGuard<'static, Vec<Option<Destructor>>> {
    KEYS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The index of a key that was made.
fn index_of(key: u32) -> Result<usize, Failure> {
    let index = usize::try_from(key).unwrap_or(0).checked_sub(1).filter(|&index| index < keys().len());
    index.ok_or_else(|| Failure::invalid(format!("{key} is no key; make one by fiber_key_create")))
}

fn with_values<R>(use_them: impl FnOnce(&mut Vec<*mut c_void>) -> R) -> Result<R, Failure> {
    let used = VALUES.with(|values| use_them(&mut values.borrow_mut().0));
    used.map_err(|error: NotAFiber| Failure::new(libc::EPERM, error))
}

/// Makes a key, under which each fiber may keep a value.
///
/// # Safety
/// `key` is NULL or writable; `destructor` may be called with any value that is kept under the key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_key_create(key: *mut u32, destructor: Option<Destructor>) -> c_int {
    call(|| {
        // A NULL must show before a key is spent.
        // SAFETY: the contract of this function.
        unsafe { boundary::write(key, 0) }?;
        let mut keys = keys();
        if keys.len() >= FIBER_KEYS_MAX {
            let sentence = format!("{FIBER_KEYS_MAX} keys are made, which is the limit; share them");
            return Err(Failure { errno: libc::EAGAIN, sentence });
        }
        keys.push(destructor);
        // SAFETY: the contract of this function.
        unsafe { boundary::write(key, u32::try_from(keys.len()).unwrap_or(0)) }?;
        Ok(0)
    })
}

/// Keeps a value of the fiber that runs.
#[unsafe(no_mangle)]
pub extern "C" fn fiber_key_set(key: u32, value: *mut c_void) -> c_int {
    call(|| {
        let index = index_of(key)?;
        with_values(|values| {
            if values.len() <= index {
                values.resize(index + 1, std::ptr::null_mut());
            }
            values[index] = value;
            0
        })
    })
}

/// The value that the fiber that runs keeps.
#[unsafe(no_mangle)]
pub extern "C" fn fiber_key_get(key: u32) -> *mut c_void {
    call(|| {
        let index = index_of(key)?;
        with_values(|values| values.get(index).copied().unwrap_or(std::ptr::null_mut()))
    })
}
