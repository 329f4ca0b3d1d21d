//! The frames of a fiber that has left its stack.
//!
//! An unwinder starts where it is called, and finds the caller of each function in the tables of the compiler. [`bridge`] runs on
//! the stack of who asks, and its table, written by hand, names the fiber as its caller: the fiber's registers are where the
//! switch left them, and with these taken from its stack it stands at the place where the switch will have it go on. There
//! the compiler's tables are right. Of the fiber's stack nothing is written.
//!
//! ```text
//! high  | frames of the fiber
//!       | rbp
//!       | rbx
//!       | where to go on ◄── where the fiber was left
//! ```

use std::arch::naked_asm;
use std::ffi::c_void;

use crate::stack::Region;

/// The unwinder's findings.
struct Walker<'a> {
    region: Region,
    returns: &'a mut Vec<usize>,
}

/// Puts the places where the calls on a fiber's stack will return to into `returns`, innermost first, as many as there is room
/// for.
///
/// # Safety
///
/// `left_at` is where the fiber of `region` was left by the switch, and nobody resumes it meanwhile.
pub(super) unsafe fn walk(left_at: *const usize, region: Region, returns: &mut Vec<usize>) {
    let mut walker = Walker { region, returns };
    // SAFETY: the caller's promise; the walker outlives the call.
    unsafe { bridge(left_at, look, (&raw mut walker).cast()) };
}

/// Calls `look` with `walker`, as if the fiber did that was left at `left_at`.
///
/// # Safety
///
/// `left_at` is where a fiber was left that nobody resumes, and `look` returns.
#[unsafe(naked)]
unsafe extern "C" fn bridge(
    left_at: *const usize,
    look: unsafe extern "C" fn(*mut c_void),
    walker: *mut c_void,
) {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        ".cfi_remember_state",
        "mov rbp, rdi",
        ".cfi_def_cfa rbp, 24",
        ".cfi_offset rip, -24",
        ".cfi_offset rbx, -16",
        ".cfi_offset rbp, -8",
        "mov rdi, rdx",
        "call rsi",
        "pop rbp",
        ".cfi_restore_state",
        ".cfi_def_cfa rsp, 8",
        ".cfi_restore rbp",
        "ret",
        ".cfi_endproc",
    );
}

/// Asks the unwinder for its callers, and keeps those on the fiber's stack. It neither allocates nor panics.
unsafe extern "C" fn look(walker: *mut c_void) {
    // SAFETY: the walker is that of `walk`, which waits for this.
    let walker = unsafe { &mut *walker.cast::<Walker<'_>>() };
    let (low, high) = walker.region.bounds();
    let keep = |frame: &backtrace::Frame| {
        let is_on_fiber = (low..high).contains(&frame.sp().addr());
        let has_room = walker.returns.len() < walker.returns.capacity();
        if is_on_fiber && has_room {
            walker.returns.push(frame.ip().addr());
        }
        has_room && (is_on_fiber || walker.returns.is_empty())
    };
    // SAFETY: unwinding needs no lock here; it is the search for symbols that does.
    unsafe { backtrace::trace_unsynchronized(keep) };
}
