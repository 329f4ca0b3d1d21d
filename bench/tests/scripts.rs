//! The scripts: what they say of themselves, what they refuse, and that they leave nothing behind.

use std::process::{Command, Output};

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
        (&["--offloads", "maybe", "--with", "true"], "on or off, not \"maybe\""),
        (&["--server", "true"], "give --server and --client"),
    ] {
        let output = run("veth.sh", arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    }
}

#[test]
fn two_ends_reach_each_other_and_nothing_is_left_behind() {
    if !may_make_namespaces() {
        return eprintln!(
            "SKIPPED: network namespaces cannot be made; run as root with iproute2 and ethtool"
        );
    }
    let inside = "$WEFT_ON_CLIENT ping -c 1 -W 2 $WEFT_SERVER >/dev/null && echo $WEFT_ON_SERVER; exit 3";
    for offloads in ["on", "off"] {
        let output =
            run("veth.sh", &["--priority", "0", "--cores", "0,0", "--offloads", offloads, "--with", inside]);
        let placement = text(&output.stdout);
        let Some(space) = placement.strip_prefix("ip netns exec ").and_then(|rest| rest.split(' ').next())
        else {
            panic!("the ends do not reach each other: {placement}{}", text(&output.stderr));
        };
        assert_eq!(output.status.code(), Some(3), "the command's own result is passed on");
        let after = Command::new("ip").args(["netns", "list"]).output().unwrap();
        assert!(!text(&after.stdout).contains(space), "{space} is left");
    }
}

#[cfg(test)]
mod helpers {
    use super::*;

    pub(super) fn run(script: &str, arguments: &[&str]) -> Output {
        let path = format!("{}/{script}", env!("CARGO_MANIFEST_DIR"));
        Command::new(path).args(arguments).output().unwrap()
    }

    pub(super) fn text(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }

    pub(super) fn may_make_namespaces() -> bool {
        let tried = Command::new("unshare").args(["--net", "ethtool", "--version"]).output();
        tried.is_ok_and(|output| output.status.success())
    }
}
