//! What the operating system has given this process.

use std::fs;

/// Descriptors, threads, and bytes of memory in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Census {
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
    pub(crate) resident_kib: usize,
}

impl Census {
    pub(crate) fn take() -> Self {
        let status = fs::read_to_string("/proc/self/status").expect("/proc");
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).expect("the field is there");
            line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number")
        };
        Self {
            // The directory that is read is open as well.
            descriptors: fs::read_dir("/proc/self/fd").expect("/proc").count() - 1,
            threads: field("Threads:"),
            resident_kib: field("VmRSS:"),
        }
    }
}

/// Whether this process has children that nobody waited for.
pub(crate) fn has_children() -> bool {
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) != -1 }
}
