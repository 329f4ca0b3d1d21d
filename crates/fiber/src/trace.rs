//! A fiber's life as a span of `tracing`, with the feature of that name; without it nothing of this is there.
//!
//! The span `fiber` begins when the fiber is spawned, is entered while a worker runs it, and ends with it. Each wait is an
//! event in it.

#[cfg(feature = "tracing")]
use std::cell::Cell;

use crate::why::Why;

/// The span of one fiber. It belongs to whoever the fiber is with.
pub(crate) struct Life(#[cfg(feature = "tracing")] Cell<Option<tracing::Span>>);

/// A worker runs the fiber.
pub(crate) struct Runs(#[cfg(feature = "tracing")] Option<tracing::span::EnteredSpan>);

#[cfg(feature = "tracing")]
impl Life {
    pub(crate) fn new() -> Self {
        Self(Cell::new(None))
    }

    /// A fiber has been spawned.
    pub(crate) fn begin(&self, id: u64, name: &str) {
        let span = tracing::trace_span!("fiber", id = crate::listing::number(id), name);
        self.0.set((!span.is_disabled()).then_some(span));
    }

    /// A worker runs the fiber.
    pub(crate) fn enter(&self) -> Runs {
        Runs(self.0.take().map(tracing::Span::entered))
    }

    /// The fiber has left its stack.
    pub(crate) fn leave(&self, runs: Runs) {
        self.0.set(runs.0.map(tracing::span::EnteredSpan::exit));
    }

    /// The fiber has ended.
    pub(crate) fn end(&self) {
        drop(self.0.take());
    }
}

#[cfg(not(feature = "tracing"))]
impl Life {
    pub(crate) fn new() -> Self {
        Self()
    }

    #[inline(always)]
    pub(crate) fn begin(&self, _id: u64, _name: &str) {}

    #[inline(always)]
    pub(crate) fn enter(&self) -> Runs {
        Runs()
    }

    #[inline(always)]
    pub(crate) fn leave(&self, _runs: Runs) {}

    #[inline(always)]
    pub(crate) fn end(&self) {}
}

/// The fiber that runs begins to wait.
#[inline(always)]
pub(crate) fn waits(why: Why, object: usize) {
    #[cfg(feature = "tracing")]
    tracing::trace!(what = why.words(), object, "waits");
    #[cfg(not(feature = "tracing"))]
    let _ = (why, object);
}
