//! The third packet of an open, where the user goes on at once (row 10).

use super::*;

const MICROSECOND: Duration = Duration::from_micros(1);

/// A client whose user waits, up to the SYN|ACK.
fn opened(config: &Config) -> Pair {
    let mut pair = Pair::new(config, config);
    pair.client.join_third();
    pair.collect();
    pair.now += MICROSECOND * 30;
    std::mem::take(&mut pair.to_server).into_iter().for_each(|syn| pair.deliver_to_server(syn));
    pair.collect();
    for packet in std::mem::take(&mut pair.to_client) {
        pair.client.handle_packet(pair.now, packet);
    }
    pair
}

fn config() -> Config {
    Config::new(Service::Datagram, 1_444)
}

/// [CDP-ST-10] [CDP-ST-16] It is the first thing that the user says, or his close.
#[test]
fn what_is_said_at_once_ends_the_open() {
    let mut pair = opened(&config());
    assert_eq!(events(&mut pair.client), [Event::Connected]);
    assert!(pair.client.owes_third() && outputs(&mut pair.client, pair.now).is_empty());
    pair.client.send(b"question").unwrap();
    pair.collect();
    assert_eq!(kinds(&pair.to_server), [Kind::Data]);
    assert!(!pair.client.owes_third());
    pair.settle();
    assert_eq!((pair.server().state(), read(pair.server())), (State::Established, b"question".to_vec()));
    assert_eq!(pair.server().path_stats().srtt, None, "it might have waited");
    pair.run(MS * 100, false);
    let sent = pair.client.stats(pair.now);
    assert_eq!((sent.packets_sent, sent.pins_sent), (2, 0));

    let mut pair = opened(&config());
    pair.client.close(pair.now);
    pair.collect();
    assert_eq!(kinds(&pair.to_server), [Kind::Fin]);
    pair.settle();
    assert_eq!(pair.client.state(), State::Quiet);
    assert!(pair.client.close_result().is_some_and(|result| result.confirmed));
}

/// [CDP-ST-26] Whose user says nothing within ACK_DELAY asks for an answer, so that nothing is taken for a round trip.
#[test]
fn who_says_nothing_for_long_is_known_to_be_late() {
    let mut pair = opened(&config());
    pair.run(MS - MICROSECOND, false);
    assert_eq!(pair.server().state(), State::SynReceived);
    pair.run(MICROSECOND * 2, false);
    assert_eq!(pair.server().state(), State::Established);
    assert_eq!((pair.client.stats(pair.now).pins_sent, pair.server().path_stats().srtt), (1, None));
    pair.run(MS * 900, false);
    assert_eq!(pair.client.stats(pair.now).pins_sent, 1);
}

/// Who then waits for the peer confirms the open first: soon by a plain ACK, later by what the peer does not measure.
#[test]
fn who_waits_confirms_the_open() {
    for (thinks, kind) in [(MICROSECOND * 20, Kind::Ack), (MICROSECOND * 500, Kind::Pin)] {
        let mut pair = opened(&config());
        pair.now += thinks;
        pair.client.confirm_open(pair.now);
        pair.client.confirm_open(pair.now);
        pair.collect();
        assert_eq!(kinds(&pair.to_server), [kind]);
        pair.settle();
        assert_eq!(pair.server().state(), State::Established);
        let rtt = pair.server().path_stats().srtt;
        assert_eq!(rtt.is_some(), kind == Kind::Ack, "{rtt:?}");
        pair.client.confirm_open(pair.now);
        assert!(outputs(&mut pair.client, pair.now).is_empty());
    }
}

/// It is repeated as ever, from when it left: a long way is no reason to ask.
#[test]
fn what_has_left_is_not_asked_for_before_the_time() {
    let mut pair = opened(&config());
    pair.client.send(b"lost").unwrap();
    pair.collect();
    pair.to_server.clear();
    let rto = pair.client.path_stats().rto;
    pair.run(MS + rto - MICROSECOND, true);
    assert_eq!(pair.client.stats(pair.now).pins_sent, 0);
    pair.run(MS * 400, false);
    assert_eq!((pair.server().state(), read(pair.server())), (State::Established, b"lost".to_vec()));
}

/// [CDP-CKE-9] A cookie is echoed at once, and a SYN that was sent twice has waited enough.
#[test]
fn a_cookie_waits_for_nobody() {
    let mut pair = opened(&Config { embryos_max: 0, ..config() });
    pair.collect();
    assert_eq!(kinds(&pair.to_server), [Kind::Ack]);
    assert!(pair.to_server[0].tlvs().cookie.is_some());

    let mut pair = Pair::new(&config(), &config());
    pair.client.join_third();
    pair.collect();
    pair.to_server.clear();
    pair.run(MS * 260, false);
    assert!(!pair.client.owes_third());
    assert_eq!(pair.client.stats(pair.now).packets_sent, 3, "SYN, SYN and ACK");
    assert_eq!(pair.server().state(), State::Established);
}
