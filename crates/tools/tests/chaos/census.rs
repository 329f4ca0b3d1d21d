//! What the operating system has given a process.

use std::fs;

/// Descriptors, threads, and bytes of memory in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Census {
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
    pub(crate) resident_kib: usize,
}

impl Census {
    /// Of this process.
    pub(crate) fn take() -> Self {
        let own = Self::of(std::process::id());
        // The directory that is read is open as well.
        Self { descriptors: own.descriptors - 1, ..own }
    }

    /// Of a child.
    pub(crate) fn of(process: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{process}/status")).expect("/proc");
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).expect("the field is there");
            line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number")
        };
        Self {
            descriptors: fs::read_dir(format!("/proc/{process}/fd")).expect("/proc").count(),
            threads: field("Threads:"),
            resident_kib: field("VmRSS:"),
        }
    }

    /// What is left of what a process held `before`: KiB of memory that it has grown by, if it is no more than that and at
    /// most `links` descriptors. A link keeps a second descriptor once single packets went to and fro.
    pub(crate) fn growth_since(self, before: Self, links: usize) -> Result<usize, String> {
        let growth = self.resident_kib.saturating_sub(before.resident_kib);
        let is_settled = self.descriptors <= before.descriptors + links && self.threads == before.threads;
        if is_settled && growth <= GROWTH_KIB {
            return Ok(growth);
        }
        Err(format!("{before:?} at first, {self:?} in the end"))
    }
}

/// What memory may grow by.
const GROWTH_KIB: usize = 8 << 10;

/// The children of this process, also those that ended and that nobody waited for.
pub(crate) fn children() -> Vec<u32> {
    let own = std::process::id();
    let parent = |process: u32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name before it may hold anything, but this is its last parenthesis.
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let processes = fs::read_dir("/proc").expect("/proc");
    let mut children: Vec<u32> = processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|process| parent(*process) == Some(own))
        .collect();
    children.sort_unstable();
    children
}
