//! The demonstration of I/O nodes, with files that go on while the I/O node that carries them is killed.

#[cfg(test)]
mod support;

use support::weft;

/// Kills of the default I/O node cost no error and no byte. Needs the permission to make namespaces.
#[test]
fn files_arrive_whole_though_their_io_node_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cargo");
    std::fs::write(&file, vec![7; 96 << 20]).unwrap();
    let (file, out) = (file.to_str().unwrap(), dir.path().join("out"));
    let done = weft(&["demo", "--io-nodes=3", "--kills=2", "--json", "--out", out.to_str().unwrap(), file]);
    if done.code == 11 {
        weft_skip::skipped!("{}", done.err.trim());
        return;
    }
    assert_eq!(done.code, 0, "{done:?}");
    let json = done.json();
    assert_eq!(json["errors"], serde_json::json!([]), "{json}");
    // Two pairs in peace, one for each kill, and those that had ended before their I/O node was killed.
    assert!(json["arrived"].as_array().is_some_and(|arrived| arrived.len() >= 4), "{json}");
    let kills = json["kills"].as_array().unwrap();
    assert_eq!(kills.len(), 2, "{json}");
    for kill in kills {
        assert_ne!(kill["taken"], kill["killed"], "{json}");
        assert!(kill["taken"].as_str().is_some_and(|name| name.starts_with("io-")), "{json}");
    }
}
