//! A way that carries less than both of its ends: a router between two network namespaces.

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
