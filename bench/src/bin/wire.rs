//! A long wire between two interfaces: `wire [OPTION]... SERVER-SIDE CLIENT-SIDE` carries every frame of one to the other,
//! late, through a bottleneck, and with losses if asked for.
//!
//! For a namespace of its own (`bench/veth.sh --wire`), with segmentation offload and checksum offload off at the other
//! ends, so that frames are what a cable would carry. Time is kept to about [`GRAIN`]: frames that are due within it leave
//! together, as asking the kernel for each would take the processor from those that are measured.

use std::collections::VecDeque;
use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use weft_bench::cable::{BATCH_FRAMES, Cable};
use weft_bench::lane::{Lane, Shape};

/// Frames are carried on so often.
const GRAIN: Duration = Duration::from_micros(50);
/// The kernel is asked so often whether it dropped frames.
const COUNT_NANOS: u64 = 1_000_000_000;
/// Bytes of the largest frame: a jumbo frame with its Ethernet header.
const FRAME_BYTES_MAX: usize = 9_216;

/// Carries Ethernet frames between two interfaces as a long wire would.
#[derive(Parser)]
struct Arguments {
    /// The interface towards the server.
    server: String,
    /// The interface towards the client.
    client: String,
    /// Milliseconds from one end to the other, without the queue.
    #[arg(long, default_value_t = 5.0)]
    delay_ms: f64,
    /// Millions of bits a second that pass, in each direction.
    #[arg(long, default_value_t = 3_000)]
    rate_mbit: u64,
    /// KiB that may wait in each direction; what comes then is dropped.
    #[arg(long, default_value_t = 3_750)]
    queue_kib: u64,
    /// Percent of the frames to the server that are lost at random.
    #[arg(long, default_value_t = 0.0)]
    loss: f64,
}

/// A direction: where frames come from and go to by index, and those under way.
struct Direction {
    from: usize,
    to: usize,
    lane: Lane,
    under_way: VecDeque<(u64, Vec<u8>)>,
    /// Memory of frames that have arrived, used again.
    spare: Vec<Vec<u8>>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(never) => match never {},
        // Its namespace is being removed.
        Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wire: {error}");
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of a million
fn run(arguments: &Arguments) -> io::Result<std::convert::Infallible> {
    let shape = Shape {
        delay: Duration::try_from_secs_f64(arguments.delay_ms / 1e3).map_err(io::Error::other)?,
        bits_per_second: arguments.rate_mbit.max(1) * 1_000_000,
        queue_bytes: arguments.queue_kib << 10,
        lost_per_million: 0,
    };
    let lossy = Shape { lost_per_million: (arguments.loss * 1e4).round() as u32, ..shape };
    let mut cables =
        [Cable::open(&arguments.server, FRAME_BYTES_MAX)?, Cable::open(&arguments.client, FRAME_BYTES_MAX)?];
    let seed = u64::from(std::process::id()) << 20;
    let mut directions =
        [Direction::new(1, 0, Lane::new(lossy, seed)), Direction::new(0, 1, Lane::new(shape, seed))];
    let started = Instant::now();
    let now = || u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let mut asked = 0;
    loop {
        let mut is_busy = false;
        for direction in &mut directions {
            is_busy |= direction.take_in(&mut cables, now())?;
            direction.give_out(&cables, now())?;
        }
        if now() - asked > COUNT_NANOS {
            asked = now();
            complain(&cables)?;
        }
        let next =
            directions.iter().filter_map(|direction| direction.under_way.front()).map(|frame| frame.0).min();
        rest(&cables, is_busy, next.map(|due| Duration::from_nanos(due.saturating_sub(now()))));
    }
}

impl Direction {
    fn new(from: usize, to: usize, lane: Lane) -> Self {
        Self { from, to, lane, under_way: VecDeque::new(), spare: Vec::new() }
    }

    /// Takes everything that came in, and tells whether there was any. It counts as come now, at most about [`GRAIN`] late.
    fn take_in(&mut self, cables: &mut [Cable; 2], now: u64) -> io::Result<bool> {
        let Self { lane, under_way, spare, from, .. } = self;
        let mut took = |frame: &[u8]| {
            if let Some(due) = lane.admit(now, frame.len()) {
                let mut copy = spare.pop().unwrap_or_default();
                copy.clear();
                copy.extend_from_slice(frame);
                under_way.push_back((due, copy));
            }
        };
        let mut came = cables[*from].recv(&mut took)?;
        let is_busy = came > 0;
        while came == BATCH_FRAMES {
            came = cables[*from].recv(&mut took)?;
        }
        Ok(is_busy)
    }

    /// Sends what has arrived at the other end.
    fn give_out(&mut self, cables: &[Cable; 2], now: u64) -> io::Result<()> {
        loop {
            let due = self.under_way.iter().take(BATCH_FRAMES).take_while(|(due, _)| *due <= now).count();
            if due == 0 {
                return Ok(());
            }
            let mut frames: Vec<&mut [u8]> =
                self.under_way.iter_mut().take(due).map(|(_, frame)| frame.as_mut_slice()).collect();
            let taken = cables[self.to].send(&mut frames)?;
            self.spare.extend(self.under_way.drain(..taken).map(|(_, frame)| frame));
            if taken < due {
                return Ok(());
            }
        }
    }
}

/// Says it when frames came faster than this program took them: then it is no wire of the shape that was asked for.
fn complain(cables: &[Cable; 2]) -> io::Result<()> {
    for cable in cables {
        let dropped = cable.dropped()?;
        if dropped > 0 {
            eprintln!(
                "wire: TOO SLOW, the kernel dropped {dropped} frames that are not of the queue or the loss"
            );
        }
    }
    Ok(())
}

/// Sleeps for a grain if frames come one after the other; else until one comes or the next is due.
fn rest(cables: &[Cable; 2], is_busy: bool, due_in: Option<Duration>) {
    if is_busy {
        return std::thread::sleep(GRAIN);
    }
    let mut fds =
        cables.each_ref().map(|cable| libc::pollfd { fd: cable.fd(), events: libc::POLLIN, revents: 0 });
    // Seconds and nanoseconds of a way's delay fit every type.
    let limit = due_in.map(|due_in| due_in.max(GRAIN)).map(|limit| libc::timespec {
        tv_sec: limit.as_secs().cast_signed(),
        tv_nsec: i64::from(limit.subsec_nanos()),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: two descriptors and a time, which live through the call. The next receive sees an error.
    unsafe { libc::ppoll(fds.as_mut_ptr(), 2, limit, std::ptr::null()) };
}
