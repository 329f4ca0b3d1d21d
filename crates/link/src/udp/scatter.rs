//! Groups of packets laid out for one system call: iovec lists, addresses, control messages.

use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::ptr;

use super::address::RawAddress;
use crate::SendBatch;
use crate::send_batch::Entry;

/// Packets in one group: what every kernel with `UDP_SEGMENT` takes.
pub(super) const SEGMENTS_MAX: usize = 64;
/// Bytes in one group: below what one UDP datagram may hold with any IP header.
pub(super) const GROUP_BYTES_MAX: usize = 65_000;
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

    /// Lays out as many groups of `batch` from its packet `from` on as fit; a group has more than one packet only
    /// if `gso`. Stops at a packet that may be fragmented.
    pub(super) fn fill(
        &mut self,
        batch: &SendBatch,
        from: usize,
        gso: bool,
        is_v6: bool,
    ) -> &mut [libc::mmsghdr] {
        let (mut at, mut used) = (from, 0);
        self.groups = 0;
        while self.groups < GROUPS_MAX && at < batch.len() && !batch.entries[at].may_fragment {
            let count = group_len(&batch.entries[at..], gso);
            let Some(pieces) = self.gather(batch, at, count, used) else { break };
            self.address_group(&batch.entries[at..at + count], used, pieces, is_v6);
            used += pieces;
            at += count;
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
    fn gather(&mut self, batch: &SendBatch, at: usize, count: usize, used: usize) -> Option<usize> {
        let mut pieces = Pieces { room: &mut self.pieces[used..], len: 0 };
        for entry in &batch.entries[at..at + count] {
            pieces.add(&batch.heads[entry.head.clone()])?;
            pieces.add(&entry.body)?;
        }
        Some(pieces.len)
    }

    fn address_group(&mut self, entries: &[Entry], first: usize, pieces: usize, is_v6: bool) {
        let group = self.groups;
        let address = self.addresses[group].write(RawAddress::new(entries[0].to, is_v6));
        let (control, control_bytes) = match entries.len() {
            1 => (ptr::null_mut(), 0),
            _ => (
                ptr::from_mut(self.sizes[group].write(SegmentSize::new(entries[0].len()))).cast(),
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
        self.packets[group] = entries.len();
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

/// A list of pieces of memory, where neighbours become one.
struct Pieces<'a> {
    room: &'a mut [MaybeUninit<libc::iovec>],
    len: usize,
}

impl Pieces<'_> {
    fn add(&mut self, bytes: &[u8]) -> Option<()> {
        if bytes.is_empty() {
            return Some(());
        }
        let start = bytes.as_ptr().cast_mut();
        if let Some(last) = self.len.checked_sub(1) {
            // SAFETY: `len` pieces have been written.
            let last = unsafe { self.room[last].assume_init_mut() };
            if last.iov_base.cast::<u8>().wrapping_add(last.iov_len) == start {
                last.iov_len += bytes.len();
                return Some(());
            }
        }
        self.room.get_mut(self.len)?.write(libc::iovec { iov_base: start.cast(), iov_len: bytes.len() });
        self.len += 1;
        Some(())
    }
}

/// How many of the first `entries` leave as one: the same target, the same size except for a shorter last one.
fn group_len(entries: &[Entry], gso: bool) -> usize {
    let size = entries[0].len();
    if !gso || size == 0 {
        return 1;
    }
    let most = SEGMENTS_MAX.min(GROUP_BYTES_MAX / size).min(entries.len());
    let mut count = 1;
    while count < most {
        let next = &entries[count];
        if next.may_fragment || next.len() > size || next.len() == 0 || next.to != entries[0].to {
            break;
        }
        count += 1;
        if next.len() < size {
            break;
        }
    }
    count
}

/// How many of the first `entries` a system call for one packet may take for a lone one.
pub(super) fn is_lone(batch: &SendBatch, at: usize) -> bool {
    batch.len() - at == 1
}

/// The one address `to` in the kernel's form.
pub(super) fn address(to: SocketAddr, is_v6: bool) -> RawAddress {
    RawAddress::new(to, is_v6)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

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

    fn groups(batch: &SendBatch, gso: bool) -> Vec<usize> {
        let mut scatter = Scatter::new();
        let groups = scatter.fill(batch, 0, gso, false).len();
        scatter.packets[..groups].to_vec()
    }

    #[test]
    fn packets_of_one_size_for_one_target_are_one_group_and_a_shorter_one_ends_it() {
        let packets = [(1472, 1), (1472, 1), (900, 1), (900, 1), (1472, 1), (1472, 2)];
        assert_eq!(groups(&batch(&packets), true), [3, 1, 1, 1]);
        assert_eq!(groups(&batch(&packets), false), [1; 6]);
    }

    #[test]
    fn a_group_stays_below_the_limits_of_the_kernel() {
        assert_eq!(groups(&batch(&[(100, 1); 100]), true), [64, 36]);
        assert_eq!(groups(&batch(&[(1472, 1); 50]), true), [44, 6]);
        assert_eq!(groups(&batch(&[(40_000, 1); 2]), true), [1, 1]);
    }

    #[test]
    fn small_packets_lie_end_to_end_and_large_ones_are_two_pieces_each() {
        let mut scatter = Scatter::new();
        let small = batch(&[(92, 1); 10]);
        assert_eq!(scatter.fill(&small, 0, true, false)[0].msg_hdr.msg_iovlen, 1);
        let large = batch(&[(1472, 1); 10]);
        assert_eq!(scatter.fill(&large, 0, true, false)[0].msg_hdr.msg_iovlen, 20);
    }

    #[test]
    fn what_does_not_fit_one_call_is_left_for_the_next() {
        let packets: Vec<_> = (0..40).map(|n| (1472 - n, 1)).collect();
        assert_eq!(groups(&batch(&packets), false).len(), GROUPS_MAX);
        assert_eq!(groups(&batch(&[(1000, 1); 300]), true), [64, 64]);
    }
}
