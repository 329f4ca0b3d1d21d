//! `weft ping`: round trips to an echo service.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;
use weft_base::{Port, Service};
use weft_route::PortText;
use weft_socket::{ConnectError, EndReason, RecvError, Socket};

use crate::exit::{Code, Failure};
use crate::net::{self, NodeFlags, PeerFlags, Reached, SocketFlags};
use crate::target::Target;
use crate::units::{self, parse_bytes, parse_duration, parse_wait, parse_within};
use crate::{say, signal};

/// Largest message, in bytes.
const SIZE_BYTES_MAX: u64 = 16 << 20;
/// How many figures of a time are kept.
const FIGURES: u8 = 3;
/// How many empty polls of a spinning thread lie between two of its yields, each a system call.
const POLLS_PER_YIELD: u32 = 64;

/// Measure round trips to an echo service
///
/// `weft perf --server` offers one on CDP port 7, and `weft cat --listen PORT --echo` on any. Each round trip is one message
/// (or, to an echo service of streams, as many bytes) there and back over one connection; a lost packet is sent again and
/// shows as a long round trip.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The echo service: HOST or HOST:PORT (CDP port 7)
    #[arg(value_name = "HOST[:PORT]")]
    target: Target,

    /// Bytes of a message
    #[arg(long, short, value_name = "SIZE", default_value = "64", value_parser = parse_bytes)]
    size: u64,

    /// Round trips to make [default: until Ctrl-C, or 10000 with --flood or --spin]
    #[arg(long, short, value_name = "N", value_parser = |text: &str| parse_within(text, 1, u64::MAX))]
    count: Option<u64>,

    /// Time from one round trip to the next
    #[arg(long, short, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    interval: Duration,

    /// One round trip after the other, without a pause or a line each
    #[arg(long, conflicts_with = "interval")]
    flood: bool,

    /// As --flood, and never sleep while waiting for the answer
    #[arg(long, conflicts_with = "interval")]
    spin: bool,

    /// How long to wait for an answer
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_wait)]
    timeout: Duration,

    /// Print the summary as JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    peer: PeerFlags,
    #[command(flatten)]
    node: NodeFlags,
    #[command(flatten)]
    socket: SocketFlags,
}

/// The result of a series of round trips.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct Summary {
    size_bytes: u64,
    count: u64,
    mode: &'static str,
    min_us: f64,
    mean_us: f64,
    p50_us: f64,
    p90_us: f64,
    p99_us: f64,
    p99_9_us: f64,
    max_us: f64,
    packets_sent: u64,
    retransmitted: u64,
}

/// Runs the command.
///
/// # Errors
/// When there is no connection, or an answer does not come or differs.
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.size == 0 || args.size > SIZE_BYTES_MAX {
        let what = format!("messages of {} bytes are not possible", args.size);
        return Err(Failure::new(Code::Usage, what, format!("give --size 1 to {SIZE_BYTES_MAX}")));
    }
    let Reached { local, peer, at } = net::reach(&args.target, Port::ECHO, &args.peer, &args.node, "ping")?;
    let connect = |service| local.node.connect(peer, &args.socket.options(service));
    let socket = match connect(Service::Datagram) {
        // The echo service there is one of streams: bytes come back as well as messages.
        Err(ConnectError::WrongService { .. }) => connect(Service::Stream),
        result => result,
    };
    let socket = socket.map_err(|error| net::no_server(&error, &args.target, at, &servers(&args.target)))?;
    socket.set_recv_timeout(Some(args.timeout));
    let stop = signal::interrupted();
    if !args.json {
        say::line(&format!("ping {} ({at}): {} bytes of data, over CDP", args.target, args.size));
    }
    let mut series = Series::new(args, socket)?;
    let result = series.run(&stop);
    let summary = series.summary();
    let _ = series.socket.close_timeout(Duration::from_secs(1));
    local.shutdown();
    if let Some(summary) = summary {
        if args.json { say::json(&summary) } else { print(&summary) }
    }
    result
}

/// What offers an echo service at `target`.
fn servers(target: &Target) -> String {
    let any = |port: &dyn Display| format!("`weft cat --listen {port} --echo --datagram`");
    match &target.port {
        Some(port) if *port != PortText::Number(Port::ECHO) => any(port),
        _ => format!("`weft perf --server` or {}", any(&Port::ECHO)),
    }
}

struct Series<'a> {
    args: &'a Args,
    socket: Socket,
    histogram: Histogram<u64>,
    message: Vec<u8>,
    answer: Vec<u8>,
}

impl<'a> Series<'a> {
    fn new(args: &'a Args, socket: Socket) -> Result<Self, Failure> {
        let size = usize::try_from(args.size).unwrap_or(usize::MAX);
        let message: Vec<u8> = (0..=255).cycle().take(size).collect();
        let histogram = Histogram::new(FIGURES)
            .map_err(|error| Failure::new(Code::Other, format!("no histogram: {error}"), ""))?;
        Ok(Self { args, socket, histogram, answer: vec![0; size + 1], message })
    }

    fn is_paced(&self) -> bool {
        !self.args.flood && !self.args.spin
    }

    fn run(&mut self, stop: &AtomicBool) -> Result<(), Failure> {
        let count = self.args.count.unwrap_or(if self.is_paced() { u64::MAX } else { 10_000 });
        let mut next_at = Instant::now();
        for number in 0..count {
            if stop.load(Ordering::Relaxed) {
                return self.interrupted(count);
            }
            // A number in each message, so that an answer to another one is noticed.
            let mark = number.to_le_bytes();
            let len = mark.len().min(self.message.len());
            self.message[..len].copy_from_slice(&mark[..len]);
            let time = self.round_trip()?;
            // The histogram grows by itself; only an endless time could be refused.
            let _ = self.histogram.record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
            if !self.is_paced() {
                continue;
            }
            if !self.args.json {
                say::line(&format!("seq {number}  {}", units::duration(time)));
            }
            next_at += self.args.interval;
            if number + 1 < count {
                wait_until(next_at, stop);
            }
        }
        Ok(())
    }

    /// A series without end ends so; another one is not complete.
    fn interrupted(&self, count: u64) -> Result<(), Failure> {
        if count == u64::MAX && !self.histogram.is_empty() {
            return Ok(());
        }
        let what = format!("interrupted after {}", round_trips(self.histogram.len()));
        Err(Failure::new(Code::Interrupted, what, ""))
    }

    fn round_trip(&mut self) -> Result<Duration, Failure> {
        let started_at = Instant::now();
        self.socket.send(&self.message).map_err(|e| net::send_failure(&e))?;
        let mut len = 0;
        while len < self.message.len().max(1) {
            let more = if self.args.spin { self.spin(len, started_at) } else { self.recv(len) };
            len += more.map_err(|error| self.recv_failure(&error))?;
            if self.socket.service() == Service::Datagram {
                break;
            }
        }
        let time = started_at.elapsed();
        if self.answer[..len] != self.message[..] {
            let what = format!("{} answers something else than it was sent", self.args.target);
            return Err(Failure::new(Code::Protocol, what, "check that an echo service listens there"));
        }
        Ok(time)
    }

    /// Receives behind the `len` bytes of the answer that are there already.
    fn recv(&mut self, len: usize) -> Result<usize, RecvError> {
        match self.socket.recv(&mut self.answer[len..])? {
            0 if self.socket.service() == Service::Stream => Err(RecvError::EndOfFile),
            more => Ok(more),
        }
    }

    /// Polls, and lets other threads of the same real-time priority run from time to time, which they could not otherwise.
    fn spin(&mut self, len: usize, started_at: Instant) -> Result<usize, RecvError> {
        let mut polls = 0_u32;
        loop {
            match self.socket.try_recv(&mut self.answer[len..]) {
                Err(RecvError::WouldBlock) if started_at.elapsed() < self.args.timeout => {
                    polls = polls.wrapping_add(1);
                    if polls.is_multiple_of(POLLS_PER_YIELD) {
                        std::thread::yield_now();
                    }
                }
                Err(RecvError::WouldBlock) => return Err(RecvError::TimedOut(self.args.timeout)),
                Ok(0) if self.socket.service() == Service::Stream => return Err(RecvError::EndOfFile),
                result => return result,
            }
        }
    }

    fn recv_failure(&self, error: &RecvError) -> Failure {
        let next = "check that an echo service listens there".to_owned();
        if *error == RecvError::EndOfFile {
            return Failure::new(Code::Lost, format!("{} closed the connection", self.args.target), next);
        }
        let failure = net::recv_failure(error);
        let is_refused = matches!(error, RecvError::Ended(ended) if ended.reason == EndReason::Aborted);
        if is_refused { Failure { next, ..failure } } else { failure }
    }

    fn summary(&self) -> Option<Summary> {
        if self.histogram.is_empty() {
            return None;
        }
        let stats = self.socket.stats();
        let micros = |nanos: u64| nanos as f64 / 1e3;
        // The histogram tells the end of the class that a value is in.
        let max = self.histogram.max();
        let at = |quantile| micros(self.histogram.value_at_quantile(quantile).min(max));
        Some(Summary {
            size_bytes: self.args.size,
            count: self.histogram.len(),
            mode: match (self.args.spin, self.args.flood) {
                (true, _) => "spinning",
                (_, true) => "blocking, flood",
                _ => "blocking",
            },
            min_us: micros(self.histogram.min()),
            mean_us: self.histogram.mean() / 1e3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p99_9_us: at(0.999),
            max_us: micros(max),
            packets_sent: stats.packets_sent,
            retransmitted: stats.retransmitted,
        })
    }
}

/// Sleeps in short steps, so that Ctrl-C is answered at once.
fn wait_until(at: Instant, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

fn round_trips(count: u64) -> String {
    format!("{count} round trip{}", if count == 1 { "" } else { "s" })
}

fn print(summary: &Summary) {
    let time = |micros: f64| units::duration(Duration::from_secs_f64(micros / 1e6));
    say::line(&format!(
        "\n{} of {} bytes ({}), {} of {} packets sent again",
        round_trips(summary.count),
        summary.size_bytes,
        summary.mode,
        summary.retransmitted,
        summary.packets_sent
    ));
    say::line(&format!(
        "min {}  mean {}  p50 {}  p90 {}  p99 {}  p99.9 {}  max {}",
        time(summary.min_us),
        time(summary.mean_us),
        time(summary.p50_us),
        time(summary.p90_us),
        time(summary.p99_us),
        time(summary.p99_9_us),
        time(summary.max_us)
    ));
}
