//! What is asked of the kernel when a packet socket is opened.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};

use super::ethernet::ETHERTYPE;
use crate::sockopt;

/// A packet socket that hears nothing yet.
pub(super) fn open() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Whether this process may open packet sockets.
///
/// # Errors
/// What the kernel says, [`io::ErrorKind::PermissionDenied`] if it lacks `CAP_NET_RAW`.
pub(crate) fn permission() -> io::Result<()> {
    open().map(drop)
}

/// Lets the socket hear frames of our EtherType on one interface, and send on it. Never all frames: those would also be
/// seen before a firewall had its say.
pub(super) fn bind(fd: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    // SAFETY: all bits zero are a value of this type.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET.try_into().map_err(io::Error::other)?;
    address.sll_protocol = ETHERTYPE.to_be();
    address.sll_ifindex = index.try_into().map_err(io::Error::other)?;
    let len = libc::socklen_t::try_from(size_of_val(&address)).map_err(io::Error::other)?;
    // SAFETY: the address lives through the call and has the length given.
    match unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends past the queueing discipline, straight to the device. A kernel that cannot sends by the discipline.
pub(super) fn bypass_queue(fd: BorrowedFd<'_>) {
    let _ = sockopt::set(fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1i32);
}

/// Bytes the kernel keeps for frames to be sent.
pub(super) fn send_buffer_bytes(fd: RawFd) -> usize {
    sockopt::integers(fd, libc::SOL_SOCKET, libc::SO_SNDBUF).map_or(0, |[bytes]| bytes as usize)
}

/// Takes the error that lies at the socket, such as that its interface went down; `None` if none does.
pub(super) fn take_error(fd: RawFd) -> Option<i32> {
    let [error] = sockopt::integers(fd, libc::SOL_SOCKET, libc::SO_ERROR)?;
    (error != 0).then_some(error.cast_signed())
}

/// Frames that found the ring full since this was last asked.
pub(super) fn take_overflows(fd: RawFd) -> usize {
    sockopt::integers(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS).map_or(0, |[_, drops]| drops as usize)
}

/// Claims the interface for one node of this network namespace: an Ethernet address has no ports, so that two nodes would hear
/// each other's packets. `None` if somebody has it. The claim ends with the value, however the process ends.
pub(super) fn claim(index: u32) -> io::Result<Option<UnixDatagram>> {
    let name = UnixAddress::from_abstract_name(format!("weft-packet-{index}"))?;
    match UnixDatagram::bind_addr(&name) {
        Ok(claim) => Ok(Some(claim)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(error),
    }
}
