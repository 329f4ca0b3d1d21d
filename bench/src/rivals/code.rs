//! Straight code of a chosen length, to run at each end of a round trip between a receive and the send that answers it.
//!
//! It computes nothing. What a round trip takes longer with it is what a transport's instructions cost by their number and by
//! the room they take in the instruction cache, from which they drive out the kernel's.

use std::io;

/// Bytes of a line of the instruction cache.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;

/// So many lines of the instruction cache, each of eight instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Code {
    lines: usize,
}

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".balign 64",
    ".globl weft_bench_straight_code",
    "weft_bench_straight_code:",
    ".rept 8 * {lines}",
    ".byte 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0", // the one instruction of eight bytes that does nothing
    ".endr",
    "ret",
    lines = const Code::LINES_MAX,
);

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    /// The whole of it.
    safe fn weft_bench_straight_code();
}

impl Code {
    /// As much as there is.
    pub const LINES_MAX: usize = 1024;

    /// So many lines.
    ///
    /// # Errors
    /// More than [`Code::LINES_MAX`], or any on a processor other than x86-64.
    pub fn new(lines: usize) -> io::Result<Self> {
        let most = if cfg!(target_arch = "x86_64") { Self::LINES_MAX } else { 0 };
        if lines <= most {
            return Ok(Self { lines });
        }
        let why = format!(
            "{lines} lines of code are more than there are on this processor; ask for {most} at most"
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }

    /// How many lines these are.
    #[must_use]
    pub const fn lines(self) -> usize {
        self.lines
    }

    /// Runs them once.
    #[inline]
    pub fn run(self) {
        #[cfg(target_arch = "x86_64")]
        if self.lines > 0 {
            let skipped = (Self::LINES_MAX - self.lines) * LINE_BYTES;
            let whole: *const () = weft_bench_straight_code as *const ();
            // SAFETY: the code is straight, so each of its lines begins with an instruction, and behind the last it returns. It
            // takes and returns nothing.
            let rest: extern "C" fn() = unsafe { std::mem::transmute(whole.wrapping_byte_add(skipped)) };
            rest();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn any_part_of_it_runs_and_returns() {
        for lines in [0, 1, 2, 100, Code::LINES_MAX] {
            Code::new(lines).unwrap().run();
        }
        let error = Code::new(Code::LINES_MAX + 1).unwrap_err();
        assert!(error.to_string().starts_with("1025 lines of code are more than there are"));
    }
}
