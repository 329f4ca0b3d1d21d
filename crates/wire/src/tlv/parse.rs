//! Bytes to [`Tlvs`].

use arrayvec::ArrayVec;
use weft_base::NodeId;
use weft_base::limits::TLVS_MAX;

use super::{IOSET_MAX, KeepAlive, Time, Tlvs, WSCALE_MAX, clamp_message, clamp_mss, registry};
use crate::{FarSack, Kind, Reason, Sack};

/// One TLV as it lies in the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawTlv<'a> {
    /// The type.
    pub kind: u8,
    /// The value, without padding.
    pub value: &'a [u8],
    /// Where the value starts, counted from the first byte after the header.
    pub value_at: usize,
}

/// A TLV with its padding runs past LENGTH (CDP-TLV-3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overrun;

/// Walks over the TLVs that follow a header, known or not, up to PAD or the end.
#[derive(Clone, Debug)]
pub struct RawTlvs<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> RawTlvs<'a> {
    /// `bytes` are those after the header, up to LENGTH.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn read(&mut self, kind: u8) -> Option<RawTlv<'a>> {
        let value_at = self.at + 2;
        let len = usize::from(*self.bytes.get(self.at + 1)?);
        let next = self.at + (2 + len).next_multiple_of(4);
        // [CDP-TLV-3] a TLV with its padding must not run past LENGTH
        if next > self.bytes.len() {
            return None;
        }
        self.at = next;
        Some(RawTlv { kind, value: &self.bytes[value_at..value_at + len], value_at })
    }
}

impl<'a> Iterator for RawTlvs<'a> {
    type Item = Result<RawTlv<'a>, Overrun>;

    fn next(&mut self) -> Option<Self::Item> {
        let kind = *self.bytes.get(self.at)?;
        // [CDP-TLV-2] PAD ends the list, and the rest is ignored
        if kind == registry::PAD {
            self.at = self.bytes.len();
            return None;
        }
        let tlv = self.read(kind).ok_or(Overrun);
        if tlv.is_err() {
            self.at = self.bytes.len();
        }
        Some(tlv)
    }
}

/// What the parser found beside the values.
pub(crate) struct Parsed {
    pub(crate) tlvs: Tlvs,
    /// The CRC TLV: where its value starts, from the first byte after the header, and what it says.
    pub(crate) crc: Option<(usize, u32)>,
}

/// Reads the TLVs of a packet of `kind`; `bytes` are those after the header, up to LENGTH.
///
/// `None` if their syntax is wrong, and the packet is to be dropped.
pub(crate) fn parse(bytes: &[u8], kind: Kind, ece: bool) -> Option<Parsed> {
    let mut parsed = Parsed { tlvs: Tlvs::default(), crc: None };
    let mut seen = Seen(0);
    for (count, tlv) in RawTlvs::new(bytes).enumerate() {
        let tlv = tlv.ok()?;
        // [CDP-TLV-8] [CDP-LIM-10] more than 32 TLVs
        if count >= TLVS_MAX {
            return None;
        }
        match registry::is_length_right(tlv.kind, tlv.value.len()) {
            // [CDP-TLV-4] of a wrong length, where it is not allowed, or given twice
            Some(right)
                if !right || !registry::is_allowed(tlv.kind, kind, ece) || !seen.is_first(tlv.kind) =>
            {
                return None;
            }
            Some(_) => parsed.store(&tlv)?,
            // [CDP-TLV-7] unknown TLVs of types 128..255 are skipped
            None if registry::is_ignorable(tlv.kind) => {}
            None => {
                let least = parsed.tlvs.unknown_critical.map_or(tlv.kind, |other| other.min(tlv.kind));
                parsed.tlvs.unknown_critical = Some(least);
            }
        }
    }
    parsed.judge(kind);
    Some(parsed)
}

impl Parsed {
    /// Takes over a known TLV of a right length.
    fn store(&mut self, tlv: &RawTlv<'_>) -> Option<()> {
        let value = tlv.value;
        let tlvs = &mut self.tlvs;
        match tlv.kind {
            registry::CRC => self.crc = Some((tlv.value_at, u32_at(value, 0)?)),
            registry::VERSIONS => tlvs.versions = Some(value.try_into().ok()?),
            registry::MSS => tlvs.mss = Some(clamp_mss(u16_at(value, 0)?)),
            registry::SERVICE => tlvs.service_code = value.first().copied(),
            registry::INTEGRITY => self.store_integrity(value[0]),
            registry::COOKIE => tlvs.cookie = Some(value.try_into().ok()?),
            // [CDP-SYN-8] a WSCALE above 14 is taken as 14
            registry::WSCALE => tlvs.wscale = Some(value[0].min(WSCALE_MAX)),
            registry::SACKOK => tlvs.sack_ok = true,
            registry::COALESCE => tlvs.coalesce = true,
            registry::MESSAGE => tlvs.message = Some(clamp_message(u32_at(value, 0)?)),
            registry::KEEPALIVE => {
                let keepalive = KeepAlive { interval_s: u16_at(value, 0)?, expiry_s: u16_at(value, 2)? };
                // [CDP-SYN-12] an expiry shorter than twice the interval: ignored
                tlvs.keepalive = keepalive.is_sound().then_some(keepalive);
            }
            registry::CONFIRM => tlvs.confirm = true,
            registry::IOSET => {
                let nodes: ArrayVec<_, IOSET_MAX> = value.chunks_exact(3).filter_map(node).collect();
                tlvs.ioset = (!nodes.is_empty()).then_some(nodes);
            }
            registry::SACK => tlvs.sack = Some(Sack::parse(value)?),
            registry::TIME => tlvs.time = Some(Time { own: u32_at(value, 0)?, echoed: u32_at(value, 4)? }),
            registry::CECOUNT => tlvs.ce_count = Some(u32_at(value, 0)?),
            registry::REASON => {
                tlvs.reason = Some((Reason::from_wire(u16_at(value, 0)?), u16_at(value, 2)));
            }
            registry::FARSACK => tlvs.far_sack = Some(FarSack::parse(value)?),
            registry::DISCARDED => tlvs.discarded = Some(u32_at(value, 0)?),
            _ => return None,
        }
        Some(())
    }

    fn store_integrity(&mut self, value: u8) {
        if value <= 1 {
            self.tlvs.integrity = Some(value == 1);
        } else {
            // [CDP-SEC-1], [CDP-SYN-5] an INTEGRITY value above 1 is refused
            self.tlvs.refusal = Some((Reason::OPTION, u16::from(registry::INTEGRITY)));
        }
    }

    /// Decides whether an opening packet must be refused, and for what if there is more than one cause: first an
    /// unknown type, then MSS, then INTEGRITY, so that the order of the TLVs does not matter.
    fn judge(&mut self, kind: Kind) {
        if !kind.is_open() {
            return;
        }
        let tlvs = &mut self.tlvs;
        if let Some(unknown) = tlvs.unknown_critical {
            // [CDP-TLV-5] an unknown critical TLV is refused with the type as detail
            tlvs.refusal = Some((Reason::OPTION, u16::from(unknown)));
        } else if tlvs.mss.is_some_and(registry::is_mss_too_small) {
            // [CDP-SYN-5] an MSS below 512 is refused
            tlvs.refusal = Some((Reason::OPTION, u16::from(registry::MSS)));
        }
    }
}

/// Which known types came; types 0..31 in the low half and 128..159 in the high half.
struct Seen(u64);

impl Seen {
    fn is_first(&mut self, kind: u8) -> bool {
        let mask = 1 << ((kind & 0x1F) | ((kind & 0x80) >> 2));
        let first = self.0 & mask == 0;
        self.0 |= mask;
        first
    }
}

fn u16_at(value: &[u8], at: usize) -> Option<u16> {
    value.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

fn u32_at(value: &[u8], at: usize) -> Option<u32> {
    value.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

fn node(bytes: &[u8]) -> Option<NodeId> {
    let &[a, b, c] = bytes else { return None };
    NodeId::new(u32::from_be_bytes([0, a, b, c]))
}
