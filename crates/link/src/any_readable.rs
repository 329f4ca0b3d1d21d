//! One descriptor in place of several.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

/// A descriptor that is readable as long as any of those is that were added to it, for loops of events that are not ours.
///
/// It is an epoll instance, and may be added to another. A descriptor that is closed leaves it.
///
/// ```
/// use weft_link::{AnyReadable, Waker};
///
/// let (any, one, other) = (AnyReadable::new()?, Waker::new()?, Waker::new()?);
/// any.add(one.fd(), 1)?;
/// any.add(other.fd(), 2)?;
/// other.wake();
/// let mut ready = [0; 8];
/// assert_eq!(any.ready(&mut ready)?, 1);
/// assert_eq!(ready[0], 2);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct AnyReadable {
    epoll: OwnedFd,
    /// By descriptor; of those that were closed since as well.
    names: Mutex<HashMap<RawFd, u64>>,
}

/// Descriptors that one call tells of at most.
const EVENTS: usize = 64;

impl AnyReadable {
    /// One without descriptors, which is never readable.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, names: Mutex::default() })
    }

    /// Adds `fd` under the name `name`. One that is there already has that name from now on.
    ///
    /// # Errors
    /// When it is no descriptor that can be waited for.
    pub fn add(&self, fd: RawFd, name: u64) -> io::Result<()> {
        self.add_for(libc::EPOLLIN, fd, name)
    }

    /// The same, but only errors of `fd` make this readable.
    pub(crate) fn add_for_errors(&self, fd: RawFd, name: u64) -> io::Result<()> {
        self.add_for(0, fd, name)
    }

    fn add_for(&self, events: i32, fd: RawFd, name: u64) -> io::Result<()> {
        let mut names = self.lock();
        let is_named = names.get(&fd) == Some(&name);
        match self.control(libc::EPOLL_CTL_ADD, events, fd, name) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) && is_named => {}
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {
                self.control(libc::EPOLL_CTL_MOD, events, fd, name)?;
            }
            result => result?,
        }
        names.insert(fd, name);
        Ok(())
    }

    /// Removes `fd`, if it is there under the name `name`.
    ///
    /// # Errors
    /// What the kernel says, which is nothing as long as this lives.
    pub fn remove(&self, fd: RawFd, name: u64) -> io::Result<()> {
        let mut names = self.lock();
        if names.get(&fd) != Some(&name) {
            return Ok(());
        }
        names.remove(&fd);
        match self.control(libc::EPOLL_CTL_DEL, 0, fd, name) {
            // It was closed, and another may have the number now.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBADF | libc::ENOENT)) => Ok(()),
            result => result,
        }
    }

    fn control(&self, operation: i32, events: i32, fd: RawFd, name: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: name };
        // SAFETY: the event lives, and a descriptor that is none is refused.
        let result = unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd, &raw mut event) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RawFd, u64>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the names of those that are readable into `names`, as many as there is room for, and tells how many these are.
    ///
    /// # Errors
    /// What the kernel says, which is nothing as long as this lives.
    pub fn ready(&self, names: &mut [u64]) -> io::Result<usize> {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let room = names.len().min(EVENTS);
        let now = Timespec::try_from(Duration::ZERO).map_err(io::Error::other)?;
        match epoll::wait(&self.epoll, &mut events[..room], Some(&now)) {
            Ok((events, _)) => {
                names.iter_mut().zip(&*events).for_each(|(name, event)| *name = event.data.u64());
                Ok(events.len())
            }
            Err(Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for AnyReadable {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl AsRawFd for AnyReadable {
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Waker, wait};

    #[test]
    fn it_is_readable_as_long_as_one_of_them_is() {
        let (any, one, other) = (AnyReadable::new().unwrap(), Waker::new().unwrap(), Waker::new().unwrap());
        let is_readable = || wait(&[any.as_raw_fd()], Some(Duration::ZERO)).unwrap() == 1;
        any.add(one.fd(), 1).unwrap();
        any.add(other.fd(), 2).unwrap();
        any.add(one.fd(), 3).unwrap();
        assert!(!is_readable());

        one.wake();
        other.wake();
        let mut names = [0; 3];
        assert_eq!(any.ready(&mut names).unwrap(), 2);
        names.sort_unstable();
        assert_eq!(names, [0, 2, 3], "the last name counts");
        assert_eq!(any.ready(&mut names[..1]).unwrap(), 1, "there is no more room");
        one.drain();
        assert!(is_readable(), "the other still is");
        any.remove(other.fd(), 1).unwrap();
        assert!(is_readable(), "that is another's name");
        any.remove(other.fd(), 2).unwrap();
        assert!(!is_readable(), "it is there no more");
        any.remove(other.fd(), 2).unwrap();
        any.add(other.fd(), 2).unwrap();
        assert!(is_readable());
        drop(other);
        assert!(!is_readable(), "what is closed is gone");
        assert!(any.add(-1, 4).is_err());
    }

    /// As reactors of asynchronous runtimes wait: they are told of news only.
    #[test]
    fn who_waits_for_edges_is_told_of_each_arrival() {
        let (outer, any, waker) =
            (AnyReadable::new().unwrap(), AnyReadable::new().unwrap(), Waker::new().unwrap());
        any.add(waker.fd(), 0).unwrap();
        epoll::add(&outer, &any, epoll::EventData::new_u64(5), epoll::EventFlags::IN | epoll::EventFlags::ET)
            .unwrap();
        let mut names = [0; 2];
        for _ in 0..3 {
            waker.wake();
            assert_eq!(outer.ready(&mut names).unwrap(), 1);
            assert_eq!(names, [5, 0]);
            assert_eq!(outer.ready(&mut names).unwrap(), 0, "nothing is new, though it is readable");
        }
    }
}
