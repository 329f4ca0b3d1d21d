//! What a thread gathers while it holds locks, and does when it holds none: packets to send, wakes to give.
//!
//! One per thread, used again and again, so that nothing is allocated per packet. It is taken out of its place while in
//! use: a wake that calls back into the engine finds none there and makes another.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;

use weft_link::{GROUP_BYTES_MAX, SendBatch};
use weft_proto::{Connection, Transmit};
use weft_wire::Packet;

use crate::slot::Slot;
use crate::waiters::Wake;

/// Packets after which a batch goes to the link before more is polled.
const BATCH_PACKETS: usize = 128;

// What the machine lays behind a head is what the link would have laid there.
const _: () = assert!(weft_proto::INLINE_BYTES == weft_link::INLINE_BYTES);

/// Packets, claims and wakes of one operation or turn.
#[derive(Default)]
pub(crate) struct Outbox {
    pub(crate) batch: SendBatch,
    bytes: usize,
    /// Bytes of the last packet.
    last: usize,
    /// The last ones fill their pages.
    fills_pages: bool,
    /// Slots whose packets lie in the batch, and whether they have more.
    pub(crate) claims: Vec<(Arc<Slot>, bool)>,
    pub(crate) wakes: Vec<Wake>,
    /// Slots in QUIET that have to make room for others.
    pub(crate) crowded_out: Vec<Arc<Slot>>,
    /// Slots whose listener closed while they came up.
    pub(crate) unaccepted: Vec<Arc<Slot>>,
    /// Packets that a connection gave way to, and where they came from: as if it were not there.
    pub(crate) given_way: Vec<(Packet, SocketAddr)>,
    /// Slots that a turn handed packets to.
    pub(crate) touched: Vec<Arc<Slot>>,
}

thread_local! {
    static OUTBOX: Cell<Option<Box<Outbox>>> = const { Cell::new(None) };
    static WAKES_GIVEN: Cell<u64> = const { Cell::new(0) };
}

/// How many wakes this thread has given, with turns above all.
pub(crate) fn wakes_given() -> u64 {
    WAKES_GIVEN.get()
}

impl Outbox {
    /// The outbox of this thread.
    pub(crate) fn take() -> Box<Self> {
        OUTBOX.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }

    /// Gives the wakes and puts the outbox back. No lock is held.
    pub(crate) fn put_back(mut self: Box<Self>) {
        debug_assert!(!self.has_work() && self.touched.is_empty());
        self.give_wakes();
        // At the end of a thread there is no place any more, and the outbox goes with it.
        let _ = OUTBOX.try_with(|place| place.set(Some(self)));
    }

    /// Gives the wakes. No lock of a slot is held.
    pub(crate) fn give_wakes(&mut self) {
        while let Some(wake) = self.wakes.pop() {
            wake.run();
            WAKES_GIVEN.set(WAKES_GIVEN.get() + 1);
        }
    }

    /// Whether something is left to do without locks.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.batch.is_empty()
            || !self.claims.is_empty()
            || !self.crowded_out.is_empty()
            || !self.unaccepted.is_empty()
            || !self.given_way.is_empty()
    }

    /// Adds a packet, or some, that `connection` has just made: where it lies, or behind its head, which was written to the batch.
    /// What was made a moment ago is not moved as a whole: a wide read of fields that were written one by one waits for the whole
    /// packet to leave the core's store buffer.
    #[inline]
    pub(crate) fn push(&mut self, to: SocketAddr, connection: &Connection, transmit: &mut Transmit) {
        if let Some(frame) = connection.frame(transmit) {
            let packets = transmit.packets as usize;
            self.count(frame.len(), packets);
            self.fills_pages = frame.fill_pages(self.last);
            return self.batch.push_frames(to, &frame, packets, transmit.may_fragment);
        }
        self.count(transmit.head.len() + transmit.body.len(), 1);
        let head = transmit.head.clone();
        if transmit.body.is_empty() {
            self.batch.push_laid(to, head, transmit.may_fragment);
        } else {
            self.batch.push(to, head, std::mem::take(&mut transmit.body), transmit.may_fragment);
        }
    }

    #[inline]
    fn count(&mut self, bytes: usize, packets: usize) {
        self.bytes += bytes;
        self.last = bytes / packets;
        self.fills_pages = false;
    }

    /// Bytes of more packets that leave as one with those that are there.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        GROUP_BYTES_MAX.saturating_sub(self.bytes)
    }

    /// Whether it is time to hand the batch to the link: one more packet would not leave as one with the others, and the other end
    /// can work on these while this end makes the next.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.bytes + self.last > GROUP_BYTES_MAX || self.batch.len() >= BATCH_PACKETS
    }

    /// Whether what was made last fills its pages: if it ends the batch, and the next one does with the next pages, a link can take what is
    /// in them as one.
    #[inline]
    pub(crate) fn fills_pages(&self) -> bool {
        self.fills_pages
    }

    /// The batch was handed over.
    pub(crate) fn note_sent(&mut self) {
        (self.bytes, self.last, self.fills_pages) = (0, 0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_what_leaves_as_one() {
        for (packet_bytes, packets) in [(1_472, 44), (8_972, 7), (40_000, 1), (65_507, 1)] {
            let mut out = Outbox::default();
            let counted = (1..).find(|_| {
                out.count(packet_bytes, 1);
                out.is_full()
            });
            assert_eq!(counted, Some(packets), "{packet_bytes} bytes");
        }
    }
}
