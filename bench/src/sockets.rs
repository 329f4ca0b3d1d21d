//! Socket options and control messages that the standard library does not have.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// The controller that TCP is compared with, whatever the system's own is.
pub const CUBIC: &str = "cubic";

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

/// A TCP connection under the controller `name`, chosen before the open: what another one has set at its start, as BBR sets pacing, stays
/// when it goes (decision 0103).
///
/// # Errors
/// The kernel has no such controller, or nobody listens there.
pub fn connect_tcp(to: SocketAddr, name: &str) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_congestion(name.as_bytes()).map_err(|error| {
        io::Error::new(error.kind(), format!("TCP's congestion controller \"{name}\": {error}"))
    })?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

/// What a TCP listener accepts answers under CUBIC, where the kernel has it.
pub fn answer_by_cubic(listener: &impl AsFd) {
    // Where it has not, who connects says so.
    let _ = SockRef::from(listener).set_tcp_congestion(CUBIC.as_bytes());
}
