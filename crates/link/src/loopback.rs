//! A network within the process: a hub and any number of endpoints, for tests and demonstrations.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use bytes::BytesMut;
use smallvec::smallvec;

use crate::link::HEADER_BYTES;
use crate::{
    Encapsulation, Frame, Link, LinkInfo, LinkStats, PollFds, Received, RecvBatch, SendBatch, Waker,
};

/// Packets that wait at one endpoint; more are dropped and counted.
pub const QUEUE_PACKETS: usize = 4_096;
/// The port that endpoints of a hub have.
const PORT: u16 = 64_064;

/// A network within the process that carries packets between its endpoints, whole and in order.
///
/// ```
/// use weft_link::{Hub, Link, RecvBatch, SendBatch};
///
/// let hub = Hub::new(1500);
/// let (a, b) = (hub.endpoint()?, hub.endpoint()?);
/// let mut out = SendBatch::new();
/// out.push_slice(b.info().local, b"a packet");
/// a.send(&mut out)?;
///
/// let mut packets = RecvBatch::new();
/// assert_eq!(b.recv(&mut packets)?, 1);
/// let packet = packets.drain().next().unwrap();
/// assert_eq!((packet.from, &packet.bytes[..]), (a.info().local, &b"a packet"[..]));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Hub {
    shared: Arc<Shared>,
}

struct Shared {
    /// The endpoint at index `n` has the address that [`address`] gives for `n`.
    inboxes: RwLock<Vec<Arc<Inbox>>>,
    frame_bytes_max: u32,
}

/// What waits at one endpoint. `queue` and `stats` are locked one after the other, never together.
struct Inbox {
    queue: Mutex<VecDeque<Received>>,
    ready: Waker,
    stats: Mutex<LinkStats>,
}

/// One end of a [`Hub`], as a [`Link`].
pub struct Endpoint {
    hub: Hub,
    inbox: Arc<Inbox>,
    local: SocketAddr,
}

impl Hub {
    /// A hub that carries frames of at most `mtu` bytes, CDP's header included.
    #[must_use]
    pub fn new(mtu: u32) -> Self {
        let inboxes = RwLock::new(Vec::new());
        Self { shared: Arc::new(Shared { inboxes, frame_bytes_max: mtu.min(65_535) }) }
    }

    /// Adds an endpoint, with an address of its own. Its place is kept after it is dropped.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn endpoint(&self) -> io::Result<Endpoint> {
        let inbox =
            Arc::new(Inbox { queue: Mutex::default(), ready: Waker::new()?, stats: Mutex::default() });
        let mut inboxes = self.shared.inboxes.write().unwrap_or_else(PoisonError::into_inner);
        let local = address(inboxes.len());
        inboxes.push(Arc::clone(&inbox));
        Ok(Endpoint { hub: self.clone(), inbox, local })
    }

    fn inbox(&self, to: SocketAddr) -> Option<Arc<Inbox>> {
        let inboxes = self.shared.inboxes.read().unwrap_or_else(PoisonError::into_inner);
        index(to).and_then(|index| inboxes.get(index).cloned())
    }
}

/// 127.77.x.y, with x.y counting from 0.1: told apart at sight from what UDP would use.
fn address(index: usize) -> SocketAddr {
    let number = u32::try_from(index + 1).unwrap_or(u32::MAX) & 0xFFFF;
    (Ipv4Addr::from(0x7F4D_0000 | number), PORT).into()
}

fn index(address: SocketAddr) -> Option<usize> {
    let SocketAddr::V4(v4) = address else { return None };
    let number = u32::from(*v4.ip());
    let is_ours = number >> 16 == 0x7F4D && v4.port() == PORT;
    is_ours.then_some((number & 0xFFFF) as usize)?.checked_sub(1)
}

impl Inbox {
    /// Puts a packet in, unless the queue is full.
    fn put(&self, packet: Received) -> bool {
        let mut queue = lock(&self.queue);
        if queue.len() >= QUEUE_PACKETS {
            return false;
        }
        queue.push_back(packet);
        if queue.len() == 1 {
            self.ready.wake();
        }
        true
    }
}

impl Endpoint {
    /// Carries one frame; the stats say what became of it.
    fn carry(&self, frame: &Frame<'_>, stats: &mut LinkStats) {
        if frame.len() > self.hub.shared.frame_bytes_max as usize {
            stats.dropped_oversize += 1;
            return;
        }
        let Some(inbox) = self.hub.inbox(frame.to) else {
            stats.dropped_unreachable += 1;
            return;
        };
        // [CDP-ENC-9] the frame is carried as bytes, to be checked like any other.
        let bytes = BytesMut::from(&[frame.head, frame.body].concat()[..]);
        stats.sent_bytes += bytes.len() as u64;
        stats.sent_packets += 1;
        if !inbox.put(Received::new(self.local, bytes)) {
            stats.dropped_no_buffers += 1;
        }
    }
}

impl Link for Endpoint {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        let mut queue = lock(&self.inbox.queue);
        let count = batch.room().min(queue.len());
        let mut bytes = 0;
        for packet in queue.drain(..count) {
            bytes += packet.bytes.len() as u64;
            batch.packets_mut().push(packet);
        }
        if count > 0 && queue.is_empty() {
            self.inbox.ready.drain();
        }
        drop(queue);
        if count > 0 {
            let mut stats = lock(&self.inbox.stats);
            stats.received_packets += count as u64;
            stats.received_bytes += bytes;
            stats.receive_calls += 1;
        }
        Ok(count)
    }

    fn send(&self, batch: &mut SendBatch) -> io::Result<usize> {
        let count = batch.len();
        let mut stats = lock(&self.inbox.stats);
        for frame in batch.iter() {
            self.carry(&frame, &mut stats);
        }
        stats.send_calls += 1;
        drop(stats);
        batch.clear();
        Ok(count)
    }

    fn send_lone(&self, to: SocketAddr, head: &[u8], body: &[u8]) -> bool {
        let mut stats = lock(&self.inbox.stats);
        self.carry(&Frame { to, head, body, may_fragment: false }, &mut stats);
        stats.send_calls += 1;
        true
    }

    fn info(&self) -> LinkInfo {
        let mtu = self.hub.shared.frame_bytes_max;
        LinkInfo {
            name: "loopback".to_owned(),
            mss: u16::try_from(mtu.saturating_sub(HEADER_BYTES)).unwrap_or(u16::MAX),
            mtu,
            local: self.local,
            encapsulation: Encapsulation::Simulated,
            gso: false,
            gro: false,
            send_buffer_bytes: 0,
            receive_buffer_bytes: QUEUE_PACKETS * mtu as usize,
        }
    }

    fn poll_fds(&self) -> PollFds {
        smallvec![self.inbox.ready.fd()]
    }

    fn stats(&self) -> LinkStats {
        *lock(&self.inbox.stats)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(from: &Endpoint, to: SocketAddr, len: usize) {
        let mut batch = SendBatch::new();
        batch.push_slice(to, &vec![1; len]);
        from.send(&mut batch).unwrap();
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let hub = Hub::new(1500);
        let (a, b) = (hub.endpoint().unwrap(), hub.endpoint().unwrap());
        for _ in 0..QUEUE_PACKETS + 3 {
            send(&a, b.info().local, 40);
        }
        assert_eq!(a.stats().dropped_no_buffers, 3);
    }

    #[test]
    fn frames_that_are_too_large_or_for_nobody_are_dropped_and_counted() {
        let hub = Hub::new(1500);
        let (a, b) = (hub.endpoint().unwrap(), hub.endpoint().unwrap());
        send(&a, b.info().local, 1501);
        send(&a, address(17), 40);
        send(&a, "[::1]:64064".parse().unwrap(), 40);
        let stats = a.stats();
        assert_eq!((stats.dropped_oversize, stats.dropped_unreachable), (1, 2));
    }

    #[test]
    fn every_endpoint_has_an_address_of_its_own() {
        assert_eq!(address(0).to_string(), "127.77.0.1:64064");
        for number in [0, 1, 255, 256, 65_000] {
            assert_eq!(index(address(number)), Some(number));
        }
    }
}
