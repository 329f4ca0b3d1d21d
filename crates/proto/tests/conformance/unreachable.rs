//! The peer's host says that nobody has the peer's UDP port.

use std::time::Duration;

use weft_base::{Seq, Service};
use weft_proto::{Config, Errno, Error, Event, State};
use weft_wire::{Header, Kind, Packet, Reason};

use super::peer::{MS, OWN_ISS, Script, flow, generous, kinds};

fn datagrams() -> Config {
    Config { probe_mtu: false, ..Config::new(Service::Datagram, 1_444) }
}

/// The head of a packet of the connection, as a message quotes it: the upper half of its number is sealed.
fn head(kind: Kind, seq: Seq) -> Header {
    let mut header = Header::new(kind, flow());
    header.seq = seq;
    header
}

fn sealed(seq: Seq) -> Seq {
    Seq::new(seq.get() ^ (0xDEAD_BEEF << 32))
}

/// [CDP-ENC-10] Only the SYN itself, all 64 bits of its number. [CDP-ENC-11] It refuses the open.
#[test]
fn an_open_is_refused_by_the_host() {
    let mut script = Script::opening(&datagrams());
    let stranger = Header { source: flow().remote, ..head(Kind::Syn, OWN_ISS) };
    for wrong in [head(Kind::Syn, sealed(OWN_ISS)), head(Kind::Data, OWN_ISS), stranger] {
        script.own.handle_unreachable(script.now, &wrong);
        assert_eq!(script.own.state(), State::SynSent, "{wrong:?}");
    }
    script.own.handle_unreachable(script.now, &head(Kind::Syn, OWN_ISS));
    assert_eq!(script.own.error(), Some(Error::Absent));
    assert_eq!(script.own.error().map(Error::errno), Some(Errno::ConnRefused));
    assert_eq!(script.take(), [], "nobody is there to be told");
}

/// [CDP-ENC-11] The SYN|ACK of an embryo likewise.
#[test]
fn an_embryo_goes_when_its_client_has() {
    let mut script = Script::embryo(&datagrams(), &generous());
    script.own.handle_unreachable(script.now, &head(Kind::SynAck, OWN_ISS));
    assert!(script.own.is_finished());
}

/// [CDP-ENC-12] A message is a question to the peer, who is asked again and again; [CDP-ENC-13] only one that comes when it
/// has said nothing for a second is believed. [CDP-RST-10]
#[test]
fn a_peer_that_stays_silent_is_given_up() {
    let mut script = Script::server(&datagrams());
    let next = sealed(script.ack);
    let tell = |script: &mut Script| {
        script.own.handle_unreachable(script.now, &head(Kind::Data, next));
        script.take()
    };
    assert_eq!(kinds(&tell(&mut script)), [Kind::Pin]);
    let asked = script.pass(MS * 990);
    assert!(asked.len() >= 3 && asked.iter().all(|packet| packet.kind() == Kind::Pin), "{asked:?}");
    assert_eq!((tell(&mut script), script.own.state()), (Vec::new(), State::Established));
    script.pass(MS * 10);
    let last = tell(&mut script);
    assert_eq!((kinds(&last), last[0].tlvs().reason.unwrap().0), (vec![Kind::Reset], Reason::GAVE_UP));
    assert_eq!(script.own.error(), Some(Error::Gone));
    assert!(std::iter::from_fn(|| script.own.poll_event()).any(|event| event == Event::Closed));
    assert_eq!(script.own.silence(script.now + Duration::from_secs(60)), script.own.silence(script.now));
}

/// [CDP-ENC-12] Whoever lives answers, and is not ended by any number of messages.
#[test]
fn a_peer_that_answers_is_believed() {
    let mut script = Script::server(&datagrams());
    for _ in 0..40 {
        script.own.handle_unreachable(script.now, &head(Kind::Pin, sealed(script.ack)));
        let asked = script.pass(MS * 100);
        assert!(asked.iter().any(|packet| packet.kind() == Kind::Pin));
        script.say(Kind::Ack);
        let later = script.pass(MS * 400);
        assert_eq!(later, [], "a server that has been answered asks no more");
    }
    assert_eq!(script.own.state(), State::Established);
}

/// [CDP-ENC-10] Numbers that were not sent, or were acknowledged long ago, mean nothing.
#[test]
fn a_message_about_other_numbers_is_ignored() {
    let mut script = Script::server(&datagrams());
    for wrong in [script.ack - 2, script.ack + 1, script.ack + (1 << 31)] {
        script.own.handle_unreachable(script.now, &head(Kind::Data, sealed(wrong)));
        assert_eq!(script.take(), [], "{wrong:?}");
    }
    script.own.handle_unreachable(script.now, &head(Kind::Data, sealed(script.ack - 1)));
    assert_eq!(kinds(&script.take()), [Kind::Pin], "it was acknowledged while the message travelled");
}

/// A message that no other follows is forgotten: who asks for ever would be a load.
#[test]
fn the_asking_ends() {
    let mut script = Script::client(&datagrams());
    script.own.handle_unreachable(script.now, &head(Kind::Ack, sealed(script.ack)));
    let asked = script.take().len() + script.pass(Duration::from_secs(4)).len();
    assert!((10..=13).contains(&asked), "{asked}");
    let later: Vec<Packet> = script.pass(Duration::from_secs(40));
    assert_eq!(later, []);
    assert_eq!(kinds(&script.pass(Duration::from_secs(30)))[..1], [Kind::Pin], "[CDP-KA-2]");
}

/// [CDP-ENC-13] In FIN_WAIT the result is "unconfirmed", which is no error. [CDP-KA-6] No PIN asks there.
#[test]
fn a_close_that_nobody_hears_is_unconfirmed() {
    let mut script = Script::server(&datagrams());
    script.own.close(script.now);
    let fin = script.take();
    assert_eq!(kinds(&fin), [Kind::Fin]);
    let quoted = head(Kind::Fin, fin[0].header().seq);
    script.own.handle_unreachable(script.now, &quoted);
    assert!(script.pass(MS * 1_100).iter().all(|packet| packet.kind() == Kind::Fin));
    script.own.handle_unreachable(script.now, &quoted);
    assert_eq!(kinds(&script.take()), [Kind::Reset]);
    let result = script.own.close_result().unwrap();
    assert_eq!((script.own.state(), script.own.error(), result.confirmed), (State::Closed, None, false));
}

/// [CDP-ENC-10] In other states the message is ignored: in CLOSE_WAIT what arrived stays to be read.
#[test]
fn who_has_closed_need_not_be_there() {
    let mut script = Script::server(&datagrams());
    script.send(true, b"kept");
    script.say(Kind::Fin);
    for _ in 0..2 {
        script.own.handle_unreachable(script.now, &head(Kind::Ack, sealed(script.ack)));
        assert_eq!(script.pass(MS * 1_500), []);
    }
    assert_eq!((script.own.state(), script.read().unwrap()), (State::CloseWait, b"kept".to_vec()));
}
