//! The test vectors of section 19, byte for byte, read from the specification itself.

#[cfg(test)]
mod block;

use block::{Block, Vector, hex};
use bytes::Bytes;
use weft_base::Seq;
use weft_wire::ack::{Acknowledgement, rebuild};
use weft_wire::records::Records;
use weft_wire::tlv::{RawTlvs, registry};
use weft_wire::{
    Emit, Encapsulation, FarSack, Grease, HEADER_LEN, Kind, Packet, Reason, Refused, Sack, emit,
};

/// What a line of the block may ask for; a key that is not here would pass untested.
const KEYS: [&str; 22] = [
    "sealed",
    "flags",
    "seq",
    "ack",
    "tlvs",
    "data",
    "ce",
    "hop",
    "link",
    "rtx",
    "sack",
    "far",
    "records",
    "reason",
    "discarded",
    "window",
    "echoes",
    "from",
    "rcvnxt",
    "una",
    "nxt",
    "full",
];

fn encapsulation(vector: &Vector) -> Encapsulation {
    match vector.get("link") {
        None => Encapsulation::Udp,
        Some("ethernet") => Encapsulation::Ethernet,
        Some(link) => panic!("{} wants a link {link}", vector.name),
    }
}

fn packet(block: &Block, vector: &Vector) -> Packet {
    let bytes = Bytes::from(block.bytes(vector));
    Packet::new_checked(bytes, encapsulation(vector))
        .unwrap_or_else(|refused| panic!("{} was refused: {refused:?}", vector.name))
}

fn is_sealed(vector: &Vector) -> bool {
    vector.get("sealed") == Some("1")
}

fn verdict_is(verdict: &str) -> impl Fn(&&Vector) -> bool {
    move |vector| vector.verdict == verdict
}

#[test]
fn every_line_is_of_a_kind_that_is_tested() {
    let block = Block::read();
    let count = |prefix: char| block.vectors.iter().filter(|vector| vector.name.starts_with(prefix)).count();
    assert_eq!((count('V'), count('X'), count('A')), (18, 18, 9));
    assert_eq!(block.vectors.len(), 18 + 18 + 9);
    for vector in &block.vectors {
        for key in vector.keys() {
            assert!(KEYS.contains(&key), "{} asks for {key}", vector.name);
        }
        let verdict = vector.verdict.split(':').next().unwrap();
        let known = ["accept", "drop", "answer", "refuse", "reset", "valid", "old", "false"];
        assert!(known.contains(&verdict), "{} wants {verdict}", vector.name);
    }
}

/// [CDP-HDR-1] [CDP-HDR-12] [CDP-HDR-14] [CDP-SEAL-1] [CDP-SEAL-2] [CDP-SEAL-3] [CDP-SEAL-4] [CDP-SEAL-5]
/// [CDP-HDR-10] [CDP-HDR-9] [CDP-TLV-1] [CDP-TLV-2] [CDP-SACK-1] [CDP-FWD-2] Legal packets say what they say.
#[test]
fn accepted_packets_are_decoded() {
    let block = Block::read();
    for vector in block.vectors.iter().filter(verdict_is("accept")) {
        let packet = packet(&block, vector);
        check_header(vector, &packet);
        check_tlvs(vector, &packet);
        if let Some(data) = vector.get("data") {
            assert_eq!(packet.payload(), hex(data), "{}", vector.name);
        }
        if let Some(records) = vector.get("records") {
            assert_eq!(records_text(&packet.payload()), records, "{}", vector.name);
        }
    }
}

fn check_header(vector: &Vector, packet: &Packet) {
    let (name, header) = (&vector.name, packet.header());
    assert_eq!(Some(packet.seq(is_sealed(vector)).get()), vector.hex("seq"), "{name}");
    let nodes = [header.destination.node.get(), header.source.node.get()];
    assert!(nodes == [0xABCD, 0x01_0203] || nodes == [0x01_0203, 0xABCD], "{name}");
    if let Some(flags) = vector.get("flags") {
        let mut names: Vec<&str> = flags.split('|').collect();
        names.sort_unstable();
        assert_eq!(flag_names(header.flags()), names, "{name}");
    }
    if let Some(ack) = vector.hex("ack") {
        assert_eq!(u64::from(header.ack), ack, "{name}");
    }
    if let Some(window) = vector.number("window") {
        assert_eq!(u32::from(header.window), window, "{name}");
    }
    assert_eq!(u32::from(header.ce), vector.number("ce").unwrap_or(0), "{name}");
    assert_eq!(u32::from(header.hop), vector.number("hop").unwrap_or(0), "{name}");
    assert_eq!(u32::from(header.rtx), vector.number("rtx").unwrap_or(0), "{name}");
}

fn flag_names(flags: u8) -> Vec<&'static str> {
    let names = ["FIN", "SYN", "RST", "DAT", "ACK", "PIN", "ECE", "EOM"];
    let mut set: Vec<_> = (0..8).filter(|i| flags & (1 << i) != 0).map(|i| names[i]).collect();
    set.sort_unstable();
    set
}

fn check_tlvs(vector: &Vector, packet: &Packet) {
    let (name, tlvs) = (&vector.name, packet.tlvs());
    let kinds: Vec<u32> = if packet.kind().has_tlvs() {
        RawTlvs::new(&packet.bytes()[HEADER_LEN..])
            .map(|tlv| u32::from(tlv.expect("no overrun").kind))
            .collect()
    } else {
        Vec::new()
    };
    if let Some(expected) = vector.list("tlvs") {
        assert_eq!(kinds, expected, "{name}");
    }
    if let Some(held) = vector.list("far") {
        let held: Vec<u64> = held.into_iter().map(u64::from).collect();
        let told = tlvs.far_sack.iter().flat_map(FarSack::held).map(|at| at + 1);
        assert_eq!(told.collect::<Vec<_>>(), held, "{name}");
    }
    if let Some(held) = vector.list("sack") {
        assert_eq!(
            tlvs.sack.iter().flat_map(Sack::runs).flatten().map(|bit| bit + 1).collect::<Vec<_>>(),
            held,
            "{name}"
        );
    }
    if let Some(reason) = vector.number("reason") {
        assert_eq!(tlvs.reason.map(|(reason, _)| u32::from(reason.0)), Some(reason), "{name}");
    }
    assert_eq!(tlvs.discarded, vector.number("discarded"), "{name}");
    assert_eq!((tlvs.refusal, tlvs.unknown_critical), (None, None), "{name}");
}

fn records_text(segment: &[u8]) -> String {
    let Ok(records) = Records::new_checked(segment, true) else {
        return "bad".to_owned();
    };
    let texts: Vec<String> = records
        .map(|record| {
            let bytes: String = segment[record.range].iter().map(|byte| format!("{byte:02x}")).collect();
            bytes + if record.more { "+" } else { "/" }
        })
        .collect();
    texts.join(",")
}

/// [CDP-HDR-1] [CDP-SEAL-2] [CDP-SEAL-4] [CDP-SEAL-7] [CDP-SYN-1] [CDP-SYN-3] [CDP-TLV-2] [CDP-TLV-9] [CDP-RST-2]
/// What was decoded is emitted as the same bytes.
#[test]
fn accepted_packets_are_emitted_again() {
    let block = Block::read();
    for vector in block.vectors.iter().filter(verdict_is("accept")) {
        let original = packet(&block, vector);
        let mut bytes = Vec::new();
        if let Some(trigger) = vector.get("echoes") {
            emit_echo(&block, block.find(trigger), &original, &mut bytes);
        } else {
            emit_again(&original, is_sealed(vector), &mut bytes);
        }
        assert_eq!(Bytes::from(bytes), original.bytes(), "{}", vector.name);
    }
}

fn emit_again(packet: &Packet, sealed: bool, bytes: &mut Vec<u8>) {
    let mut header = *packet.header();
    header.seq = packet.seq(sealed);
    if packet.kind() == Kind::Data {
        bytes.extend_from_slice(&emit::data_head(&header, &packet.payload(), sealed));
        bytes.extend_from_slice(&packet.payload());
        return;
    }
    let grease = RawTlvs::new(&packet.bytes()[HEADER_LEN..])
        .map(Result::unwrap)
        .find(|tlv| registry::is_grease(tlv.kind))
        .and_then(|tlv| Grease::new(tlv.kind, tlv.value));
    emit::emit_control(bytes, &header, &packet.tlvs(), &Emit { grease, ..Emit::sealed(sealed) });
}

fn emit_echo(block: &Block, trigger: &Vector, expected: &Packet, bytes: &mut Vec<u8>) {
    let frame = Bytes::from(block.bytes(trigger));
    let (reason, detail) = expected.tlvs().reason.unwrap_or_default();
    let answered = match Packet::new_checked(frame, encapsulation(trigger)) {
        Ok(packet) => emit::echo_reset(bytes, &packet, reason, detail),
        Err(Refused::Answer(_, trigger)) => emit::echo_reset(bytes, trigger, reason, detail),
        Err(refused) => panic!("{} was {refused:?}", trigger.name),
    };
    assert!(answered);
}

/// [CDP-CHK-1] [CDP-HDR-2] [CDP-HDR-4] [CDP-HDR-8] [CDP-HDR-11] [CDP-HDR-15] [CDP-FLG-1] [CDP-TLV-3] [CDP-TLV-4]
/// [CDP-SYN-2] [CDP-SYN-3] Illegal packets fail the check that the vector names.
#[test]
fn illegal_packets_are_dropped_for_the_named_reason() {
    let block = Block::read();
    let mut tested = 0;
    for vector in block.vectors.iter().filter(|vector| vector.verdict != "drop:far") {
        let Some(reason) = vector.verdict.strip_prefix("drop:") else { continue };
        let refused = Packet::new_checked(block.bytes(vector).into(), encapsulation(vector)).unwrap_err();
        assert!(
            matches!(refused, Refused::Drop(found) if found.name() == reason),
            "{} {refused:?}",
            vector.name
        );
        tested += 1;
    }
    assert_eq!(tested, 13);
}

/// [CDP-SEAL-3] [CDP-SEQ-8] A damaged packet shows as a number that is not current.
#[test]
fn a_damaged_packet_shows_as_a_far_number() {
    let block = Block::read();
    for vector in block.vectors.iter().filter(verdict_is("drop:far")) {
        let number = packet(&block, vector).seq(is_sealed(vector));
        let expected = Seq::new(vector.hex("rcvnxt").unwrap());
        let far = number.distance_from(expected).min(expected.distance_from(number));
        assert!(far > 1 << 31, "{}: {number:?}", vector.name);
    }
}

/// [CDP-HDR-4] [CDP-HDR-3] Another version is answered by an echo-form RST that fits its trigger.
#[test]
fn another_version_is_answered() {
    let block = Block::read();
    let vector = block.vectors.iter().find(verdict_is("answer:version")).unwrap();
    let refused = Packet::new_checked(block.bytes(vector).into(), Encapsulation::Udp).unwrap_err();
    let Refused::Answer(reason, trigger) = refused else { panic!("{refused:?}") };
    assert_eq!(reason.name(), "version");
    let mut bytes = Vec::new();
    assert!(emit::echo_reset(&mut bytes, trigger, Reason::VERSION, None));
    assert_eq!(bytes, block.bytes(block.find("V16")));
}

/// [CDP-TLV-5] An unknown critical TLV in a SYN is refused with its type as detail.
#[test]
fn a_syn_with_an_unknown_critical_type_is_to_be_refused() {
    let block = Block::read();
    let vector = block.vectors.iter().find(verdict_is("refuse:option")).unwrap();
    let packet = packet(&block, vector);
    assert_eq!(packet.tlvs().refusal, Some((Reason::OPTION, 99)));
    let mut bytes = Vec::new();
    assert!(emit::echo_reset(&mut bytes, &packet, Reason::OPTION, Some(99)));
    let answer = Packet::new_checked(bytes.into(), Encapsulation::Udp).unwrap();
    assert_eq!(answer.tlvs().reason, Some((Reason::OPTION, Some(99))));
}

/// [CDP-COA-5] A list of records that breaks the rules ends the connection.
#[test]
fn a_malformed_list_of_records_is_a_violation() {
    let block = Block::read();
    let broken: Vec<_> = block.vectors.iter().filter(verdict_is("reset:protocol")).collect();
    assert_eq!(broken.len(), 2);
    for vector in broken {
        let packet = packet(&block, vector);
        assert_eq!(packet.seq(is_sealed(vector)).get(), vector.hex("seq").unwrap());
        assert_eq!(records_text(&packet.payload()), vector.get("records").unwrap());
    }
}

/// [CDP-ACK-2] [CDP-ACK-3] [CDP-ACK-4] [CDP-ACK-5] Acknowledgements are rebuilt from the low half.
#[test]
fn acknowledgements_are_rebuilt() {
    let block = Block::read();
    for vector in block.vectors.iter().filter(|vector| vector.name.starts_with('A')) {
        let seq = |key| Seq::new(vector.hex(key).unwrap());
        let expected = match vector.verdict.as_str() {
            "valid" => Acknowledgement::Valid(seq("full")),
            "old" => Acknowledgement::Old,
            "false" => Acknowledgement::False,
            other => panic!("{other}"),
        };
        let low = u32::try_from(vector.hex("ack").unwrap()).unwrap();
        assert_eq!(rebuild(seq("una"), seq("nxt"), low), expected, "{}", vector.name);
    }
}
