//! Packets of one sender that come one by one, each right behind the last, are laid end to end, as if the kernel had joined them:
//! what is alike is looked at once then (`Received::size`).

use std::mem::MaybeUninit;
use std::net::SocketAddr;

use super::{COPYBREAK_BYTES, REGION_BYTES, Received, RecvBatch};
use crate::arena::LINE_BYTES;

/// Packets that lie at the begin of the region and are not taken out of it yet: whole cache lines each, so that the next one may
/// follow.
#[derive(Default, Debug)]
pub(super) struct Run {
    from: Option<SocketAddr>,
    /// Bytes of each.
    size: usize,
    bytes: usize,
    count: usize,
}

impl Run {
    /// How many packets lie there.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count
    }
}

impl RecvBatch {
    /// As [`RecvBatch::region`], behind the packets of the run where that may go on.
    #[inline]
    pub(crate) fn region_in_run(&mut self) -> &mut [MaybeUninit<u8>] {
        if self.run.count > 0 && self.regions.room() < self.run.bytes + REGION_BYTES {
            self.end_run();
        }
        &mut self.regions.spare(REGION_BYTES)[self.run.bytes..]
    }

    /// One packet of `len` bytes, which came by itself. [`RecvBatch::end_run`] is to be called when no more of them come.
    ///
    /// # Safety
    /// The first `len` bytes of the slice that the last call of [`RecvBatch::region_in_run`] returned have been written.
    #[inline]
    pub(crate) unsafe fn push_in_run(&mut self, from: SocketAddr, len: usize) {
        let goes_on = self.run.from == Some(from) && (1..=self.run.size).contains(&len);
        if self.run.count > 0 && !goes_on {
            self.end_run();
        }
        if self.run.count == 0 {
            if len <= COPYBREAK_BYTES {
                // SAFETY: passed on to the caller; no run lies before it.
                unsafe { self.push_region(from, len, len) };
                return;
            }
            (self.run.from, self.run.size) = (Some(from), len);
        }
        self.run.bytes += len;
        self.run.count += 1;
        if len < self.run.size || !len.is_multiple_of(LINE_BYTES) {
            self.end_run();
        }
    }

    /// Puts in the packets of the run.
    pub(crate) fn end_run(&mut self) {
        let Run { from: Some(from), size, bytes, count } = std::mem::take(&mut self.run) else { return };
        // SAFETY: packet by packet has been written, each behind the last.
        let bytes = unsafe { self.regions.take(bytes) };
        self.packets.push(Received { from, bytes, size });
        self.joined += count - 1;
        self.laid += count - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        ([10, 0, 0, 1], port).into()
    }

    /// Packets of so many bytes from these ports, as they lie in a batch: ports, bytes, bytes of each.
    fn lay(packets: &[(u16, usize)]) -> (RecvBatch, Vec<(u16, usize, usize)>) {
        let mut batch = RecvBatch::with_budget(1_000);
        for (number, &(port, len)) in (0_u8..).zip(packets) {
            batch.region_in_run()[..len].fill(MaybeUninit::new(number));
            // SAFETY: so many bytes have just been written.
            unsafe { batch.push_in_run(at(port), len) };
        }
        batch.end_run();
        let pieces = batch.packets.iter().map(|piece| (piece.from.port(), piece.bytes.len(), piece.size));
        let pieces = pieces.collect();
        (batch, pieces)
    }

    #[test]
    fn packets_of_one_size_come_together_and_a_shorter_one_is_their_last() {
        let (batch, pieces) = lay(&[(1, 1_472), (1, 1_472), (1, 1_472), (1, 900), (1, 1_472)]);
        assert_eq!(pieces, [(1, 3 * 1_472 + 900, 1_472), (1, 1_472, 1_472)]);
        assert_eq!((batch.len(), batch.pieces(), batch.bytes()), (5, 5, 4 * 1_472 + 900));
    }

    #[test]
    fn what_does_not_go_on_begins_anew() {
        assert_eq!(lay(&[(1, 640), (1, 1_472)]).1, [(1, 640, 640), (1, 1_472, 1_472)], "a larger one");
        assert_eq!(lay(&[(1, 1_472), (2, 1_472)]).1, [(1, 1_472, 1_472), (2, 1_472, 1_472)], "another peer");
        assert_eq!(lay(&[(1, 1_000), (1, 1_000)]).1, [(1, 1_000, 1_000); 2], "none on whole cache lines");
        assert_eq!(
            lay(&[(1, 60), (1, 60), (1, 0)]).1,
            [(1, 60, 60), (1, 60, 60), (1, 0, 0)],
            "what is copied out"
        );
        assert_eq!(lay(&[(1, 1_472), (1, 60)]).1, [(1, 1_532, 1_472)], "not where it ends a run");
        assert_eq!(
            lay(&[(1, 1_472), (1, 0)]).1,
            [(1, 1_472, 1_472), (1, 0, 0)],
            "nothing is the end of none"
        );
        assert_eq!(lay(&[]).1, []);
    }

    /// However they lie, taken apart they are what came, across the ends of chunks too.
    #[test]
    fn every_packet_keeps_its_bytes() {
        let sizes = [1_472, 1_472, 1_472, 640, 640, 900, 60, 1_472, 65_536, 65_536, 1_472];
        let packets: Vec<(u16, usize)> =
            (0..250).map(|number| (number / 100, sizes[usize::from(number) % 11])).collect();
        let (mut batch, _) = lay(&packets);
        assert_eq!(batch.len(), 250);
        let apart: Vec<Received> = batch.drain().collect();
        assert_eq!((apart.len(), batch.pieces()), (250, 0));
        for (number, (packet, (port, len))) in (0_u8..).zip(apart.iter().zip(packets)) {
            assert_eq!((packet.from, packet.bytes.len()), (at(port), len));
            assert!(packet.bytes.iter().all(|&byte| byte == number));
        }
    }
}
