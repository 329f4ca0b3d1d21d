//! The switch on x86-64: eleven instructions one way.
//!
//! Who leaves a stack pushes rbp, rbx and where to go on, and keeps the stack pointer; all other registers are given up, so
//! the compiler saves those that hold something, and no more. Who comes back pops the place and jumps there. It is a jump and
//! no return: a return would have the processor foresee the caller of the *other* stack, and be wrong each time.
//!
//! ```text
//! high  | 0 | where an unwinder finds no caller, and stops
//!       | entry | a context that never ran ◄── stack pointer
//! ```

use std::arch::asm;
use std::cell::Cell;
use std::ptr::{self, NonNull};

use super::{Command, walk};
use crate::block::Block;
use crate::frames::NoFrames;
use crate::shell;
use crate::stack::Region;

/// The bytes at the top of a stack that never ran.
const ENTRY: usize = 2 * size_of::<usize>();

/// Where the two sides of a fiber go on; each is right while the other one runs.
pub(crate) struct Context {
    fiber: Cell<*mut usize>,
    worker: Cell<*mut usize>,
}

impl Context {
    /// A context that runs the shell of `block` at the top of `region`.
    pub(crate) fn new(region: Region, _block: NonNull<Block>) -> Self {
        let (_, top) = region.bounds();
        let top = ptr::with_exposed_provenance_mut::<usize>(top);
        // SAFETY: the region has more than two words.
        let fiber = unsafe { top.sub(2) };
        // SAFETY: the words are the region's highest, which nobody uses yet.
        unsafe { fiber.write(enter as *const () as usize) };
        // SAFETY: as above.
        let caller = unsafe { fiber.add(1) };
        // SAFETY: as above.
        unsafe { caller.write(0) };
        Self { fiber: Cell::new(fiber), worker: Cell::new(ptr::null_mut()) }
    }

    /// Where the fiber's stack ended when it was last left, as anybody may ask.
    pub(crate) fn left_at(&self) -> Option<usize> {
        // SAFETY: the cell is read whole; what a switch writes meanwhile makes the answer older, not the read wrong.
        let fiber = unsafe { self.fiber.as_ptr().read_volatile() };
        Some(fiber.addr())
    }

    /// Puts the places where the calls on its stack return to into the room that `returns` has, innermost first.
    ///
    /// # Safety
    ///
    /// The fiber has left its stack, which is that of `region`, and nobody resumes it meanwhile.
    pub(crate) unsafe fn walk(&self, region: Region, returns: &mut Vec<usize>) -> Result<(), NoFrames> {
        let left_at = self.fiber.get();
        let (low, high) = region.bounds();
        if !(low..high - ENTRY).contains(&left_at.addr()) {
            return Err(NoFrames::NotStarted);
        }
        // SAFETY: the caller's promise; a fiber that has run was left by `switch`.
        unsafe { walk::walk(left_at, region, returns) };
        Ok(())
    }

    /// Runs the fiber until it leaves its stack.
    ///
    /// # Safety
    ///
    /// `block` is the one this context was made with; it is the caller's, and not running.
    #[inline(always)]
    pub(crate) unsafe fn resume(&self, block: &Block) -> Command {
        // SAFETY: the fiber's side is where it left, or the entry.
        let command = unsafe { switch(self.worker.as_ptr(), self.fiber.get(), ptr::from_ref(block).addr()) };
        match command {
            0 => Command::Yield,
            1 => Command::Park,
            2 => Command::Exit,
            _ => Command::Overflow,
        }
    }

    /// Leaves the fiber's stack; returns when the fiber is run again.
    ///
    /// # Safety
    ///
    /// The caller is the fiber of this context.
    #[inline(always)]
    pub(crate) unsafe fn suspend(&self, command: Command) {
        // SAFETY: the worker's side is where it resumed this fiber.
        unsafe { switch(self.fiber.as_ptr(), self.worker.get(), command as usize) };
    }
}

/// Goes on at `to`, which is given `value`; returns what the one is given who comes back, by the place left in `from`.
///
/// # Safety
///
/// `to` was left by this function, or is a context that never ran, and is used once.
#[inline(always)]
unsafe fn switch(from: *mut *mut usize, to: *mut usize, value: usize) -> usize {
    let given;
    // SAFETY: what is pushed is popped by who comes back; everything else is declared as lost.
    unsafe {
        asm!(
            "push rbp",
            "push rbx",
            "lea rax, [rip + 2f]",
            "push rax",
            "mov [rdx], rsp",
            "mov rsp, rsi",
            "pop rax",
            "jmp rax",
            "2:",
            "pop rbx",
            "pop rbp",
            inlateout("rdi") value => given,
            in("rsi") to,
            in("rdx") from,
            lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
            clobber_abi("sysv64"),
        );
    }
    given
}

/// The first that runs on a fiber's stack, as if called from nowhere; who resumes passes the block.
extern "C" fn enter(block: &Block) -> ! {
    shell::run(block)
}

#[cfg(test)]
mod tests {
    use std::backtrace::Backtrace;

    #[test]
    fn an_unwinder_stops_at_the_first_function_of_a_fiber() {
        let trace = crate::run(|| Backtrace::force_capture().to_string()).expect("a trace");
        assert!(trace.contains("switch::native::enter"), "{trace}");
        assert!(!trace.contains("Worker::run"), "{trace}");
    }
}
