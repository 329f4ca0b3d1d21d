//! 64 bytes to and fro over loopback UDP, between two fibers or two threads: `ping_pong RUNNER [--rounds N]`, a line of JSON.

use std::error::Error;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use weft_bench::{Report, percentile};
use weft_fiber::Runtime;
use weft_socket::{Node, Options, Socket, Target};

type Failure = Box<dyn Error + Send + Sync>;

const BYTES: usize = 64;

/// What runs the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Runner {
    /// Two threads.
    Threads,
    /// Two fibers, each of a runtime of its own with one worker.
    Fibers,
    /// Two fibers of one worker.
    OneWorker,
}

#[derive(Parser)]
struct Arguments {
    runner: Runner,
    /// Messages there and back.
    #[arg(long, default_value_t = 20_000)]
    rounds: usize,
}

/// Sends back what comes.
fn answer(socket: &Socket, rounds: usize) -> Result<(), Failure> {
    let mut buffer = [0; BYTES];
    for _ in 0..rounds {
        let len = socket.recv(&mut buffer)?;
        socket.send(&buffer[..len])?;
    }
    socket.close()?;
    Ok(())
}

/// The nanoseconds that each message takes there and back.
fn ask(socket: &Socket, rounds: usize) -> Result<Vec<u64>, Failure> {
    let mut buffer = [0; BYTES];
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let start = Instant::now();
        socket.send(&[7; BYTES])?;
        socket.recv(&mut buffer)?;
        times.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    socket.close()?;
    Ok(times)
}

fn measure(runner: Runner, rounds: usize) -> Result<Vec<u64>, Failure> {
    let server = Node::builder().bind("127.0.0.1:0".parse()?).open()?;
    let client = Node::builder().bind("127.0.0.1:0".parse()?).open()?;
    let listener = server.listen(7, &Options::datagram())?;
    let target = Target::from((server.underlay(), listener.local_address().port));
    let connected = client.connect(target, &Options::datagram())?;
    let accepted = listener.accept()?;
    let answers = move || answer(&accepted, rounds);
    let asks = move || ask(&connected, rounds);
    if runner == Runner::Threads {
        let answers = std::thread::spawn(answers);
        let times = asks();
        answers.join().map_err(|_| "the thread that answers panicked")??;
        return times;
    }
    let (here, there) = (Runtime::new()?, Runtime::new()?);
    let answers = if runner == Runner::OneWorker { here.spawn(answers)? } else { there.spawn(answers)? };
    let times = here.run(asks).map_err(|error| error.to_string())?;
    answers.join().map_err(|error| error.to_string())??;
    times
}

fn main() -> Result<(), Failure> {
    let Arguments { runner, rounds } = Arguments::parse();
    let mut times = measure(runner, rounds)?;
    let name = runner.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let mut us = |rank: f64| percentile(&mut times, rank) as f64 / 1e3;
    Report::new().text("runner", &name).number("median_us", us(0.5)).number("p99_us", us(0.99)).print();
    Ok(())
}
