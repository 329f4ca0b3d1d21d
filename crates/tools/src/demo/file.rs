//! The first half of the demonstration: a file through a faulty link.

use std::path::Path;
use std::time::{Duration, Instant};

use weft_base::Port;
use weft_socket::Stream;

use super::peer::Damage;
use super::process::Peer;
use super::{Args, name_of};
use crate::exit::{Code, Failure};
use crate::net::{self, LocalNode, NodeFlags, Role};
use crate::progress::{Progress, Style};
use crate::transfer::manifest::Manifest;
use crate::transfer::{LOOK_INTERVAL, Report, SILENCE_MAX, sender};
use crate::units;

/// Data segment of the transfer: what an Ethernet of 1500 B leaves, so that the faults meet as many packets as there.
pub(super) const ETHERNET_MSS: u16 = 1444;

/// A file that went through.
pub(super) struct Transfer {
    pub(super) report: Report,
    pub(super) elapsed: Duration,
    /// What became of the packets of both ends.
    pub(super) damage: Damage,
    pub(super) retransmitted: u64,
}

/// Sends everything in `manifest` to the peer, and compares the digests.
pub(super) fn transfer(args: &Args, manifest: &Manifest, peer: &mut Peer) -> Result<Transfer, Failure> {
    let style = if args.json { Style::Quiet } else { Style::choose(false, false) };
    style.note(&format!(
        "sending {} ({}, {}) to a second process, through a link with {}",
        name_of(manifest),
        units::files(manifest.files()),
        units::bytes(manifest.bytes()),
        args.fault.text
    ));
    let flags = NodeFlags {
        bind: Some(([127, 0, 0, 1], 0).into()),
        fault: Some(args.fault.faults),
        fault_seed: args.fault_seed,
        ..NodeFlags::default()
    };
    let local = LocalNode::open(&flags, Role::Server, "demo")?;
    let (at, port) = peer.places.file;
    let target = (at, Port::new(port).unwrap_or(Port::ECHO));
    let options = args
        .socket()
        .options(weft_base::Service::Stream)
        .mss(ETHERNET_MSS)
        .recv_timeout(SILENCE_MAX)
        .send_timeout(LOOK_INTERVAL);
    let socket = local.node.connect(target, &options).map_err(|error| net::connect_failure(&error))?;
    let stream = Stream::try_from(socket).map_err(|e| Failure::new(Code::Other, e.to_string(), ""))?;
    let progress = Progress::new(&style, "");
    let started_at = Instant::now();
    let sent = sender::send(&stream, manifest, &progress);
    let elapsed = started_at.elapsed();
    progress.clear();
    let report = sent.map_err(|error| error.into_failure("the second process"))?;
    report.result("sent")?;
    let retransmitted = stream.stats().retransmitted;
    let _ = stream.close_timeout(Duration::from_secs(5));
    let there = peer.file()?;
    let here = local.fault_counts().map(|(sent, _)| sent.into()).unwrap_or_default();
    local.shutdown();
    if let Some((code, why)) = there.failure {
        return Err(Failure::new(Code::from_number(code), why, ""));
    }
    if there.digest.as_deref() != Some(report.digest.as_str()) {
        return Err(Failure::new(Code::Digest, "the two processes have different digests", "run it again"));
    }
    Ok(Transfer { report, elapsed, damage: there.damage + here, retransmitted })
}

impl Transfer {
    /// What people are told.
    pub(super) fn lines(&self, received: &Path) -> [String; 4] {
        let (report, damage) = (&self.report, &self.damage);
        let rate = report.bytes as f64 / self.elapsed.as_secs_f64().max(1e-9);
        [
            format!(
                "arrived  {} in {}, {} ({})",
                units::bytes(report.bytes),
                units::duration(self.elapsed),
                units::byte_rate(rate),
                units::bit_rate(rate * 8.0)
            ),
            format!(
                "the link lost {}, doubled {}, reordered {} and damaged {} of {} packets; {} were sent again",
                damage.lost,
                damage.duplicated,
                damage.reordered,
                damage.damaged,
                damage.packets,
                self.retransmitted
            ),
            format!("digest   BLAKE3 {} at both ends", &report.digest),
            format!("file     {}", received.display()),
        ]
    }
}
