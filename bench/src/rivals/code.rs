//! Straight code of a chosen length, to run at each end of a round trip before the send that answers a receive, and behind it.
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
    before: usize,
    behind: usize,
}

/// [`Code::LINES_MAX`] lines under this name, and a return behind them.
#[cfg(target_arch = "x86_64")]
macro_rules! straight_code {
    ($name:literal) => {
        std::arch::global_asm!(
            ".balign 64",
            concat!(".globl ", $name),
            concat!($name, ":"),
            ".rept 8 * {lines}",
            ".byte 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0", // the one instruction of eight bytes that does nothing
            ".endr",
            "ret",
            lines = const Code::LINES_MAX,
        );
    };
}

#[cfg(target_arch = "x86_64")]
straight_code!("weft_bench_code_before");
#[cfg(target_arch = "x86_64")]
straight_code!("weft_bench_code_behind");

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    safe fn weft_bench_code_before();
    safe fn weft_bench_code_behind();
}

impl Code {
    /// As much as there is of either.
    pub const LINES_MAX: usize = 1024;

    /// So many lines before each send, and so many others behind it.
    ///
    /// # Errors
    /// More than [`Code::LINES_MAX`] of either, or any on a processor other than x86-64.
    pub fn new(before: usize, behind: usize) -> io::Result<Self> {
        let most = if cfg!(target_arch = "x86_64") { Self::LINES_MAX } else { 0 };
        let lines = before.max(behind);
        if lines <= most {
            return Ok(Self { before, behind });
        }
        let why = format!(
            "{lines} lines of code are more than there are on this processor; ask for {most} at most"
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }

    /// How many lines run before each send.
    #[must_use]
    pub const fn before(self) -> usize {
        self.before
    }

    /// How many run behind it.
    #[must_use]
    pub const fn behind(self) -> usize {
        self.behind
    }

    /// Runs those of before a send once.
    #[inline]
    pub fn run_before(self) {
        #[cfg(target_arch = "x86_64")]
        run_last(weft_bench_code_before as *const (), self.before);
    }

    /// Runs those of behind it once.
    #[inline]
    pub fn run_behind(self) {
        #[cfg(target_arch = "x86_64")]
        run_last(weft_bench_code_behind as *const (), self.behind);
    }
}

/// Runs the last lines of one of the two.
#[cfg(target_arch = "x86_64")]
#[inline]
fn run_last(whole: *const (), lines: usize) {
    if lines > 0 {
        let skipped = (Code::LINES_MAX - lines) * LINE_BYTES;
        // SAFETY: the code is straight, so each of its lines begins with an instruction, and behind the last it returns. It
        // takes and returns nothing.
        let rest: extern "C" fn() = unsafe { std::mem::transmute(whole.wrapping_byte_add(skipped)) };
        rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn any_part_of_it_runs_and_returns() {
        for lines in [0, 1, 2, 100, Code::LINES_MAX] {
            let code = Code::new(lines, Code::LINES_MAX - lines).unwrap();
            code.run_before();
            code.run_behind();
        }
        for (before, behind) in [(Code::LINES_MAX + 1, 0), (0, Code::LINES_MAX + 1)] {
            let error = Code::new(before, behind).unwrap_err();
            assert!(error.to_string().starts_with("1025 lines of code are more than there are"));
        }
    }
}
