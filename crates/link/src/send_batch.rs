//! Packets to be sent: small ones end to end in one piece of memory; large bodies, and packets that came end to end, where
//! they lie.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};

/// Bodies up to this many bytes are laid behind their head, so that packets lie end to end. Measured: below, a copy costs
/// less than the kernel's work on one more piece of memory (`docs/adr/0003-udp-link.md`).
pub const INLINE_BYTES: usize = 2048;
/// Bytes of heads and small bodies at which a batch calls itself full: they stay in a core's second cache.
const BYTES_MAX: usize = 256 << 10;
/// Packets at which a batch calls itself full.
const PACKETS_MAX: usize = 1024;

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
}

impl Run {
    /// Whether the packet at `next` continues this run in the batch's memory.
    #[inline]
    fn is_continued_by(&self, next: &Range<usize>, to: SocketAddr, may_fragment: bool) -> bool {
        let Place::Heads(bytes) = &self.place else { return false };
        let is_neighbour = bytes.end == next.start && self.is_even(bytes.len());
        is_neighbour && self.takes(next.len(), to) && !self.may_fragment && !may_fragment
    }

    /// As [`Run::is_continued_by`], for a packet in memory of its own.
    #[inline]
    fn is_continued_there_by(&self, packet: &BytesMut, to: SocketAddr) -> bool {
        let Place::Own(bytes) = &self.place else { return false };
        let is_neighbour = bytes.as_ptr_range().end == packet.as_ptr() && self.is_even(bytes.len());
        is_neighbour && self.takes(packet.len(), to)
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
        }
    }

    /// Where in `all`, which holds the packets of the run, `count` of them from the one numbered `skip` on lie.
    fn part(&self, all: &Range<usize>, skip: usize, count: usize) -> Range<usize> {
        let start = all.start + skip * self.size;
        start..(start + count * self.size).min(all.end)
    }

    /// Forgets the first `skip` packets.
    fn skip(&mut self, skip: usize) {
        let gone = skip * self.size;
        match &mut self.place {
            Place::Heads(range) => range.start += gone,
            Place::Own(bytes) => bytes.advance(gone),
            Place::Split(..) => {}
        }
        self.count -= skip;
    }

    /// The range in the batch's memory.
    fn heads_mut(&mut self) -> Option<&mut Range<usize>> {
        match &mut self.place {
            Place::Heads(range) | Place::Split(range, _) => Some(range),
            Place::Own(_) => None,
        }
    }
}

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
/// use bytes::{Buf, Bytes, BytesMut};
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
        assert!(head.start <= head.end && head.end <= self.heads.len(), "{head:?} are no bytes of the heads");
        let is_last = head.end == self.heads.len();
        if body.is_empty() || (is_last && body.len() <= INLINE_BYTES) {
            self.heads.extend_from_slice(&body);
            self.push_inline(to, head.start..head.end + body.len(), may_fragment);
        } else {
            let size = head.len() + body.len();
            self.runs.push(Run { to, place: Place::Split(head, body), size, count: 1, may_fragment });
            self.packets += 1;
        }
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

    fn frame<'a>(&'a self, run: &'a Run, skip: usize) -> Frame<'a> {
        let (head, body) = run.bytes(&self.heads, skip, 1);
        Frame { to: run.to, head, body, may_fragment: run.may_fragment }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static LARGE: [u8; INLINE_BYTES + 1] = [7; INLINE_BYTES + 1];

    fn push(batch: &mut SendBatch, head: &[u8], body: &'static [u8]) {
        let start = batch.heads.len();
        batch.heads_mut().extend_from_slice(head);
        batch.push(to(1), start..start + head.len(), Bytes::from_static(body), false);
    }

    fn to(port: u16) -> SocketAddr {
        ([10, 0, 0, 1], port).into()
    }

    fn whole(batch: &SendBatch) -> Vec<Vec<u8>> {
        batch.iter().map(|frame| [frame.head, frame.body].concat()).collect()
    }

    fn counts(batch: &SendBatch) -> Vec<usize> {
        batch.runs.iter().map(|run| run.count).collect()
    }

    #[test]
    fn a_small_body_lies_behind_its_head_and_a_large_one_is_not_copied() {
        let mut batch = SendBatch::new();
        push(&mut batch, b"one", b"small");
        push(&mut batch, b"two", &LARGE);
        let frames: Vec<Frame> = batch.iter().collect();
        assert_eq!((frames[0].head, frames[0].body.len()), (&b"onesmall"[..], 0));
        assert_eq!((frames[1].head, frames[1].body.as_ptr()), (&b"two"[..], LARGE.as_ptr()));
    }

    #[test]
    fn packets_of_one_size_are_one_run_that_a_shorter_one_or_another_target_ends() {
        let mut batch = SendBatch::new();
        for (len, port) in [(50, 1), (50, 1), (20, 1), (20, 1), (50, 1), (50, 2), (0, 2), (0, 2)] {
            batch.push_slice(to(port), &vec![1; len]);
        }
        assert_eq!(counts(&batch), [3, 1, 1, 1, 1, 1]);
        let lens: Vec<usize> = batch.iter().map(|frame| frame.len()).collect();
        assert_eq!(lens, [50, 50, 20, 20, 50, 50, 0, 0]);
    }

    /// Packets of these sizes, end to end in one piece of memory.
    fn end_to_end(sizes: &[usize]) -> impl Iterator<Item = BytesMut> {
        let all: Vec<u8> = (0..sizes.iter().sum()).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let mut rest = BytesMut::from(&all[..]);
        sizes.iter().map(move |&size| rest.split_to(size))
    }

    #[test]
    fn packets_that_came_end_to_end_stay_where_they_lie_and_are_one_run() {
        let mut batch = SendBatch::new();
        let packets: Vec<BytesMut> = end_to_end(&[50, 50, 20, 50]).collect();
        let home = packets[0].as_ptr();
        let expected: Vec<Vec<u8>> = packets.iter().map(|packet| packet.to_vec()).collect();
        packets.into_iter().for_each(|packet| batch.push_own(to(1), packet));
        assert_eq!((counts(&batch), whole(&batch)), (vec![3, 1], expected));
        assert_eq!((batch.iter().next().unwrap().head.as_ptr(), batch.heads.len()), (home, 0));
    }

    #[test]
    fn lone_packets_are_copied_end_to_end_when_the_next_shows_it_but_large_ones_are_not() {
        let mut batch = SendBatch::new();
        for packet in [&[1; 50], &[2; 50], &[3; 50]] {
            batch.push_own(to(1), BytesMut::from(&packet[..]));
        }
        assert_eq!((counts(&batch), batch.heads.len()), (vec![2, 1], 100));
        batch.push_own(to(2), BytesMut::from(&LARGE[..]));
        batch.push_own(to(2), BytesMut::from(&b"end"[..]));
        assert_eq!((counts(&batch), batch.heads.len(), batch.len()), (vec![3, 1, 1], 150, 5));
        assert_eq!(batch.iter().nth(3).unwrap().head, LARGE);
    }

    #[test]
    fn a_packet_that_may_be_fragmented_is_a_run_of_its_own() {
        let mut batch = SendBatch::new();
        for may_fragment in [false, true, true, false] {
            batch.push_copy(to(1), &[&[1; 30]], may_fragment);
        }
        assert_eq!(counts(&batch), [1, 1, 1, 1]);
    }

    #[test]
    fn what_was_not_sent_stays_whole_wherever_the_cut_falls() {
        for sent in 0..=12 {
            let mut batch = SendBatch::new();
            for (head, body) in [(b"aa", &b"xyz"[..]), (b"bb", b"xyz"), (b"cc", b"uvw"), (b"dd", b"x")] {
                push(&mut batch, head, body);
                push(&mut batch, head, if body.len() > 2 { body } else { &LARGE });
            }
            end_to_end(&[5, 5, 3]).for_each(|packet| batch.push_own(to(1), packet));
            push(&mut batch, b"end", b"");
            let expected = whole(&batch)[sent..].to_vec();
            batch.consume(sent);
            assert_eq!((whole(&batch), batch.len()), (expected, 12 - sent));
            push(&mut batch, b"more", b"body");
            assert_eq!(whole(&batch).last().unwrap(), b"morebody");
        }
    }

    #[test]
    #[should_panic(expected = "not so many packets")]
    fn more_than_there_is_cannot_have_been_sent() {
        let mut batch = SendBatch::new();
        batch.push_slice(to(1), b"one");
        batch.consume(2);
    }

    #[test]
    #[should_panic(expected = "no bytes of the heads")]
    fn a_head_outside_the_heads_is_refused() {
        SendBatch::new().push(to(1), 0..1, Bytes::new(), false);
    }
}
