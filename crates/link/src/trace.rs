//! One line per packet, for people.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::link::pass_on;
use crate::{Link, LinkInfo, RecvBatch, SendBatch};

/// A [`Link`] that writes a line for every packet of another.
///
/// A line has the seconds since the start, `RX` or `TX`, the underlay address, the flags, source and destination,
/// sequence number (as it is on the wire, so maybe sealed), acknowledgement, window, length. Bytes are looked at only as
/// far as the header goes, and nothing is checked.
///
/// ```
/// use weft_link::{Hub, Link, SendBatch, Trace};
///
/// let hub = Hub::new(1500);
/// let (a, b) = (hub.endpoint()?, hub.endpoint()?);
/// let traced = Trace::new(a, Vec::new());
/// let mut out = SendBatch::new();
/// out.push_slice(b.info().local, b"not a packet");
/// traced.send(&mut out)?;
/// let text = String::from_utf8(traced.into_writer()).unwrap();
/// assert!(text.ends_with("TX 127.77.0.2:64064 short, 12 bytes\n"), "{text}");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Trace<L, W> {
    inner: L,
    writer: Mutex<W>,
    started: Instant,
}

impl<L: Link, W: Write + Send> Trace<L, W> {
    /// Writes what passes `inner` to `writer`. An error of the writer disturbs nobody: the line is lost.
    pub fn new(inner: L, writer: W) -> Self {
        Self { inner, writer: Mutex::new(writer), started: Instant::now() }
    }

    /// Gives the writer back.
    pub fn into_writer(self) -> W {
        self.writer.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, lines: &str) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // A trace must not stop what it traces.
        let _ = writer.write_all(lines.as_bytes());
    }
}

impl<L: Link, W: Write + Send> Link for Trace<L, W> {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        let before = batch.len();
        let count = self.inner.recv(batch)?;
        let (elapsed, mut lines) = (self.started.elapsed(), String::new());
        for packet in &batch.packets_mut()[before..] {
            line(&mut lines, elapsed, "RX", packet.from, &packet.bytes, packet.bytes.len());
        }
        if count > 0 {
            self.write(&lines);
        }
        Ok(count)
    }

    fn send(&self, batch: &mut SendBatch) -> io::Result<usize> {
        let (elapsed, before) = (self.started.elapsed(), batch.len());
        let lines: Vec<String> = batch
            .iter()
            .map(|frame| {
                let mut text = String::new();
                let start: Vec<u8> = frame.head.iter().chain(frame.body).take(28).copied().collect();
                line(&mut text, elapsed, "TX", frame.to, &start, frame.len());
                text
            })
            .collect();
        let result = self.inner.send(batch);
        // What stays in the batch will be sent, and traced, by a later call.
        self.write(&lines[..before - batch.len()].concat());
        result
    }

    fn info(&self) -> LinkInfo {
        let info = self.inner.info();
        LinkInfo { name: format!("trace({})", info.name), ..info }
    }

    pass_on!(all self => self.inner);
}

/// Appends one line for a packet of `len` bytes that begins with `start`.
fn line(out: &mut String, elapsed: Duration, way: &str, peer: SocketAddr, start: &[u8], len: usize) {
    let (seconds, micros) = (elapsed.as_secs(), elapsed.subsec_micros());
    let written = write!(out, "{seconds}.{micros:06} {way} {peer} ");
    let described = match start.first_chunk::<28>() {
        Some(header) => describe(out, header, len),
        None => writeln!(out, "short, {len} bytes"),
    };
    // Writing to a string does not fail.
    debug_assert!(written.and(described).is_ok());
}

/// The header, as section 2 of the specification draws it.
fn describe(out: &mut String, header: &[u8; 28], len: usize) -> std::fmt::Result {
    let number = |range: std::ops::Range<usize>| {
        header[range].iter().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte))
    };
    let (version, hop) = (header[0] >> 4, header[0] & 3);
    write!(out, "{}", flags(header[4]))?;
    write!(out, " {:#08x}:{} > {:#08x}:{}", number(5..8), number(10..12), number(1..4), number(8..10))?;
    write!(out, " seq={:016x} ack={:08x} win={}", number(16..24), number(24..28), number(14..16))?;
    let length = number(12..14);
    write!(out, " len={length}")?;
    for (is_told, word) in [(header[0] & 8 != 0, " rtx"), (header[0] & 4 != 0, " ce")] {
        out.push_str(if is_told { word } else { "" });
    }
    if hop > 0 {
        write!(out, " hop={hop}")?;
    }
    if version != 1 {
        write!(out, " version={version}")?;
    }
    if length != len as u64 {
        write!(out, " but {len} bytes")?;
    }
    out.push('\n');
    Ok(())
}

fn flags(byte: u8) -> String {
    const NAMES: [&str; 8] = ["FIN", "SYN", "RST", "DAT", "ACK", "PIN", "ECE", "EOM"];
    let set = (0..8).filter(|bit| byte >> bit & 1 == 1).map(|bit| NAMES[bit]);
    let text = set.collect::<Vec<_>>().join("|");
    if text.is_empty() { "none".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hub;

    /// A retransmitted DAT|ACK with EOM from 0x00abcd:5000 to 0x000017:7, with two bytes of data.
    const PACKET: [u8; 30] = [
        0x18, 0x00, 0x00, 0x17, 0x98, 0x00, 0xAB, 0xCD, 0x00, 0x07, 0x13, 0x88, 0x00, 0x1E, 0x00,
        0x40, //
        0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x0A, 0x0B, 0x0C, 0x0D, 0xEE, 0xFF,
    ];

    #[test]
    fn a_packet_is_one_line_on_either_side() {
        let hub = Hub::new(1500);
        let (a, b) = (
            Trace::new(hub.endpoint().unwrap(), Vec::new()),
            Trace::new(hub.endpoint().unwrap(), Vec::new()),
        );
        let mut batch = SendBatch::new();
        batch.heads_mut().extend_from_slice(&PACKET[..10]);
        batch.push(b.info().local, 0..10, bytes::Bytes::from_static(&PACKET[10..]), false);
        a.send(&mut batch).unwrap();
        b.recv(&mut RecvBatch::new()).unwrap();
        let told =
            "DAT|ACK|EOM 0x00abcd:5000 > 0x000017:7 seq=0102030405060708 ack=0a0b0c0d win=64 len=30 rtx\n";
        for (traced, way) in [(a, "TX 127.77.0.2:64064"), (b, "RX 127.77.0.1:64064")] {
            let text = String::from_utf8(traced.into_writer()).unwrap();
            assert!(text.ends_with(&format!(" {way} {told}")), "{text}");
        }
    }

    #[test]
    fn what_is_odd_is_told() {
        let mut odd = PACKET;
        (odd[0], odd[4]) = (0x26, 0);
        let mut text = String::new();
        line(&mut text, Duration::from_millis(1500), "RX", "10.0.0.1:9".parse().unwrap(), &odd, 29);
        assert!(text.starts_with("1.500000 RX 10.0.0.1:9 none "), "{text}");
        assert!(text.ends_with("len=30 ce hop=2 version=2 but 29 bytes\n"), "{text}");
    }
}
