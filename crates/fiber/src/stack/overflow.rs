//! A fiber that comes to the end of its stack is ended; the process goes on.
//!
//! The access to the guard page faults. The handler, on the thread's signal stack, sees that the address is in the guard of
//! the fiber that runs, and has the thread continue in [`leave`], on a small stack of the worker. That leaves the fiber for
//! good, as if it had parked for ever: nothing on its stack is dropped or used again, which is what Rust calls a leak, and
//! its region is never given to another fiber, since something may have been borrowed from it. Every other fault goes to
//! the handler that was there before.

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr;
use std::sync::OnceLock;

use crate::switch::Command;
use crate::worker;

/// Bytes of the stack on which a worker leaves a fiber, and of a signal stack.
const SMALL_STACK: usize = 64 * 1024;

thread_local! {
    /// The upper end of the stack to leave fibers on.
    static EXIT_STACK: Cell<usize> = const { Cell::new(0) };
}

static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Has faults of this process come here first. Once is enough.
pub(crate) fn install() {
    PREVIOUS.get_or_init(|| {
        // SAFETY: all bits zero are a value of this type.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: as above.
        let mut previous: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: both point to values of ours; the handler calls only what a handler may.
        unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, &raw mut previous) };
        previous
    });
}

/// Runs a worker's body with a stack for signals and one to leave fibers on.
pub(crate) fn with_signal_stack(body: impl FnOnce()) {
    // In words of 16 bytes, so that the ends are aligned as stacks are.
    let mut stacks = vec![0_u128; 2 * SMALL_STACK / 16];
    let (signal_stack, exit_stack) = stacks.split_at_mut(SMALL_STACK / 16);
    let new = libc::stack_t { ss_sp: signal_stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: SMALL_STACK };
    // SAFETY: all bits zero are a value of this type.
    let mut old: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: the memory lives until the old stack is back in place.
    unsafe { libc::sigaltstack(&raw const new, &raw mut old) };
    EXIT_STACK.set(exit_stack.as_mut_ptr_range().end.expose_provenance());
    body();
    EXIT_STACK.set(0);
    // SAFETY: the old stack is the one the system gave.
    unsafe { libc::sigaltstack(&raw const old, ptr::null_mut()) };
}

/// Whether the fault at `address` is the end of the stack of the fiber that runs, which can be left.
fn is_overflow(address: usize) -> bool {
    let Some(block) = worker::current_block() else { return false };
    // SAFETY: the fiber that runs lives.
    let in_guard = unsafe { block.as_ref() }.region.guards(address);
    // A thread counts its panics: to leave a fiber that unwinds would leave the count too high.
    in_guard && EXIT_STACK.get() != 0 && !std::thread::panicking()
}

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid information block for this signal.
    let info_block = unsafe { &*info };
    // SAFETY: a fault has an address.
    let address = unsafe { info_block.si_addr() }.addr();
    if is_overflow(address) && redirect(context) {
        return;
    }
    pass_on(signal, info, context);
}

/// Has the thread continue in [`leave`], on the worker's small stack.
#[cfg(target_arch = "x86_64")]
#[allow(clippy::cast_sign_loss)] // indices of registers
fn redirect(context: *mut libc::c_void) -> bool {
    // SAFETY: the kernel passes the context of the thread that faulted, to read and write.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    // As after a call: the return address would be below an aligned end.
    registers[libc::REG_RSP as usize] = (EXIT_STACK.get() - 8).cast_signed() as i64;
    registers[libc::REG_RIP as usize] = (leave as *const () as usize).cast_signed() as i64;
    true
}

#[cfg(not(target_arch = "x86_64"))]
fn redirect(_context: *mut libc::c_void) -> bool {
    false
}

/// Leaves the fiber that runs, for good.
#[cfg(target_arch = "x86_64")]
extern "C" fn leave() -> ! {
    if let Some(block) = worker::current_block() {
        // SAFETY: the fiber lives; its stack is left as it is.
        unsafe { block.as_ref() }.suspend(Command::Overflow);
    }
    std::process::abort();
}

/// Gives the fault to whoever handled faults before.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let previous = PREVIOUS.get().filter(|previous| previous.sa_sigaction != libc::SIG_IGN);
    match previous.map(|previous| (previous.sa_sigaction, previous.sa_flags & libc::SA_SIGINFO != 0)) {
        None | Some((libc::SIG_DFL, _)) => {
            // The access is repeated when this returns, and then ends the process as it would have.
            // SAFETY: the default action is one.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Some((handler, true)) => {
            type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: it was installed as a handler of this kind.
            let handler: Handler = unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        Some((handler, false)) => {
            // SAFETY: it was installed as a handler of this kind.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
