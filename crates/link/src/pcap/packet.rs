//! Ethernet, IP and UDP headers around a packet, as a network would have shown it.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::Mac;
use crate::packet::frame_head;

const ETHERTYPE_V4: u16 = 0x0800;
const ETHERTYPE_V6: u16 = 0x86DD;
const UDP: u8 = 17;
const HOP_LIMIT: u8 = 64;

/// The frame that carries `pieces`, laid end to end, from `source` to `target` as the data of one UDP datagram.
///
/// Ethernet addresses are made up from the IP addresses. If one address is IPv6, both are told as IPv6. Between two Ethernet
/// addresses it is the frame that a packet link sends.
pub(super) fn synthesize(source: SocketAddr, target: SocketAddr, pieces: &[&[u8]]) -> Vec<u8> {
    if let (Some(source), Some(target)) = (Mac::of_underlay(source), Mac::of_underlay(target)) {
        return [&frame_head(target, source)[..], &pieces.concat()].concat();
    }
    let len: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut frame = Vec::with_capacity(14 + 40 + 8 + len);
    let (udp_at, pseudo) = match (source, target) {
        (SocketAddr::V4(source), SocketAddr::V4(target)) => {
            ethernet(&mut frame, source.ip().octets(), target.ip().octets(), ETHERTYPE_V4);
            ipv4(&mut frame, &source, &target, len)
        }
        (source, target) => {
            let (source, target) = (mapped(source), mapped(target));
            ethernet(&mut frame, tail(source.ip()), tail(target.ip()), ETHERTYPE_V6);
            ipv6(&mut frame, &source, &target, len)
        }
    };
    let udp_len = to_u16(8 + len);
    frame.extend(source.port().to_be_bytes());
    frame.extend(target.port().to_be_bytes());
    frame.extend(udp_len.to_be_bytes());
    frame.extend([0; 2]);
    pieces.iter().for_each(|piece| frame.extend_from_slice(piece));
    let sum = add(&frame[udp_at..], pseudo + u32::from(UDP) + u32::from(udp_len));
    let sum = if fold(sum) == 0 { 0xFFFF } else { fold(sum) };
    frame[udp_at + 6..udp_at + 8].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn ethernet(frame: &mut Vec<u8>, source: [u8; 4], target: [u8; 4], kind: u16) {
    for address in [target, source] {
        frame.extend([0x02, 0x00]); // locally administered
        frame.extend(address);
    }
    frame.extend(kind.to_be_bytes());
}

/// Appends the header; returns where it ends and the sum of its addresses.
fn ipv4(frame: &mut Vec<u8>, source: &SocketAddrV4, target: &SocketAddrV4, len: usize) -> (usize, u32) {
    let start = frame.len();
    frame.extend([0x45, 0]);
    frame.extend(to_u16(20 + 8 + len).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, HOP_LIMIT, UDP, 0, 0]); // fragmentation forbidden
    frame.extend(source.ip().octets());
    frame.extend(target.ip().octets());
    let sum = fold(add(&frame[start..], 0));
    frame[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
    (start + 20, add(&frame[start + 12..], 0))
}

/// As [`ipv4`].
fn ipv6(frame: &mut Vec<u8>, source: &SocketAddrV6, target: &SocketAddrV6, len: usize) -> (usize, u32) {
    let start = frame.len();
    frame.extend([0x60, 0, 0, 0]);
    frame.extend(to_u16(8 + len).to_be_bytes());
    frame.extend([UDP, HOP_LIMIT]);
    frame.extend(source.ip().octets());
    frame.extend(target.ip().octets());
    (start + 40, add(&frame[start + 8..], 0))
}

fn mapped(address: SocketAddr) -> SocketAddrV6 {
    match address {
        SocketAddr::V4(v4) => SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0),
        SocketAddr::V6(v6) => v6,
    }
}

fn tail(ip: &Ipv6Addr) -> [u8; 4] {
    let [.., a, b, c, d] = ip.octets();
    [a, b, c, d]
}

/// The sum of 16-bit words (RFC 1071), continued from `sum`; at most 64 KiB, so it does not overflow.
fn add(bytes: &[u8], sum: u32) -> u32 {
    bytes
        .chunks(2)
        .fold(sum, |sum, pair| sum + (u32::from(pair[0]) << 8) + u32::from(pair.get(1).copied().unwrap_or(0)))
}

#[allow(clippy::cast_possible_truncation)] // the carries have been added
fn fold(mut sum: u32) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

fn to_u16(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 1071, section 3.
    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        assert_eq!(!fold(add(&[0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0xF7], 0)), 0xDDF2);
    }

    #[test]
    fn an_ipv4_frame_is_made_byte_for_byte() {
        let frame =
            synthesize("10.0.0.1:1000".parse().unwrap(), "10.0.0.2:64064".parse().unwrap(), &[b"a", b"bc"]);
        #[rustfmt::skip]
        let expected = [
            0x02, 0, 10, 0, 0, 2, 0x02, 0, 10, 0, 0, 1, 0x08, 0x00,
            0x45, 0, 0, 31, 0, 0, 0x40, 0, 64, 17, 0x26, 0xCC, 10, 0, 0, 1, 10, 0, 0, 2,
            0x03, 0xE8, 0xFA, 0x40, 0, 11,
        ];
        assert_eq!(frame[..40], expected);
        assert_eq!(&frame[42..], b"abc");
    }

    #[test]
    fn between_ethernet_addresses_there_is_neither_ip_nor_udp() {
        let (source, target) = (Mac([2, 0, 0, 0, 0, 1]).underlay(), Mac([2, 0, 0, 0, 0, 2]).underlay());
        let frame = synthesize(source, target, &[b"a", b"bc"]);
        assert_eq!(frame, *b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x88\xB5abc");
    }

    #[test]
    fn mixed_addresses_are_told_as_ipv6() {
        let frame = synthesize("10.0.0.1:1000".parse().unwrap(), "[fd00::2]:7".parse().unwrap(), &[&[1; 5]]);
        assert_eq!((frame.len(), &frame[12..14]), (14 + 40 + 8 + 5, &[0x86, 0xDD][..]));
    }
}
