use super::emit::push;
use super::parse::parse;
use super::{KeepAlive, Tlvs, registry};
use crate::{Kind, Reason};

/// The TLVs of `list`, each with its padding.
fn bytes(list: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, value) in list {
        push(&mut out, *kind, value);
    }
    out
}

fn tlvs(kind: Kind, list: &[(u8, &[u8])]) -> Option<Tlvs> {
    parse(&bytes(list), kind, false).map(|parsed| parsed.tlvs)
}

/// A value of a right length for each known type.
const KNOWN: [(u8, &[u8]); 19] = [
    (registry::CRC, &[0; 4]),
    (registry::VERSIONS, &[1]),
    (registry::MSS, &[5, 0xA4]),
    (registry::SERVICE, &[2]),
    (registry::INTEGRITY, &[1]),
    (registry::COOKIE, &[7; 8]),
    (registry::WSCALE, &[3]),
    (registry::SACKOK, &[]),
    (registry::COALESCE, &[]),
    (registry::MESSAGE, &[0, 1, 0, 0]),
    (registry::KEEPALIVE, &[0, 60, 1, 44]),
    (registry::CONFIRM, &[]),
    (registry::IOSET, &[0, 0, 9]),
    (registry::SACK, &[0x80, 0, 0, 0, 0, 0, 0, 0]),
    (registry::TIME, &[1, 2, 3, 4, 5, 6, 7, 8]),
    (registry::CECOUNT, &[0, 0, 0, 3]),
    (registry::REASON, &[0, 10, 0, 99]),
    (registry::DISCARDED, &[0, 0, 0, 7]),
    (registry::FARSACK, &[0, 0, 2, 0, 0x80, 0, 0, 0, 0, 0, 0, 0]),
];

/// Section 3.1, column "Allowed in", written out: SYN, SYN|ACK, ACK, ACK|ECE, FIN, PIN, RST, RST|ACK.
const ALLOWED: [(u8, &str); 19] = [
    (registry::CRC, "yes yes no no no no yes no"),
    (registry::VERSIONS, "yes yes no no no no yes no"),
    (registry::MSS, "yes yes no no no no no no"),
    (registry::SERVICE, "yes yes no no no no no no"),
    (registry::INTEGRITY, "yes yes no no no no no no"),
    (registry::COOKIE, "no yes yes no no no no no"),
    (registry::WSCALE, "yes yes no no no no no no"),
    (registry::SACKOK, "yes yes no no no no no no"),
    (registry::COALESCE, "yes yes no no no no no no"),
    (registry::MESSAGE, "yes yes no no no no no no"),
    (registry::KEEPALIVE, "yes yes no no no no no no"),
    (registry::CONFIRM, "yes yes no no no no no no"),
    (registry::IOSET, "yes yes no no no no no no"),
    (registry::SACK, "no no yes yes no yes no no"),
    (registry::TIME, "no no yes yes no yes no no"),
    (registry::CECOUNT, "no no yes yes no yes no no"),
    (registry::REASON, "no no no no yes no yes yes"),
    (registry::DISCARDED, "no no yes yes yes yes yes yes"),
    (registry::FARSACK, "no no yes yes no yes no no"),
];

const COLUMNS: [(Kind, bool); 8] = [
    (Kind::Syn, false),
    (Kind::SynAck, false),
    (Kind::Ack, false),
    (Kind::Ack, true),
    (Kind::Fin, false),
    (Kind::Pin, false),
    (Kind::EchoReset, false),
    (Kind::Reset, false),
];

/// [CDP-TLV-4] A known TLV in a flag set where it is not allowed.
#[test]
fn the_registry_says_where_a_type_is_allowed() {
    for ((kind, value), (same, row)) in KNOWN.into_iter().zip(ALLOWED) {
        assert_eq!(kind, same);
        for ((packet, ece), allowed) in COLUMNS.into_iter().zip(row.split(' ')) {
            let parsed = parse(&bytes(&[(kind, value)]), packet, ece);
            assert_eq!(parsed.is_some(), allowed == "yes", "type {kind} in {packet:?} ece {ece}");
        }
    }
}

/// [CDP-TLV-4] A known TLV of a wrong length.
#[test]
fn the_registry_says_how_long_a_value_is() {
    let right: [(u8, &[usize]); 13] = [
        (registry::CRC, &[4]),
        (registry::MSS, &[2]),
        (registry::SERVICE, &[1]),
        (registry::INTEGRITY, &[1]),
        (registry::WSCALE, &[1]),
        (registry::SACKOK, &[0]),
        (registry::COALESCE, &[0]),
        (registry::MESSAGE, &[4]),
        (registry::KEEPALIVE, &[4]),
        (registry::CONFIRM, &[0]),
        (registry::IOSET, &[3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45, 48]),
        (registry::VERSIONS, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]),
        (registry::SACK, &[8, 16, 24, 32, 40, 48, 56, 64]),
    ];
    for (kind, lengths) in right {
        let packet = if kind == registry::SACK { Kind::Ack } else { Kind::Syn };
        for len in 0..=64 {
            let parsed = tlvs(packet, &[(kind, &vec![1; len])]);
            assert_eq!(parsed.is_some(), lengths.contains(&len), "type {kind}, {len} bytes");
        }
    }
}

/// [CDP-TLV-4] A known TLV given twice; an unknown one may be.
#[test]
fn a_known_type_comes_once() {
    for (kind, value) in KNOWN {
        let packet =
            COLUMNS.into_iter().find(|(packet, _)| tlvs(*packet, &[(kind, value)]).is_some()).unwrap().0;
        assert_eq!(tlvs(packet, &[(kind, value), (200, &[]), (kind, value)]), None, "type {kind}");
    }
    assert!(tlvs(Kind::Ack, &[(200, &[1]), (200, &[1])]).is_some());
}

/// [CDP-TLV-3] A TLV with its padding runs past the end.
#[test]
fn a_tlv_ends_inside_the_packet() {
    let whole = bytes(&[(200, &[1, 2, 3])]);
    assert_eq!(whole.len(), 8);
    for len in 1..8 {
        assert!(parse(&whole[..len], Kind::Ack, false).is_none(), "{len} bytes");
    }
    assert!(parse(&whole, Kind::Ack, false).is_some());
}

/// [CDP-TLV-2] PAD ends the list and hides what follows, whatever it is.
#[test]
fn pad_ends_the_list() {
    let mut list = bytes(&[(registry::DISCARDED, &[0, 0, 0, 7])]);
    list.extend_from_slice(&[0, 99, 255, 148, 4]);
    let parsed = parse(&list, Kind::Ack, false).unwrap().tlvs;
    assert_eq!(parsed, Tlvs { discarded: Some(7), ..Tlvs::default() });
}

/// [CDP-TLV-8] [CDP-LIM-10] More than 32 TLVs; PAD is not counted.
#[test]
fn thirty_two_tlvs_are_the_most() {
    let mut list = vec![(200_u8, &[][..]); 32];
    let mut most = bytes(&list);
    most.push(0);
    assert!(parse(&most, Kind::Ack, false).is_some());
    list.push((200, &[]));
    assert_eq!(tlvs(Kind::Ack, &list), None);
}

/// [CDP-TLV-5] [CDP-TLV-6] [CDP-TLV-7] [CDP-SEC-1] What is unknown is skipped, refused or told, by its type.
#[test]
fn unknown_types_are_judged_by_their_number() {
    for unknown in (7..=127).chain(135..=143).chain(150..=255_u8) {
        for kind in [Kind::Syn, Kind::SynAck, Kind::Ack, Kind::Fin, Kind::Pin, Kind::EchoReset, Kind::Reset] {
            let found = tlvs(kind, &[(unknown, &[1, 2, 3])]).unwrap();
            let critical = (unknown < 128).then_some(unknown);
            assert_eq!(found.unknown_critical, critical);
            let refusal =
                critical.filter(|_| kind.is_open()).map(|unknown| (Reason::OPTION, u16::from(unknown)));
            assert_eq!(found.refusal, refusal, "type {unknown} in {kind:?}");
        }
    }
}

/// [CDP-SYN-5] [CDP-SEC-1] An MSS below 512 or an INTEGRITY above 1.
#[test]
fn an_impossible_offer_is_refused() {
    let refusal = |kind: u8, value: &[u8]| tlvs(Kind::Syn, &[(kind, value)]).unwrap().refusal;
    assert_eq!(refusal(registry::MSS, &511_u16.to_be_bytes()), Some((Reason::OPTION, 3)));
    assert_eq!(refusal(registry::MSS, &512_u16.to_be_bytes()), None);
    for value in 2..=255 {
        assert_eq!(refusal(registry::INTEGRITY, &[value]), Some((Reason::OPTION, 5)));
    }
    assert_eq!((refusal(registry::INTEGRITY, &[0]), refusal(registry::INTEGRITY, &[1])), (None, None));
}

/// [CDP-SYN-8] [CDP-SYN-12] Values beyond their limits are read as the rules say.
#[test]
fn values_are_brought_into_their_limits() {
    let one = |kind: u8, value: &[u8]| tlvs(Kind::Syn, &[(kind, value)]).unwrap();
    assert_eq!(one(registry::WSCALE, &[15]).wscale, Some(14));
    assert_eq!(one(registry::WSCALE, &[14]).wscale, Some(14));
    assert_eq!(one(registry::MSS, &[0xFF, 0xFF]).mss, Some(65_507));
    assert_eq!(one(registry::MESSAGE, &[0xFF; 4]).message, Some((1 << 31) - 1));
    assert_eq!(one(registry::KEEPALIVE, &[0, 10, 0, 19]).keepalive, None);
    assert_eq!(one(registry::KEEPALIVE, &[0, 0, 1, 44]).keepalive, None);
    assert_eq!(one(registry::KEEPALIVE, &[0; 4]).keepalive, None);
    let sound = KeepAlive { interval_s: 10, expiry_s: 20 };
    assert_eq!(one(registry::KEEPALIVE, &[0, 10, 0, 20]).keepalive, Some(sound));
    let nodes = one(registry::IOSET, &[0, 0, 0, 0, 0, 9, 0xFF, 0xFF, 0xFF]).ioset.unwrap();
    assert_eq!(nodes.iter().map(|node| node.get()).collect::<Vec<_>>(), [9]);
    assert_eq!(one(registry::IOSET, &[0; 6]).ioset, None);
}

/// [CDP-TLV-10] Every order of the same TLVs means the same, also of several that are to be refused.
#[test]
fn order_means_nothing() {
    let open: [(u8, &[u8]); 6] = [
        (registry::INTEGRITY, &[9]),
        (registry::MSS, &[0, 1]),
        (99, &[1]),
        (77, &[]),
        (0x8A, &[1, 2, 3]),
        (registry::KEEPALIVE, &[0, 60, 1, 44]),
    ];
    let wanted = tlvs(Kind::Syn, &open).unwrap();
    assert_eq!(wanted.refusal, Some((Reason::OPTION, 77)));
    let mut tried = 0;
    permute(&mut open.to_vec(), 0, &mut |list| {
        assert_eq!(tlvs(Kind::Syn, list).as_ref(), Some(&wanted), "{list:?}");
        tried += 1;
    });
    assert_eq!(tried, 720);
}

type List<'a> = Vec<(u8, &'a [u8])>;

fn permute<'a>(list: &mut List<'a>, from: usize, visit: &mut impl FnMut(&List<'a>)) {
    if from == list.len() {
        return visit(list);
    }
    for i in from..list.len() {
        list.swap(from, i);
        permute(list, from + 1, visit);
        list.swap(from, i);
    }
}

#[test]
fn grease_types_are_those_of_the_reserved_form() {
    let grease: Vec<u8> = (0..=255).filter(|kind| registry::is_grease(*kind)).collect();
    assert_eq!(grease, [0x8A, 0x9A, 0xAA, 0xBA, 0xCA, 0xDA, 0xEA, 0xFA]);
    assert!(grease.iter().all(|kind| registry::name(*kind).is_none()));
    assert!(KNOWN.iter().all(|(kind, _)| registry::name(*kind).is_some()));
}
