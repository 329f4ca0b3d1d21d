//! Every length from 0 to 1600, every flag byte and every version through the parser, with three kinds of content.
//!
//! The oracle below is written from the tables of the specification alone, as a list of conditions, and shares no
//! code with the parser.

use bytes::Bytes;
use weft_wire::{Encapsulation, Packet, Refused};

const LENGTH_MAX: usize = 1600;
const HEAD: [u8; 28] = [
    0x10, 0x00, 0xAB, 0xCD, 0x10, 0x01, 0x02, 0x03, 0x00, 0x07, 0xC0, 0x00, 0, 0, 4, 0, 0x01, 0x23, 0x45,
    0x67, 0x89, 0xAB, 0xCD, 0xEF, 0x23, 0x45, 0x67, 0x89,
];

/// What follows the header.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Content {
    /// Zero bytes: PAD, so no TLV at all.
    Zeros,
    /// A REASON of code 0, then TLVs of an unknown ignorable type, 4 bytes each.
    Reason,
    /// A CRC whose value is right for this packet, then PAD.
    Crc,
}

/// The verdict as one word; "answer" for an echo-form RST, "accept" for a packet.
fn expected(length: usize, flags: u8, version: u8, content: Content) -> &'static str {
    let rest = length.saturating_sub(28);
    let data = [0x18, 0x58, 0x98, 0xD8].contains(&flags);
    let (syn, syn_ack, echo) = (flags == 0x02, flags == 0x12, flags == 0x04);
    let legal = data || [0x02, 0x12, 0x10, 0x50, 0x11, 0x51, 0x30, 0x70, 0x04, 0x14].contains(&flags);
    let takes_reason = [0x11, 0x51, 0x04, 0x14].contains(&flags);
    let tlvs_are_wrong = match content {
        _ if rest == 0 || data => false,
        Content::Zeros => false,
        Content::Reason => !rest.is_multiple_of(4) || rest / 4 > 32 || !takes_reason,
        Content::Crc => rest < 8 || !(syn || syn_ack || echo),
    };
    let has_crc = content == Content::Crc && rest >= 8;
    let answered = (2..=14).contains(&version) && length >= 36 && flags & 0x04 == 0;
    let checks = [
        (length < 28, "short"),
        (version != 1 && answered, "answer"),
        (version != 1, "version"),
        (!legal, "flags"),
        (tlvs_are_wrong, "tlv"),
        (syn && length < 128, "syn"),
        ((syn || syn_ack) && !has_crc, "crc"),
    ];
    checks.iter().find(|(fails, _)| *fails).map_or("accept", |(_, verdict)| verdict)
}

fn found(result: &Result<Packet, Refused>) -> &'static str {
    match result {
        Ok(_) => "accept",
        Err(Refused::Drop(reason)) => reason.name(),
        Err(Refused::Answer(..)) => "answer",
    }
}

fn fill(buffer: &mut [u8], content: Content) {
    buffer[..28].copy_from_slice(&HEAD);
    for (i, byte) in buffer[28..].iter_mut().enumerate() {
        *byte = match content {
            Content::Zeros => 0,
            Content::Reason if i < 4 => [147, 2, 0, 0][i],
            Content::Reason => [0x8A, 2, 0xDE, 0xAD][i % 4],
            Content::Crc => *[1, 4].get(i).unwrap_or(&0),
        };
    }
}

/// CRC32C bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82F6_3B78 & (crc & 1).wrapping_neg()))
    })
}

/// Puts the fields of one combination into the head.
fn set(buffer: &mut [u8], length: usize, flags: u8, version: u8, content: Content) {
    buffer[0] = version << 4;
    buffer[4] = flags;
    buffer[12..14].copy_from_slice(&u16::try_from(length).expect("at most 1600").to_be_bytes());
    if content == Content::Crc && version == 1 && length >= 36 && [0x02, 0x12, 0x04].contains(&flags) {
        buffer[30..34].fill(0);
        let crc = crc32c(&buffer[..length]);
        buffer[30..34].copy_from_slice(&crc.to_be_bytes());
    }
}

fn try_all(content: Content) {
    let mut buffer = [0; LENGTH_MAX];
    fill(&mut buffer, content);
    let mut tried = 0_u32;
    for length in 0..=LENGTH_MAX {
        for flags in 0..=255 {
            for version in 0..16 {
                set(&mut buffer, length, flags, version, content);
                let frame = Bytes::copy_from_slice(&buffer[..length]);
                let result = Packet::new_checked(frame, Encapsulation::Udp);
                let wanted = expected(length, flags, version, content);
                assert_eq!(
                    found(&result),
                    wanted,
                    "length {length} flags {flags:02x} version {version} {content:?}"
                );
                if let Ok(packet) = result {
                    check(&packet, length, flags);
                }
                tried += 1;
            }
        }
    }
    assert_eq!(tried, 1601 * 256 * 16);
}

fn check(packet: &Packet, length: usize, flags: u8) {
    assert_eq!(packet.bytes().len(), length);
    assert_eq!(packet.header().flags(), flags);
    assert_eq!(packet.payload_len(), if flags & 0x08 != 0 { length - 28 } else { 0 });
}

/// [CDP-CHK-1] [CDP-HDR-2] [CDP-HDR-4] [CDP-HDR-8] [CDP-FLG-1] [CDP-FLG-2] [CDP-SYN-2] [CDP-SYN-3] [CDP-TLV-2]
#[test]
fn no_tlvs() {
    try_all(Content::Zeros);
}

/// [CDP-CHK-1] [CDP-TLV-3] [CDP-TLV-4] [CDP-TLV-7] [CDP-TLV-8]
#[test]
fn a_reason_and_unknown_tlvs() {
    try_all(Content::Reason);
}

/// [CDP-CHK-1] [CDP-SYN-1] [CDP-SYN-2] [CDP-SYN-3] [CDP-TLV-4]
#[test]
fn a_correct_crc() {
    try_all(Content::Crc);
}

/// [CDP-HDR-8] [CDP-HDR-10] [CDP-HDR-11] Every LENGTH against every number of bytes that came, on each underlay.
#[test]
fn length_against_bytes_received() {
    let mut buffer = [0; 80];
    fill(&mut buffer, Content::Zeros);
    buffer[4] = 0x18;
    for received in 28..=buffer.len() {
        for length in 0..=100_u16 {
            buffer[12..14].copy_from_slice(&length.to_be_bytes());
            let said = usize::from(length);
            for underlay in [Encapsulation::Udp, Encapsulation::Ethernet, Encapsulation::Simulated] {
                let padded = underlay == Encapsulation::Ethernet && received <= 46;
                let wanted = match said {
                    _ if said < 28 || said > received => "length",
                    _ if said < received && !padded => "trailing",
                    _ => "accept",
                };
                let result = Packet::new_checked(Bytes::copy_from_slice(&buffer[..received]), underlay);
                assert_eq!(found(&result), wanted, "{received} bytes, LENGTH {length}, {underlay:?}");
            }
        }
    }
}
