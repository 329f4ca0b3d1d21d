//! PMI-1, the line protocol of MPICH's Hydra, which Slurm's `pmi2` understands too.
//!
//! A process has a stream to its launcher, handed down (`PMI_FD`) or to be opened (`PMI_PORT`). It says one line and
//! hears one line. What all ranks are to know is *put* into the job's table; after a *barrier* everybody may *get* it.

mod line;
mod session;
mod wire;

pub(crate) use session::{Session, is_handed_down, is_offered};
