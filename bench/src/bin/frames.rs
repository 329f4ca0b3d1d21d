//! Measures ways to drive a packet socket against each other, interleaved in one process: `frames A B`, where A and B are the
//! ends of a cable.
//!
//! One thread sends frames from A, as many as a window lets it; another takes them at B and answers how many came. What arrives
//! is read from a ring of `TPACKET_V2` or `TPACKET_V3`; what leaves goes by `sendmmsg` or by a ring of its own.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use weft_bench::frames::{Frames, HEAD_BYTES, Receive, Send};
use weft_bench::{Report, percentile};

/// Frames under way at most.
const WINDOW: u64 = 704;
/// Frames after which B answers even if more lie there.
const ANSWER_EVERY: u64 = 64;
/// Frames that are sent before B's answers are looked at.
const BURST: u64 = 32;
/// Blocks of a ring: 4 MiB, as the packet link has.
const BLOCKS: usize = 64;
const BROADCAST: [u8; 6] = [0xFF; 6];
/// How long nothing may come back before what is under way is taken for lost.
const PATIENCE: Duration = Duration::from_millis(20);

/// Measures ways to drive a packet socket.
#[derive(Parser)]
struct Arguments {
    /// The interface that sends.
    a: String,
    /// The interface at the other end of the cable.
    b: String,
    /// Seconds for each way in each round.
    #[arg(long, default_value_t = 0.2)]
    seconds: f64,
    /// Rounds.
    #[arg(long, default_value_t = 9)]
    rounds: u64,
}

#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    receive: Receive,
    send: Send,
}

const WAYS: [Way; 3] = [
    Way { name: "V2, sendmmsg", receive: Receive::V2, send: Send::Calls },
    Way { name: "V3, sendmmsg", receive: Receive::V3, send: Send::Calls },
    Way { name: "V2, send ring", receive: Receive::V2, send: Send::Ring },
];

#[derive(Clone, Copy)]
struct Test {
    name: &'static str,
    /// Bytes of a frame's data.
    size: usize,
    window: u64,
}

const TESTS: [Test; 3] = [
    Test { name: "bulk", size: 1_472, window: WINDOW },
    Test { name: "small", size: 92, window: WINDOW },
    Test { name: "ping", size: 92, window: 1 },
];

fn main() -> io::Result<()> {
    let arguments = Arguments::parse();
    let time = Duration::from_secs_f64(arguments.seconds);
    for round in 0..arguments.rounds {
        for test in TESTS {
            for way in WAYS {
                let result = measure(&arguments, test, way, time)?;
                result.count("round", round).print();
            }
        }
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss)] // rates
fn measure(arguments: &Arguments, test: Test, way: Way, time: Duration) -> io::Result<Report> {
    let mut a = Frames::open(&arguments.a, BLOCKS, Receive::V2, way.send)?;
    let mut b = Frames::open(&arguments.b, BLOCKS, way.receive, Send::Calls)?;
    let is_over = AtomicBool::new(false);
    let (sent, seconds, mut round_trips_ns) = std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(&mut b, &is_over));
        let result = stream(&mut a, test, time);
        is_over.store(true, Ordering::Release);
        match server.join() {
            Ok(served) => served.and(result),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })?;
    let report = Report::new().text("test", test.name).text("way", way.name);
    Ok(report
        .number("gbit_per_s", (sent * test.size as u64) as f64 * 8e-9 / seconds)
        .number("frames_per_s", sent as f64 / seconds)
        .count("rtt_ns_p50", percentile(&mut round_trips_ns, 0.5)))
}

/// Tells how many frames came, whenever there is nothing more to take and often enough besides.
fn serve(b: &mut Frames, is_over: &AtomicBool) -> io::Result<()> {
    let mut answer = b.frame(BROADCAST, 0, 8);
    let (mut count, mut told) = (0_u64, 0);
    while !is_over.load(Ordering::Acquire) {
        let has_come = b.pop(|_| ()).is_some();
        count += u64::from(has_come);
        if count > told && (!has_come || count - told >= ANSWER_EVERY) {
            answer[HEAD_BYTES..HEAD_BYTES + 8].copy_from_slice(&count.to_le_bytes());
            b.send(&answer, 1)?;
            told = count;
        } else if !has_come {
            std::hint::spin_loop();
        }
    }
    Ok(())
}

/// Frames that arrived, in how many seconds, and how long each answer took.
fn stream(a: &mut Frames, test: Test, time: Duration) -> io::Result<(u64, f64, Vec<u64>)> {
    let frame = a.frame(BROADCAST, 0xA5, test.size);
    let (started, mut heard) = (Instant::now(), Instant::now());
    let (mut sent, mut arrived, mut round_trips_ns) = (0_u64, 0_u64, Vec::new());
    // Frames that were lost: they count as arrived for the window only.
    let mut lost = 0;
    while started.elapsed() < time {
        let room = (arrived + lost + test.window).saturating_sub(sent).min(BURST);
        if room > 0 {
            a.send(&frame, usize::try_from(room).map_err(io::Error::other)?)?;
            sent += room;
        }
        let before = arrived;
        while let Some(count) = a.pop(count_of) {
            arrived = arrived.max(count);
        }
        if arrived > before {
            if test.window == 1 {
                round_trips_ns.push(u64::try_from(heard.elapsed().as_nanos()).unwrap_or(u64::MAX));
            }
            heard = Instant::now();
        } else if heard.elapsed() > PATIENCE {
            (lost, heard) = (sent - arrived, Instant::now());
        }
    }
    Ok((arrived, started.elapsed().as_secs_f64(), round_trips_ns))
}

/// What an answer says.
fn count_of(frame: &[u8]) -> u64 {
    let count = frame.get(HEAD_BYTES..HEAD_BYTES + 8).and_then(|count| count.try_into().ok());
    count.map_or(0, u64::from_le_bytes)
}
