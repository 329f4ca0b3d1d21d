//! The engine as its users see it: what it is made of, how it begins and ends.

mod data;
mod opening;
mod parts;
mod reader;
mod waiting;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use weft_base::{Instant, NodeId};
use weft_link::{Link, Udp, UdpOptions};
use weft_proto::limiter::EchoResetLimiter;
use weft_route::{AddError, Cluster, Mode, Name};
use weft_sync::{Mutex, RwLock, SpinLock, scheduler};
use weft_wire::Reason;

pub use self::opening::{ConnectError, ListenError, Target};
pub use self::waiting::Ready;
use crate::attendance::Attendance;
use crate::budget::Budget;
use crate::clock;
use crate::control::Control;
use crate::core::Core;
use crate::counters::Drops;
use crate::directory::Directory;
use crate::fiber::PortDriver;
use crate::lanes::Lanes;
use crate::near::Near;
use crate::port::Port;
use crate::quiet::QuietList;
use crate::random;
use crate::service;
use crate::settings::{Settings, Workers};
use crate::slot::Slot;
use crate::stats;
use crate::table::Limits;
use crate::waiters::Interest;

/// How long the end of an engine waits for threads of others to leave its ports: a turn, and their being scheduled.
const DRIVERS_PATIENCE: Duration = Duration::from_secs(1);

/// Ports, threads and connections of one node.
///
/// ```
/// use weft_base::{Port, Service};
/// use weft_engine::{Config, Engine, Gather, Interest, Settings, Target};
///
/// let open = || Engine::open(Settings { bind: "127.0.0.1:0".parse().unwrap(), ..Settings::default() });
/// let (here, there) = (open()?, open()?);
/// let listening = there.listen(Port::new(7), Config::new(Service::Stream, there.mss()), Gather::WhenBusy).unwrap();
///
/// let target = Target { node: None, at: Some(there.underlay()), port: Port::ECHO };
/// let slot = here.connect(target, None, Config::new(Service::Stream, here.mss()), Gather::WhenBusy).unwrap();
/// assert!(here.wait(&slot, Interest::Connected, None));
/// here.send(&slot, b"hello").unwrap();
///
/// assert!(there.wait_accept(&listening, None));
/// let accepted = there.accept(&listening).unwrap();
/// assert!(there.wait(&accepted, Interest::Readable, None));
/// assert_eq!(there.recv(&accepted, &mut [0; 16]).unwrap().len, 5);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Engine {
    core: Arc<Core>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    control: Mutex<Option<Control>>,
    linger: Duration,
}

impl Engine {
    /// Opens links and starts threads.
    ///
    /// # Errors
    /// When the address cannot be bound, or the operating system gives no thread, descriptor or random number.
    pub fn open(settings: Settings) -> io::Result<Self> {
        let directory = Directory::new(&settings)?;
        let now = clock::now();
        let (links, first_source) = links(&settings)?;
        // Worker i serves port i mod ports.
        let workers = |index| (index..settings.workers.threads).step_by(links.len()).count();
        let workers: Vec<usize> = (0..links.len()).map(workers).collect();
        let ports = links
            .into_iter()
            .zip(workers)
            .enumerate()
            .map(|(index, (link, workers))| Port::new(index, link, now, settings.spin, workers))
            .collect::<io::Result<Box<[Port]>>>()?;
        let table = settings.scheme.table(hash_key()?, Limits::default());
        let resets = Mutex::new(EchoResetLimiter::new(random::u64()?));
        let core = Arc::new_cyclic(|core| Core {
            directory,
            table,
            drivers: PortDriver::of_ports(core, ports.len()),
            near: Near::new(ports.iter().map(|port| &port.info)),
            ports,
            listeners: RwLock::default(),
            drops: Drops::default(),
            budget: Budget::new(settings.memory_bytes),
            resets,
            resets_sent: 0.into(),
            quiet: QuietList::new(settings.quiet_max),
            last_config: SpinLock::default(),
            first_source,
            next_port: 0.into(),
            attendance: Attendance::default(),
            spin_max: settings.spin,
            is_down: false.into(),
            is_stopping: false.into(),
        });
        let engine =
            Self { core, threads: Mutex::default(), control: Mutex::default(), linger: settings.linger };
        engine.start_threads(settings.workers)?;
        if let Some((name, describe)) = settings.stat {
            let core = engine.core.clone();
            let control = Control::open(&name, Arc::new(move |_| describe(&stats::snapshot(&core))));
            // Not to be taken for what a link is refused.
            let refused = |error: io::Error| {
                let is_ours =
                    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied);
                if is_ours { io::Error::new(io::ErrorKind::InvalidInput, error.to_string()) } else { error }
            };
            *engine.control.lock() = Some(control.map_err(refused)?);
        }
        Ok(engine)
    }

    fn start_threads(&self, workers: Workers) -> io::Result<()> {
        let mut threads = self.threads.lock();
        let ports = self.core.ports.len();
        for index in 0..ports.max(workers.threads) {
            let core = self.core.clone();
            let builder = std::thread::Builder::new().name(format!("weft-{index}")).stack_size(256 << 10);
            let thread = if index < workers.threads {
                builder.spawn(move || service::work(&core, index % ports, index / ports, workers.spin))
            } else {
                builder.spawn(move || service::serve(&core, index))
            };
            threads.push(thread?);
        }
        Ok(())
    }

    /// The number of this node.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.core.directory.own()
    }

    /// The underlay address of the first link.
    #[must_use]
    pub fn underlay(&self) -> SocketAddr {
        self.core.ports[0].info.local
    }

    /// Packets that were taken from the links and are not worked off yet, where a port has several workers.
    #[must_use]
    pub fn waiting_packets(&self) -> usize {
        self.core.ports.iter().filter_map(|port| port.lanes.as_ref()).map(Lanes::waiting).sum()
    }

    /// The largest data segment that the links carry to every peer, in bytes.
    #[must_use]
    pub fn mss(&self) -> u16 {
        self.core.mss()
    }

    /// Now, on the engine's clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        clock::now()
    }

    /// Says where `node` is reached; its packets from elsewhere are dropped ([CDP-ADR-6]). Not for I/O nodes: the sides are what
    /// they were when the engine was opened.
    pub fn add_peer(&self, node: NodeId, at: SocketAddr) {
        self.core.directory.add_peer(node, at);
    }

    /// Lets `node` be found by `name` too.
    ///
    /// # Errors
    /// When another node is called so.
    pub fn add_name(&self, name: Name, node: NodeId) -> Result<(), AddError> {
        self.core.directory.add_name(name, node)
    }

    /// What `ask` finds in the names of the cluster and of those that were added to it. It is to be short, and to call
    /// nothing of this engine.
    pub fn cluster<T>(&self, ask: impl FnOnce(&Cluster) -> T) -> T {
        self.core.directory.cluster(ask)
    }

    /// Whether nodes that the cluster does not name may talk to this one.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.core.directory.mode()
    }

    // ── The end ───────────────────────────────────────────────────────────────────────────────────────────────

    /// Closes every connection by FIN, waits at most `limit`, and resets what is left ([CDP-ST-H]). Returns how many
    /// had to be reset. Part of that time is for peers that close themselves and may not have heard our answer.
    pub fn shutdown(&self, limit: Duration) -> usize {
        self.core.is_down.store(true, Ordering::SeqCst);
        let listeners: Vec<_> = self.core.listeners.read().values().cloned().collect();
        listeners.iter().for_each(|listening| self.unlisten(listening));
        let deadline = clock::now() + limit;
        let slots = self.core.slots();
        slots.iter().for_each(|slot| self.close(slot));
        slots.iter().for_each(|slot| {
            // Whether it closed in time shows below.
            let _ = self.wait(slot, Interest::Closed, Some(deadline));
        });
        let late: Vec<_> = slots.iter().filter(|slot| !slot.is_ready(Interest::Closed)).collect();
        // [CDP-ST-H] RST|ACK with REASON 4
        late.iter().for_each(|slot| {
            self.operate(slot, |live, now| live.connection.abort_with(now, Reason::DIED));
        });
        self.answer_repeats(&slots, deadline);
        // Nothing more is to be told. The answering thread must not find the lock taken.
        let control = self.control.lock().take();
        drop(control);
        late.len()
    }

    /// [CDP-ST-C] Both ends pass through QUIET and keep receiving there: the acknowledgement of a peer's FIN may be lost,
    /// and a peer that repeats its FIN to nobody waits for FIN_GIVE_UP. The engine's threads answer meanwhile.
    fn answer_repeats(&self, slots: &[Arc<Slot>], deadline: Instant) {
        while let Some(until) = slots.iter().filter_map(|slot| slot.answers_until()).max() {
            let now = clock::now();
            let rest = until.min(deadline).saturating_since(now);
            if rest.is_zero() {
                return;
            }
            // A thread that runs no fiber at this moment, and drops what one left behind, sleeps as any other.
            match scheduler::current().filter(|scheduler| scheduler.waker().is_some()) {
                Some(scheduler) => scheduler.sleep(rest),
                None => std::thread::sleep(rest),
            }
        }
    }

    /// Threads of a scheduler may be in a turn, or at rest. They leave at once, and with the last one the links are closed.
    fn wait_for_drivers(&self, own: usize) {
        let deadline = clock::now() + DRIVERS_PATIENCE;
        while Arc::strong_count(&self.core) > 1 + own && clock::now() < deadline {
            self.core.ports.iter().for_each(|port| port.signal().raise());
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let mut close = || {
            self.shutdown(self.linger);
        };
        match scheduler::current() {
            // What is torn down half-way would never end.
            Some(scheduler) => scheduler.shielded(&mut close),
            None => close(),
        }
        self.core.is_stopping.store(true, Ordering::SeqCst);
        for port in &self.core.ports {
            port.signal().raise();
            port.call_service();
        }
        let mut own = 0;
        for thread in self.threads.lock().drain(..) {
            if thread.thread().id() == std::thread::current().id() {
                // What it called, a task say, had the last handle. It ends when that returns.
                own = 1;
                continue;
            }
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
        self.wait_for_drivers(own);
        // Slots know listeners and the table knows slots: take them apart.
        for slot in self.core.slots() {
            let mut live = slot.lock();
            self.core.remove(&slot, &mut live);
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("node", &self.node())
            .field("underlay", &self.underlay())
            .finish_non_exhaustive()
    }
}

/// A secret key for the hash of the table.
fn hash_key() -> io::Result<[u8; 16]> {
    let [low, high] = random::words()?;
    Ok((u128::from(high) << 64 | u128::from(low)).to_le_bytes())
}

/// The links, and how many of them come before the source ports.
fn links(settings: &Settings) -> io::Result<(Vec<Arc<dyn Link>>, usize)> {
    if !settings.links.is_empty() {
        return Ok((settings.links.clone(), settings.links.len()));
    }
    let options = UdpOptions { buffer_bytes: settings.socket_buffer_bytes, ..UdpOptions::default() };
    let group = Udp::bind_group(settings.bind, settings.ports.max(1), &options)?;
    let shared = group.len();
    let any = SocketAddr::new(settings.bind.ip(), 0);
    let sources = (0..settings.source_ports).map(|_| Udp::bind_with(any, &options));
    let links = group.into_iter().map(Ok).chain(sources);
    let links = links.map(|link| link.map(|link| Arc::new(link) as Arc<dyn Link>));
    Ok((links.collect::<io::Result<_>>()?, shared))
}
