//! Two nodes on different networks, with real I/O nodes between them.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod stopwatch;
#[cfg(test)]
mod two_networks;

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use stopwatch::{Stopwatch, judge};
use two_networks::{at, default_of, exchange, id, io_node, node, side};
use weft_socket::{Address, ConnectError, Node, Options, Port, RecvError};

/// Longest time any wait may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than a busy machine stands still.
const GIVE_UP: Duration = Duration::from_secs(5);

/// The networks have one set of addresses, and so room for one test at a time.
static NETWORKS: Mutex<()> = Mutex::new(());

/// Goes on with `step` until the default of the host is as `is_wanted` says. Where threads wait long for their turn, one that
/// is well may be left once more: what counts is that it comes to that.
#[cfg(test)]
fn until_default(host: &Node, is_wanted: impl Fn(usize) -> bool, mut step: impl FnMut()) {
    let begin = Instant::now();
    while !is_wanted(default_of(host)) {
        assert!(begin.elapsed() < PATIENCE, "{:?}", side(host));
        step();
    }
}

/// Messages go on, without an error and in order, when the I/O node that carries them is gone, and return to it when it is
/// back. Without any I/O node there is an end in good time.
#[test]
fn a_connection_outlives_the_io_node_that_carries_it() {
    let _alone = NETWORKS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut io_nodes: Vec<_> = [11, 12].map(|number| Some(io_node(number))).into();
    let (host, compute) = (node(1), node(2));
    let listener = compute.listen(7, &Options::datagram()).unwrap();
    let echo = thread::spawn(move || {
        let mut users = Vec::new();
        while let Ok(peer) = listener.accept() {
            users.push(thread::spawn(move || {
                let mut message = [0; 64];
                while let Ok(len) = peer.recv(&mut message) {
                    if peer.send(&message[..len]).is_err() {
                        break;
                    }
                }
            }));
        }
        users.into_iter().for_each(|user| user.join().unwrap());
    });
    let there = Address { node: id(2), port: Port::ECHO };
    let socket = host.connect(there, &Options::datagram().give_up(GIVE_UP)).unwrap();
    socket.set_recv_timeout(Some(PATIENCE));
    let mut numbers = 0..;
    let mut exchange_some =
        |count: usize| numbers.by_ref().take(count).for_each(|number| exchange(&socket, number));
    exchange_some(100);

    let first = default_of(&host);
    drop(io_nodes[first].take());
    exchange_some(100);
    until_default(&host, |default| default != first, || exchange_some(1));
    let left = side(&host);
    assert!(left.io_nodes[first].is_demoted && left.switches >= 1, "{left:?}");

    io_nodes[first] = Some(io_node([11, 12][first]));
    until_default(&host, |default| default == first, || exchange_some(1));
    exchange_some(100);
    until_default(&host, |default| default == first, || exchange_some(1));

    // [CDP-IO-13] Its host says at once that it is gone, and the open goes through the other, unless that was left as well, as when
    // the machine stood still before.
    judge(|| {
        if io_nodes[first].is_none() {
            io_nodes[first] = Some(io_node([11, 12][first]));
            until_default(&host, |default| default == first, || exchange_some(1));
        }
        until_default(&host, |_| !side(&host).io_nodes[1 - first].is_demoted, || exchange_some(1));
        drop(io_nodes[first].take());
        let watch = Stopwatch::start();
        let rto_init = Duration::from_secs(3);
        host.connect(there, &Options::datagram().rto_init(rto_init)).unwrap();
        let took = watch.ran();
        until_default(&host, |default| default != first, || exchange_some(1));
        if took < rto_init / 2 { Ok(()) } else { Err(format!("no RTO_INIT: {took:?}")) }
    });

    io_nodes.clear();
    let options = Options::datagram().connect_timeout(Duration::from_millis(300));
    let failed = host.connect(there, &options).unwrap_err();
    assert!(matches!(failed, ConnectError::TimedOut { .. }), "{failed:?}");

    // [CDP-TMR-3] the time-out tells when the peer was last heard and through which path
    let _ = socket.send(b"into the void"); // it may have ended already
    let RecvError::Ended(ended) = socket.recv(&mut [0; 8]).unwrap_err() else { panic!("it ended") };
    let path = ended.last_path.unwrap();
    assert!(ended.silent_for.unwrap() >= GIVE_UP / 2, "{ended}");
    assert!(
        [path.sent_through, path.heard_through].iter().all(|by| [Some(id(11)), Some(id(12))].contains(by))
    );
    assert_eq!(path.to.ip(), at(1, path.sent_through.unwrap().get()));
    assert!(ended.to_string().contains(" through I/O node 0x00000"), "{ended}");
    socket.abort();
    compute.shutdown(Duration::ZERO);
    echo.join().unwrap();
}

/// [CDP-IO-6] A default that is well again is used again although no connection has anything to do; and when none is left
/// to be probed nothing is sent any more.
#[test]
fn a_default_comes_back_to_idle_connections() {
    let _alone = NETWORKS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut io_nodes: Vec<_> = [11, 12].map(|number| Some(io_node(number))).into();
    let (host, compute) = (node(1), node(2));
    let listener = compute.listen(7, &Options::datagram()).unwrap();
    let there = Address { node: id(2), port: Port::ECHO };
    let (socket, peer) = thread::scope(|scope| {
        let connected = scope.spawn(|| host.connect(there, &Options::datagram()).unwrap());
        let peer = listener.accept().unwrap();
        (connected.join().unwrap(), peer)
    });
    let first = default_of(&host);
    drop(io_nodes[first].take());
    let send_one = || {
        socket.send(b"a word").unwrap();
        assert_eq!(peer.recv(&mut [0; 8]).unwrap(), 6);
    };
    send_one();
    until_default(&host, |default| default != first, send_one);

    io_nodes[first] = Some(io_node([11, 12][first]));
    until_default(&host, |default| default == first, || thread::sleep(Duration::from_millis(20)));
    // An answer may still be on its way, and one that is well may be left once more.
    let packets = || side(&host).io_nodes.iter().map(|io_node| io_node.packets_sent).sum::<u64>();
    let (begin, watch) = (Instant::now(), Stopwatch::start());
    loop {
        let before = packets();
        watch.run_for(Duration::from_secs(1));
        if packets() == before && default_of(&host) == first {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "somebody is probed for ever: {:?}", side(&host));
    }
    socket.abort();
}
