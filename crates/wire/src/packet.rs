//! The checked view of one packet, and the stateless checks that lead to it.

use bytes::{Buf, Bytes};
use weft_base::limits::SYN_BYTES_MIN;
use weft_base::{FlowKey, Seq};

use crate::header::{self, HEADER_LEN, VERSION_MASK, parse_addresses};
use crate::tlv::parse::{Parsed, parse};
use crate::words::Words;
use crate::{Encapsulation, Header, Kind, Tlvs, Trigger, seal};

/// Most bytes after the EtherType of a frame that may be padded (CDP-HDR-10).
const PADDED_FRAME_MAX: usize = 46;
/// Fewest bytes of a packet of another version that is answered (CDP-HDR-4).
const ANSWERED_VERSION_LEN: usize = 36;

/// A packet that passed every stateless check of section 2.2, in its order.
///
/// The bytes are shared, not copied, and end at LENGTH. A control packet's TLVs were checked and are read again
/// by [`Packet::tlvs`], so that the packet stays small.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    pub(crate) header: Header,
    pub(crate) bytes: Bytes,
    /// Whether the header has the number itself, whatever the bytes have.
    is_unsealed: bool,
}

/// Why a packet is dropped before anybody looks at its connection (CDP-CHK-3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DropReason {
    /// Fewer than 28 bytes.
    Short,
    /// VER is not 1.
    Version,
    /// LENGTH is below 28 or above what came.
    Length,
    /// Bytes after LENGTH where none may be.
    Trailing,
    /// A flag set that section 2.1 does not list.
    Flags,
    /// A node or port that may not appear, or an end that talks to itself.
    Address,
    /// TLVs of wrong syntax.
    Tlv,
    /// A SYN of fewer than 128 bytes.
    SynSize,
    /// A SYN or SYN|ACK without CRC, or a wrong CRC.
    Crc,
}

impl DropReason {
    /// All of them, in the order of the checks.
    pub const ALL: [Self; 9] = [
        Self::Short,
        Self::Version,
        Self::Length,
        Self::Trailing,
        Self::Flags,
        Self::Address,
        Self::Tlv,
        Self::SynSize,
        Self::Crc,
    ];

    /// The word for it in the test vectors and in counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Version => "version",
            Self::Length => "length",
            Self::Trailing => "trailing",
            Self::Flags => "flags",
            Self::Address => "address",
            Self::Tlv => "tlv",
            Self::SynSize => "syn",
            Self::Crc => "crc",
        }
    }
}

/// What to do with bytes that are no packet of version 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Count it and say nothing.
    Drop(DropReason),
    /// Count it and answer the trigger by an echo-form RST with [`Reason::VERSION`](crate::Reason::VERSION).
    Answer(DropReason, Trigger),
}

impl Refused {
    /// The reason to count it under.
    #[must_use]
    pub const fn reason(&self) -> DropReason {
        match self {
            Self::Drop(reason) | Self::Answer(reason, _) => *reason,
        }
    }
}

impl From<DropReason> for Refused {
    fn from(reason: DropReason) -> Self {
        Self::Drop(reason)
    }
}

impl Packet {
    /// Checks what an underlay handed over: the bytes of one UDP datagram, or those after the EtherType.
    ///
    /// [CDP-CHK-1] The checks are done in this order and stop at the first that fails: at least 28 bytes, VER,
    /// LENGTH, bytes after LENGTH, flags, addresses, TLV syntax, and for SYN packets size, CRC and critical TLVs.
    /// A SYN that is to be refused for its critical TLVs is a packet, and its [`Tlvs::refusal`] says so.
    ///
    /// # Errors
    ///
    /// The first check that fails.
    pub fn new_checked(mut bytes: Bytes, encapsulation: Encapsulation) -> Result<Self, Refused> {
        let header = check(&mut bytes, encapsulation)?;
        Ok(Self::new(header, bytes))
    }

    #[inline]
    pub(crate) const fn new(header: Header, bytes: Bytes) -> Self {
        Self { header, bytes, is_unsealed: false }
    }

    /// A packet of which there is nothing but its header, with its number.
    pub(crate) const fn unsealed(header: Header) -> Self {
        Self { header, bytes: Bytes::new(), is_unsealed: true }
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The flag set.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.header.kind
    }

    /// The flow as its receiver keys it: the destination is the local end.
    #[must_use]
    pub const fn flow(&self) -> FlowKey {
        self.header.flow()
    }

    /// The whole packet, up to LENGTH.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The data segment, without a copy; empty in control packets.
    #[must_use]
    pub fn payload(&self) -> Bytes {
        if self.payload_len() == 0 { Bytes::new() } else { self.bytes.slice(HEADER_LEN..) }
    }

    /// Takes the data segment out, without a copy or one more handle; only the header stays. Empty in control packets, which
    /// stay as they are.
    #[must_use]
    pub fn take_payload(&mut self) -> Bytes {
        if self.header.kind.has_tlvs() {
            return Bytes::new();
        }
        let mut payload = std::mem::take(&mut self.bytes);
        payload.advance(payload.len().min(HEADER_LEN));
        payload
    }

    /// Bytes of the data segment; 0 in control packets.
    #[must_use]
    pub fn payload_len(&self) -> usize {
        if self.header.kind.has_tlvs() { 0 } else { self.bytes.len().saturating_sub(HEADER_LEN) }
    }

    /// C of [CDP-SEAL-1], computed anew.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        match self.bytes.split_first_chunk() {
            Some((head, rest)) => seal::checksum(Words::read(head), rest),
            None => 0,
        }
    }

    /// The number of this packet, on a connection that is `sealed` or not.
    ///
    /// [CDP-SEAL-3] s = SEQ XOR (C << 32); a damaged packet shows as a number that is not current. [CDP-SEAL-4]
    /// SYN, SYN|ACK and echo-form RST are never sealed. [CDP-SEAL-5] Without integrity SEQ is s itself.
    #[must_use]
    pub fn seq(&self, sealed: bool) -> Seq {
        if sealed && !self.is_unsealed && self.header.kind.is_sealed() {
            Seq::new(self.header.seq.get() ^ (u64::from(self.checksum()) << 32))
        } else {
            self.header.seq
        }
    }

    /// As [`Packet::seq`], of a packet with a data segment, which is copied to `to` in the pass that the checksum takes. The number is
    /// known then. `to` has as many bytes as the segment; elsewhere nothing is copied.
    #[must_use]
    pub fn copy_data(&mut self, sealed: bool, to: &mut [u8]) -> Seq {
        if !to.is_empty()
            && self.payload_len() == to.len()
            && let Some((head, data)) = self.bytes.split_first_chunk()
        {
            let words = Words::read(head);
            if sealed {
                self.header.seq = Seq::new(words.sealed(seal::copy_and_sum(words, data, to)).seq);
                self.is_unsealed = true;
            } else {
                to.copy_from_slice(data);
            }
        }
        self.seq(sealed)
    }

    /// In an echo-form RST: the number of the packet that it refuses, by [CDP-RST-9].
    #[must_use]
    pub fn echoed_seq(&self, sealed: bool) -> Seq {
        let seal = if sealed { u64::from(self.header.ack) << 32 } else { 0 };
        Seq::new(self.header.seq.get() ^ seal)
    }

    /// The TLVs, read anew; none in a DAT packet.
    #[must_use]
    pub fn tlvs(&self) -> Tlvs {
        // [CDP-TLV-1] TLVs appear only in packets with DAT=0
        if self.bytes.len() == HEADER_LEN || !self.header.kind.has_tlvs() {
            return Tlvs::default();
        }
        parse_tlvs(&self.header, &self.bytes).map(|parsed| parsed.tlvs).unwrap_or_default()
    }
}

/// The stateless checks of [`Packet::new_checked`]; the bytes end with the packet then.
pub(crate) fn check(bytes: &mut Bytes, encapsulation: Encapsulation) -> Result<Header, Refused> {
    let Some(head) = bytes.first_chunk::<HEADER_LEN>() else {
        return Err(DropReason::Short.into());
    };
    let length = match check_length(head, bytes.len(), encapsulation) {
        Ok(length) => length,
        Err(DropReason::Version) => return Err(refuse_version(std::mem::take(bytes))),
        Err(reason) => return Err(reason.into()),
    };
    let header = Header::parse(head)?;
    // [CDP-HDR-9] from here on LENGTH alone is the end of the packet
    bytes.truncate(length);
    if header.kind.has_tlvs() {
        check_tlvs(&header, bytes)?;
    }
    Ok(header)
}

fn parse_tlvs(header: &Header, bytes: &[u8]) -> Option<Parsed> {
    parse(&bytes[HEADER_LEN..], header.kind, header.ece)
}

fn check_tlvs(header: &Header, bytes: &[u8]) -> Result<(), DropReason> {
    if bytes.len() == HEADER_LEN && !header.kind.is_open() {
        return Ok(());
    }
    let parsed = parse_tlvs(header, bytes).ok_or(DropReason::Tlv)?;
    // [CDP-SYN-3] a SYN shorter than 128 bytes
    if header.kind == Kind::Syn && bytes.len() < SYN_BYTES_MIN {
        return Err(DropReason::SynSize);
    }
    let (head, rest) = bytes.split_first_chunk().ok_or(DropReason::Short)?;
    match parsed.crc {
        Some((value_at, value)) if seal::open_checksum(Words::read(head), rest, value_at) == value => Ok(()),
        // [CDP-SYN-2] a SYN or SYN|ACK with a wrong CRC or none; an echo-form RST may do without
        None if !header.kind.is_open() => Ok(()),
        _ => Err(DropReason::Crc),
    }
}

/// LENGTH of what came in `received` bytes, after VER, LENGTH, and the bytes after LENGTH have been checked, in this order.
#[inline]
pub(crate) fn check_length(
    head: &[u8; HEADER_LEN],
    received: usize,
    encapsulation: Encapsulation,
) -> Result<usize, DropReason> {
    if head[0] & VERSION_MASK != header::VERSION << 4 {
        return Err(DropReason::Version);
    }
    let length = usize::from(u16::from_be_bytes([head[12], head[13]]));
    // [CDP-HDR-8] LENGTH is at least 28 and at most what came
    if length < HEADER_LEN || length > received {
        return Err(DropReason::Length);
    }
    // [CDP-HDR-10], [CDP-HDR-11] bytes after LENGTH: only in a short frame, and ignored there
    let may_be_padded = encapsulation == Encapsulation::Ethernet && received <= PADDED_FRAME_MAX;
    if length < received && !may_be_padded {
        return Err(DropReason::Trailing);
    }
    Ok(length)
}

/// What to do with a packet whose VER is not 1.
#[cold]
fn refuse_version(bytes: Bytes) -> Refused {
    let answered = bytes.first_chunk::<HEADER_LEN>().is_some_and(|head| {
        // [CDP-HDR-2] VER 0 and 15 are dropped without an answer
        let version_has_answer = (2..=14).contains(&(head[0] >> 4));
        // [CDP-HDR-3] bytes 0..11 mean the same in every version, so RST and the addresses can be read
        let is_reset = head[4] & header::RST != 0;
        version_has_answer && !is_reset && parse_addresses(head).is_some()
    });
    // [CDP-HDR-4] 36 bytes have room for REASON and VERSIONS; a shorter packet is dropped
    if answered && bytes.len() >= ANSWERED_VERSION_LEN {
        Refused::Answer(DropReason::Version, Trigger::of_other_version(bytes))
    } else {
        Refused::Drop(DropReason::Version)
    }
}

#[cfg(test)]
mod tests;
