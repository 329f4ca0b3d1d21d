//! The calls up to an open connection: socket, bind, listen, connect, accept, options, names.

use std::ffi::{c_int, c_void};

use weft_socket::{Service, Socket};

use crate::addr::CdpAddr;
use crate::boundary::{self, Failure};
use crate::descriptors::{self, Named};
use crate::entry::{Entry, State};
use crate::node;
use crate::options::{self, Values};

/// Messages with boundaries.
pub const CDP_DATAGRAM: c_int = 1;
/// Bytes in order.
pub const CDP_STREAM: c_int = 2;

/// Makes a socket on the default node; see `cdp.h`.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_socket(service: c_int) -> c_int {
    cdp_socket_on(node::CDP_NODE_DEFAULT, service)
}

/// Makes a socket on a node; see `cdp.h`.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_socket_on(node: c_int, service: c_int) -> c_int {
    boundary::call(|| {
        let service = match service {
            CDP_DATAGRAM => Service::Datagram,
            CDP_STREAM => Service::Stream,
            other => {
                let sentence = format!("{other} is no service; give CDP_DATAGRAM or CDP_STREAM");
                return Err(Failure::invalid(sentence));
            }
        };
        let entry = Entry::new(node::named(node)?, service, State::Fresh, 0, Values::default());
        descriptors::insert(Named::Socket(entry))
    })
}

/// Chooses the local port; see `cdp.h`.
///
/// # Safety
/// `addr` is NULL or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_bind(s: c_int, addr: *const CdpAddr) -> c_int {
    boundary::call(|| {
        let entry = descriptors::socket(s)?;
        // SAFETY: by the contract of this function.
        entry.bind(&unsafe { boundary::read(addr) }?)?;
        Ok(0)
    })
}

/// Takes connections; see `cdp.h`.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_listen(s: c_int, accept_limit: c_int) -> c_int {
    boundary::call(|| descriptors::socket(s)?.listen(accept_limit).map(|()| 0))
}

/// Takes the next connection; see `cdp.h`.
///
/// # Safety
/// `peer` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_accept(s: c_int, peer: *mut CdpAddr) -> c_int {
    boundary::call(|| {
        let (accepted, socket) = descriptors::socket(s)?.accept()?;
        if !peer.is_null() {
            // SAFETY: by the contract of this function.
            unsafe { boundary::write(peer, peer_of(&socket)) }?;
        }
        Ok(accepted)
    })
}

fn peer_of(socket: &Socket) -> CdpAddr {
    CdpAddr::from(socket.peer_address()).with_underlay(socket.peer_underlay())
}

/// Connects; see `cdp.h`.
///
/// # Safety
/// `addr` is NULL or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_connect(s: c_int, addr: *const CdpAddr) -> c_int {
    boundary::call(|| {
        let entry = descriptors::socket(s)?;
        // SAFETY: by the contract of this function.
        entry.connect(&unsafe { boundary::read(addr) }?)?;
        Ok(0)
    })
}

/// Sets an option; see `cdp.h`.
///
/// # Safety
/// `value` is NULL or has `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_setsockopt(s: c_int, option: c_int, value: *const c_void, len: usize) -> c_int {
    boundary::call(|| {
        let entry = descriptors::socket(s)?;
        let value = match len {
            // SAFETY: by the contract of this function.
            4 => i64::from(unsafe { boundary::read(value.cast::<i32>()) }?),
            // SAFETY: by the contract of this function.
            8 => unsafe { boundary::read(value.cast::<i64>()) }?,
            _ => return Err(wrong_len(len)),
        };
        entry.set(option, value)?;
        Ok(0)
    })
}

/// Gets an option; see `cdp.h`.
///
/// # Safety
/// `len` is NULL or readable; `value` is NULL or has `*len` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_getsockopt(
    s: c_int,
    option: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    boundary::call(|| {
        let entry = descriptors::socket(s)?;
        // SAFETY: by the contract of this function.
        let len = unsafe { boundary::read(len) }?;
        // What is wrong must show before an error is told, which is told once.
        options::row(option)?;
        match len {
            // SAFETY: by the contract of this function.
            4 => unsafe { boundary::write(value.cast(), 0_i32) }?,
            // SAFETY: by the contract of this function.
            8 => unsafe { boundary::write(value.cast(), 0_i64) }?,
            _ => return Err(wrong_len(len)),
        }
        let found = entry.get(option)?;
        match len {
            4 => {
                let narrow = i32::try_from(found).map_err(|_| {
                    Failure::invalid(format!("the value {found} does not fit 4 bytes; give an int64_t"))
                })?;
                // SAFETY: by the contract of this function.
                unsafe { boundary::write(value.cast(), narrow) }?;
            }
            // SAFETY: by the contract of this function.
            8 => unsafe { boundary::write(value.cast(), found) }?,
            _ => return Err(wrong_len(len)),
        }
        Ok(0)
    })
}

fn wrong_len(len: usize) -> Failure {
    Failure::invalid(format!("an option of {len} bytes; give an int (4) or an int64_t (8)"))
}

/// Gives this end; see `cdp.h`.
///
/// # Safety
/// `addr` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_getsockname(s: c_int, addr: *mut CdpAddr) -> c_int {
    boundary::call(|| {
        let local = descriptors::socket(s)?.local();
        // SAFETY: by the contract of this function.
        unsafe { boundary::write(addr, local) }?;
        Ok(0)
    })
}

/// Gives the other end; see `cdp.h`.
///
/// # Safety
/// `addr` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_getpeername(s: c_int, addr: *mut CdpAddr) -> c_int {
    boundary::call(|| {
        let socket = descriptors::socket(s)?.connected()?;
        // SAFETY: by the contract of this function.
        unsafe { boundary::write(addr, peer_of(&socket)) }?;
        Ok(0)
    })
}
