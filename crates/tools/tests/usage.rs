//! Wrong command lines, help, `weft doctor` and `weft demo`.

#[cfg(test)]
mod support;

use std::fs;

use serde_json::Value;
use support::{weft, weft_in};

#[test]
fn a_wrong_command_line_has_a_code_of_its_own_and_says_what_is_wrong() {
    for (words, part) in [
        (&["frobnicate"][..], "frobnicate"),
        (&[], "Usage"),
        (&["send"], "required"),
        (&["send", "a"], "<HOST[:PORT]>"),
        (&["send", "a", "b/c"], "\"b/c\" is not HOST[:PORT]: it is a path"),
        (&["send", "a", "host:0"], "\"0\" is not a port"),
        (&["send", "a", "host", "--silence", "0"], "\"0\" is no time to wait"),
        (&["ping", "host", "--rto-init", "0"], "\"0\" is no time to wait"),
        (&["ping", "host", "--timeout", "0"], "\"0\" is no time to wait"),
        (&["ping", "host", "--io-probe", "0"], "\"0\" is no time to wait"),
        (&["perf", "host", "--time", "0"], "\"0\" is no time to wait"),
        (&["perf", "host", "--time", "500us"], "less than a millisecond"),
        (&["perf", "host", "--interval", "0"], "\"0\" is no time to wait"),
        (&["perf", "host", "--bytes", "0"], "\"0\" is nothing to send"),
        (&["stat", "--watch", "0"], "\"0\" is no time to wait"),
        (&["ping", "localhost:abc"], "no service is called \"abc\""),
        (&["ping", "host", "--workers", "1000"], "give 0 to 64"),
        (&["cat"], "required"),
        (&["cat", "host", "--send-timeout", "0"], "\"0\" is no time to wait"),
        (&["send", "a", "host", "--send-timeout", "1s"], "unexpected argument"),
        (&["cat", "host", "-d", "--block", "0"], "\"0\" is no size of a block"),
        (&["cat", "host", "--underlay-port", "0"], "from 1 to 65535"),
        (&["cat", "host", "--peer-underlay", "127.0.0.1:0"], "its port is not 0"),
        (&["ping", "host", "--count", "-1"], "\"-1\" is not possible here"),
        (&["perf", "host", "-t", "-1"], "\"-1\" is not a duration"),
        (&["recv", "dir", "--port", "-1"], "\"-1\" is not a port"),
        (&["cat", "host", "--listen", "7"], "cannot be used with"),
        (&["cat", "host", "--echo"], "--echo"),
        (&["ping", "host", "--size", "many"], "\"many\" is not an amount of bytes"),
        (&["ping", "host", "--size", "0"], "--size 1 to"),
        (&["ping", "host", "--count", "0"], "\"0\" is not possible here; give a whole number from 1 to"),
        (&["perf"], "required"),
        (&["perf", "host", "--parallel", "1000"], "1 to 128"),
        (&["perf", "--server", "--bind", "127.0.0.1:0", "--port", "65535"], "the port after 65535"),
        (&["perf", "--server", "--bind", "127.0.0.1:0", "--port", "6"], "the echo service"),
        (&["cat", "--listen", "65536"], "give 0 to 65535, or the name of a service"),
        (&["perf", "host", "--congestion", "reno"], "cubic, model, or fixed:PACKETS"),
        (&["demo", "--fault", "lose=1%"], "one of loss"),
        (
            &["ping", "02:00:00:00:00:01", "--link", "packet:lo", "--socket-buffer", "1K"],
            "--socket-buffer is of UDP sockets",
        ),
    ] {
        let done = weft(words);
        assert_eq!(done.code, 2, "{words:?}: {done:?}");
        assert!(done.err.contains(part), "{words:?}: {done:?}");
    }
}

#[test]
fn who_reads_json_learns_of_a_failure_with_its_code() {
    for (words, code) in [
        (&["ping", "no-such-host.invalid"][..], 3),
        (&["perf", "no-such-host.invalid"], 3),
        (&["perf", "host", "--parallel", "1000"], 2),
        (&["demo", "no-such-file"], 7),
        (&["send", "no-such-file", "localhost"], 7),
        (&["recv", "/no/such/dir"], 9),
        (&["stat", "no-such-node"], 13),
        (&["io-node", "--cluster", "/nowhere.toml"], 7),
        (&["cat", "no-such-host.invalid"], 3),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let done = weft_in(dir.path(), &[words, &["--json"]].concat(), b"");
        // Standard output of `cat` is what the other end says.
        let events = if words[0] == "cat" { &done.err } else { &done.out };
        let event: Value = serde_json::from_str(events.lines().next().unwrap_or_default()).unwrap();
        assert_eq!(
            (done.code, &event["event"], &event["code"]),
            (code, &"error".into(), &code.into()),
            "{done:?}"
        );
        assert!(done.err.contains(event["message"].as_str().unwrap()), "{done:?}");
    }
}

#[test]
fn help_names_every_command_and_every_exit_status() {
    let done = weft(&["--help"]);
    assert_eq!(done.code, 0);
    for part in [
        "demo",
        "send",
        "recv",
        "cat",
        "ping",
        "perf",
        "stat",
        "io-node",
        "doctor",
        "Exit status:",
        "130  interrupted",
    ] {
        assert!(done.out.contains(part), "{part:?} is not in {}", done.out);
    }
    assert!(!done.out.contains("demo-peer"), "{}", done.out);
    for command in ["demo", "send", "recv", "cat", "ping", "perf", "stat", "io-node", "doctor"] {
        let done = weft(&[command, "--help"]);
        assert_eq!(done.code, 0, "{command}");
        assert!(done.out.contains("Usage: weft"), "{command}: {}", done.out);
    }
}

#[test]
fn completions_know_the_commands() {
    let done = weft(&["completions", "bash"]);
    assert!(done.code == 0 && done.out.contains("recv"), "{done:?}");
}

#[test]
fn the_doctor_judges_and_shows_that_nodes_can_talk() {
    let done = weft(&["doctor", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    let findings: Vec<serde_json::Value> =
        done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| findings.iter().find(|finding| finding["name"] == name).cloned();
    assert_eq!(of("transfer over loopback").unwrap()["verdict"], "good");
    for name in ["kernel", "udp segmentation offload", "udp port 64064"] {
        assert!(of(name).is_some(), "nothing about {name}");
    }
    let done = weft(&["doctor"]);
    assert!(done.out.contains("Weft works here"), "{done:?}");
}

#[test]
fn the_demonstration_advises_no_flag_that_it_has_not() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    std::os::unix::fs::symlink("/etc", dir.path().join("d/out")).unwrap();
    let done = weft_in(dir.path(), &["demo", "d"], b"");
    assert_eq!(done.code, 7, "{done:?}");
    assert!(done.err.contains("leads out of what is sent; give another file or directory"), "{done:?}");
}

#[test]
fn the_demonstration_moves_a_file_and_leaves_plot_and_figures() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("small"), [7; 200_000]).unwrap();
    let done = weft_in(dir.path(), &["demo", "small", "--quick", "--json"], b"");
    assert_eq!(done.code, 0, "{done:?}");
    let json = done.json();
    assert_eq!(json["file"]["bytes"].as_u64(), Some(200_000));
    assert!(json["file"]["packets"].as_u64().unwrap() > 100);
    assert_eq!(json["file"]["blake3"].as_str().unwrap().len(), 64);
    assert_eq!(json["windows"].as_array().unwrap().len(), 12);
    assert_eq!(fs::read(dir.path().join("weft-demo/received/small")).unwrap(), [7; 200_000]);
    let csv = fs::read_to_string(dir.path().join("weft-demo/throughput.csv")).unwrap();
    assert_eq!(csv.lines().count(), 13);
    assert!(fs::read_to_string(dir.path().join("weft-demo/throughput.svg")).unwrap().starts_with("<svg"));
    // Once more over the same files, for people.
    let done = weft_in(dir.path(), &["demo", "small", "--quick"], b"");
    assert_eq!(done.code, 0, "{done:?}");
    for part in ["arrived  195 KiB", "at both ends", "CDP : TCP", "plot ", "CDP in ratio: bulk"] {
        assert!(done.out.contains(part), "{part:?} is not in {}", done.out);
    }
}
