//! What the runtime in C tells of its fibers (`fiber_list` of `fiber.h`, and `stat_name`).

use std::ffi::c_int;
use std::io::ErrorKind;

use weft_fiber::{Handle, Listed};
use weft_socket::stat::{self, Detail, Offer};

use crate::boundary::{Failure, call};
use crate::fiber::handle;

/// Prints the fibers to the standard error; returns how many there are.
#[unsafe(no_mangle)]
pub extern "C" fn fiber_list() -> c_int {
    call(|| Ok(print(&handle()?.list())))
}

/// Prints the fibers with their innermost calls.
#[unsafe(no_mangle)]
pub extern "C" fn fiber_list_frames() -> c_int {
    call(|| Ok(print(&handle()?.list_with_frames())))
}

fn print(fibers: &[Listed]) -> c_int {
    fibers.iter().for_each(|fiber| eprintln!("{fiber}"));
    c_int::try_from(fibers.len()).unwrap_or(c_int::MAX)
}

/// Has a signal print the fibers to the standard error.
#[unsafe(no_mangle)]
pub extern "C" fn fiber_list_on_signal(signal: c_int) -> c_int {
    call(|| {
        let watched = weft_fiber::list_on_signal(signal);
        watched.map(|()| 0).map_err(|error| Failure::new(error.raw_os_error().unwrap_or(libc::EINVAL), error))
    })
}

/// Tells of the runtime's fibers under `name`.
pub(crate) fn offered(name: &str, handle: Handle) -> Result<Offer, Failure> {
    let describe = move |detail| match detail {
        Detail::Frames => handle.to_json_with_frames(),
        Detail::Usual | _ => handle.to_json(),
    };
    stat::offer_detailed(name, describe).map_err(|error| {
        let in_use = if error.kind() == ErrorKind::AddrInUse { libc::EADDRINUSE } else { libc::EINVAL };
        Failure::new(error.raw_os_error().unwrap_or(in_use), error)
    })
}
