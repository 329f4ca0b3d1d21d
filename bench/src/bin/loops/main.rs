//! Programs with a loop of events: `loops serve CONTENDER TEST ADDRESS`, then `loops run CONTENDER TEST ADDRESS`, which prints a line of
//! JSON.
//!
//! Each end is one thread that sleeps in `epoll_wait`, its own or tokio's. That is how most servers wait, where the rows of
//! `weft ping` and `weft perf` have threads that block in a receive.

mod descriptors;
mod tasks;

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand, ValueEnum};
use weft_bench::{Report, cpu_seconds, percentile};
use weft_socket::{Node, Options, Port, Target};

type Failure = Box<dyn Error + Send + Sync>;

/// What moves the messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Contender {
    /// UDP sockets.
    Udp,
    /// TCP sockets.
    Tcp,
    /// Sockets of ours, by their readiness or as futures.
    Weft,
    /// The same, and the loop makes the progress of the node.
    WeftProgress,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Test {
    /// 64 bytes there and back.
    Ping,
    /// One stream, 128 KiB with each send; tasks of tokio only.
    Bulk,
    /// 64 bytes with each send; a message of ours, or as many bytes of TCP's stream; tasks of tokio only.
    Messages,
}

/// Measures programs with a loop of events.
#[derive(Parser)]
struct Arguments {
    /// Sleep in tokio's loop, with a task for each connection, instead of one of the program's own.
    #[arg(long)]
    tokio: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Answers clients until it is stopped.
    Serve { contender: Contender, test: Test, address: SocketAddr },
    /// Runs one test and prints one line of JSON.
    Run {
        contender: Contender,
        test: Test,
        address: SocketAddr,
        /// Seconds to send.
        #[arg(long, default_value_t = 1.0)]
        seconds: f64,
        /// Microseconds between a round trip and the next.
        #[arg(long, default_value_t = 0)]
        pause_us: u64,
    },
}

/// Where servers of ours listen.
const PORT: Port = Port::ECHO;

/// What a server does with what a client sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Load {
    /// Bytes of a send. The first is [`MORE`] or [`LAST`].
    bytes: usize,
    /// Each is sent back; else the last is answered by the processor seconds of the server since the connection began.
    is_echo: bool,
}

const MORE: u8 = 7;
const LAST: u8 = 8;

impl Test {
    const fn load(self) -> Load {
        match self {
            Self::Ping => Load { bytes: 64, is_echo: true },
            Self::Messages => Load { bytes: 64, is_echo: false },
            Self::Bulk => Load { bytes: 128 << 10, is_echo: false },
        }
    }

    fn options(self) -> Options {
        if self == Self::Bulk { Options::stream() } else { Options::datagram() }
    }
}

/// A node of ours at `bind`.
fn node(bind: SocketAddr) -> Result<Node, Failure> {
    Ok(Node::builder().bind(bind).open()?)
}

/// What a client measured.
#[derive(Debug, Default)]
struct Outcome {
    round_trips_ns: Vec<u64>,
    sends: u64,
    seconds: f64,
    server_cpu_seconds: f64,
}

/// How long a client goes on.
#[derive(Clone, Copy, Debug)]
struct Pace {
    time: Duration,
    pause: Duration,
}

/// Any UDP or TCP port of this side.
fn any() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)
}

fn target(address: SocketAddr) -> Target {
    Target::from((address, PORT))
}

/// Counts the sends in a stream of bytes, of which only the first of each send means something.
struct Sends {
    bytes: usize,
    at: usize,
    is_last: bool,
}

impl Sends {
    fn of(load: Load) -> Self {
        Self { bytes: load.bytes, at: 0, is_last: false }
    }

    /// More has come. Whether the last send has come whole.
    fn note(&mut self, piece: &[u8]) -> bool {
        let mut first = if self.at == 0 { 0 } else { self.bytes - self.at };
        while let Some(&mark) = piece.get(first) {
            self.is_last = mark == LAST;
            first += self.bytes;
        }
        self.at = (self.at + piece.len()) % self.bytes;
        self.is_last && self.at == 0
    }
}

#[allow(clippy::cast_precision_loss)] // rates
fn print(test: Test, mut outcome: Outcome, client_cpu_seconds: f64) {
    let report = Report::new().number("client_cpu_s", client_cpu_seconds);
    if test == Test::Ping {
        let times = &mut outcome.round_trips_ns;
        let [p50, p99] = [0.5, 0.99].map(|rank| percentile(times, rank));
        let report = report.count("rtt_ns_p50", p50).count("rtt_ns_p99", p99);
        report.count("round_trips", times.len() as u64).print();
    } else {
        let bytes = outcome.sends * test.load().bytes as u64;
        let report = report.count("bytes", bytes).number("server_cpu_s", outcome.server_cpu_seconds);
        let report = report.number("messages_per_s", outcome.sends as f64 / outcome.seconds);
        report.number("gbit_per_s", bytes as f64 * 8e-9 / outcome.seconds).print();
    }
}

fn main() -> ExitCode {
    let Arguments { tokio, command } = Arguments::parse();
    let outcome = match command {
        Command::Serve { contender, test, address } if tokio => tasks::serve(contender, test, address),
        Command::Serve { contender, test, address } => descriptors::serve(contender, test, address),
        Command::Run { contender, test, address, seconds, pause_us } => {
            let pace =
                Pace { time: Duration::from_secs_f64(seconds), pause: Duration::from_micros(pause_us) };
            let cpu = cpu_seconds();
            let run = if tokio { tasks::run } else { descriptors::run };
            run(contender, test, address, pace).map(|outcome| print(test, outcome, cpu_seconds() - cpu))
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loops: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Since `begin`, in nanoseconds.
fn nanos_since(begin: Instant) -> u64 {
    u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_send_is_found_wherever_pieces_are_cut() {
        let stream = [[MORE, 1, 2], [MORE, LAST, LAST], [LAST, 3, MORE]].concat();
        for cut in 0..stream.len() {
            let mut sends = Sends::of(Load { bytes: 3, is_echo: false });
            let (head, tail) = stream.split_at(cut);
            assert!(!sends.note(head), "cut at {cut}");
            assert!(sends.note(tail), "cut at {cut}");
        }
    }
}
