//! Measures ways to drive a UDP socket against each other, interleaved in one process.
//!
//! `links serve ADDRESS`, then `links run TEST ADDRESS`. `bulk` sends packets of 1472 bytes as fast as the receiver, which
//! acknowledges what it got, allows; `small` does so with packets of 92 bytes; `sink` and `sink-small` send as fast as
//! the sender can to an address that swallows them; `ping` sends one packet of 92 bytes and waits for it to come back.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::{Parser, Subcommand, ValueEnum};
use weft_bench::pipes::{HEAD_BYTES, Ours, Pipe, Quinn};
use weft_bench::{Report, percentile};

/// Packets under way at most.
const WINDOW: u64 = 704;
/// How long nothing may come back before what is under way is taken for lost.
const PATIENCE: Duration = Duration::from_millis(20);

/// Measures ways to drive a UDP socket.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Answers until a client says that it is done.
    Serve {
        address: SocketAddr,
        #[arg(long, value_enum, default_value_t = Variant::Link)]
        variant: Variant,
    },
    /// Runs one test with every way in turn, and prints one line of JSON for each.
    Run {
        test: Test,
        address: SocketAddr,
        /// Seconds for each way in each round.
        #[arg(long, default_value_t = 0.2)]
        seconds: f64,
        /// Rounds.
        #[arg(long, default_value_t = 9)]
        rounds: usize,
        /// Bytes of a packet, other than the test's own.
        #[arg(long)]
        size: Option<usize>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Variant {
    /// This project's link as it is.
    Link,
    /// This project's link, made to leave every body where it lies.
    Gather,
    /// quinn-udp.
    Quinn,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Test {
    /// Packets of 1472 bytes, 44 with one call.
    Bulk,
    /// Packets of 92 bytes, 64 with one call.
    Small,
    /// As bulk, to an address that swallows everything.
    Sink,
    /// As small, to an address that swallows everything.
    SinkSmall,
    /// One packet of 92 bytes at a time, to an address that swallows everything.
    SinkLone,
    /// Taking packets of 1472 bytes, sent 44 at a time, out of the socket's own queue; the address is the socket's own.
    Drain,
    /// As drain, with packets of 92 bytes, sent 64 at a time.
    DrainSmall,
    /// As drain, with packets of 1472 bytes, sent one at a time.
    DrainLone,
    /// A packet of 92 bytes there and back, spinning.
    Ping,
}

/// What the first byte of a packet says.
const DATA: u8 = 0;
const PING: u8 = 1;
const COUNT: u8 = 2;
const END: u8 = 3;

fn main() -> io::Result<()> {
    match Arguments::parse().command {
        Command::Serve { variant, address } => serve(&mut *open(variant, address)?),
        Command::Run { test, address, seconds, rounds, size } => {
            run(test, address, Duration::from_secs_f64(seconds), rounds, size)
        }
    }
}

fn open(variant: Variant, local: SocketAddr) -> io::Result<Box<dyn Pipe>> {
    Ok(match variant {
        Variant::Link => Box::new(Ours::open(local, false)?),
        Variant::Gather => Box::new(Ours::open(local, true)?),
        Variant::Quinn => Box::new(Quinn::open(local)?),
    })
}

fn head(kind: u8, count: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[0] = kind;
    head[8..16].copy_from_slice(&count.to_le_bytes());
    head
}

fn count_of(bytes: &Bytes, kind: u8) -> Option<u64> {
    let count = bytes.get(8..16)?.try_into().ok().map(u64::from_le_bytes)?;
    (bytes[0] == kind).then_some(count)
}

/// Answers data with how much of the present run has come, and pings with themselves.
fn serve(pipe: &mut dyn Pipe) -> io::Result<()> {
    let none = Bytes::new();
    let (mut run, mut count, mut is_over) = (0, 0u64, false);
    while !is_over {
        let (mut data_from, mut ping) = (None, None);
        pipe.recv(&mut |from, bytes| match bytes.first() {
            Some(&DATA) => {
                let number = count_of(&bytes, DATA).unwrap_or(0);
                count = if number == run { count + 1 } else { 1 };
                run = number;
                data_from = Some(from);
            }
            Some(&PING) => ping = Some((from, bytes)),
            Some(&END) => is_over = true,
            _ => {}
        })?;
        if let Some(to) = data_from {
            pipe.send(to, &head(COUNT, count), &none, 0, 1)?;
        }
        if let Some((to, bytes)) = ping {
            let body = bytes.slice(HEAD_BYTES..);
            pipe.send(to, &head(PING, 0), &body, body.len(), 1)?;
        }
    }
    Ok(())
}

fn run(test: Test, to: SocketAddr, time: Duration, rounds: usize, size: Option<usize>) -> io::Result<()> {
    let local = if to.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let variants = [Variant::Link, Variant::Gather, Variant::Quinn];
    let mut pipes = Vec::new();
    for variant in variants {
        pipes.push((variant, open(variant, local)?, Vec::new()));
    }
    let mut number = 0;
    for round in 0..rounds {
        for place in 0..variants.len() {
            // Who goes first changes, so that nobody profits from what another leaves behind.
            let (_, pipe, results) = &mut pipes[(place + round) % variants.len()];
            number += 1;
            results.push(measure(&mut **pipe, (test, size), to, time, number)?);
        }
    }
    for (variant, _, results) in &mut pipes {
        let unit = if test == Test::Ping { "rtt_ns" } else { "packets_per_s" };
        let report =
            Report::new().text("test", &name(&test)).text("variant", &name(variant)).text("unit", unit);
        let [min, median, max] = [0.0, 0.5, 1.0].map(|rank| percentile(results, rank));
        report.count("min", min).count("median", median).count("max", max).print();
    }
    for _ in 0..3 {
        pipes[0].1.send(to, &head(END, 0), &Bytes::new(), 0, 1)?;
    }
    Ok(())
}

fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn measure(
    pipe: &mut dyn Pipe,
    (test, size): (Test, Option<usize>),
    to: SocketAddr,
    time: Duration,
    number: u64,
) -> io::Result<u64> {
    let data = Bytes::from(vec![0xA5; 1 << 16]);
    let (body, burst) = match test {
        Test::Bulk | Test::Sink | Test::Drain => (1472 - HEAD_BYTES, 44),
        Test::Small | Test::SinkSmall | Test::DrainSmall => (64, 64),
        Test::DrainLone => (1472 - HEAD_BYTES, 1),
        Test::SinkLone | Test::Ping => (64, 1),
    };
    let body = size.map_or(body, |size| size - HEAD_BYTES);
    let burst = if burst > 1 { (65_000 / (body + HEAD_BYTES)).clamp(1, 64) } else { 1 };
    match test {
        Test::Bulk | Test::Small => flood(pipe, to, (&data, body, burst), time, number),
        Test::Sink | Test::SinkSmall | Test::SinkLone => sink(pipe, to, (&data, body, burst), time),
        Test::Drain | Test::DrainSmall | Test::DrainLone => drain(pipe, to, (&data, body, burst), time),
        Test::Ping => ping(pipe, to, &data.slice(..body), time),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)] // a rate
fn per_second(count: u64, started: Instant) -> u64 {
    (count as f64 / started.elapsed().as_secs_f64()) as u64
}

/// Packets that arrived in a second.
fn flood(
    pipe: &mut dyn Pipe,
    to: SocketAddr,
    (data, body, burst): (&Bytes, usize, usize),
    time: Duration,
    number: u64,
) -> io::Result<u64> {
    let data_head = head(DATA, number);
    let started = Instant::now();
    let (mut sent, mut arrived, mut lost) = (0_u64, 0, 0);
    let (mut heard, mut now) = (started, started);
    while now - started < time {
        while sent.saturating_sub(arrived + lost) + burst as u64 <= WINDOW {
            pipe.send(to, &data_head, data, body, burst)?;
            sent += burst as u64;
        }
        pipe.recv(&mut |_, bytes| {
            if let Some(count) = count_of(&bytes, COUNT).filter(|&count| count <= sent) {
                (arrived, heard) = (count.max(arrived), now);
            }
        })?;
        now = Instant::now();
        if now - heard > PATIENCE {
            (lost, heard) = (sent.saturating_sub(arrived), now);
        }
    }
    let rate = per_second(arrived, started);
    // What is still under way must not be counted by the next run.
    std::thread::sleep(Duration::from_millis(5));
    pipe.recv(&mut |_, _| {})?;
    Ok(rate)
}

/// Packets handed to the kernel in a second.
fn sink(
    pipe: &mut dyn Pipe,
    to: SocketAddr,
    (data, body, burst): (&Bytes, usize, usize),
    time: Duration,
) -> io::Result<u64> {
    let data_head = head(DATA, 0);
    let (started, mut sent) = (Instant::now(), 0);
    while started.elapsed() < time {
        for _ in 0..16 {
            pipe.send(to, &data_head, data, body, burst)?;
        }
        sent += 16 * burst as u64;
    }
    Ok(per_second(sent, started))
}

/// Packets taken out of a filled queue in a second of taking.
fn drain(
    pipe: &mut dyn Pipe,
    to: SocketAddr,
    (data, body, burst): (&Bytes, usize, usize),
    time: Duration,
) -> io::Result<u64> {
    let to = SocketAddr::new(to.ip(), pipe.local()?.port());
    let (started, mut taking, mut taken) = (Instant::now(), Duration::ZERO, 0);
    while started.elapsed() < time {
        for _ in 0..704 / burst {
            pipe.send(to, &head(DATA, 0), data, body, burst)?;
        }
        let began = Instant::now();
        while pipe.recv(&mut |_, _| taken += 1)? > 0 {}
        taking += began.elapsed();
    }
    Ok(per_second(taken, Instant::now() - taking))
}

/// The median round trip in nanoseconds.
fn ping(pipe: &mut dyn Pipe, to: SocketAddr, body: &Bytes, time: Duration) -> io::Result<u64> {
    let started = Instant::now();
    let mut times = Vec::new();
    while started.elapsed() < time {
        let sent = Instant::now();
        pipe.send(to, &head(PING, 0), body, body.len(), 1)?;
        let mut is_back = false;
        while !is_back && sent.elapsed() < PATIENCE {
            pipe.recv(&mut |_, bytes| is_back |= bytes.first() == Some(&PING))?;
        }
        times.push(u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(percentile(&mut times, 0.5))
}
