//! Throughput of CDP, TCP and UDP, interleaved: short windows, contender after contender, round after round.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weft_base::{Port, Service};
use weft_socket::{Node, Socket};

use super::peer::{Line, Places};
use super::points::{Contender, Load, Points, Window};
use super::process::Peer;
use super::rivals::{BULK_BYTES, Carrier, Tcp, UDP_BULK_BYTES, Udp};
use crate::exit::{Code, Failure, cause};
use crate::net::{self, SocketFlags};

/// Message sizes of the papers' Figures 8 and 11, and 1444 B: what fits a packet over UDP at an MTU of 1500.
pub(super) const SIZES: [usize; 9] = [1, 4, 16, 64, 256, 512, 1024, 1444, 1472];
/// The same, for the impatient.
pub(super) const QUICK_SIZES: [usize; 3] = [64, 1024, 1444];
/// Time from the first message to the first look.
const WARM_UP: Duration = Duration::from_millis(40);
/// Longest wait until everything sent has arrived.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// How long and how often.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    pub(super) window: Duration,
    pub(super) rounds: usize,
    /// No round begins later than this; the first always runs.
    pub(super) no_round_after: Instant,
    pub(super) sizes: Vec<usize>,
}

impl Schedule {
    pub(super) fn loads(&self) -> Vec<Load> {
        self.sizes.iter().map(|&size| Load::Messages(size)).chain([Load::Bulk]).collect()
    }

    /// Windows in all.
    pub(super) fn windows(&self) -> u64 {
        (self.loads().len() * Contender::ALL.len() * self.rounds) as u64
    }
}

/// The connections of this end.
pub(super) struct Lines {
    messages: Box<dyn Carrier>,
    bulk: Box<dyn Carrier>,
    tcp: Box<dyn Carrier>,
    udp: Box<dyn Carrier>,
    /// TCP's congestion control.
    pub(super) tcp_control: String,
    /// CDP's largest data segment.
    pub(super) mss: u16,
}

impl Lines {
    pub(super) fn open(node: &Node, places: &Places, socket: &SocketFlags) -> Result<Self, Failure> {
        let (at, messages_port, bulk_port) = places.load;
        let connect = |port, service| {
            let port = Port::new(port).unwrap_or(Port::ECHO);
            node.connect((at, port), &socket.options(service)).map_err(|e| net::connect_failure(&e))
        };
        let messages = connect(messages_port, Service::Datagram)?;
        let bulk = connect(bulk_port, Service::Stream)?;
        let (tcp, tcp_control) = Tcp::connect(places.tcp).map_err(|error| rival_failed("TCP", &error))?;
        let udp = Udp::connect(places.udp).map_err(|error| rival_failed("UDP", &error))?;
        Ok(Self {
            messages: Box::new(messages),
            tcp: Box::new(tcp),
            udp: Box::new(udp),
            tcp_control,
            mss: settled_mss(&bulk),
            bulk: Box::new(bulk),
        })
    }

    fn carrier(&mut self, line: Line) -> &mut Box<dyn Carrier> {
        match line {
            Line::CdpMessages => &mut self.messages,
            Line::CdpBulk => &mut self.bulk,
            Line::Tcp => &mut self.tcp,
            Line::Udp => &mut self.udp,
        }
    }
}

/// Runs the whole schedule; `on_window` is told of each window.
pub(super) fn measure(
    lines: &mut Lines,
    peer: &mut Peer,
    schedule: &Schedule,
    mut on_window: impl FnMut(&Window),
) -> Result<Points, Failure> {
    let mut points = Points::default();
    for round in 0..schedule.rounds {
        if round > 0 && Instant::now() > schedule.no_round_after {
            break;
        }
        for load in schedule.loads() {
            for contender in in_turn(round) {
                let window = one(lines, peer, schedule.window, contender, load, round)?;
                on_window(&window);
                points.windows.push(window);
            }
        }
    }
    Ok(points)
}

/// The largest data segment, when there was time to prove larger ones than the first.
fn settled_mss(socket: &Socket) -> u16 {
    thread::sleep(WARM_UP);
    socket.stats().mss
}

/// Each round begins with another contender, so that none always comes first.
fn in_turn(round: usize) -> [Contender; 3] {
    let mut order = Contender::ALL;
    order.rotate_left(round % Contender::ALL.len());
    order
}

fn size_of(contender: Contender, load: Load) -> usize {
    match (load, contender) {
        (Load::Messages(size), _) => size,
        (Load::Bulk, Contender::Udp) => UDP_BULK_BYTES,
        (Load::Bulk, Contender::Cdp | Contender::Tcp) => BULK_BYTES,
    }
}

fn one(
    lines: &mut Lines,
    peer: &mut Peer,
    window: Duration,
    contender: Contender,
    load: Load,
    round: usize,
) -> Result<Window, Failure> {
    let (line, size_bytes) = (Line::of(contender, load == Load::Bulk), size_of(contender, load));
    let carrier = lines.carrier(line);
    let (stop, sent_bytes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let origin = peer.count(line)?.bytes;
    let (before, after) = thread::scope(|scope| {
        let sender = scope.spawn(|| pour(carrier.as_mut(), size_bytes, &stop, &sent_bytes));
        thread::sleep(WARM_UP);
        let before = peer.count(line);
        thread::sleep(window);
        let after = peer.count(line);
        stop.store(true, Ordering::Relaxed);
        let sent = sender.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        sent.map_err(|error| rival_failed(contender.name(), &error))?;
        Ok::<_, Failure>((before?, after?))
    })?;
    let sent_bytes = sent_bytes.load(Ordering::Relaxed);
    let arrived_bytes = drain(peer, line, origin, sent_bytes)?;
    let seconds = (after.at_ns - before.at_ns) as f64 / 1e9;
    let bytes = (after.bytes - before.bytes) as f64;
    Ok(Window {
        contender,
        load,
        round,
        size_bytes,
        mbit_per_second: bytes * 8.0 / 1e6 / seconds,
        messages_per_second: bytes / size_bytes as f64 / seconds,
        lost_share: 1.0 - arrived_bytes as f64 / sent_bytes.max(1) as f64,
    })
}

fn pour(
    carrier: &mut dyn Carrier,
    size_bytes: usize,
    stop: &AtomicBool,
    sent_bytes: &AtomicU64,
) -> io::Result<()> {
    let message = vec![0x57; size_bytes];
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        carrier.send(&message)?;
        sent += size_bytes as u64;
    }
    sent_bytes.store(sent, Ordering::Relaxed);
    Ok(())
}

/// Waits until everything has arrived or nothing more comes, so that no contender disturbs the next.
fn drain(peer: &mut Peer, line: Line, origin: u64, sent_bytes: u64) -> Result<u64, Failure> {
    let started_at = Instant::now();
    let (mut last, mut still_since) = (0, Instant::now());
    loop {
        let arrived = peer.count(line)?.bytes - origin;
        if arrived != last {
            (last, still_since) = (arrived, Instant::now());
        }
        // UDP does not deliver what it lost, however long one waits.
        let patience = if line == Line::Udp { Duration::from_millis(20) } else { DRAIN_MAX };
        if arrived >= sent_bytes || still_since.elapsed() > patience || started_at.elapsed() > DRAIN_MAX {
            return Ok(arrived);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn rival_failed(name: &str, error: &io::Error) -> Failure {
    Failure::new(Code::Other, format!("the {name} connection failed: {}", cause(error)), "try `weft doctor`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_begins_with_another_contender() {
        let firsts: Vec<Contender> = (0..3).map(|round| in_turn(round)[0]).collect();
        assert_eq!(firsts, Contender::ALL);
    }

    #[test]
    fn every_load_is_measured_with_every_contender_in_every_round() {
        let schedule = Schedule {
            window: Duration::ZERO,
            rounds: 3,
            no_round_after: Instant::now(),
            sizes: SIZES.to_vec(),
        };
        assert_eq!(schedule.windows(), 90);
        assert_eq!(size_of(Contender::Udp, Load::Bulk), 65_507);
    }
}
