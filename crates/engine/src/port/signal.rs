//! What ends the sleep of a leader.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_link::Waker;

/// A descriptor, written at most once until the leader took notice.
///
/// Races: a thread may be held up between the flag and the write, while the leader, awake for another reason, lowers the
/// flag. Its write then comes without a flag, so what the leader's sleep says of the descriptor counts as well.
#[derive(Debug)]
pub(crate) struct Signal {
    waker: Waker,
    is_raised: AtomicBool,
}

impl Signal {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { waker: Waker::new()?, is_raised: AtomicBool::new(false) })
    }

    /// What the leader sleeps on.
    pub(super) fn fd(&self) -> RawFd {
        self.waker.fd()
    }

    pub(crate) fn raise(&self) {
        if !self.is_raised.swap(true, Ordering::SeqCst) {
            self.waker.wake();
        }
    }

    /// Takes notice, also of a write that `is_readable` tells of. What raised it is looked at after this.
    pub(super) fn lower(&self, is_readable: bool) {
        if is_readable || self.is_raised.load(Ordering::SeqCst) {
            self.waker.drain();
            self.is_raised.store(false, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
impl Signal {
    /// A write by a thread that was held up after the flag.
    pub(super) fn write_late(&self) {
        self.waker.wake();
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.is_raised.load(Ordering::Relaxed)
    }
}
