//! The other process of the demonstration: takes the file and the load, and tells what arrived.
//!
//! It is this program again, started by `weft demo`, and speaks JSON lines on its standard input and output. It ends when
//! its standard input does, so that it never outlives the demonstration.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weft_link::FaultCounts;
use weft_socket::{Listener, Options, Stream};

use super::file::ETHERNET_MSS;
use super::points::Contender;
use super::rivals::{Arrived, drain_cdp, serve_tcp, serve_udp};
use crate::exit::{Code, Failure, cause};
use crate::net::{self, LocalNode, NodeFlags, Role, SocketFlags};
use crate::transfer::destination::Destination;
use crate::transfer::{LOOK_INTERVAL, SILENCE_MAX, receiver};

/// The other half of `weft demo`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Directory that the file arrives in
    dir: PathBuf,

    #[command(flatten)]
    node: NodeFlags,
    #[command(flatten)]
    socket: SocketFlags,
}

/// Where everything listens.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(super) struct Places {
    /// The node behind the faulty link, and the port for the file.
    pub(super) file: (SocketAddr, u16),
    /// The node on the clean link, with the ports for messages and for bulk.
    pub(super) load: (SocketAddr, u16, u16),
    pub(super) tcp: SocketAddr,
    pub(super) udp: SocketAddr,
}

/// What the demonstration asks.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub(super) enum Question {
    /// Wait for the end of the transfer; answered by [`FileReport`].
    File,
    /// What has arrived from a contender; answered by [`Count`].
    Count(Line),
}

/// The connections that carry the load.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    CdpMessages,
    CdpBulk,
    Tcp,
    Udp,
}

impl Line {
    pub(super) const ALL: [Self; 4] = [Self::CdpMessages, Self::CdpBulk, Self::Tcp, Self::Udp];

    pub(super) fn of(contender: Contender, is_bulk: bool) -> Self {
        match (contender, is_bulk) {
            (Contender::Cdp, false) => Self::CdpMessages,
            (Contender::Cdp, true) => Self::CdpBulk,
            (Contender::Tcp, _) => Self::Tcp,
            (Contender::Udp, _) => Self::Udp,
        }
    }
}

/// How the file arrived.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct FileReport {
    /// Digest over all files, as the receiver computed it.
    pub(super) digest: Option<String>,
    /// Exit code and sentence, if it did not arrive.
    pub(super) failure: Option<(u8, String)>,
    /// What became of the packets that this end sent.
    pub(super) damage: Damage,
}

/// What a faulty link did.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
pub(super) struct Damage {
    pub(super) packets: u64,
    pub(super) lost: u64,
    pub(super) duplicated: u64,
    pub(super) reordered: u64,
    pub(super) damaged: u64,
}

impl From<FaultCounts> for Damage {
    fn from(counts: FaultCounts) -> Self {
        Self {
            packets: counts.packets,
            lost: counts.lost + counts.lost_in_bursts,
            duplicated: counts.duplicated,
            reordered: counts.reordered,
            damaged: counts.corrupted + counts.truncated,
        }
    }
}

impl std::ops::Add for Damage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            lost: self.lost + other.lost,
            duplicated: self.duplicated + other.duplicated,
            reordered: self.reordered + other.reordered,
            damaged: self.damaged + other.damaged,
        }
    }
}

/// Bytes that have arrived, and when that was so on this process's clock.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub(super) struct Count {
    pub(super) bytes: u64,
    pub(super) at_ns: u64,
}

/// Runs the other process.
///
/// # Errors
/// When a listener cannot be opened.
pub fn run(args: &Args) -> Result<(), Failure> {
    let destination = Destination::open(&args.dir, true)?;
    let faulty = LocalNode::open(&args.node, Role::Server, "demo-peer")?;
    let clean = NodeFlags { fault: None, fault_in: None, ..args.node.clone() };
    let clean = LocalNode::open(&clean, Role::Server, "demo-peer-load")?;
    let listen = |local: &LocalNode, options: &Options| {
        local.node.listen(0, options).map_err(|error| net::listen_failure(&error))
    };
    let (stream, datagram) =
        (args.socket.options(weft_base::Service::Stream), args.socket.options(weft_base::Service::Datagram));
    // Smaller packets, more room for them: the window is counted in packets, and its memory in bytes.
    let file = listen(&faulty, &stream.clone().mss(ETHERNET_MSS))?;
    let messages = listen(&clean, &datagram)?;
    let bulk = listen(&clean, &stream)?;

    let arrived: HashMap<Line, Arc<Arrived>> =
        Line::ALL.into_iter().map(|line| (line, Arc::default())).collect();
    let io = |error: io::Error| Failure::new(Code::Other, cause(&error), "");
    let places = Places {
        file: (faulty.node.underlay(), file.local_address().port.get()),
        load: (clean.node.underlay(), messages.local_address().port.get(), bulk.local_address().port.get()),
        tcp: serve_tcp(arrived[&Line::Tcp].clone()).map_err(io)?,
        udp: serve_udp(arrived[&Line::Udp].clone()).map_err(io)?,
    };
    serve_cdp(messages, arrived[&Line::CdpMessages].clone());
    serve_cdp(bulk, arrived[&Line::CdpBulk].clone());
    let transfer = thread::spawn(move || take_file(&file, &destination, &faulty));
    answer(&places, transfer, &arrived).map_err(io)?;
    clean.shutdown();
    Ok(())
}

fn serve_cdp(listener: Listener, arrived: Arc<Arrived>) {
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            drain_cdp(&socket, &arrived);
        }
    });
}

fn take_file(listener: &Listener, destination: &Destination, local: &LocalNode) -> FileReport {
    let received = listener.accept().map_err(|error| net::accept_failure(&error)).and_then(|socket| {
        let stream = Stream::try_from(socket).map_err(|e| Failure::new(Code::Other, e.to_string(), ""))?;
        stream.set_recv_timeout(Some(SILENCE_MAX));
        stream.set_send_timeout(Some(LOOK_INTERVAL));
        let report = receiver::receive(&stream, destination, &()).map_err(|e| e.into_failure("the sender"));
        // The sender closes first, when it has read the last word.
        stream.set_recv_timeout(Some(Duration::from_secs(5)));
        let _ = stream.recv(&mut [0]);
        let _ = stream.close_timeout(Duration::from_secs(1));
        report
    });
    let damage = local.fault_counts().map(|(sent, _)| sent.into()).unwrap_or_default();
    match received {
        Ok(report) => FileReport { digest: Some(report.digest), failure: None, damage },
        Err(failure) => {
            FileReport { digest: None, failure: Some((failure.code.number(), failure.to_string())), damage }
        }
    }
}

fn answer(
    places: &Places,
    transfer: thread::JoinHandle<FileReport>,
    arrived: &HashMap<Line, Arc<Arrived>>,
) -> io::Result<()> {
    let started_at = Instant::now();
    let mut transfer = Some(transfer);
    tell(places)?;
    for line in io::stdin().lock().lines() {
        match serde_json::from_str(&line?)? {
            Question::File => {
                let joined = transfer.take().and_then(|thread| thread.join().ok());
                tell(&joined.ok_or(io::ErrorKind::InvalidInput)?)?;
            }
            Question::Count(line) => {
                let bytes = arrived.get(&line).map_or(0, |arrived| arrived.bytes());
                let at_ns = u64::try_from(started_at.elapsed().as_nanos()).unwrap_or(u64::MAX);
                tell(&Count { bytes, at_ns })?;
            }
        }
    }
    Ok(())
}

fn tell(value: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    out.flush()
}
