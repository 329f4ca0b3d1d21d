//! Packets into bytes: data, control, and the RST of an end without state.
//!
//! What has no fixed size is appended to a buffer of the caller, which is reused, so that nothing is allocated per packet.

use arrayvec::ArrayVec;
use bytes::Bytes;
use weft_base::limits::{MSS_MAX, SYN_BYTES_MIN};
use weft_base::{FlowKey, Seq};
use weft_crc::Behind;

use crate::header::{HEADER_LEN, VERSION, parse_addresses, word};
use crate::tlv::{emit as tlv, registry};
use crate::words::Words;
use crate::{BodySum, Header, Kind, Packet, Reason, Tlvs, seal};

/// How a control packet is made.
#[derive(Clone, Debug, Default)]
pub struct Emit {
    /// Whether the connection is sealed. Only kinds that [`Kind::is_sealed`] take the seal.
    pub sealed: bool,
    /// Fewest bytes of the packet, filled up by PAD: the size of a path probe (CDP-MTU-2). A SYN is filled up to
    /// 128 in any case (CDP-SYN-3).
    pub pad_to: u16,
    /// A TLV that nobody knows (CDP-TLV-9).
    pub grease: Option<Grease>,
    /// Most bytes of a SYN|ACK: those of its SYN (CDP-SYN-4). Ignorable TLVs are left out, last first, until it fits.
    pub max_len: Option<u16>,
}

impl Emit {
    /// As the connection agreed, and nothing special.
    #[must_use]
    pub fn sealed(sealed: bool) -> Self {
        Self { sealed, ..Self::default() }
    }
}

/// [CDP-TLV-9] A TLV of a type that is never assigned, so that peers keep skipping what they do not know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grease {
    kind: u8,
    content: ArrayVec<u8, 4>,
}

impl Grease {
    /// One of the eight types, with 0 to 4 bytes, all chosen by `random`.
    #[must_use]
    pub fn random(random: u64) -> Self {
        let [kind, len, content @ ..] = random.to_be_bytes();
        let kind = 0x80 | (kind & 0x70) | 0x0A;
        Self { kind, content: content.into_iter().take(usize::from(len % 5)).collect() }
    }

    /// The type `kind` with `content`; `None` unless the type is of the reserved form and the content is at most 4
    /// bytes.
    #[must_use]
    pub fn new(kind: u8, content: &[u8]) -> Option<Self> {
        let content = content.try_into().ok()?;
        registry::is_grease(kind).then_some(Self { kind, content })
    }
}

/// The header of DAT packets that differ in nothing but number and data segment.
#[derive(Clone, Copy, Debug)]
pub struct DataHead {
    words: Words,
    body_bytes: usize,
    is_sealed: bool,
}

impl DataHead {
    /// That of packets like the one that `header` is of, with `body_bytes` of data each. LENGTH is computed and `header.length` ignored.
    ///
    /// # Panics
    ///
    /// If `body_bytes` are more than 65507.
    #[must_use]
    #[inline]
    pub fn new(header: &Header, body_bytes: usize, sealed: bool) -> Self {
        // [CDP-LIM-11] a packet has at most 65535 bytes
        assert!(body_bytes <= usize::from(MSS_MAX), "a data segment of {body_bytes} bytes fits no packet");
        debug_assert!(!header.kind.has_tlvs());
        let words = Header { length: packet_length(HEADER_LEN + body_bytes), ..*header }.words();
        Self { words, body_bytes, is_sealed: sealed && header.kind.is_sealed() }
    }

    /// The header of the packet with this number, which `body` follows. [CDP-SEAL-7] The seal is computed over header and body
    /// after all else is final.
    #[must_use]
    #[inline]
    pub fn emit(&self, seq: Seq, body: &[u8]) -> Head {
        self.emit_by(seq, |words| seal::checksum(words, body))
    }

    /// The same, for data segments of which the sum is known.
    #[must_use]
    #[inline]
    pub fn summed(&self) -> SummedHead {
        SummedHead { head: *self, behind: Behind::bytes(self.body_bytes) }
    }

    #[inline]
    fn emit_by(&self, seq: Seq, checksum: impl FnOnce(Words) -> u32) -> Head {
        let words = Words { seq: seq.get(), ..self.words };
        Head(if self.is_sealed { words.sealed(checksum(words)) } else { words })
    }
}

/// A header that is complete, in registers.
#[derive(Clone, Copy, Debug)]
pub struct Head(Words);

impl Head {
    /// Its bytes.
    #[must_use]
    #[inline]
    pub fn bytes(self) -> [u8; HEADER_LEN] {
        self.0.bytes()
    }

    /// Writes it to where it leaves from, by way of no other memory.
    #[inline]
    pub fn write(self, to: &mut [u8; HEADER_LEN]) {
        self.0.write(to);
    }
}

/// A [`DataHead`] for data segments of which the sum is known.
#[derive(Clone, Copy, Debug)]
pub struct SummedHead {
    head: DataHead,
    behind: Behind,
}

impl SummedHead {
    /// As [`DataHead::emit`], in front of a data segment with the sum `body`.
    #[must_use]
    #[inline]
    pub fn emit(&self, seq: Seq, body: BodySum) -> Head {
        self.head.emit_by(seq, |words| seal::checksum_with(words, body, self.behind))
    }
}

/// The header of a DAT packet with the data segment `body`, which follows it.
///
/// LENGTH is computed and `header.length` ignored. [CDP-SEAL-7] The seal is computed over header and body after all
/// else is final.
///
/// # Panics
///
/// If `body` is longer than 65507 bytes.
#[must_use]
#[inline]
pub fn data_head(header: &Header, body: &[u8], sealed: bool) -> [u8; HEADER_LEN] {
    DataHead::new(header, body.len(), sealed).emit(header.seq, body).bytes()
}

/// Appends a whole control packet: header and `tlvs`.
///
/// LENGTH, CRC, PAD and the seal are computed. TLVs that `header.kind` may not carry are a mistake of the caller.
pub fn emit_control(head: &mut Vec<u8>, header: &Header, tlvs: &Tlvs, options: &Emit) {
    debug_assert!(header.kind.has_tlvs());
    debug_assert!(tlvs.is_allowed_in(header.kind, header.ece), "{:?} may not carry {tlvs:?}", header.kind);
    let start = head.len();
    head.extend_from_slice(&[0; HEADER_LEN]);
    if header.kind.is_open() {
        emit_open(head, start, tlvs, options);
    } else {
        tlvs.emit_critical(head);
        tlvs.emit_cookie(head);
        tlvs.emit_feedback(head);
    }
    let minimum = if header.kind == Kind::Syn { SYN_BYTES_MIN } else { 0 };
    let length = (head.len() - start).max(minimum).max(usize::from(options.pad_to));
    // [CDP-TLV-2] PAD and what follows it are zero
    head.resize(start + length, 0);
    let header = Header { length: packet_length(length), ..*header };
    finish(&mut head[start..], &header, options.sealed);
}

/// The TLVs of a SYN or SYN|ACK: CRC first, then the other critical ones but COOKIE, the offers, COOKIE, GREASE.
fn emit_open(head: &mut Vec<u8>, start: usize, tlvs: &Tlvs, options: &Emit) {
    // [CDP-SYN-1] both carry CRC
    tlv::push(head, registry::CRC, &[0; 4]);
    tlvs.emit_critical(head);
    let cookie_len = tlvs.cookie.as_ref().map_or(0, |cookie| tlv::len(cookie.len()));
    // [CDP-SYN-4] what does not fit is left out, last first, and COOKIE is critical
    let end_max =
        options.max_len.map_or(usize::MAX, |max| (start + usize::from(max)).saturating_sub(cookie_len));
    let all = tlvs.emit_offers(head, end_max);
    let grease = options
        .grease
        .as_ref()
        .filter(|grease| all && head.len() + tlv::len(grease.content.len()) <= end_max);
    tlvs.emit_cookie(head);
    // [CDP-TLV-9] one TLV of a type that is never assigned
    if let Some(grease) = grease {
        tlv::push(head, grease.kind, &grease.content);
    }
}

/// Writes the header over the first bytes of `packet`, and then the CRC or the seal.
fn finish(packet: &mut [u8], header: &Header, sealed: bool) {
    let mut words = header.words();
    let Some((head, rest)) = packet.split_first_chunk_mut::<HEADER_LEN>() else {
        return;
    };
    if header.kind.is_open() {
        let crc = seal::open_checksum(words, rest, CRC_VALUE_AT);
        rest[CRC_VALUE_AT..CRC_VALUE_AT + 4].copy_from_slice(&crc.to_be_bytes());
    } else if sealed && header.kind.is_sealed() {
        // [CDP-SEAL-7] after all other fields are final
        words = words.sealed(seal::checksum(words, rest));
    }
    *head = words.bytes();
}

/// Where [`emit_open`] puts the value of CRC, counted from the first byte after the header.
const CRC_VALUE_AT: usize = 2;

#[allow(clippy::cast_possible_truncation)] // the callers keep to 65535 bytes
fn packet_length(len: usize) -> u16 {
    debug_assert!(len <= weft_base::limits::PACKET_BYTES_MAX);
    len as u16
}

/// A packet that an end without a connection answers by an echo-form RST.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trigger {
    bytes: Bytes,
}

impl Trigger {
    /// A packet of another version: LENGTH may mean something else there, so all of it counts.
    pub(crate) const fn of_other_version(bytes: Bytes) -> Self {
        Self { bytes }
    }

    /// The flow as the end that answers keys it.
    #[must_use]
    pub fn flow(&self) -> Option<FlowKey> {
        let (destination, source) = parse_addresses(self.bytes.first_chunk()?)?;
        Some(FlowKey { local: destination, remote: source })
    }
}

impl From<&Packet> for Trigger {
    fn from(packet: &Packet) -> Self {
        Self { bytes: packet.bytes().clone() }
    }
}

/// Appends the echo-form RST that answers `trigger`, and tells whether there is one.
///
/// [CDP-RST-2] The addresses are swapped, SEQ is the trigger's bytes 16..23 unchanged, the ACK number is C of the
/// trigger and WINDOW the high half of its ACK number. [CDP-RST-3] REASON, its detail, and for
/// [`Reason::VERSION`] also VERSIONS go in as far as they fit into the length of the trigger; [`Reason::NONE`] is
/// said by leaving REASON out. [CDP-RST-4] An RST is not answered: then nothing is appended.
pub fn echo_reset(
    head: &mut Vec<u8>,
    trigger: impl Into<Trigger>,
    reason: Reason,
    detail: Option<u16>,
) -> bool {
    let trigger = trigger.into().bytes;
    let Some((bytes, rest)) = trigger.split_first_chunk::<HEADER_LEN>() else {
        return false;
    };
    let Some((destination, source)) = parse_addresses(bytes).filter(|_| bytes[4] & crate::header::RST == 0)
    else {
        return false;
    };
    let tlvs = echo_tlvs(trigger.len() - HEADER_LEN, reason, detail);
    let flow = FlowKey { local: destination, remote: source };
    let header = Header {
        length: packet_length(HEADER_LEN + tlvs.len()),
        window: u16::from_be_bytes([bytes[24], bytes[25]]),
        seq: weft_base::Seq::new((u64::from(word(bytes, 16)) << 32) | u64::from(word(bytes, 20))),
        ack: seal::checksum(Words::read(bytes), rest),
        ..Header::new(Kind::EchoReset, flow)
    };
    head.extend_from_slice(&header.emit());
    head.extend_from_slice(&tlvs);
    true
}

/// REASON and VERSIONS, as far as they fit into `room` bytes.
fn echo_tlvs(room: usize, reason: Reason, detail: Option<u16>) -> ArrayVec<u8, 16> {
    let mut tlvs = ArrayVec::new();
    let mut add =
        |bytes: &[u8]| tlvs.len() + bytes.len() <= room && tlvs.try_extend_from_slice(bytes).is_ok();
    if reason == Reason::NONE {
        return tlvs;
    }
    let [a, b] = reason.0.to_be_bytes();
    let with_detail =
        detail.map(u16::to_be_bytes).is_some_and(|[c, d]| add(&[registry::REASON, 4, a, b, c, d, 0, 0]));
    if !with_detail {
        add(&[registry::REASON, 2, a, b]);
    }
    if reason == Reason::VERSION {
        add(&[registry::VERSIONS, 1, VERSION, 0]);
    }
    tlvs
}

#[cfg(test)]
mod tests;
