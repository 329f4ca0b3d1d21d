//! What a forwarder reads of a packet, and the few bits that it changes (`docs/spec/cdp.md`, section 14.2).

use weft_base::NodeId;

use crate::header::{CE, HEADER_LEN, HOP, RTX, parse_addresses};
use crate::packet::check_length;
use crate::{DropReason, Encapsulation};

/// A packet on its way through a forwarder: what decides where it goes.
///
/// [CDP-SEAL-8] Flags, TLVs, numbers and the seal are for its ends: nothing here reads or writes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transit {
    /// The final node.
    pub destination: NodeId,
    /// The node it comes from.
    pub source: NodeId,
    /// Forwards so far, 0 to 3.
    pub hops: u32,
    /// Bytes of the packet; what an Ethernet frame holds behind them stays behind.
    pub length: usize,
}

impl Transit {
    /// [CDP-FWD-3] Checks size, VER and LENGTH, and that the addresses are such as may appear, of bytes that an underlay
    /// handed over.
    ///
    /// # Errors
    ///
    /// The first check that fails.
    #[inline]
    pub fn check(bytes: &[u8], encapsulation: Encapsulation) -> Result<Self, DropReason> {
        let Some(head) = bytes.first_chunk::<HEADER_LEN>() else { return Err(DropReason::Short) };
        let length = check_length(head, bytes.len(), encapsulation)?;
        let (destination, source) = parse_addresses(head).ok_or(DropReason::Address)?;
        Ok(Self {
            destination: destination.node,
            source: source.node,
            hops: u32::from(head[0] & HOP),
            length,
        })
    }

    /// Byte 0 of the packet as it leaves, where `first` is what came, and `is_congested` the forwarder's queue.
    ///
    /// [CDP-FWD-1] HOP is one more. [CDP-FWD-2] No other bits change, and CE is never cleared.
    #[must_use]
    #[inline]
    pub const fn forwarded(first: u8, is_congested: bool) -> u8 {
        let hops = (first & HOP) + 1;
        let mark = if is_congested { CE } else { 0 };
        (first & !HOP) | (hops & HOP) | mark
    }

    /// Whether byte 0 says that congestion was experienced.
    #[must_use]
    #[inline]
    pub const fn is_marked(first: u8) -> bool {
        first & CE != 0
    }

    /// Whether byte 0 says that the packet is a repeat, which [CDP-FWD-6] may be cut on its way.
    #[must_use]
    #[inline]
    pub const fn is_repeat(first: u8) -> bool {
        first & RTX != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Header, Kind};
    use weft_base::{Address, FlowKey, Port};

    fn packet() -> Vec<u8> {
        let end = |node, port| Address { node: NodeId::new(node).unwrap(), port: Port::new(port).unwrap() };
        let flow = FlowKey { local: end(1, 49152), remote: end(2, 7) };
        let mut bytes = Header { hop: 2, length: 33, ..Header::new(Kind::Data, flow) }.emit().to_vec();
        bytes.extend_from_slice(b"hello");
        bytes
    }

    fn check(bytes: &[u8]) -> Result<Transit, DropReason> {
        Transit::check(bytes, Encapsulation::Udp)
    }

    /// [CDP-FWD-3] A forwarder checks size, VER and LENGTH.
    #[test]
    fn size_version_and_length_are_checked_and_addresses_read() {
        let node = |number| NodeId::new(number).unwrap();
        let transit = Transit { destination: node(2), source: node(1), hops: 2, length: 33 };
        assert_eq!(check(&packet()), Ok(transit));
        assert_eq!(check(&packet()[..27]), Err(DropReason::Short));
        for (at, value, reason) in [
            (0, 0x22, DropReason::Version),
            (13, 27, DropReason::Length),
            (13, 34, DropReason::Length),
            (13, 32, DropReason::Trailing),
            (3, 0, DropReason::Address),
        ] {
            let mut bytes = packet();
            bytes[at] = value;
            assert_eq!(check(&bytes), Err(reason), "{at}");
        }
        let padded = [packet(), vec![0; 13]].concat();
        assert_eq!(check(&padded), Err(DropReason::Trailing));
        assert_eq!(Transit::check(&padded, Encapsulation::Ethernet), Ok(transit));
    }

    /// [CDP-SEAL-8] A forwarder passes on what it cannot verify: only the ends know whether a packet is sealed, and with what.
    #[test]
    fn a_seal_that_does_not_fit_and_flags_that_are_not_legal_are_no_reason_to_drop() {
        for at in [4, 16, 19, 24, 32] {
            let mut bytes = packet();
            bytes[at] ^= 0xFF;
            assert!(check(&bytes).is_ok(), "{at}");
        }
    }

    /// [CDP-FWD-1] HOP is one more. [CDP-FWD-2] Nothing but the bits under mask 0x07 changes, and CE is not cleared.
    #[test]
    fn only_hop_and_the_mark_change() {
        for first in 0..=u8::MAX {
            for is_congested in [false, true] {
                let after = Transit::forwarded(first, is_congested);
                assert_eq!(after & !0x07, first & !0x07);
                assert_eq!(after & HOP, first.wrapping_add(1) & HOP);
                assert_eq!(Transit::is_marked(after), is_congested || Transit::is_marked(first));
            }
        }
    }
}
