//! A handle of a runtime.

use std::fmt;
use std::sync::Arc;

use super::Shared;
use crate::error::SpawnError;
use crate::join::JoinHandle;
use crate::spawn::Spawn;

/// A way to a runtime that does not keep it running.
#[derive(Clone)]
pub struct Handle(pub(crate) Arc<Shared>);

impl Handle {
    /// Spawns a fiber there.
    ///
    /// # Errors
    ///
    /// [`SpawnError::ShutDown`] if the runtime has been shut down; the others as for [`Runtime::spawn`](super::Runtime::spawn).
    pub fn spawn<T: Send + 'static>(
        &self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, SpawnError> {
        Spawn::new().spawn_on(self, body)
    }

    /// The number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.0.workers.len()
    }

    /// How many fibers live. One that has just ended may count for a moment.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.0.live()
    }

    /// The fibers that live, with their names and states.
    #[must_use]
    pub fn list(&self) -> Vec<crate::Listed> {
        crate::listing::list(&self.0)
    }

    /// The same with the calls on the stacks of those that wait or are ready.
    ///
    /// The workers stand still for some microseconds a fiber, of which the first 1,000 are looked at; one that is busy in a fiber is
    /// waited for, a second at most. The names of functions are looked up afterwards: that takes a fraction of a second the
    /// first time.
    #[must_use]
    pub fn list_with_frames(&self) -> Vec<crate::Listed> {
        crate::listing::list_with_frames(&self.0)
    }

    /// Whether all fibers that live wait for each other; if so, with the calls on their stacks.
    #[must_use]
    pub fn deadlock(&self) -> Option<crate::Deadlock> {
        crate::listing::deadlock(&self.0)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Runtime");
        shown.field("workers", &self.workers()).field("live", &self.live()).finish_non_exhaustive()
    }
}
