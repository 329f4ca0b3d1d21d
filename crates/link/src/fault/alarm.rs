//! A descriptor that is readable when the device is, or when a time has come.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::Mutex;
use std::time::Duration;

use weft_base::Instant;

use super::lock;

/// An epoll descriptor over the device's own and a timer's.
pub(super) struct Alarm {
    both: OwnedFd,
    timer: OwnedFd,
    /// The time that is set, to save calls that change nothing.
    set_for: Mutex<Option<Instant>>,
}

impl Alarm {
    pub(super) fn new(device: Option<RawFd>) -> io::Result<Self> {
        // SAFETY: the call takes no pointers.
        let both = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: the call takes no pointers.
        let timer = owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
        for fd in device.into_iter().chain([timer.as_raw_fd()]) {
            add(&both, fd)?;
        }
        Ok(Self { both, timer, set_for: Mutex::new(None) })
    }

    pub(super) fn fd(&self) -> RawFd {
        self.both.as_raw_fd()
    }

    /// Makes the descriptor readable at the time that `due` tells, by `clock`, and not before unless the device is; or
    /// never.
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
        let wait = due.map_or(Duration::ZERO, |due| (due - clock()).max(Duration::from_nanos(1)));
        let value = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: libc::timespec {
                tv_sec: wait.as_secs().try_into().unwrap_or(libc::time_t::MAX),
                tv_nsec: wait.subsec_nanos().into(),
            },
        };
        // SAFETY: the new value lives; nobody asks for the old one. Zero disarms, and setting clears an expiry.
        unsafe { libc::timerfd_settime(self.timer.as_raw_fd(), 0, &raw const value, ptr::null_mut()) };
    }
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn add(epoll: &OwnedFd, fd: RawFd) -> io::Result<()> {
    let mut event = libc::epoll_event { events: libc::EPOLLIN.cast_unsigned(), u64: 0 };
    // SAFETY: the event lives through the call.
    let result = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
