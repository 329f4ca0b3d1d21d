//! The node: a thread for each of its networks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weft_link::Link;
use weft_route::{Forwarder, NetworkId};
use weft_sync::Mutex;

use crate::Stats;
use crate::port::Port;
use crate::turn::Networks;
use crate::worker::Worker;

/// An I/O node that forwards until it is stopped.
pub struct IoNode {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    networks: Networks,
    is_stopping: AtomicBool,
    /// Until when threads forward what is left; set before `is_stopping`.
    deadline: Mutex<Option<Instant>>,
}

impl IoNode {
    /// Forwards between `links`, each the way to one network, with one thread for each. A thread looks at its link for the
    /// time `spin` after a packet before it sleeps.
    ///
    /// Packets for a network without a link are counted as [`weft_route::NotForwarded::NoRoute`].
    ///
    /// # Errors
    /// When the process has no descriptor or thread left, or two links are for one network.
    pub fn start(
        forwarder: Forwarder,
        links: Vec<(NetworkId, Arc<dyn Link>)>,
        spin: Duration,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            networks: Networks::new(forwarder, links)?,
            is_stopping: AtomicBool::new(false),
            deadline: Mutex::default(),
        });
        let mut node = Self { shared, threads: Vec::new() };
        for index in 0..node.shared.networks.ports.len() {
            let shared = node.shared.clone();
            let name = format!("weft-forward-{index}");
            node.threads
                .push(std::thread::Builder::new().name(name).spawn(move || shared.work(index, spin))?);
        }
        Ok(node)
    }

    /// A snapshot of all that is counted.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Makes snapshots, for as long as it is kept and also after the node has stopped.
    pub fn watcher(&self) -> impl Fn() -> Stats + Send + Sync + 'static {
        let shared = self.shared.clone();
        move || shared.stats()
    }

    /// Forwards what was received before, for at most the time `limit`, and ends.
    #[must_use]
    pub fn stop(mut self, limit: Duration) -> Stats {
        self.end(limit);
        self.stats()
    }

    fn end(&mut self, limit: Duration) {
        *self.shared.deadline.lock() = Some(Instant::now() + limit);
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        self.shared.networks.ports.iter().for_each(|port| port.waker.wake());
        for thread in self.threads.drain(..) {
            // What it counted is there, even if it panicked.
            let _ = thread.join();
        }
    }
}

impl Drop for IoNode {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

impl Shared {
    fn work(&self, index: usize, spin: Duration) {
        let mut worker = Worker::new(&self.networks, &self.networks.ports[index]);
        worker.run(&self.is_stopping, spin);
        let deadline = *self.deadline.lock();
        if let Some(deadline) = deadline {
            worker.drain(deadline);
        }
    }

    fn stats(&self) -> Stats {
        Stats {
            node: self.networks.forwarder.own(),
            networks: self.networks.ports.iter().map(Port::stats).collect(),
            relays: self.networks.relays.stats(),
        }
    }
}
