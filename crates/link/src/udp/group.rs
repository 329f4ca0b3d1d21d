//! Several UDP sockets that share an address (`SO_REUSEPORT`, socket(7)).
//!
//! Which of them gets what comes from an address and UDP port is up to a small program that the kernel runs. The kernel's own hash is cut to the
//! number of sockets: while a socket that is to be connected (see `direct`) is bound and not connected yet, half of all peers would meet another
//! one, the newcomer among them. What this program chooses stays, and the newcomer is never chosen.

use std::io;
use std::os::fd::AsFd;

use socket2::Socket;

use crate::steer;

const IP_VERSION_6: u32 = 6;
/// Where an IPv4 header has the last word of the source address, and where the source port follows it.
const V4_SOURCE: (i32, i32) = (12, 20);
/// The same of an IPv6 header without extensions.
const V6_SOURCE: (i32, i32) = (20, 40);

/// Has the group of `socket`, of which it is one of the first `count`, share by source.
///
/// Ports of one host that follow each other go to different sockets, and hosts are spread by their addresses.
pub(super) fn share(socket: &Socket, count: usize) -> io::Result<()> {
    let count = u32::try_from(count).map_err(io::Error::other)?;
    let at = |offset| libc::SKF_NET_OFF + offset;
    let source = |(address, port): (i32, i32)| {
        let [load, multiply, shift] = steer::hash_at(at(address));
        [load, multiply, shift, steer::put_aside(), steer::half_at(at(port)), steer::add_aside()]
    };
    let (v4, v6) = (source(V4_SOURCE), source(V6_SOURCE));
    let mut program = vec![steer::byte_at(at(0)), steer::with(libc::BPF_RSH, 4)];
    // Each of the two parts is six steps long, and the one for IPv6 skips the other.
    program.push(steer::skip_unless(IP_VERSION_6, 7));
    program.extend(v6);
    program.push(steer::skip(6));
    program.extend(v4);
    program.extend([steer::with(libc::BPF_MOD, count), steer::answer()]);
    steer::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &mut program)
}
