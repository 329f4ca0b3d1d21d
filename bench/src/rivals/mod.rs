//! The kernel's own transports, each used as its friends would: what Weft is measured against.
//!
//! A server answers each [`Request`] on a thread of its own, as two flows may be measured side by side; processor seconds are
//! those of the process. A request comes as one line over a TCP connection of its own; the port of the test itself, and then
//! the result, go back as one line each.

mod code;
mod ring;
mod tcp;
mod udp;

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;

use crate::cpu_seconds;
pub use code::Code;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Test {
    /// TCP, one `send` for each message, received in large pieces.
    Tcp,
    /// TCP, one message there and back.
    TcpPing,
    /// UDP, one `send` and one `recv` for each message.
    Udp,
    /// UDP, messages joined for the kernel to cut and joined by the kernel on receipt.
    UdpJoined,
    /// As joined, from pages that are given to the kernel instead of copied by it.
    UdpSpliced,
    /// UDP, one message there and back, if need be in several packets that the kernel cuts and joins.
    UdpPing,
    /// Ethernet frames of a packet socket, one message there and back.
    RingPing,
}

/// What a client asks of a server.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Request {
    /// What is measured.
    pub test: Test,
    /// Bytes of a message.
    pub size: usize,
    /// Streams at the same time over TCP, each of a thread at either end.
    pub streams: usize,
    /// Whether to spin instead of sleeping until something arrives: the receiver of a stream of messages, or both sides
    /// of a round trip.
    pub spin: bool,
    /// What both ends of a round trip over UDP or the ring run before each send and behind it.
    pub code: Code,
}

/// What a client sets for itself.
#[derive(Clone, PartialEq, Debug)]
pub struct Choices {
    /// How long to send.
    pub time: Duration,
    /// Whether TCP sends every message at once.
    pub no_delay: bool,
    /// TCP's congestion controller.
    pub controller: String,
}

/// What one side counted.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Tally {
    /// Messages that arrived.
    pub messages: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// From the first to the last, in seconds.
    pub seconds: f64,
    /// Processor time used, in seconds.
    pub cpu_seconds: f64,
}

/// A finished test, from the client's point of view.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    /// Messages that were sent.
    pub sent: u64,
    /// What the server counted.
    pub arrived: Tally,
    /// Round trips in nanoseconds, for tests that make them.
    pub round_trips_ns: Vec<u64>,
    /// Processor time that this side used, in seconds.
    pub cpu_seconds: f64,
}

impl Test {
    /// Whether the test measures round trips.
    #[must_use]
    pub const fn is_ping(self) -> bool {
        matches!(self, Self::TcpPing | Self::UdpPing | Self::RingPing)
    }
}

/// Answers requests at `address` for ever.
///
/// # Errors
/// What the kernel says of the address. A test that fails is told and ends; the server goes on.
pub fn serve(address: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    for control in listener.incoming() {
        std::thread::spawn(move || {
            if let Err(error) = control.and_then(|control| answer(&control)) {
                eprintln!("rivals: {error}");
            }
        });
    }
    Ok(())
}

fn answer(mut control: &TcpStream) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new(control).read_line(&mut line)?;
    let request: Request = line.parse()?;
    let cpu = cpu_seconds();
    let mut tally = match request.test {
        Test::Tcp | Test::TcpPing => tcp::serve(&request, control)?,
        Test::Udp | Test::UdpJoined | Test::UdpSpliced | Test::UdpPing => udp::serve(&request, control)?,
        Test::RingPing => ring::serve(&request, control)?,
    };
    tally.cpu_seconds = cpu_seconds() - cpu;
    writeln!(control, "{tally}")
}

/// Where the test itself listens: any free port at the address that the client has reached.
fn any_port(control: &TcpStream) -> io::Result<SocketAddr> {
    Ok(SocketAddr::new(control.local_addr()?.ip(), 0))
}

/// Tells the client the port of the test itself.
fn say_ready(mut control: &TcpStream, data: SocketAddr) -> io::Result<()> {
    writeln!(control, "{}", data.port())
}

/// Runs a test against the server at `address`.
///
/// # Errors
/// What the kernel says, or that the server does not answer as it should; several streams of a test that has one.
pub fn run(request: &Request, choices: &Choices, address: SocketAddr) -> io::Result<Outcome> {
    if request.streams != 1 && request.test != Test::Tcp {
        let why = format!("{} streams: only the test tcp has several; leave --parallel out", request.streams);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let control = TcpStream::connect(address)?;
    control.set_read_timeout(Some(choices.time + Duration::from_secs(10)))?;
    writeln!(&control, "{request}")?;
    let mut answers = BufReader::new(&control);
    let mut line = String::new();
    answers.read_line(&mut line)?;
    let port = line.trim().parse().map_err(|_| io::Error::other("the server refused"))?;
    let (data, cpu) = (SocketAddr::new(address.ip(), port), cpu_seconds());
    let mut outcome = match request.test {
        Test::Tcp => tcp::send(request, choices, data)?,
        Test::TcpPing => tcp::ping(request, choices, data)?,
        Test::Udp | Test::UdpJoined | Test::UdpSpliced => udp::send(request, choices, data)?,
        Test::UdpPing => udp::ping(request, choices, data)?,
        Test::RingPing => ring::ping(request, choices)?,
    };
    outcome.cpu_seconds = cpu_seconds() - cpu;
    line.clear();
    answers.read_line(&mut line)?;
    outcome.arrived = line.parse()?;
    Ok(outcome)
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let test = self.test.to_possible_value();
        let test = test.as_ref().map_or("", |value| value.get_name());
        let Self { size, streams, spin, code, .. } = self;
        write!(f, "{test} {size} {streams} {spin} {} {}", code.before(), code.behind())
    }
}

impl FromStr for Request {
    type Err = io::Error;

    fn from_str(line: &str) -> io::Result<Self> {
        let refused = || io::Error::new(io::ErrorKind::InvalidData, format!("\"{line}\" is no request"));
        let [test, size, streams, spin, before, behind] = words(line).ok_or_else(refused)?;
        let test = Test::from_str(test, false).map_err(|_| refused())?;
        let number = |text: &str| text.parse().map_err(|_| refused());
        let code = Code::new(number(before)?, number(behind)?)?;
        let spin = spin.parse().map_err(|_| refused())?;
        Ok(Self { test, size: number(size)?, streams: number(streams)?, spin, code })
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {:.9} {:.6}", self.messages, self.bytes, self.seconds, self.cpu_seconds)
    }
}

impl FromStr for Tally {
    type Err = io::Error;

    fn from_str(line: &str) -> io::Result<Self> {
        let refused = |_| io::Error::new(io::ErrorKind::InvalidData, format!("\"{line}\" is no result"));
        let Some([messages, bytes, seconds, cpu_seconds]) = words(line) else { return Err(refused(())) };
        Ok(Self {
            messages: messages.parse().map_err(|_| refused(()))?,
            bytes: bytes.parse().map_err(|_| refused(()))?,
            seconds: seconds.parse().map_err(|_| refused(()))?,
            cpu_seconds: cpu_seconds.parse().map_err(|_| refused(()))?,
        })
    }
}

fn words<const N: usize>(line: &str) -> Option<[&str; N]> {
    line.split_whitespace().collect::<Vec<_>>().try_into().ok()
}

#[cfg(test)]
mod tests;
