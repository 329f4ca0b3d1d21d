//! The scripts: what they say of themselves, what they refuse, and that they leave nothing behind.

use std::process::{Command, Output, Stdio};

use helpers::*;

#[test]
fn the_scripts_tell_how_they_are_used() {
    for (script, word) in [("veth.sh", "--offloads"), ("compare", "--rounds")] {
        let output = run(script, &["--help"]);
        assert!(output.status.success() && text(&output.stdout).contains(word), "{script}: {output:?}");
    }
}

#[test]
fn what_is_not_understood_is_refused_with_a_sentence() {
    for (arguments, words) in [
        (&["--colour"][..], "\"--colour\" is no option"),
        (&["--mtu"], "--mtu needs a value"),
        (&["--offloads", "maybe", "--with", "true"], "on, cut or off, not \"maybe\""),
        (&["--loss", "some", "--with", "true"], "a share in percent, not \"some\""),
        (&["--server", "true"], "give --server and --client"),
        (&["--between", "--wire", "true", "--with", "true"], "--between needs the ends joined"),
    ] {
        let output = run("veth.sh", arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    }
}

#[test]
fn two_ends_reach_each_other_and_nothing_is_left_behind() {
    if !may_make_namespaces() {
        return weft_skip::skipped!(
            "network namespaces cannot be made; run as root with iproute2 and ethtool"
        );
    }
    let rivals = env!("CARGO_BIN_EXE_rivals");
    let server = format!("{rivals} serve 10.64.0.1:9000");
    let client = format!("{rivals} run udp-ping 10.64.0.1:9000 --seconds 0.1");
    for offloads in ["on", "off"] {
        // Without real-time priority and on one core: other tests run at the same time.
        let calm = ["--priority", "0", "--cores", "0,0", "--offloads", offloads];
        let mut command = script("veth.sh");
        command.args(calm).args(["--server", &server, "--client", &client]).stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        let space = format!("wfa{}", child.id());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && text(&output.stdout).contains("rtt_ns_p50"), "{output:?}");
        let after = Command::new("ip").args(["netns", "list"]).output().unwrap();
        assert!(!text(&after.stdout).contains(&space), "{space} is left");
    }
}

#[test]
fn every_row_prints_a_value_for_every_contender() {
    if !may_make_namespaces() || Command::new("nft").arg("--version").output().is_err() {
        return weft_skip::skipped!(
            "network namespaces or nft rules cannot be made; run as root with nftables"
        );
    }
    for (wire, rows, contenders, expected) in [
        ("off", &["bulk", "ping-blocking"][..], &["tcp", "udp"][..], 8),
        ("off", &["loop-ping", "tasks-ping"], &["udp", "tcp", "weft", "weft-progress"], 8),
        ("off", &["tasks-bulk", "tasks-messages"], &["tcp", "weft", "weft-progress"], 9),
        ("loss-1", &["loss-cubic"], &["tcp"], 1),
        ("far-0.1", &["loss-model"], &["tcp"], 1),
        ("shared", &["share-cubic"], &["tcp"], 1),
        ("between-on", &["forwarded-bulk-tcp"], &["tcp"], 2),
        ("halves-on", &["peers-ping-1", "connections-bulk-16"], &["tcp"], 3),
        (
            "none",
            &["look-up-epoch", "copies", "receive-fine-port-each"],
            &["10^", "128", "1 thread", "2 threads"],
            9,
        ),
    ] {
        let calm = ["--priority", "0", "--cores", "0,0", "--rounds", "1", "--seconds", "0.05"];
        let mut command = script("compare");
        command.args(calm).args(["--rivals", env!("CARGO_BIN_EXE_rivals"), "--wires", wire]);
        let output = command.arg("--rows").args(rows).arg("--contenders").args(contenders).output().unwrap();
        let lines = text(&output.stdout);
        let values = lines.lines().filter(|line| line.starts_with("| ") && line.ends_with("| 1 |")).count();
        assert!(output.status.success() && values == expected, "{wire}: {lines}\n{}", text(&output.stderr));
    }
}

#[test]
fn a_long_wire_delays_and_what_it_cannot_carry_is_refused() {
    if !may_make_namespaces() {
        return weft_skip::skipped!(
            "network namespaces cannot be made; run as root with iproute2 and ethtool"
        );
    }
    let (rivals, wire) = (env!("CARGO_BIN_EXE_rivals"), env!("CARGO_BIN_EXE_wire"));
    let server = format!("{rivals} serve 10.64.0.1:9000");
    let client = format!("{rivals} run udp-ping 10.64.0.1:9000 --seconds 0.2");
    let ends = ["--priority", "0", "--cores", "0,0", "--server", &server, "--client", &client];
    let wired =
        |options: &str| script("veth.sh").args(ends).args(["--wire", &format!("{wire} {options}")]).output();
    let output = wired("--delay-ms 4").unwrap();
    let result = text(&output.stdout);
    let nanos = result.split("\"rtt_ns_p50\": ").nth(1).and_then(|rest| rest.split(',').next());
    let nanos: u64 = nanos.and_then(|digits| digits.parse().ok()).unwrap_or(0);
    assert!((8_000_000..100_000_000).contains(&nanos), "{output:?}");
    let output = wired("--delay-ms maybe").unwrap();
    assert!(!output.status.success() && text(&output.stderr).contains("the wire has ended"), "{output:?}");
}

#[test]
fn the_client_s_own_result_is_passed_on() {
    if !may_make_namespaces() {
        return weft_skip::skipped!(
            "network namespaces cannot be made; run as root with iproute2 and ethtool"
        );
    }
    assert_eq!(run("veth.sh", &["--priority", "0", "--with", "exit 3"]).status.code(), Some(3));
}

#[test]
fn a_round_in_which_the_cores_moved_is_measured_anew() {
    // Of two contenders a round, by the distances before the first, between them and behind the second.
    let program = r"
from rows.cores import Cores, said
class Seen(Cores):
    def __init__(self, *seen, again=2): self.seen, self.again = list(seen), again
    def distance(self): return self.seen.pop(0)
def round_of(): yield from ({'row': 'bulk', 'round': 0, 'contender': name} for name in 'ab')
def tried(*seen, **rest): return [(r['contender'], r['again'], r['moved']) for r in Seen(*seen, **rest).measure(round_of)]
assert tried(50, 60, 55) == [('a', 0, False), ('b', 0, False)]
assert tried(50, 330, 330, 330, 320, 340) == [('a', 1, False), ('b', 1, False)]
assert tried(*3 * [50, 330, 50]) == [('a', 2, True), ('b', 2, True)]
assert tried(50, 330, 50, again=0) == [('a', 0, True), ('b', 0, True)]
assert tried(None, None, None) == [('a', 0, False), ('b', 0, False)]
print(said(Seen(50, 330, 330, 330, 320, 340).measure(round_of)), said([]))
";
    let Some(output) = by_python(program) else {
        return weft_skip::skipped!("python3 is not there, by which `compare` runs");
    };
    let expected = "A cache line takes 320 to 340 ns from one core to the other and back, in the median 330. \
                    The cores moved meanwhile: 1 of 2 rounds were measured anew. None\n";
    assert_eq!(text(&output.stdout), expected, "{output:?}");
}

#[test]
fn each_contender_s_ratio_to_ours_is_that_of_the_same_rounds() {
    let program = r"
from rows import Row
from rows.table import lines
row = Row('bulk', [], [('gbit_per_s', 'Gbit/s')], 'tcp', {'tcp': None, 'quinn': None, 'weft': None})
def result(name, at, value): return {'contender': name, 'round': at, 'values': {'gbit_per_s': value}}
seen = {'tcp': [10, 20, 40], 'quinn': [4, 4], 'weft': [20, 20, 20]}
for line in lines(row, [result(name, at, value) for name in seen for at, value in enumerate(seen[name])]): print(line)
";
    let Some(output) = by_python(program) else {
        return weft_skip::skipped!("python3 is not there, by which `compare` runs");
    };
    let expected = "\
| bulk | tcp | 20.00 (10.00 to 40.00) Gbit/s | 1.00 (1.00 to 1.00) of tcp | 1.00 (0.50 to 2.00) | 3 |
| bulk | quinn | 4.00 (4.00 to 4.00) Gbit/s | 0.30 (0.20 to 0.40) of tcp | 5.00 (5.00 to 5.00) | 2 |
| bulk | weft | 20.00 (20.00 to 20.00) Gbit/s | 1.00 (0.50 to 2.00) of tcp |  | 3 |
";
    assert_eq!(text(&output.stdout), expected, "{output:?}");
}

#[test]
fn two_cores_are_a_distance_apart_and_one_is_none() {
    let distance =
        |cores: &[&str]| Command::new(env!("CARGO_BIN_EXE_distance")).args(cores).output().unwrap();
    for (cores, words) in
        [(["0", "0"], "give two cores"), (["0", "1000000"], "core 1000000 is none to run on")]
    {
        let output = distance(&cores);
        assert!(!output.status.success() && text(&output.stderr).contains(words), "{output:?}");
    }
    let output = distance(&["0", "1"]);
    if !output.status.success() {
        return weft_skip::skipped!("this machine has no two cores: {}", text(&output.stderr).trim());
    }
    let printed = text(&output.stdout);
    let nanos = printed.split("\"line_ns_p50\": ").nth(1).and_then(|rest| rest.split(',').next());
    assert!(nanos.is_some_and(|digits| digits.parse::<u64>().is_ok_and(|nanos| nanos > 0)), "{output:?}");
}

#[cfg(test)]
mod helpers {
    use super::*;

    pub(super) fn script(name: &str) -> Command {
        Command::new(format!("{}/{name}", env!("CARGO_MANIFEST_DIR")))
    }

    pub(super) fn run(name: &str, arguments: &[&str]) -> Output {
        script(name).args(arguments).output().unwrap()
    }

    /// What a program prints that uses the rows; nothing where there is no python3.
    pub(super) fn by_python(program: &str) -> Option<Output> {
        let mut python = Command::new("python3");
        python.args(["-B", "-c", program]).env("PYTHONPATH", env!("CARGO_MANIFEST_DIR"));
        python.output().ok()
    }

    pub(super) fn text(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }

    pub(super) fn may_make_namespaces() -> bool {
        let tried = Command::new("unshare").args(["--net", "ethtool", "--version"]).output();
        tried.is_ok_and(|output| output.status.success())
    }
}
