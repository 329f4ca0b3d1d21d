//! Errors in words.

use std::ffi::{CStr, c_char, c_int};

use weft_socket::EndReason;

use crate::boundary;

/// What each errno of section 16 means here, for errors that come without a sentence of their own.
const ERRNO: [(c_int, &CStr); 34] = [
    (0, c"no error"),
    (libc::EACCES, c"forbidden: a policy or a missing permission refuses it"),
    (libc::EADDRINUSE, c"address in use: another socket has that port"),
    (
        libc::EADDRNOTAVAIL,
        c"address not available: no port is free, another node is named, or a socket connects to itself",
    ),
    (libc::EAFNOSUPPORT, c"the node has no address of that family to send from"),
    (libc::EAGAIN, c"it would have to wait: try again when cdp_poll_fd says so"),
    (libc::EALREADY, c"already under way"),
    (libc::EBADF, c"not a descriptor of that kind, or closed"),
    (libc::EBADMSG, c"keys do not match"),
    (libc::ECONNREFUSED, c"connection refused: nobody listens on that port, or there is no room"),
    (libc::ECONNRESET, c"connection reset: the peer, or its user, ended it"),
    (libc::EFAULT, c"a pointer is NULL that must not be"),
    (libc::EHOSTUNREACH, c"host unreachable: no underlay address or no way to the node is known"),
    (libc::EINPROGRESS, c"the connection is being opened: wait until the socket is writable"),
    (libc::EINVAL, c"the argument, or the state of the socket, does not fit the call"),
    (libc::EIO, c"a defect in this library"),
    (libc::EISCONN, c"the socket is connected already"),
    (libc::EMFILE, c"too many descriptors are open"),
    (libc::EMSGSIZE, c"message too long for this connection"),
    (libc::ENETDOWN, c"the node, or the link, is down"),
    (libc::ENETUNREACH, c"network unreachable: this host has no way to that address"),
    (libc::ENOBUFS, c"no memory or budget is left for a queue"),
    (libc::ENODATA, c"the peer closed, and everything was read"),
    (libc::ENOMEM, c"no memory is left"),
    (libc::ENOPROTOOPT, c"no such option, or it can be read only"),
    (libc::ENOSPC, c"no room is left"),
    (libc::ENOTCONN, c"the socket is not connected"),
    (libc::ENOTSUP, c"not after fork: call exec, or fork before the first call"),
    (libc::EPERM, c"the operating system does not permit it"),
    (libc::EPIPE, c"the connection is closed for sending"),
    (libc::EPROTO, c"a rule of the protocol was broken"),
    (libc::EPROTONOSUPPORT, c"the peer refused an option or the version"),
    (libc::EPROTOTYPE, c"one end is a stream and the other a datagram socket"),
    (libc::ETIMEDOUT, c"timed out: the peer did not answer in time"),
];

/// Names of the REASON codes, in their order (section 16).
const REASONS: [&CStr; 20] = [
    c"none",
    c"refused",
    c"unknown",
    c"abort",
    c"died",
    c"idle",
    c"gave up",
    c"stalled",
    c"protocol",
    c"service",
    c"option",
    c"version",
    c"too big",
    c"no room",
    c"forbidden",
    c"done",
    c"leaving",
    c"false ACK",
    c"keys",
    c"cookie",
];

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

fn words(errno: c_int) -> &'static CStr {
    ERRNO
        .iter()
        .find(|(number, _)| *number == errno)
        .map_or(c"an error that CDP does not name; see errno(3)", |row| row.1)
}

/// What `errno` means, for Rust.
pub(crate) fn errno_words(errno: c_int) -> &'static str {
    words(errno).to_str().unwrap_or_default()
}

/// The last failure of this thread as a sentence; see `cdp.h`.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_error() -> *const c_char {
    boundary::sentence()
}

/// What an errno means in CDP; see `cdp.h`.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_strerror(error: c_int) -> *const c_char {
    words(error).as_ptr()
}

/// The name of a REASON code; see `cdp.h`.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_reason_name(reason: u32) -> *const c_char {
    let known = usize::try_from(reason).ok().and_then(|index| REASONS.get(index));
    known.copied().unwrap_or(REASONS[usize::from(EndReason::None.code())]).as_ptr()
}

/// The version of this library; see `cdp.h`.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pointer: *const c_char) -> &'static str {
        // SAFETY: the functions under test return texts that live as long as the program.
        unsafe { CStr::from_ptr(pointer) }.to_str().unwrap()
    }

    #[test]
    fn every_reason_has_the_name_and_an_errno_that_has_words() {
        for code in 0..20_u16 {
            let reason = EndReason::from_code(code);
            assert_eq!(text(cdp_reason_name(code.into())).to_lowercase(), reason.name().to_lowercase());
            assert!(ERRNO.iter().any(|(errno, _)| *errno == reason.errno()), "{reason:?}");
        }
    }

    /// [CDP-ERR-1] An unknown REASON is taken as code 0.
    #[test]
    fn an_unknown_reason_is_none() {
        assert_eq!(text(cdp_reason_name(20)), "none");
        assert_eq!(text(cdp_reason_name(u32::MAX)), "none");
    }

    #[test]
    fn an_unknown_errno_has_words_too() {
        assert!(text(cdp_strerror(-5)).contains("errno(3)"));
        assert!(text(cdp_strerror(libc::EPIPE)).contains("closed for sending"));
    }

    #[test]
    fn the_version_is_that_of_the_workspace() {
        assert_eq!(text(cdp_version()), env!("CARGO_PKG_VERSION"));
    }
}
