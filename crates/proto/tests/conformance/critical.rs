//! Packets with a TLV that is critical and unknown, in every state ([CDP-TLV-5], [CDP-TLV-6]).

use weft_proto::{Config, Connection, Error, Listener, Secret, State, Verdict};
use weft_wire::{Header, Kind, Packet, Reason, Tlvs};

use crate::peer::{OWN_ISS, PEER_ISS, Script, datagrams, flow, generous, kinds, parse, syn};

/// Type 99, one byte, and a pad.
const CRITICAL: [u8; 4] = [99, 1, 7, 0];

/// The packet with that TLV behind its own; of a kind that is not sealed.
fn with_critical(packet: &Packet) -> Packet {
    let mut bytes = packet.bytes().to_vec();
    bytes.extend_from_slice(&CRITICAL);
    let length = u16::try_from(bytes.len()).expect("a short packet");
    bytes[..28].copy_from_slice(&Header { length, ..*packet.header() }.emit());
    if packet.kind() == Kind::SynAck {
        // Its first TLV is the CRC over all, with the mutable bits and itself zero.
        let value = 30..34;
        bytes[value.clone()].fill(0);
        let first = std::mem::replace(&mut bytes[0], packet.bytes()[0] & 0xF8);
        let crc = weft_crc::crc32c(&bytes);
        bytes[0] = first;
        bytes[value].copy_from_slice(&crc.to_be_bytes());
    }
    parse(bytes)
}

/// The echo-form RST with number `seq`, and with the TLV.
fn echo(seq: weft_base::Seq, window: u16) -> Packet {
    let mut header = Header::new(Kind::EchoReset, flow().reversed());
    (header.seq, header.window) = (seq, window);
    header.length = 28;
    with_critical(&parse(header.emit().to_vec()))
}

/// The high half of the number that an end with this one is behind.
fn high(number: weft_base::Seq) -> u16 {
    u16::try_from(number.low32() >> 16).expect("half of 32 bits")
}

#[test]
fn a_reset_is_dropped() {
    let mut script = Script::server(&datagrams());
    let reset = script.raw(Kind::Reset, &CRITICAL);
    assert_eq!(script.hear(reset), []);
    let refused = echo(OWN_ISS, high(PEER_ISS + 1));
    assert_eq!(script.hear(refused), []);
    assert_eq!(script.own.state(), State::Established);
    script.say(Kind::Reset);
    assert_eq!(script.own.error(), Some(Error::Reset(Reason::NONE)), "without it, it counts");
}

#[test]
fn the_refusal_of_a_syn_is_dropped() {
    let mut script = Script::opening(&datagrams());
    assert_eq!(script.hear(echo(OWN_ISS, 0)), []);
    assert_eq!(script.own.state(), State::SynSent);
}

#[test]
fn an_embryo_is_neither_opened_nor_reset() {
    let mut script = Script::embryo(&datagrams(), &generous());
    for kind in [Kind::Ack, Kind::Pin, Kind::Fin, Kind::Reset] {
        let packet = script.raw(kind, &CRITICAL);
        assert_eq!(script.hear(packet), []);
        assert_eq!(script.own.state(), State::SynReceived, "{kind:?}");
    }
    script.hear(echo(OWN_ISS, high(PEER_ISS + 1)));
    assert_eq!(script.own.state(), State::SynReceived);
    script.say(Kind::Ack);
    assert_eq!(script.own.state(), State::Established);
}

/// The answer to our half of a simultaneous open is refused as any other SYN|ACK.
#[test]
fn the_answer_to_a_simultaneous_open_is_refused() {
    let mut script = Script::opening(&datagrams());
    script.hear(syn(&generous()));
    assert_eq!(script.own.state(), State::SynReceived);
    let answer = with_critical(&script.syn_ack(&generous()));
    let refusal = script.hear(answer);
    assert_eq!(kinds(&refusal), [Kind::EchoReset]);
    assert_eq!(refusal[0].tlvs().reason, Some((Reason::OPTION, Some(99))));
    assert_eq!(script.own.error(), Some(Error::Refused(Reason::OPTION)));
}

#[test]
fn the_echo_of_a_cookie_makes_no_connection() {
    let config = Config { embryos_max: 0, ..datagrams() };
    let mut script = Script::opening(&config);
    let mut listener = Listener::new(script.now, &config, [1; 32]);
    let secret = || Secret { iss: OWN_ISS, entropy: 3 };
    let mut head = Vec::new();
    listener.handle_packet(script.now, &syn(&generous()), secret(), &mut head);
    let syn_ack = parse(head);
    (script.seq, script.ack) = (PEER_ISS + 1, syn_ack.seq(false) + 1);
    let cookie = syn_ack.tlvs().cookie.unwrap();
    let mut tlvs = vec![6, u8::try_from(cookie.len()).unwrap()];
    tlvs.extend_from_slice(&cookie);
    tlvs.resize(tlvs.len().next_multiple_of(4), 0);
    let plain = script.control(&script.header(Kind::Ack), &Tlvs { cookie: Some(cookie), ..Tlvs::default() });
    assert_eq!(plain.bytes()[28], tlvs[0], "the type of a COOKIE");
    tlvs.extend_from_slice(&CRITICAL);
    let critical = script.raw(Kind::Ack, &tlvs);
    let judge = |listener: &mut Listener, packet| {
        listener.handle_packet(script.now, packet, secret(), &mut Vec::new())
    };
    assert!(matches!(judge(&mut listener, &critical), Verdict::Drop));
    let verdict = judge(&mut listener, &plain);
    let Verdict::Established(own) = verdict else { panic!("{verdict:?}") };
    assert_eq!(Connection::state(&own), State::Established);
}
