//! Makes bytes pass the checks that a mutation seldom hits: VER, LENGTH, the size of a SYN, the CRC.

use weft_wire::tlv::{RawTlvs, registry};
use weft_wire::{HEADER_LEN, Kind};

/// The same bytes with VER 1, LENGTH for all of them, a size that a SYN may have, and a right CRC.
pub(crate) fn repair(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    bytes.truncate(usize::from(u16::MAX));
    if bytes.len() < HEADER_LEN {
        return bytes;
    }
    if bytes[4] == Kind::Syn.flags() && bytes.len() < 128 {
        bytes.resize(128, 0);
    }
    bytes[0] = 0x10 | (bytes[0] & 0x0F);
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    bytes[12..14].copy_from_slice(&length.to_be_bytes());
    let crc = RawTlvs::new(&bytes[HEADER_LEN..])
        .find_map(|tlv| tlv.ok().filter(|tlv| tlv.kind == registry::CRC && tlv.value.len() == 4))
        .map(|tlv| HEADER_LEN + tlv.value_at);
    if let Some(at) = crc {
        bytes[at..at + 4].fill(0);
        let value = crc32c(&bytes);
        bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }
    bytes
}

/// CRC32C of a packet without its mutable bits, bit by bit.
fn crc32c(packet: &[u8]) -> u32 {
    let first = packet[0] & 0xF8;
    let bytes = std::iter::once(first).chain(packet[1..].iter().copied());
    !bytes.fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0x82F6_3B78 & (crc & 1).wrapping_neg()))
    })
}
