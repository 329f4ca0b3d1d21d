//! A descriptor that is readable when a time of the link's clock has come.

use std::io;
use std::os::fd::RawFd;
use std::sync::Mutex;
use std::time::Duration;

use weft_base::Instant;

use super::lock;
use crate::Alarm;

/// A timer that is set for what is next due.
pub(super) struct DueAlarm {
    timer: Alarm,
    /// The time that is set, to save calls that change nothing.
    set_for: Mutex<Option<Instant>>,
}

impl DueAlarm {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { timer: Alarm::new()?, set_for: Mutex::new(None) })
    }

    pub(super) fn fd(&self) -> RawFd {
        self.timer.fd()
    }

    /// Makes the descriptor readable at the time that `due` tells, by `clock`, and not before; or never.
    ///
    /// `due` is asked under the alarm's lock. So of two threads that come at once the later one sees what both have left
    /// to do, and an early time is never replaced by a late one that was looked up before it.
    pub(super) fn set(&self, due: impl FnOnce() -> Option<Instant>, clock: &dyn Fn() -> Instant) {
        let mut set_for = lock(&self.set_for);
        let due = due();
        if *set_for == due {
            return;
        }
        *set_for = due;
        let is_set = due.map(|due| self.timer.set((due - clock()).max(Duration::ZERO)));
        // What is due later than the kernel can tell never is.
        if !matches!(is_set, Some(Ok(()))) {
            self.timer.clear();
        }
    }
}
