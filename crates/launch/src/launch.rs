//! The launcher of this process, whichever protocol it speaks.

use std::fmt;
use std::time::Duration;

use crate::{DetectError, ExchangeError, pmi, pmix};

/// Bytes that a rank can tell the others. A PMI-1 launcher takes values of 1,023 characters, two for a byte.
pub const EXCHANGE_BYTES_MAX: usize = 480;
/// Ranks of the largest job.
pub const RANKS_MAX: u32 = 65_536;

/// How long a launcher may take for its first words.
pub(crate) const DETECT_TIME: Duration = Duration::from_secs(30);
/// How long it is asked who is missing.
pub(crate) const INQUIRY_TIME: Duration = Duration::from_secs(5);
/// How long it may take for its last words.
pub(crate) const FAREWELL_TIME: Duration = Duration::from_secs(2);

/// What a launcher speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Launcher {
    /// PMIx: `mpirun` of Open MPI, `prterun`, `srun --mpi=pmix`.
    Pmix,
    /// PMI-1: `mpiexec` of MPICH and its relatives, `srun --mpi=pmi2`.
    Pmi,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pmix => "PMIx",
            Self::Pmi => "PMI",
        })
    }
}

/// The launcher of this process, and what it says of the job.
///
/// A rank takes leave of its launcher when this value is dropped, or at the end of [`Launch::exchange`]. After a failed
/// exchange it does not, and most launchers then end the job when the process ends.
#[derive(Debug)]
pub struct Launch(Session);

#[derive(Debug)]
enum Session {
    Pmix(Box<pmix::Session>),
    Pmi(pmi::Session),
}

impl Launch {
    /// Finds the launcher of this process by what it left in the environment; `None` if there is none.
    ///
    /// A stream that was handed down (`PMI_FD`) goes before PMIx (`PMIX_NAMESPACE` and `PMIX_RANK`), because variables
    /// outlive nested launchers and streams do not; PMIx goes before a port to call (`PMI_PORT`). Where the PMIx library
    /// cannot be loaded the port is called, and if there is none either, that is an error.
    ///
    /// Call it early: the stream is a descriptor of this process, and is taken over. In a program that uses MPI call it
    /// after `MPI_Init` if the launcher speaks PMIx, and not at all if it speaks PMI.
    ///
    /// # Errors
    /// When there is a launcher, and it cannot be asked.
    pub fn detect() -> Result<Option<Self>, DetectError> {
        if pmi::is_handed_down() {
            return Ok(Some(Self(Session::Pmi(pmi::Session::start()?))));
        }
        if pmix::is_offered() {
            match pmix::Session::start() {
                Err(DetectError::Library(_)) if pmi::is_offered() => {}
                session => return Ok(Some(Self(Session::Pmix(Box::new(session?))))),
            }
        }
        if pmi::is_offered() {
            return Ok(Some(Self(Session::Pmi(pmi::Session::start()?))));
        }
        Ok(None)
    }

    /// What the launcher speaks.
    #[must_use]
    pub const fn launcher(&self) -> Launcher {
        match &self.0 {
            Session::Pmix(_) => Launcher::Pmix,
            Session::Pmi(_) => Launcher::Pmi,
        }
    }

    /// The rank of this process, from 0.
    #[must_use]
    pub fn rank(&self) -> u32 {
        match &self.0 {
            Session::Pmix(session) => session.rank,
            Session::Pmi(session) => session.rank,
        }
    }

    /// How many ranks the job has.
    #[must_use]
    pub fn size(&self) -> u32 {
        match &self.0 {
            Session::Pmix(session) => session.size,
            Session::Pmi(session) => session.size,
        }
    }

    /// What tells the job from other jobs of the launcher.
    #[must_use]
    pub fn job(&self) -> &str {
        match &self.0 {
            Session::Pmix(session) => &session.job,
            Session::Pmi(session) => &session.job,
        }
    }

    /// Whether the launcher says that all ranks run on one host. `false` where it does not say.
    #[must_use]
    pub fn is_one_host(&self) -> bool {
        match &self.0 {
            Session::Pmix(session) => session.is_one_host,
            Session::Pmi(session) => session.is_one_host,
        }
    }

    /// Gives every rank the bytes of all, in the order of ranks, and takes leave of the launcher. Waits at most `limit`,
    /// and a little longer to find out who is missing, until all ranks have called this.
    ///
    /// # Errors
    /// When ranks are missing, `own` is longer than [`EXCHANGE_BYTES_MAX`], or the launcher fails.
    pub fn exchange(mut self, own: &[u8], limit: Duration) -> Result<Vec<Vec<u8>>, ExchangeError> {
        if own.len() > EXCHANGE_BYTES_MAX {
            return Err(ExchangeError::TooLong { len: own.len(), limit: EXCHANGE_BYTES_MAX });
        }
        let result = match &mut self.0 {
            Session::Pmix(session) => session.exchange(own, limit),
            Session::Pmi(session) => session.exchange(own, limit),
        };
        if result.as_ref().is_err_and(|error| !matches!(error, ExchangeError::TooLong { .. })) {
            // Nobody takes leave half-way, and the end of the stream would end the job before this process has said why.
            // Both are left to the end of the process.
            std::mem::forget(self);
        }
        result
    }
}
