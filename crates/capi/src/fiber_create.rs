//! Making a fiber from a function of C and its arguments (`fiber_create` of `fiber.h`).

use std::ffi::{c_char, c_int, c_void};

use weft_fiber::Spawn;

use crate::boundary::{self, Failure, call};
use crate::fiber::{Entry, Leaves, fibers, handle};

/// Arguments of a fiber's function at most.
pub const FIBER_ARGS_MAX: usize = 16;
/// Flag of `fiber_attr`: its result is nobody's.
pub const FIBER_DETACHED: u32 = 1;
/// Flag of `fiber_attr`: any worker may run it at any time.
pub const FIBER_ROAMS: u32 = 2;

/// `struct fiber_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FiberAttr {
    /// Its own size, so that it can grow.
    pub size: u32,
    /// `FIBER_DETACHED` and `FIBER_ROAMS`, or 0.
    pub flags: u32,
    /// Its name, or NULL.
    pub name: *const c_char,
    /// Bytes of its stack; 0 is that of the runtime.
    pub stack_size: usize,
    /// The worker it is bound to, counted from 0; -1 for none.
    pub worker: c_int,
    /// Zero.
    pub reserved: c_int,
}

/// A function of C and its arguments.
struct Task {
    function: *const c_void,
    count: usize,
    args: [isize; FIBER_ARGS_MAX],
}

// SAFETY: whoever gives the function and its arguments says that another thread may use them.
unsafe impl Send for Task {}

/// Calls a function of C with as many arguments as were given.
macro_rules! call_with {
    ($task:expr, $($count:literal: ($($at:literal),*)),+) => {
        match $task.count {
            $($count => {
                type Function = extern "C-unwind" fn($(call_with!(@type $at)),*) -> isize;
                // SAFETY: the function takes that many integers or pointers, says who gave it.
                let function: Function = unsafe { std::mem::transmute($task.function) };
                function($($task.args[$at]),*)
            })+
            _ => 0,
        }
    };
    (@type $at:literal) => { isize };
}

impl Task {
    fn run(&self) -> isize {
        call_with!(self,
            0: (), 1: (0), 2: (0, 1), 3: (0, 1, 2), 4: (0, 1, 2, 3), 5: (0, 1, 2, 3, 4), 6: (0, 1, 2, 3, 4, 5),
            7: (0, 1, 2, 3, 4, 5, 6), 8: (0, 1, 2, 3, 4, 5, 6, 7), 9: (0, 1, 2, 3, 4, 5, 6, 7, 8),
            10: (0, 1, 2, 3, 4, 5, 6, 7, 8, 9), 11: (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
            12: (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), 13: (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
            14: (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13),
            15: (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14),
            16: (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
    }
}

/// Makes a fiber that calls `function` with `count` arguments.
///
/// # Safety
/// `function` takes `count` integers or pointers and returns one; `args` points to so many; `attr` is NULL or points to a
/// `struct fiber_attr`; `fiber` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fiber_create_array(
    fiber: *mut u64,
    attr: *const FiberAttr,
    function: *const c_void,
    count: usize,
    args: *const isize,
) -> c_int {
    call(|| {
        if count > FIBER_ARGS_MAX {
            return Err(Failure::invalid(format!("{count} arguments are more than {FIBER_ARGS_MAX}")));
        }
        if function.is_null() || count > 0 && args.is_null() {
            return Err(Failure::new(libc::EFAULT, "the function or its arguments are NULL"));
        }
        let mut task = Task { function, count, args: [0; FIBER_ARGS_MAX] };
        if count > 0 {
            // SAFETY: not NULL, and `count` values are readable by the contract of this function.
            task.args[..count].copy_from_slice(unsafe { std::slice::from_raw_parts(args, count) });
        }
        // SAFETY: the contract of this function.
        let id = unsafe { spawn(attr, task) }?;
        if fiber.is_null() {
            return Ok(0);
        }
        // SAFETY: the contract of this function.
        unsafe { boundary::write(fiber, id) }?;
        Ok(0)
    })
}

/// Spawns a fiber for `task` and puts it into the table.
///
/// # Safety
/// `attr` is NULL or points to a `struct fiber_attr`.
unsafe fn spawn(attr: *const FiberAttr, task: Task) -> Result<u64, Failure> {
    let mut options = Spawn::new();
    if !attr.is_null() {
        // SAFETY: the contract of this function.
        let attr = unsafe { boundary::read(attr) }?;
        if attr.size as usize != size_of::<FiberAttr>() || attr.flags & !(FIBER_DETACHED | FIBER_ROAMS) != 0 {
            return Err(Failure::invalid(
                "size or flags are not those of struct fiber_attr; use FIBER_ATTR_INIT",
            ));
        }
        if !attr.name.is_null() {
            // SAFETY: a text by the contract of `fiber_create_array`.
            options = options.name(unsafe { boundary::text(attr.name) }?);
        }
        if attr.stack_size != 0 {
            options = options.stack_size(attr.stack_size);
        }
        if let Ok(worker) = usize::try_from(attr.worker) {
            options = options.bind(worker);
        }
        if attr.flags & FIBER_DETACHED != 0 {
            options = options.detached();
        }
        if attr.flags & FIBER_ROAMS != 0 {
            // SAFETY: whoever gives the flag says that the function keeps nothing of its thread across a switch.
            options = unsafe { options.roaming() };
        }
    }
    // The table is locked until the fiber is in it, so that it cannot end before it is there.
    let handle = handle()?;
    let mut table = fibers();
    let leaves = Leaves::new();
    let body = move || {
        let _leaves = leaves;
        task.run()
    };
    let joiner = options.spawn_on(&handle, body)?.share();
    let id = joiner.fiber().id();
    table.insert(id, Entry::new(joiner));
    Ok(id)
}
