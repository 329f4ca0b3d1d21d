//! Whole Ethernet frames of one interface, as a program between two of them sees them: a packet socket, many frames a call.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Frames that one call takes or gives at most.
pub const BATCH_FRAMES: usize = 64;
/// Bytes of the kernel's queue of frames that came.
const QUEUE_BYTES: i32 = 64 << 20;

/// One interface.
#[derive(Debug)]
pub struct Cable {
    socket: OwnedFd,
    frame_bytes_max: usize,
    /// Room for a batch that comes in.
    room: Vec<u8>,
}

impl Cable {
    /// Takes hold of the interface `name`, for frames of at most `frame_bytes_max` bytes.
    ///
    /// # Errors
    /// That there is no such interface, or what the kernel says.
    #[allow(clippy::cast_possible_truncation)] // constants and the size of a small type
    pub fn open(name: &str, frame_bytes_max: usize) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers. The protocol is set with the interface below.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given this descriptor.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // What this socket sends is not to come back.
        crate::sockets::set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        crate::sockets::set(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
        crate::sockets::set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, QUEUE_BYTES)?;
        let text = CString::new(name)?;
        // SAFETY: the name ends with a zero byte.
        let index = unsafe { libc::if_nametoindex(text.as_ptr()) };
        if index == 0 {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("no interface \"{name}\"")));
        }
        // SAFETY: all bits zero are a value of this type.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index.cast_signed();
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address lives and has the length given.
        let bound = unsafe { libc::bind(fd, (&raw const address).cast(), len) };
        if bound < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { socket, frame_bytes_max, room: vec![0; BATCH_FRAMES * frame_bytes_max] })
    }

    /// The descriptor to wait for.
    #[must_use]
    pub fn fd(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    /// Frames that the kernel dropped since the last question, because nobody took them in time.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn dropped(&self) -> io::Result<u32> {
        let mut counts = [0u32; 2];
        let mut len = libc::socklen_t::try_from(size_of_val(&counts)).map_err(io::Error::other)?;
        let (fd, into) = (self.socket.as_raw_fd(), (&raw mut counts).cast());
        // SAFETY: the counts live through the call and have the length given.
        let asked =
            unsafe { libc::getsockopt(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, into, &raw mut len) };
        if asked < 0 { Err(io::Error::last_os_error()) } else { Ok(counts[1]) }
    }

    /// Shows the frames that came, at most [`BATCH_FRAMES`], to `each`; returns how many there were.
    ///
    /// # Errors
    /// What the kernel says, save that there is nothing.
    pub fn recv(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<usize> {
        let size = self.frame_bytes_max;
        let mut pieces: Vec<libc::iovec> = self.room.chunks_mut(size).map(piece).collect();
        let mut headers: Vec<libc::mmsghdr> = pieces.iter_mut().map(header).collect();
        let (fd, count) = (self.socket.as_raw_fd(), u32::try_from(BATCH_FRAMES).map_err(io::Error::other)?);
        // SAFETY: headers, pieces and the room that they point to live through the call and are ours alone.
        let came = unsafe { libc::recvmmsg(fd, headers.as_mut_ptr(), count, 0, std::ptr::null_mut()) };
        let came = usize::try_from(came).or_else(|_| nothing_yet())?;
        for (header, frame) in headers.iter().zip(self.room.chunks(size)).take(came) {
            each(&frame[..(header.msg_len as usize).min(size)]);
        }
        Ok(came)
    }

    /// Sends `frames`, at most [`BATCH_FRAMES`]; returns how many the interface took.
    ///
    /// # Errors
    /// What the kernel says, save that its queue is full.
    pub fn send(&self, frames: &mut [&mut [u8]]) -> io::Result<usize> {
        let mut pieces: Vec<libc::iovec> = frames.iter_mut().map(|frame| piece(frame)).collect();
        let mut headers: Vec<libc::mmsghdr> = pieces.iter_mut().map(header).collect();
        let count = libc::c_uint::try_from(headers.len()).map_err(io::Error::other)?;
        // SAFETY: headers, pieces and frames live through the call.
        let taken = unsafe { libc::sendmmsg(self.socket.as_raw_fd(), headers.as_mut_ptr(), count, 0) };
        usize::try_from(taken).or_else(|_| nothing_yet())
    }
}

fn piece(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

fn header(piece: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: all bits zero are a value of this type.
    let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
    header.msg_hdr.msg_iov = piece;
    header.msg_hdr.msg_iovlen = 1;
    header
}

/// After a failed call: 0 where that only means "not now".
fn nothing_yet() -> io::Result<usize> {
    let error = io::Error::last_os_error();
    let is_later = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
    if is_later || error.raw_os_error() == Some(libc::ENOBUFS) { Ok(0) } else { Err(error) }
}
