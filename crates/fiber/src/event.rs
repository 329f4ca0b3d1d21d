//! A wake that is kept until it is taken: what `park` waits for.

use std::time::Instant;

use crate::gate::Gate;
use crate::wait::Outcome;
use crate::why::Why;

/// Set or not set; waiting takes it. Several sets before one wait are one.
pub(crate) struct Event(Gate);

impl Event {
    pub(crate) fn new() -> Self {
        Self(Gate::new(0))
    }

    /// Lets one go who waits, or the next one to come.
    pub(crate) fn set(&self) {
        self.0.give_one();
    }

    /// Makes it as new. Nobody waits, and nobody else has it.
    #[inline]
    pub(crate) fn reset(&self) {
        self.0.reset();
    }

    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Outcome {
        if self.0.try_take() { Outcome::Signalled } else { self.0.wait(Why::Park, deadline) }
    }

    /// The same, and listings say that it waits for `why` at `object`.
    pub(crate) fn wait_for(&self, why: Why, object: usize, deadline: Option<Instant>) -> Outcome {
        if self.0.try_take() { Outcome::Signalled } else { self.0.wait_at(why, object, deadline) }
    }
}
