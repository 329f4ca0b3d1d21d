//! Packets that arrived, and the memory they lie in.

use std::mem::MaybeUninit;
use std::net::SocketAddr;

use bytes::BytesMut;

use crate::arena::Arena;
use crate::udp::{Course, Origin, Rhythm};
use placed::Placing;
use run::Run;

mod notes;
mod placed;
mod run;

pub use placed::Placed;

/// Bytes of the largest thing one receive call can bring: a full UDP datagram, or many joined to one buffer.
pub const REGION_BYTES: usize = 65_536;
/// Receives up to this many bytes are copied out of their region.
pub const COPYBREAK_BYTES: usize = 512;
/// Packets that one [`crate::Link::recv`] takes by default.
pub const BUDGET_PACKETS: usize = 128;

/// Regions per chunk of memory.
const REGIONS: usize = 4;
/// Chunks of regions that are used again: 64 MiB, which 64 connections of large packets within a host may hold.
const REGION_CHUNKS: usize = 256;
/// Those that are kept when nothing large comes: 4 MiB.
const RESTING_CHUNKS: usize = 16;
/// Bytes of a chunk for copies of small packets, which is what one small packet pins at most.
const SMALL_CHUNK_BYTES: usize = 16 << 10;
/// Chunks of copies that are kept for use again: 1 MiB.
const SMALL_CHUNKS: usize = 64;

/// A packet that arrived: the data of exactly one UDP datagram, not yet checked. From [`RecvBatch::drain_joined`] it may be several.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    /// The underlay address it came from.
    pub from: SocketAddr,
    /// Its bytes: a piece of the buffer that the kernel filled, or a copy if that brought little. Nobody else sees them, so
    /// that a packet can be changed where it lies; packets that the kernel joined lie end to end.
    pub bytes: BytesMut,
    /// Bytes of each packet, where these are several; the last one may be shorter.
    pub size: usize,
}

impl Received {
    /// One packet.
    #[must_use]
    #[inline]
    pub fn new(from: SocketAddr, bytes: BytesMut) -> Self {
        Self { from, size: bytes.len(), bytes }
    }

    /// How many packets these are.
    #[inline]
    fn count(&self) -> usize {
        if self.bytes.len() <= self.size { 1 } else { self.bytes.len().div_ceil(self.size.max(1)) }
    }

    /// Takes the first packet out, if there are several.
    fn split_first(&mut self) -> Option<Self> {
        (self.count() > 1).then(|| Self::new(self.from, self.bytes.split_to(self.size)))
    }
}

/// Bytes of a packet's head that a [`Refusal`] quotes: its header (specification, section 2).
pub(crate) const HEAD_BYTES: usize = 28;
/// Refusals that are kept for who takes them; later ones are dropped, as a network would.
const REFUSALS_MAX: usize = 32;

/// What the host of a peer said of a packet that was sent to it: nobody has that UDP port. Anybody can send such a
/// message, so it is no more than a hint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The underlay address that the packet was sent to.
    pub to: SocketAddr,
    /// The head of the packet.
    pub head: [u8; HEAD_BYTES],
}

/// Packets that arrived, and the memory they lie in. One per port, used again for every turn.
///
/// ```
/// use weft_link::RecvBatch;
///
/// let mut batch = RecvBatch::new();
/// batch.push_copy("10.0.0.2:64064".parse().unwrap(), &[b"head", b"body"]);
/// for packet in batch.drain() {
///     assert_eq!(&packet.bytes[..], b"headbody");
/// }
/// ```
pub struct RecvBatch {
    packets: Vec<Received>,
    /// Packets beyond one in each of these.
    joined: usize,
    /// Those of them that came by themselves and were laid behind others.
    laid: usize,
    run: Run,
    placing: Placing,
    /// Where they are taken apart to.
    apart: Vec<Received>,
    refusals: Vec<Refusal>,
    budget: usize,
    looks: u32,
    regions: Arena,
    small: Arena,
    has_new_fds: bool,
    /// How the packets of a UDP link come. See `udp::rhythm`.
    pub(crate) rhythm: Rhythm,
    /// Whose packets the second socket of a UDP link brings. See `udp::origin`.
    pub(crate) origin: Origin,
    /// Where the next packet of a flood is to be found. See `udp::course`.
    pub(crate) course: Course,
}

impl RecvBatch {
    /// An empty batch that takes up to [`BUDGET_PACKETS`] packets at a time.
    #[must_use]
    pub fn new() -> Self {
        Self::with_budget(BUDGET_PACKETS)
    }

    /// An empty batch that takes up to `budget` packets at a time, at least one.
    #[must_use]
    pub fn with_budget(budget: usize) -> Self {
        Self {
            packets: Vec::new(),
            joined: 0,
            laid: 0,
            run: Run::default(),
            placing: Placing::default(),
            apart: Vec::new(),
            refusals: Vec::new(),
            budget: budget.max(1),
            looks: 1,
            regions: Arena::new(REGIONS * REGION_BYTES, REGION_CHUNKS),
            small: Arena::new(SMALL_CHUNK_BYTES, SMALL_CHUNKS),
            has_new_fds: false,
            rhythm: Rhythm::default(),
            origin: Origin::default(),
            course: Course::default(),
        }
    }

    /// Takes up to `budget` packets at a time from now on, at least one.
    #[inline]
    pub fn set_budget(&mut self, budget: usize) {
        self.budget = budget.max(1);
        self.note_cut(false);
    }

    /// A link that is likely to bring a packet soon may look for it so many times, at least once, before it says that there is
    /// none: who has nothing else to do sees a packet the sooner the less lies between two looks. The default is 1.
    #[inline]
    pub fn set_looks(&mut self, looks: u32) {
        self.looks = looks.max(1);
    }

    /// How many times a link may look for the first packet.
    #[inline]
    #[must_use]
    pub fn looks(&self) -> u32 {
        self.looks
    }

    /// Whether there may be memory for [`RecvBatch::rest`] to give back.
    #[inline]
    #[must_use]
    pub fn may_rest(&self) -> bool {
        self.regions.retired() > RESTING_CHUNKS
    }

    /// Gives back what nobody holds of its memory for large packets, but for 4 MiB; false, and nothing is given back, if more of that
    /// was taken up since the last call.
    pub fn rest(&mut self) -> bool {
        self.regions.rest(RESTING_CHUNKS)
    }

    /// How many more packets a link should put in.
    #[must_use]
    pub fn room(&self) -> usize {
        self.budget.saturating_sub(self.len() + self.run.count())
    }

    /// How many packets lie here.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len() + self.joined + self.placed()
    }

    /// In how many pieces they came: those that the kernel joined are one.
    #[must_use]
    pub fn pieces(&self) -> usize {
        self.packets.len() + self.laid + self.placed()
    }

    /// Bytes of all packets that lie here.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.placing.bytes() + self.packets.iter().map(|packets| packets.bytes.len()).sum::<usize>()
    }

    /// Whether no packet lies here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty() && !self.has_placed()
    }

    /// Takes the packets out, in the order of their arrival.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Received> {
        self.packets_mut().drain(..)
    }

    /// The same, but those that the kernel joined come together.
    #[inline]
    pub fn drain_joined(&mut self) -> std::vec::Drain<'_, Received> {
        (self.joined, self.laid) = (0, 0);
        self.packets.drain(..)
    }

    /// The packets, for a wrapper that looks at them or changes them.
    pub fn packets_mut(&mut self) -> &mut Vec<Received> {
        if self.joined > 0 {
            self.take_apart();
        }
        &mut self.packets
    }

    fn take_apart(&mut self) {
        for mut packets in self.packets.drain(..) {
            self.apart.extend(std::iter::from_fn(|| packets.split_first()));
            self.apart.push(Received::new(packets.from, packets.bytes));
        }
        std::mem::swap(&mut self.packets, &mut self.apart);
        (self.joined, self.laid) = (0, 0);
    }

    /// Takes the packet out, if there is one and no other.
    #[inline]
    pub fn take_only(&mut self) -> Option<Received> {
        if self.packets.len() == 1 && self.joined == 0 && !self.has_placed() {
            self.packets.pop()
        } else {
            None
        }
    }

    /// The same of packets that the kernel joined.
    #[inline]
    pub fn take_joined(&mut self) -> Option<Received> {
        if self.packets.len() != 1 || self.joined == 0 || self.laid > 0 || self.has_placed() {
            return None;
        }
        self.joined = 0;
        self.packets.pop()
    }

    /// Puts them back.
    pub fn put_back(&mut self, packets: Received) {
        self.joined += packets.count() - 1;
        self.packets.push(packets);
    }

    /// Puts in a packet whose bytes have an owner already.
    pub fn push(&mut self, from: SocketAddr, bytes: BytesMut) {
        self.packets.push(Received::new(from, bytes));
    }

    /// Copies `pieces`, laid end to end, to this batch's memory for small packets.
    #[must_use]
    pub fn copy(&mut self, pieces: &[&[u8]]) -> BytesMut {
        self.small.copy(pieces)
    }

    /// Puts in a packet by copying `pieces`, laid end to end, to this batch's memory.
    pub fn push_copy(&mut self, from: SocketAddr, pieces: &[&[u8]]) {
        let bytes = self.copy(pieces);
        self.push(from, bytes);
    }

    /// As [`RecvBatch::push_copy`], for a packet of any size up to [`REGION_BYTES`] in one piece: a large one lies on cache
    /// lines of a region, where it pins no memory of small ones, and goes on in a run. [`RecvBatch::end_run`] is to be called when
    /// no more of them come.
    #[inline]
    pub(crate) fn push_packet(&mut self, from: SocketAddr, packet: &[u8]) {
        if packet.len() <= COPYBREAK_BYTES {
            self.end_run();
            return self.push_copy(from, &[packet]);
        }
        let room = self.region_in_run();
        assert!(room.len() >= packet.len(), "a region is smaller than a packet");
        // SAFETY: the room is ours, as large as the packet, and elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(packet.as_ptr(), room.as_mut_ptr().cast(), packet.len()) };
        // SAFETY: these bytes have just been written.
        unsafe { self.push_in_run(from, packet.len()) };
    }

    pub(crate) fn push_refusal(&mut self, refusal: Refusal) {
        if self.refusals.len() < REFUSALS_MAX {
            self.refusals.push(refusal);
        }
    }

    /// Whether hosts said something of packets sent earlier.
    #[inline]
    #[must_use]
    pub fn has_refusals(&self) -> bool {
        !self.refusals.is_empty()
    }

    /// Takes out what hosts said of packets sent earlier.
    pub fn drain_refusals(&mut self) -> std::vec::Drain<'_, Refusal> {
        self.refusals.drain(..)
    }

    /// Memory for one receive call: [`REGION_BYTES`] or more.
    pub(crate) fn region(&mut self) -> &mut [MaybeUninit<u8>] {
        self.regions.spare(REGION_BYTES)
    }

    /// Takes `len` bytes out of the region: packets of `size` bytes, the last maybe shorter. Tells how many they are.
    ///
    /// # Safety
    /// The first `len` bytes of the slice that the last call of [`RecvBatch::region`] returned have been written.
    pub(crate) unsafe fn push_region(&mut self, from: SocketAddr, len: usize, size: usize) -> usize {
        // SAFETY: passed on to the caller.
        let bytes = unsafe { self.take_region(len) };
        let size = if size == 0 { len } else { size };
        let packets = Received { from, bytes, size };
        let count = packets.count();
        self.packets.push(packets);
        self.joined += count - 1;
        count
    }

    /// The first `len` bytes of the region, or a copy of them if they are few: a packet of 60 bytes that a slow reader
    /// leaves lying pins a small chunk then, and the region is free for the next call.
    ///
    /// # Safety
    /// As for [`RecvBatch::push_region`].
    unsafe fn take_region(&mut self, len: usize) -> BytesMut {
        if len > COPYBREAK_BYTES {
            // SAFETY: the caller wrote these bytes.
            return unsafe { self.regions.take(len) };
        }
        let start = self.regions.spare(len).as_ptr().cast::<u8>();
        // SAFETY: the caller wrote these bytes, and nothing touches the region until they are copied.
        let written = unsafe { std::slice::from_raw_parts(start, len) };
        self.small.copy(&[written])
    }
}

impl Default for RecvBatch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
