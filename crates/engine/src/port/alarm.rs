//! How long a leader sleeps: by a timer that stays set from one sleep to the next.
//!
//! In a conversation a timer is always due within some milliseconds, such as that of the acknowledgement, and each time something comes
//! before it. A time-out of each sleep would be set and taken back each time, which takes a virtual machine 2 to 6 µs a sleep
//! (decision 0055). So the timer is left as it is where it ends the sleep too early, once, instead of too late.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weft_base::Instant;

/// What is due within this is worth a timer of the port's. A longer time-out is left to the call that sleeps: the kernel has something else to do
/// before.
pub(crate) const SOON: Duration = Duration::from_millis(10);

/// For the leader alone.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: weft_link::Alarm,
    /// When it goes off, in nanoseconds; `u64::MAX` if it is not set.
    due: AtomicU64,
}

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { timer: weft_link::Alarm::new()?, due: AtomicU64::new(u64::MAX) })
    }

    /// Sees to it that a sleep on [`Alarm::fd`] from `now` on ends by `until`; returns the time-out that it is to have besides.
    pub(super) fn end_by(&self, until: Instant, now: Instant) -> Option<Duration> {
        let rest = until.saturating_since(now);
        let due = self.due.load(Ordering::Relaxed);
        if rest > SOON {
            // To take it back takes less than to wake for nothing.
            if due != u64::MAX {
                self.clear();
            }
            return (until != Instant::MAX).then_some(rest);
        }
        if (now.as_nanos()..=until.as_nanos()).contains(&due) {
            return None;
        }
        let is_set = self.timer.set(rest).is_ok();
        self.due.store(if is_set { until.as_nanos() } else { u64::MAX }, Ordering::Relaxed);
        (!is_set).then_some(rest)
    }

    /// What to sleep on, where it is set.
    pub(super) fn fd(&self) -> Option<RawFd> {
        (self.due.load(Ordering::Relaxed) != u64::MAX).then(|| self.timer.fd())
    }

    /// It went off, or is not to.
    pub(super) fn clear(&self) {
        self.timer.clear();
        self.due.store(u64::MAX, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_us(micros: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 + micros * 1_000)
    }

    fn is_readable_within(alarm: &Alarm, time: Duration) -> bool {
        weft_link::wait(&[alarm.fd().unwrap()], Some(time)).unwrap() == 1
    }

    #[test]
    fn one_timer_serves_many_sleeps_and_none_ends_late() {
        let alarm = Alarm::new().unwrap();
        assert_eq!((alarm.end_by(Instant::MAX, at_us(0)), alarm.fd()), (None, None));
        assert_eq!(alarm.end_by(at_us(50_000), at_us(0)), Some(Duration::from_millis(50)));
        assert_eq!(alarm.fd(), None, "the call that sleeps sees to it");

        let due = |until: u64, now: u64| {
            assert_eq!(alarm.end_by(at_us(until), at_us(now)), None);
            alarm.due.load(Ordering::Relaxed)
        };
        assert_eq!(due(1_000, 0), at_us(1_000).as_nanos());
        assert_eq!(due(1_030, 30), at_us(1_000).as_nanos(), "early enough");
        assert_eq!(due(600, 60), at_us(600).as_nanos());
        assert_eq!(due(1_700, 700), at_us(1_700).as_nanos(), "it went off, and nobody slept");
        assert_eq!(alarm.end_by(at_us(50_000), at_us(710)), Some(Duration::from_micros(49_290)));
        assert_eq!(alarm.fd(), None, "it would end that sleep for nothing");
        assert_eq!(due(1_700, 720), at_us(1_700).as_nanos());
        assert!(is_readable_within(&alarm, Duration::from_secs(60)));
        alarm.clear();
        assert_eq!(alarm.fd(), None);
    }
}
