//! Socket options and control messages that the standard library does not have.

use std::io;
use std::os::fd::AsRawFd;

/// Sets an integer option.
///
/// # Errors
/// What the kernel says of it.
pub fn set(socket: &impl AsRawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let len = libc::socklen_t::try_from(size_of::<i32>()).map_err(io::Error::other)?;
    // SAFETY: the pointer is to an integer that lives, and the length is its size.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Asks for large buffers, past the system's limit where that is permitted.
pub fn enlarge_buffers(socket: &impl AsRawFd) {
    for name in [libc::SO_SNDBUFFORCE, libc::SO_RCVBUFFORCE] {
        // Where it is not permitted, the rival runs with what it has.
        let _ = set(socket, libc::SOL_SOCKET, name, 8 << 20);
    }
}
