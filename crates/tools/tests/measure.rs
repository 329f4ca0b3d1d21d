//! `weft perf`, `weft ping`, `weft stat`: figures with the shape that scripts rely on.

#[cfg(test)]
#[allow(dead_code, reason = "the tests of sockets use the rest")]
#[path = "../../socket/tests/stopwatch/mod.rs"]
mod stopwatch;
#[cfg(test)]
mod support;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use stopwatch::judge;
use support::{Done, Running, Server, weft};
use weft_base::Port;
use weft_socket::{Node, Options};

#[cfg(test)]
fn server() -> Server {
    Server::start(&["perf", "--server", "--port", "0", "--stat-name", &format!("test-perf-{}", unique())])
}

/// Differs between the tests of this process and between processes.
#[cfg(test)]
fn unique() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
fn perf(server: &Server, more: &[&str]) -> Done {
    let target = server.target();
    weft(&[&["perf", &target, "--peer-underlay", &server.underlay, "--json"], more].concat())
}

#[cfg(test)]
fn number(value: &Value, path: &str) -> f64 {
    path.split('.')
        .fold(value, |value, name| &value[name])
        .as_f64()
        .unwrap_or_else(|| panic!("{path} in {value}"))
}

#[test]
fn a_stream_is_measured_in_intervals_and_in_sum() {
    let server = server();
    let mut json = Value::Null;
    judge(|| {
        let done = perf(&server, &["--time", "400ms", "--interval", "100ms"]);
        assert_eq!(done.code, 0, "{done:?}");
        json = done.json();
        let count = json["intervals"].as_array().unwrap().len();
        if count >= 3 { Ok(()) } else { Err(format!("{count} intervals: {json}")) }
    });
    assert_eq!(
        (json["test"]["service"].as_str(), json["test"]["direction"].as_str()),
        (Some("stream"), Some("to_server"))
    );
    let intervals = json["intervals"].as_array().unwrap();
    assert!(intervals.windows(2).all(|pair| pair[0]["to_seconds"] == pair[1]["from_seconds"]), "{json}");
    assert!(number(&json, "to_server.received_bits_per_second") > 0.0);
    assert_eq!(number(&json, "to_server.sent_bytes"), number(&json, "to_server.received_bytes"));
    for path in ["retransmitted", "retransmitted_share", "lost", "timeouts", "messages_per_second"] {
        number(&json["to_server"], path);
    }
    assert!(number(&json, "cpu_client.user") + number(&json, "cpu_client.system") > 0.0);
    assert!(number(&json, "cpu_client.seconds") > 0.0 && number(&json, "cpu_server.seconds") > 0.0);
    assert!(number(&json, "cpu_server.user") + number(&json, "cpu_server.system") > 0.0);
    assert!(json["to_client"].is_null());
    assert!(json["to_server"]["limited_by"][0].is_string());
}

#[test]
fn datagrams_keep_their_count_over_parallel_connections() {
    let server = server();
    let done = perf(&server, &["--datagram", "--size", "100", "--bytes", "300000", "--parallel", "3"]);
    assert_eq!(done.code, 0, "{done:?}");
    let json = done.json();
    assert_eq!(number(&json, "to_server.messages"), 3000.0);
    assert_eq!(number(&json, "to_server.received_bytes"), 300_000.0);
    assert_eq!(json["client"].as_array().unwrap().len(), 3);
}

#[test]
fn the_server_sends_on_request_and_both_send_at_once() {
    let server = server();
    let done = perf(&server, &["--reverse", "--zerocopy", "--bytes", "2M"]);
    assert_eq!(done.code, 0, "{done:?}");
    let json = done.json();
    assert!(json["to_server"].is_null());
    assert_eq!(number(&json, "to_client.received_bytes"), 2_097_152.0);
    let done = perf(&server, &["--bidir", "--time", "200ms"]);
    assert_eq!(done.code, 0, "{done:?}");
    let json = done.json();
    for direction in ["to_server", "to_client"] {
        assert!(number(&json[direction], "received_bytes") > 0.0);
        assert_eq!(number(&json[direction], "received_bytes"), number(&json[direction], "sent_bytes"));
    }
}

/// The client notices the end of what the server sends long after the last byte: that is no part of the time it took.
#[test]
fn what_the_client_receives_has_the_rate_at_which_it_was_sent() {
    let server = server();
    judge(|| {
        let json = perf(&server, &["--bidir", "--time", "100ms"]).json();
        let [sent, received] =
            ["sent", "received"].map(|end| number(&json, &format!("to_client.{end}_bits_per_second")));
        if received > 0.7 * sent { Ok(()) } else { Err(format!("{received} of {sent} bit/s")) }
    });
}

#[test]
fn losses_show_in_the_figures() {
    let server = server();
    let done = perf(&server, &["--bytes", "3M", "--fault", "loss=3%", "--mss", "1444"]);
    assert_eq!(done.code, 0, "{done:?}");
    let json = done.json();
    assert!(number(&json, "to_server.retransmitted") > 10.0, "{json}");
    assert_eq!(number(&json, "to_server.received_bytes"), 3.0 * 1_048_576.0);
}

/// One of 256 messages looks at the clock, and those that come behind the last one that did count with their time.
#[test]
fn datagrams_that_are_slow_to_come_are_as_slow_in_the_sum_as_in_the_intervals() {
    let more = ["--port", "0", "--congestion", "fixed:1", "--fault", "delay=1ms"];
    let server = Server::start(&[&["perf", "--server"], &more[..]].concat());
    let bytes = (511 * 1444).to_string();
    let done =
        perf(&server, &["--datagram", "--reverse", "--size", "1444", "--mss", "1444", "--bytes", &bytes]);
    assert_eq!(done.code, 0, "{done:?}");
    let json = done.json();
    let end = number(json["intervals"].as_array().unwrap().last().unwrap(), "to_seconds");
    let rate = number(&json, "to_client.received_bits_per_second");
    assert!(end > 0.5 && rate < 511.0 * 1444.0 * 8.0 / (end - 0.15), "{rate} in {end} s: {json}");
}

#[test]
fn people_get_lines_and_a_summary() {
    let server = server();
    let target = server.target();
    let words =
        ["perf", &target, "--peer-underlay", &server.underlay, "--time", "300ms", "--interval", "100ms"];
    let mut last = None;
    judge(|| {
        let done = last.insert(weft(&words));
        if done.out.contains("0.0 to 0.") { Ok(()) } else { Err(format!("the first interval: {done:?}")) }
    });
    let done = last.unwrap();
    assert_eq!(done.code, 0, "{done:?}");
    for part in ["stream to localhost", "client to server:", "sent again", "limited by", "processor: client"]
    {
        assert!(done.out.contains(part), "{part:?} is not in {}", done.out);
    }
}

#[test]
fn a_server_for_one_test_ends_after_it() {
    let mut server = Server::start(&["perf", "--server", "--port", "0", "--once"]);
    assert_eq!(perf(&server, &["--bytes", "100K"]).code, 0);
    let done = &server.event("test")["done"];
    assert_eq!(
        (&done["received_bytes"], &done["test"]["service"]),
        (&102_400.into(), &"stream".into()),
        "{done}"
    );
    assert_eq!(server.end(), 0);
}

#[test]
fn a_server_for_one_test_tells_people_its_result_and_of_no_other_end() {
    // The default port, as people are not asked to read where it listens.
    let name = format!("test-once-{}", unique());
    let words = ["perf", "--server", "--once", "--bind", "127.0.0.1:0", "--stat-name", &name];
    let server = Running::start(&words);
    let stat =
        (0..1000).map(|_| weft(&["stat", &name, "--json"])).find(|done| done.code == 0).unwrap().json();
    let at = stat["underlay"].as_str().unwrap();
    let client = || weft(&["perf", "localhost", "--peer-underlay", at, "--bytes", "100K"]).code;
    assert!((0..1000).any(|_| client() == 0));
    let done = server.end();
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains("sent 0 B, received 100 KiB") && !done.out.contains("Ctrl-C"), "{done:?}");
}

/// What was to be made or sent in full was not; what has no end is complete when it is ended.
#[test]
fn an_interrupted_measurement_tells_what_it_has_with_the_code_of_an_interrupt() {
    let server = server();
    let target = server.target();
    for (words, code, figure) in [
        (&["perf", &target, "--time", "60s"][..], 130, "intervals"),
        (&["ping", "localhost", "--count", "1000000", "--interval", "10ms"], 130, "p50_us"),
        (&["ping", "localhost", "--interval", "10ms"], 0, "p50_us"),
    ] {
        judge(|| {
            let words = [words, &["--peer-underlay", &server.underlay]].concat();
            let client = Server::open(None, &words);
            thread::sleep(Duration::from_millis(500));
            let (ended, lines) = client.interrupt();
            let lines: Vec<Value> = lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
            let has_code = code == 0 || lines.get(1).is_some_and(|event| event["code"] == code);
            let has_figures = lines.first().is_some_and(|result| !result[figure].is_null());
            if ended == code && has_code && has_figures { Ok(()) } else { Err(format!("{ended}: {lines:?}")) }
        });
    }
}

/// Whoever sends, and whether or not the server can still say that it goes.
#[test]
fn a_server_that_dies_ends_the_test_at_once() {
    for (mode, is_killed) in
        [("--no-integrity", false), ("--no-integrity", true), ("--datagram", true), ("--reverse", true)]
    {
        let mut server = server();
        let target = server.target();
        let words = ["perf", &target, "--peer-underlay", &server.underlay, "--time", "60s", "--json", mode];
        let client = Running::start(&words);
        thread::sleep(Duration::from_millis(500));
        match is_killed {
            true => server.kill(),
            false => server.signal(Signal::INT),
        }
        let died_at = Instant::now();
        let done = client.end();
        assert_eq!(done.code, 6, "{mode}: {done:?}");
        assert!(died_at.elapsed() < Duration::from_secs(20), "{mode}: {:?}, {done:?}", died_at.elapsed());
    }
}

#[test]
fn no_server_is_told_with_the_next_step() {
    let echo = Server::start(&["cat", "--listen", "0", "--echo"]);
    let done = weft(&["perf", "localhost:998", "--peer-underlay", &echo.underlay]);
    assert_eq!(done.code, 4, "{done:?}");
    assert!(done.err.contains("start `weft perf --server --port 998` on localhost"), "{done:?}");
    let done = weft(&["ping", "localhost:997", "--peer-underlay", &echo.underlay]);
    assert!(done.err.contains("start `weft cat --listen 997 --echo --datagram` on localhost"), "{done:?}");
    // An echo service is no perf server.
    let target = echo.target();
    let done = weft(&["perf", &target, "--peer-underlay", &echo.underlay, "--time", "100ms"]);
    assert_eq!(done.code, 12, "{done:?}");
}

#[test]
fn round_trips_have_quantiles_in_order() {
    let server = server();
    for mode in ["--flood", "--spin"] {
        let words =
            ["ping", "localhost", "--peer-underlay", &server.underlay, mode, "--count", "300", "--json"];
        let done = weft(&words);
        assert_eq!(done.code, 0, "{done:?}");
        let json = done.json();
        assert_eq!(number(&json, "count"), 300.0);
        let quantiles: Vec<f64> = ["min_us", "p50_us", "p90_us", "p99_us", "p99_9_us", "max_us"]
            .iter()
            .map(|name| number(&json, name))
            .collect();
        assert!(quantiles[0] > 0.0 && quantiles.is_sorted(), "{json}");
    }
}

#[test]
fn a_paced_ping_prints_a_line_each_and_works_with_streams_too() {
    let echo = Server::start(&["cat", "--listen", "0", "--echo"]);
    let target = echo.target();
    let words = [
        "ping",
        &target,
        "--peer-underlay",
        &echo.underlay,
        "--count",
        "3",
        "--interval",
        "10ms",
        "--size",
        "3000",
    ];
    let done = weft(&words);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.out.matches("seq ").count(), 3, "{done:?}");
    assert!(done.out.contains("3 round trips of 3000 bytes") && done.out.contains("p99.9"), "{done:?}");
}

#[test]
fn running_nodes_are_found_by_name() {
    let name = format!("test-stat-{}", unique());
    let server = Server::start(&["perf", "--server", "--port", "0", "--stat-name", &name]);
    let done = weft(&["stat", &name, "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    let json = done.json();
    assert_eq!(
        (json["name"].as_str(), json["underlay"].as_str()),
        (Some(name.as_str()), Some(server.underlay.as_str()))
    );
    assert_eq!(json["listeners"].as_array().unwrap().len(), 3);
    let done = weft(&["stat", &name]);
    assert!(done.out.contains("LISTEN") && done.out.contains(&server.underlay), "{done:?}");
    let done = weft(&["stat", "no-such-node"]);
    assert_eq!(done.code, 13, "{done:?}");
    assert!(done.err.contains("no-such-node"), "{done:?}");
}

/// As service managers stop it.
#[test]
fn a_server_that_is_terminated_ends_well() {
    for command in [&["perf", "--server", "--port", "0"][..], &["cat", "--listen", "0", "--echo"]] {
        let server = Server::start(command);
        let (code, lines) = server.end_by(rustix::process::Signal::TERM);
        assert_eq!(code, 0, "{command:?}: {lines:?}");
        assert!(!lines.concat().contains("\"error\""), "{command:?}: {lines:?}");
    }
}

#[test]
fn an_interrupted_server_says_so_and_leaves_no_name_behind() {
    let name = format!("test-interrupt-{}", unique());
    let server = Server::start(&["perf", "--server", "--port", "0", "--stat-name", &name]);
    assert_eq!(weft(&["stat", &name]).code, 0);
    let (code, lines) = server.interrupt();
    let event: Value = serde_json::from_str(&lines.concat()).unwrap();
    assert_eq!((code, &event["event"], &event["code"]), (130, &"error".into(), &130.into()));
    assert!(!socket_of(&name).exists());
    assert_eq!(weft(&["stat", &name]).code, 13);
}

/// Also where peers have to be told, which takes a moment.
#[test]
fn what_ends_in_the_midst_of_its_work_leaves_no_name_behind() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().to_str().unwrap();
    for command in [&["recv", to][..], &["cat", "--listen", "0"], &["perf", "--server", "--port", "0"]] {
        for signal in [Signal::INT, Signal::TERM] {
            let name = format!("test-midst-{}", unique());
            let server = Server::start(&[command, &["--stat-name", &name]].concat());
            let node = Node::builder().bind("127.0.0.1:0".parse().unwrap()).open().unwrap();
            let at = server.underlay.parse::<SocketAddr>().unwrap();
            let port = Port::new(u16::try_from(server.port).unwrap()).unwrap();
            let _socket = node.connect((at, port), &Options::stream()).unwrap();
            assert!(socket_of(&name).exists());
            server.end_by(signal);
            assert!(!socket_of(&name).exists(), "{command:?} {signal:?}");
        }
    }
}

/// As in `weft perf HOST | head -1`: the other end is told, and does not wait for what never comes.
#[test]
fn who_is_not_read_any_more_takes_leave() {
    let mut server = server();
    let name = format!("test-unread-{}", unique());
    let target = server.target();
    let words =
        ["perf", &target, "--peer-underlay", &server.underlay, "--time", "60s", "--interval", "100ms"];
    let client = Running::unread(&[&words[..], &["--stat-name", &name]].concat());
    assert_eq!(client.code(), 0);
    assert!(!socket_of(&name).exists());
    let begin = Instant::now();
    assert!(server.event("test")["error"].is_string());
    assert!(begin.elapsed() < Duration::from_secs(10), "it waited for {:?}", begin.elapsed());
}

/// Each connection has a port of its own, beginning with that one.
#[test]
fn the_load_comes_from_the_ports_that_were_asked_for() {
    let name = format!("test-ports-{}", unique());
    let server = Server::start(&["perf", "--server", "--port", "0", "--stat-name", &name]);
    let target = server.target();
    let words =
        ["perf", &target, "--peer-underlay", &server.underlay, "--time", "60s", "--local-port", "5550"];
    let mut client = Running::start(&[&words[..], &["--parallel", "2"]].concat());
    let peers = || {
        let json = weft(&["stat", &name, "--json"]).json();
        let all = json["connections"].as_array().unwrap().clone();
        all.iter().filter_map(|one| one["peer"].as_str()).map(str::to_owned).collect::<Vec<_>>()
    };
    let is_from = |port: &str| peers().iter().any(|peer| peer.ends_with(port));
    let begin = Instant::now();
    while !(is_from(":5550") && is_from(":5551")) {
        assert!(begin.elapsed() < Duration::from_secs(30), "they come from {:?}", peers());
        thread::sleep(Duration::from_millis(10));
    }
    client.kill();
}

#[test]
fn a_name_that_is_taken_is_told_so() {
    let name = format!("test-taken-{}", unique());
    let _server = Server::start(&["perf", "--server", "--port", "0", "--stat-name", &name]);
    for (name, words) in [(name.as_str(), "answers already"), ("a/b", "cannot name a node's statistics")] {
        let done = weft(&["perf", "--server", "--bind", "127.0.0.1:0", "--stat-name", name]);
        assert!(done.code == 2 && done.err.contains(words), "{done:?}");
    }
}

/// Where the node `name` answers who asks for its statistics.
#[cfg(test)]
fn socket_of(name: &str) -> PathBuf {
    weft_socket::stat::directory().unwrap().join(format!("{name}.sock"))
}
