//! Options of the kernel's sockets that no library names.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// Words of `SO_MEMINFO`, and the one that counts packets which found no room.
const MEMINFO_WORDS: usize = 9;
const MEMINFO_DROPS: usize = 8;

/// Sets an option to `value`, which is of the type that the option wants.
pub(crate) fn set<T: Copy>(fd: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    let len = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    // SAFETY: the value lives through the call and has the length given.
    match unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Asks for a buffer of `bytes` by the first of two options, which goes past the system's limit where that is permitted, else by the
/// second, which stays below. A smaller buffer is no error: the doctor says which limits those are.
pub(crate) fn enlarge(fd: BorrowedFd<'_>, [force, plain]: [i32; 2], bytes: usize) {
    let wanted = i32::try_from(bytes).unwrap_or(i32::MAX);
    let _ = set(fd, libc::SOL_SOCKET, force, &wanted).or_else(|_| set(fd, libc::SOL_SOCKET, plain, &wanted));
}

/// The value of an option whose integers are as many and as wide as the kernel's.
pub(crate) fn integers<const N: usize>(fd: RawFd, level: i32, name: i32) -> Option<[u32; N]> {
    let mut value = MaybeUninit::<[u32; N]>::uninit();
    let mut len = libc::socklen_t::try_from(size_of::<[u32; N]>()).ok()?;
    // SAFETY: the value and its length are ours and live through the call.
    let result = unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut len) };
    // SAFETY: the kernel wrote all of it, and any bits are integers.
    (result == 0 && len as usize == size_of::<[u32; N]>()).then(|| unsafe { value.assume_init() })
}

/// Takes back what the next call at this socket would fail with.
pub(crate) fn take_error(fd: RawFd) {
    let _ = integers::<1>(fd, libc::SOL_SOCKET, libc::SO_ERROR);
}

/// Packets that found the receive buffer of this socket full, since it was opened.
pub(crate) fn overflows(fd: RawFd) -> u64 {
    integers::<MEMINFO_WORDS>(fd, libc::SOL_SOCKET, libc::SO_MEMINFO)
        .map_or(0, |words| words[MEMINFO_DROPS].into())
}
