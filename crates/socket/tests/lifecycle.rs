//! Opening, closing, failing: what each call says.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;
#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod stopwatch;

use std::cell::RefCell;
use std::thread;
use std::time::{Duration, Instant};

use common::{PATIENCE, Pair, loopback, node, on, pattern, wait_until};
use stopwatch::Stopwatch;
use weft_socket::link::Hub;
use weft_socket::{
    AcceptError, Address, CloseError, Coalescing, ConnectError, EndReason, ListenError, Node, NodeId,
    Options, Port, RecvError, SendError, Socket, Target, errno, stat,
};

fn port(number: u16) -> Port {
    Port::new(number).expect("not 0")
}

/// [CDP-ST-3] [CDP-ST-13] Nobody listens: the connect is refused at once.
#[test]
fn a_connect_to_nobody_is_refused() {
    let (server, client) = (node(), node());
    let refused = client.connect((server.underlay(), port(4711)), &Options::stream()).unwrap_err();
    assert!(matches!(refused, ConnectError::Refused { reason: EndReason::Refused, .. }), "{refused:?}");
    assert_eq!(refused.errno(), errno::ECONNREFUSED);
    assert!(server.stats().drops.iter().any(|drop| drop.name == "no connection"));
}

/// [CDP-SYN-6] A stream does not meet a datagram socket.
#[test]
fn services_must_meet() {
    let (server, client) = (node(), node());
    let listener = server.listen(0, &Options::datagram()).unwrap();
    let target = (server.underlay(), listener.local_address().port);
    let refused = client.connect(target, &Options::stream()).unwrap_err();
    assert!(matches!(refused, ConnectError::WrongService { .. }), "{refused:?}");
    assert_eq!(refused.errno(), errno::EPROTOTYPE);
}

/// [CDP-ST-14] No answer: ETIMEDOUT.
#[test]
fn a_connect_to_a_silent_place_times_out() {
    let client = node();
    let silent = std::net::UdpSocket::bind(loopback()).unwrap();
    let options = Options::stream().connect_timeout(Duration::from_millis(80));
    let begin = Instant::now();
    let failed = client.connect((silent.local_addr().unwrap(), port(7)), &options).unwrap_err();
    assert!(matches!(failed, ConnectError::TimedOut { .. }), "{failed:?}");
    assert!(begin.elapsed() >= Duration::from_millis(80));
    assert_eq!(client.stats().connections.len(), 0);
}

#[test]
fn a_node_without_a_known_address_has_no_route() {
    let client = node();
    let target = Target::from(Address { node: NodeId::new(77).unwrap(), port: port(7) });
    let failed = client.connect(target, &Options::stream()).unwrap_err();
    assert!(matches!(failed, ConnectError::NoRoute(_)), "{failed:?}");
    assert_eq!(failed.errno(), errno::EHOSTUNREACH);
}

/// [CDP-ST-2] listen() leads to LISTEN, once for a port.
#[test]
fn a_port_is_listened_on_once() {
    let server = node();
    let first = server.listen(4000, &Options::stream()).unwrap();
    let refused = server.listen(4000, &Options::stream()).unwrap_err();
    assert!(matches!(refused, ListenError::InUse(taken) if taken == port(4000)), "{refused:?}");
    drop(first);
    server.listen(4000, &Options::stream()).unwrap();
}

/// [CDP-HDR-16] An end does not talk to itself. [CDP-ADR-5] A local port that is taken is refused.
#[test]
fn a_local_port_must_be_free() {
    let pair = Pair::over_udp(&Options::stream());
    let target = (pair.server.underlay(), pair.listener.local_address().port);
    let taken = Options::stream().local_port(pair.connected.local_address().port.get());
    assert!(matches!(pair.client.connect(target, &taken), Err(ConnectError::InUse(_))));
    let own = pair.client.address(port(5000));
    pair.client.add_peer(own.node, pair.client.underlay());
    let same = Options::stream().local_port(5000);
    assert!(matches!(pair.client.connect(own, &same), Err(ConnectError::ToItself(_))));
}

/// [CDP-ST-35] [CDP-ST-E] Everything was read, both ends know.
#[test]
fn a_clean_close_is_confirmed_at_both_ends() {
    let pair = Pair::over_udp(&Options::stream());
    pair.connected.send(b"last words").unwrap();
    let closer = pair.connected.clone();
    let closing = thread::spawn(move || closer.close_timeout(PATIENCE).unwrap());
    let mut buffer = [0; 64];
    assert_eq!(pair.accepted.recv(&mut buffer).unwrap(), 10);
    assert_eq!(pair.accepted.recv(&mut buffer).unwrap(), 0);
    let theirs = closing.join().unwrap();
    let ours = pair.accepted.close_timeout(PATIENCE).unwrap();
    assert!(theirs.is_clean() && ours.is_clean(), "{theirs:?} {ours:?}");
    assert_eq!(ours.reason, EndReason::Done);
    assert_eq!(pair.connected.send(b"more"), Err(SendError::Closed));
}

/// [CDP-ST-28] [CDP-ST-D] What the closing end did not read is counted and told.
#[test]
fn unread_data_is_told_as_discarded() {
    let pair = Pair::over_udp(&Options::datagram());
    for _ in 0..3 {
        pair.connected.send(&[1; 900]).unwrap();
    }
    wait_until("all is acknowledged", || pair.connected.stats().bytes_acked >= 2_700);
    let ours = pair.accepted.close_timeout(PATIENCE).unwrap();
    assert!(ours.confirmed && ours.discarded_here > 0, "{ours:?}");
    let theirs = pair.connected.close_timeout(PATIENCE).unwrap();
    assert_eq!(theirs.discarded_by_peer, ours.discarded_here);
    assert!(!theirs.is_clean());
}

/// [CDP-ST-F] With CONFIRM a close waits until the peer's user has read everything.
#[test]
fn a_confirmed_close_waits_for_the_reader() {
    let pair = Pair::over_udp(&Options::stream().confirm(true));
    pair.connected.send(b"read me").unwrap();
    let early = pair.connected.close_timeout(Duration::from_millis(60)).unwrap_err();
    assert_eq!(early, CloseError::TimedOut(Duration::from_millis(60)));
    assert_eq!(pair.accepted.recv(&mut [0; 64]).unwrap(), 7);
    assert!(pair.connected.close_timeout(PATIENCE).unwrap().confirmed);
}

/// [CDP-ST-27] [CDP-ERR-2] A reset drops what was to be sent; what had arrived stays readable, then comes the error.
#[test]
fn an_abort_is_seen_after_the_data() {
    let pair = Pair::over_udp(&Options::stream());
    pair.connected.send(b"before").unwrap();
    wait_until("all is acknowledged", || pair.connected.stats().bytes_acked >= 6);
    pair.connected.abort();
    let mut buffer = [0; 64];
    assert_eq!(pair.accepted.recv(&mut buffer).unwrap(), 6);
    let error = pair.accepted.recv(&mut buffer).unwrap_err();
    let RecvError::Ended(ended) = error else { panic!("{error:?}") };
    assert_eq!((ended.reason, error.errno()), (EndReason::Aborted, errno::ECONNRESET));
}

/// [CDP-ST-H] A node that goes down in order closes its connections by FIN.
#[test]
fn a_node_that_ends_closes_its_connections() {
    let Pair { server, client, listener, accepted, connected } = Pair::over_udp(&Options::stream());
    accepted.send(b"bye").unwrap();
    drop((server, listener, accepted));
    let mut buffer = [0; 8];
    assert_eq!(connected.recv(&mut buffer).unwrap(), 3);
    assert_eq!(connected.recv(&mut buffer).unwrap(), 0);
    drop(client);
}

/// [CDP-ST-H] What cannot be closed in time is reset, with REASON 4.
#[test]
fn a_node_that_must_end_resets_what_is_left() {
    let pair = Pair::over_udp(&Options::stream().confirm(true));
    pair.connected.send(b"never read").unwrap();
    assert_eq!(pair.client.shutdown(Duration::from_millis(50)), 1);
    let refused = pair.client.connect((pair.server.underlay(), port(9)), &Options::stream()).unwrap_err();
    assert_eq!(refused.errno(), errno::ENETDOWN);
    assert!(pair.client.listen(0, &Options::stream()).is_err());
}

/// [CDP-ST-33] [CDP-KA-5] A peer that is gone without a word is noticed by keep-alive.
#[test]
fn a_vanished_peer_is_noticed() {
    let hub = Hub::new(1_500);
    let (near, far) = (hub.endpoint().unwrap(), hub.endpoint().unwrap());
    let faults = weft_socket::link::Faults::NONE;
    let cut = std::sync::Arc::new(weft_socket::link::Fault::new(near, 1, faults, faults).unwrap());
    let client = Node::builder().link(cut.clone()).linger(Duration::ZERO).open().unwrap();
    let server = on(Node::builder().linger(Duration::ZERO), far);
    let options = Options::stream().keepalive(Duration::from_secs(1), Duration::from_secs(2));
    let pair = Pair::between(server, client, &options);
    let gone: weft_socket::link::Faults = "loss=100%".parse().unwrap();
    cut.set(gone, gone);
    let error = pair.accepted.recv(&mut [0; 8]).unwrap_err();
    let RecvError::Ended(ended) = error else { panic!("{error:?}") };
    assert_eq!((ended.reason, error.errno()), (EndReason::Idle, errno::ETIMEDOUT));
    assert!(ended.silent_for.is_some_and(|silence| silence >= Duration::from_secs(2)));
}

#[test]
fn non_blocking_calls_return_at_once() {
    let pair = Pair::over_udp(&Options::stream().send_bytes(200_000));
    for socket in [&pair.connected, &pair.accepted] {
        socket.set_nonblocking(true);
    }
    pair.listener.set_nonblocking(true);
    assert_eq!(pair.listener.accept().unwrap_err(), AcceptError::WouldBlock);
    assert_eq!(pair.accepted.recv(&mut [0; 8]), Err(RecvError::WouldBlock));
    let data = pattern(100_000, 1);
    let mut sent = 0;
    let full = loop {
        match pair.connected.send(&data) {
            Ok(len) => sent += len,
            Err(error) => break error,
        }
        assert!(sent < 1_000_000_000, "the queue never fills");
    };
    assert_eq!(full, SendError::WouldBlock);
    assert!(sent >= 200_000);
}

#[test]
fn time_outs_are_kept() {
    let pair = Pair::over_udp(&Options::stream());
    let limit = Duration::from_millis(30);
    pair.accepted.set_recv_timeout(Some(limit));
    let begin = Instant::now();
    assert_eq!(pair.accepted.recv(&mut [0; 8]), Err(RecvError::TimedOut(limit)));
    assert!(begin.elapsed() >= limit && begin.elapsed() < PATIENCE);
    assert_eq!(pair.listener.accept_timeout(limit).unwrap_err(), AcceptError::TimedOut(limit));
}

/// [CDP-ST-9] Connections that nobody accepted are reset; a blocked accept returns.
#[test]
fn a_listener_that_closes_resets_who_waits() {
    let (server, client) = (node(), node());
    let listener = server.listen(0, &Options::stream()).unwrap();
    let target = (server.underlay(), listener.local_address().port);
    let socket = client.connect(target, &Options::stream()).unwrap();
    socket.set_recv_timeout(Some(PATIENCE));
    socket.send(b"hello").unwrap();
    wait_until("it waits to be accepted", || server.stats().listeners[0].waiting > 0);
    listener.close();
    assert!(matches!(listener.accept(), Err(AcceptError::Closed)));
    let error = socket.recv(&mut [0; 8]).unwrap_err();
    assert_eq!(error.errno(), errno::ECONNRESET);
}

#[test]
fn a_closed_listener_ends_a_blocked_accept() {
    let server = node();
    let listener = server.listen(0, &Options::stream()).unwrap();
    thread::scope(|scope| {
        let blocked = scope.spawn(|| listener.accept());
        thread::sleep(Duration::from_millis(30));
        listener.close();
        assert_eq!(blocked.join().unwrap().unwrap_err(), AcceptError::Closed);
    });
}

/// [CDP-ST-6] [CDP-LIM-4] The accept queue is bounded; those beyond it are not lost, they wait.
#[test]
fn a_full_accept_queue_lets_the_rest_wait() {
    let (server, client) = (node(), node());
    let options = Options::stream().accept_limit(2).rto_init(Duration::from_millis(20));
    let listener = server.listen(0, &options).unwrap();
    let target = (server.underlay(), listener.local_address().port);
    let mut sockets: Vec<_> = (0..2).map(|_| client.connect(target, &options).unwrap()).collect();
    wait_until("both are in the queue", || server.stats().listeners[0].waiting == 2);
    sockets.extend((0..4).map(|_| client.connect_start(target, &options).unwrap()));
    let is_full = || server.stats().drops.iter().any(|drop| drop.name == "accept queue full");
    wait_until("it is counted", is_full);
    for _ in 0..6 {
        drop(listener.accept_timeout(PATIENCE).unwrap());
    }
    for socket in sockets {
        socket.connect_finish().unwrap();
    }
}

/// [CDP-ST-5] [CDP-CKE-1] Above the threshold of embryos the server keeps no state, and connections open all the same.
#[test]
fn more_connects_than_embryos_open_by_cookies() {
    const COUNT: usize = 400;
    let (server, client) = (node(), node());
    let options = Options::stream().accept_limit(1_000).receive_slots(16);
    let listener = server.listen(0, &options).unwrap();
    let target = (server.underlay(), listener.local_address().port);
    let sockets: Vec<_> = (0..COUNT).map(|_| client.connect_start(target, &options).unwrap()).collect();
    for socket in &sockets {
        socket.connect_finish().unwrap();
    }
    for _ in 0..COUNT {
        listener.accept_timeout(PATIENCE).unwrap();
    }
}

/// [CDP-LIM-13] Beyond the budget connections are refused, and what goes gives its memory back.
#[test]
fn the_memory_budget_is_kept() {
    let server = node();
    let client = Node::builder().bind(loopback()).memory_bytes(3_000_000).open().unwrap();
    let listener = server.listen(0, &Options::stream()).unwrap();
    let target = (server.underlay(), listener.local_address().port);
    let mut sockets = Vec::new();
    let refused = loop {
        match client.connect(target, &Options::stream()) {
            Ok(socket) => sockets.push(socket),
            Err(error) => break error,
        }
        assert!(sockets.len() < 1_000, "the budget is not kept");
    };
    assert_eq!(refused.errno(), errno::ENOBUFS);
    assert!(client.stats().promised_bytes <= 3_000_000);
    for socket in sockets {
        socket.abort();
    }
    assert_eq!(client.stats().promised_bytes, 0);
    client.connect(target, &Options::stream()).unwrap();
}

/// [CDP-LIM-13] The windows of accepted connections become smaller as the budget is spent; then connects are refused.
#[test]
fn accepted_connections_share_the_memory_budget() {
    let hub = Hub::new(1_500);
    let memory = 22_000_000;
    let server = on(Node::builder().memory_bytes(memory), hub.endpoint().unwrap());
    let client = on(Node::builder(), hub.endpoint().unwrap());
    let listener = server.listen(0, &Options::stream().receive_slots(100)).unwrap();
    let target = (server.underlay(), listener.local_address().port);
    let (mut sockets, mut windows) = (Vec::new(), Vec::new());
    let refused = loop {
        match client.connect(target, &Options::stream()) {
            Ok(socket) => {
                windows.push(socket.stats().send_window);
                sockets.push((socket, listener.accept_timeout(PATIENCE).unwrap()));
            }
            Err(error) => break error,
        }
        assert!(sockets.len() < 2_000, "the budget is not kept");
    };
    // Each gets a share of what is left, and no less than 16 slots.
    assert!(windows.is_sorted_by(|before, after| before >= after), "{windows:?}");
    assert!(windows[0] > 20 && windows.last() == Some(&16), "{windows:?}");
    // A quarter is left to messages of several packets.
    assert!(server.stats().promised_bytes <= memory / 4 * 3);
    assert!(matches!(refused, ConnectError::Refused { reason: EndReason::NoRoom, .. }), "{refused:?}");
    assert_eq!(refused.errno(), errno::ECONNREFUSED);
    // What goes makes room for others.
    sockets.truncate(sockets.len() / 2);
    wait_until("memory is free", || server.stats().promised_bytes <= memory / 2);
    client.connect(target, &Options::stream()).unwrap();
}

/// [CDP-LIM-13] [CDP-WND-2] What messages of several packets take beyond the window counts as well, as it comes; where there is no memory for one, its connection
/// ends with that reason at both ends, and what others have sent stays.
#[test]
fn long_messages_count_against_the_memory_budget() {
    const LEN: usize = 8 << 20;
    let memory = 16_000_000;
    let server = Node::builder().bind(loopback()).memory_bytes(memory).open().unwrap();
    let client = node();
    let options = Options::datagram().receive_slots(20).send_bytes(2 * LEN);
    let listener = server.listen(0, &options).unwrap();
    let target = (server.underlay(), listener.local_address().port);
    let pair = || (client.connect(target, &options).unwrap(), listener.accept_timeout(PATIENCE).unwrap());
    let (first, theirs) = pair();
    let windows = server.stats().promised_bytes;
    first.send(&vec![1; LEN]).unwrap();
    wait_until("the first is there", || server.stats().promised_bytes >= windows + LEN / 2);
    let (second, other) = pair();
    second.send(&vec![2; LEN]).unwrap();
    for error in [other.recv_message().unwrap_err(), second.recv_message().unwrap_err()] {
        let RecvError::Ended(ended) = error else { panic!("{error:?}") };
        assert_eq!(ended.reason, EndReason::NoRoom);
    }
    assert!(server.stats().promised_bytes <= memory);
    // All of it is acknowledged by then, and nothing else is to be sent.
    wait_until("it has come", || theirs.stats().bytes_received >= LEN as u64);
    thread::sleep(Duration::from_millis(50));
    assert_eq!(theirs.recv_message().unwrap().into_bytes(), vec![1; LEN]);
    wait_until("all that was read is given back", || server.stats().promised_bytes == windows);
    [first, theirs, second, other].iter().for_each(Socket::abort);
    wait_until("all is given back", || server.stats().promised_bytes == 0);
}

/// [CDP-LIM-13] [CDP-WND-2] What a connection that has ended left unread counts until it is read, or nobody can read it any more.
#[test]
fn what_is_unread_counts_after_the_end() {
    let server = node();
    let client = node();
    let options = Options::datagram().coalescing(Coalescing::Off);
    let listener = server.listen(0, &options).unwrap();
    let target = (server.underlay(), listener.local_address().port);
    for is_read in [true, false] {
        let ours = client.connect(target, &options).unwrap();
        let theirs = listener.accept_timeout(PATIENCE).unwrap();
        let window = server.stats().promised_bytes;
        (0..100).for_each(|_| assert_eq!(ours.send(&[7; 1_000]).unwrap(), 1_000));
        wait_until("all has come", || theirs.stats().bytes_received == 100_000);
        ours.abort();
        wait_until("the end has come", || server.stats().promised_bytes < window);
        assert!(server.stats().promised_bytes >= 100_000, "it may still be read");
        if is_read {
            (0..100).for_each(|_| assert_eq!(theirs.recv_message().unwrap().len(), 1_000));
            assert_eq!(server.stats().promised_bytes, 0);
        }
        drop(theirs);
        wait_until("all is given back", || server.stats().promised_bytes == 0);
    }
}

/// [CDP-CHK-5] A node with a number of its own drops packets for any other. [CDP-ADR-6] And packets of a known node that
/// come from elsewhere.
#[test]
fn a_named_node_is_strict() {
    let (one, two) = (NodeId::new(1).unwrap(), NodeId::new(2).unwrap());
    let server = Node::builder().node(one).bind(loopback()).open().unwrap();
    let listener = server.listen(7, &Options::stream()).unwrap();
    let client = Node::builder().node(two).bind(loopback()).peer(one, server.underlay()).open().unwrap();
    client.connect((one, port(7)), &Options::stream()).unwrap();
    let drops = |name: &str| server.stats().drops.iter().any(|drop| drop.name == name && drop.count > 0);
    // By underlay address alone the server is called by a number that is not its own.
    let stranger = node();
    let options = Options::stream().connect_timeout(Duration::from_millis(100));
    let failed = stranger.connect((server.underlay(), port(7)), &options).unwrap_err();
    assert!(matches!(failed, ConnectError::TimedOut { .. }), "{failed:?}");
    wait_until("it is dropped", || drops("other node"));
    // The server believes that node 2 lives on another host.
    server.add_peer(two, "192.0.2.1:64064".parse().unwrap());
    assert!(client.connect((one, port(7)), &options).is_err());
    wait_until("it is dropped", || drops("source address"));
    drop(listener);
}

#[test]
fn a_node_that_was_shut_down_is_listed_no_more() {
    let name = format!("lifecycle-{}", std::process::id());
    let node = Node::builder().bind(loopback()).stat_name(&name).open().unwrap();
    assert!(stat::list().unwrap().contains(&name));
    assert_eq!(node.shutdown(PATIENCE), 0);
    assert!(!stat::list().unwrap().contains(&name));
    assert!(stat::query(&name).is_err());
}

/// [CDP-ADR-7] A strict node takes no packets of nodes it was not told of, and so opens no connection to them either.
#[test]
fn a_strict_node_calls_nobody_it_does_not_know() {
    let server = node();
    let listener = server.listen(0, &Options::stream()).unwrap();
    let number = listener.local_address().port;
    let own = NodeId::new(1).unwrap();
    let strict = Node::builder().node(own).bind(loopback()).strict(true).open().unwrap();
    let both = Target::Both { address: listener.local_address(), at: server.underlay() };
    for target in [Target::from((server.underlay(), number)), both] {
        let refused = strict.connect(target, &Options::stream()).unwrap_err();
        assert!(matches!(refused, ConnectError::Stranger(at) if at == server.underlay()), "{refused:?}");
        assert_eq!(refused.errno(), errno::EHOSTUNREACH);
    }
    strict.add_peer(server.id(), server.underlay());
    strict.connect(listener.local_address(), &Options::stream()).unwrap();
    assert!(Node::builder().bind(loopback()).strict(true).open().is_err(), "strict, and of no number");
}

/// [CDP-ST-G] A new SYN for a 4-tuple in QUIET is accepted at once.
#[test]
fn a_local_port_can_be_used_again_at_once() {
    let (server, client) = (node(), node());
    let listener = server.listen(0, &Options::stream()).unwrap();
    let target = (server.underlay(), listener.local_address().port);
    let first = client.connect(target, &Options::stream()).unwrap();
    let number = first.local_address().port.get();
    let accepted = listener.accept_timeout(PATIENCE).unwrap();
    first.close_timeout(PATIENCE).unwrap();
    accepted.close_timeout(PATIENCE).unwrap();
    drop((first, accepted));
    let again = client.connect(target, &Options::stream().local_port(number)).unwrap();
    assert_eq!(again.local_address().port.get(), number);
}

/// A node with nothing to do does nothing: its threads sleep until a timer is due. Not all timers are over at once.
#[test]
fn an_idle_node_runs_no_turns() {
    let pair = Pair::over_udp(&Options::stream());
    pair.connected.send(b"a word").unwrap();
    pair.accepted.recv(&mut [0; 16]).unwrap();
    let turns = || {
        [&pair.server, &pair.client].map(|node| node.stats().ports.iter().map(|port| port.turns).sum::<u64>())
    };
    let watch = Stopwatch::start();
    wait_until("three quarters of a second with no more than a timer", || {
        let before = turns();
        watch.run_for(Duration::from_millis(750));
        before.into_iter().zip(turns()).all(|(before, after)| after - before <= 3)
    });
}

/// What a thread leaves behind may still wait when the thread ends: there is no place for what belongs to the thread any more.
#[test]
fn a_destructor_at_the_end_of_a_thread_may_wait() {
    struct Last(Socket);
    impl Drop for Last {
        fn drop(&mut self) {
            assert!(matches!(self.0.recv(&mut [0; 8]), Err(RecvError::TimedOut(_))));
        }
    }
    thread_local! {
        static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
    }
    let pair = Pair::over_udp(&Options::datagram());
    let socket = pair.connected;
    socket.set_recv_timeout(Some(Duration::from_millis(30)));
    let thread = thread::spawn(move || {
        // What is made first goes last.
        LAST.with(|last| *last.borrow_mut() = Some(Last(socket.clone())));
        socket.recv(&mut [0; 8]).unwrap_err()
    });
    assert!(matches!(thread.join().unwrap(), RecvError::TimedOut(_)));
}
