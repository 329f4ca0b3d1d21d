//! The command over Ethernet frames, on a cable in a network namespace of the test's own.

#[cfg(test)]
#[allow(dead_code, reason = "the tests of sockets use the rest")]
#[path = "../../socket/tests/stopwatch/mod.rs"]
mod stopwatch;
#[cfg(test)]
mod support;
#[cfg(test)]
#[allow(dead_code, reason = "the tests of the link use the rest")]
#[path = "../../link/tests/veth/mod.rs"]
mod veth;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use stopwatch::{Stopwatch, judge};
use support::{Server, weft};
use weft_link::Ethernet;
use weft_socket::{EndReason, Node, Options, RecvError, Socket};

/// [CDP-MTU-1] Packets are as long as the interface allows: the papers' 1472 bytes, and those of jumbo frames.
#[test]
fn messages_of_one_frame_cross_whole_whatever_the_mtu() {
    for (mtu, size) in [(1500, "1472"), (9000, "8972"), (65_535, "65507")] {
        veth::within(mtu, || {
            let server = Server::start_on(&["--link", "packet:wfa"], &["perf", "--server", "--port", "0"]);
            let target = format!("[{}]:{}", server.underlay, server.port);
            let words = [
                "perf",
                &target,
                "--link",
                "packet:wfb",
                "--json",
                "--datagram",
                "--size",
                size,
                "--bytes",
                "64M",
            ];
            // beside the messages there are the open, some acknowledgements, here and there a probe, and the pieces of those
            // that are in the send queue before the first probe of a larger size is answered (CDP-MTU-1); and what a machine
            // that stands still has sent again
            let pieces_queued = (4 << 20) / 1_424;
            judge(|| {
                let done = weft(&words);
                assert_eq!(done.code, 0, "{}", done.err);
                let json = done.json();
                let count = |value: &serde_json::Value| value.as_u64().unwrap();
                assert_eq!(json["to_server"]["received_bytes"], json["to_server"]["sent_bytes"], "{json}");
                let messages = count(&json["to_server"]["messages"]);
                let packets = count(&json["client"][0]["packets_sent"]);
                let is_whole = packets >= messages && packets < messages + messages / 4 + pieces_queued;
                if is_whole { Ok(()) } else { Err(format!("{packets} packets: {json}")) }
            });
        });
    }
}

/// Several rings on one interface serve many connections, and nothing of them is lost or mixed up.
#[test]
fn a_node_with_several_rings_serves_a_peer_and_tells_how_many_it_has() {
    veth::within(1500, || {
        let name = format!("rings-{}", std::process::id());
        let home = ["--link", "packet:wfa", "--ports", "3", "--workers", "3", "--stat-name", &name];
        let server = Server::start_on(&home, &["perf", "--server", "--port", "0"]);
        let target = format!("[{}]:{}", server.underlay, server.port);
        let words = ["perf", &target, "--link", "packet:wfb", "--json", "--parallel", "4", "--bytes", "8M"];
        let done = weft(&words);
        assert_eq!(done.code, 0, "{}", done.err);
        assert_eq!(done.json()["to_server"]["received_bytes"], 8 << 20);
        let stat = weft(&["stat", "--json", &name]);
        assert_eq!(stat.json()["ports"].as_array().unwrap().len(), 3, "{stat:?}");
    });
}

/// How often a client asks, and after how long a silence an end gives up: longer than a busy machine stands still.
#[cfg(test)]
const PIN_INTERVAL: Duration = Duration::from_secs(1);
#[cfg(test)]
const EXPIRY: Duration = Duration::from_secs(5);
/// Both may be shorter or longer by this part of them.
#[cfg(test)]
const SPREAD: u32 = 5;
/// What a machine that runs may add to any time.
#[cfg(test)]
const SLACK: Duration = Duration::from_secs(1);

/// How a socket ends that only waits, and after how long.
#[cfg(test)]
fn end_of(socket: &Socket, watch: &Stopwatch) -> (EndReason, Duration) {
    match socket.recv(&mut [0; 64]) {
        Err(RecvError::Ended(ended)) => {
            // [CDP-TMR-3]
            assert!(ended.silent_for.is_some_and(|silence| silence >= EXPIRY - EXPIRY / SPREAD), "{ended}");
            (ended.reason, watch.ran())
        }
        other => panic!("{other:?}"),
    }
}

/// [CDP-KA-3] [CDP-KA-4] A cable that is pulled ends both ends of a connection in their time, and wakes nobody in vain. One that
/// is back before that changes nothing.
#[test]
fn a_cable_that_is_pulled_ends_both_ends_in_their_time() {
    veth::within(1500, || {
        let node = |end| {
            let link = Ethernet::open(end).expect("a link on a fresh cable");
            Node::builder().link(Arc::new(link)).linger(Duration::ZERO).open().unwrap()
        };
        let [server, client] = veth::ENDS.map(node);
        let pull = |state| assert!(veth::run(&format!("ip link set {} {state}", veth::ENDS[1])));
        let open = |options: &Options| {
            let listener = server.listen(0, options).unwrap();
            let target = (server.underlay(), listener.local_address().port);
            let connected = client.connect(target, options).unwrap();
            (listener.accept().unwrap(), connected)
        };

        // However long the machine takes to pull it and to put it back.
        let (accepted, connected) = open(&Options::stream().keepalive(PIN_INTERVAL, 60 * EXPIRY));
        pull("down");
        connected.send(b"late").unwrap();
        thread::sleep(Duration::from_millis(900));
        pull("up");
        assert_eq!(accepted.recv(&mut [0; 16]), Ok(4));
        connected.abort();
        drop(accepted);

        let (accepted, connected) = open(&Options::stream().keepalive(PIN_INTERVAL, EXPIRY));
        let turns = || [&server, &client].map(|node| node.stats().ports[0].turns);
        let (before, watch) = (turns(), Stopwatch::start());
        pull("down");
        let (there, here) = thread::scope(|scope| {
            let there = scope.spawn(|| end_of(&accepted, &watch));
            let here = end_of(&connected, &watch);
            (there.join().unwrap(), here)
        });
        assert_eq!((there.0, here.0), (EndReason::Idle, EndReason::Idle));
        let most = EXPIRY + EXPIRY / SPREAD + SLACK;
        assert!(there.1 < most, "{there:?}");
        assert!(here.1 < most + PIN_INTERVAL + PIN_INTERVAL / SPREAD, "{here:?}");
        for (before, after) in before.into_iter().zip(turns()) {
            assert!(after - before < 10_000, "{} turns", after - before);
        }
        let is_empty = |node: &Node| {
            let stats = node.stats();
            stats.connections.is_empty() && stats.promised_bytes == 0
        };
        let begin = Instant::now();
        while ![&server, &client].into_iter().all(is_empty) {
            assert!(begin.elapsed() < Duration::from_secs(60), "{:?} {:?}", server.stats(), client.stats());
            thread::sleep(Duration::from_millis(1));
        }
    });
}
