//! Where threads run.

use std::io;

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Keeps this thread, and those that it starts, on one core.
///
/// # Errors
/// There is no such core, or it is none of those that this process may run on.
pub fn stay_on(core: usize) -> io::Result<()> {
    let mut cores = CpuSet::new();
    let done = if core < CpuSet::MAX_CPU {
        cores.set(core);
        sched_setaffinity(None, &cores)
    } else {
        Err(Errno::INVAL)
    };
    done.map_err(|error| {
        let why = io::Error::from(error);
        io::Error::new(
            why.kind(),
            format!("core {core} is none to run on ({why}); `taskset -cp $$` lists those that are"),
        )
    })
}
