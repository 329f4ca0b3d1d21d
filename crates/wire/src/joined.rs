//! A message of several packets that came end to end, where the link has them: for who waits for just this one.

use weft_base::{FlowKey, Seq};

use crate::header::HEADER_LEN;
use crate::records::{RECORD_HEAD, record_head};
use crate::words::Words;
use crate::{Encapsulation, Lone, seal};

/// One message in two or more DAT packets of a given flow that are there, whole and behind each other. They say nothing special, as
/// [`Lone`] has it, and differ in nothing but their numbers, which count up, their data, and the end.
#[derive(Clone, Copy, Debug)]
pub struct JoinedMessage<'a> {
    /// All packets but the last, of `size` bytes each.
    parts: &'a [u8],
    size: usize,
    first: Lone<'a>,
    last: Lone<'a>,
}

impl<'a> JoinedMessage<'a> {
    /// Looks at the heads of packets that an underlay handed over in one piece, of `size` bytes each, the last one maybe shorter; `flow`
    /// is the flow as its receiver keys it. `None` for anything else.
    #[must_use]
    pub fn new_checked(
        bytes: &'a [u8],
        size: usize,
        flow: FlowKey,
        encapsulation: Encapsulation,
    ) -> Option<Self> {
        let count = bytes.len().checked_sub(1)? / size.max(1);
        let (parts, last) = bytes.split_at(count * size);
        let first = Lone::new_checked(parts.get(..size)?, flow, encapsulation)?;
        let last = Lone::new_checked(last, flow, encapsulation)?;
        let is_alike = |(packet, behind): (&[u8], u64)| {
            packet.first_chunk().is_some_and(|head| Words::read(head).is_alike(first.words(), behind))
        };
        // [CDP-DG-4] EOM=1 in the last part alone; [CDP-DG-5] which is not empty
        let is_one = !first.eom()
            && HEADER_LEN + first.payload().len() == size
            && last.words().is_end(first.words(), count as u64)
            && !last.payload().is_empty()
            && parts.chunks_exact(size).zip(0..).skip(1).all(is_alike);
        is_one.then_some(Self { parts, size, first, last })
    }

    /// The first packet.
    #[must_use]
    pub const fn first(&self) -> &Lone<'a> {
        &self.first
    }

    /// How many packets it has.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // each has a header, and all of them lie in one piece of memory
    pub const fn packets(&self) -> u32 {
        (self.parts.len() / self.size) as u32 + 1
    }

    /// Bytes of all data segments.
    #[must_use]
    pub const fn data_bytes(&self) -> usize {
        self.parts.len() / self.size * self.first.payload().len() + self.last.payload().len()
    }

    /// Bytes of the message, whose parts are records where the ends `coalesce`.
    #[must_use]
    pub const fn message_bytes(&self, coalesce: bool) -> usize {
        self.data_bytes().saturating_sub(self.parts.len() / self.size * head_bytes(coalesce))
    }

    /// Copies the message to `to`, which has as many bytes, in the pass that its checksums take. False where its packets have not the numbers
    /// from `seq` on, on a connection that is `sealed` or not, and what is damaged has another number; or where it does not go on in each
    /// next packet. `to` may have been written then as well.
    #[must_use]
    pub fn copy_to(&self, seq: Seq, sealed: bool, coalesce: bool, to: &mut [u8]) -> bool {
        let head_bytes = head_bytes(coalesce);
        let Some(part_bytes @ 1..) = self.first.payload().len().checked_sub(head_bytes) else { return false };
        if to.len() != self.message_bytes(coalesce) {
            return false;
        }
        // [CDP-COA-4] a part that has its packet for itself is one record with MORE
        let more = record_head(true, part_bytes);
        let (parts, last) = to.split_at_mut(to.len() - self.last.payload().len());
        let mut number = seq;
        for (packet, place) in self.parts.chunks_exact(self.size).zip(parts.chunks_exact_mut(part_bytes)) {
            let Some((head, body)) = packet.split_first_chunk() else { return false };
            let (record, data) = body.split_at(head_bytes);
            let goes_on = !coalesce || more.is_some_and(|more| record == more);
            if !goes_on || copy(Words::read(head), record, data, sealed, place) != number {
                return false;
            }
            number += 1;
        }
        copy(self.last.words(), &[], self.last.payload(), sealed, last) == number
    }
}

/// Bytes between the header of a part and its data.
const fn head_bytes(coalesce: bool) -> usize {
    if coalesce { RECORD_HEAD } else { 0 }
}

/// The number of a packet that has `before` and `data` behind the header, which is copied to `to`.
#[inline]
fn copy(words: Words, before: &[u8], data: &[u8], sealed: bool, to: &mut [u8]) -> Seq {
    if sealed {
        return Seq::new(words.sealed(seal::copy_behind_and_sum(words, before, data, to)).seq);
    }
    to.copy_from_slice(data);
    Seq::new(words.seq)
}

#[cfg(test)]
mod tests;
