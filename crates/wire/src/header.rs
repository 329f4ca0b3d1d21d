//! The 28-byte header: bytes to a plain value and back.

use std::fmt;

use weft_base::{Address, FlowKey, NodeId, Port, Seq};

use crate::DropReason;
use crate::words::Words;

/// Bytes of the header.
pub const HEADER_LEN: usize = 28;

pub(crate) const VERSION: u8 = 1;
pub(crate) const VERSION_MASK: u8 = 0xF0;
/// What forwarders leave alone in byte 0: all but CE and HOP.
pub(crate) const IMMUTABLE_MASK: u8 = 0xF8;

pub(crate) const RTX: u8 = 0x08;
pub(crate) const CE: u8 = 0x04;
pub(crate) const HOP: u8 = 0x03;

const EOM: u8 = 0x80;
const ECE: u8 = 0x40;
const PIN: u8 = 0x20;
const ACK: u8 = 0x10;
const DAT: u8 = 0x08;
pub(crate) const RST: u8 = 0x04;
const SYN: u8 = 0x02;
const FIN: u8 = 0x01;

/// The legal flag sets of section 2.1, without EOM and ECE.
///
/// [CDP-FLG-1] There is no value for any other set, so nothing behind the parser can meet one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// SYN: open.
    Syn,
    /// SYN|ACK: answer to a SYN.
    SynAck,
    /// ACK: acknowledge, and nothing else.
    Ack,
    /// DAT|ACK: data.
    Data,
    /// FIN|ACK: close.
    Fin,
    /// PIN|ACK: keep-alive or probe.
    Pin,
    /// RST: refusal by an end without state, which echoes what it refuses.
    EchoReset,
    /// RST|ACK: reset by an end with state.
    Reset,
}

impl Kind {
    /// All of them, in the order of section 2.1.
    pub const ALL: [Self; 8] =
        [Self::Syn, Self::SynAck, Self::Ack, Self::Data, Self::Fin, Self::Pin, Self::EchoReset, Self::Reset];

    /// The flag byte without EOM and ECE.
    #[must_use]
    pub const fn flags(self) -> u8 {
        match self {
            Self::Syn => SYN,
            Self::SynAck => SYN | ACK,
            Self::Ack => ACK,
            Self::Data => DAT | ACK,
            Self::Fin => FIN | ACK,
            Self::Pin => PIN | ACK,
            Self::EchoReset => RST,
            Self::Reset => RST | ACK,
        }
    }

    /// The kind, EOM and ECE that byte 4 says, or `None` for a set that section 2.1 does not list.
    const fn from_flags(flags: u8) -> Option<(Self, bool, bool)> {
        let kind = match flags & !(EOM | ECE) {
            0x02 => Self::Syn,
            0x12 => Self::SynAck,
            0x10 => Self::Ack,
            0x18 => Self::Data,
            0x11 => Self::Fin,
            0x30 => Self::Pin,
            0x04 => Self::EchoReset,
            0x14 => Self::Reset,
            _ => return None,
        };
        let (eom, ece) = (flags & EOM != 0, flags & ECE != 0);
        if (eom && !kind.may_end_message()) || (ece && !kind.may_echo_congestion()) {
            return None;
        }
        Some((kind, eom, ece))
    }

    /// Whether EOM is legal with this kind.
    #[must_use]
    pub const fn may_end_message(self) -> bool {
        matches!(self, Self::Data)
    }

    /// Whether ECE is legal with this kind.
    #[must_use]
    pub const fn may_echo_congestion(self) -> bool {
        matches!(self, Self::Ack | Self::Data | Self::Fin | Self::Pin)
    }

    /// Whether the ACK flag is set.
    #[must_use]
    pub const fn has_ack(self) -> bool {
        self.flags() & ACK != 0
    }

    /// Whether it opens: SYN or SYN|ACK.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Syn | Self::SynAck)
    }

    /// Whether it is a reset of either form, which is never answered (CDP-RST-4).
    #[must_use]
    pub const fn is_reset(self) -> bool {
        matches!(self, Self::EchoReset | Self::Reset)
    }

    /// [CDP-HDR-12] Whether a packet of this kind takes a number.
    #[must_use]
    pub const fn takes_number(self) -> bool {
        matches!(self, Self::Syn | Self::SynAck | Self::Data | Self::Fin)
    }

    /// Whether TLVs follow the header, and not a data segment.
    #[must_use]
    pub const fn has_tlvs(self) -> bool {
        !matches!(self, Self::Data)
    }

    /// [CDP-SEAL-2], [CDP-SEAL-4] Whether a packet of this kind is sealed on a sealed connection.
    #[must_use]
    pub const fn is_sealed(self) -> bool {
        matches!(self, Self::Ack | Self::Data | Self::Fin | Self::Pin | Self::Reset)
    }
}

/// What carries a packet; it decides whether bytes may follow LENGTH (CDP-HDR-10, CDP-HDR-11).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Encapsulation {
    /// One packet in one UDP datagram.
    Udp,
    /// A frame, which is padded to the Ethernet minimum.
    Ethernet,
    /// The bytes of a simulated frame.
    Simulated,
}

/// The header as a plain value.
///
/// ```text
///        0               1               2               3
///        0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
///   0   | VER=1 |R|C|HOP|            DESTINATION NODE (24)              |
///   4   |E|e|P|A|D|R|S|F|               SOURCE NODE (24)                |
///   8   |       DESTINATION PORT        |          SOURCE PORT          |
///  12   |            LENGTH             |       WINDOW (slots)          |
///  16   |                     SEQUENCE NUMBER (64)                      |
///  20   |                                                               |
///  24   |               ACKNOWLEDGEMENT NUMBER (low 32)                 |
///  28   |  data segment (DAT=1)   or   TLVs (DAT=0)                     |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    /// The flag set.
    pub kind: Kind,
    /// EOM, the end of a message. Written in [`Kind::Data`] only.
    pub eom: bool,
    /// ECE, the echo of congestion experienced. Written where [`Kind::may_echo_congestion`].
    pub ece: bool,
    /// RTX: this packet is a retransmission (CDP-HDR-5).
    pub rtx: bool,
    /// CE, set by forwarders and 0 at the sender (CDP-HDR-7).
    pub ce: bool,
    /// Forwards so far, 0..3, and 0 at the sender (CDP-HDR-7).
    pub hop: u8,
    /// The final end, whoever carries the packet next.
    pub destination: Address,
    /// The end it comes from.
    pub source: Address,
    /// Bytes of the packet, header included. The functions of [`emit`](crate::emit) compute it.
    pub length: u16,
    /// Slots counted from the ACK number, scaled as agreed.
    pub window: u16,
    /// SEQ. Out of a parser: as on the wire, possibly sealed ([`Packet::seq`](crate::Packet::seq) undoes it).
    /// Into an emitter: the number itself.
    pub seq: Seq,
    /// The low 32 bits of the ACK number. Written as 0 in a SYN (CDP-HDR-13).
    pub ack: u32,
}

impl Header {
    /// A header of `kind` on its way from `flow.local` to `flow.remote`, with all else 0 or off.
    #[must_use]
    pub fn new(kind: Kind, flow: FlowKey) -> Self {
        Self {
            kind,
            eom: false,
            ece: false,
            rtx: false,
            ce: false,
            hop: 0,
            destination: flow.remote,
            source: flow.local,
            length: 0,
            window: 0,
            seq: Seq::new(0),
            ack: 0,
        }
    }

    /// The flow as the end that receives this packet keys it.
    #[must_use]
    pub const fn flow(&self) -> FlowKey {
        FlowKey { local: self.destination, remote: self.source }
    }

    /// Reads a header of version 1.
    ///
    /// # Errors
    ///
    /// The first that fails of version, flags, addresses. LENGTH is for [`Packet`](crate::Packet) to check,
    /// which knows how many bytes came.
    #[inline(always)] // one call more in the check of each packet
    pub fn parse(bytes: &[u8; HEADER_LEN]) -> Result<Self, DropReason> {
        if bytes[0] & VERSION_MASK != VERSION << 4 {
            return Err(DropReason::Version);
        }
        // [CDP-FLG-1] any other set of flags is dropped
        let Some((kind, eom, ece)) = Kind::from_flags(bytes[4]) else {
            return Err(DropReason::Flags);
        };
        let (destination, source) = parse_addresses(bytes).ok_or(DropReason::Address)?;
        Ok(Self {
            kind,
            eom,
            ece,
            // [CDP-HDR-6] read, and never a reason to accept or refuse
            rtx: bytes[0] & RTX != 0,
            ce: bytes[0] & CE != 0,
            hop: bytes[0] & HOP,
            destination,
            source,
            length: u16::from_be_bytes([bytes[12], bytes[13]]),
            window: u16::from_be_bytes([bytes[14], bytes[15]]),
            seq: Seq::new((u64::from(word(bytes, 16)) << 32) | u64::from(word(bytes, 20))),
            ack: word(bytes, 24),
        })
    }

    /// [CDP-HDR-1] The header exactly as drawn.
    #[must_use]
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        self.words().bytes()
    }

    #[inline]
    pub(crate) fn words(&self) -> Words {
        let first = (VERSION << 4) | bit(self.rtx, RTX) | bit(self.ce, CE) | (self.hop & HOP);
        // [CDP-HDR-13] without the ACK flag the ACK number is 0, except in an echo-form RST
        let ack = if self.kind == Kind::Syn { 0 } else { self.ack };
        Words {
            nodes: pair(named(first, self.destination.node), named(self.flags(), self.source.node)),
            ports: pair(
                halves(self.destination.port.get(), self.source.port.get()),
                halves(self.length, self.window),
            ),
            seq: self.seq.get(),
            ack,
        }
    }

    /// Byte 4: the kind, and EOM and ECE where they are legal.
    #[must_use]
    pub const fn flags(&self) -> u8 {
        self.kind.flags()
            | bit(self.eom && self.kind.may_end_message(), EOM)
            | bit(self.ece && self.kind.may_echo_congestion(), ECE)
    }

    /// Bytes that [`Header::emit`] gives.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }
}

/// A line for traces, such as `0x00abcd:7 < 0x010203:49152 DAT|ACK|EOM seq=… ack=… window=1024 length=33`.
impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} < {} ", self.destination, self.source)?;
        let names = ["FIN", "SYN", "RST", "DAT", "ACK", "PIN", "ECE", "EOM"];
        let mut separator = "";
        for (_, name) in names.iter().enumerate().filter(|(i, _)| self.flags() & (1 << i) != 0) {
            write!(f, "{separator}{name}")?;
            separator = "|";
        }
        let retransmission = if self.rtx { " RTX" } else { "" };
        let congestion = if self.ce { " CE" } else { "" };
        write!(f, "{retransmission}{congestion} seq={:?} ack={:08x}", self.seq, self.ack)?;
        write!(f, " window={} length={}", self.window, self.length)
    }
}

/// 32 bits that all packets of a flow share and that spread flows evenly, of bytes that are not checked yet; 0 of less than a
/// header. Bytes 5..11, the source node and both ports, mean the same in every version (CDP-HDR-3).
#[must_use]
#[inline]
#[allow(clippy::cast_possible_truncation)] // the upper half of 64 bits
pub fn flow_hint(bytes: &[u8]) -> u32 {
    let Some(head) = bytes.first_chunk::<HEADER_LEN>() else { return 0 };
    let (source, ports) = (word(head, 4) & 0xFF_FFFF, word(head, 8));
    // Fibonacci hashing: the upper half of the product depends on every bit.
    ((u64::from(source) << 32 | u64::from(ports)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

/// Destination and source, or `None` where they break CDP-HDR-15 or CDP-HDR-16. Bytes 0..11 mean the same in
/// every version (CDP-HDR-3), so this serves packets of other versions as well.
pub(crate) fn parse_addresses(bytes: &[u8; HEADER_LEN]) -> Option<(Address, Address)> {
    // [CDP-HDR-15] node 0, node 0xFFFFFF and port 0 do not appear
    let node = |at| NodeId::new(word(bytes, at) & 0xFF_FFFF);
    let port = |at: usize| Port::new(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    let destination = Address { node: node(0)?, port: port(8)? };
    let source = Address { node: node(4)?, port: port(10)? };
    // [CDP-HDR-16] a packet from an end to itself is dropped
    (destination != source).then_some((destination, source))
}

pub(crate) const fn word(bytes: &[u8; HEADER_LEN], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A node behind the byte that shares its word.
const fn named(high: u8, node: NodeId) -> u32 {
    ((high as u32) << 24) | node.get()
}

const fn halves(high: u16, low: u16) -> u32 {
    ((high as u32) << 16) | low as u32
}

const fn pair(high: u32, low: u32) -> u64 {
    ((high as u64) << 32) | low as u64
}

const fn bit(on: bool, mask: u8) -> u8 {
    if on { mask } else { 0 }
}

#[cfg(test)]
mod tests;
