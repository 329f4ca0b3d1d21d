//! Parts of a message that came end to end, where the link has them: for who waits for just these.

use std::iter::once;

use weft_base::{FlowKey, Seq};

use crate::header::HEADER_LEN;
use crate::records::{RECORD_HEAD, record_head};
use crate::words::Words;
use crate::{Encapsulation, Lone, seal};

/// Parts of one message, behind each other, or all of it, in DAT packets of a given flow that are there and whole. They say nothing special,
/// as [`Lone`] has it, and differ in nothing but their numbers, which count up, their data, and the end.
#[derive(Clone, Copy, Debug)]
pub struct JoinedParts<'a> {
    /// All packets but the last, of `size` bytes each.
    before: &'a [u8],
    size: usize,
    first: Lone<'a>,
    last: Lone<'a>,
}

impl<'a> JoinedParts<'a> {
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
        let (before, last) = bytes.split_at(count * size);
        let last = Lone::new_checked(last, flow, encapsulation)?;
        let first = match before.get(..size) {
            Some(first) => Lone::new_checked(first, flow, encapsulation)?,
            None => last,
        };
        let is_alike = |(packet, behind): (&[u8], u64)| {
            packet.first_chunk().is_some_and(|head| Words::read(head).is_alike(first.words(), behind))
        };
        // [CDP-DG-4] EOM=1 in the last part alone; [CDP-DG-5] which is not empty
        let is_one = count == 0
            || (!first.eom()
                && HEADER_LEN + first.payload().len() == size
                && last.words().is_last(first.words(), count as u64)
                && before.chunks_exact(size).zip(0..).skip(1).all(is_alike));
        (is_one && !last.payload().is_empty()).then_some(Self { before, size, first, last })
    }

    /// The first packet.
    #[must_use]
    pub const fn first(&self) -> &Lone<'a> {
        &self.first
    }

    /// Whether the message ends with them.
    #[must_use]
    pub const fn has_end(&self) -> bool {
        self.last.eom()
    }

    /// How many packets these are.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // each has a header, and all of them lie in one piece of memory
    pub const fn packets(&self) -> u32 {
        (self.before.len() / self.size) as u32 + 1
    }

    /// Bytes of all data segments.
    #[must_use]
    pub const fn data_bytes(&self) -> usize {
        self.before.len() / self.size * self.first.payload().len() + self.last.payload().len()
    }

    /// Bytes of the message in them, where the ends `coalesce`, so that all parts but the last of a message are records, or not.
    #[must_use]
    pub const fn message_bytes(&self, coalesce: bool) -> usize {
        let records = self.packets() as usize - self.has_end() as usize;
        self.data_bytes().saturating_sub(records * head_bytes(coalesce))
    }

    /// Copies what they have of the message to `to`, which has as many bytes, in the pass that their checksums take. False where the packets
    /// have not the numbers from `seq` on, on a connection that is `sealed` or not, and what is damaged has another number; or where the
    /// message does not go on in each next packet. `to` may have been written then as well.
    #[must_use]
    pub fn copy_to(&self, seq: Seq, sealed: bool, coalesce: bool, to: &mut [u8]) -> bool {
        if to.len() != self.message_bytes(coalesce) {
            return false;
        }
        let before = self.before.chunks_exact(self.size).filter_map(<[u8]>::split_first_chunk);
        let parts = before.map(|(head, body)| (Words::read(head), body));
        let (mut number, mut to) = (seq, to);
        for (words, body) in parts.chain(once((self.last.words(), self.last.payload()))) {
            let head_bytes = if words.is_end() { 0 } else { head_bytes(coalesce) };
            let Some((record, data)) = body.split_at_checked(head_bytes) else { return false };
            // [CDP-COA-4] a part that has its packet for itself is one record with MORE, and not empty
            let goes_on =
                record.is_empty() || record_head(true, data.len()).is_some_and(|more| record == more);
            let Some(place) = to.split_off_mut(..data.len()).filter(|place| goes_on && !place.is_empty())
            else {
                return false;
            };
            if copy(words, record, data, sealed, place) != number {
                return false;
            }
            number += 1;
        }
        true
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
