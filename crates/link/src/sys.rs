//! The kernel's calls that move packets, without the wrappers of the C library.
//!
//! In a process with several threads a wrapper lets the thread be cancelled while the call lasts, which takes two atomic
//! instructions: a tenth of what a poll of an empty socket costs. Nobody cancels a thread that is in the midst of a turn. Arguments,
//! results and `errno` are those of the functions of the same names.

use std::os::fd::RawFd;

use libc::{c_int, c_long, c_void};

/// # Safety
/// As for `recvfrom(2)`.
#[inline]
pub(crate) unsafe fn recvfrom(
    fd: RawFd,
    bytes: *mut c_void,
    len: usize,
    flags: c_int,
    from: *mut libc::sockaddr,
    from_len: *mut libc::socklen_t,
) -> isize {
    let (fd, flags) = (c_long::from(fd), c_long::from(flags));
    // SAFETY: passed on to the caller.
    narrow(unsafe { libc::syscall(libc::SYS_recvfrom, fd, bytes, len, flags, from, from_len) })
}

/// # Safety
/// As for `recvmsg(2)`.
#[inline]
pub(crate) unsafe fn recvmsg(fd: RawFd, message: *mut libc::msghdr, flags: c_int) -> isize {
    // SAFETY: passed on to the caller.
    narrow(unsafe { libc::syscall(libc::SYS_recvmsg, c_long::from(fd), message, c_long::from(flags)) })
}

/// # Safety
/// As for `sendto(2)`.
#[inline]
pub(crate) unsafe fn sendto(
    fd: RawFd,
    bytes: *const c_void,
    len: usize,
    flags: c_int,
    to: *const libc::sockaddr,
    to_len: libc::socklen_t,
) -> isize {
    let (fd, flags, to_len) = (c_long::from(fd), c_long::from(flags), c_long::from(to_len));
    // SAFETY: passed on to the caller.
    narrow(unsafe { libc::syscall(libc::SYS_sendto, fd, bytes, len, flags, to, to_len) })
}

/// # Safety
/// As for `sendmsg(2)`.
#[inline]
pub(crate) unsafe fn sendmsg(fd: RawFd, message: *const libc::msghdr, flags: c_int) -> isize {
    // SAFETY: passed on to the caller.
    narrow(unsafe { libc::syscall(libc::SYS_sendmsg, c_long::from(fd), message, c_long::from(flags)) })
}

/// # Safety
/// As for `sendmmsg(2)`.
#[inline]
pub(crate) unsafe fn sendmmsg(fd: RawFd, messages: &mut [libc::mmsghdr], flags: c_int) -> isize {
    let (fd, flags) = (c_long::from(fd), c_long::from(flags));
    // SAFETY: passed on to the caller.
    narrow(unsafe { libc::syscall(libc::SYS_sendmmsg, fd, messages.as_mut_ptr(), messages.len(), flags) })
}

/// A result is -1 or a number of bytes or messages.
#[inline]
fn narrow(result: c_long) -> isize {
    isize::try_from(result).unwrap_or(-1)
}
