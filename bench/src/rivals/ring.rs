//! The bare packet socket: Ethernet frames sent by `send`, received by a `TPACKET_V2` ring, there and back.
//!
//! Both ends take the first interface that is not the loopback one. The client's first frame is a broadcast; each then knows the
//! other's Ethernet address.

use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::{Choices, Outcome, Request, Tally, say_ready};
use crate::frames::{Frames, Receive, Send};

/// Few slots, 64, so that they stay in a core's cache.
const BLOCKS: usize = 2;
/// The first byte of a message, and of the one that ends a test.
const MESSAGE: u8 = 0xA5;
const END: u8 = 0xEE;
const PATIENCE: Duration = Duration::from_millis(100);
const DESERTED: Duration = Duration::from_secs(5);
/// Looks between two questions for the time.
const LOOKS: usize = 256;

fn open() -> io::Result<Frames> {
    let devices = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    let names = devices.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim());
    let name = names.into_iter().find(|name| *name != "lo").ok_or(io::ErrorKind::NotFound)?;
    Frames::open(name, BLOCKS, Receive::V2, Send::Calls)
}

/// Waits for a frame, for at most about `limit`: by looking at the ring, or asleep unless `spin`.
fn wait<T>(
    ring: &mut Frames,
    spin: bool,
    limit: Duration,
    read: impl Fn(&[u8]) -> T,
) -> io::Result<Option<T>> {
    let started = Instant::now();
    loop {
        for _ in 0..LOOKS {
            if let Some(result) = ring.pop(&read) {
                return Ok(Some(result));
            }
            if !spin {
                weft_link::wait(&[ring.fd()], Some(limit))?;
                break;
            }
            std::hint::spin_loop();
        }
        if started.elapsed() > limit {
            return Ok(None);
        }
    }
}

/// The sender of a frame, and the first byte of its data.
fn look(frame: &[u8]) -> ([u8; 6], u8) {
    match frame {
        [_, _, _, _, _, _, a, b, c, d, e, f, _, _, first, ..] => ([*a, *b, *c, *d, *e, *f], *first),
        _ => ([0; 6], END),
    }
}

pub(super) fn serve(request: &Request, control: &TcpStream) -> io::Result<Tally> {
    let mut ring = open()?;
    say_ready(control, control.local_addr()?)?;
    let mut answer = ring.frame([0; 6], MESSAGE, request.size);
    let (started, mut tally) = (Instant::now(), Tally::default());
    while let Some((from, first)) = wait(&mut ring, request.spin, DESERTED, look)? {
        if first == END {
            break;
        }
        answer[..6].copy_from_slice(&from);
        request.code.run_before();
        ring.send(&answer, 1)?;
        request.code.run_behind();
        tally.messages += 1;
        tally.bytes += request.size as u64;
    }
    tally.seconds = started.elapsed().as_secs_f64();
    Ok(tally)
}

pub(super) fn ping(request: &Request, choices: &Choices) -> io::Result<Outcome> {
    let mut ring = open()?;
    let mut frame = ring.frame([0xFF; 6], MESSAGE, request.size);
    let (started, mut round_trips_ns, mut sent) = (Instant::now(), Vec::new(), 0);
    while started.elapsed() < choices.time {
        let left = Instant::now();
        request.code.run_before();
        ring.send(&frame, 1)?;
        request.code.run_behind();
        sent += 1;
        if let Some((from, _)) = wait(&mut ring, request.spin, PATIENCE, look)? {
            round_trips_ns.push(u64::try_from(left.elapsed().as_nanos()).unwrap_or(u64::MAX));
            frame[..6].copy_from_slice(&from);
        }
    }
    let end = ring.frame([0xFF; 6], END, request.size);
    ring.send(&end, 3)?;
    Ok(Outcome { sent, round_trips_ns, ..Outcome::default() })
}
