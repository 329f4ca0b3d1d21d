//! The engine as its users see it: open, connect, listen, send, receive, wait, close.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use weft_base::{Address, FlowKey, Instant, NodeId, Port as CdpPort};
use weft_link::{Link, Udp, Waker};
use weft_proto::limiter::EchoResetLimiter;
use weft_proto::{CloseResult, Config, Connection, Error, Message, Received, RecvError, SendError, State};
use weft_sync::{Mutex, RwLock, SpinLock};
use weft_wire::Reason;

use crate::budget::Budget;
use crate::clock;
use crate::control::Control;
use crate::core::Core;
use crate::counters::Drops;
use crate::directory::Directory;
use crate::gather::{self, Gather};
use crate::listening::Listening;
use crate::outbox::Outbox;
use crate::port::Port;
use crate::progress::Condition;
use crate::random;
use crate::reset;
use crate::service;
use crate::settings::{Settings, Workers};
use crate::slot::{Live, Slot};
use crate::stats;
use crate::table::Limits;
use crate::turn::Runner;
use crate::waiters::{Interest, Waiters};

/// How long a sender goes on without a look at what came in.
const LOOK_AFTER: Duration = Duration::from_micros(20);

/// Where a connect goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// The node, if its number is known.
    pub node: Option<NodeId>,
    /// Where it is reached, if that is known; one of the two must be.
    pub at: Option<SocketAddr>,
    /// The port on that node.
    pub port: CdpPort,
}

/// Why a connect could not begin.
#[derive(Debug)]
pub enum ConnectError {
    /// The node has no known underlay address.
    NoRoute(NodeId),
    /// The local port is taken towards that target.
    InUse(CdpPort),
    /// No ephemeral port is free towards that target.
    NoPortFree,
    /// The target is the address that connects.
    ToItself(Address),
    /// The memory budget is spent.
    NoRoom,
    /// The engine goes down.
    Down,
    /// No random numbers.
    System(io::Error),
}

/// Why a listen could not begin.
#[derive(Debug)]
pub enum ListenError {
    /// Somebody listens there.
    InUse(CdpPort),
    /// Every port has a listener.
    NoPortFree,
    /// The engine goes down.
    Down,
    /// No random numbers.
    System(io::Error),
}

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
    control: Option<Control>,
    linger: Duration,
}

impl Engine {
    /// Opens links and starts threads.
    ///
    /// # Errors
    /// When the address cannot be bound, or the operating system gives no thread, descriptor or random number.
    pub fn open(settings: Settings) -> io::Result<Self> {
        let directory = Directory::new(settings.node, settings.strict)?;
        for (node, at) in &settings.peers {
            directory.add_peer(*node, *at);
        }
        let now = clock::now();
        let ports = links(&settings)?
            .into_iter()
            .enumerate()
            .map(|(index, link)| Port::new(index, link, now, settings.spin))
            .collect::<io::Result<Box<[Port]>>>()?;
        let core = Arc::new(Core {
            directory,
            table: settings.scheme.table(hash_key()?, Limits::default()),
            ports,
            listeners: RwLock::default(),
            drops: Drops::default(),
            budget: Budget::new(settings.memory_bytes),
            resets: Mutex::new(EchoResetLimiter::new(random::u64()?)),
            resets_sent: 0.into(),
            quiet: SpinLock::default(),
            next_port: 0.into(),
            spin_max: settings.spin,
            is_down: false.into(),
            is_stopping: false.into(),
        });
        let mut engine = Self { core, threads: Mutex::default(), control: None, linger: settings.linger };
        engine.start_threads(settings.workers)?;
        if let Some((name, describe)) = settings.stat {
            let core = engine.core.clone();
            engine.control = Some(Control::open(&name, Arc::new(move || describe(&stats::snapshot(&core))))?);
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
                builder.spawn(move || service::work(&core, index % ports, workers.spin))
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

    /// The largest data segment of the links, in bytes.
    #[must_use]
    pub fn mss(&self) -> u16 {
        self.core.ports.iter().map(|port| port.info.mss).min().unwrap_or(weft_base::limits::MSS_MIN)
    }

    /// Now, on the engine's clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        clock::now()
    }

    /// Says where `node` is reached; its packets from elsewhere are dropped ([CDP-ADR-6]).
    pub fn add_peer(&self, node: NodeId, at: SocketAddr) {
        self.core.directory.add_peer(node, at);
    }

    // ── Opening ───────────────────────────────────────────────────────────────────────────────────────────────

    /// Begins to connect. Wait for [`Interest::Connected`], then ask [`Engine::connect_result`].
    ///
    /// # Errors
    /// When the target cannot be named, or no local port is free.
    pub fn connect(
        &self,
        target: Target,
        local: Option<CdpPort>,
        mut config: Config,
        gather: Gather,
    ) -> Result<Arc<Slot>, ConnectError> {
        if self.core.is_down.load(Ordering::SeqCst) {
            return Err(ConnectError::Down);
        }
        let (node, at) = self.locate(target)?;
        let remote = Address { node, port: target.port };
        let home = self.core.next_port.fetch_add(1, Ordering::Relaxed) % self.core.ports.len();
        let port = self.core.port(home);
        let packet_bytes = usize::from(port.info.mss);
        let (granted, bytes) =
            self.core.budget.reserve(config.receive_slots, packet_bytes).ok_or(ConnectError::NoRoom)?;
        config.receive_slots = granted;
        let made = self.insert_connection(remote, local, &config, |connection| {
            Slot::new(connection, at, home, bytes, gather, None)
        });
        let slot = made.inspect_err(|_| self.core.budget.release(bytes))?;
        self.operate(&slot, |_, _| ());
        Ok(slot)
    }

    fn locate(&self, target: Target) -> Result<(NodeId, SocketAddr), ConnectError> {
        let directory = &self.core.directory;
        match (target.node, target.at) {
            (Some(node), Some(at)) => {
                directory.learn(node, at);
                Ok((node, directory.locate(node).unwrap_or(at)))
            }
            (Some(node), None) => {
                directory.locate(node).map(|at| (node, at)).ok_or(ConnectError::NoRoute(node))
            }
            (None, Some(at)) => directory.name_of(at).map(|node| (node, at)).map_err(ConnectError::System),
            (None, None) => Err(ConnectError::NoRoute(directory.own())),
        }
    }

    /// [CDP-ADR-5] An ephemeral port is chosen at random among those free for the destination.
    fn insert_connection(
        &self,
        remote: Address,
        local: Option<CdpPort>,
        config: &Config,
        slot: impl Fn(Connection) -> Slot,
    ) -> Result<Arc<Slot>, ConnectError> {
        let node = self.core.directory.own();
        let try_port = |port: CdpPort| -> Result<Option<Arc<Slot>>, ConnectError> {
            let flow = FlowKey { local: Address { node, port }, remote };
            if flow.local == flow.remote || !self.core.make_free(&flow) {
                return Ok(None);
            }
            let secret = reset::secret().map_err(ConnectError::System)?;
            let fresh = Arc::new(slot(Connection::connect(clock::now(), flow, config, secret)));
            Ok(self.core.table.insert(flow, fresh.clone()).is_ok().then_some(fresh))
        };
        if let Some(port) = local {
            let own = Address { node, port };
            // [CDP-HDR-16] an end does not talk to itself
            return match try_port(port)? {
                Some(slot) => Ok(slot),
                None if own == remote => Err(ConnectError::ToItself(own)),
                None => Err(ConnectError::InUse(port)),
            };
        }
        let start = random::u32().map_err(ConnectError::System)?;
        for offset in 0..EPHEMERAL_PORTS {
            if let Some(slot) = try_port(ephemeral(start, offset))? {
                return Ok(slot);
            }
        }
        Err(ConnectError::NoPortFree)
    }

    /// The outcome of the open, once it is decided.
    #[must_use]
    pub fn connect_result(&self, slot: &Slot) -> Option<Result<(), Error>> {
        let live = slot.look();
        match (live.connection.state(), live.connection.error()) {
            (State::SynSent | State::SynReceived, _) => None,
            (_, Some(error)) => Some(Err(error)),
            _ => Some(Ok(())),
        }
    }

    /// Listens on `port`, or on a random free one.
    ///
    /// # Errors
    /// When the port is taken.
    pub fn listen(
        &self,
        port: Option<CdpPort>,
        mut config: Config,
        gather: Gather,
    ) -> Result<Arc<Listening>, ListenError> {
        if self.core.is_down.load(Ordering::SeqCst) {
            return Err(ListenError::Down);
        }
        // [CDP-LIM-13] the windows of all its connections are as large as one may be now
        config.receive_slots = config.receive_slots.min(self.core.budget.slots_max(usize::from(self.mss())));
        let start = random::u32().map_err(ListenError::System)?;
        let node = self.core.directory.own();
        let mut listeners = self.core.listeners.write();
        let port = match port {
            Some(port) if listeners.contains_key(&port) => return Err(ListenError::InUse(port)),
            Some(port) => port,
            None => (0..EPHEMERAL_PORTS)
                .map(|offset| ephemeral(start, offset))
                .find(|port| !listeners.contains_key(port))
                .ok_or(ListenError::NoPortFree)?,
        };
        let listening = Listening::new(Address { node, port }, config, gather, clock::now())
            .map_err(ListenError::System)?;
        let listening = Arc::new(listening);
        listeners.insert(port, listening.clone());
        Ok(listening)
    }

    /// Takes the next connection that is open, if one waits.
    #[must_use]
    pub fn accept(&self, listening: &Listening) -> Option<Arc<Slot>> {
        listening.accept()
    }

    /// Blocks until a connection waits, or the listener is closed. False when the deadline passed first.
    #[must_use]
    pub fn wait_accept(&self, listening: &Listening, deadline: Option<Instant>) -> bool {
        let condition = Condition { waiters: &listening.waiters, interest: Interest::Readable, deadline };
        // A listener hears on every port; the blocked thread looks after the first.
        self.core.wait(|| 0, condition)
    }

    /// Stops listening; connections that nobody accepted are reset ([CDP-ST-9]).
    pub fn unlisten(&self, listening: &Arc<Listening>) {
        let port = listening.address().port;
        let mut listeners = self.core.listeners.write();
        if listeners.get(&port).is_some_and(|known| Arc::ptr_eq(known, listening)) {
            listeners.remove(&port);
        }
        drop(listeners);
        let mut out = Outbox::take();
        let mut unaccepted = listening.close(&mut out.wakes);
        out.put_back();
        if listening.half_open.load(Ordering::Relaxed) > 0 {
            let of_this = |slot: &Arc<Slot>| {
                slot.listening.as_ref().is_some_and(|of| Arc::ptr_eq(of, listening)) && slot.look().is_embryo
            };
            unaccepted.extend(self.core.slots().into_iter().filter(of_this));
        }
        for slot in unaccepted {
            self.abort(&slot);
            self.release(&slot);
        }
    }

    // ── Data ──────────────────────────────────────────────────────────────────────────────────────────────────

    /// Sends one message, or as many bytes of the stream as there is room for. Never blocks.
    ///
    /// # Errors
    /// [`SendError`]; nothing is taken then.
    pub fn send(&self, slot: &Arc<Slot>, data: &[u8]) -> Result<usize, SendError> {
        let core = &*self.core;
        let now = clock::now();
        let mut live = slot.lock();
        let result = live.connection.send(data);
        if result.is_ok() && gather::may_gather(slot, &live, now) {
            core.note_gathering(slot, &mut live, now);
            match live.leave() {
                Ok(()) => return result,
                Err(wanted) => live = wanted,
            }
        }
        live.is_blocked = result == Err(SendError::WouldBlock);
        let port = core.port(slot.home());
        let mut out = Outbox::take();
        core.pump(slot, &mut live, now, &mut out);
        core.unlock(slot, live, now, &mut out);
        core.finish(port, &mut out);
        out.put_back();
        if now.as_nanos().saturating_sub(port.user_turn_at.load(Ordering::Relaxed)) > LOOK_AFTER_NS {
            core.try_turn(port, Runner::User, now);
        }
        if result == Err(SendError::WouldBlock) {
            self.note_nothing(slot, &slot.waiters, Interest::Writable);
        }
        result
    }

    /// Copies the next message, or the next bytes of the stream. Never blocks.
    ///
    /// # Errors
    /// [`RecvError`].
    pub fn recv(&self, slot: &Arc<Slot>, buffer: &mut [u8]) -> Result<Received, RecvError> {
        self.take(slot, |connection| connection.recv(buffer))
    }

    /// Hands over the next message, or the next piece of the stream, where it lies; `None` at the end. Never blocks.
    ///
    /// # Errors
    /// [`RecvError`].
    pub fn recv_message(&self, slot: &Arc<Slot>) -> Result<Option<Message>, RecvError> {
        self.take(slot, Connection::recv_message)
    }

    fn take<T>(
        &self,
        slot: &Arc<Slot>,
        take: impl FnOnce(&mut Connection) -> Result<T, RecvError>,
    ) -> Result<T, RecvError> {
        let core = &*self.core;
        let mut live = slot.lock();
        let result = take(&mut live.connection);
        if !live.connection.has_urgent_output() && live.connection.state() == State::Established {
            // Nothing is to be sent: no clock, no outbox.
            core.note_taken(slot, &live);
            match live.leave() {
                Ok(()) => {
                    if result.is_err() {
                        self.note_nothing(slot, &slot.waiters, Interest::Readable);
                    }
                    return result;
                }
                Err(wanted) => live = wanted,
            }
        }
        let now = clock::now();
        let mut out = Outbox::take();
        core.pump(slot, &mut live, now, &mut out);
        core.unlock(slot, live, now, &mut out);
        core.finish(core.port(slot.home()), &mut out);
        out.put_back();
        if matches!(result, Err(RecvError::WouldBlock)) {
            self.note_nothing(slot, &slot.waiters, Interest::Readable);
        }
        result
    }

    /// Locks the slot, does something to its connection, and sends what comes of it.
    fn operate<T>(&self, slot: &Arc<Slot>, operation: impl FnOnce(&mut Live, Instant) -> T) -> T {
        let core = &*self.core;
        let now = clock::now();
        let mut out = Outbox::take();
        let mut live = slot.lock();
        let outcome = operation(&mut live, now);
        core.pump(slot, &mut live, now, &mut out);
        core.unlock(slot, live, now, &mut out);
        core.finish(core.port(slot.home()), &mut out);
        out.put_back();
        outcome
    }

    /// Lets what gathers for a common packet leave now.
    pub fn flush(&self, slot: &Arc<Slot>) {
        self.operate(slot, |_, _| ());
    }

    /// Begins to close. Wait for [`Interest::Closed`], then ask [`Engine::close_result`].
    pub fn close(&self, slot: &Arc<Slot>) {
        self.operate(slot, |live, now| live.connection.close(now));
    }

    /// Ends the connection at once by a reset.
    pub fn abort(&self, slot: &Arc<Slot>) {
        self.operate(slot, |live, now| live.connection.abort(now));
    }

    /// The last handle of the slot is gone: closes what is open, and lets the slot go when that is over.
    pub fn release(&self, slot: &Arc<Slot>) {
        self.operate(slot, |live, now| {
            live.is_released = true;
            live.connection.close(now);
        });
    }

    /// The result of the close, or the error the connection ended by, once it is known.
    #[must_use]
    pub fn close_result(&self, slot: &Slot) -> Option<(CloseResult, Option<Error>)> {
        let live = slot.look();
        live.connection.close_result().map(|result| (result, live.connection.error()))
    }

    /// When the peer was last heard ([CDP-TMR-3]).
    #[must_use]
    pub fn heard_at(&self, slot: &Slot) -> Instant {
        slot.look().connection.heard_at()
    }

    // ── Waiting ───────────────────────────────────────────────────────────────────────────────────────────────

    /// Blocks until the condition holds, and runs turns meanwhile. False when the deadline passed first.
    #[must_use]
    pub fn wait(&self, slot: &Slot, interest: Interest, deadline: Option<Instant>) -> bool {
        self.core.wait(|| slot.home(), Condition { waiters: &slot.waiters, interest, deadline })
    }

    /// For futures: ready when the condition holds; otherwise the task is woken when it does.
    pub fn poll_ready(&self, slot: &Slot, interest: Interest, context: &mut Context<'_>) -> Poll<()> {
        self.poll_waiters(&slot.waiters, slot.home(), interest, context)
    }

    /// As [`Engine::poll_ready`], for an accept.
    pub fn poll_acceptable(&self, listening: &Listening, context: &mut Context<'_>) -> Poll<()> {
        self.poll_waiters(&listening.waiters, 0, Interest::Readable, context)
    }

    fn poll_waiters(
        &self,
        waiters: &Waiters,
        home: usize,
        interest: Interest,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        if waiters.is_ready(interest) {
            return Poll::Ready(());
        }
        let port = self.core.port(home);
        self.core.try_turn(port, Runner::User, clock::now());
        waiters.register(interest, context.waker());
        if waiters.is_ready(interest) {
            return Poll::Ready(());
        }
        self.watch(port);
        Poll::Pending
    }

    /// A descriptor that is readable while the condition holds.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn readiness(&self, slot: &Slot, interest: Interest) -> io::Result<Arc<Waker>> {
        let descriptor = slot.waiters.descriptor(interest)?;
        self.watch(self.core.port(slot.home()));
        Ok(descriptor)
    }

    /// A descriptor that is readable while a connection waits.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn accept_readiness(&self, listening: &Listening) -> io::Result<Arc<Waker>> {
        let descriptor = listening.waiters.descriptor(Interest::Readable)?;
        self.core.ports.iter().for_each(|port| self.watch(port));
        Ok(descriptor)
    }

    /// An operation found nothing: whoever watches a descriptor relies on the service thread from now on.
    fn note_nothing(&self, slot: &Slot, waiters: &Waiters, interest: Interest) {
        if waiters.has_descriptor(interest) {
            waiters.lower(interest);
            self.watch(self.core.port(slot.home()));
        }
    }

    /// Somebody waits who runs no turns: the service thread is to look after the port at once.
    fn watch(&self, port: &Port) {
        if !port.is_watched.swap(true, Ordering::SeqCst) {
            port.call_service();
        }
    }

    // ── The end ───────────────────────────────────────────────────────────────────────────────────────────────

    /// Closes every connection by FIN, waits at most `limit`, and resets what is left ([CDP-ST-H]). Returns how many
    /// had to be reset.
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
        late.len()
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shutdown(self.linger);
        self.control = None;
        self.core.is_stopping.store(true, Ordering::SeqCst);
        for port in &self.core.ports {
            port.signal().raise();
            port.call_service();
        }
        for thread in self.threads.lock().drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
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

/// [`LOOK_AFTER`] in nanoseconds.
#[allow(clippy::cast_possible_truncation)] // microseconds
const LOOK_AFTER_NS: u64 = LOOK_AFTER.as_nanos() as u64;

/// A secret key for the hash of the table.
fn hash_key() -> io::Result<[u8; 16]> {
    Ok((u128::from(random::u64()?) << 64 | u128::from(random::u64()?)).to_le_bytes())
}

/// Ports of the ephemeral range ([CDP-ADR-4]).
const EPHEMERAL_PORTS: u32 = u16::MAX as u32 - CdpPort::FIRST_EPHEMERAL as u32 + 1;

/// The `offset`th ephemeral port in an order that starts at random; each comes once.
fn ephemeral(start: u32, offset: u32) -> CdpPort {
    // An odd stride over a power of two visits every port.
    let stride = (start >> 16) | 1;
    let index = start.wrapping_add(offset.wrapping_mul(stride)) % EPHEMERAL_PORTS;
    u16::try_from(u32::from(CdpPort::FIRST_EPHEMERAL) + index)
        .ok()
        .and_then(CdpPort::new)
        .unwrap_or(CdpPort::CONTROL)
}

fn links(settings: &Settings) -> io::Result<Vec<Arc<dyn Link>>> {
    if !settings.links.is_empty() {
        return Ok(settings.links.clone());
    }
    if settings.ports > 1 {
        let why = "several UDP sockets on one address are not offered; give the links one by one";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    Ok(vec![Arc::new(Udp::bind(settings.bind)?)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// [CDP-ADR-5] Every ephemeral port is tried before "none is free" is said. [CDP-ADR-4] And no other.
    #[test]
    fn each_ephemeral_port_comes_once_in_any_order() {
        for start in [0, 1, 0xFFFF_FFFF, 0x1234_5678] {
            let ports: HashSet<u16> =
                (0..EPHEMERAL_PORTS).map(|offset| ephemeral(start, offset).get()).collect();
            assert_eq!(ports.len(), 16_384);
            assert!(ports.iter().all(|port| *port >= 49_152));
        }
    }
}
