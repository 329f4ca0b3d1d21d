//! A timer to sleep on beside other descriptors.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// What takes a timer back, and what one has that goes off once.
const NEVER: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A descriptor that is readable from a time on, until it is set anew.
///
/// A time-out of [`crate::wait`] is a timer that is set and taken back with each sleep, which takes a virtual machine's processor some
/// microseconds (decision 0055). This one may stay set over many sleeps.
///
/// ```
/// use std::time::Duration;
/// use weft_link::{Alarm, wait};
///
/// let alarm = Alarm::new()?;
/// alarm.set(Duration::from_millis(1))?;
/// assert_eq!(wait(&[alarm.fd()], Some(Duration::from_secs(5)))?, 1);
/// alarm.clear();
/// assert_eq!(wait(&[alarm.fd()], Some(Duration::ZERO))?, 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Alarm(OwnedFd);

impl Alarm {
    /// One that is not set.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self(timerfd_create(TimerfdClockId::Monotonic, flags)?))
    }

    /// The descriptor to wait for.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Has the descriptor readable when `time` has passed and not before, whatever was set.
    ///
    /// # Errors
    /// When the kernel knows no such time, of 2^63 seconds and more.
    pub fn set(&self, time: Duration) -> io::Result<()> {
        // Zero would take the timer back.
        let time = time.max(Duration::from_nanos(1));
        self.set_to(Timespec::try_from(time).map_err(io::Error::other)?)
    }

    /// Takes back what was set: the descriptor is not readable, and is not to be.
    pub fn clear(&self) {
        // The kernel takes this of any timer that it gave.
        let _ = self.set_to(NEVER);
    }

    fn set_to(&self, it_value: Timespec) -> io::Result<()> {
        let once = Itimerspec { it_interval: NEVER, it_value };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait;

    fn is_readable(alarm: &Alarm, within: Duration) -> bool {
        wait(&[alarm.fd()], Some(within)).unwrap() == 1
    }

    #[test]
    fn it_is_readable_from_its_time_on_until_it_is_cleared_or_set_anew() {
        let (alarm, started) = (Alarm::new().unwrap(), std::time::Instant::now());
        assert!(!is_readable(&alarm, Duration::ZERO));
        let (soon, late) = (Duration::from_millis(2), Duration::from_secs(3600));
        for _ in 0..2 {
            alarm.set(soon).unwrap();
            assert!(is_readable(&alarm, Duration::from_secs(60)) && is_readable(&alarm, Duration::ZERO));
            alarm.clear();
            assert!(!is_readable(&alarm, Duration::ZERO));
        }
        assert!(started.elapsed() >= 2 * soon);
        alarm.set(soon).unwrap();
        alarm.set(late).unwrap();
        assert!(!is_readable(&alarm, 2 * soon));
        alarm.set(Duration::ZERO).unwrap();
        assert!(is_readable(&alarm, Duration::from_secs(60)));
        alarm.set(late).unwrap();
        assert!(!is_readable(&alarm, Duration::ZERO));
        alarm.set(soon).unwrap();
        alarm.clear();
        assert!(!is_readable(&alarm, 2 * soon));
    }
}
