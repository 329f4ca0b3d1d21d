//! Data of large packets that the kernel has copied to where their reader wants it (early binding: F. Khun Jush, section 3.1.3).
//!
//! Where the data of a packet is to go is known before the packet is: the next one of a flood is likely to be as long as the last, and
//! for the same reader. What turns out to be another packet is copied to where it would have come otherwise.

use std::net::SocketAddr;

use super::{HEAD_BYTES, RecvBatch};

/// Bytes of a packet from which on the pass that this saves is worth what looking at each by itself costs (decision 0107).
const LARGE_BYTES_MIN: usize = 4 << 10;
/// The same where a turn takes no more of them than the reader has room for, however few that are.
const FEW_BYTES_MIN: usize = 16 << 10;
/// Bytes that he has room for where smaller ones are placed: a turn of fewer costs more than is saved.
const ROOM_BYTES_MIN: usize = 256 << 10;
/// Turns without, after a packet was another than was expected.
const PAUSE_TURNS: u32 = 64;

/// A packet whose data lies where its reader wants it, behind that of those before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The underlay address it came from.
    pub from: SocketAddr,
    /// Its header, not yet checked.
    pub head: [u8; HEAD_BYTES],
    /// Bytes of its data.
    pub len: usize,
}

/// What is known of the next packet.
#[derive(Default, Debug)]
pub(super) struct Placing {
    packets: Vec<Placed>,
    /// Bytes of the last one, if it was large.
    expected: usize,
    pause: u32,
    is_cut: bool,
}

impl Placing {
    /// Bytes of all of them, heads included.
    pub(super) fn bytes(&self) -> usize {
        self.packets.iter().map(|placed| HEAD_BYTES + placed.len).sum()
    }
}

impl RecvBatch {
    /// Whether data lies with its reader, which [`RecvBatch::settle_placed`] is to see to before any packet is taken out.
    #[inline]
    #[must_use]
    pub fn has_placed(&self) -> bool {
        self.placed() > 0
    }

    /// How many packets those are.
    #[inline]
    pub(crate) fn placed(&self) -> usize {
        self.placing.packets.len()
    }

    /// Shows `take` the packets whose data lies at the beginning of `place`, each with its data, until it does not take all of one: those
    /// that follow, and one of which it says `None`, go before the other packets, as if they had come as these. Tells how many bytes
    /// of data it has taken.
    pub fn settle_placed(
        &mut self,
        place: &[u8],
        mut take: impl FnMut(&Placed, &[u8]) -> Option<usize>,
    ) -> usize {
        let mut packets = std::mem::take(&mut self.placing.packets);
        let (mut bytes, mut at, mut count) = (0, 0, 0);
        for placed in &packets {
            let Some(taken) = take(placed, &place[at..at + placed.len]) else { break };
            (bytes, at, count) = (bytes + taken, at + placed.len, count + 1);
            if taken != placed.len {
                break;
            }
        }
        if count < packets.len() {
            self.displace(&packets[count..], &place[at..]);
        }
        packets.clear();
        self.placing.packets = packets;
        bytes
    }

    #[cold]
    fn displace(&mut self, packets: &[Placed], mut place: &[u8]) {
        self.placing.pause = PAUSE_TURNS;
        let behind = std::mem::take(&mut self.packets);
        for Placed { from, head, len } in packets {
            let (data, rest) = place.split_at(*len);
            place = rest;
            // SAFETY: all of the packet is in the two pieces.
            unsafe { self.push_split(*from, head, data, HEAD_BYTES + len) };
        }
        self.packets.extend(behind);
    }

    /// A packet of `len` bytes, the first of which lie in two pieces elsewhere.
    ///
    /// # Safety
    /// The slice that the last call of [`RecvBatch::region`] returned has the others where they belong.
    pub(crate) unsafe fn push_split(&mut self, from: SocketAddr, head: &[u8], data: &[u8], len: usize) {
        let mut at = self.region().as_mut_ptr().cast::<u8>();
        for piece in [head, data] {
            // SAFETY: a region is longer than any packet, is ours, and lies elsewhere.
            unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), at, piece.len()) };
            // SAFETY: as above.
            at = unsafe { at.add(piece.len()) };
        }
        // SAFETY: these bytes have just been written, and the caller wrote those behind them.
        unsafe { self.push_region(from, len, len) };
    }

    /// Whether the last turn ended before the link was empty and the batch full, as the next packet would not have been placed.
    #[inline]
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.placing.is_cut
    }

    #[inline]
    pub(crate) fn note_cut(&mut self, is_cut: bool) {
        self.placing.is_cut = is_cut;
    }

    /// A packet of `len` bytes came by itself.
    #[inline]
    pub(crate) fn note_alone(&mut self, len: usize) {
        self.placing.expected = if len >= LARGE_BYTES_MIN { len } else { 0 };
    }

    /// Bytes of data that the next packet is likely to bring, if those of it may be placed with a reader who has `room` for so many.
    #[inline]
    pub(crate) fn expected_data(&mut self, room: usize) -> Option<usize> {
        if self.placing.pause > 0 {
            self.placing.pause -= 1;
            return None;
        }
        let expected = self.placing.expected;
        let data = expected.checked_sub(HEAD_BYTES)?;
        let needed = if expected < FEW_BYTES_MIN { ROOM_BYTES_MIN } else { data };
        (self.is_empty() && room >= needed).then_some(data)
    }

    pub(crate) fn push_placed(&mut self, placed: Placed) {
        self.placing.packets.push(placed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Received;

    fn at(port: u16) -> SocketAddr {
        ([10, 0, 0, 1], port).into()
    }

    /// Three packets of 20, 30 and 10 bytes whose data lies at the beginning of what is returned, before one that came otherwise.
    fn placed() -> (RecvBatch, Vec<u8>) {
        let mut batch = RecvBatch::new();
        let mut place = Vec::new();
        for (number, len) in [(1, 20), (2, 30), (3, 10)] {
            batch.push_placed(Placed { from: at(number.into()), head: [number; HEAD_BYTES], len });
            place.resize(place.len() + len, number + 10);
        }
        batch.push_copy(at(4), &[b"behind"]);
        (batch, place)
    }

    #[test]
    fn what_is_taken_is_gone_and_what_is_not_comes_before_the_others() {
        // how much of each packet is taken, how much that is, and which packets are left
        for (answers, bytes, left) in [
            (&[Some(20), Some(30), Some(10)][..], 60, &[][..]),
            (&[Some(20), Some(30), None], 50, &[3]),
            (&[Some(20), Some(0)], 20, &[3]),
            (&[Some(0)], 0, &[2, 3]),
            (&[None], 0, &[1, 2, 3_u8]),
        ] {
            let (mut batch, place) = placed();
            assert!(batch.has_placed());
            assert_eq!((batch.len(), batch.pieces(), batch.bytes()), (4, 4, 3 * HEAD_BYTES + 60 + 6));
            let mut shown = 0;
            let taken = batch.settle_placed(&place, |placed, data| {
                assert!(placed.head[0] + 10 == data[0] && placed.len == data.len());
                shown += 1;
                answers[shown - 1]
            });
            assert_eq!((taken, shown), (bytes, answers.len()));
            assert!(!batch.has_placed());
            let came: Vec<Received> = batch.drain_joined().collect();
            let (behind, before) = came.split_last().unwrap();
            assert_eq!(&behind.bytes[..], b"behind");
            assert_eq!(before.len(), left.len());
            for (packet, &number) in before.iter().zip(left) {
                let (head, data) = packet.bytes.split_at(HEAD_BYTES);
                assert_eq!((packet.from, head), (at(number.into()), &[number; HEAD_BYTES][..]));
                assert!(
                    data.iter().all(|&byte| byte == number + 10)
                        && data.len() == [20, 30, 10][usize::from(number) - 1]
                );
            }
        }
    }

    #[test]
    fn the_next_packet_is_expected_to_be_as_the_last_until_it_is_not() {
        let mut batch = RecvBatch::new();
        assert_eq!(batch.expected_data(ROOM_BYTES_MIN), None);
        batch.note_alone(LARGE_BYTES_MIN);
        assert_eq!(batch.expected_data(ROOM_BYTES_MIN), Some(LARGE_BYTES_MIN - HEAD_BYTES));
        assert_eq!(batch.expected_data(ROOM_BYTES_MIN - 1), None, "they would be too few");
        batch.note_alone(LARGE_BYTES_MIN - 1);
        assert_eq!(batch.expected_data(ROOM_BYTES_MIN), None, "not worth it");
        batch.note_alone(FEW_BYTES_MIN);
        assert_eq!(batch.expected_data(FEW_BYTES_MIN - HEAD_BYTES), Some(FEW_BYTES_MIN - HEAD_BYTES));
        assert_eq!(batch.expected_data(FEW_BYTES_MIN - HEAD_BYTES - 1), None, "no room");
        batch.note_alone(60_000);
        batch.push_copy(at(1), &[b"before"]);
        assert_eq!(batch.expected_data(ROOM_BYTES_MIN), None, "it would go before what came before");
        batch.drain();
        let (mut batch, place) = placed();
        batch.note_alone(60_000);
        batch.settle_placed(&place, |_, _| None);
        batch.drain();
        assert!((0..PAUSE_TURNS).all(|_| batch.expected_data(60_000).is_none()));
        assert_eq!(batch.expected_data(60_000), Some(60_000 - HEAD_BYTES));
    }
}
