//! Threads that sleep until something comes that may not be late: nobody dozes for long beside them (decision 0099).

use std::sync::atomic::Ordering;

use super::{Inflow, kinds};

impl Inflow {
    /// A thread sleeps until something comes that may not be late, as long as it keeps this: streams are not dozed through for longer than
    /// floods are, from the next window on at the latest.
    pub(crate) fn be_urgent(&self) -> Urgent<'_> {
        self.urgent.fetch_add(1, Ordering::Relaxed);
        self.kinds.fetch_and(!(kinds::SLOW | kinds::STRETCHED), Ordering::Relaxed);
        self.stream_doze_ns.store(self.doze_ns.load(Ordering::Relaxed), Ordering::Relaxed);
        Urgent(self)
    }

    /// Whether a thread does.
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent.load(Ordering::Relaxed) > 0
    }
}

/// A thread is urgent, see [`Inflow::be_urgent`].
pub(crate) struct Urgent<'a>(&'a Inflow);

impl Drop for Urgent<'_> {
    fn drop(&mut self) {
        self.0.urgent.fetch_sub(1, Ordering::Relaxed);
    }
}
