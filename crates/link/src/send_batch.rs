//! Packets to be sent: small ones end to end in one piece of memory; large bodies, and packets that lie end to end elsewhere,
//! where they lie.

mod run;

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use weft_frame::FramesRef;

pub(crate) use run::{Place, Run};

/// Bodies up to this many bytes are laid behind their head, so that packets lie end to end. Measured: below, a copy costs
/// less than the kernel's work on one more piece of memory (`docs/adr/0003-udp-link.md`).
pub const INLINE_BYTES: usize = 2048;
/// Bytes of the packets that leave as one for the kernel to cut, at most: below what one UDP datagram may hold with any IP header.
pub const GROUP_BYTES_MAX: usize = 65_000;
/// Bytes of heads and small bodies at which a batch calls itself full: they stay in a core's second cache.
const BYTES_MAX: usize = 256 << 10;
/// Packets at which a batch calls itself full.
const PACKETS_MAX: usize = 1024;

/// One packet of a [`SendBatch`], to look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// The underlay address it goes to.
    pub to: SocketAddr,
    /// The bytes it starts with; the whole packet if the body was small.
    pub head: &'a [u8],
    /// The bytes it ends with.
    pub body: &'a [u8],
    /// Whether the underlay may cut it ([CDP-MTU-6]); all others are sent with that forbidden.
    pub may_fragment: bool,
}

impl Frame<'_> {
    /// Bytes of the packet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Whether the packet has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A place in a batch: a run, and how many of its packets lie before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cursor {
    pub(crate) run: usize,
    pub(crate) skip: usize,
}

/// Packets to be sent with one [`crate::Link::send`]. One per port, used again for every turn.
///
/// ```
/// use bytes::Bytes;
/// use weft_link::SendBatch;
///
/// let mut batch = SendBatch::new();
/// let start = batch.heads_mut().len();
/// batch.heads_mut().extend_from_slice(b"head");
/// let head = start..batch.heads_mut().len();
/// batch.push("10.0.0.2:64064".parse().unwrap(), head, Bytes::from_static(b"body"), false);
/// assert_eq!(batch.iter().next().unwrap().len(), 8);
/// ```
#[derive(Default)]
pub struct SendBatch {
    pub(crate) heads: Vec<u8>,
    pub(crate) runs: Vec<Run>,
    packets: usize,
}

impl SendBatch {
    /// An empty batch.
    #[must_use]
    pub const fn new() -> Self {
        Self { heads: Vec::new(), runs: Vec::new(), packets: 0 }
    }

    /// Where the next packet's head is to be appended.
    #[inline]
    pub fn heads_mut(&mut self) -> &mut Vec<u8> {
        &mut self.heads
    }

    /// Adds the packet that consists of the bytes `head` of [`SendBatch::heads_mut`] and of `body`.
    ///
    /// `may_fragment` allows the underlay to cut this packet. A body of at most [`INLINE_BYTES`] is copied behind its
    /// head if that was appended last.
    ///
    /// # Panics
    /// If `head` does not lie within the heads.
    #[inline]
    #[allow(clippy::needless_pass_by_value)] // a large body is kept
    pub fn push(&mut self, to: SocketAddr, head: Range<usize>, body: Bytes, may_fragment: bool) {
        if body.is_empty() {
            return self.push_laid(to, head, may_fragment);
        }
        assert!(head.start <= head.end && head.end <= self.heads.len(), "{head:?} are no bytes of the heads");
        let is_last = head.end == self.heads.len();
        if is_last && body.len() <= INLINE_BYTES {
            self.heads.extend_from_slice(&body);
            self.push_inline(to, head.start..head.end + body.len(), may_fragment);
        } else {
            let size = head.len() + body.len();
            self.runs.push(Run { to, place: Place::Split(head, body), size, count: 1, may_fragment });
            self.packets += 1;
        }
    }

    /// Adds the packet that consists of the bytes `packet` of [`SendBatch::heads_mut`].
    ///
    /// # Panics
    /// If they do not lie within the heads.
    #[inline]
    pub fn push_laid(&mut self, to: SocketAddr, packet: Range<usize>, may_fragment: bool) {
        let is_there = packet.start <= packet.end && packet.end <= self.heads.len();
        assert!(is_there, "{packet:?} are no bytes of the heads");
        self.push_inline(to, packet, may_fragment);
    }

    /// Adds a packet that lies in memory of its own. It stays there if it is large, or continues the packet before it, or is
    /// continued by the next: such packets leave in one piece. Others are copied, which costs less than to send from
    /// many pieces.
    #[inline]
    pub fn push_own(&mut self, to: SocketAddr, packet: BytesMut) {
        if let Some(last) = self.runs.last_mut() {
            if last.is_continued_there_by(&packet, to)
                && let Place::Own(bytes) = &mut last.place
            {
                bytes.unsplit(packet);
                last.count += 1;
                self.packets += 1;
                return;
            }
            self.copy_if_alone();
        }
        let size = packet.len();
        self.runs.push(Run { to, place: Place::Own(packet), size, count: 1, may_fragment: false });
        self.packets += 1;
    }

    /// Adds `count` packets of one size that lie end to end in memory which others may read too, and stay there. Packets that
    /// continue those before need no handle of their own, which waits for what was written before.
    ///
    /// # Panics
    /// If `count` is 0, or the bytes are not those of so many packets.
    #[inline]
    pub fn push_frames(&mut self, to: SocketAddr, packets: &FramesRef<'_>, count: usize, may_fragment: bool) {
        let size = packets.len() / count;
        assert!(
            size * count == packets.len(),
            "{count} packets of one size have not {} bytes",
            packets.len()
        );
        self.packets += count;
        if !may_fragment
            && let Some(last) = self.runs.last_mut()
            && last.join(packets, size, count, to)
        {
            return;
        }
        self.runs.push(Run { to, place: Place::Shared(packets.to_frames()), size, count, may_fragment });
    }

    /// Copies the last packet, if it is a small one in memory of its own that nothing continues.
    fn copy_if_alone(&mut self) {
        let is_alone = |run: &mut Run| {
            run.count == 1 && matches!(&run.place, Place::Own(own) if own.len() <= INLINE_BYTES)
        };
        if let Some(Run { to, place: Place::Own(packet), .. }) = self.runs.pop_if(is_alone) {
            self.packets -= 1;
            self.push_slice(to, &packet);
        }
    }

    /// Adds a packet by copying its pieces, which lie end to end in it.
    pub fn push_copy(&mut self, to: SocketAddr, pieces: &[&[u8]], may_fragment: bool) {
        let start = self.heads.len();
        pieces.iter().for_each(|piece| self.heads.extend_from_slice(piece));
        self.push_inline(to, start..self.heads.len(), may_fragment);
    }

    /// Adds a packet that lies in one piece, by copying it.
    pub fn push_slice(&mut self, to: SocketAddr, packet: &[u8]) {
        self.push_copy(to, &[packet], false);
    }

    #[inline]
    fn push_inline(&mut self, to: SocketAddr, bytes: Range<usize>, may_fragment: bool) {
        self.packets += 1;
        if let Some(last) = self.runs.last_mut()
            && last.is_continued_by(&bytes, to, may_fragment)
            && let Place::Heads(range) = &mut last.place
        {
            range.end = bytes.end;
            last.count += 1;
            return;
        }
        let size = bytes.len();
        self.runs.push(Run { to, place: Place::Heads(bytes), size, count: 1, may_fragment });
    }

    /// How many packets are to be sent.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets
    }

    /// Whether nothing is to be sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Whether it is time to send before adding more: 1024 packets, or 256 KiB of heads and small bodies.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.packets >= PACKETS_MAX || self.heads.len() >= BYTES_MAX
    }

    /// The packets, in the order in which they will leave.
    pub fn iter(&self) -> impl Iterator<Item = Frame<'_>> {
        self.runs.iter().flat_map(|run| (0..run.count).map(|skip| self.frame(run, skip)))
    }

    /// Forgets every packet.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.heads.clear();
        self.packets = 0;
    }

    /// Sends packet after packet by `send_some`, which takes some of so many from a place on and returns how many; then
    /// forgets them. After an error those that are left stay.
    ///
    /// # Errors
    /// The first of `send_some`.
    pub(crate) fn send_by(
        &mut self,
        mut send_some: impl FnMut(&Self, Cursor, usize) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let (mut at, mut done, total) = (Cursor::default(), 0, self.len());
        while done < total {
            match send_some(self, at, total - done) {
                Ok(count) => {
                    done += count;
                    self.advance(&mut at, count);
                }
                Err(error) => {
                    self.consume(done);
                    return Err(error);
                }
            }
        }
        self.clear();
        Ok(total)
    }

    /// Forgets the first `count` packets, which have been sent.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn consume(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        let mut at = Cursor::default();
        self.advance(&mut at, count);
        self.runs.drain(..at.run);
        self.packets -= count;
        let Some(first) = self.runs.first_mut() else { return self.clear() };
        first.skip(at.skip);
        let gone =
            self.runs.iter_mut().find_map(Run::heads_mut).map_or(self.heads.len(), |range| range.start);
        self.heads.drain(..gone);
        for range in self.runs.iter_mut().filter_map(Run::heads_mut) {
            *range = range.start - gone..range.end - gone;
        }
    }

    /// Moves `at` over `count` packets.
    pub(crate) fn advance(&self, at: &mut Cursor, count: usize) {
        at.skip += count;
        while let Some(run) = self.runs.get(at.run)
            && at.skip >= run.count
        {
            at.skip -= run.count;
            at.run += 1;
        }
        assert!(at.run < self.runs.len() || at.skip == 0, "there are not so many packets");
    }

    /// The packet at `at`.
    pub(crate) fn at(&self, at: Cursor) -> Frame<'_> {
        self.frame(&self.runs[at.run], at.skip)
    }

    /// The packet at this place, or up to `most` of one size that may leave as one, if it lies in pages that hold nothing else; of more, an
    /// equal part, as few packets would be left to be copied.
    #[inline]
    pub(crate) fn in_pages(&self, at: Cursor, most: usize) -> Option<InPages<'_>> {
        let run = &self.runs[at.run];
        run.is_in_pages().then(|| {
            let left = run.count - at.skip;
            let count = left.div_ceil(left.div_ceil(as_one(run.size, most)));
            InPages { bytes: run.bytes(&self.heads, at.skip, count).0, size: run.size, count, run }
        })
    }

    fn frame<'a>(&'a self, run: &'a Run, skip: usize) -> Frame<'a> {
        let (head, body) = run.bytes(&self.heads, skip, 1);
        Frame { to: run.to, head, body, may_fragment: run.may_fragment }
    }
}

/// How many packets of `size` bytes leave as one, of at most `most`.
pub(crate) fn as_one(size: usize, most: usize) -> usize {
    most.min(GROUP_BYTES_MAX / size.max(1)).max(1)
}

/// Packets in pages that hold nothing else, end to end.
pub(crate) struct InPages<'a> {
    pub(crate) bytes: &'a [u8],
    /// Bytes of each; the last one may be shorter.
    pub(crate) size: usize,
    pub(crate) count: usize,
    run: &'a Run,
}

impl InPages<'_> {
    /// They go to who reads them where they lie.
    pub(crate) fn note_read(&self) {
        self.run.note_read();
    }
}

#[cfg(test)]
mod tests;
