//! Packets of a batch that leave together.

use std::net::SocketAddr;
use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};
use weft_frame::{Frames, FramesRef};

/// Packets to one target, each of `size` bytes save that the last may be shorter.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) to: SocketAddr,
    pub(crate) place: Place,
    /// Bytes of every packet but the last.
    pub(crate) size: usize,
    /// Packets, at least one.
    pub(crate) count: usize,
    pub(crate) may_fragment: bool,
}

/// Where the packets of a run lie.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// End to end in the batch's memory.
    Heads(Range<usize>),
    /// One packet: its head in the batch's memory, its body elsewhere.
    Split(Range<usize>, Bytes),
    /// End to end in memory of their own.
    Own(BytesMut),
    /// End to end in memory that others may read too.
    Shared(Frames),
}

impl Run {
    /// Whether the packet at `next` continues this run in the batch's memory.
    #[inline]
    pub(super) fn is_continued_by(&self, next: &Range<usize>, to: SocketAddr, may_fragment: bool) -> bool {
        let Place::Heads(bytes) = &self.place else { return false };
        let is_neighbour = bytes.end == next.start && self.is_even(bytes.len());
        is_neighbour && self.takes(next.len(), to) && !self.may_fragment && !may_fragment
    }

    /// As [`Run::is_continued_by`], for a packet in memory of its own.
    #[inline]
    pub(super) fn is_continued_there_by(&self, packet: &BytesMut, to: SocketAddr) -> bool {
        let Place::Own(bytes) = &self.place else { return false };
        let is_neighbour = bytes.as_ptr_range().end == packet.as_ptr() && self.is_even(bytes.len());
        is_neighbour && self.takes(packet.len(), to)
    }

    /// Takes `count` packets of `size` bytes that lie in memory that is shared, if they continue the run there.
    #[inline]
    pub(super) fn join(
        &mut self,
        packets: &FramesRef<'_>,
        size: usize,
        count: usize,
        to: SocketAddr,
    ) -> bool {
        let is_alike = size == self.size || count == 1;
        let takes = is_alike && !self.may_fragment && self.takes(size, to);
        let Place::Shared(frames) = &mut self.place else { return false };
        let joins = takes && frames.len() == self.size * self.count && frames.join(packets);
        self.count += if joins { count } else { 0 };
        joins
    }

    /// Whether `next`, which lies elsewhere, may leave as one with this run: packets of the same size, or a shorter one.
    pub(crate) fn goes_on_in(&self, next: &Self) -> bool {
        let bytes = match &self.place {
            Place::Heads(range) => range.len(),
            Place::Split(..) => self.size,
            Place::Own(bytes) => bytes.len(),
            Place::Shared(frames) => frames.len(),
        };
        let is_alike = next.size == self.size || next.count == 1;
        is_alike && self.is_even(bytes) && self.takes(next.size, next.to) && !next.may_fragment
    }

    /// Whether `bytes` are those of packets of one size.
    fn is_even(&self, bytes: usize) -> bool {
        bytes == self.size * self.count
    }

    fn takes(&self, len: usize, to: SocketAddr) -> bool {
        (1..=self.size).contains(&len) && self.to == to
    }

    /// The bytes of `count` packets from the one numbered `skip` on, and of the body of a packet in two pieces.
    pub(crate) fn bytes<'a>(&'a self, heads: &'a [u8], skip: usize, count: usize) -> (&'a [u8], &'a [u8]) {
        match &self.place {
            Place::Heads(range) => (&heads[self.part(range, skip, count)], &[]),
            Place::Split(head, body) => (&heads[head.clone()], body),
            Place::Own(bytes) => (&bytes[self.part(&(0..bytes.len()), skip, count)], &[]),
            Place::Shared(frames) => (&frames[self.part(&(0..frames.len()), skip, count)], &[]),
        }
    }

    /// Whether its packets lie in pages that hold nothing else.
    #[inline]
    pub(super) fn is_in_pages(&self) -> bool {
        matches!(&self.place, Place::Shared(frames) if frames.is_pages())
    }

    /// Its packets go to who reads them where they lie.
    pub(super) fn note_read(&self) {
        if let Place::Shared(frames) = &self.place {
            frames.note_read();
        }
    }

    /// Where in `all`, which holds the packets of the run, `count` of them from the one numbered `skip` on lie.
    fn part(&self, all: &Range<usize>, skip: usize, count: usize) -> Range<usize> {
        let start = all.start + skip * self.size;
        start..(start + count * self.size).min(all.end)
    }

    /// Forgets the first `skip` packets.
    pub(super) fn skip(&mut self, skip: usize) {
        let gone = skip * self.size;
        match &mut self.place {
            Place::Heads(range) => range.start += gone,
            Place::Own(bytes) => bytes.advance(gone),
            Place::Shared(frames) => frames.advance(gone),
            Place::Split(..) => {}
        }
        self.count -= skip;
    }

    /// The range in the batch's memory.
    pub(super) fn heads_mut(&mut self) -> Option<&mut Range<usize>> {
        match &mut self.place {
            Place::Heads(range) | Place::Split(range, _) => Some(range),
            Place::Own(_) | Place::Shared(_) => None,
        }
    }
}
