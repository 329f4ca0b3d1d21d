//! A port that listens: the machine of LISTEN, and the connections that wait for `accept`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use weft_base::{Address, Instant, Service};
use weft_proto::{Config, Listener, PeerWindow, Secret, Verdict};
use weft_sync::Mutex;
use weft_wire::Packet;

use crate::gather::Gather;
use crate::random;
use crate::slot::Slot;
use crate::waiters::{Interest, Waiters, Wake};

/// A listener's place in the engine.
///
/// Lock order: `machine` or `queue`, each alone; both are short.
pub struct Listening {
    address: Address,
    /// As the user wants it; what the links carry everywhere may be less.
    pub(crate) config: Config,
    packet_bytes: usize,
    pub(crate) gather: Gather,
    machine: Mutex<Listener>,
    queue: Mutex<VecDeque<Arc<Slot>>>,
    pub(crate) waiters: Waiters,
    is_closed: AtomicBool,
    pub(crate) accepted: AtomicU64,
    pub(crate) half_open: AtomicUsize,
}

impl Listening {
    pub(crate) fn new(
        address: Address,
        config: Config,
        link_mss: u16,
        gather: Gather,
        now: Instant,
    ) -> std::io::Result<Self> {
        let everywhere = Config { link_mss: config.link_mss.min(link_mss), ..config };
        Ok(Self {
            address,
            packet_bytes: everywhere.link_mss.into(),
            machine: Mutex::new(Listener::new(now, everywhere, key()?)),
            config,
            gather,
            queue: Mutex::default(),
            waiters: Waiters::default(),
            is_closed: AtomicBool::new(false),
            accepted: AtomicU64::new(0),
            half_open: AtomicUsize::new(0),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address
    }

    /// Datagram or stream.
    #[must_use]
    pub fn service(&self) -> Service {
        self.config.service
    }

    /// Whether it takes no more connections.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Connections that wait for `accept`.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.lock().len()
    }

    /// Bytes of the largest data segment that its peers may send, unless they are near.
    pub(crate) fn packet_bytes(&self) -> usize {
        self.packet_bytes
    }

    /// Asks the machine what to make of a packet that no connection claims. A connection that it makes may get at most `slots_max`
    /// receive slots, unless fewer are promised already, or gets `window`.
    pub(crate) fn handle_packet(
        &self,
        now: Instant,
        packet: &Packet,
        secret: Secret,
        slots_max: u32,
        window: Option<PeerWindow>,
        head: &mut Vec<u8>,
    ) -> Verdict {
        let mut machine = self.machine.lock();
        machine.set_receive_slots(slots_max);
        machine.set_peer_window(window);
        // [CDP-CKE-3] the key is replaced at least once an hour
        if machine.wants_key(now)
            && let Ok(key) = key()
        {
            machine.replace_key(now, key);
        }
        let verdict = machine.handle_packet(now, packet, secret, head);
        if matches!(verdict, Verdict::Embryo(_)) {
            self.half_open.fetch_add(1, Ordering::Relaxed);
        }
        verdict
    }

    /// An embryo has finished its open. As for [`Listening::enqueue`].
    pub(crate) fn take_in(&self, slot: Arc<Slot>, wakes: &mut Vec<Wake>) -> Option<Arc<Slot>> {
        self.half_open.fetch_sub(1, Ordering::Relaxed);
        self.machine.lock().note_ready();
        self.enqueue(slot, wakes)
    }

    /// A connection waits for `accept` from now on. Given back where the listener has closed since the connection's first packet was
    /// looked at: nobody would ever take it out.
    pub(crate) fn enqueue(&self, slot: Arc<Slot>, wakes: &mut Vec<Wake>) -> Option<Arc<Slot>> {
        let mut queue = self.queue.lock();
        // Whoever closes says so before the queue is emptied.
        if self.is_closed() {
            return Some(slot);
        }
        queue.push_back(slot);
        self.waiters.set(Interest::Readable.bit(), Interest::Readable.bit(), wakes);
        None
    }

    /// An embryo was dropped before its open was finished.
    pub(crate) fn note_embryo_gone(&self) {
        self.half_open.fetch_sub(1, Ordering::Relaxed);
        self.machine.lock().note_embryo_gone();
    }

    /// A connection that a cookie proved could not be kept after all.
    pub(crate) fn note_lost(&self) {
        self.machine.lock().note_accepted();
    }

    /// Takes the next connection out of the accept queue.
    pub(crate) fn accept(&self) -> Option<Arc<Slot>> {
        let mut queue = self.queue.lock();
        let slot = queue.pop_front();
        if queue.is_empty() && !self.is_closed() {
            self.waiters.set(0, 0, &mut Vec::new());
        }
        drop(queue);
        if slot.is_some() {
            self.machine.lock().note_accepted();
            self.accepted.fetch_add(1, Ordering::Relaxed);
        }
        slot
    }

    /// Takes no more connections; hands out those that waited. Who waits for one is told.
    pub(crate) fn close(&self, wakes: &mut Vec<Wake>) -> VecDeque<Arc<Slot>> {
        self.is_closed.store(true, Ordering::SeqCst);
        let mut queue = self.queue.lock();
        self.waiters.set(Interest::Readable.bit(), Interest::Readable.bit(), wakes);
        std::mem::take(&mut queue)
    }
}

impl std::fmt::Debug for Listening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listening").field("address", &self.address).finish_non_exhaustive()
    }
}

fn key() -> std::io::Result<[u8; 32]> {
    let mut key = [0; 32];
    for (part, word) in key.as_chunks_mut().0.iter_mut().zip(random::words::<4>()?) {
        *part = word.to_le_bytes();
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weft_base::Port;
    use weft_link::{Hub, Link};

    use super::*;
    use crate::outbox::Outbox;
    use crate::{Engine, Settings, Target};

    /// [CDP-ST-9] A turn that had found the listener before it closed brings its connection afterwards.
    #[test]
    fn a_connection_that_comes_up_as_its_listener_closes_is_reset() {
        let hub = Hub::new(1_500);
        let engine = || {
            let link: Arc<dyn Link> = Arc::new(hub.endpoint().unwrap());
            Engine::open(Settings { links: vec![link], ..Settings::default() }).unwrap()
        };
        let (server, client) = (engine(), engine());
        let config = |engine: &Engine| Config::new(Service::Datagram, engine.mss());
        let listening = server.listen(Some(Port::ECHO), config(&server), Gather::Off).unwrap();
        let there = Target { node: Some(server.node()), at: Some(server.underlay()), port: Port::ECHO };
        let connected = client.connect(there, None, config(&client), Gather::Off).unwrap();
        let limit = || Some(client.now() + Duration::from_secs(20));
        assert!(server.wait_accept(&listening, limit()));
        let slot = server.accept(&listening).unwrap();
        server.unlisten(&listening);

        let mut out = Outbox::take();
        out.unaccepted.extend(listening.enqueue(slot.clone(), &mut out.wakes));
        assert_eq!((out.unaccepted.len(), listening.waiting()), (1, 0));
        server.core().finish(server.core().port(slot.home()), &mut out);
        out.put_back();
        assert!(client.wait(&connected, Interest::Closed, limit()));
        assert!(slot.is_removed());
    }
}
