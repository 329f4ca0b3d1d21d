//! Receiving: one `recvmsg` into a region that holds anything, then slices.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;

use super::Udp;
use super::address::{self, Storage};
use crate::{RecvBatch, recv_batch::REGION_BYTES};

/// Room for one control message with an integer, aligned as control messages are.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Errors in a row after which a turn leaves the socket alone.
const ERRORS_MAX: usize = 16;

/// What one `recvmsg` brought.
enum Arrival {
    Packets(usize),
    Nothing,
    /// Something was reported or dropped; more may lie behind it.
    Again,
}

impl Udp {
    /// Receives until the socket is empty or the batch full.
    ///
    /// A port on which packets come one at a time, each after a wait (a ping-pong), is not asked again behind a lone
    /// packet: the answer leaves one system call earlier. It stops being such a port when a packet lies there at once.
    pub(super) fn recv_batch(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        let mut count = 0;
        let mut errors = 0;
        while batch.room() > 0 && errors < ERRORS_MAX {
            match self.recv_one(batch)? {
                Arrival::Nothing => {
                    batch.is_sparse = count <= 1;
                    break;
                }
                Arrival::Again => errors += 1,
                Arrival::Packets(1) if count == 0 && batch.is_sparse => {
                    batch.is_sparse = false;
                    return Ok(1);
                }
                Arrival::Packets(more) => count += more,
            }
        }
        Ok(count)
    }

    fn recv_one(&self, batch: &mut RecvBatch) -> io::Result<Arrival> {
        let mut from = Storage::uninit();
        let mut control = MaybeUninit::<Control>::uninit();
        let region = batch.region();
        let mut iov = libc::iovec { iov_base: region.as_mut_ptr().cast(), iov_len: REGION_BYTES };
        let mut message = libc::msghdr {
            msg_name: from.as_mut_ptr().cast(),
            msg_namelen: SOCKADDR_BYTES,
            msg_iov: &raw mut iov,
            msg_iovlen: 1,
            msg_control: control.as_mut_ptr().cast(),
            msg_controllen: size_of::<Control>(),
            msg_flags: 0,
        };
        // SAFETY: name, region and control room live, are ours, and have the lengths given; a region has at least
        // REGION_BYTES.
        let len = unsafe { libc::recvmsg(self.fd(), &raw mut message, libc::MSG_DONTWAIT) };
        let Ok(len) = usize::try_from(len) else {
            return self.handle_recv_error(&io::Error::last_os_error());
        };
        let from = address::parse(&from, message.msg_namelen);
        match from {
            Some(from) if message.msg_flags & libc::MSG_TRUNC == 0 => {
                let segment = segment_bytes(&message).unwrap_or(len);
                Ok(self.deliver(batch, from, len, segment))
            }
            _ => {
                self.counters.receive_truncated.add(1);
                Ok(Arrival::Again)
            }
        }
    }

    fn deliver(&self, batch: &mut RecvBatch, from: SocketAddr, len: usize, segment: usize) -> Arrival {
        // SAFETY: `recvmsg` has just written `len` bytes to the region.
        let packets = unsafe { batch.push_region(from, len, segment) };
        self.counters.received_packets.add(packets);
        self.counters.received_bytes.add(len);
        self.counters.receive_calls.add(1);
        Arrival::Packets(packets)
    }

    #[cold]
    fn handle_recv_error(&self, error: &io::Error) -> io::Result<Arrival> {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Ok(Arrival::Nothing),
            // What ICMP told of a packet sent earlier, or a datagram with a bad checksum: neither harms the socket.
            Some(
                libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::EHOSTDOWN
                | libc::ENETDOWN
                | libc::EMSGSIZE
                | libc::EPROTO
                | libc::ENOPROTOOPT
                | libc::EACCES
                | libc::ENOMEM
                | libc::ENOBUFS,
            ) => {
                self.counters.receive_errors.add(1);
                Ok(Arrival::Again)
            }
            _ => Err(io::Error::from(error.kind())),
        }
    }
}

#[allow(clippy::cast_possible_truncation)] // 28
const SOCKADDR_BYTES: libc::socklen_t = size_of::<libc::sockaddr_in6>() as libc::socklen_t;

/// The size of the datagrams that the kernel joined, or `None` if it joined none.
fn segment_bytes(message: &libc::msghdr) -> Option<usize> {
    // SAFETY: the kernel filled the control room and set its length.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: the pointer is null or to a control message within the room.
    while let Some(header) = unsafe { next.as_ref() } {
        if header.cmsg_level == libc::SOL_UDP && header.cmsg_type == libc::UDP_GRO {
            // SAFETY: the data of a control message lies behind its header.
            let data = unsafe { libc::CMSG_DATA(header) };
            // SAFETY: the data of UDP_GRO is one integer.
            let segment = unsafe { data.cast::<i32>().read_unaligned() };
            return usize::try_from(segment).ok();
        }
        // SAFETY: `header` lies within `message`.
        next = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}
