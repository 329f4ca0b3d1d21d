//! A peer that cannot be reached, or that is not there: when this end learns of it, and what it is told.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use common::{PATIENCE, Pair, loopback, node, on, pattern, read_exactly};
use weft_socket::link::{Endpoint, Fault, Faults, Hub};
use weft_socket::{ConnectError, EndReason, Ended, Node, Options, RecvError, Socket, errno};

const EXPIRY: Duration = Duration::from_secs(2);
const GIVE_UP: Duration = Duration::from_millis(1_500);

#[cfg(test)]
fn options() -> Options {
    Options::stream().keepalive(EXPIRY / 2, EXPIRY).give_up(GIVE_UP).close_timeout(EXPIRY)
}

/// A pair whose client hangs on a cable that can be cut.
#[cfg(test)]
fn on_a_cable() -> (Pair, Arc<Fault<Endpoint>>) {
    let hub = Hub::new(1_500);
    let cable = Arc::new(Fault::new(hub.endpoint().unwrap(), 1, Faults::NONE, Faults::NONE).unwrap());
    let client = Node::builder().link(cable.clone()).linger(Duration::ZERO).open().unwrap();
    let server = on(Node::builder().linger(Duration::ZERO), hub.endpoint().unwrap());
    let pair = Pair::between(server, client, &options());
    pair.connected.send(b"a word").unwrap();
    assert_eq!(pair.accepted.recv(&mut [0; 16]), Ok(6));
    while pair.connected.stats().in_flight > 0 {
        thread::sleep(Duration::from_millis(1));
    }
    (pair, cable)
}

#[cfg(test)]
fn faults(loses: bool) -> Faults {
    if loses { "loss=100%".parse().unwrap() } else { Faults::NONE }
}

/// How a socket ends that only waits, and after how long.
#[cfg(test)]
fn end_of(socket: &Socket) -> (Ended, Duration) {
    let begin = Instant::now();
    loop {
        match socket.recv(&mut [0; 4_096]) {
            Ok(_) => {}
            Err(RecvError::Ended(ended)) => return (ended, begin.elapsed()),
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[cfg(test)]
fn is_near(time: Duration, wanted: Duration) -> bool {
    (wanted * 4 / 5..=wanted * 6 / 5 + Duration::from_millis(600)).contains(&time)
}

/// [CDP-KA-3] [CDP-KA-4] A network that fails in both directions or in one ends both ends within their time, and no half of a
/// connection stays. [CDP-TMR-3] The error tells how long the peer had not been heard, also to who asks later.
#[test]
fn an_idle_connection_ends_in_its_time_whichever_direction_fails() {
    for (there, back) in [(true, true), (true, false), (false, true)] {
        let (pair, cable) = on_a_cable();
        cable.set(faults(there), faults(back));
        let (client, server) = thread::scope(|scope| {
            let server = scope.spawn(|| end_of(&pair.accepted));
            (end_of(&pair.connected), server.join().unwrap())
        });
        for (end, (ended, after)) in [("client", client), ("server", server)] {
            // A client asks after half the expiry. Where one direction works, who ends first tells the other.
            let is_in_time = is_near(after, EXPIRY) || is_near(after, EXPIRY * 3 / 2);
            assert!(is_in_time, "{end}, {there} {back}: {ended:?} after {after:?}");
            assert_eq!((ended.reason, ended.reason.errno()), (EndReason::Idle, errno::ETIMEDOUT), "{end}");
        }
        thread::sleep(Duration::from_millis(300));
        for (socket, told) in [(&pair.connected, client.0), (&pair.accepted, server.0)] {
            assert_eq!(end_of(socket).0, told, "the same whenever it is asked");
        }
        let told = [client.0.silent_for, server.0.silent_for];
        assert!(told.iter().flatten().any(|silence| *silence >= EXPIRY * 4 / 5), "{told:?}");
        assert_eq!((pair.client.stats().promised_bytes, pair.server.stats().promised_bytes), (0, 0));
        assert!(pair.client.stats().connections.is_empty() && pair.server.stats().connections.is_empty());
    }
}

/// [CDP-TMR-2] [CDP-ST-32] Data that nobody acknowledges ends the connection when it was told to give up.
#[test]
fn data_is_given_up_in_its_time() {
    let (pair, cable) = on_a_cable();
    cable.set(faults(true), faults(true));
    pair.connected.send(&pattern(100_000, 1)).unwrap();
    let (ended, after) = end_of(&pair.connected);
    assert_eq!(ended.reason, EndReason::GaveUp);
    assert!(is_near(after, GIVE_UP), "{after:?}");
    assert!(ended.silent_for.is_some_and(|silence| silence >= GIVE_UP * 4 / 5), "{ended}");
    let to = pair.server.underlay();
    assert_eq!(ended.last_path.map(|path| (path.to, path.sent_through)), Some((to, None)));
    assert!(ended.to_string().contains("last heard"), "{ended}");
    assert!(ended.to_string().contains(&format!("last sent to {to})")), "{ended}");
}

/// A cable that is cut for less than that, and healed, has done nothing but delay.
#[test]
fn what_heals_in_time_loses_nothing() {
    for (there, back) in [(true, true), (true, false), (false, true)] {
        let (pair, cable) = on_a_cable();
        let data = pattern(300_000, 7);
        let received = thread::scope(|scope| {
            let reader = scope.spawn(|| read_exactly(&pair.accepted, data.len()));
            cable.set(faults(there), faults(back));
            pair.connected.send(&data).unwrap();
            thread::sleep(EXPIRY * 2 / 5);
            cable.set(Faults::NONE, Faults::NONE);
            reader.join().unwrap()
        });
        assert!(received == data, "{there} {back}");
    }
}

/// [CDP-ENC-11] Where no process has the UDP port, the host says so, and the connect fails at once.
#[test]
fn a_port_that_nobody_has_refuses_at_once() {
    let gone = {
        let udp = std::net::UdpSocket::bind(loopback()).unwrap();
        udp.local_addr().unwrap()
    };
    let client = node();
    let begin = Instant::now();
    let port = weft_socket::Port::ECHO;
    let refused = client.connect((gone, port), &Options::stream()).unwrap_err();
    assert!(matches!(refused, ConnectError::Absent(_)), "{refused:?}");
    assert_eq!(refused.errno(), errno::ECONNREFUSED);
    assert!(begin.elapsed() < PATIENCE / 10, "{:?}", begin.elapsed());
    assert!(client.stats().connections.is_empty());
}

/// Other connections of a node do not notice that one peer has gone.
#[test]
fn a_dead_peer_is_nobody_elses_matter() {
    let (server, client) = (node(), node());
    let listener = server.listen(0, &Options::stream()).unwrap();
    let target = (server.underlay(), listener.local_address().port);
    let socket = client.connect(target, &Options::stream()).unwrap();
    let accepted = listener.accept_timeout(PATIENCE).unwrap();
    let gone = std::net::UdpSocket::bind(loopback()).unwrap().local_addr().unwrap();
    let data = pattern(3_000_000, 5);
    let received = thread::scope(|scope| {
        let reader = scope.spawn(|| read_exactly(&accepted, data.len()));
        let sender = scope.spawn(|| socket.send(&data));
        for _ in 0..200 {
            assert!(client.connect((gone, weft_socket::Port::ECHO), &Options::stream()).is_err());
        }
        sender.join().unwrap().unwrap();
        reader.join().unwrap()
    });
    assert!(received == data);
}
