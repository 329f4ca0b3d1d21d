//! Connections: send, receive, close, readiness.

use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use libc::ssize_t;
use weft_socket::{CloseError, CloseResult, Interest, Received, Socket};

use crate::boundary::{self, Failure};
use crate::descriptors;
use crate::entry::{Entry, State};

/// This call does not wait.
pub const CDP_DONTWAIT: c_int = 1;
/// A receive returns the length of the message, even if it was cut.
pub const CDP_TRUNC: c_int = 2;
/// A receive or accept would not wait.
pub const CDP_READABLE: c_int = 1;
/// A send would not wait; a connect has its result.
pub const CDP_WRITABLE: c_int = 2;
/// The result of a close is there.
pub const CDP_CLOSED: c_int = 3;

/// `struct cdp_close_result`: what became of a connection that was closed.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CdpCloseResult {
    /// 1 if the peer acknowledged the end, or had closed first.
    pub confirmed: u32,
    /// Packets acknowledged here that no reader took.
    pub discarded_here: u32,
    /// Packets of ours that the peer says no reader took.
    pub discarded_by_peer: u32,
    /// REASON code of section 16.
    pub reason: u32,
    /// Packets of ours that were dropped as the peer had closed first.
    pub undelivered: u64,
}

impl From<CloseResult> for CdpCloseResult {
    fn from(result: CloseResult) -> Self {
        Self {
            confirmed: result.confirmed.into(),
            discarded_here: result.discarded_here,
            discarded_by_peer: result.discarded_by_peer,
            reason: result.reason.code().into(),
            undelivered: result.undelivered,
        }
    }
}

fn check_flags(flags: c_int, known: c_int) -> Result<(), Failure> {
    if flags & !known != 0 {
        return Err(Failure::invalid(format!("flags {flags:#x} have a bit without a meaning for this call")));
    }
    Ok(())
}

fn counted(len: usize) -> Result<ssize_t, Failure> {
    ssize_t::try_from(len).map_err(Failure::invalid)
}

/// Sends; see `cdp.h`.
///
/// # Safety
/// `data` is NULL or has `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_send(s: c_int, data: *const c_void, len: usize, flags: c_int) -> ssize_t {
    boundary::call(|| {
        let entry = descriptors::socket(s)?;
        check_flags(flags, CDP_DONTWAIT)?;
        // SAFETY: by the contract of this function.
        let data = unsafe { boundary::bytes(data.cast(), len) }?;
        let socket = entry.connected()?;
        if data.is_empty() && !entry.is_datagram() {
            return Ok(0);
        }
        let sent = if flags & CDP_DONTWAIT != 0 { socket.try_send(data) } else { socket.send(data) };
        counted(sent?)
    })
}

/// Receives; see `cdp.h`.
///
/// # Safety
/// `buffer` is NULL or has `len` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_recv(s: c_int, buffer: *mut c_void, len: usize, flags: c_int) -> ssize_t {
    boundary::call(|| {
        let entry = descriptors::socket(s)?;
        check_flags(flags, CDP_DONTWAIT | CDP_TRUNC)?;
        // SAFETY: by the contract of this function.
        let buffer = unsafe { boundary::bytes_mut(buffer.cast(), len) }?;
        let socket = entry.connected()?;
        if buffer.is_empty() && !entry.is_datagram() {
            return Ok(0);
        }
        let received = match flags & CDP_DONTWAIT != 0 {
            true if entry.is_datagram() => {
                let message = socket.try_recv_message()?;
                copy(message.parts().iter().map(AsRef::as_ref), message.len(), buffer)
            }
            true => Received { len: socket.try_recv(buffer)?, truncated: 0 },
            false => socket.recv_whole(buffer)?,
        };
        counted(received.len + if flags & CDP_TRUNC != 0 { received.truncated } else { 0 })
    })
}

/// Copies as much of a message of `whole` bytes in `parts` as `buffer` holds.
fn copy<'a>(parts: impl Iterator<Item = &'a [u8]>, whole: usize, buffer: &mut [u8]) -> Received {
    let mut len = 0;
    for part in parts {
        let room = &mut buffer[len..];
        let taken = part.len().min(room.len());
        room[..taken].copy_from_slice(&part[..taken]);
        len += taken;
    }
    Received { len, truncated: whole - len }
}

/// Makes gathered datagrams leave; see `cdp.h`.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_flush(s: c_int) -> c_int {
    boundary::call(|| {
        descriptors::socket(s)?.connected()?.flush();
        Ok(0)
    })
}

/// Takes the descriptor `s` away from its socket, and gives what it was.
fn take(s: c_int) -> Result<(Arc<Entry>, State), Failure> {
    let entry = descriptors::socket(s)?;
    if !descriptors::remove(s, &entry) {
        return Err(Failure::new(libc::EBADF, "the socket was closed by another thread"));
    }
    let state = entry.take();
    Ok((entry, state))
}

/// Closes a socket; see `cdp.h`.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_close(s: c_int) -> c_int {
    boundary::call(|| {
        let (entry, state) = take(s)?;
        match state {
            State::Fresh | State::Closed => Ok(0),
            State::Listening(listener) => {
                listener.close();
                Ok(0)
            }
            State::Connecting(socket) if !is_open(&socket) => {
                socket.close_start();
                Ok(0)
            }
            State::Connecting(socket) | State::Connected(socket) => close_and_wait(&entry, &socket),
        }
    })
}

/// Whether a connect that nobody asked for its result since went well.
fn is_open(socket: &Socket) -> bool {
    socket.is_writable() && socket.connect_finish().is_ok()
}

fn close_and_wait(entry: &Entry, socket: &Socket) -> Result<c_int, Failure> {
    let outcome = match entry.close_timeout() {
        Some(limit) => socket.close_timeout(limit),
        None => socket.close(),
    };
    match outcome {
        Ok(_) | Err(CloseError::WouldBlock | CloseError::TimedOut(_)) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Closes a connection and tells what became of it; see `cdp.h`.
///
/// # Safety
/// `result` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_close_result(s: c_int, timeout_ms: c_int, result: *mut CdpCloseResult) -> c_int {
    boundary::call(|| {
        let entry = descriptors::socket(s)?;
        // A NULL must show before anything is closed.
        // SAFETY: by the contract of this function.
        unsafe { boundary::write(result, CdpCloseResult::default()) }?;
        let socket = entry.connected()?;
        let outcome = close_within(&entry, &socket, timeout_ms);
        if matches!(outcome, Err(CloseError::WouldBlock | CloseError::TimedOut(_))) {
            return Err(Failure::new(libc::EAGAIN, ""));
        }
        let _ = take(s)?;
        // SAFETY: by the contract of this function.
        unsafe { boundary::write(result, outcome?.into()) }?;
        Ok(0)
    })
}

fn close_within(entry: &Entry, socket: &Socket, timeout_ms: c_int) -> Result<CloseResult, CloseError> {
    let limit = match u64::try_from(timeout_ms) {
        Ok(0) => {
            socket.close_start();
            return socket.close_result().unwrap_or(Err(CloseError::WouldBlock));
        }
        Ok(ms) => Some(Duration::from_millis(ms)),
        Err(_) => entry.close_timeout(),
    };
    // The caller says how long to wait; whether the socket's calls wait in general does not matter now.
    socket.wait_closed(limit)
}

/// Begins to close; see `cdp.h`.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_shutdown(s: c_int) -> c_int {
    boundary::call(|| {
        descriptors::socket(s)?.connected()?.close_start();
        Ok(0)
    })
}

/// Ends a connection by a reset; see `cdp.h`.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_abort(s: c_int) -> c_int {
    boundary::call(|| {
        let socket = descriptors::socket(s)?.connected()?;
        take(s)?;
        socket.abort();
        Ok(0)
    })
}

/// Gives a descriptor of the operating system for a condition; see `cdp.h`.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_poll_fd(s: c_int, condition: c_int) -> c_int {
    boundary::call(|| {
        let entry = descriptors::socket(s)?;
        let interest = match condition {
            CDP_READABLE => Interest::Readable,
            CDP_WRITABLE => Interest::Writable,
            CDP_CLOSED => Interest::Closed,
            other => {
                return Err(Failure::invalid(format!(
                    "{other} is no condition; give CDP_READABLE and the like"
                )));
            }
        };
        let state = entry.state();
        let index = usize::try_from(condition - 1).unwrap_or(usize::MAX);
        let readiness = entry.readiness(index, || match (state, interest) {
            (State::Listening(listener), Interest::Readable) => {
                listener.readiness().map_err(Failure::no_descriptor)
            }
            (State::Connecting(socket) | State::Connected(socket), interest) => {
                socket.readiness(interest).map_err(Failure::no_descriptor)
            }
            (State::Fresh | State::Closed | State::Listening(_), _) => {
                Err(Failure::invalid("the socket is in no state in which this condition can come to hold"))
            }
        })?;
        Ok(readiness.as_raw_fd())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_to_its_buffer_and_the_cut_is_counted() {
        let copy = |buffer: &mut [u8]| copy([&b"abc"[..], b"", b"defg"].into_iter(), 7, buffer);
        let mut buffer = [0; 5];
        assert_eq!(copy(&mut buffer), Received { len: 5, truncated: 2 });
        assert_eq!(&buffer, b"abcde");
        assert_eq!(copy(&mut []), Received { len: 0, truncated: 7 });
        let mut wide = [9; 8];
        assert_eq!(copy(&mut wide), Received { len: 7, truncated: 0 });
        assert_eq!(&wide, b"abcdefg\x09");
    }

    #[test]
    fn flags_without_a_meaning_are_refused() {
        assert!(check_flags(CDP_TRUNC, CDP_DONTWAIT).unwrap_err().sentence.contains("0x2"));
        assert_eq!(check_flags(CDP_TRUNC | CDP_DONTWAIT, 3), Ok(()));
    }
}
