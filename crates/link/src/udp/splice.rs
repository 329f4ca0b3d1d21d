//! Large packets, or groups, that the kernel takes from where they lie, and whoever receives them on this host reads there.
//!
//! A pipe takes the pages of a packet (`vmsplice`) and a connected socket takes them out of the pipe as one packet (`splice`), or as several if it was told to cut: two
//! calls instead of one, and no copy. The pages are read until the packet is received or dropped, so the sender gives them to nobody
//! else, and writes to them again when the packet is acknowledged: of a second copy that comes late, the checksum no longer fits.

use std::ffi::CStr;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::BorrowedFd;
use std::sync::Mutex;

use rustix::io::Errno;
use rustix::pipe::{IoSliceRaw, SpliceFlags};

/// Bytes of the smallest packet that is taken: below, a copy costs less than the two calls.
const PACKET_BYTES_MIN: usize = 32 << 10;
/// Bytes of the smallest group: half a chunk, where no more leaves as one.
const GROUP_BYTES_MIN: usize = 16 << 10;
/// Pages of the largest one: what a pipe holds, and what the kernel makes one packet of.
const PAGES_MAX: usize = 16;
/// Kernels before this one make a packet of spliced pages in several steps, in between of which other threads' may get into it.
const KERNEL_MIN: (u32, u32) = (6, 5);

/// What takes packets, unless another thread has it just now.
#[derive(Debug, Default)]
pub(super) struct Splice(Mutex<Pipe>);

#[derive(Debug, Default)]
enum Pipe {
    #[default]
    Untried,
    Empty(PipeReader, PipeWriter),
    /// The system does not let it.
    Refused,
}

impl Splice {
    /// Whether `bytes`, a packet or a group, which lie in pages that hold nothing else, are for this way.
    pub(super) fn takes(bytes: &[u8], is_group: bool) -> bool {
        let least = if is_group { GROUP_BYTES_MIN } else { PACKET_BYTES_MIN };
        bytes.len() >= least && pages(bytes) <= PAGES_MAX
    }

    /// Whether the system let it be tried and does not take packets.
    pub(super) fn is_refused(&self) -> bool {
        self.0.try_lock().is_ok_and(|pipe| matches!(*pipe, Pipe::Refused))
    }

    /// Sends such a packet by a connected socket. False if there is no such way.
    ///
    /// # Errors
    /// What the socket says, of this packet or of one before. It was not sent.
    pub(super) fn send(&self, socket: BorrowedFd<'_>, packet: &[u8]) -> io::Result<bool> {
        let Ok(mut pipe) = self.0.try_lock() else { return Ok(false) };
        if matches!(*pipe, Pipe::Untried) {
            *pipe = Pipe::open();
        }
        let Pipe::Empty(reader, writer) = &*pipe else { return Ok(false) };
        if !fill(writer, packet) {
            *pipe = Pipe::Refused;
            return Ok(false);
        }
        match rustix::pipe::splice(reader, None, socket, None, packet.len(), SpliceFlags::NONBLOCK) {
            Ok(sent) if sent == packet.len() => Ok(true),
            Ok(_) | Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                *pipe = Pipe::Refused;
                Ok(false)
            }
            Err(error) => {
                // What is left in it goes with it.
                *pipe = Pipe::Untried;
                Err(error.into())
            }
        }
    }
}

impl Pipe {
    #[cold]
    fn open() -> Self {
        let is_new = version(rustix::system::uname().release()).is_some_and(|version| version >= KERNEL_MIN);
        let pipe = is_new.then(io::pipe).and_then(Result::ok);
        pipe.map_or(Self::Refused, |(reader, writer)| Self::Empty(reader, writer))
    }
}

/// Puts the pages of a packet into the pipe, and tells whether all are there.
fn fill(writer: &PipeWriter, packet: &[u8]) -> bool {
    let pieces = [IoSliceRaw::from_slice(packet)];
    // SAFETY: who reads the bytes later holds the pages, which nothing else comes to lie in.
    let given = unsafe { rustix::pipe::vmsplice(writer, &pieces, SpliceFlags::NONBLOCK) };
    given == Ok(packet.len())
}

/// How many pages `bytes` lie in.
fn pages(bytes: &[u8]) -> usize {
    let page_bytes = rustix::param::page_size();
    (bytes.as_ptr().addr() % page_bytes + bytes.len()).div_ceil(page_bytes)
}

/// The first two numbers of a kernel's version.
fn version(release: &CStr) -> Option<(u32, u32)> {
    let mut numbers = release.to_str().ok()?.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::Duration;

    use weft_frame::{FrameBuffer, Frames, Pages};

    use super::*;
    use crate::udp::options;

    fn pair() -> (UdpSocket, UdpSocket) {
        let (from, to) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        from.connect(to.local_addr().unwrap()).unwrap();
        to.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        (from, to)
    }

    fn packet(buffer: &mut FrameBuffer, len: usize, byte: u8) -> Frames {
        let start = buffer.len();
        buffer.put(&vec![byte; len]);
        buffer.freeze(buffer.len());
        buffer.frames(start..buffer.len()).to_frames()
    }

    #[test]
    fn a_large_packet_arrives_as_it_is_and_its_memory_may_go_before() {
        let ((from, to), splice) = (pair(), Splice::default());
        let mut buffer = Pages::default().buffer(65_507);
        let large = packet(&mut buffer, 65_507, 7);
        assert!(large.is_pages());
        if !splice.send(from.as_fd(), &large).unwrap() {
            assert!(matches!(*splice.0.lock().unwrap(), Pipe::Refused));
            weft_skip::skipped!("the kernel takes no spliced packets, which needs Linux 6.5");
            return;
        }
        drop((buffer, large));
        let mut room = vec![0; 70_000];
        assert_eq!(to.recv(&mut room).unwrap(), 65_507);
        assert!(room[..65_507].iter().all(|&byte| byte == 7));
    }

    #[test]
    fn a_group_arrives_as_its_packets_and_what_follows_is_not_cut() {
        let ((from, to), splice) = (pair(), Splice::default());
        let mut buffer = Pages::default().buffer(44 * 1_472);
        let packets: Vec<_> = (0..44).map(|byte| packet(&mut buffer, 1_472, byte)).collect();
        let group = buffer.frames(0..buffer.len()).to_frames();
        if options::cut(from.as_fd(), 1_472).is_err() || !splice.send(from.as_fd(), &group).unwrap() {
            weft_skip::skipped!("the kernel takes no spliced groups, which needs Linux 6.5");
            return;
        }
        options::cut(from.as_fd(), 0).unwrap();
        from.send(&[9; 5_000]).unwrap();
        let mut room = vec![0; 70_000];
        for packet in &packets {
            assert_eq!(to.recv(&mut room).unwrap(), 1_472);
            assert_eq!(room[..1_472], packet[..]);
        }
        assert_eq!(to.recv(&mut room).unwrap(), 5_000);
    }

    #[test]
    fn a_small_packet_and_one_in_too_many_pages_are_left_to_be_copied() {
        let mut buffer = Pages::default().buffer(128 << 10);
        let small = packet(&mut buffer, PACKET_BYTES_MIN - 1, 1);
        assert!(!Splice::takes(&small, false) && Splice::takes(&small, true));
        assert!(!Splice::takes(&small[..GROUP_BYTES_MIN - 1], true));
        assert!(!Splice::takes(&packet(&mut buffer, 65_507, 2), false), "it begins at the end of a page");
        assert!(Splice::takes(&packet(&mut Pages::default().buffer(65_507), 65_507, 3), false));
    }

    #[test]
    fn after_an_error_of_the_socket_the_next_packet_is_not_behind_the_one_that_failed() {
        let ((from, to), splice) = (pair(), Splice::default());
        let mut buffer = Pages::default().buffer(65_507);
        let large = packet(&mut buffer, 65_507, 7);
        let lone = UdpSocket::bind("127.0.0.1:0").unwrap();
        match splice.send(lone.as_fd(), &large) {
            Ok(taken) => assert!(!taken && matches!(*splice.0.lock().unwrap(), Pipe::Refused)),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EDESTADDRREQ));
                let mut other = Pages::default().buffer(40_000);
                assert!(splice.send(from.as_fd(), &packet(&mut other, 40_000, 9)).unwrap());
                let mut room = vec![0; 70_000];
                assert_eq!((to.recv(&mut room).unwrap(), room[0], room[39_999]), (40_000, 9, 9));
            }
        }
    }

    #[test]
    fn versions_of_kernels() {
        assert_eq!(version(c"6.18.5-arch1-1"), Some((6, 18)));
        assert_eq!(version(c"6.5-rc1"), Some((6, 5)));
        assert_eq!(version(c"unknown"), None);
        assert!((5, 15) < KERNEL_MIN && KERNEL_MIN <= (6, 5) && KERNEL_MIN < (7, 0));
    }
}
