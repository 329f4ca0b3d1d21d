//! What the copy of a packet takes by how much memory the copies go round: `copies KIB`.
//!
//! A transport copies each packet to memory that is used again when the packet is acknowledged, or read. With one stream that may be
//! memory that a near cache still has; with many, or where the kernel takes other pages each time, it is not, and here is what that costs
//! (`docs/performance.md`, "Many connections"). Copies come in groups, as a transport makes them, from memory of their own.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use weft_bench::{Report, percentile};

/// Bytes of a packet of a stream at an MTU of 1,500 bytes.
const PACKET_BYTES: usize = 1_444;
/// Packets of a group, as many as the kernel takes at a time.
const GROUP: usize = 44;

/// Copies packets to memory that is used again and again, and prints the time for each.
#[derive(Parser)]
struct Arguments {
    /// KiB that are copied to before the first are used again.
    kib: usize,
    /// KiB that are copied from, in the same manner.
    #[arg(long, default_value_t = 128)]
    from_kib: usize,
    /// Seconds to copy, with and without checksum.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(report) => {
            report.print();
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("copies: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<Report, String> {
    let seconds = arguments.seconds;
    let time = Duration::try_from_secs_f64(seconds / 2.0)
        .map_err(|error| format!("{seconds} is no number of seconds: {error}"))?;
    let [from, to] = [arguments.from_kib, arguments.kib].map(Ring::new);
    let (mut from, mut to) = (from?, to?);
    let plain = measure(&mut from, &mut to, time, |from, to| to.copy_from_slice(from));
    let summed =
        measure(&mut from, &mut to, time, |from, to| _ = black_box(weft_crc::append_copy(0, from, to)));
    Ok(Report::new().number("plain_ns", plain).number("summed_ns", summed))
}

/// Memory that is used group by group, and from its beginning again.
struct Ring {
    bytes: Vec<u8>,
    at: usize,
}

impl Ring {
    fn new(kib: usize) -> Result<Self, String> {
        if !(64..=1 << 20).contains(&kib) {
            return Err(format!("{kib} KiB are not between 64, which a group of packets takes, and a GiB"));
        }
        Ok(Self { bytes: vec![1; kib << 10], at: 0 })
    }

    /// The place for the next group.
    fn next(&mut self) -> &mut [u8] {
        let bytes = PACKET_BYTES * GROUP;
        if self.at + bytes > self.bytes.len() {
            self.at = 0;
        }
        self.at += bytes;
        &mut self.bytes[self.at - bytes..self.at]
    }
}

/// Nanoseconds of a copy of a packet, in the median of the groups of `time`.
#[allow(clippy::cast_precision_loss)] // nanoseconds of a group
fn measure(from: &mut Ring, to: &mut Ring, time: Duration, copy: impl Fn(&[u8], &mut [u8])) -> f64 {
    let mut nanos = Vec::new();
    let began = Instant::now();
    // as where the length is not known before
    let packet = black_box(PACKET_BYTES);
    while began.elapsed() < time || nanos.is_empty() {
        let (from, to) = (black_box(from.next()), black_box(to.next()));
        let group = Instant::now();
        for (from, to) in from.chunks_exact(packet).zip(to.chunks_exact_mut(packet)) {
            copy(from, to);
        }
        nanos.push(u64::try_from(group.elapsed().as_nanos()).unwrap_or(u64::MAX));
        black_box(to);
    }
    percentile(&mut nanos, 0.5) as f64 / GROUP as f64
}
