//! A recording of all packets that Wireshark opens.

mod blocks;
mod packet;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::link::pass_on;
use crate::{Link, LinkInfo, RecvBatch, SendBatch};
use blocks::Direction;

/// A [`Link`] that records every packet of another as pcapng (draft-ietf-opsawg-pcapng).
///
/// Each packet is recorded as the data of a UDP datagram in an Ethernet frame, whatever the device is, so that Wireshark
/// shows addresses and ports and hands the data to a dissector for the port. Time is the wall clock's, in nanoseconds.
/// Records are written when 64 KiB have gathered, by [`Pcap::flush`], and when the link is dropped.
///
/// ```
/// use weft_link::{Hub, Link, Pcap, SendBatch};
///
/// let hub = Hub::new(1500);
/// let (a, b) = (hub.endpoint()?, hub.endpoint()?);
/// let recorded = Pcap::new(a, Vec::new());
/// let mut out = SendBatch::new();
/// out.push_slice(b.info().local, b"a packet");
/// recorded.send(&mut out)?;
/// let file = recorded.into_writer()?;
/// assert_eq!(file[..4], [0x0A, 0x0D, 0x0D, 0x0A]);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Pcap<L, W: Write + Send = File> {
    inner: L,
    local: SocketAddr,
    recording: Mutex<Recording<W>>,
}

struct Recording<W: Write> {
    /// Empty only when the writer was given back.
    writer: Option<BufWriter<W>>,
    /// The first thing that went wrong; nothing is recorded after it.
    error: Option<io::Error>,
    /// Bytes that may still be written.
    left_bytes: u64,
    omitted: u64,
}

impl<L: Link> Pcap<L, File> {
    /// Records what passes `inner` in a new file at `path`.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(inner: L, path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self::new(inner, File::create(path)?))
    }
}

impl<L: Link, W: Write + Send> Pcap<L, W> {
    /// Records what passes `inner` to `writer`.
    pub fn new(inner: L, writer: W) -> Self {
        Self::with_limit(inner, writer, u64::MAX)
    }

    /// As [`Pcap::new`], but records no more than about `limit_bytes`; packets beyond are counted.
    pub fn with_limit(inner: L, writer: W, limit_bytes: u64) -> Self {
        let info = inner.info();
        let writer = BufWriter::with_capacity(64 << 10, writer);
        let mut recording =
            Recording { writer: Some(writer), error: None, left_bytes: limit_bytes, omitted: 0 };
        recording.write(&blocks::start(&info.name));
        Self { inner, local: info.local, recording: Mutex::new(recording) }
    }

    /// Hands what is recorded to the writer.
    ///
    /// # Errors
    /// The first error that the writer gave, now or before; nothing is recorded after it.
    pub fn flush(&self) -> io::Result<()> {
        self.locked().flush()
    }

    /// Packets that were not recorded because of the limit.
    pub fn omitted(&self) -> u64 {
        self.locked().omitted
    }

    /// Ends the recording and gives the writer back.
    ///
    /// # Errors
    /// The first error that the writer gave.
    pub fn into_writer(self) -> io::Result<W> {
        let mut recording = self.locked();
        recording.flush()?;
        let writer = recording.writer.take().ok_or(io::ErrorKind::BrokenPipe)?;
        drop(recording);
        writer.into_inner().map_err(io::IntoInnerError::into_error)
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Recording<W>> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Write> Recording<W> {
    fn write(&mut self, bytes: &[u8]) {
        let (Some(writer), None) = (&mut self.writer, &self.error) else { return };
        self.error = writer.write_all(bytes).err();
    }

    fn packet(&mut self, block: &[u8]) {
        match self.left_bytes.checked_sub(block.len() as u64) {
            Some(left) => {
                self.left_bytes = left;
                self.write(block);
            }
            None => {
                self.left_bytes = 0;
                self.omitted += 1;
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(error) = &self.error {
            return Err(io::Error::new(error.kind(), error.to_string()));
        }
        self.writer.as_mut().map_or(Ok(()), BufWriter::flush)
    }
}

impl<L: Link, W: Write + Send> Link for Pcap<L, W> {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        let before = batch.len();
        let count = self.inner.recv(batch)?;
        if count > 0 {
            let now_ns = now_ns();
            let mut recording = self.locked();
            for packet in &batch.packets_mut()[before..] {
                let frame = packet::synthesize(packet.from, self.local, &[&packet.bytes]);
                recording.packet(&blocks::packet(now_ns, Direction::In, &frame));
            }
        }
        Ok(count)
    }

    fn send(&self, batch: &mut SendBatch) -> io::Result<usize> {
        let (now_ns, before) = (now_ns(), batch.len());
        let frames =
            batch.iter().map(|frame| packet::synthesize(self.local, frame.to, &[frame.head, frame.body]));
        let blocks: Vec<_> = frames.map(|frame| blocks::packet(now_ns, Direction::Out, &frame)).collect();
        let result = self.inner.send(batch);
        let mut recording = self.locked();
        // What stays in the batch will be sent, and recorded, by a later call.
        for block in &blocks[..before - batch.len()] {
            recording.packet(block);
        }
        result
    }

    fn info(&self) -> LinkInfo {
        let info = self.inner.info();
        LinkInfo { name: format!("pcap({})", info.name), ..info }
    }

    pass_on!(all self => self.inner);
}

/// The wall clock in nanoseconds since 1970.
fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
