//! The command over Ethernet frames, on a cable in a network namespace of the test's own.

#[cfg(test)]
mod support;
#[cfg(test)]
#[allow(dead_code, reason = "the tests of the link use the rest")]
#[path = "../../link/tests/veth/mod.rs"]
mod veth;

use support::{Server, weft};

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
                "4M",
            ];
            let done = weft(&words);
            assert_eq!(done.code, 0, "{}", done.err);
            let json = done.json();
            let count = |value: &serde_json::Value| value.as_u64().unwrap();
            let (messages, packets) =
                (count(&json["to_server"]["messages"]), count(&json["client"][0]["packets_sent"]));
            assert_eq!(json["to_server"]["received_bytes"], json["to_server"]["sent_bytes"], "{json}");
            // beside the messages there are the open, some acknowledgements, and here and there a probe
            assert!(packets >= messages && packets < messages + messages / 4 + 10, "{json}");
        });
    }
}

/// Several rings on one interface serve many connections, and nothing of them is lost or mixed up.
#[test]
fn a_node_with_several_rings_serves_a_peer_and_tells_how_many_it_has() {
    veth::within(1500, || {
        let home = ["--link", "packet:wfa", "--ports", "3", "--workers", "3", "--stat-name", "rings"];
        let server = Server::start_on(&home, &["perf", "--server", "--port", "0"]);
        let target = format!("[{}]:{}", server.underlay, server.port);
        let words = ["perf", &target, "--link", "packet:wfb", "--json", "--parallel", "4", "--bytes", "8M"];
        let done = weft(&words);
        assert_eq!(done.code, 0, "{}", done.err);
        assert_eq!(done.json()["to_server"]["received_bytes"], 8 << 20);
        let stat = weft(&["stat", "--json", "rings"]);
        assert_eq!(stat.json()["ports"].as_array().unwrap().len(), 3, "{stat:?}");
    });
}
