//! What a way carries is found out: less than both of its ends behind a router, or more than packets begin with.

#[cfg(test)]
mod namespaces;
#[cfg(test)]
mod support;

use namespaces::Namespaces;
use support::{Server, weft_within};

/// [CDP-MTU-5] Bulk finds that out by itself, as a stream and as messages, which are whole after it.
#[test]
fn bulk_crosses_a_router_that_carries_less_than_both_ends() {
    for mtu_bytes in [1_420, 600] {
        let Some(spaces) = Namespaces::routed(mtu_bytes) else { return };
        for words in [&[][..], &["--datagram", "--size", "3000"]] {
            let serve = ["perf", "--server", "--once", "--launcher", "off"];
            let mut server = Server::open(Some(&spaces.compute), &serve);
            server.event("listening");
            let measure = ["perf", "--bytes", "20M", "--launcher", "off", "--json", "10.71.2.2"];
            let done = weft_within(Some(&spaces.host), &[&measure, words].concat());
            assert_eq!(done.code, 0, "{done:?}");
            let to_server = &done.json()["to_server"];
            assert_eq!(to_server["received_bytes"], to_server["sent_bytes"], "{to_server}");
            assert!(to_server["timeouts"].as_u64().unwrap() >= 3, "the way was not narrow: {to_server}");
            assert_eq!(server.end(), 0);
        }
    }
}

/// [CDP-MTU-1] [CDP-MTU-2] Bulk over UDP comes to packets as large as the interfaces towards the peer carry, which are proved first; also
/// where another one of the same host carries less.
#[test]
fn bulk_over_a_cable_of_jumbo_frames_has_packets_as_large() {
    for (mtu_bytes, packet_bytes) in [(9_000, 8_944), (65_535, 65_479)] {
        let Some(spaces) = Namespaces::jumbo(mtu_bytes) else { return };
        let mut server = Server::open(Some(&spaces.io), &["perf", "--server", "--once", "--launcher", "off"]);
        server.event("listening");
        let measure = ["perf", "--bytes", "100M", "--launcher", "off", "--json", "10.71.1.11"];
        let done = weft_within(Some(&spaces.host), &measure);
        assert_eq!(done.code, 0, "{done:?}");
        let json = done.json();
        let (to_server, client) = (&json["to_server"], &json["client"][0]);
        assert_eq!(to_server["received_bytes"], to_server["sent_bytes"], "{json}");
        let count = |value: &serde_json::Value| value.as_u64().unwrap();
        // what was in the send queue when the size was proved is cut into smaller ones, and some packets may have been sent again
        let small = (4 << 20) / 1_424 + count(&client["retransmitted"]);
        let (sent, packets) = (count(&client["sent_bytes"]), count(&client["packets_sent"]));
        assert!(packets <= sent / packet_bytes + small + small / 2, "{packets} packets: {json}");
        assert_eq!(server.end(), 0);
    }
}
