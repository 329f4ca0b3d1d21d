//! How long packets may be: probes, and a path that carries less (section 9, "Path MTU").

use std::time::Duration;

use weft_base::Service;
use weft_proto::Config;
use weft_wire::{Kind, Packet, Time, Tlvs};

use crate::peer::{Script, generous_stream, numbers, stream};

/// [CDP-MTU-2] [CDP-MTU-4] A lost probe of the path MTU is no congestion, and data keeps to the proved size.
#[test]
fn a_lost_probe_is_no_congestion() {
    let config = Config::new(Service::Stream, 8_944);
    let mut script = Script::server_to(&config, &Tlvs { mss: Some(8_944), ..generous_stream() });
    script.own.send(&[1; 120_000]).unwrap();
    let mut sent = script.take();
    let mut unanswered = sent.len();
    while unanswered > 0 {
        script.ack += numbers(&sent[sent.len() - unanswered..]).len() as u64;
        let more = script.say(Kind::Ack);
        unanswered = more.len();
        sent.extend(more);
    }
    let window = script.own.path_stats().congestion_window;
    sent.extend(script.pass(Duration::from_secs(30)));
    let sizes: Vec<_> = sent
        .iter()
        .filter(|p| p.kind() == Kind::Pin)
        .map(|p| p.bytes().len())
        .filter(|len| *len > 1_000)
        .collect();
    assert_eq!(sizes[..4], [8_972, 8_972, 8_972, 8_952], "three of each size: {sizes:?}");
    assert_eq!(script.own.path_stats().congestion_window, window);
    script.own.send(&[1; 9_000]).unwrap();
    assert!(script.take().iter().all(|packet| packet.payload_len() <= 1_472));
}

/// [CDP-MTU-5] Where nothing but large packets is sent, a short PIN asks whether small ones pass. After the fall larger sizes are
/// tried at once, and again ten minutes later; only an answer raises the size.
#[test]
fn a_short_pin_asks_where_large_packets_are_lost() {
    let mut script = stream();
    let pins = |packets: Vec<Packet>| packets.into_iter().filter(|packet| packet.kind() == Kind::Pin);
    let answer = |script: &mut Script, pin: &Packet| {
        let echoed = pin.tlvs().time.expect("a token").own;
        let tlvs = Tlvs { time: Some(Time { own: 0, echoed }), ..Tlvs::default() };
        let packet = script.control(&script.header(Kind::Ack), &tlvs);
        script.hear(packet);
    };
    script.own.send(&[1; 1_444]).unwrap();
    let sent = numbers(&script.take())[0];
    let mut questions = 0;
    while script.own.path_stats().mss == 1_444 {
        for pin in pins(script.next_timer()) {
            questions += 1;
            assert!(pin.bytes().len() < 100);
            answer(&mut script, &pin);
        }
        assert!(script.own.stats(script.now).timeouts <= 3);
    }
    assert_eq!((questions, script.own.path_stats().mss), (1, 1_024));
    script.ack = sent + 1;
    script.say(Kind::Ack);
    let sizes = |packets| pins(packets).map(|pin| pin.bytes().len() - 28).collect::<Vec<_>>();
    let probes = [[1_444; 3], [1_424; 3], [1_364; 3], [1_204; 3]].concat();
    assert_eq!(sizes(script.pass(Duration::from_secs(200))), probes);
    for _ in 0..2 {
        script.say(Kind::Ack);
        assert_eq!(sizes(script.pass(Duration::from_secs(190))), []);
    }
    script.say(Kind::Ack);
    let probe = loop {
        if let Some(pin) = pins(script.next_timer()).next() {
            break pin;
        }
    };
    answer(&mut script, &probe);
    assert_eq!(script.own.path_stats().mss, 1_444);
}
