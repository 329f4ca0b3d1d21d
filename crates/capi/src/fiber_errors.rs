//! The errors of fibers in the words of C.

use weft_fiber::{BindError, DetachError, JoinError, SpawnError};

use crate::boundary::Failure;

impl From<SpawnError> for Failure {
    fn from(error: SpawnError) -> Self {
        let errno = match error {
            SpawnError::Limit { .. } => libc::EAGAIN,
            SpawnError::Stack { .. } => libc::ENOMEM,
            SpawnError::ShutDown => libc::ESHUTDOWN,
            SpawnError::NotAFiber | SpawnError::NoSuchWorker { .. } | _ => libc::EINVAL,
        };
        // EAGAIN has no sentence of its own elsewhere; here it is no call that would wait.
        Self { errno, sentence: error.to_string() }
    }
}

impl From<JoinError> for Failure {
    fn from(error: JoinError) -> Self {
        let errno = match error {
            JoinError::Cancelled => libc::ENODATA,
            JoinError::Detached => libc::EINVAL,
            JoinError::StackOverflow { .. } => libc::EOVERFLOW,
            JoinError::Itself => libc::EDEADLK,
            JoinError::TimedOut => libc::ETIMEDOUT,
            JoinError::Panicked(_) | JoinError::Taken | _ => libc::EIO,
        };
        Self::new(errno, error)
    }
}

impl From<DetachError> for Failure {
    fn from(error: DetachError) -> Self {
        let errno = match error {
            DetachError::Joined => libc::EBUSY,
            DetachError::Ended => libc::ESRCH,
            DetachError::Detached | DetachError::Attached | _ => libc::EALREADY,
        };
        Self::new(errno, error)
    }
}

impl From<BindError> for Failure {
    fn from(error: BindError) -> Self {
        let errno = if let BindError::Started { .. } = error { libc::EBUSY } else { libc::EINVAL };
        Self::new(errno, error)
    }
}
