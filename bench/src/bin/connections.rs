//! Measures connections as such: `connections idle` what many cost that do nothing, `connections cycles` how many can be
//! opened and closed in a second, beside kernel TCP in the same process.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use weft_bench::{Report, sockets};
use weft_socket::{Listener, Node, NodeBuilder, Options, RecvError, Socket};

/// Measures connections as such, over UDP and TCP on the loopback interface.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Opens connections that do nothing: memory of both ends, and how often the process wakes.
    Idle {
        /// Connections; this process holds both ends of each.
        #[arg(long, default_value_t = 10_000)]
        count: usize,
        /// Seconds to look, after twice that to settle.
        #[arg(long, default_value_t = 5.0)]
        seconds: f64,
    },
    /// Opens and closes one connection after the other, a part of the time with each transport in turn.
    Cycles {
        /// Seconds for each turn.
        #[arg(long, default_value_t = 0.3)]
        seconds: f64,
        /// Turns of each transport.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// So many cycles of Weft alone instead, to see whether ports run out.
        #[arg(long)]
        count: Option<u64>,
        /// Bytes of a question and its answer on each connection; without, nothing is said on it.
        #[arg(long, default_value_t = 0)]
        question: usize,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Idle { count, seconds } => idle(count, Duration::from_secs_f64(seconds)),
        Command::Cycles { count: Some(count), question, .. } => many(count, question),
        Command::Cycles { seconds, rounds, question, .. } => {
            compare(rounds, Duration::from_secs_f64(seconds), question)
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("connections: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A listening node and one that connects, in this process.
struct Pair {
    client: Node,
    _server: Node,
    target: (SocketAddr, weft_socket::Port),
    options: Options,
}

/// Of what does nothing: the loopback interface has an MTU of 64 KiB, and a network's is what counts for promised memory.
fn idle_options() -> Options {
    Options::datagram().receive_slots(16).mss(1_444)
}

impl Pair {
    /// `serve` runs on a thread of its own for as long as the server lives.
    fn open(options: Options, serve: impl FnOnce(Listener) + Send + 'static) -> Result<Self, Box<dyn Error>> {
        Self::open_with(|builder| builder, options, serve)
    }

    /// The same, with nodes that `set` has its way with.
    fn open_with(
        set: impl Fn(NodeBuilder) -> NodeBuilder,
        options: Options,
        serve: impl FnOnce(Listener) + Send + 'static,
    ) -> Result<Self, Box<dyn Error>> {
        let builder = || Node::builder().bind(SocketAddr::from(([127, 0, 0, 1], 0))).memory_bytes(4 << 30);
        let (server, client) = (set(builder()).open()?, set(builder()).open()?);
        let listener = server.listen(0, &options.clone().accept_limit(4_096))?;
        let target = (server.underlay(), listener.local_address().port);
        thread::spawn(move || serve(listener));
        Ok(Self { client, _server: server, target, options })
    }

    fn connect(&self) -> Result<Socket, Box<dyn Error>> {
        Ok(self.client.connect(self.target, &self.options)?)
    }
}

fn idle(count: usize, time: Duration) -> Result<(), Box<dyn Error>> {
    let pair = Pair::open(idle_options(), |listener| {
        let mut accepted = Vec::new();
        while let Ok(socket) = listener.accept() {
            accepted.push(socket);
        }
    })?;
    let warm: Vec<Socket> = (0..16).map(|_| pair.connect()).collect::<Result<_, _>>()?;
    let before = resident_bytes()?;
    let open: Vec<Socket> = (0..count).map(|_| pair.connect()).collect::<Result<_, _>>()?;
    // What belongs to the opens ends meanwhile.
    thread::sleep(time * 2);
    let bytes = resident_bytes()?.saturating_sub(before);
    let (switches, cpu) = (context_switches(), weft_bench::cpu_seconds());
    thread::sleep(time);
    let seconds = time.as_secs_f64();
    #[allow(clippy::cast_precision_loss)] // rates
    Report::new()
        .count("connections", count as u64)
        .number("bytes_per_end", bytes as f64 / (2 * count) as f64)
        // the end of this thread's own sleep is one
        .number("wakes_per_s", context_switches().saturating_sub(switches + 1) as f64 / seconds)
        .number("cpu_share", (weft_bench::cpu_seconds() - cpu) / seconds)
        .print();
    drop((warm, open));
    Ok(())
}

/// Accepts, says again what is said, waits until the other end closes, and closes.
fn answer(listener: &Listener, question: usize) {
    let mut buffer = vec![0; question.max(1)];
    while let Ok(socket) = listener.accept() {
        loop {
            match socket.recv(&mut buffer) {
                Ok(len) => _ = socket.send(&buffer[..len]),
                Err(RecvError::EndOfFile | RecvError::Ended(_)) => break,
                Err(_) => {}
            }
        }
        socket.close_start();
    }
}

fn cycle(pair: &Pair, question: usize) -> Result<(), Box<dyn Error>> {
    let socket = pair.connect()?;
    if question > 0 {
        let mut bytes = vec![7; question];
        socket.send(&bytes)?;
        let len = socket.recv(&mut bytes)?;
        if len != question {
            return Err(format!("an answer of {len} bytes").into());
        }
    }
    let result = socket.close()?;
    if !result.is_clean() {
        return Err(format!("a close was not clean: {result:?}").into());
    }
    Ok(())
}

fn many(count: u64, question: usize) -> Result<(), Box<dyn Error>> {
    let pair = Pair::open(Options::datagram(), move |listener| answer(&listener, question))?;
    let started = Instant::now();
    for _ in 0..count {
        cycle(&pair, question)?;
    }
    #[allow(clippy::cast_precision_loss)] // rates
    let rate = count as f64 / started.elapsed().as_secs_f64();
    Report::new().count("cycles", count).number("weft_cycles_per_s", rate).print();
    Ok(())
}

fn compare(rounds: usize, time: Duration, question: usize) -> Result<(), Box<dyn Error>> {
    let answer = move |listener: Listener| answer(&listener, question);
    let pair = Pair::open(Options::datagram(), answer)?;
    // As TCP's ends do, who waits sleeps at once.
    let sleeping = Pair::open_with(|builder| builder.spin(Duration::ZERO), Options::datagram(), answer)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    sockets::answer_by_cubic(&listener);
    let address = listener.local_addr()?;
    thread::spawn(move || {
        let mut bytes = vec![0; question];
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            if question > 0 && stream.read_exact(&mut bytes).and_then(|()| stream.write_all(&bytes)).is_err()
            {
                continue;
            }
            // The end of the stream, or its failure: closed either way.
            let _ = stream.read(&mut [0; 64]);
        }
    });
    let tcp = || {
        let mut stream = sockets::connect_tcp(address, sockets::CUBIC)?;
        if question > 0 {
            let mut bytes = vec![7; question];
            stream.write_all(&bytes)?;
            stream.read_exact(&mut bytes)?;
        }
        stream.shutdown(std::net::Shutdown::Write)?;
        // Both ends have closed when the other's end comes, as a close of Weft is confirmed by the other end.
        let _ = stream.read(&mut [0; 1])?;
        Ok(())
    };
    let contenders: [&dyn Fn() -> Result<(), Box<dyn Error>>; 3] =
        [&|| cycle(&pair, question), &|| cycle(&sleeping, question), &tcp];
    for round in 0..rounds.max(1) {
        let mut rates = [0.0; 3];
        // Each is the first in its turn.
        for at in (0..3).map(|at| (at + round) % 3) {
            rates[at] = rate(time, contenders[at])?;
        }
        let [weft, sleeping, tcp] = rates;
        Report::new()
            .count("round", round as u64)
            .number("weft_cycles_per_s", weft)
            .number("weft_sleeping_cycles_per_s", sleeping)
            .number("tcp_cycles_per_s", tcp)
            .number("ratio", weft / tcp)
            .number("ratio_sleeping", sleeping / tcp)
            .print();
    }
    Ok(())
}

/// How often in a second `cycle` can be done.
fn rate(time: Duration, cycle: impl Fn() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let (started, mut count) = (Instant::now(), 0.0);
    while started.elapsed() < time {
        cycle()?;
        count += 1.0;
    }
    Ok(count / started.elapsed().as_secs_f64())
}

/// Bytes of this process that lie in memory.
fn resident_bytes() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS in /proc/self/status")?;
    let kib: u64 = line.split_whitespace().nth(1).ok_or("VmRSS without a value")?.parse()?;
    Ok(kib << 10)
}

/// How often a thread of this process has given up the processor so far.
fn context_switches() -> u64 {
    let mut total = 0;
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        total += count.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0);
    }
    total
}
