//! What hosts say of packets sent earlier: that nobody has the UDP port they went to.
//!
//! The kernel keeps these messages apart from what arrives, each with the beginning of the packet that it is about, and
//! says that there are some by an error of the next call. Nothing is asked for before such an error.

use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::ptr;

use super::address::{self, Storage};
use crate::recv_batch::{HEAD_BYTES, Refusal};
use crate::sys;

/// Messages read at a time.
const READ_MAX: usize = 64;
/// "Destination unreachable", and of its codes "port unreachable": of ICMP, and of ICMP for IPv6.
const PORT_UNREACHABLE: [(u8, u8, u8); 2] =
    [(libc::SO_EE_ORIGIN_ICMP, 3, 3), (libc::SO_EE_ORIGIN_ICMP6, 1, 4)];

/// Room for the message of the kernel and the address of who sent it, aligned as control messages are.
#[repr(C, align(8))]
struct Control([u8; 256]);

/// Reads what is kept at the socket `fd`, and gives the refusals to `give`; all else is dropped. Whether more may be left,
/// of which the kernel says nothing but that the descriptor is ready.
#[cold]
pub(super) fn read(fd: RawFd, mut give: impl FnMut(Refusal)) -> bool {
    for _ in 0..READ_MAX {
        match read_one(fd) {
            Some(Some(refusal)) => give(refusal),
            Some(None) => {}
            None => return false,
        }
    }
    true
}

/// One message, if there is one; and the refusal, if it is one.
fn read_one(fd: RawFd) -> Option<Option<Refusal>> {
    let mut to = Storage::uninit();
    let mut control = MaybeUninit::<Control>::uninit();
    let mut head = [0_u8; HEAD_BYTES];
    let mut iov = libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: HEAD_BYTES };
    let mut message = libc::msghdr {
        msg_name: to.as_mut_ptr().cast(),
        msg_namelen: address::STORAGE_BYTES,
        msg_iov: &raw mut iov,
        msg_iovlen: 1,
        msg_control: control.as_mut_ptr().cast(),
        msg_controllen: size_of::<Control>(),
        msg_flags: 0,
    };
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: name, buffer and control room live, are ours, and have the lengths given.
    let len = unsafe { sys::recvmsg(fd, &raw mut message, flags) };
    let len = usize::try_from(len).ok()?;
    let to: Option<SocketAddr> = address::parse(&to, message.msg_namelen);
    let is_whole = len == HEAD_BYTES && is_port_unreachable(&message);
    Some(to.filter(|_| is_whole).map(|to| Refusal { to, head }))
}

fn is_port_unreachable(message: &libc::msghdr) -> bool {
    // SAFETY: the kernel filled the control room and set its length.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: the pointer is null or to a control message within the room.
    while let Some(header) = unsafe { next.as_ref() } {
        let is_error = matches!(
            (header.cmsg_level, header.cmsg_type),
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
        );
        if is_error {
            // SAFETY: the data of a control message lies behind its header.
            let data = unsafe { libc::CMSG_DATA(header) };
            // SAFETY: the data of this one begins with such an error, at any alignment.
            let error = unsafe { ptr::read_unaligned(data.cast::<libc::sock_extended_err>()) };
            return PORT_UNREACHABLE.contains(&(error.ee_origin, error.ee_type, error.ee_code));
        }
        // SAFETY: `header` lies within `message`.
        next = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    false
}
