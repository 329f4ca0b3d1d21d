//! What is done once, by the first fiber or thread that needs it (`fiber.h`).
//!
//! The object lies in memory of the caller and begins as zeros, so that it can be a static: whoever comes first makes it.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use weft_fiber::OnceCell;

use crate::boundary::{Failure, call};
use crate::fiber_objects::FIBER_OBJECT_SIZE;

const FRESH: u64 = 0;
const BEING_MADE: u64 = 1;
const MADE: u64 = 0x6f6e_6365_5f5f_3031;

/// `struct fiber_once`.
#[derive(Debug)]
#[repr(C)]
pub struct FiberOnce {
    mark: AtomicU64,
    cell: std::mem::MaybeUninit<OnceCell<()>>,
}

const _: () = assert!(size_of::<FiberOnce>() <= FIBER_OBJECT_SIZE && align_of::<FiberOnce>() <= 8);

/// The cell of the object at `once`.
///
/// # Safety
/// `once` is NULL or a `struct fiber_once` that stays where it is, and was zeros before its first use.
unsafe fn cell<'a>(once: *mut FiberOnce) -> Result<&'a OnceCell<()>, Failure> {
    if once.is_null() || !once.is_aligned() {
        return Err(Failure::new(libc::EFAULT, "the object is NULL or not aligned to 8 bytes"));
    }
    // SAFETY: not NULL and aligned; the first word may be read whatever the bytes are.
    let mark = unsafe { &(*once).mark };
    let cell = once.wrapping_byte_add(std::mem::offset_of!(FiberOnce, cell)).cast::<OnceCell<()>>();
    loop {
        match mark.compare_exchange(FRESH, BEING_MADE, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => {
                // SAFETY: within the object, aligned, and the mark keeps all others away.
                unsafe { cell.write(OnceCell::new()) };
                mark.store(MADE, Ordering::Release);
            }
            // SAFETY: the mark says that it was written, and it stays where it is.
            Err(MADE) => return Ok(unsafe { &*cell }),
            Err(BEING_MADE) => std::hint::spin_loop(),
            Err(_) => return Err(Failure::invalid("the object did not begin as FIBER_ONCE_INIT")),
        }
    }
}

/// Calls `function` unless that has been done with this object; returns when it has returned. 1 if this call did it, else 0.
///
/// # Safety
/// `once` is NULL or a `struct fiber_once` as `FIBER_ONCE_INIT` made it; `function` may be called with `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_once(
    once: *mut FiberOnce,
    function: Option<extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
) -> c_int {
    call(|| {
        let function = function.ok_or_else(|| Failure::new(libc::EFAULT, "the function is NULL"))?;
        // SAFETY: the contract of this function.
        let cell = unsafe { cell(once) }?;
        let mut is_mine = false;
        cell.get_or_init(|| {
            is_mine = true;
            function(argument);
        });
        Ok(is_mine.into())
    })
}
