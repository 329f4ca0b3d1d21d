//! What opens a connection, and what refuses it.

use super::*;

/// [CDP-ST-1] [CDP-ST-4] [CDP-ST-10] [CDP-ST-16] The three-way open.
#[test]
fn a_client_and_a_listener_open_in_three_packets() {
    let config = Config::new(Service::Stream, 1_444);
    let mut pair = Pair::new(&config, &config);
    pair.collect();
    assert_eq!(kinds(&pair.to_server), [Kind::Syn]);
    pair.settle();
    assert_eq!(events(&mut pair.client), [Event::Connected]);
    assert_eq!(events(pair.server()), [Event::Connected]);
    assert!(pair.client.agreed().sealed, "[CDP-SEAL-6] sealed by default");
}

/// [CDP-ST-3] [CDP-ST-13] Nobody listens: the connect is refused.
#[test]
fn a_refused_open_ends_at_once() {
    let config = Config::new(Service::Stream, 1_444);
    let mut pair = Pair::new(&config, &config);
    pair.collect();
    let syn = pair.to_server.remove(0);
    let reason = crate::refusal_of(&syn).unwrap();
    let mut head = Vec::new();
    assert!(weft_wire::emit::echo_reset(&mut head, &syn, reason, None));
    pair.client.handle_packet(pair.now, parse(head));
    assert_eq!(pair.client.error(), Some(Error::Refused(Reason::REFUSED)));
    assert!(pair.client.is_finished());
}

/// [CDP-SYN-6] Datagram meets stream: EPROTOTYPE.
#[test]
fn services_that_differ_are_refused() {
    let mut pair = Pair::new(&Config::new(Service::Stream, 1_444), &Config::new(Service::Datagram, 1_444));
    pair.settle();
    let error = pair.client.error().unwrap();
    assert_eq!((error, error.errno()), (Error::Refused(Reason::SERVICE), crate::Errno::PrototypeMismatch));
}

/// [CDP-ST-14] An open that nobody answers is repeated with a doubling time and given up after SYN_TIME.
#[test]
fn an_unanswered_open_times_out() {
    let config = Config::new(Service::Stream, 1_444);
    let mut pair = Pair::new(&config, &config);
    let begin = pair.now;
    pair.collect();
    let mut sent = pair.to_server.len();
    pair.to_server.clear();
    while pair.client.error().is_none() {
        pair.now = pair.client.poll_timeout().unwrap();
        pair.client.handle_timeout(pair.now);
        pair.collect();
        for syn in pair.to_server.drain(..) {
            assert!(syn.header().rtx, "[CDP-HDR-5]");
            sent += 1;
        }
    }
    assert_eq!(pair.client.error(), Some(Error::TimedOut(Waited::Open)));
    assert_eq!(pair.now - begin, config.syn_time);
    assert!((15..25).contains(&sent), "{sent} SYNs in 63 s");
}

/// [CDP-ST-11] [CDP-ST-18] [CDP-SYN-13] [CDP-KA-1] Two ends that open to each other at once.
#[test]
fn a_simultaneous_open_makes_one_connection() {
    let config = Config { coalesce: false, ..Config::new(Service::Datagram, 1_444) };
    let now = Instant::from_nanos(5);
    let secret = |iss| Secret { iss: Seq::new(iss), entropy: iss };
    let mut a = Connection::connect(now, flow(), &config, secret(10));
    let mut b = Connection::connect(now, flow().reversed(), &Config { coalesce: true, ..config }, secret(20));
    for _ in 0..10 {
        let (from_a, from_b) = (outputs(&mut a, now), outputs(&mut b, now));
        from_a.into_iter().for_each(|packet| b.handle_packet(now, packet));
        from_b.into_iter().for_each(|packet| a.handle_packet(now, packet));
    }
    assert_eq!((a.state(), b.state()), (State::Established, State::Established));
    assert_eq!(a.agreed().coalesce, b.agreed().coalesce);
    assert!(a.is_client() && b.is_client());
    a.send(b"hello").unwrap();
    outputs(&mut a, now).into_iter().for_each(|packet| b.handle_packet(now, packet));
    assert_eq!(read(&mut b), b"hello");
}

/// [CDP-ST-5] [CDP-ST-7] [CDP-CKE-1] [CDP-CKE-5] [CDP-CKE-6] [CDP-CKE-9] Above the threshold a cookie carries the state.
#[test]
fn a_cookie_opens_without_state() {
    let config = Config { embryos_max: 0, ..Config::new(Service::Datagram, 1_444) };
    let mut pair = Pair::new(&config, &config);
    pair.collect();
    let syn = pair.to_server.remove(0);
    pair.deliver_to_server(syn.clone());
    assert!(pair.server.is_none(), "nothing is kept");
    assert!(pair.to_client[0].bytes().len() <= syn.bytes().len(), "[CDP-SYN-4] [CDP-CKE-8]");
    let syn_ack = pair.to_client.remove(0);
    pair.client.handle_packet(pair.now, syn_ack);
    pair.client.send(b"after the cookie").unwrap();
    pair.collect();
    assert_eq!(kinds(&pair.to_server), [Kind::Ack], "only the echo until the server is heard");
    pair.to_server.clear();
    // the echo is lost and repeated (row 26)
    pair.now = pair.client.poll_timeout().unwrap();
    pair.client.handle_timeout(pair.now);
    pair.settle();
    assert_eq!(pair.server().state(), State::Established);
    assert_eq!(read(pair.server()), b"after the cookie");
}

/// [CDP-ST-26] A lost third packet is repaired by the client alone. [CDP-CKE-4] The server repeats nothing.
#[test]
fn a_lost_third_packet_is_repaired_by_a_pin() {
    let config = Config::new(Service::Stream, 1_444);
    let mut pair = Pair::new(&config, &config);
    pair.collect();
    let syn = pair.to_server.remove(0);
    pair.deliver_to_server(syn);
    pair.collect();
    let syn_ack = pair.to_client.remove(0);
    pair.client.handle_packet(pair.now, syn_ack);
    pair.collect();
    pair.to_server.clear();
    let server_due = pair.server().poll_timeout().unwrap();
    pair.now = pair.client.poll_timeout().unwrap();
    assert!(pair.now < server_due);
    pair.client.handle_timeout(pair.now);
    pair.collect();
    assert_eq!(kinds(&pair.to_server), [Kind::Pin]);
    pair.settle();
    assert_eq!(pair.server().state(), State::Established);
}

/// [CDP-ST-24] A SYN in a live connection is challenged and resets nothing.
#[test]
fn a_syn_in_a_live_connection_is_challenged() {
    let config = Config::new(Service::Stream, 1_444);
    let mut pair = Pair::new(&config, &config);
    pair.collect();
    let syn = pair.to_server[0].clone();
    pair.settle();
    let now = pair.now + MS * 20;
    pair.server().handle_packet(now, syn);
    assert_eq!(kinds(&outputs(pair.server(), now)), [Kind::Ack]);
    assert_eq!(pair.server().state(), State::Established);
}
