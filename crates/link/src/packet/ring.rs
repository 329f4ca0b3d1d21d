//! The ring that the kernel lays frames into, mapped into this process (`TPACKET_V2`, packet(7); why not the third version:
//! `docs/adr/0012-packet-link.md`).
//!
//! Each slot begins with a status word. While it says `KERNEL` the slot is the kernel's; when a frame is in place, the
//! kernel sets `USER` behind everything else it wrote, and the slot is ours until we store `KERNEL` again. Both sides go
//! round in order, so whether something has arrived is one look at one word, without a system call.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use super::ethernet::TAG_BYTES;
use crate::sockopt;

/// Bytes in a slot before the byte after the EtherType: the kernel's header and the Ethernet head, filled up to cache lines, so
/// that packets start on one.
const PACKET_AT: usize = 128;
/// What the kernel would take of [`PACKET_AT`] unasked: its header with an address, and the Ethernet head, each rounded up.
const PACKET_AT_LEAST: usize = 80;
const LINE_BYTES: usize = 64;
/// Bytes that the kernel takes in one piece, unless one slot is larger.
const BLOCK_BYTES: usize = 64 << 10;
/// What a block is made of whole ones: a page where the processor says how large that is, and the largest that a kernel may choose.
const PAGE_BYTES: usize = if cfg!(target_arch = "x86_64") { 4 << 10 } else { 64 << 10 };
/// A look is one at a word in memory, of which so many take the time of a system call that looks.
const LOOKS_PER_LOOK: u32 = 8;
/// The slot is the kernel's.
const KERNEL: u32 = 0;

/// Where the slots lie: as many as fit into each block, and no slot across two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) block_bytes: usize,
    pub(super) slot_bytes: usize,
    pub(super) slots_per_block: usize,
    pub(super) blocks: usize,
}

impl Layout {
    /// Slots for packets of up to `mtu` bytes in about `ring_bytes`.
    pub(super) fn new(mtu: usize, ring_bytes: usize) -> Self {
        let lines = (PACKET_AT + TAG_BYTES + mtu).div_ceil(LINE_BYTES);
        // An odd number of lines: slots then spread over all sets of a cache.
        let slot_bytes = (lines | 1) * LINE_BYTES;
        let block_bytes = slot_bytes.next_multiple_of(PAGE_BYTES).max(BLOCK_BYTES);
        let blocks = (ring_bytes / block_bytes).max(1);
        Self { block_bytes, slot_bytes, slots_per_block: block_bytes / slot_bytes, blocks }
    }

    const fn slots(&self) -> usize {
        self.slots_per_block * self.blocks
    }

    pub(super) const fn bytes(&self) -> usize {
        self.block_bytes * self.blocks
    }

    const fn offset(&self, slot: usize) -> usize {
        slot / self.slots_per_block * self.block_bytes + slot % self.slots_per_block * self.slot_bytes
    }

    #[allow(clippy::cast_possible_truncation)] // a ring is far below 4 GiB
    const fn request(&self) -> libc::tpacket_req {
        libc::tpacket_req {
            tp_block_size: self.block_bytes as u32,
            tp_block_nr: self.blocks as u32,
            tp_frame_size: self.slot_bytes as u32,
            tp_frame_nr: self.slots() as u32,
        }
    }
}

/// The ring and the slot that is looked at next.
#[derive(Debug)]
pub(super) struct Ring {
    start: NonNull<u8>,
    layout: Layout,
    at: usize,
    /// Where slot `at` lies.
    offset: usize,
}

// SAFETY: the mapping belongs to this value alone, and threads share it by `&mut` only.
unsafe impl Send for Ring {}

/// A frame that arrived, from the Ethernet head on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub(super) bytes: &'a [u8],
    /// Whether it lies there to its end.
    pub(super) is_whole: bool,
}

impl Ring {
    /// Has the kernel make a ring of `layout` for the socket `fd`, which is not bound yet.
    pub(super) fn new(fd: BorrowedFd<'_>, layout: Layout) -> io::Result<Self> {
        sockopt::set(fd, libc::SOL_PACKET, libc::PACKET_VERSION, &libc::tpacket_versions::TPACKET_V2)?;
        let reserve = u32::try_from(PACKET_AT - PACKET_AT_LEAST).map_err(io::Error::other)?;
        sockopt::set(fd, libc::SOL_PACKET, libc::PACKET_RESERVE, &reserve)?;
        sockopt::set(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &layout.request())?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: no address is asked for, and the kernel checks the length against the ring it made.
        let start = unsafe { libc::mmap(ptr::null_mut(), layout.bytes(), access, flags, fd.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, layout, at: 0, offset: 0 })
    }

    /// Whether a frame has arrived.
    #[inline]
    pub(super) fn has_frame(&self) -> bool {
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Looks up to so many times, each for as long as a system call that looks would take, and tells whether a frame has arrived.
    #[inline]
    pub(super) fn await_frame(&self, looks: u32) -> bool {
        for _ in LOOKS_PER_LOOK..looks * LOOKS_PER_LOOK {
            if self.has_frame() {
                return true;
            }
            std::hint::spin_loop();
        }
        self.has_frame()
    }

    /// Hands the next frame to `read` and the slot back to the kernel; `None` if nothing has arrived.
    #[inline]
    pub(super) fn pop<T>(&mut self, read: impl FnOnce(Frame<'_>) -> T) -> Option<T> {
        self.pop_if(|frame| Some(read(frame)))
    }

    /// The same, but where `read` gives `None` the frame stays.
    #[inline]
    pub(super) fn pop_if<T>(&mut self, read: impl FnOnce(Frame<'_>) -> Option<T>) -> Option<T> {
        if !self.has_frame() {
            return None;
        }
        let result = read(self.frame())?;
        self.status().store(KERNEL, Ordering::Release);
        self.at = if self.at + 1 == self.layout.slots() { 0 } else { self.at + 1 };
        self.offset = self.layout.offset(self.at);
        Some(result)
    }

    fn slot(&self) -> NonNull<u8> {
        // SAFETY: the offset of a slot lies within the mapping.
        unsafe { self.start.add(self.offset) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: a slot begins with this word, aligned to a cache line, for as long as the mapping lives.
        unsafe { AtomicU32::from_ptr(self.slot().as_ptr().cast()) }
    }

    /// The frame in the slot, which is ours.
    fn frame(&self) -> Frame<'_> {
        // SAFETY: the kernel wrote this header before it gave us the slot.
        let header = unsafe { self.slot().cast::<libc::tpacket2_hdr>().read() };
        let start = usize::from(header.tp_mac);
        let kept = header.tp_snaplen as usize;
        let room = self.layout.slot_bytes.saturating_sub(start);
        // SAFETY: the kernel laid the frame into the slot.
        let first = unsafe { self.slot().add(start) };
        // SAFETY: the bytes lie within the slot, were written by the kernel, and are ours until the status changes.
        let bytes = unsafe { std::slice::from_raw_parts(first.as_ptr(), kept.min(room)) };
        Frame { bytes, is_whole: bytes.len() == header.tp_len as usize }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made, and nobody refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.layout.bytes()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_have_room_for_a_whole_frame_and_lie_in_one_block() {
        for mtu in [68, 1500, 9000, 65_535] {
            let layout = Layout::new(mtu, 4 << 20);
            assert!(layout.slot_bytes >= PACKET_AT + TAG_BYTES + mtu, "{layout:?}");
            assert!(layout.block_bytes.is_multiple_of(PAGE_BYTES) && layout.bytes() <= 4 << 20, "{layout:?}");
            for slot in 0..layout.slots() {
                let start = layout.offset(slot);
                let end = start + layout.slot_bytes - 1;
                assert_eq!(start / layout.block_bytes, end / layout.block_bytes);
                assert!(end < layout.bytes());
            }
        }
    }

    #[test]
    fn there_is_at_least_one_slot() {
        assert_eq!(Layout::new(65_535, 0).slots(), 1);
    }
}
