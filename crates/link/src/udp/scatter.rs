//! Groups of packets laid out for one system call: iovec lists, addresses, control messages.

use std::mem::MaybeUninit;
use std::ptr;

use super::address::RawAddress;
use crate::SendBatch;
use crate::send_batch::{Cursor, Run, as_one};

/// Packets in one group: what every kernel with `UDP_SEGMENT` takes.
pub(super) const SEGMENTS_MAX: usize = 64;
/// Groups that one system call sends.
const GROUPS_MAX: usize = 32;
/// Pieces of memory that one system call sends from.
const PIECES_MAX: usize = 256;

/// A control message that holds a segment size.
#[repr(C)]
#[derive(Clone, Copy)]
struct SegmentSize {
    header: libc::cmsghdr,
    bytes: u16,
    padding: [u16; 3],
}

/// Groups laid out for one `sendmmsg`. It points into itself, so it is filled and used where it lies.
pub(super) struct Scatter {
    messages: [MaybeUninit<libc::mmsghdr>; GROUPS_MAX],
    addresses: [MaybeUninit<RawAddress>; GROUPS_MAX],
    sizes: [MaybeUninit<SegmentSize>; GROUPS_MAX],
    pieces: [MaybeUninit<libc::iovec>; PIECES_MAX],
    /// Packets of each group.
    packets: [usize; GROUPS_MAX],
    groups: usize,
}

impl Scatter {
    pub(super) const fn new() -> Self {
        Self {
            messages: [const { MaybeUninit::uninit() }; GROUPS_MAX],
            addresses: [const { MaybeUninit::uninit() }; GROUPS_MAX],
            sizes: [const { MaybeUninit::uninit() }; GROUPS_MAX],
            pieces: [const { MaybeUninit::uninit() }; PIECES_MAX],
            packets: [0; GROUPS_MAX],
            groups: 0,
        }
    }

    /// Lays out as many groups of `batch` from its packet at `from` on as fit, of up to `group_max` packets each. Stops at a packet
    /// that may be fragmented.
    pub(super) fn fill(
        &mut self,
        batch: &SendBatch,
        from: Cursor,
        group_max: usize,
        is_v6: bool,
    ) -> &mut [libc::mmsghdr] {
        let (mut at, mut used) = (from, 0);
        self.groups = 0;
        while let Some(run) = batch.runs.get(at.run)
            && self.groups < GROUPS_MAX
            && !run.may_fragment
        {
            let count = group_len(&batch.runs[at.run..], at.skip, group_max);
            let Some(pieces) = self.gather(batch, at, count, used) else { break };
            self.address_group(run, count, used, pieces, is_v6);
            used += pieces;
            batch.advance(&mut at, count);
        }
        // SAFETY: the first `groups` messages have been written, and the borrow of `self` goes on.
        unsafe { std::slice::from_raw_parts_mut(self.messages.as_mut_ptr().cast(), self.groups) }
    }

    /// Packets of the first `groups` groups.
    pub(super) fn packets(&self, groups: usize) -> usize {
        self.packets[..groups].iter().sum()
    }

    /// Lists the memory of `count` packets from `at` on, and returns the number of pieces, or `None` if they do not
    /// fit behind the `used` ones.
    fn gather(&mut self, batch: &SendBatch, at: Cursor, count: usize, used: usize) -> Option<usize> {
        let mut pieces = Pieces { room: &mut self.pieces[used..], len: 0 };
        let (mut skip, mut left) = (at.skip, count);
        for run in &batch.runs[at.run..] {
            let taken = left.min(run.count - skip);
            let (head, body) = run.bytes(&batch.heads, skip, taken);
            pieces.add(head)?;
            if !body.is_empty() {
                pieces.add(body)?;
            }
            left -= taken;
            if left == 0 {
                break;
            }
            skip = 0;
        }
        Some(pieces.len)
    }

    fn address_group(&mut self, run: &Run, count: usize, first: usize, pieces: usize, is_v6: bool) {
        let group = self.groups;
        let address = self.addresses[group].write(RawAddress::new(run.to, is_v6));
        let (control, control_bytes) = match count {
            1 => (ptr::null_mut(), 0),
            _ => (
                ptr::from_mut(self.sizes[group].write(SegmentSize::new(run.size))).cast(),
                size_of::<SegmentSize>(),
            ),
        };
        self.messages[group].write(libc::mmsghdr {
            msg_hdr: libc::msghdr {
                msg_name: address.as_ptr().cast_mut().cast(),
                msg_namelen: address.len(),
                msg_iov: self.pieces[first..].as_mut_ptr().cast(),
                msg_iovlen: pieces,
                msg_control: control,
                msg_controllen: control_bytes,
                msg_flags: 0,
            },
            msg_len: 0,
        });
        self.packets[group] = count;
        self.groups += 1;
    }
}

impl SegmentSize {
    #[allow(clippy::cast_possible_truncation)] // groups have at most 65,000 bytes
    fn new(bytes: usize) -> Self {
        let header = libc::cmsghdr {
            cmsg_len: size_of::<libc::cmsghdr>() + size_of::<u16>(),
            cmsg_level: libc::SOL_UDP,
            cmsg_type: libc::UDP_SEGMENT,
        };
        Self { header, bytes: bytes as u16, padding: [0; 3] }
    }
}

/// A list of pieces of memory.
struct Pieces<'a> {
    room: &'a mut [MaybeUninit<libc::iovec>],
    len: usize,
}

impl Pieces<'_> {
    fn add(&mut self, bytes: &[u8]) -> Option<()> {
        let piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        self.room.get_mut(self.len)?.write(piece);
        self.len += 1;
        Some(())
    }
}

/// How many packets leave as one, from the one numbered `skip` of the first run on: packets of one size, and one that is
/// shorter; `group_max` of them at most.
fn group_len(runs: &[Run], skip: usize, group_max: usize) -> usize {
    let first = &runs[0];
    let most = as_one(first.size, group_max);
    let mut count = first.count - skip;
    for (run, next) in runs.iter().zip(&runs[1..]) {
        if count >= most || run.size != first.size || !run.goes_on_in(next) {
            break;
        }
        count += next.count;
    }
    count.min(most)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use bytes::Bytes;
    use weft_frame::FrameBuffer;

    use super::*;
    use crate::INLINE_BYTES;

    fn batch(packets: &[(usize, u16)]) -> SendBatch {
        let mut batch = SendBatch::new();
        for &(len, port) in packets {
            let start = batch.heads_mut().len();
            batch.heads_mut().extend_from_slice(&[1; 28]);
            let to = SocketAddr::from(([127, 0, 0, 1], port));
            batch.push(to, start..start + 28, Bytes::from(vec![2; len - 28]), false);
        }
        batch
    }

    fn groups(batch: &SendBatch, group_max: usize) -> Vec<usize> {
        let mut scatter = Scatter::new();
        let groups = scatter.fill(batch, Cursor::default(), group_max, false).len();
        scatter.packets[..groups].to_vec()
    }

    #[test]
    fn packets_of_one_size_for_one_target_are_one_group_and_a_shorter_one_ends_it() {
        let packets = [(1472, 1), (1472, 1), (900, 1), (900, 1), (1472, 1), (1472, 2)];
        assert_eq!(groups(&batch(&packets), SEGMENTS_MAX), [3, 1, 1, 1]);
        assert_eq!(groups(&batch(&packets), 1), [1; 6]);
    }

    #[test]
    fn a_group_stays_below_the_limits_of_the_kernel() {
        assert_eq!(groups(&batch(&[(100, 1); 100]), SEGMENTS_MAX), [64, 36]);
        assert_eq!(groups(&batch(&[(1472, 1); 50]), SEGMENTS_MAX), [44, 6]);
        assert_eq!(groups(&batch(&[(1472, 1); 50]), 32), [32, 18]);
        assert_eq!(groups(&batch(&[(40_000, 1); 2]), SEGMENTS_MAX), [1, 1]);
        assert_eq!(groups(&batch(&[(9_000, 1); 10]), SEGMENTS_MAX), [7, 3]);
    }

    #[test]
    fn small_packets_are_one_piece_and_large_ones_two_each() {
        let mut scatter = Scatter::new();
        let mut pieces = |len| {
            let batch = batch(&[(len, 1); 6]);
            scatter.fill(&batch, Cursor::default(), SEGMENTS_MAX, false)[0].msg_hdr.msg_iovlen
        };
        assert_eq!((pieces(92), pieces(1472), pieces(INLINE_BYTES + 29)), (1, 1, 12));
    }

    #[test]
    fn what_does_not_fit_one_call_is_left_for_the_next() {
        let packets: Vec<_> = (0..40).map(|n| (1472 - n, 1)).collect();
        assert_eq!(groups(&batch(&packets), 1).len(), GROUPS_MAX);
        let large = groups(&batch(&[(INLINE_BYTES + 29, 1); 300]), SEGMENTS_MAX);
        assert_eq!(large.iter().sum::<usize>(), PIECES_MAX / 2 / large[0] * large[0]);
    }

    #[test]
    fn packets_of_one_size_that_lie_in_several_places_leave_as_one_and_a_shorter_one_ends_them() {
        let mut scatter = Scatter::new();
        let mut batch = SendBatch::new();
        let to = SocketAddr::from(([127, 0, 0, 1], 1));
        for sizes in [&[1_000; 3][..], &[1_000, 1_000, 700], &[700, 700]] {
            let mut buffer = FrameBuffer::with_capacity(4_096);
            for &size in sizes {
                let at = buffer.skip(size);
                buffer.freeze(at + size);
                batch.push_frames(to, &buffer.frames(at..at + size), 1, false);
            }
        }
        batch.push_slice(to, &[1; 28]);
        let messages = scatter.fill(&batch, Cursor::default(), SEGMENTS_MAX, false);
        let pieces: Vec<usize> = messages.iter().map(|message| message.msg_hdr.msg_iovlen).collect();
        assert_eq!((pieces, &scatter.packets[..2]), (vec![2, 2], &[6, 3][..]));
        let within = Cursor { run: 0, skip: 2 };
        let pieces = scatter.fill(&batch, within, SEGMENTS_MAX, false)[0].msg_hdr.msg_iovlen;
        assert_eq!((pieces, scatter.packets(1)), (2, 4));
    }

    #[test]
    fn groups_go_on_within_a_run() {
        let mut scatter = Scatter::new();
        let batch = batch(&[(500, 1); 100]);
        let messages = scatter.fill(&batch, Cursor { run: 0, skip: 64 }, SEGMENTS_MAX, false).len();
        assert_eq!((messages, scatter.packets(1)), (1, 36));
    }
}
