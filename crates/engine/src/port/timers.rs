//! When the slots of a port are to be looked at, whatever comes in.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use weft_base::Instant;

use super::Port;
use crate::slot::{Live, Slot};
use crate::wheel::Timer;

impl Port {
    /// Sees to it that `slot` is looked at by `due`; the caller holds its lock. Costs nothing if the wheel looks at it
    /// earlier anyway: nothing will be due then, and it is armed again.
    #[inline]
    pub(crate) fn arm(&self, slot: &Arc<Slot>, live: &mut Live, due: Instant) {
        if due.as_nanos() < slot.armed.load(Ordering::Relaxed) {
            self.arm_earlier(slot, live, due);
        }
    }

    #[cold]
    fn arm_earlier(&self, slot: &Arc<Slot>, live: &mut Live, due: Instant) {
        let mut wheel = self.wheel.lock();
        slot.armed.store(due.as_nanos(), Ordering::Relaxed);
        let index = u32::try_from(self.index).unwrap_or(u32::MAX);
        let known = live.timer.filter(|(port, _)| *port == index);
        if !known.is_some_and(|(_, timer)| wheel.reschedule(timer, due)) {
            live.timer = Some((index, wheel.schedule(slot.clone(), due)));
        }
        self.next_timer.fetch_min(due.as_nanos(), Ordering::Relaxed);
        drop(wheel);
        self.end_sleep_by(due);
    }

    /// Sees to it that [`Core::probe_sides`](crate::core::Core::probe_sides) is called by `due`.
    #[cold]
    pub(crate) fn arm_probe(&self, due: Instant) {
        let wheel = self.wheel.lock();
        self.next_probe.fetch_min(due.as_nanos(), Ordering::Relaxed);
        self.next_timer.fetch_min(due.as_nanos(), Ordering::Relaxed);
        drop(wheel);
        self.end_sleep_by(due);
    }

    /// Whether it is time to probe; then it is not until that is armed again.
    pub(crate) fn take_probe(&self, now: Instant) -> bool {
        let _wheel = self.wheel.lock();
        let is_due = self.next_probe.load(Ordering::Relaxed) <= now.as_nanos();
        if is_due {
            self.next_probe.store(u64::MAX, Ordering::Relaxed);
        }
        is_due
    }

    fn end_sleep_by(&self, due: Instant) {
        fence(Ordering::SeqCst);
        if due.as_nanos() < self.sleeps_until.load(Ordering::Relaxed) {
            self.signal.raise();
        }
    }

    /// Forgets a timer that may have fired.
    pub(crate) fn disarm(&self, timer: Timer) {
        let slot = self.wheel.lock().cancel(timer);
        drop(slot);
    }

    /// When a timer is due next, in nanoseconds; `u64::MAX` for never.
    #[inline]
    pub(crate) fn next_timer(&self) -> u64 {
        self.next_timer.load(Ordering::Relaxed)
    }

    /// Slots whose timer may be due by `now`, into `expired`.
    pub(crate) fn expire(&self, now: Instant, expired: &mut Vec<Arc<Slot>>) {
        let mut wheel = self.wheel.lock();
        wheel.advance(now, |slot| expired.push(slot));
        let next = wheel.next_due().map_or(u64::MAX, Instant::as_nanos);
        self.next_timer.store(next.min(self.next_probe.load(Ordering::Relaxed)), Ordering::Relaxed);
        for slot in expired.iter() {
            slot.armed.store(u64::MAX, Ordering::Relaxed);
        }
    }
}
