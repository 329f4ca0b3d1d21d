//! A packet socket with a ring for what arrives and, if wanted, one for what leaves.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Local experimental 2, as CDP has the first.
const ETHERTYPE: u16 = 0x88B6;
/// Bytes before the data of a frame.
pub const HEAD_BYTES: usize = 14;
const SLOT_BYTES: usize = 2_048;
const BLOCK_BYTES: usize = 64 << 10;
const SLOTS_PER_BLOCK: usize = BLOCK_BYTES / SLOT_BYTES;
/// The shortest time after which the kernel gives away a block of `TPACKET_V3` that is not full.
const RETIRE_MS: u32 = 1;
/// Frames that one call sends at most.
const BURST: usize = 32;
/// Bytes of the shortest frame.
const FRAME_BYTES_MIN: usize = 60;

/// How frames are received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Receive {
    /// A slot for each frame.
    V2,
    /// Blocks that the kernel fills with frames, and gives away full or after a millisecond.
    V3,
}

/// How frames are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Send {
    /// `sendmmsg`.
    Calls,
    /// A ring of slots, and one call for what lies in it.
    Ring,
}

/// The socket of one interface.
#[derive(Debug)]
pub struct Frames {
    socket: OwnedFd,
    start: *mut u8,
    /// Blocks of each ring.
    blocks: usize,
    receive: Receive,
    send: Send,
    own: [u8; 6],
    /// The slot or block that is looked at next.
    at: usize,
    /// Of a block of `TPACKET_V3`: frames in it that are left, and where the next lies.
    left: (u32, usize),
    /// The slot that is sent from next.
    next: usize,
}

// SAFETY: the mapping belongs to this value alone, and threads share it by `&mut` only.
unsafe impl std::marker::Send for Frames {}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[allow(clippy::cast_possible_truncation)] // sizes of small types and rings
impl Frames {
    /// Takes hold of the interface `name`, with rings of so many blocks of 64 KiB.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open(name: &str, blocks: usize, receive: Receive, send: Send) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: the kernel has just given this descriptor.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let slots = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: SLOT_BYTES as u32,
            tp_frame_nr: (blocks * SLOTS_PER_BLOCK) as u32,
        };
        match receive {
            Receive::V2 => {
                set(fd, libc::PACKET_VERSION, &libc::tpacket_versions::TPACKET_V2)?;
                set(fd, libc::PACKET_RX_RING, &slots)?;
            }
            Receive::V3 => {
                set(fd, libc::PACKET_VERSION, &libc::tpacket_versions::TPACKET_V3)?;
                let ring = libc::tpacket_req3 {
                    tp_block_size: slots.tp_block_size,
                    tp_block_nr: slots.tp_block_nr,
                    tp_frame_size: slots.tp_frame_size,
                    tp_frame_nr: slots.tp_frame_nr,
                    tp_retire_blk_tov: RETIRE_MS,
                    tp_sizeof_priv: 0,
                    tp_feature_req_word: 0,
                };
                set(fd, libc::PACKET_RX_RING, &ring)?;
            }
        }
        if send == Send::Ring {
            set(fd, libc::PACKET_TX_RING, &slots)?;
        }
        set(fd, libc::PACKET_QDISC_BYPASS, &1i32)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: no address is asked for, and the length is that of the rings.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes(blocks, send), access, flags, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let name = CString::new(name)?;
        // SAFETY: all bits zero are a value of this type.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = ETHERTYPE.to_be();
        // SAFETY: the name ends with a zero byte.
        address.sll_ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) }.cast_signed();
        let mut len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address lives and has the length given.
        check(unsafe { libc::bind(fd, (&raw const address).cast(), len) })?;
        // SAFETY: as above; the kernel adds the Ethernet address.
        check(unsafe { libc::getsockname(fd, (&raw mut address).cast(), &raw mut len) })?;
        let [a, b, c, d, e, f, ..] = address.sll_addr;
        let (start, own) = (start.cast(), [a, b, c, d, e, f]);
        Ok(Self { socket, start, blocks, receive, send, own, at: 0, left: (0, 0), next: 0 })
    }

    /// The descriptor to wait for.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// A frame with `size` bytes of data, which are all `first`, to `target`; at least the shortest.
    #[must_use]
    pub fn frame(&self, target: [u8; 6], first: u8, size: usize) -> Vec<u8> {
        let mut frame = [&target[..], &self.own, &ETHERTYPE.to_be_bytes()].concat();
        frame.resize((HEAD_BYTES + size).max(FRAME_BYTES_MIN), first);
        frame
    }

    /// What `read` makes of the next frame, if one is there.
    #[inline]
    pub fn pop<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        match self.receive {
            Receive::V2 => self.pop_slot(read),
            Receive::V3 => self.pop_of_block(read),
        }
    }

    fn pop_slot<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let slot = self.start.wrapping_add(self.at * SLOT_BYTES);
        // SAFETY: the slot lies within the ring and begins with its status, aligned.
        let status = unsafe { AtomicU32::from_ptr(slot.cast()) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the kernel wrote the header before it gave the slot away.
        let header = unsafe { slot.cast::<libc::tpacket2_hdr>().read() };
        let (first, len) = (slot.wrapping_add(usize::from(header.tp_mac)), header.tp_snaplen as usize);
        // SAFETY: the kernel wrote as many bytes there, within the slot, and they are ours until the status changes.
        let result = read(unsafe { std::slice::from_raw_parts(first, len) });
        status.store(0, Ordering::Release);
        self.at = (self.at + 1) % (self.blocks * SLOTS_PER_BLOCK);
        Some(result)
    }

    fn pop_of_block<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let block = self.start.wrapping_add(self.at * BLOCK_BYTES);
        let header: *mut libc::tpacket_hdr_v1 = block.wrapping_add(8).cast();
        // SAFETY: the header lies behind the two words that a block begins with, and begins with the status, aligned.
        let status = unsafe { AtomicU32::from_ptr(header.cast()) };
        if self.left.0 == 0 {
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return None;
            }
            // SAFETY: the kernel wrote this before it gave the block away.
            let header = unsafe { header.read() };
            self.left = (header.num_pkts, header.offset_to_first_pkt as usize);
        }
        let result = (self.left.0 > 0).then(|| {
            let at = block.wrapping_add(self.left.1);
            // SAFETY: the kernel wrote a header there, within the block.
            let header = unsafe { at.cast::<libc::tpacket3_hdr>().read() };
            self.left = (self.left.0 - 1, self.left.1 + header.tp_next_offset as usize);
            let (first, len) = (at.wrapping_add(usize::from(header.tp_mac)), header.tp_snaplen as usize);
            // SAFETY: the kernel wrote as many bytes there, within the block, and they are ours until the status changes.
            read(unsafe { std::slice::from_raw_parts(first, len) })
        });
        if self.left.0 == 0 {
            status.store(0, Ordering::Release);
            self.at = (self.at + 1) % self.blocks;
        }
        result
    }

    /// Sends `frame` so many times.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn send(&mut self, frame: &[u8], count: usize) -> io::Result<()> {
        let mut left = count;
        while left > 0 {
            let some = left.min(BURST);
            left -= match self.send {
                Send::Calls if some == 1 => self.send_lone(frame)?,
                Send::Calls => self.send_calls(frame, some)?,
                Send::Ring => self.send_ring(frame, some)?,
            };
        }
        Ok(())
    }

    fn send_lone(&self, frame: &[u8]) -> io::Result<usize> {
        // SAFETY: the frame lives through the call and has the length given.
        let sent = unsafe { libc::send(self.fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(1) }
    }

    fn send_calls(&self, frame: &[u8], count: usize) -> io::Result<usize> {
        let mut piece = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
        // SAFETY: all bits zero are a value of this type.
        let mut messages: [libc::mmsghdr; BURST] = unsafe { std::mem::zeroed() };
        for message in &mut messages[..count] {
            message.msg_hdr.msg_iov = &raw mut piece;
            message.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: messages, the piece and the frame live through the call.
        let sent = unsafe { libc::sendmmsg(self.fd(), messages.as_mut_ptr(), count as libc::c_uint, 0) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    fn send_ring(&mut self, frame: &[u8], count: usize) -> io::Result<usize> {
        let ring = self.start.wrapping_add(self.blocks * BLOCK_BYTES);
        for _ in 0..count {
            let slot = ring.wrapping_add(self.next * SLOT_BYTES);
            // SAFETY: the slot lies within the second ring and begins with its status, aligned.
            let status = unsafe { AtomicU32::from_ptr(slot.cast()) };
            while status.load(Ordering::Acquire) != libc::TP_STATUS_AVAILABLE {
                self.kick()?;
            }
            let data = slot.wrapping_add(libc::TPACKET2_HDRLEN - size_of::<libc::sockaddr_ll>());
            // SAFETY: the slot is ours and has room for a frame.
            unsafe { ptr::copy_nonoverlapping(frame.as_ptr(), data, frame.len()) };
            let len: *mut u32 = slot.wrapping_add(4).cast();
            // SAFETY: the length lies behind the status.
            unsafe { len.write(frame.len() as u32) };
            status.store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
            self.next = (self.next + 1) % (self.blocks * SLOTS_PER_BLOCK);
        }
        self.kick()?;
        Ok(count)
    }

    /// Has the kernel send what lies in the ring.
    fn kick(&self) -> io::Result<()> {
        // SAFETY: no bytes are given.
        let sent = unsafe { libc::send(self.fd(), ptr::null(), 0, libc::MSG_DONTWAIT) };
        match io::Error::last_os_error() {
            error if sent < 0 && error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `open` made, and nobody refers to it any more.
        unsafe { libc::munmap(self.start.cast(), bytes(self.blocks, self.send)) };
    }
}

/// Bytes of the rings.
const fn bytes(blocks: usize, send: Send) -> usize {
    let rings = match send {
        Send::Calls => 1,
        Send::Ring => 2,
    };
    rings * blocks * BLOCK_BYTES
}

fn set<T>(fd: i32, name: i32, value: &T) -> io::Result<()> {
    let len = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    // SAFETY: the value lives through the call and has the length given.
    check(unsafe { libc::setsockopt(fd, libc::SOL_PACKET, name, ptr::from_ref(value).cast(), len) })?;
    Ok(())
}
