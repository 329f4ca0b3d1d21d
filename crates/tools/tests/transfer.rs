//! `weft send` and `weft recv` between two processes.

#[cfg(test)]
mod support;

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Done, Running, Server, World, noise, weft};

#[cfg(test)]
fn recv(world: &World, more: &[&str]) -> Server {
    let to = world.to("");
    Server::start(&[&["recv", to.to_str().unwrap(), "--port", "0"], more].concat())
}

#[cfg(test)]
fn send(server: &Server, world: &World, name: &str, more: &[&str]) -> Done {
    let from = world.from(name);
    let target = server.target();
    let words = ["send", from.to_str().unwrap(), &target, "--peer-underlay", &server.underlay];
    weft(&[&words, more].concat())
}

#[test]
fn a_file_and_a_directory_arrive_and_both_ends_name_the_same_digest() {
    let world = World::new();
    fs::create_dir_all(world.from("top/sub")).unwrap();
    fs::write(world.from("top/sub/big"), noise(2_000_000, 1)).unwrap();
    fs::write(world.from("top/empty"), b"").unwrap();
    symlink("sub/big", world.from("top/link")).unwrap();
    fs::set_permissions(world.from("top/empty"), Permissions::from_mode(0o640)).unwrap();
    fs::write(world.from("file"), noise(1000, 2)).unwrap();
    let mut server = recv(&world, &[]);
    let done = send(&server, &world, "top", &["--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    let received = server.event("done");
    assert_eq!(done.json()["blake3"], received["blake3"]);
    assert_eq!((received["files"].as_u64(), received["bytes"].as_u64()), (Some(2), Some(2_000_000)));
    assert_eq!(fs::read(world.to("top/sub/big")).unwrap(), noise(2_000_000, 1));
    assert_eq!(fs::read_link(world.to("top/link")).unwrap().to_str(), Some("sub/big"));
    assert_eq!(fs::metadata(world.to("top/empty")).unwrap().permissions().mode() & 0o777, 0o640);
    // The same receiver takes the next transfer.
    let done = send(&server, &world, "file", &[]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.err.contains("sent 1 file, 1000 B"), "{done:?}");
    assert_eq!(fs::read(world.to("file")).unwrap(), noise(1000, 2));
}

/// What a transfer says of itself counts for less than the transfer; and its flags may stand where they like.
#[test]
fn a_transfer_whose_events_cannot_be_written_goes_on() {
    let world = World::new();
    fs::write(world.from("f"), noise(300_000, 5)).unwrap();
    let server = recv(&world, &[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    command.arg("send").arg(world.from("f")).args(["--json", &server.target()]);
    command.args(["--peer-underlay", &server.underlay]).stderr(Stdio::null());
    command.stdout(fs::File::options().write(true).open("/dev/full").unwrap());
    assert_eq!(command.status().unwrap().code(), Some(9));
    assert_eq!(fs::read(world.to("f")).unwrap(), noise(300_000, 5));
}

#[test]
fn a_bad_network_changes_nothing_but_the_time() {
    let world = World::new();
    fs::write(world.from("f"), noise(600_000, 3)).unwrap();
    let mut server = recv(&world, &["--once", "--fault", "loss=2%,duplicate=2%,reorder=5%/8"]);
    let done = send(&server, &world, "f", &["--fault", "loss=2%,corrupt=1%,truncate=1%", "--mss", "1444"]);
    assert_eq!(done.code, 0, "{done:?}");
    server.event("done");
    assert_eq!(server.end(), 0);
    assert_eq!(fs::read(world.to("f")).unwrap(), noise(600_000, 3));
}

/// Starts a slow transfer, and waits until some of it has arrived.
#[cfg(test)]
fn half_way(server: &Server, world: &World) -> Running {
    let from = world.from("big");
    let target = server.target();
    // A delay and a small window make it slow.
    let running = Running::start(&[
        "send",
        from.to_str().unwrap(),
        &target,
        "--peer-underlay",
        &server.underlay,
        "--mss=1000",
        "--congestion=fixed:16",
        "--fault=delay=2ms",
        "--send-bytes=64K",
        "--silence=60s",
    ]);
    let started_at = Instant::now();
    while fs::metadata(world.to("big.weft-part")).map_or(0, |found| found.len()) < 300_000 {
        assert!(started_at.elapsed() < Duration::from_secs(60), "the transfer does not start");
        thread::sleep(Duration::from_millis(5));
    }
    running
}

#[test]
fn a_transfer_goes_on_after_the_sender_was_killed() {
    let world = World::new();
    fs::write(world.from("big"), noise(30_000_000, 4)).unwrap();
    let mut server = recv(&world, &["--silence", "60s"]);
    half_way(&server, &world).kill();
    // The host says that nobody is there. The receiver notices, says so, and keeps what it has.
    let error = server.event("error");
    assert!(error["message"].as_str().unwrap().contains("process ended"), "{error}");
    assert!(!world.to("big").exists());
    let kept = fs::metadata(world.to("big.weft-part")).unwrap().len();
    let done = send(&server, &world, "big", &["--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.json()["present_bytes"].as_u64(), Some(kept));
    assert_eq!(fs::read(world.to("big")).unwrap(), noise(30_000_000, 4));
    assert!(!world.to("big.weft-part").exists());
}

#[test]
fn a_transfer_goes_on_after_the_receiver_was_killed() {
    let world = World::new();
    fs::write(world.from("big"), noise(30_000_000, 5)).unwrap();
    let mut server = recv(&world, &[]);
    let sender = half_way(&server, &world);
    server.kill();
    // The sender hears it from the host, and says what to do.
    let done = sender.end();
    assert_eq!(done.code, 6, "{done:?}");
    assert!(done.err.contains("process ended") && done.err.contains("goes on where it stopped"), "{done:?}");
    assert!(!world.to("big").exists(), "no partial file under the final name");
    let kept = fs::metadata(world.to("big.weft-part")).unwrap().len();
    assert!(kept >= 300_000);
    let server = recv(&world, &["--once"]);
    let done = send(&server, &world, "big", &["--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.json()["present_bytes"].as_u64(), Some(kept));
    assert_eq!(fs::read(world.to("big")).unwrap(), noise(30_000_000, 5));
}

#[test]
fn an_interrupt_has_its_code_in_the_last_event() {
    let world = World::new();
    fs::write(world.from("big"), noise(30_000_000, 4)).unwrap();
    let server = recv(&world, &[]);
    let sender = half_way(&server, &world);
    let (code, lines) = server.interrupt();
    let codes: Vec<_> = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect();
    let codes: Vec<_> = codes.iter().filter(|event| event["event"] == "error").map(|e| &e["code"]).collect();
    assert_eq!((code, codes), (130, vec![&Value::from(130)]), "{lines:?}");
    assert_eq!(sender.end().code, 6);
}

#[test]
fn a_directory_that_is_not_there_yet_is_made() {
    let world = World::new();
    fs::write(world.from("f"), b"x").unwrap();
    let server = Server::start(&["recv", world.to("new").to_str().unwrap(), "--port", "0"]);
    assert_eq!(send(&server, &world, "f", &[]).code, 0);
    assert_eq!(fs::read(world.to("new/f")).unwrap(), b"x");
}

#[test]
fn a_file_that_failed_is_told_once() {
    let world = World::new();
    fs::write(world.from("big"), noise(3_000_000, 4)).unwrap();
    let server = recv(&world, &[]);
    let sender = half_way(&server, &world);
    fs::File::options().append(true).open(world.from("big")).unwrap().write_all(b"!").unwrap();
    let done = sender.end();
    assert_eq!(done.code, 7, "{done:?}");
    assert_eq!(done.err.matches("changed while it was sent").count(), 1, "{done:?}");
    assert!(done.err.ends_with("weft: 1 file could not be sent; what failed is told above\n"), "{done:?}");
}

#[test]
fn a_directory_in_the_place_of_a_part_is_told_by_its_name() {
    let world = World::new();
    fs::write(world.from("f"), b"x").unwrap();
    fs::create_dir(world.to("f.weft-part")).unwrap();
    let done = send(&recv(&world, &[]), &world, "f", &[]);
    assert_eq!(done.code, 9, "{done:?}");
    assert!(done.err.contains("f.weft-part\": is a directory; move it away"), "{done:?}");
}

#[test]
fn an_existing_destination_is_refused_and_replaced_only_on_request() {
    let world = World::new();
    fs::write(world.from("f"), b"new").unwrap();
    fs::write(world.to("f"), b"old contents").unwrap();
    let server = recv(&world, &[]);
    let done = send(&server, &world, "f", &[]);
    assert_eq!(done.code, 8, "{done:?}");
    assert!(done.err.contains("exists and differs") && done.err.contains("--overwrite"), "{done:?}");
    assert_eq!(fs::read(world.to("f")).unwrap(), b"old contents");
    let server = recv(&world, &["--overwrite"]);
    assert_eq!(send(&server, &world, "f", &[]).code, 0);
    assert_eq!(fs::read(world.to("f")).unwrap(), b"new");
    // The same again is no conflict.
    assert_eq!(send(&server, &world, "f", &[]).code, 0);
}

#[test]
fn a_source_that_is_missing_or_unreadable_stops_before_anything_is_sent() {
    let world = World::new();
    let server = recv(&world, &[]);
    let done = send(&server, &world, "nothing", &[]);
    assert_eq!(done.code, 7, "{done:?}");
    assert!(done.err.contains("nothing") && done.err.contains("no such file"), "{done:?}");
    assert_eq!(done.err.lines().count(), 1, "one sentence: {done:?}");
    fs::write(world.from("secret"), b"x").unwrap();
    fs::set_permissions(world.from("secret"), Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(world.from("secret")).is_ok() {
        weft_skip::skipped!(
            "this user may read everything, so no file is unreadable; run as another user than root"
        );
        return;
    }
    let done = send(&server, &world, "secret", &[]);
    assert_eq!(done.code, 7, "{done:?}");
    assert!(done.err.contains("permission denied"), "{done:?}");
}

#[test]
fn nobody_listening_an_unknown_host_and_silence_are_told_apart() {
    let world = World::new();
    fs::write(world.from("f"), b"x").unwrap();
    let from = world.from("f");
    let from = from.to_str().unwrap();
    let server = recv(&world, &[]);
    let done = weft(&["send", from, "localhost:999", "--peer-underlay", &server.underlay]);
    assert_eq!(done.code, 4, "{done:?}");
    assert!(done.err.contains("nobody listens"), "{done:?}");
    assert!(done.err.contains("start `weft recv DIR --port 999` on localhost"), "{done:?}");
    let done = weft(&["send", from, "no-such-host.invalid"]);
    assert_eq!(done.code, 3, "{done:?}");
    assert!(done.err.contains("no-such-host.invalid"), "{done:?}");
    // A UDP socket that never answers.
    let mute = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = mute.local_addr().unwrap().to_string();
    let done = weft(&["send", from, "localhost", "--peer-underlay", &at, "--connect-timeout", "500ms"]);
    assert_eq!(done.code, 5, "{done:?}");
    assert!(done.err.contains("did not answer"), "{done:?}");
    assert!(
        done.err.contains(&format!("start `weft recv DIR` on localhost, and let packets to UDP {at} pass"))
    );
}

#[test]
fn a_destination_that_is_no_directory_or_a_taken_port_is_told_at_the_start() {
    let done = weft(&["recv", "/no/such/dir", "--bind", "127.0.0.1:0"]);
    assert_eq!(done.code, 9, "{done:?}");
    assert!(done.err.contains("/no/such/dir"), "{done:?}");
    let world = World::new();
    let server = recv(&world, &[]);
    let to = world.to("");
    let done = weft(&["recv", to.to_str().unwrap(), "--bind", &server.underlay]);
    assert_eq!(done.code, 11, "{done:?}");
    assert!(done.err.contains("in use") && done.err.contains("--bind"), "{done:?}");
}

#[test]
fn a_full_disk_leaves_no_file_under_the_final_name() {
    let disk = tempfile::tempdir().unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
        .arg(disk.path())
        .output()
        .is_ok_and(|output| output.status.success());
    if !mounted {
        weft_skip::skipped!("mounting a small disk is not permitted; run as root");
        return;
    }
    let world = World::new();
    fs::write(world.from("big"), noise(3_000_000, 6)).unwrap();
    let server = Server::start(&["recv", disk.path().to_str().unwrap(), "--port", "0"]);
    let done = send(&server, &world, "big", &[]);
    let left: Vec<_> = fs::read_dir(disk.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    drop(server);
    let unmounted = std::process::Command::new("umount").arg(disk.path()).status().unwrap();
    assert!(unmounted.success());
    assert_eq!(done.code, 9, "{done:?}");
    assert!(done.err.contains("free"), "{done:?}");
    assert!(left.iter().all(|name| name != "big"), "{left:?}");
}

#[test]
fn a_stranger_is_told_that_it_met_the_wrong_service() {
    let world = World::new();
    fs::write(world.from("f"), noise(100_000, 7)).unwrap();
    let echo = Server::start(&["cat", "--listen", "0", "--echo"]);
    let done = send(&echo, &world, "f", &[]);
    assert_eq!(done.code, 12, "{done:?}");
    assert!(done.err.contains("does not speak this transfer protocol"), "{done:?}");
    // One that says nothing but that it goes, and one of messages: none of them gets further when it is tried again.
    let perf = Server::start(&["perf", "--server", "--port", "0"]);
    for (target, code) in [(perf.target(), 6), ("localhost:7".to_owned(), 12)] {
        let from = world.from("f");
        let done = weft(&["send", from.to_str().unwrap(), &target, "--peer-underlay", &perf.underlay]);
        assert_eq!(done.code, code, "{done:?}");
        assert!(done.err.contains("check that `weft ") && !done.err.contains("again"), "{done:?}");
        assert!(!done.err.contains("repeat"), "{done:?}");
    }
}
