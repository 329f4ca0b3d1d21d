//! Two nodes on different networks, with real I/O nodes between them.

#[cfg(test)]
mod two_networks;

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use two_networks::{default_of, exchange, id, io_node, node, side};
use weft_socket::{Address, ConnectError, Options, Port, RecvError};

/// Longest time any wait may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The networks have one set of addresses, and so room for one test at a time.
static NETWORKS: Mutex<()> = Mutex::new(());

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
    let give_up = Duration::from_secs(2);
    let socket = host.connect(there, &Options::datagram().give_up(give_up)).unwrap();
    socket.set_recv_timeout(Some(PATIENCE));
    let mut numbers = 0..;
    let mut exchange_some =
        |count: usize| numbers.by_ref().take(count).for_each(|number| exchange(&socket, number));
    exchange_some(100);

    let first = default_of(&host);
    drop(io_nodes[first].take());
    exchange_some(100);
    assert_ne!(default_of(&host), first);
    let left = side(&host);
    assert!(left.io_nodes[first].is_demoted && left.switches >= 1, "{left:?}");

    io_nodes[first] = Some(io_node([11, 12][first]));
    let deadline = Instant::now() + PATIENCE;
    while default_of(&host) != first {
        assert!(Instant::now() < deadline, "{:?}", side(&host));
        exchange_some(1);
    }
    // where threads wait long for their turn, one that is well may be left once more
    loop {
        exchange_some(100);
        if default_of(&host) == first && !side(&host).io_nodes[first].is_demoted {
            break;
        }
        assert!(Instant::now() < deadline, "{:?}", side(&host));
    }

    // [CDP-IO-13] Its host says at once that it is gone, and the open goes through the other.
    drop(io_nodes[first].take());
    let begin = Instant::now();
    let rto_init = Duration::from_secs(3);
    host.connect(there, &Options::datagram().rto_init(rto_init)).unwrap();
    assert!(begin.elapsed() < rto_init / 2, "no RTO_INIT: {:?}", begin.elapsed());
    assert_ne!(default_of(&host), first);

    io_nodes.clear();
    let options = Options::datagram().connect_timeout(Duration::from_millis(300));
    let failed = host.connect(there, &options).unwrap_err();
    assert!(matches!(failed, ConnectError::TimedOut { .. }), "{failed:?}");

    // [CDP-TMR-3] the time-out tells when the peer was last heard and through which path
    let _ = socket.send(b"into the void"); // it may have ended already
    let RecvError::Ended(ended) = socket.recv(&mut [0; 8]).unwrap_err() else { panic!("it ended") };
    let path = ended.last_path.unwrap();
    assert!(ended.silent_for.unwrap() >= give_up / 2, "{ended}");
    assert!(
        [path.sent_through, path.heard_through].iter().all(|by| [Some(id(11)), Some(id(12))].contains(by))
    );
    assert_eq!(path.to.ip().to_string(), format!("127.61.1.{}", path.sent_through.unwrap().get()));
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
    for message in 0..u8::MAX {
        socket.send(&[message]).unwrap();
        assert_eq!(peer.recv(&mut [0; 8]).unwrap(), 1);
        if default_of(&host) != first {
            break;
        }
    }
    assert_ne!(default_of(&host), first);

    io_nodes[first] = Some(io_node([11, 12][first]));
    let deadline = Instant::now() + PATIENCE;
    while default_of(&host) != first {
        assert!(Instant::now() < deadline, "{:?}", side(&host));
        thread::sleep(Duration::from_millis(20));
    }
    // an answer may still be on its way
    thread::sleep(Duration::from_millis(200));
    let packets = || side(&host).io_nodes.iter().map(|io_node| io_node.packets_sent).sum::<u64>();
    let before = packets();
    thread::sleep(Duration::from_millis(300));
    assert_eq!(packets(), before, "nobody is left to be probed: {:?}", side(&host));
    socket.abort();
}
