//! The header as words in registers.
//!
//! It is put together, masked and sealed here and then stored in the pieces in which it is read again: what is stored in small
//! pieces and read in large ones must leave the core's store buffer first, behind all that was stored before it.

use crate::header::{HEADER_LEN, IMMUTABLE_MASK};

/// EOM among [`Words::nodes`].
pub(crate) const EOM: u64 = 0x80 << 24;
/// LENGTH among [`Words::ports`].
const LENGTH: u64 = 0xFFFF << 16;

/// Three words of 64 bits and one of 32, each as its bytes say in network order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Words {
    /// Both nodes, version and flags.
    pub(crate) nodes: u64,
    /// Both ports, LENGTH and WINDOW.
    pub(crate) ports: u64,
    /// SEQ, sealed or not.
    pub(crate) seq: u64,
    /// The low half of the ACK number.
    pub(crate) ack: u32,
}

impl Words {
    #[inline]
    pub(crate) fn read(bytes: &[u8; HEADER_LEN]) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        let [.., a, b, c, d] = *bytes;
        Self {
            nodes: u64::from_be_bytes(words[0]),
            ports: u64::from_be_bytes(words[1]),
            seq: u64::from_be_bytes(words[2]),
            ack: u32::from_be_bytes([a, b, c, d]),
        }
    }

    #[inline]
    pub(crate) fn bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        self.write(&mut bytes);
        bytes
    }

    #[inline]
    pub(crate) fn write(self, to: &mut [u8; HEADER_LEN]) {
        to[..8].copy_from_slice(&self.nodes.to_be_bytes());
        to[8..16].copy_from_slice(&self.ports.to_be_bytes());
        to[16..24].copy_from_slice(&self.seq.to_be_bytes());
        to[24..].copy_from_slice(&self.ack.to_be_bytes());
    }

    /// Whether a packet with these words follows the one with the words `first` as the one so many behind it, and says nothing else.
    #[inline]
    pub(crate) fn is_alike(self, first: Self, behind: u64) -> bool {
        // the low half of SEQ is never sealed
        #[allow(clippy::cast_possible_truncation)]
        let number = first.seq.wrapping_add(behind) as u32 == self.seq as u32;
        number && self.nodes == first.nodes && self.ports == first.ports && self.ack == first.ack
    }

    /// Whether a packet with these words, that may be shorter and have EOM, is the last of those that the one with the words `first` begins, so
    /// many behind it, and says nothing else.
    #[inline]
    pub(crate) fn is_last(self, first: Self, behind: u64) -> bool {
        let as_part = Self {
            nodes: self.nodes & !EOM,
            ports: self.ports ^ (self.ports ^ first.ports) & LENGTH,
            ..self
        };
        as_part.is_alike(first, behind)
    }

    /// EOM.
    #[inline]
    pub(crate) const fn is_end(self) -> bool {
        self.nodes & EOM != 0
    }

    /// Without what forwarders may change: CE and HOP.
    #[inline]
    pub(crate) fn immutable(self) -> Self {
        let mutable = u64::from(!IMMUTABLE_MASK) << 56;
        Self { nodes: self.nodes & !mutable, ..self }
    }

    /// With zero in bytes 16..19, the half of SEQ that is sealed.
    #[inline]
    pub(crate) fn unsealed(self) -> Self {
        Self { seq: self.seq & u64::from(u32::MAX), ..self }
    }

    /// [CDP-SEAL-2] With high32(s) XOR C in bytes 16..19.
    #[inline]
    pub(crate) fn sealed(self, checksum: u32) -> Self {
        Self { seq: self.seq ^ (u64::from(checksum) << 32), ..self }
    }
}
