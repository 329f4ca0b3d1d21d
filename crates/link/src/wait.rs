//! Sleeping until a descriptor is ready, or for a moment.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::RawFd;
use std::time::Duration;

use rustix::thread::{current_timer_slack, set_current_timer_slack};

use crate::link::POLL_FDS;

/// A descriptor to wait for, and what it is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interest {
    /// The descriptor.
    pub fd: RawFd,
    /// Whether to wake when it is readable.
    pub readable: bool,
    /// Whether to wake when it takes more to send.
    pub writable: bool,
    /// Set by [`wait_for`]: whether it is ready for one of the two, or broken.
    pub is_ready: bool,
}

impl Interest {
    /// Waits until `fd` is readable.
    #[must_use]
    pub const fn readable(fd: RawFd) -> Self {
        Self { fd, readable: true, writable: false, is_ready: false }
    }

    /// Waits until `fd` takes more to send.
    #[must_use]
    pub const fn writable(fd: RawFd) -> Self {
        Self { fd, readable: false, writable: true, is_ready: false }
    }

    const fn poll_fd(&self) -> libc::pollfd {
        let read = if self.readable { libc::POLLIN } else { 0 };
        let write = if self.writable { libc::POLLOUT } else { 0 };
        libc::pollfd { fd: self.fd, events: read | write, revents: 0 }
    }
}

/// Descriptors that one call can wait for without memory from the heap.
const FEW: usize = POLL_FDS + 2;

/// Sleeps until one of `fds` is readable or `timeout` has passed (`None`: for ever), and returns how many are.
///
/// 0 also when a signal arrived. The time-out counts in nanoseconds, so a timer may be as fine as the kernel's.
///
/// # Errors
/// What `ppoll` says of the arguments.
pub fn wait(fds: &[RawFd], timeout: Option<Duration>) -> io::Result<usize> {
    with_slots(fds.len(), |slots| {
        for (slot, &fd) in slots.iter_mut().zip(fds) {
            *slot = Interest::readable(fd).poll_fd();
        }
        poll(slots, timeout)
    })
}

/// As [`wait`], for reading or writing, and tells which descriptors are ready.
///
/// # Errors
/// What `ppoll` says of the arguments.
pub fn wait_for(interests: &mut [Interest], timeout: Option<Duration>) -> io::Result<usize> {
    with_slots(interests.len(), |slots| {
        for (slot, interest) in slots.iter_mut().zip(&*interests) {
            *slot = interest.poll_fd();
        }
        let count = poll(slots, timeout)?;
        for (slot, interest) in slots.iter().zip(interests) {
            interest.is_ready = slot.revents != 0;
        }
        Ok(count)
    })
}

/// Lends room for `count` descriptors, without the heap where they are few.
fn with_slots<T>(count: usize, use_them: impl FnOnce(&mut [libc::pollfd]) -> T) -> T {
    let none = libc::pollfd { fd: -1, events: 0, revents: 0 };
    if count <= FEW { use_them(&mut [none; FEW][..count]) } else { use_them(&mut vec![none; count]) }
}

fn poll(fds: &mut [libc::pollfd], timeout: Option<Duration>) -> io::Result<usize> {
    let timeout = timeout.map(timespec);
    let limit = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let count = libc::nfds_t::try_from(fds.len()).map_err(io::Error::other)?;
    // SAFETY: the descriptors and the limit live through the call; a null mask changes no signals.
    let ready = unsafe { libc::ppoll(fds.as_mut_ptr(), count, limit, std::ptr::null()) };
    match usize::try_from(ready) {
        Ok(ready) => Ok(ready),
        Err(_) => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => {
                fds.iter_mut().for_each(|fd| fd.revents = 0);
                Ok(0)
            }
            error => Err(error),
        },
    }
}

/// The timer slack of a doze, in nanoseconds. What the kernel takes to wake the thread comes on top.
const SLACK_NS: u64 = 1_000;

/// Sleeps for `time`, which is short, and for what the kernel takes to wake the thread; without the 50 µs more that it allows itself
/// at normal priority (decision 0049). Where it does not let that be chosen, it takes them.
///
/// The thread's other sleeps stay as exact as they were.
pub fn doze(time: Duration) {
    with_little_slack(|| std::thread::sleep(time));
}

/// Runs `sleep` with a timer slack of [`SLACK_NS`] at most.
fn with_little_slack<T>(sleep: impl FnOnce() -> T) -> T {
    with_slack_of(|usual| usual.min(SLACK_NS), sleep)
}

/// Runs `sleep`, in which the thread may be woken later than it asks for by as much as `slack`: together with what else is due then, which spares
/// the processor a wake of its own.
pub fn with_slack<T>(slack: Duration, sleep: impl FnOnce() -> T) -> T {
    let slack_ns = u64::try_from(slack.as_nanos()).unwrap_or(u64::MAX);
    with_slack_of(|usual| usual.max(slack_ns), sleep)
}

/// Where the kernel does not tell what the slack is, it stays.
fn with_slack_of<T>(slack_ns: impl FnOnce(u64) -> u64, sleep: impl FnOnce() -> T) -> T {
    let usual = current_timer_slack().ok().and_then(NonZeroU64::new);
    let other =
        usual.and_then(|usual| NonZeroU64::new(slack_ns(usual.get()))).filter(|&slack| Some(slack) != usual);
    let is_set = other.is_some() && set_current_timer_slack(other).is_ok();
    let outcome = sleep();
    if is_set {
        // The kernel took a value a moment ago.
        let _ = set_current_timer_slack(usual);
    }
    outcome
}

fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Waker;

    #[test]
    fn waiting_for_nothing_takes_the_time_that_was_asked_for() {
        let started = std::time::Instant::now();
        assert_eq!(wait(&[], Some(Duration::from_millis(5))).unwrap(), 0);
        assert!(started.elapsed() >= Duration::from_millis(5));
    }

    #[test]
    fn a_doze_has_little_slack_and_leaves_the_thread_as_it_was() {
        for (own, inside) in [(70_000, SLACK_NS), (500, 500)] {
            let is_set = set_current_timer_slack(NonZeroU64::new(own)).is_ok();
            if !is_set || current_timer_slack() != Ok(own) {
                return weft_skip::skipped!(
                    "this thread has no timer slack to set, as one of real-time priority"
                );
            }
            assert_eq!(with_little_slack(current_timer_slack), Ok(inside));
            assert_eq!(with_slack(Duration::from_millis(1), current_timer_slack), Ok(1_000_000));
            assert_eq!(current_timer_slack(), Ok(own));
        }
        let started = std::time::Instant::now();
        doze(Duration::from_millis(2));
        assert!(started.elapsed() >= Duration::from_millis(2));
    }

    #[test]
    fn another_thread_ends_a_wait() {
        let waker = Waker::new().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| waker.wake());
            assert_eq!(wait(&[waker.fd()], Some(Duration::from_secs(20))).unwrap(), 1);
        });
    }

    #[test]
    fn the_ready_one_of_many_is_told() {
        let wakers: Vec<Waker> = (0..12).map(|_| Waker::new().unwrap()).collect();
        wakers[7].wake();
        let mut interests: Vec<_> = wakers.iter().map(|waker| Interest::readable(waker.fd())).collect();
        assert_eq!(wait_for(&mut interests, Some(Duration::from_secs(20))).unwrap(), 1);
        let ready: Vec<usize> = (0..12).filter(|&at| interests[at].is_ready).collect();
        assert_eq!(ready, [7]);
        let fds: Vec<RawFd> = wakers.iter().map(Waker::fd).collect();
        assert_eq!(wait(&fds, Some(Duration::from_secs(20))).unwrap(), 1);
    }

    #[test]
    fn an_eventfd_always_takes_more() {
        let waker = Waker::new().unwrap();
        let mut interests = [Interest::writable(waker.fd())];
        assert_eq!(wait_for(&mut interests, Some(Duration::ZERO)).unwrap(), 1);
        assert!(interests[0].is_ready);
    }
}
