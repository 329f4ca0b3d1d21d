//! The head of an Ethernet frame.
//!
//! ```text
//!  0      6        12         14
//!  +------+--------+----------+----------
//!  |target| source | EtherType| packet …     18 with one VLAN tag, which lies before the EtherType
//!  +------+--------+----------+----------
//! ```

use super::Mac;

/// [CDP-ENC-1] Local experimental 1.
pub(super) const ETHERTYPE: u16 = 0x88B5;
/// The type that says: a VLAN tag of two bytes follows, and then the type.
const TAG_TYPE: u16 = 0x8100;
/// Bytes before the packet.
pub(crate) const HEAD_BYTES: usize = 14;
/// Bytes of a VLAN tag.
pub(super) const TAG_BYTES: usize = 4;
/// [CDP-ENC-3] Bytes of the shortest frame, without its checksum.
pub(super) const FRAME_BYTES_MIN: usize = 60;

/// The bytes before a packet from `source` to `target`. [CDP-ENC-2] A sender adds no tag.
#[inline]
pub(crate) fn emit(target: Mac, source: Mac) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..6].copy_from_slice(&target.0);
    head[6..12].copy_from_slice(&source.0);
    head[12..].copy_from_slice(&ETHERTYPE.to_be_bytes());
    head
}

/// The sender of `frame` and the bytes after the EtherType, if it is for `own`.
///
/// [CDP-ENC-4] Anything else, broadcast and multicast among it, is ignored. [CDP-ENC-2] One VLAN tag is accepted, if the
/// kernel left it in the frame.
#[inline]
pub(super) fn parse(frame: &[u8], own: Mac) -> Option<(Mac, &[u8])> {
    let (head, rest) = frame.split_first_chunk::<HEAD_BYTES>()?;
    let &[t0, t1, t2, t3, t4, t5, s0, s1, s2, s3, s4, s5, k0, k1] = head;
    if [t0, t1, t2, t3, t4, t5] != own.0 {
        return None;
    }
    let source = Mac([s0, s1, s2, s3, s4, s5]);
    match u16::from_be_bytes([k0, k1]) {
        ETHERTYPE => Some((source, rest)),
        TAG_TYPE => {
            let (tag, rest) = rest.split_first_chunk::<TAG_BYTES>()?;
            (tag[2..] == ETHERTYPE.to_be_bytes()).then_some((source, rest))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const PEER: Mac = Mac([2, 0, 0, 0, 0, 2]);

    /// [CDP-ENC-1] The EtherType is 0x88B5, and the packet starts at byte 14.
    #[test]
    fn a_head_is_made_byte_for_byte() {
        assert_eq!(emit(OWN, PEER), [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xB5]);
        let frame = [&emit(OWN, PEER)[..], b"packet"].concat();
        assert_eq!(parse(&frame, OWN), Some((PEER, &b"packet"[..])));
    }

    /// [CDP-ENC-2] One 802.1Q tag is accepted: the packet starts at byte 18.
    #[test]
    fn one_tag_is_accepted_and_two_are_not() {
        let head = emit(OWN, PEER);
        let tag = [0x81, 0x00, 0x20, 0x07];
        let one = [&head[..12], &tag, &head[12..], b"packet"].concat();
        assert_eq!(parse(&one, OWN), Some((PEER, &b"packet"[..])));
        let two = [&head[..12], &tag, &tag, &head[12..], b"packet"].concat();
        assert_eq!(parse(&two, OWN), None);
    }

    /// [CDP-ENC-4] Broadcast and multicast frames are ignored, and so are those of others.
    #[test]
    fn what_is_not_for_this_interface_is_ignored() {
        for target in [Mac([0xFF; 6]), Mac([0x01, 0, 0x5E, 0, 0, 1]), PEER] {
            assert_eq!(parse(&emit(target, PEER), OWN), None);
        }
        let mut other = emit(OWN, PEER);
        other[12..].copy_from_slice(&[0x08, 0x00]);
        assert_eq!(parse(&other, OWN), None);
        assert_eq!(parse(&other[..13], OWN), None);
    }
}
