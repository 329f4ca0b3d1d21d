//! Packets that came end to end and are alike: looked at once.

use bytes::{Buf, Bytes};
use weft_base::{FlowKey, Seq};

use crate::header::HEADER_LEN;
use crate::packet::{check, check_length};
use crate::words::Words;
use crate::{Encapsulation, Header, Kind, Packet, Refused, seal};

/// A packet that passed every stateless check; or several DAT that came end to end, are of one size, and differ in nothing but
/// their data and their numbers, which count up.
///
/// So a receiver asks once whom they are for, what they acknowledge, and whether they may come. Only the checksum is for each.
#[derive(Clone, Debug)]
pub struct Train {
    /// The first one; if there are several, its bytes are those of all of them.
    packet: Packet,
    /// Bytes of each.
    size: u16,
    count: u16,
}

impl Train {
    /// Checks one packet.
    ///
    /// # Errors
    ///
    /// As [`Packet::new_checked`].
    #[inline]
    pub fn new_checked(mut bytes: Bytes, encapsulation: Encapsulation) -> Result<Self, Refused> {
        let header = check(&mut bytes, encapsulation)?;
        Ok(Self { size: narrow(bytes.len()), count: 1, packet: Packet::new(header, bytes) })
    }

    /// Takes from the front of `bytes` one packet, or as many as are alike. An underlay handed them over in one piece, `size` bytes
    /// each, the last one maybe shorter.
    ///
    /// # Errors
    ///
    /// As [`Packet::new_checked`], of the first packet, which is gone then.
    pub fn split_checked(
        bytes: &mut Bytes,
        size: usize,
        encapsulation: Encapsulation,
    ) -> Result<Self, Refused> {
        if bytes.len() <= size || size == 0 {
            return Self::new_checked(std::mem::take(bytes), encapsulation);
        }
        match Self::of_several(bytes, size, encapsulation) {
            Some(train) => Ok(train),
            None => Self::new_checked(bytes.split_to(size), encapsulation),
        }
    }

    fn of_several(bytes: &mut Bytes, size: usize, encapsulation: Encapsulation) -> Option<Self> {
        let head = bytes.first_chunk()?;
        let first = Words::read(head);
        let others = bytes[size..].chunks_exact(size).map_while(<[u8]>::first_chunk).map(Words::read);
        let others = others
            .zip(1..u64::from(u16::MAX))
            .take_while(|&(words, behind)| words.is_alike(first, behind))
            .count();
        let is_whole = check_length(head, size, encapsulation) == Ok(size);
        let header = Header::parse(head).ok().filter(|header| header.kind == Kind::Data)?;
        if others == 0 || !is_whole {
            return None;
        }
        let all = size * (1 + others);
        let bytes = if all == bytes.len() { std::mem::take(bytes) } else { bytes.split_to(all) };
        Some(Self { size: narrow(size), count: narrow(1 + others), packet: Packet::new(header, bytes) })
    }

    /// How many packets these are.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.count.into()
    }

    /// Bytes of each of them, with its header; the last one may have fewer.
    #[must_use]
    #[inline]
    pub const fn packet_bytes(&self) -> u16 {
        self.size
    }

    /// Whether all packets were taken out.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The header of the first packet, and of all of them but for the number.
    #[must_use]
    #[inline]
    pub const fn header(&self) -> &Header {
        self.packet.header()
    }

    /// The flow as its receiver keys it: the destination is the local end.
    #[must_use]
    #[inline]
    pub const fn flow(&self) -> FlowKey {
        self.packet.flow()
    }

    /// The packet, if it is one.
    #[must_use]
    #[inline]
    pub fn one_mut(&mut self) -> Option<&mut Packet> {
        (self.count == 1).then_some(&mut self.packet)
    }

    /// Takes the first packet out.
    #[must_use]
    pub fn split_first(&mut self) -> Option<Packet> {
        self.count = self.count.checked_sub(1)?;
        let header = *self.packet.header();
        let bytes = &mut self.packet.bytes;
        if self.count == 0 {
            return Some(Packet::new(header, std::mem::take(bytes)));
        }
        let first = bytes.split_to(self.size.into());
        self.read_number();
        Some(Packet::new(header, first))
    }

    /// How many packets have the numbers from `seq` on, on a connection that is `sealed` or not: from the first one on, and at most
    /// `most`. What is damaged has another number, as [`Packet::seq`] has it.
    ///
    /// In the pass over their data that the checksums take it is copied to `to`, one segment behind the other, as long as whole ones
    /// fit. Tells of how many packets; behind what these have `to` may have been written as well.
    #[must_use]
    pub fn copy_from(&self, seq: Seq, sealed: bool, most: u32, to: &mut [u8]) -> (u32, u32) {
        let size = usize::from(self.size.max(1));
        let segment = size.saturating_sub(HEADER_LEN);
        let mut places = if segment > 0 { to.chunks_exact_mut(segment) } else { [].chunks_exact_mut(1) };
        let (mut count, mut copied) = (0, 0);
        for packet in self.packet.bytes.chunks_exact(size).take(self.len().min(most as usize)) {
            let Some((head, body)) = packet.split_first_chunk() else { break };
            let (words, number) = (Words::read(head), seq + u64::from(count));
            // the low half is never sealed, so what is not in order costs no checksum
            if Seq::new(words.seq).low32() != number.low32() {
                break;
            }
            let place = places.next();
            let has_place = place.is_some();
            let plain = match place {
                Some(place) if sealed => words.sealed(seal::copy_and_sum(words, body, place)),
                None if sealed => words.sealed(seal::checksum(words, body)),
                Some(place) => {
                    place.copy_from_slice(body);
                    words
                }
                None => words,
            };
            if plain.seq != number.get() {
                break;
            }
            count += 1;
            copied += u32::from(has_place);
        }
        (count, copied)
    }

    /// Takes the first `count` packets out and returns their data.
    #[must_use]
    pub fn take_segments(&mut self, count: u32) -> Segments {
        let count = u16::try_from(count).unwrap_or(u16::MAX).min(self.count);
        self.count -= count;
        let bytes = &mut self.packet.bytes;
        let mut taken = match self.count {
            0 => std::mem::take(bytes),
            _ => bytes.split_to(usize::from(count) * usize::from(self.size)),
        };
        if self.count > 0 {
            self.read_number();
        }
        let size = self.size.saturating_sub(narrow(HEADER_LEN));
        taken.advance(taken.len().min(HEADER_LEN));
        Segments { bytes: taken, size, first: size, count }
    }

    /// After packets were taken out the first has another number.
    fn read_number(&mut self) {
        if let Some(head) = self.packet.bytes.first_chunk() {
            self.packet.header.seq = Seq::new(Words::read(head).seq);
        }
    }
}

/// Data segments of one size, in the packets that they came in: there is a head between two of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segments {
    /// From the first byte on that was not taken.
    bytes: Bytes,
    /// Bytes of each.
    size: u16,
    /// What is left of the first.
    first: u16,
    count: u16,
}

impl Segments {
    /// How many there are, the rest of one among them.
    #[must_use]
    #[inline]
    pub fn len(&self) -> u32 {
        self.count.into()
    }

    /// Whether there is none.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of data of all of them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let others = self.count.checked_sub(1).map(|others| usize::from(self.size) * usize::from(others));
        others.map_or(0, |others| usize::from(self.first) + others)
    }

    /// Where all of it lies, heads included.
    #[must_use]
    pub fn memory(&self) -> &[u8] {
        &self.bytes
    }

    /// Drops the first `count`, or all if there are not so many.
    pub fn drop_first(&mut self, count: u32) {
        let Some(left @ 1..) = self.len().checked_sub(count) else {
            return self.count = 0;
        };
        if count > 0 {
            let others = (count as usize - 1) * (usize::from(self.size) + HEADER_LEN);
            self.bytes.advance(usize::from(self.first) + HEADER_LEN + others);
            (self.first, self.count) = (self.size, narrow(left as usize));
        }
    }

    /// Copies as much as fits to `buffer`, which is gone from here. Returns how many bytes these are, and how many segments ended.
    #[inline]
    pub fn copy_to(&mut self, buffer: &mut [u8]) -> (usize, u32) {
        let (mut done, mut at, mut whole) = (0, 0, 0);
        while whole < self.count {
            let len = usize::from(self.first).min(buffer.len() - done);
            buffer[done..done + len].copy_from_slice(&self.bytes[at..at + len]);
            (done, at) = (done + len, at + len);
            self.first -= narrow(len);
            if self.first > 0 {
                break;
            }
            whole += 1;
            self.first = self.size;
            at += HEADER_LEN;
        }
        self.count -= whole;
        self.bytes.advance(at.min(self.bytes.len()));
        (done, whole.into())
    }
}

/// Each as a handle to where it lies.
impl Iterator for Segments {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        self.count = self.count.checked_sub(1)?;
        let segment = self.bytes.split_to(self.first.into());
        self.bytes.advance(self.bytes.len().min(HEADER_LEN));
        self.first = if self.count > 0 { self.size } else { 0 };
        Some(segment)
    }
}

/// A packet has at most 65,535 bytes, and a train as many packets.
#[inline]
#[allow(clippy::cast_possible_truncation)]
fn narrow(number: usize) -> u16 {
    debug_assert!(u16::try_from(number).is_ok());
    number as u16
}

#[cfg(test)]
mod tests;
