//! Packets to be sent, as heads and bodies that lie apart.

use std::net::SocketAddr;
use std::ops::Range;

use bytes::Bytes;

/// Bodies up to this many bytes are laid behind their head, so that small packets lie end to end.
pub const INLINE_BYTES: usize = 256;
/// Bytes of heads at which a batch calls itself full.
const HEADS_BYTES_MAX: usize = 256 << 10;
/// Packets at which a batch calls itself full.
const PACKETS_MAX: usize = 1024;

/// A packet to be sent: a head in the batch's memory, and a body that somebody else may hold as well.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) to: SocketAddr,
    pub(crate) head: Range<usize>,
    pub(crate) body: Bytes,
    pub(crate) may_fragment: bool,
}

impl Entry {
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.body.len()
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
    pub body: &'a Bytes,
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
    pub(crate) entries: Vec<Entry>,
}

impl SendBatch {
    /// An empty batch.
    #[must_use]
    pub const fn new() -> Self {
        Self { heads: Vec::new(), entries: Vec::new() }
    }

    /// Where the next packet's head is to be appended.
    pub fn heads_mut(&mut self) -> &mut Vec<u8> {
        &mut self.heads
    }

    /// Adds the packet that consists of the bytes `head` of [`SendBatch::heads_mut`] and of `body`.
    ///
    /// `may_fragment` allows the underlay to cut this packet. A small body is copied behind its head if that was
    /// appended last.
    ///
    /// # Panics
    /// If `head` does not lie within the heads.
    pub fn push(&mut self, to: SocketAddr, head: Range<usize>, body: Bytes, may_fragment: bool) {
        assert!(head.start <= head.end && head.end <= self.heads.len(), "{head:?} are no bytes of the heads");
        if !body.is_empty() && body.len() <= INLINE_BYTES && head.end == self.heads.len() {
            self.heads.extend_from_slice(&body);
            let head = head.start..self.heads.len();
            self.entries.push(Entry { to, head, body: Bytes::new(), may_fragment });
        } else {
            self.entries.push(Entry { to, head, body, may_fragment });
        }
    }

    /// Adds a packet that lies in one piece, by copying it.
    pub fn push_slice(&mut self, to: SocketAddr, packet: &[u8]) {
        let start = self.heads.len();
        self.heads.extend_from_slice(packet);
        self.push(to, start..start + packet.len(), Bytes::new(), false);
    }

    /// How many packets are to be sent.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is to be sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether it is time to send before adding more: 1024 packets, or 256 KiB of heads and small bodies.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.entries.len() >= PACKETS_MAX || self.heads.len() >= HEADS_BYTES_MAX
    }

    /// The packets, in the order in which they will leave.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Frame<'_>> {
        self.entries.iter().map(|entry| self.frame(entry))
    }

    /// Forgets every packet.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.heads.clear();
    }

    /// Forgets the first `count` packets, which have been sent.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn consume(&mut self, count: usize) {
        self.entries.drain(..count);
        // Heads need not ascend: a wrapper may have put late packets in between.
        let Some(gone) = self.entries.iter().map(|entry| entry.head.start).min() else {
            return self.heads.clear();
        };
        self.heads.drain(..gone);
        for entry in &mut self.entries {
            entry.head = entry.head.start - gone..entry.head.end - gone;
        }
    }

    fn frame<'a>(&'a self, entry: &'a Entry) -> Frame<'a> {
        let head = &self.heads[entry.head.clone()];
        Frame { to: entry.to, head, body: &entry.body, may_fragment: entry.may_fragment }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(batch: &mut SendBatch, head: &[u8], body: &'static [u8]) {
        let start = batch.heads.len();
        batch.heads_mut().extend_from_slice(head);
        batch.push(to(), start..start + head.len(), Bytes::from_static(body), false);
    }

    fn to() -> SocketAddr {
        "10.0.0.1:1".parse().unwrap()
    }

    fn whole(batch: &SendBatch) -> Vec<Vec<u8>> {
        batch.iter().map(|frame| [frame.head, frame.body].concat()).collect()
    }

    #[test]
    fn a_small_body_lies_behind_its_head_and_a_large_one_is_not_copied() {
        static LARGE: [u8; INLINE_BYTES + 1] = [7; INLINE_BYTES + 1];
        let mut batch = SendBatch::new();
        push(&mut batch, b"one", b"small");
        push(&mut batch, b"two", &LARGE);
        let frames: Vec<Frame> = batch.iter().collect();
        assert_eq!((frames[0].head, frames[0].body.len()), (&b"onesmall"[..], 0));
        assert_eq!((frames[1].head, frames[1].body.as_ptr()), (&b"two"[..], LARGE.as_ptr()));
    }

    #[test]
    fn what_was_not_sent_stays_whole() {
        let mut batch = SendBatch::new();
        for (head, body) in [(b"a", &b"xyz"[..]), (b"b", b""), (b"c", &[3; 400])] {
            push(&mut batch, head, body);
        }
        let expected = whole(&batch)[1..].to_vec();
        batch.consume(1);
        assert_eq!(whole(&batch), expected);
        push(&mut batch, b"d", b"more");
        assert_eq!(whole(&batch)[2], b"dmore");
        batch.consume(3);
        assert!(batch.is_empty() && batch.heads.is_empty());
    }

    #[test]
    #[should_panic(expected = "no bytes of the heads")]
    fn a_head_outside_the_heads_is_refused() {
        SendBatch::new().push(to(), 0..1, Bytes::new(), false);
    }
}
