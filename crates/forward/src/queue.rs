//! What waits to leave by a link: the batch that the link is offered, and what it did not take of earlier ones.

use std::io;
use std::net::SocketAddr;

use bytes::BytesMut;
use weft_base::limits::FORWARD_QUEUE_PACKETS;
use weft_link::{Link, LinkInfo, SendBatch};
use weft_wire::{HEADER_LEN, Transit};

use crate::Departures;

/// Packets in order of their arrival. Packets of one size to one node lie end to end, so that they leave by one call.
pub(crate) struct Queue {
    batch: SendBatch,
    /// Bytes of the largest packet that the link takes whole.
    whole_bytes_max: usize,
    pub(crate) counts: Departures,
}

impl Queue {
    /// An empty queue for `link`.
    pub(crate) fn new(link: &LinkInfo) -> Self {
        let whole_bytes_max = HEADER_LEN + usize::from(link.mss);
        Self { batch: SendBatch::new(), whole_bytes_max, counts: Departures::default() }
    }

    /// Packets that wait.
    pub(crate) fn len(&self) -> usize {
        self.batch.len()
    }

    /// Whether it is time to offer the link what there is.
    pub(crate) fn is_batch(&self) -> bool {
        self.batch.is_full()
    }

    /// Adds the packet of `length` bytes that `packet` starts with, to be sent to `to` as forwarded once more. It is changed
    /// where it lies.
    ///
    /// [CDP-LIM-14] A queue that is full drops it. [CDP-FWD-5] In one that is more than half full it is marked. [CDP-FWD-6] A
    /// repeat that the link does not take whole may be cut by the underlay.
    #[inline]
    pub(crate) fn push(&mut self, to: SocketAddr, mut packet: BytesMut, length: usize) {
        let waiting = self.batch.len();
        if waiting >= FORWARD_QUEUE_PACKETS {
            self.counts.queue_drops += 1;
            return;
        }
        let is_congested = waiting > FORWARD_QUEUE_PACKETS / 2;
        self.counts.packets += 1;
        self.counts.bytes += length as u64;
        self.counts.marked += u64::from(is_congested && !Transit::is_marked(packet[0]));
        packet[0] = Transit::forwarded(packet[0], is_congested);
        packet.truncate(length);
        if length > self.whole_bytes_max && Transit::is_repeat(packet[0]) {
            self.batch.push_copy(to, &[&packet], true);
        } else {
            self.batch.push_own(to, packet);
        }
    }

    /// Offers the link everything. True when it takes no more now.
    pub(crate) fn flush(&mut self, link: &dyn Link) -> bool {
        if self.batch.is_empty() {
            return false;
        }
        match link.send(&mut self.batch) {
            Ok(_) => false,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
            Err(_) => {
                self.counts.link_drops += self.batch.len() as u64;
                self.batch.clear();
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_link::INLINE_BYTES;

    use super::*;
    use crate::port::tests::{Narrow, frames};

    fn to() -> SocketAddr {
        ([10, 0, 0, 2], 64064).into()
    }

    /// A packet whose second byte tells it from others.
    fn packet(number: u8, length: usize) -> BytesMut {
        let mut bytes = BytesMut::from(&vec![0x10; length][..]);
        bytes[1] = number;
        bytes
    }

    /// A queue for a link that takes packets of 9,000 bytes whole.
    fn queue() -> Queue {
        Queue::new(&LinkInfo { mss: 9_000 - 28, ..Narrow::new(0).info() })
    }

    fn filled(count: usize) -> Queue {
        let mut queue = queue();
        for _ in 0..count {
            queue.push(to(), packet(0, 100), 100);
        }
        queue
    }

    /// [CDP-LIM-14] The forwarding queue holds 1,024 packets; beyond it the newest is dropped.
    #[test]
    fn a_full_queue_drops_the_newest_packet() {
        let mut queue = filled(FORWARD_QUEUE_PACKETS);
        queue.push(to(), packet(9, 100), 100);
        assert_eq!((queue.len(), queue.counts.queue_drops), (1_024, 1));
        assert_eq!(queue.counts.packets, 1_024);
        let link = Narrow::new(2_000);
        assert!(!queue.flush(&link));
        assert!(frames(&link).iter().all(|frame| frame[1] == 0));
    }

    /// [CDP-FWD-5] CE is set in what finds the queue more than half full, and in nothing else.
    #[test]
    fn packets_are_marked_from_half_full_on() {
        let mut queue = filled(FORWARD_QUEUE_PACKETS);
        let link = Narrow::new(2_000);
        queue.flush(&link);
        let first = frames(&link).iter().position(|frame| Transit::is_marked(frame[0]));
        assert_eq!((first, queue.counts.marked), (Some(513), 511));
    }

    /// [CDP-FWD-2] Bytes of a packet, small or large, are those that came, but for three bits.
    #[test]
    fn packets_leave_as_they_came() {
        for length in [28, 100, 1_472, INLINE_BYTES, INLINE_BYTES + 1, 8_972] {
            let (mut queue, link) = (queue(), Narrow::new(10));
            let came: Vec<u8> = (0..length + 5).map(|at| u8::try_from(at % 251).unwrap() | 0x10).collect();
            queue.push(to(), BytesMut::from(&came[..]), length);
            queue.flush(&link);
            let left = frames(&link).remove(0);
            assert_eq!((left[0], &left[1..]), (0x11, &came[1..length]), "{length}");
        }
    }

    /// [CDP-FWD-6] A repeat that is too large for the link may be cut on its way; all else may not.
    #[test]
    fn only_a_repeat_that_is_too_large_may_be_fragmented() {
        let mut queue = queue();
        for (first, length) in [(0x10, 9_001), (0x18, 9_000), (0x18, 9_001)] {
            let mut bytes = packet(0, length);
            bytes[0] = first;
            queue.push(to(), bytes, length);
        }
        let may: Vec<bool> = queue.batch.iter().map(|frame| frame.may_fragment).collect();
        assert_eq!(may, [false, false, true]);
    }

    #[test]
    fn what_the_link_does_not_take_waits_in_order() {
        let (mut queue, link) = (queue(), Narrow::new(3));
        for number in 0..8 {
            queue.push(to(), packet(number, 100), 100);
        }
        assert!(queue.flush(&link) && queue.len() == 5);
        link.widen(100);
        assert!(!queue.flush(&link) && queue.len() == 0);
        assert!(frames(&link).iter().map(|frame| frame[1]).eq(0..8));
    }

    #[test]
    fn a_broken_link_holds_nothing_back() {
        let (mut queue, link) = (filled(7), Narrow::broken());
        assert!(!queue.flush(&link));
        assert_eq!((queue.len(), queue.counts.link_drops), (0, 7));
    }
}
