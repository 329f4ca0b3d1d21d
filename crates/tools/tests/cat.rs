//! `weft cat`: streams, datagrams, echo, and what its flags do.

#[cfg(test)]
#[allow(dead_code, reason = "the tests of sockets use the rest")]
#[path = "../../socket/tests/stopwatch/mod.rs"]
mod stopwatch;
#[cfg(test)]
mod support;

use std::fs::{self, File};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use stopwatch::judge;
use support::{Running, Server, noise, weft, weft_until, weft_with};
use weft_base::Port;
use weft_socket::{Node, Options, Socket};

#[cfg(test)]
fn client<'a>(server: &'a Server, target: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["cat", target, "--peer-underlay", &server.underlay], more].concat()
}

#[test]
fn what_goes_in_at_one_end_comes_out_at_the_other() {
    let mut server = Server::start(&["cat", "--listen", "0"]);
    let target = server.target();
    let done = weft_with(&client(&server, &target, &["--wait", "200ms"]), b"one\ntwo\n");
    assert_eq!(done.code, 0, "{done:?}");
    let lines = server.rest();
    assert!(lines.iter().any(|line| line == "one") && lines.iter().any(|line| line == "two"), "{lines:?}");
}

#[test]
fn a_listener_with_input_serves_it_to_a_client_without() {
    let mut server = Server::start(&["cat", "--listen", "0", "--wait", "100ms"]);
    server.input(noise(500_000, 1).iter().map(|byte| b'a' + byte % 26).collect::<Vec<u8>>());
    let target = server.target();
    let done = weft(&client(&server, &target, &[]));
    assert_eq!((done.code, done.out.len()), (0, 500_000), "{}", done.err);
}

#[test]
fn an_echo_of_a_stream_brings_every_byte_back() {
    let server = Server::start(&["cat", "--listen", "0", "--echo"]);
    let target = server.target();
    let text: Vec<u8> = noise(300_000, 2).iter().map(|byte| b'a' + byte % 26).collect();
    let done = weft_until(&client(&server, &target, &["--wait", "300ms"]), &text, text.len());
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.as_bytes() == text, "{} of {} bytes came back", done.out.len(), text.len());
}

#[test]
fn a_line_is_a_message_and_empty_lines_are_messages_too() {
    let server = Server::start(&["cat", "--listen", "0", "--echo", "--datagram"]);
    let target = server.target();
    let long = "x".repeat(20_000);
    let text = format!("a\n\nb c\n{long}\nlast without line feed");
    // The last line is sent when the input ends.
    let before = text.len() - "last without line feed".len();
    let done = weft_until(&client(&server, &target, &["-d", "--wait", "1s"]), text.as_bytes(), before);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.out, format!("{text}\n"));
}

#[test]
fn blocks_carry_binary_messages() {
    let server = Server::start(&["cat", "--listen", "0", "--echo", "--datagram"]);
    let target = server.target();
    let words = client(&server, &target, &["-d", "--block", "700", "--wait", "1s"]);
    // The last block is no whole one, and is sent when the input ends.
    let done = weft_until(&words, &[b'z'; 2000], 1400);
    assert_eq!((done.code, done.out.len()), (0, 2000), "{done:?}");
}

#[test]
fn the_end_of_a_connection_is_told_with_result_and_counters() {
    let server = Server::start(&["cat", "--listen", "0", "--echo", "--confirm"]);
    let target = server.target();
    let more = ["--json", "--confirm", "--no-integrity", "--wait", "200ms"];
    let done = weft_until(&client(&server, &target, &more), b"hi", 2);
    assert_eq!((done.code, done.out.as_str()), (0, "hi"), "{done:?}");
    let last = done.err.lines().last().unwrap();
    let closed: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!(closed["event"], "closed");
    assert_eq!((closed["confirmed"].as_bool(), closed["discarded_here"].as_u64()), (Some(true), Some(0)));
    assert_eq!(closed["stats"]["bytes_sent"].as_u64(), Some(2));
}

#[test]
fn nodes_with_numbers_meet_and_others_are_strangers() {
    let server = Server::start(&["cat", "--listen", "0", "--echo", "--node", "0x17"]);
    let target = server.target();
    let words = client(&server, &target, &["--node", "24", "--peer-node", "0x17", "--wait", "200ms"]);
    let done = weft_until(&words, b"hello", 5);
    assert_eq!((done.code, done.out.as_str()), (0, "hello"), "{done:?}");
    let wrong = client(&server, &target, &["--peer-node", "0x18", "--connect-timeout", "300ms"]);
    let done = weft_with(&wrong, b"hello");
    assert_eq!(done.code, 5, "a packet for another number is dropped: {done:?}");
}

#[test]
fn the_wrong_service_is_refused_with_a_code_of_its_own() {
    let server = Server::start(&["cat", "--listen", "0", "--echo", "--datagram"]);
    let target = server.target();
    let done = weft_with(&client(&server, &target, &[]), b"x");
    assert_eq!(done.code, 12, "{done:?}");
    assert!(done.err.contains("does not offer the stream service; give --datagram"), "{done:?}");
}

/// As `send FILE here:storage` may name it, so may who takes the file.
#[test]
fn a_service_of_the_cluster_is_a_port_also_where_one_listens() {
    let dir = tempfile::tempdir().unwrap();
    let (file, [.., high, low]) = (dir.path().join("cluster.toml"), std::process::id().to_be_bytes());
    let at = format!("127.{}.{low}.99:64164", 192 | high & 31);
    let text = format!("[services]\nstorage = 2000\n[[node]]\nname = \"here\"\nnumber = 1\nat = \"{at}\"\n");
    fs::write(&file, text).unwrap();
    let (cluster, to) = (["--cluster", file.to_str().unwrap()], dir.path().to_str().unwrap());
    for words in [
        &["cat", "--listen", "storage"][..],
        &["perf", "--server", "--port", "storage"],
        &["recv", to, "--port", "storage"],
    ] {
        let mut server = Server::open(None, &[words, &cluster].concat());
        assert_eq!(server.event("listening")["port"], 2000, "{words:?}");
        drop(server);
        let words = words.iter().map(|word| if *word == "storage" { "storge" } else { word });
        let done = weft(&words.chain(cluster).collect::<Vec<_>>());
        assert!(done.code == 3 && done.err.contains("did you mean storage"), "{done:?}");
    }
}

/// Also at hosts that the file does not name, and where the user says how they are reached.
#[test]
fn a_service_of_the_cluster_is_a_port_at_other_hosts_too() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cluster.toml");
    let other = "[[node]]\nname = \"other\"\nnumber = 1\nat = \"203.0.113.2\"\n";
    fs::write(&file, format!("mode = \"open\"\n[services]\nstorage = 2000\n{other}")).unwrap();
    let server = Server::start(&["cat", "--listen", "2000", "--echo"]);
    let more = ["--cluster", file.to_str().unwrap(), "--wait", "200ms"];
    let done = weft_until(&client(&server, "localhost:storage", &more), b"hello", 5);
    assert_eq!((done.code, done.out.as_str()), (0, "hello"), "{done:?}");
}

#[test]
fn a_listener_that_stays_gives_its_input_to_the_connection_that_is_there() {
    let mut server = Server::start(&["cat", "--listen", "0", "--keep"]);
    let target = server.target();
    let words =
        client(&server, &target, &["--wait", "100ms"]).into_iter().map(str::to_owned).collect::<Vec<_>>();
    let words = words.iter().map(String::as_str).collect::<Vec<_>>();
    for round in 0..3 {
        let done = weft_with(&words, b"first");
        assert_eq!((done.code, done.out.as_str()), (0, ""), "{done:?}");
        server.event("connected");
        server.event("closed");
        let second = thread::scope(|scope| {
            let second = scope.spawn(|| weft_until(&words, b"second", 6));
            server.event("connected");
            server.say(format!("line{round}\n").as_bytes());
            server.event("closed");
            second.join().unwrap()
        });
        assert_eq!((second.code, second.out), (0, format!("line{round}\n")));
    }
}

#[test]
fn packets_are_recorded_and_traced() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.pcapng");
    let server = Server::start(&["cat", "--listen", "0", "--echo"]);
    let target = server.target();
    let more = ["--pcap", file.to_str().unwrap(), "--trace", "--wait", "100ms"];
    let done = weft_until(&client(&server, &target, &more), b"traced", 6);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.err.contains(" TX ") && done.err.contains(" RX "), "{done:?}");
    let recorded = fs::read(&file).unwrap();
    assert_eq!(recorded[..4], [0x0A, 0x0D, 0x0D, 0x0A]);
    assert!(recorded.windows(6).any(|window| window == b"traced"));
}

#[test]
fn a_message_above_the_limit_is_refused_and_the_rest_still_goes() {
    let server = Server::start(&["cat", "--listen", "0", "--echo", "--datagram", "--message-bytes", "2000"]);
    let target = server.target();
    let text = format!("{}\nshort\n", "x".repeat(100_000));
    let done = weft_with(&client(&server, &target, &["-d", "--wait", "300ms"]), text.as_bytes());
    assert!(done.err.contains("100000 bytes is above the limit"), "{done:?}");
    assert_eq!((done.code, done.out.as_str()), (7, "short\n"), "{done:?}");
}

/// Blocks are one whole: without one of them the others are not sent either.
#[test]
fn a_block_above_the_limit_ends_what_is_sent() {
    let server = Server::start(&["cat", "--listen", "0", "--echo", "--datagram", "--message-bytes", "2000"]);
    let target = server.target();
    let words = ["-d", "--block", "100000", "--wait", "300ms"];
    let done = weft_with(&client(&server, &target, &words), &noise(100_001, 6));
    assert!(done.err.contains("100000 bytes is above the limit"), "{done:?}");
    assert_eq!((done.code, done.out.as_str()), (7, ""), "{done:?}");
}

/// What could not be written is no success, nor is what could not be read.
#[test]
fn a_full_disk_and_an_unreadable_input_have_their_codes() {
    let server = Server::start(&["cat", "--listen", "0", "--echo"]);
    let target = server.target();
    let words = client(&server, &target, &["--wait", "300ms"]);
    let run = |input: File, output: File| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
        command.args(&words).stdin(input).stdout(output).stderr(Stdio::null()).status().unwrap().code()
    };
    let null = || File::options().write(true).open("/dev/null").unwrap();
    let text = File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
    assert_eq!(run(text, File::options().write(true).open("/dev/full").unwrap()), Some(9));
    assert_eq!(run(File::open(env!("CARGO_MANIFEST_DIR")).unwrap(), null()), Some(7));
}

#[test]
fn what_the_other_end_did_not_read_is_told() {
    let node = Node::builder().bind("127.0.0.1:0".parse().unwrap()).open().unwrap();
    let listener = node.listen(0, &Options::stream()).unwrap();
    let (target, at) = (format!("localhost:{}", listener.local_address().port), node.underlay().to_string());
    let client = Running::start(&["cat", &target, "--peer-underlay", &at, "--wait", "30s"]);
    let socket = listener.accept().unwrap();
    // It has no input, and is told of nothing.
    assert!(socket.close_timeout(Duration::from_secs(30)).unwrap().is_clean());
    let done = client.end();
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{done:?}");

    for (more, part) in
        [(&[][..], "that the other end did not read: "), (&["--json"], "\"event\":\"closed\"")]
    {
        let words = [&["cat", &target, "--peer-underlay", &at, "--wait", "30s"], more].concat();
        let done = thread::scope(|scope| {
            let client = scope.spawn(|| weft_with(&words, &noise(100_000, 3)));
            let socket = listener.accept().unwrap();
            while !socket.is_readable() {
                thread::sleep(Duration::from_millis(1));
            }
            socket.close_start();
            client.join().unwrap()
        });
        assert!(done.code == 6 && done.err.contains(part), "{done:?}");
    }
}

/// A reader that takes its time leaves no holes: the bytes that found no room in time go later, or the command says so.
#[test]
fn a_send_time_out_leaves_nothing_out() {
    let node = Node::builder().bind("127.0.0.1:0".parse().unwrap()).open().unwrap();
    let listener = node.listen(0, &Options::stream().receive_slots(8).mss(1000)).unwrap();
    let (target, at) = (format!("localhost:{}", listener.local_address().port), node.underlay().to_string());
    let words = ["cat", &target, "--peer-underlay", &at, "--send-timeout=100ms", "--send-bytes=16K"];
    let text = noise(1_000_000, 4);
    let (done, come) = thread::scope(|scope| {
        let client = scope.spawn(|| weft_with(&[&words[..], &["--wait=200ms"]].concat(), &text));
        let come = read_slowly(&listener.accept().unwrap(), usize::MAX);
        (client.join().unwrap(), come)
    });
    assert!(text.starts_with(&come), "there is a hole in the {} bytes that came: {done:?}", come.len());
    let is_all = come.len() == text.len();
    assert!(if done.code == 0 { is_all } else { done.code == 5 }, "{} bytes came: {done:?}", come.len());
}

#[test]
fn a_send_time_out_of_an_echo_leaves_nothing_out() {
    let words = ["cat", "--listen", "0", "--echo", "--send-timeout=100ms", "--send-bytes=16K", "--mss=1000"];
    let server = Server::start(&words);
    let node = Node::builder().bind("127.0.0.1:0".parse().unwrap()).open().unwrap();
    let there = (
        server.underlay.parse::<SocketAddr>().unwrap(),
        Port::new(u16::try_from(server.port).unwrap()).unwrap(),
    );
    let options = Options::stream().receive_slots(8).mss(1000).recv_timeout(Duration::from_secs(5));
    let socket = node.connect(there, &options).unwrap();
    let text = noise(400_000, 5);
    let come = thread::scope(|scope| {
        scope.spawn(|| socket.send(&text));
        let come = read_slowly(&socket, text.len());
        socket.close_start();
        come
    });
    assert!(text.starts_with(&come), "there is a hole in the {} bytes that came", come.len());
}

/// What comes until the end, or the first `len` bytes of it.
#[cfg(test)]
fn read_slowly(socket: &Socket, len: usize) -> Vec<u8> {
    let (mut come, mut buffer) = (Vec::new(), [0; 4096]);
    while come.len() < len
        && let Ok(more @ 1..) = socket.recv(&mut buffer)
    {
        come.extend_from_slice(&buffer[..more]);
        thread::sleep(Duration::from_millis(10));
    }
    come
}

/// What an echo says after a machine stood still is still heard: silence counts only while somebody could have spoken.
#[test]
fn a_machine_that_stands_still_is_no_silence() {
    judge(|| {
        let node = Node::builder().bind("127.0.0.1:0".parse().unwrap()).open().unwrap();
        let listener = node.listen(0, &Options::stream()).unwrap();
        let (target, at) =
            (format!("localhost:{}", listener.local_address().port), node.underlay().to_string());
        let mut client =
            Server::open(None, &["cat", &target, "--peer-underlay", &at, "--wait", "500ms", "--verbose"]);
        let socket = listener.accept().unwrap();
        client.input(b"hi".to_vec());
        assert_eq!(socket.recv(&mut [0; 8]), Ok(2));
        // It has seen that all was said.
        thread::sleep(Duration::from_millis(150));
        client.signal(Signal::STOP);
        thread::sleep(Duration::from_millis(800));
        client.signal(Signal::CONT);
        thread::sleep(Duration::from_millis(100));
        let _ = socket.send(b"back\n");
        let lines = client.rest();
        if lines.iter().any(|line| line == "back") { Ok(()) } else { Err(format!("{lines:?}")) }
    });
}
