//! Section 3.1: the types, their lengths, and the flag sets they are allowed in.

use weft_base::limits::MSS_MIN;

use crate::Kind;

/// SERVICE code of the datagram service.
pub const DATAGRAM: u8 = 1;
/// SERVICE code of the stream service.
pub const STREAM: u8 = 2;

/// End of list.
pub const PAD: u8 = 0;
/// CRC32C of the packet.
pub const CRC: u8 = 1;
/// Versions supported.
pub const VERSIONS: u8 = 2;
/// Largest data segment.
pub const MSS: u8 = 3;
/// Datagram or stream.
pub const SERVICE: u8 = 4;
/// Sealed or not.
pub const INTEGRITY: u8 = 5;
/// Server's state.
pub const COOKIE: u8 = 6;
/// Shift for windows.
pub const WSCALE: u8 = 128;
/// Understands SACK.
pub const SACKOK: u8 = 129;
/// Several datagrams per packet.
pub const COALESCE: u8 = 130;
/// Largest message.
pub const MESSAGE: u8 = 131;
/// PIN interval and expiry.
pub const KEEPALIVE: u8 = 132;
/// Confirmed close.
pub const CONFIRM: u8 = 133;
/// I/O nodes.
pub const IOSET: u8 = 134;
/// Bitmap of held numbers.
pub const SACK: u8 = 144;
/// Tokens.
pub const TIME: u8 = 145;
/// DAT packets received with CE=1.
pub const CECOUNT: u8 = 146;
/// Code and detail.
pub const REASON: u8 = 147;
/// Packets acknowledged but never delivered.
pub const DISCARDED: u8 = 148;
/// Bitmap of held numbers further on.
pub const FARSACK: u8 = 149;

/// Whether a receiver that does not know `kind` may skip it (types 128..255).
#[must_use]
pub const fn is_ignorable(kind: u8) -> bool {
    kind >= 128
}

/// Whether `kind` is one of 0x8A, 0x9A, … 0xFA, which are never assigned (CDP-TLV-9).
#[must_use]
pub const fn is_grease(kind: u8) -> bool {
    is_ignorable(kind) && kind & 0x0F == 0x0A
}

/// The name of `kind` in section 3.1.
#[must_use]
pub const fn name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        PAD => "PAD",
        CRC => "CRC",
        VERSIONS => "VERSIONS",
        MSS => "MSS",
        SERVICE => "SERVICE",
        INTEGRITY => "INTEGRITY",
        COOKIE => "COOKIE",
        WSCALE => "WSCALE",
        SACKOK => "SACKOK",
        COALESCE => "COALESCE",
        MESSAGE => "MESSAGE",
        KEEPALIVE => "KEEPALIVE",
        CONFIRM => "CONFIRM",
        IOSET => "IOSET",
        SACK => "SACK",
        TIME => "TIME",
        CECOUNT => "CECOUNT",
        REASON => "REASON",
        DISCARDED => "DISCARDED",
        FARSACK => "FARSACK",
        _ => return None,
    })
}

/// Whether a value of `len` bytes is right for the known type `kind`; `None` if the type is not known.
pub(super) const fn is_length_right(kind: u8, len: usize) -> Option<bool> {
    Some(match kind {
        SACKOK | COALESCE | CONFIRM => len == 0,
        SERVICE | INTEGRITY | WSCALE => len == 1,
        MSS => len == 2,
        CRC | MESSAGE | KEEPALIVE | CECOUNT | DISCARDED => len == 4,
        TIME => len == 8,
        REASON => len == 2 || len == 4,
        VERSIONS => len >= 1 && len <= super::VERSIONS_MAX,
        COOKIE => len >= 1 && len <= super::COOKIE_LEN_MAX,
        IOSET => len >= 3 && len <= 3 * super::IOSET_MAX && len.is_multiple_of(3),
        FARSACK => len >= 12 && len <= 252 && len % 8 == 4,
        SACK => len >= 8 && len <= 64 && len.is_multiple_of(8),
        _ => return None,
    })
}

/// Whether the known type `tlv` is allowed in a packet of `kind` with or without ECE.
pub(super) const fn is_allowed(tlv: u8, kind: Kind, ece: bool) -> bool {
    match tlv {
        CRC | VERSIONS => matches!(kind, Kind::Syn | Kind::SynAck | Kind::EchoReset),
        COOKIE => matches!(kind, Kind::SynAck) || (matches!(kind, Kind::Ack) && !ece),
        SACK | FARSACK | TIME | CECOUNT => matches!(kind, Kind::Ack | Kind::Pin),
        REASON => matches!(kind, Kind::Fin | Kind::EchoReset | Kind::Reset),
        DISCARDED => !matches!(kind, Kind::Syn | Kind::SynAck | Kind::Data),
        _ => kind.is_open(),
    }
}

/// Whether an announced MSS is one that may be refused (CDP-SYN-5).
pub(super) const fn is_mss_too_small(mss: u16) -> bool {
    mss < MSS_MIN
}
