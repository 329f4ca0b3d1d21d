//! A runtime's options.

use std::fmt;

use crate::error::BuildError;
use crate::runtime::Runtime;

/// Makes progress of at most the given budget, and says how much.
pub(crate) type Hook = Box<dyn Fn(usize) -> usize + Send + Sync>;

/// The bytes of a stack unless told otherwise. Only what is touched takes memory.
const STACK_SIZE: usize = 56 << 10;
/// Fibers that may live at once unless told otherwise.
const FIBER_LIMIT: usize = 1 << 20;
/// Workers of one runtime at most; a fiber's number has room for them.
const WORKERS_MAX: usize = 1024;
/// Looks of an idle worker before it sleeps, unless told otherwise.
const SPINS: u32 = 200;

/// Options of a [`Runtime`], from [`Runtime::builder`].
#[derive(Clone)]
pub struct Config {
    pub(crate) workers: usize,
    pub(crate) stack_size: usize,
    pub(crate) fiber_limit: usize,
    pub(crate) spins: u32,
    pub(crate) on_deadlock: fn(&crate::Deadlock),
}

impl Default for Config {
    fn default() -> Self {
        Self {
            workers: 1,
            stack_size: STACK_SIZE,
            fiber_limit: FIBER_LIMIT,
            spins: SPINS,
            on_deadlock: |deadlock| eprintln!("{deadlock}"),
        }
    }
}

impl Config {
    /// The number of workers, each an OS thread. 1 by default.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// The bytes of a fiber's stack, rounded up to whole pages; 56 KiB by default, 8 KiB at least. A page and the control
    /// block come on top.
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// How many fibers may live at once; 2^20 by default. With several workers, each of the others may hold a reserve of up
    /// to 1,024 of them, so the limit can be met so much earlier.
    #[must_use]
    pub fn fiber_limit(mut self, fibers: usize) -> Self {
        self.fiber_limit = fibers;
        self
    }

    /// How often an idle worker looks around before it sleeps; 200 by default, and once at least. `u32::MAX` is for ever, nearly.
    #[must_use]
    pub fn spins(mut self, looks: u32) -> Self {
        self.spins = looks.max(1);
        self
    }

    /// What to do when all fibers have waited for each other for a while: by default the report is printed to the
    /// standard error. A thread that is no worker may still wake them; so it is a report and not the end.
    #[must_use]
    pub fn on_deadlock(mut self, report: fn(&crate::Deadlock)) -> Self {
        self.on_deadlock = report;
        self
    }

    /// Starts the runtime.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if an option cannot be, or the system refuses a thread.
    pub fn build(self) -> Result<Runtime, BuildError> {
        let limits = [
            ("workers", self.workers, 1..=WORKERS_MAX, "1 to 1024"),
            ("stack_size", self.stack_size, 1..=1 << 40, "1 byte to 1 TiB"),
            ("fiber_limit", self.fiber_limit, 1..=1 << 40, "1 to 2^40"),
        ];
        for (name, value, range, accepted) in limits {
            if !range.contains(&value) {
                return Err(BuildError::Option { name, value, accepted });
            }
        }
        Runtime::start(&self)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Config");
        shown.field("workers", &self.workers).field("stack_size", &self.stack_size);
        shown.field("fiber_limit", &self.fiber_limit).field("spins", &self.spins).finish_non_exhaustive()
    }
}
