//! What is asked of the kernel when the socket is opened.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, Socket, Type};

use crate::sockopt;

/// Other sockets of this process that may be bound to the same port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Beside {
    /// None.
    Nothing,
    /// Those that permit it (`SO_REUSEPORT`).
    Group,
    /// Those, and ones that do so without being of a group (`SO_REUSEADDR`).
    All,
}

/// A bound, non-blocking socket. One that is bound to an IPv6 wildcard address serves IPv4 as well.
pub(super) fn open(local: SocketAddr, beside: Beside) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if local.is_ipv6() {
        socket.set_only_v6(!local.ip().is_unspecified())?;
    }
    if beside != Beside::Nothing {
        socket.set_reuse_port(true)?;
    }
    if beside == Beside::All {
        socket.set_reuse_address(true)?;
    }
    socket.bind(&local.into())?;
    if beside == Beside::All {
        socket.set_reuse_address(false)?;
    }
    Ok(socket)
}

/// `to` as a socket of IPv6 (`is_v6`), where IPv4 addresses are mapped, or of IPv4 names it.
pub(super) fn target(to: SocketAddr, is_v6: bool) -> SocketAddr {
    match to {
        SocketAddr::V4(v4) if is_v6 => (v4.ip().to_ipv6_mapped(), v4.port()).into(),
        SocketAddr::V4(_) | SocketAddr::V6(_) => to,
    }
}

/// [CDP-MTU-6] Sends with IP fragmentation forbidden, whatever the kernel believes of the path: a packet that is too
/// large for the first interface is refused, and one that is too large for a later one is lost, as a probe must be.
pub(super) fn forbid_fragments(socket: &Socket, is_v6: bool) -> io::Result<()> {
    set_discovery(socket, is_v6, [libc::IP_PMTUDISC_PROBE, libc::IPV6_PMTUDISC_PROBE, 1])
}

/// [CDP-MTU-6] Sends with IP fragmentation allowed, until [`forbid_fragments`].
pub(super) fn allow_fragments(socket: &Socket, is_v6: bool) -> io::Result<()> {
    set_discovery(socket, is_v6, [libc::IP_PMTUDISC_DONT, libc::IPV6_PMTUDISC_DONT, 0])
}

fn set_discovery(socket: &Socket, is_v6: bool, [v4, v6, v6_whole]: [i32; 3]) -> io::Result<()> {
    if is_v6 {
        // Kernels differ in which of the two forbids fragments of the sender's own making.
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, v6_whole)?;
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, v6)?;
        // The same socket may send IPv4, where it is not bound to one IPv6 address.
        set(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, v4).or(Ok(()))
    } else {
        set(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, v4)
    }
}

/// Has the kernel keep what hosts say of packets sent earlier, with the beginning of the packet.
pub(super) fn ask_for_reports(socket: &Socket, is_v6: bool) -> io::Result<()> {
    if is_v6 {
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?;
        // The same socket may send IPv4, where it is not bound to one IPv6 address.
        return set(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1).or(Ok(()));
    }
    set(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1)
}

/// Asks for buffers of `bytes`: past the system's limit if that is permitted, else up to it.
pub(super) fn enlarge_buffers(socket: &Socket, bytes: usize) {
    sockopt::enlarge(socket.as_fd(), [libc::SO_SNDBUFFORCE, libc::SO_SNDBUF], bytes);
    sockopt::enlarge(socket.as_fd(), [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF], bytes);
}

/// Whether this kernel knows `UDP_SEGMENT`; whether the way out can do it shows when it is used.
pub(super) fn has_gso(socket: &Socket) -> bool {
    set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok()
}

/// Has the kernel cut what is sent into packets of `bytes`, where the call does not say itself how long they are; 0 for no cuts.
pub(super) fn cut(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    sockopt::set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, &i32::try_from(bytes).map_err(io::Error::other)?)
}

/// Has the kernel join packets that arrive. Whether it knows how.
pub(super) fn enable_gro(socket: &Socket) -> bool {
    set_gro(socket, true).is_ok()
}

/// Has the kernel join packets that arrive, or not.
pub(super) fn set_gro(socket: &Socket, joins: bool) -> io::Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_GRO, joins.into())
}

fn set(socket: &Socket, level: i32, name: i32, value: i32) -> io::Result<()> {
    sockopt::set(socket.as_fd(), level, name, &value)
}
