//! How far apart two cores are: the time that a cache line takes from one to the other and back.
//!
//! A virtual machine's host moves its cores. Two that share a cache take 50 ns, two that do not 330, and whatever goes from one to
//! the other, packets of any transport among it, is a third as fast meanwhile (`docs/performance.md`, "Two speeds of one machine").

use std::hint::spin_loop;
use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use weft_bench::{Report, percentile, stay_on};

/// Times that the line comes back between two looks at the clock.
const ROUND_TRIPS: u64 = 200;
/// Tells the other thread to end; round trips are counted from zero.
const END: u64 = u64::MAX;

/// Prints how long a cache line takes from one core to the other and back.
#[derive(Parser)]
struct Arguments {
    /// The core that sends first.
    near: usize,
    /// The core that sends back.
    far: usize,
    /// Milliseconds to measure.
    #[arg(long, default_value_t = 4)]
    millis: u64,
}

/// A line of its own, and the one that processors fetch with it.
#[repr(align(128))]
struct Line(AtomicU64);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.near == arguments.far {
        eprintln!("distance: core {} is no distance from itself; give two cores", arguments.near);
        return ExitCode::FAILURE;
    }
    match measure(&arguments) {
        Ok(mut nanos) => {
            let [p50, p90] = [0.5, 0.9].map(|rank| percentile(&mut nanos, rank));
            Report::new().count("line_ns_p50", p50).count("line_ns_p90", p90).print();
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("distance: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Nanoseconds of a round trip, each the mean of some.
fn measure(arguments: &Arguments) -> io::Result<Vec<u64>> {
    let line = Line(AtomicU64::new(0));
    // Where the other thread begins, it stays.
    stay_on(arguments.far)?;
    thread::scope(|scope| {
        scope.spawn(|| send_back(&line.0));
        let nanos = stay_on(arguments.near).map(|()| round_trips(&line.0, arguments.millis));
        line.0.store(END, Ordering::Release);
        nanos
    })
}

fn round_trips(line: &AtomicU64, millis: u64) -> Vec<u64> {
    let (until, mut nanos, mut sent) = (Instant::now() + Duration::from_millis(millis), Vec::new(), 0);
    while Instant::now() < until || nanos.is_empty() {
        let began = Instant::now();
        for _ in 0..ROUND_TRIPS {
            line.store(sent + 1, Ordering::Release);
            sent += 2;
            while line.load(Ordering::Acquire) != sent {
                spin_loop();
            }
        }
        nanos.push(u64::try_from(began.elapsed().as_nanos()).unwrap_or(END) / ROUND_TRIPS);
    }
    nanos
}

/// Answers each odd number by the next one.
fn send_back(line: &AtomicU64) {
    loop {
        match line.load(Ordering::Acquire) {
            END => return,
            number if number % 2 == 1 => line.store(number + 1, Ordering::Release),
            _ => spin_loop(),
        }
    }
}
