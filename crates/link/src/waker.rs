//! Waking a thread that waits for descriptors.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A descriptor that any thread can make readable, so that [`crate::wait`] in another returns.
///
/// ```
/// use std::time::Duration;
/// use weft_link::{Waker, wait};
///
/// let waker = Waker::new()?;
/// waker.wake();
/// assert_eq!(wait(&[waker.fd()], Some(Duration::from_secs(5)))?, 1);
/// waker.drain();
/// assert_eq!(wait(&[waker.fd()], Some(Duration::ZERO))?, 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Waker {
    fd: OwnedFd,
}

impl Waker {
    /// A waker that is not readable yet.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: `eventfd` takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// The descriptor to wait for.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Makes the descriptor readable until [`Waker::drain`].
    pub fn wake(&self) {
        let one = 1u64;
        // SAFETY: the pointer is to eight bytes that live. A full counter refuses to grow and is readable already.
        unsafe { libc::write(self.fd(), (&raw const one).cast(), size_of::<u64>()) };
    }

    /// Makes the descriptor not readable. Returns whether it was.
    pub fn drain(&self) -> bool {
        let mut count = 0u64;
        // SAFETY: the pointer is to eight bytes that live and are ours.
        let len = unsafe { libc::read(self.fd(), (&raw mut count).cast(), size_of::<u64>()) };
        len > 0
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
