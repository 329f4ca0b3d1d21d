//! What is emitted is parsed as the same values, whatever they are.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use weft_base::{Address, NodeId, Port, Seq};
use weft_wire::records::{Record, Records, record_head};
use weft_wire::{
    Emit, Encapsulation, FarSack, Grease, Header, KeepAlive, Kind, Packet, Reason, Sack, Time, Tlvs, emit,
};

fn fixed() -> ProptestConfig {
    ProptestConfig {
        cases: 1024,
        rng_seed: RngSeed::Fixed(64_064),
        failure_persistence: None,
        ..Default::default()
    }
}

fn address() -> impl Strategy<Value = Address> {
    (1..=NodeId::LAST, 1..=u16::MAX)
        .prop_map(|(node, port)| (NodeId::new(node), Port::new(port)))
        .prop_filter_map("0 is no node and no port", |(node, port)| {
            Some(Address { node: node?, port: port? })
        })
}

/// A header of `kind` as a sender may make it.
fn header(kind: Kind) -> impl Strategy<Value = Header> {
    let ends = (address(), address()).prop_filter("an end does not talk to itself", |(a, b)| a != b);
    (ends, any::<[bool; 4]>(), 0..4_u8, any::<(u16, u64, u32)>()).prop_map(
        move |(ends, bits, hop, numbers)| Header {
            kind,
            eom: bits[0] && kind.may_end_message(),
            ece: bits[1] && kind.may_echo_congestion(),
            rtx: bits[2],
            ce: bits[3],
            hop,
            destination: ends.0,
            source: ends.1,
            length: 0,
            window: numbers.0,
            seq: Seq::new(numbers.1),
            ack: if kind == Kind::Syn { 0 } else { numbers.2 },
        },
    )
}

fn control() -> impl Strategy<Value = Kind> {
    prop::sample::select(Kind::ALL.into_iter().filter(|kind| kind.has_tlvs()).collect::<Vec<_>>())
}

fn keepalive() -> impl Strategy<Value = KeepAlive> {
    (1..=u16::MAX / 2, 0..=u16::MAX)
        .prop_map(|(interval_s, expiry_s)| KeepAlive { interval_s, expiry_s: expiry_s.max(2 * interval_s) })
}

fn offers() -> impl Strategy<Value = Tlvs> {
    let versions = option::of(vec(any::<u8>(), 1..=16).prop_map(|bytes| bytes.into_iter().collect()));
    let ioset = option::of(
        vec(1..=NodeId::LAST, 1..=16).prop_map(|nodes| nodes.into_iter().filter_map(NodeId::new).collect()),
    );
    let critical = (versions, option::of(512..=65_507_u16), option::of(1..=2_u8), any::<Option<bool>>());
    let ignorable = (
        option::of(0..=14_u8),
        any::<[bool; 3]>(),
        option::of(0..1_u32 << 31),
        option::of(keepalive()),
        ioset,
    );
    (critical, ignorable).prop_map(|((versions, mss, service_code, integrity), ignorable)| {
        let (wscale, [sack_ok, coalesce, confirm], message, keepalive, ioset) = ignorable;
        Tlvs {
            versions,
            mss,
            service_code,
            integrity,
            wscale,
            sack_ok,
            coalesce,
            message,
            keepalive,
            confirm,
            ioset,
            ..Tlvs::default()
        }
    })
}

fn feedback() -> impl Strategy<Value = Tlvs> {
    let cookie = option::of(vec(any::<u8>(), 1..=48).prop_map(|bytes| bytes.into_iter().collect()));
    let sack = option::of(vec(0..512_u32, 0..40).prop_map(Sack::from_held));
    let time = option::of(any::<(u32, u32)>().prop_map(|(own, echoed)| Time { own, echoed }));
    let far_sack = option::of((any::<u32>(), vec(any::<u64>(), 1..=31)));
    let far_sack = far_sack.prop_map(|piece| piece.map(|(offset, words)| FarSack::new(offset, words)));
    let reason =
        option::of((0..=19_u16, any::<Option<u16>>()).prop_map(|(code, detail)| (Reason(code), detail)));
    (cookie, sack, far_sack, time, any::<Option<u32>>(), reason, any::<Option<u32>>()).prop_map(
        |(cookie, sack, far_sack, time, ce_count, reason, discarded)| Tlvs {
            cookie,
            // a bitmap without a bit travels as eight bytes
            sack: sack.filter(|sack| !sack.is_empty()),
            far_sack,
            time,
            ce_count,
            reason,
            discarded,
            ..Tlvs::default()
        },
    )
}

/// Leaves only what section 3.1 allows in `header`'s flag set.
fn legal(header: &Header, offers: Tlvs, feedback: Tlvs) -> Tlvs {
    let none = Tlvs::default();
    let acknowledges = matches!(header.kind, Kind::Ack | Kind::Pin);
    let says_why = matches!(header.kind, Kind::Fin | Kind::Reset | Kind::EchoReset);
    let returns_cookie = header.kind == Kind::SynAck || (header.kind == Kind::Ack && !header.ece);
    let opening = match header.kind {
        Kind::Syn | Kind::SynAck => offers,
        Kind::EchoReset => Tlvs { versions: offers.versions, ..none },
        Kind::Ack | Kind::Data | Kind::Fin | Kind::Pin | Kind::Reset => none,
    };
    Tlvs {
        cookie: feedback.cookie.filter(|_| returns_cookie),
        sack: feedback.sack.filter(|_| acknowledges),
        far_sack: feedback.far_sack.filter(|_| acknowledges),
        time: feedback.time.filter(|_| acknowledges),
        ce_count: feedback.ce_count.filter(|_| acknowledges),
        reason: feedback.reason.filter(|_| says_why),
        discarded: feedback.discarded.filter(|_| acknowledges || says_why),
        ..opening
    }
}

fn received(bytes: Vec<u8>) -> Packet {
    Packet::new_checked(Bytes::from(bytes), Encapsulation::Udp).expect("what was emitted is legal")
}

proptest! {
    #![proptest_config(fixed())]

    /// [CDP-HDR-1] A header says after parsing what it said before emitting.
    #[test]
    fn a_header_survives(
        header in prop::sample::select(Kind::ALL.to_vec()).prop_flat_map(header), length: u16,
    ) {
        let header = Header { length, ..header };
        prop_assert_eq!(header.emit().len(), header.buffer_len());
        prop_assert_eq!(Header::parse(&header.emit()), Ok(header));
    }

    /// [CDP-SEAL-2] [CDP-SEAL-3] [CDP-SEAL-5] [CDP-FLG-2] [CDP-HDR-6] Data survives, sealed or not, a retransmission or
    /// not, and so does its number.
    #[test]
    fn data_survives(header in header(Kind::Data), body in vec(any::<u8>(), 0..1500), sealed: bool) {
        let mut bytes = b"a packet before".to_vec();
        let start = bytes.len();
        bytes.extend_from_slice(&emit::data_head(&header, &body, sealed));
        prop_assert_eq!(bytes.len(), start + 28);
        bytes.extend_from_slice(&body);
        let packet = received(bytes.split_off(start));
        let parsed = Header { seq: packet.seq(sealed), length: 0, ..*packet.header() };
        prop_assert_eq!(parsed, header);
        prop_assert_eq!(packet.payload(), Bytes::from(body));
    }

    /// [CDP-TLV-1] [CDP-TLV-2] [CDP-TLV-7] [CDP-TLV-9] [CDP-SYN-1] [CDP-SYN-3] [CDP-SEAL-4] [CDP-HDR-6] Control packets survive,
    /// with all their TLVs, padded or not, with a TLV that nobody knows or not.
    #[test]
    fn control_survives(
        header in control().prop_flat_map(header), offers in offers(), feedback in feedback(), sealed: bool,
        pad_to in prop_oneof![Just(0), 0..2000_u16], grease: Option<u64>,
    ) {
        let tlvs = legal(&header, offers, feedback);
        let grease = grease.map(Grease::random);
        let mut bytes = Vec::new();
        emit::emit_control(&mut bytes, &header, &tlvs, &Emit { sealed, pad_to, grease, max_len: None });
        prop_assert!(bytes.len() >= usize::from(pad_to));
        let packet = received(bytes);
        let parsed = Header { seq: packet.seq(sealed), length: 0, ..*packet.header() };
        prop_assert_eq!(parsed, header);
        let refusal = packet.tlvs().refusal;
        prop_assert_eq!(packet.tlvs(), tlvs);
        prop_assert_eq!(refusal, None);
    }

    /// [CDP-SYN-4] A SYN|ACK is never longer than its SYN, keeps what is critical, and drops the last offers first.
    #[test]
    fn an_answer_is_no_longer_than_its_syn(
        header in header(Kind::SynAck), offers in offers(), cookie in vec(any::<u8>(), 48), max_len in 128..240_u16,
    ) {
        let tlvs = Tlvs { versions: None, cookie: Some(cookie.into_iter().collect()), ..offers };
        let options = Emit { grease: Some(Grease::random(0)), max_len: Some(max_len), ..Emit::default() };
        let mut bytes = Vec::new();
        emit::emit_control(&mut bytes, &header, &tlvs, &options);
        prop_assert!(bytes.len() <= usize::from(max_len));
        let kept = received(bytes).tlvs();
        prop_assert_eq!((kept.mss, kept.service_code, kept.integrity), (tlvs.mss, tlvs.service_code, tlvs.integrity));
        prop_assert_eq!(&kept.cookie, &tlvs.cookie);
        prop_assert!(kept.ioset.is_none() || kept.message == tlvs.message, "IOSET is left out before MESSAGE");
        prop_assert!(kept.message.is_none() || kept.wscale == tlvs.wscale, "MESSAGE is left out before WSCALE");
    }

    /// [CDP-SEAL-1] [CDP-SEAL-3] A bit that flips in a sealed packet is seen: it is refused, or its number is another.
    #[test]
    fn damage_is_seen(header in header(Kind::Data), body in vec(any::<u8>(), 0..100), at: prop::sample::Index) {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&emit::data_head(&header, &body, true));
        bytes.extend_from_slice(&body);
        let bit = at.index(bytes.len() * 8);
        bytes[bit / 8] ^= 0x80 >> (bit % 8);
        let outside = (5..8).contains(&bit);
        if let Ok(packet) = Packet::new_checked(Bytes::from(bytes), Encapsulation::Udp) {
            prop_assert_eq!(packet.seq(true) == header.seq, outside, "bit {}", bit);
        }
    }

    /// [CDP-COA-1] [CDP-COA-2] [CDP-COA-3] A list of records comes back as it was put in.
    #[test]
    fn records_survive(messages in vec(vec(any::<u8>(), 0..200), 1..20), last_goes_on: bool) {
        let mut segment = Vec::new();
        let mut expected = Vec::new();
        for (i, message) in messages.iter().enumerate() {
            let more = last_goes_on && i + 1 == messages.len() && !message.is_empty();
            segment.extend_from_slice(&record_head(more, message.len()).unwrap());
            segment.extend_from_slice(message);
            expected.push(Record { more, range: segment.len() - message.len()..segment.len() });
        }
        let records = Records::new_checked(&segment, true).unwrap();
        prop_assert_eq!(records.collect::<Vec<_>>(), expected);
    }

    /// [CDP-CHK-1] Nothing that an underlay hands over makes the parser or its getters panic.
    #[test]
    fn any_bytes_are_judged(
        bytes in vec(any::<u8>(), 0..300), flags in prop::sample::select(vec![2_u8, 0x12, 0x10, 0x18, 4]),
    ) {
        let mut bytes = bytes;
        if bytes.len() >= 28 {
            let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
            bytes[0] = 0x10;
            bytes[4] = flags;
            bytes[12..14].copy_from_slice(&length);
        }
        if let Ok(packet) = Packet::new_checked(Bytes::from(bytes), Encapsulation::Udp) {
            let _ = (packet.tlvs(), packet.payload(), packet.checksum(), packet.seq(true), packet.echoed_seq(true));
        }
    }
}
