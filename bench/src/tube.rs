//! A link between two nodes of one process that is a copy in memory: what a packet costs besides the kernel's part.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weft_link::{Encapsulation, Link, LinkInfo, PollFds, RecvBatch, SendBatch};

const MTU: u32 = 1_500;
const HEADER_BYTES: u32 = 28;
/// How often a sleeping leader looks, as there is no descriptor.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// What is on its way to one end: packets end to end, and where each of them ends.
#[derive(Debug, Default)]
struct Way {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Way {
    fn put(&mut self, head: &[u8], body: &[u8]) {
        self.bytes.extend_from_slice(head);
        self.bytes.extend_from_slice(body);
        self.ends.push(self.bytes.len());
    }
}

/// One end.
#[derive(Debug)]
pub struct Tube {
    local: SocketAddr,
    peer: SocketAddr,
    incoming: Arc<Mutex<Way>>,
    outgoing: Arc<Mutex<Way>>,
}

impl Tube {
    /// Both ends of a link between these addresses.
    #[must_use]
    pub fn pair(here: SocketAddr, there: SocketAddr) -> (Self, Self) {
        let (to, fro): (Arc<Mutex<Way>>, Arc<Mutex<Way>>) = Default::default();
        (
            Self { local: here, peer: there, incoming: fro.clone(), outgoing: to.clone() },
            Self { local: there, peer: here, incoming: to, outgoing: fro },
        )
    }
}

impl Link for Tube {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        let mut way = lock(&self.incoming);
        let count = batch.room().min(way.ends.len());
        let mut start = 0;
        for at in 0..count {
            let end = way.ends[at];
            batch.push_copy(self.peer, &[&way.bytes[start..end]]);
            start = end;
        }
        way.bytes.drain(..start);
        way.ends.drain(..count);
        way.ends.iter_mut().for_each(|end| *end -= start);
        Ok(count)
    }

    fn send(&self, batch: &mut SendBatch) -> io::Result<usize> {
        let mut way = lock(&self.outgoing);
        let count = batch.len();
        for frame in batch.iter() {
            way.put(frame.head, frame.body);
        }
        batch.clear();
        Ok(count)
    }

    fn send_lone(&self, _to: SocketAddr, head: &[u8], body: &[u8]) -> bool {
        lock(&self.outgoing).put(head, body);
        true
    }

    fn info(&self) -> LinkInfo {
        info("tube", self.local)
    }

    fn poll_fds(&self) -> PollFds {
        PollFds::new()
    }

    fn next_due(&self) -> Option<Duration> {
        Some(LOOK_EVERY)
    }
}

/// What a link in memory says of itself.
pub(crate) fn info(name: &str, local: SocketAddr) -> LinkInfo {
    LinkInfo {
        name: name.to_owned(),
        mss: u16::try_from(MTU - HEADER_BYTES).unwrap_or(u16::MAX),
        mtu: MTU,
        local,
        encapsulation: Encapsulation::Simulated,
        gso: false,
        gro: false,
        send_buffer_bytes: 0,
        receive_buffer_bytes: 0,
    }
}

fn lock(way: &Mutex<Way>) -> MutexGuard<'_, Way> {
    way.lock().unwrap_or_else(PoisonError::into_inner)
}
