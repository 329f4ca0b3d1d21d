//! What the copy of a packet takes by how much memory the copies go round, and whether another core reads it in between: `copies KIB`.
//!
//! A transport copies each packet to memory that is used again when the packet is acknowledged, or read. With one stream that may be
//! memory that a near cache still has; with many, or where the kernel takes other pages each time, it is not. And what another core
//! has just read is in its caches, which takes longer to write to than what lies where both look (`docs/performance.md`). Copies come
//! in groups, as a transport makes them, from memory that stays near.

use std::collections::VecDeque;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use weft_bench::{Report, percentile, stay_on};

/// Bytes of a packet of a stream at an MTU of 1,500 bytes.
const PACKET_BYTES: usize = 1_444;
/// Bytes of a group, which are as many packets as the kernel takes at a time.
const GROUP_BYTES: usize = 44 * PACKET_BYTES;
/// KiB that a group takes up.
const GROUP_KIB: usize = 64;

/// Copies packets to memory that is used again and again, and prints the time for each.
#[derive(Parser)]
struct Arguments {
    /// KiB that are copied to before the first are used again.
    kib: usize,
    /// The core that reads what was copied, before it is used again.
    #[arg(long, requires = "core")]
    reader: Option<usize>,
    /// The core that copies.
    #[arg(long)]
    core: Option<usize>,
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
    let Arguments { kib, reader, core, seconds } = *arguments;
    let time = Duration::try_from_secs_f64(seconds / 2.0)
        .map_err(|error| format!("{seconds} is no number of seconds: {error}"))?;
    if !(GROUP_KIB..=1 << 20).contains(&kib) {
        return Err(format!(
            "{kib} KiB are not between {GROUP_KIB}, which a group of packets takes, and a GiB"
        ));
    }
    if reader.is_some() && reader == core {
        return Err("a core that reads what it copies itself is no other; give two cores".to_owned());
    }
    let ring = (0..kib / GROUP_KIB).map(|_| vec![1; GROUP_BYTES]).collect();
    let ((copied, to_read), (read, free)) = (channel(), channel());
    thread::scope(|scope| {
        let reading =
            reader.map(|core| scope.spawn(move || stay_on(core).map(|()| read_all(&to_read, &read))));
        let done = core.map_or(Ok(()), stay_on).map(|()| {
            let mut memory = Memory { ring, reader: reader.map(|_| (copied, free)) };
            let plain = measure(&mut memory, time, |from, to| to.copy_from_slice(from));
            let summed =
                measure(&mut memory, time, |from, to| _ = black_box(weft_crc::append_copy(0, from, to)));
            Report::new().number("plain_ns", plain).number("summed_ns", summed)
        });
        let readers = reading.and_then(|reading| reading.join().ok()).unwrap_or(Ok(()));
        readers.and(done).map_err(|error| error.to_string())
    })
}

/// Copies out what comes, as a receiver does.
fn read_all(groups: &Receiver<Group>, read: &Sender<Group>) {
    let mut user = vec![0; GROUP_BYTES];
    for group in groups {
        user.copy_from_slice(&group);
        black_box(&mut user);
        if read.send(group).is_err() {
            return;
        }
    }
}

type Group = Vec<u8>;

/// Groups that are used one after the other, the first first.
struct Memory {
    ring: VecDeque<Group>,
    /// Where they go to be read, and come back from.
    reader: Option<(Sender<Group>, Receiver<Group>)>,
}

impl Memory {
    fn take(&mut self) -> Option<Group> {
        if let Some((_, free)) = &self.reader {
            self.ring.extend(free.try_iter());
            if self.ring.is_empty() {
                return free.recv().ok();
            }
        }
        self.ring.pop_front()
    }

    fn give(&mut self, group: Group) {
        match &self.reader {
            // who reads no more has said why
            Some((copied, _)) => _ = copied.send(group),
            None => self.ring.push_back(group),
        }
    }
}

/// Nanoseconds of a copy of a packet, in the median of the groups of `time`.
#[allow(clippy::cast_precision_loss)] // nanoseconds of a group
fn measure(memory: &mut Memory, time: Duration, copy: impl Fn(&[u8], &mut [u8])) -> f64 {
    let from = vec![1; GROUP_BYTES];
    // as where the length is not known before
    let packet = black_box(PACKET_BYTES);
    let mut nanos = Vec::new();
    let began = Instant::now();
    while (began.elapsed() < time || nanos.is_empty())
        && let Some(mut to) = memory.take()
    {
        let group = Instant::now();
        for (from, to) in black_box(&from).chunks_exact(packet).zip(to.chunks_exact_mut(packet)) {
            copy(from, to);
        }
        nanos.push(u64::try_from(group.elapsed().as_nanos()).unwrap_or(u64::MAX));
        memory.give(to);
    }
    percentile(&mut nanos, 0.5) as f64 * PACKET_BYTES as f64 / GROUP_BYTES as f64
}
