//! Throughput, message rate and round trip of a pair of sockets, for tuning.
//!
//! ```text
//! perf server ADDRESS MODE [BYTES]          perf client ADDRESS MODE [BYTES] [SECONDS]
//! ```
//! MODE is `stream`, `datagram` (one `send` a message) or `ping` (spinning round trip). The server prints the rate.

use std::env;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use weft_socket::{Node, Options, Port, Socket};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [role, address, mode, rest @ ..] = arguments.as_slice() else {
        return Err("say: perf server|client ADDRESS stream|datagram|ping [BYTES] [SECONDS]".into());
    };
    let number = |index: usize, default: usize| rest.get(index).map_or(Ok(default), |text| text.parse());
    let bytes = number(0, if mode == "stream" { 128 << 10 } else { 64 })?;
    let limit = Duration::from_secs(number(1, 2)? as u64);
    let slots = env::var("SLOTS").map_or(Ok(1024), |text| text.parse())?;
    let options = if mode == "stream" { Options::stream() } else { Options::datagram() };
    let options = match env::var("SEND_BYTES") {
        Ok(text) => options.send_bytes(text.parse()?),
        Err(_) => options,
    };
    let options = options.receive_slots(slots).integrity(env::var("PLAIN").is_err());
    let at: SocketAddr = address.parse()?;
    let port = Port::ECHO;
    if role == "server" {
        let node = Node::builder().bind(at).open()?;
        let socket = node.listen(port.get(), &options)?.accept()?;
        return if mode == "ping" { echo(&socket) } else { sink(&node, &socket, bytes) };
    }
    let node = Node::open()?;
    let socket = node.connect((at, port), &options)?;
    if mode == "ping" { ping(&socket, bytes, limit) } else { source(&node, &socket, bytes, limit) }
}

fn sink(node: &Node, socket: &Socket, bytes: usize) -> Outcome {
    let mut buffer = vec![0; bytes.max(64)];
    let (mut total, mut messages) = (0, 0_u64);
    let mut begin = None;
    loop {
        match socket.recv(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(len) => {
                begin.get_or_insert_with(Instant::now);
                total += len;
                messages += 1;
            }
        }
    }
    let time = begin.map_or(Duration::MAX, |begin| begin.elapsed()).as_secs_f64();
    println!("{:.2} Gbit/s, {:.3} M receives/s", total as f64 * 8e-9 / time, messages as f64 * 1e-6 / time);
    if env::var("STATS").is_ok() {
        println!("server {}", node.stats().to_json());
    }
    Ok(())
}

fn source(node: &Node, socket: &Socket, bytes: usize, limit: Duration) -> Outcome {
    let data = vec![7; bytes];
    let begin = Instant::now();
    while begin.elapsed() < limit {
        for _ in 0..64 {
            socket.send(&data)?;
        }
    }
    if env::var("STATS").is_ok() {
        println!("client {}", node.stats().to_json());
    }
    socket.close_timeout(Duration::from_secs(5))?;
    Ok(())
}

fn echo(socket: &Socket) -> Outcome {
    let mut buffer = [0; 65_536];
    while let Ok(len) = socket.recv(&mut buffer) {
        socket.send(&buffer[..len])?;
    }
    Ok(())
}

fn ping(socket: &Socket, bytes: usize, limit: Duration) -> Outcome {
    let data = vec![7; bytes];
    let mut buffer = vec![0; bytes];
    let mut samples = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < limit {
        let sent = Instant::now();
        socket.send(&data)?;
        socket.recv(&mut buffer)?;
        samples.push(sent.elapsed());
    }
    samples.sort_unstable();
    let at = |permille: usize| samples[(samples.len() - 1) * permille / 1000];
    println!("p50 {:?}, p99 {:?}, p99.9 {:?} of {}", at(500), at(990), at(999), samples.len());
    socket.close_timeout(Duration::from_secs(5))?;
    Ok(())
}
