//! What the two ends of `weft perf` say to each other, apart from the load: JSON lines on a control connection.
//!
//! ```text
//! client                                 server
//!   greeting, Request        ────────►
//!                            ◄────────   Ready (port for the load) or Refused
//!   greeting on each load connection ─►
//!                            ◄────────   Start: every load connection is there
//!   … load …                              … load …
//!   Finish (bytes sent)      ────────►
//!                            ◄────────   Results
//! ```

use std::io::{self, Read, Write};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weft_socket::{RecvError, SendError, SocketStats};

use crate::cpu::CpuUse;

/// Version of this protocol.
pub(super) const VERSION: u32 = 1;
/// Most load connections of one test.
pub(super) const PARALLEL_MAX: u32 = 128;
/// Largest message or write, in bytes.
pub(super) const SIZE_BYTES_MAX: u64 = 16 << 20;
/// Bytes of the buffers of all connections of a test, at most.
const BUFFERS_BYTES_MAX: u64 = 512 << 20;
/// What the send queue of a connection holds.
const QUEUE_BYTES: u64 = 4 << 20;
/// Longest line on the control connection, in bytes.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Bytes of a greeting.
pub(super) const GREETING_BYTES: usize = 24;
const MAGIC: [u8; 8] = *b"WEFTPERF";

/// The first bytes on each connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Greeting {
    /// Names the test.
    pub(super) cookie: u64,
    /// Number of the load connection; `None` for control.
    pub(super) index: Option<u32>,
}

impl Greeting {
    pub(super) fn emit(self) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        let index = self.index.map_or(0, |index| u64::from(index) + 1);
        bytes[16..].copy_from_slice(&index.to_be_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<8>()?;
        let (cookie, rest) = rest.split_first_chunk()?;
        let index = u64::from_be_bytes(rest.try_into().ok()?);
        let index = match index.checked_sub(1) {
            None => None,
            Some(index) => Some(u32::try_from(index).ok()?),
        };
        (*magic == MAGIC).then(|| Self { cookie: u64::from_be_bytes(*cookie), index })
    }
}

/// Who sends the load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Direction {
    /// The client.
    ToServer,
    /// The server.
    ToClient,
    /// Both at once.
    Both,
}

impl Direction {
    pub(super) fn client_sends(self) -> bool {
        self != Self::ToClient
    }

    pub(super) fn server_sends(self) -> bool {
        self != Self::ToServer
    }
}

/// What the client wants.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) version: u32,
    pub(super) service: Service,
    pub(super) direction: Direction,
    /// Bytes of a message or a write.
    pub(super) size_bytes: u64,
    /// Load connections.
    pub(super) parallel: u32,
    /// How long to send, unless `bytes` ends it.
    pub(super) time_ms: u64,
    /// Bytes that each connection sends, instead of a time.
    pub(super) bytes: Option<u64>,
    /// Lend buffers to the transport and take them from it, without copies.
    #[serde(default)]
    pub(super) zerocopy: bool,
}

/// The service under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Service {
    Stream,
    Datagram,
}

impl Service {
    pub(super) fn socket(self) -> weft_base::Service {
        match self {
            Self::Stream => weft_base::Service::Stream,
            Self::Datagram => weft_base::Service::Datagram,
        }
    }
}

impl Request {
    /// How long the senders send, unless a number of bytes ends it.
    pub(super) fn time(&self) -> Duration {
        Duration::from_millis(self.time_ms)
    }

    fn buffers_bytes(&self) -> u64 {
        self.size_bytes.saturating_mul(self.parallel.into())
    }

    /// Memory that it takes at an end, about.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.buffers_bytes() + QUEUE_BYTES * u64::from(self.parallel)
    }

    /// What is wrong with it.
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            _ if self.version != VERSION => {
                Err(format!("the client speaks version {}, the server {VERSION}", self.version))
            }
            _ if self.parallel == 0 || self.parallel > PARALLEL_MAX => {
                Err(format!("{} connections, where 1 to {PARALLEL_MAX} are possible", self.parallel))
            }
            _ if self.size_bytes == 0 || self.size_bytes > SIZE_BYTES_MAX => Err(format!(
                "messages of {} bytes, where 1 to {SIZE_BYTES_MAX} are possible",
                self.size_bytes
            )),
            _ if self.buffers_bytes() > BUFFERS_BYTES_MAX => Err(format!(
                "{} connections with messages of {} bytes, whose buffers take more than {BUFFERS_BYTES_MAX} bytes",
                self.parallel, self.size_bytes
            )),
            _ if self.bytes.is_none() && self.time_ms == 0 => {
                Err("a time of less than a millisecond, in which nothing can be measured".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// What the server answers to a request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(super) enum Answer {
    /// Come to this port with the load.
    Ready { port: u16 },
    /// No.
    Refused { why: String },
}

/// All load connections are there.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Start {}

/// The client has sent everything: bytes by connection.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Finish {
    pub(super) sent_bytes: Vec<u64>,
}

/// What one end counted.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Results {
    pub(super) cpu: CpuUse,
    pub(super) connections: Vec<ConnectionResult>,
}

/// What one end counted on one load connection.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ConnectionResult {
    /// Bytes that were sent, and how long that took.
    pub sent_bytes: u64,
    /// Messages or writes that were sent.
    pub sent_messages: u64,
    /// From the start to the last send.
    pub sent_seconds: f64,
    /// Bytes that arrived, and when the last of them did.
    pub received_bytes: u64,
    /// Messages or reads.
    pub received_messages: u64,
    /// From the start to the last receive.
    pub received_seconds: f64,
    /// Data packets sent, retransmissions included.
    pub packets_sent: u64,
    /// Data packets sent again.
    pub retransmitted: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Losses that turned out to be late arrivals.
    pub spurious: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Smoothed round-trip time, if there was a sample.
    pub rtt_us: Option<f64>,
    /// Congestion window in packets at the end.
    pub congestion_window: u32,
    /// The congestion controller.
    pub congestion: String,
    /// What kept this end from sending more.
    pub limited_by: String,
    /// Why the connection ended early, if it did.
    pub error: Option<String>,
}

impl ConnectionResult {
    /// Takes over what the socket counted.
    pub(super) fn with_stats(mut self, stats: &SocketStats) -> Self {
        self.packets_sent = stats.packets_sent;
        self.retransmitted = stats.retransmitted;
        self.lost = stats.lost;
        self.spurious = stats.spurious;
        self.timeouts = stats.timeouts;
        self.rtt_us = stats.rtt.map(|rtt| rtt.as_secs_f64() * 1e6);
        self.congestion_window = stats.congestion_window;
        self.congestion = stats.congestion.to_owned();
        self.limited_by = stats.mostly_limited_by().name().to_owned();
        self
    }
}

/// Writes one line.
pub(super) fn tell(stream: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    stream.flush()
}

/// Reads one line.
pub(super) fn hear<T: DeserializeOwned>(stream: &mut impl Read) -> io::Result<T> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte)?;
        if byte[0] == b'\n' {
            return Ok(serde_json::from_slice(&line)?);
        }
        if line.len() >= LINE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an endless line"));
        }
        line.push(byte[0]);
    }
}

/// Whether a blocked operation merely looked up to see if it should go on.
pub(super) fn is_pause_recv(error: &RecvError) -> bool {
    matches!(error, RecvError::TimedOut(_) | RecvError::WouldBlock)
}

/// The same for sending.
pub(super) fn is_pause_send(error: &SendError) -> bool {
    matches!(error, SendError::TimedOut(_) | SendError::WouldBlock)
}

/// Longest wait of one operation before it looks whether it should go on.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_names_test_and_connection() {
        for index in [None, Some(0), Some(127)] {
            let greeting = Greeting { cookie: 0x0123_4567_89AB_CDEF, index };
            assert_eq!(Greeting::parse(&greeting.emit()), Some(greeting));
        }
        assert_eq!(Greeting::parse(b"WEFTPERX0123456701234567"), None);
        assert_eq!(Greeting::parse(b"WEFTPERF"), None);
    }

    #[test]
    fn lines_are_heard_as_told_and_bounded() {
        let mut bytes = Vec::new();
        tell(&mut bytes, &Answer::Ready { port: 7 }).unwrap();
        tell(&mut bytes, &Answer::Refused { why: "no".into() }).unwrap();
        let mut stream = bytes.as_slice();
        assert_eq!(hear::<Answer>(&mut stream).unwrap(), Answer::Ready { port: 7 });
        assert_eq!(hear::<Answer>(&mut stream).unwrap(), Answer::Refused { why: "no".into() });
        assert!(hear::<Answer>(&mut stream).is_err());
        assert!(hear::<Answer>(&mut io::repeat(b'x')).is_err());
    }

    #[test]
    fn an_impossible_request_is_refused_with_the_limit() {
        let good = Request {
            version: VERSION,
            service: Service::Stream,
            direction: Direction::Both,
            size_bytes: 1,
            parallel: 1,
            time_ms: 1,
            bytes: None,
            zerocopy: false,
        };
        assert_eq!(good.check(), Ok(()));
        let mut bad = good;
        bad.parallel = 1000;
        assert!(bad.check().unwrap_err().contains("1 to 128"));
        (bad.parallel, bad.size_bytes) = (1, 1 << 40);
        assert!(bad.check().unwrap_err().contains("messages of"));
        (bad.parallel, bad.size_bytes) = (PARALLEL_MAX, SIZE_BYTES_MAX);
        assert!(bad.check().unwrap_err().contains("buffers"));
        (bad.size_bytes, bad.time_ms) = (1, 0);
        assert!(bad.check().unwrap_err().contains("less than a millisecond"));
    }
}
