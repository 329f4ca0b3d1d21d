//! A peer that cannot be reached, or that is not there: when this end learns of it, and what it is told.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;
#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod stopwatch;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use common::{PATIENCE, Pair, node, on, pattern, read_exactly, refusing_port, wait_until};
use stopwatch::Stopwatch;
use weft_socket::link::{Endpoint, Fault, Faults, Hub};
use weft_socket::{ConnectError, EndReason, Ended, Node, Options, RecvError, Socket, errno};

/// Times that no standstill of a busy machine fills.
const PIN_INTERVAL: Duration = Duration::from_secs(1);
const EXPIRY: Duration = Duration::from_secs(5);
const GIVE_UP: Duration = Duration::from_secs(5);
/// What a machine that runs may add to them.
const SLACK: Duration = Duration::from_secs(1);

#[cfg(test)]
fn options() -> Options {
    Options::stream().keepalive(PIN_INTERVAL, EXPIRY).give_up(GIVE_UP)
}

/// A pair whose client hangs on a cable that can be cut.
#[cfg(test)]
fn on_a_cable(options: &Options) -> (Pair, Arc<Fault<Endpoint>>) {
    let hub = Hub::new(1_500);
    let cable = Arc::new(Fault::new(hub.endpoint().unwrap(), 1, Faults::NONE, Faults::NONE).unwrap());
    let client = Node::builder().link(cable.clone()).linger(Duration::ZERO).open().unwrap();
    let server = on(Node::builder().linger(Duration::ZERO), hub.endpoint().unwrap());
    let pair = Pair::between(server, client, options);
    pair.connected.send(b"a word").unwrap();
    assert_eq!(pair.accepted.recv(&mut [0; 16]), Ok(6));
    wait_until("all is acknowledged", || pair.connected.stats().in_flight == 0);
    (pair, cable)
}

#[cfg(test)]
fn faults(loses: bool) -> Faults {
    if loses { "loss=100%".parse().unwrap() } else { Faults::NONE }
}

/// How a socket ends that only waits.
#[cfg(test)]
fn end_of(socket: &Socket) -> Ended {
    loop {
        match socket.recv(&mut [0; 4_096]) {
            Ok(_) => {}
            Err(RecvError::Ended(ended)) => return ended,
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// [CDP-KA-3] [CDP-KA-4] A network that fails in both directions or in one ends both ends within their time, and no half of a
/// connection stays. [CDP-TMR-3] The error tells how long the peer had not been heard, also to who asks later.
#[test]
fn an_idle_connection_ends_in_its_time_whichever_direction_fails() {
    thread::scope(|scope| {
        for (there, back) in [(true, true), (true, false), (false, true)] {
            scope.spawn(move || ends_in_its_time(there, back));
        }
    });
}

#[cfg(test)]
fn ends_in_its_time(there: bool, back: bool) {
    let (pair, cable) = on_a_cable(&options());
    let watch = Stopwatch::start();
    cable.set(faults(there), faults(back));
    let end = |socket| (end_of(socket), watch.ran());
    let (client, server) = thread::scope(|scope| {
        let server = scope.spawn(|| end(&pair.accepted));
        (end(&pair.connected), server.join().unwrap())
    });
    // A client asks first. Where one direction works, who ends first tells the other.
    let most = (PIN_INTERVAL + EXPIRY) * 6 / 5 + SLACK;
    for (end, (ended, after)) in [("client", &client), ("server", &server)] {
        assert!(*after <= most, "{end}, {there} {back}: {ended:?} after {after:?}");
        assert_eq!((ended.reason, ended.reason.errno()), (EndReason::Idle, errno::ETIMEDOUT), "{end}");
    }
    let told = [client.0.silent_for, server.0.silent_for];
    assert!(told.iter().flatten().any(|silence| *silence >= EXPIRY * 4 / 5), "{told:?}");
    wait_until("nothing is left", || {
        [&pair.client, &pair.server].iter().all(|node| {
            let stats = node.stats();
            stats.connections.is_empty() && stats.promised_bytes == 0
        })
    });
    for (socket, told) in [(&pair.connected, client.0), (&pair.accepted, server.0)] {
        assert_eq!(end_of(socket), told, "the same whenever it is asked");
    }
}

/// [CDP-TMR-2] [CDP-ST-32] Data that nobody acknowledges ends the connection when it was told to give up.
#[test]
fn data_is_given_up_in_its_time() {
    let (pair, cable) = on_a_cable(&options().keepalive(Duration::from_secs(60), Duration::from_secs(300)));
    let watch = Stopwatch::start();
    cable.set(faults(true), faults(true));
    pair.connected.send(&pattern(100_000, 1)).unwrap();
    let ended = end_of(&pair.connected);
    let after = watch.ran();
    assert_eq!(ended.reason, EndReason::GaveUp);
    assert!(after <= GIVE_UP * 6 / 5 + SLACK, "{after:?}");
    assert!(ended.silent_for.is_some_and(|silence| silence >= GIVE_UP * 4 / 5), "{ended}");
    let to = pair.server.underlay();
    assert_eq!(ended.last_path.map(|path| (path.to, path.sent_through)), Some((to, None)));
    assert!(ended.to_string().contains("last heard"), "{ended}");
    assert!(ended.to_string().contains(&format!("last sent to {to})")), "{ended}");
}

/// A cable that is cut for less than that, and healed, has done nothing but delay.
#[test]
fn what_heals_in_time_loses_nothing() {
    let long = Duration::from_secs(300);
    let options = Options::stream().keepalive(PIN_INTERVAL, long).give_up(long);
    for (there, back) in [(true, true), (true, false), (false, true)] {
        let (pair, cable) = on_a_cable(&options);
        // No more than waits in the queue, whatever time-outs make of the window: the cable is healed after the send.
        let data = pattern(200_000, 7);
        let received = thread::scope(|scope| {
            let reader = scope.spawn(|| read_exactly(&pair.accepted, data.len()));
            cable.set(faults(there), faults(back));
            pair.connected.send(&data).unwrap();
            wait_until("time-outs", || pair.connected.stats().timeouts >= 3);
            cable.set(Faults::NONE, Faults::NONE);
            reader.join().unwrap()
        });
        assert!(received == data, "{there} {back}");
    }
}

/// [CDP-ENC-11] Where no process has the UDP port, the host says so, and the connect fails at once.
#[test]
fn a_port_that_nobody_has_refuses_at_once() {
    let (_held, gone) = refusing_port();
    let client = node();
    let watch = Stopwatch::start();
    let port = weft_socket::Port::ECHO;
    let refused = client.connect((gone, port), &Options::stream()).unwrap_err();
    assert!(matches!(refused, ConnectError::Absent(_)), "{refused:?}");
    assert_eq!(refused.errno(), errno::ECONNREFUSED);
    assert!(watch.ran() < Duration::from_secs(3), "{:?}", watch.ran());
    assert!(client.stats().connections.is_empty());
}

/// Where the system has no way, or permits none, nobody waits for an answer, and the local port is free again (decision 0057).
#[test]
fn where_no_packet_can_leave_a_connect_fails_at_once() {
    let (client, port) = (node(), weft_socket::Port::ECHO);
    let options = Options::stream().local_port(5_000);
    for at in ["255.255.255.255:9", "[2001:db8::1]:9"] {
        let target = (at.parse::<SocketAddr>().unwrap(), port);
        for _ in 0..2 {
            let watch = Stopwatch::start();
            let failed = client.connect(target, &options).unwrap_err();
            assert!(matches!(failed, ConnectError::NoWay { .. }), "{at}: {failed:?}");
            assert!(![0, errno::ETIMEDOUT].contains(&failed.errno()), "{at}");
            assert!(watch.ran() < Duration::from_secs(3), "{at}: {:?}", watch.ran());
        }
    }
    wait_until("nothing is left of them", || client.stats().connections.is_empty());
    // The same port leads elsewhere.
    let server = node();
    let listener = server.listen(0, &Options::stream()).unwrap();
    client.connect((server.underlay(), listener.local_address().port), &options).unwrap();
}

/// Other connections of a node do not notice that one peer has gone.
#[test]
fn a_dead_peer_is_nobody_elses_matter() {
    let (server, client) = (node(), node());
    let listener = server.listen(0, &Options::stream()).unwrap();
    let target = (server.underlay(), listener.local_address().port);
    let socket = client.connect(target, &Options::stream()).unwrap();
    let accepted = listener.accept_timeout(PATIENCE).unwrap();
    let (_held, gone) = refusing_port();
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
