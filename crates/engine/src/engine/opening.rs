//! Connecting, listening, accepting.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft_base::{Address, FlowKey, Instant, NodeId, Port as CdpPort, Seq};
use weft_proto::{Config, Connection, Error, Secret, State, Waited};

use super::Engine;
use crate::clock;
use crate::directory::{Source, Way};
use crate::gather::Gather;
use crate::listening::Listening;
use crate::outbox::Outbox;
use crate::port::Port;
use crate::progress::Condition;
use crate::random;
use crate::runner::Runner;
use crate::slot::Slot;
use crate::table::InsertError;
use crate::waiters::Interest;

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
    /// The engine is strict, and nobody said which node is there.
    Stranger(SocketAddr),
    /// The local port is taken towards that target.
    InUse(CdpPort),
    /// No ephemeral port is free towards that target.
    NoPortFree,
    /// The target is the address that connects.
    ToItself(Address),
    /// The memory budget is spent.
    NoRoom,
    /// No packet can leave for there: what the system says.
    NoWay(io::Error),
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

impl Engine {
    /// Begins to connect, with packets of up to `config.link_mss` bytes of data where the links carry that (decision 0045).
    /// Wait for [`Interest::Connected`], then ask [`Engine::connect_result`].
    ///
    /// # Errors
    /// When the target cannot be named, no packet can leave for it, or no local port is free.
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
        let (node, way) = self.locate(target)?;
        let remote = Address { node, port: target.port };
        let home = self.core.port_to(node);
        let window = match &way {
            Way::Direct(at) => self.core.peer_window(*at, &config),
            Way::Side(_) => None,
        };
        match window {
            Some(window) => config.set_window(window),
            None => config.link_mss = config.link_mss.min(self.core.mss()),
        }
        let packet_bytes = usize::from(config.link_mss);
        let (granted, bytes) =
            self.core.budget.reserve(config.receive_slots, packet_bytes).ok_or(ConnectError::NoRoom)?;
        config.receive_slots = granted;
        let config = self.core.share(config);
        let made = self.insert_connection(remote, local, &config, |connection| {
            Slot::new(connection, way.clone(), home, bytes, gather, None)
        });
        let slot = made.inspect_err(|_| self.core.budget.release(bytes))?;
        // Who shuts the engine down says so before it looks for connections.
        if self.core.is_down.load(Ordering::SeqCst) {
            self.release(&slot);
            return Err(ConnectError::Down);
        }
        let link = &self.core.port(home).link;
        let no_ways = link.no_ways();
        self.operate(&slot, |_, _| ());
        // Another way may do where there are I/O nodes.
        if let Way::Direct(at) = way
            && let Some(error) = link.no_way_since(no_ways, at)
        {
            self.release(&slot);
            return Err(ConnectError::NoWay(error));
        }
        Ok(slot)
    }

    fn locate(&self, target: Target) -> Result<(NodeId, Way), ConnectError> {
        let directory = &self.core.directory;
        match (target.node, target.at) {
            // What it answers would be dropped.
            (Some(node), Some(at)) if directory.check_source(node, at) == Source::Stranger => {
                Err(ConnectError::Stranger(at))
            }
            (Some(node), Some(at)) => {
                directory.learn(node, at);
                Ok((node, directory.way(node).unwrap_or(Way::Direct(at))))
            }
            (Some(node), None) => {
                directory.way(node).map(|way| (node, way)).ok_or(ConnectError::NoRoute(node))
            }
            (None, Some(at)) => {
                let node = directory.name_of(at).map_err(ConnectError::System)?;
                node.map(|node| (node, Way::Direct(at))).ok_or(ConnectError::Stranger(at))
            }
            (None, None) => Err(ConnectError::NoRoute(directory.own())),
        }
    }

    /// [CDP-ADR-5] An ephemeral port is chosen at random among those free for the destination.
    fn insert_connection(
        &self,
        remote: Address,
        local: Option<CdpPort>,
        config: &Arc<Config>,
        slot: impl Fn(Connection) -> Slot,
    ) -> Result<Arc<Slot>, ConnectError> {
        let node = self.core.directory.own();
        // The ports of all tries have one secret: none has left before one is found.
        let [start, iss, entropy] = random::words().map_err(ConnectError::System)?;
        let secret = Secret { iss: Seq::new(iss), entropy };
        let try_port = |port: CdpPort| -> Result<Option<Arc<Slot>>, ConnectError> {
            let flow = FlowKey { local: Address { node, port }, remote };
            if flow.local == flow.remote || !self.core.make_free(&flow) {
                return Ok(None);
            }
            let fresh = Arc::new(slot(Connection::connect(clock::now(), flow, config.clone(), secret)));
            match self.core.table.insert(fresh.clone()) {
                Ok(()) => Ok(Some(fresh)),
                Err(InsertError::Occupied) => Ok(None),
                Err(InsertError::Full) => Err(ConnectError::NoRoom),
            }
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
            (
                _,
                Some(
                    error @ (Error::Refused(_)
                    | Error::Absent
                    | Error::TimedOut(Waited::Open)
                    | Error::Aborted),
                ),
            ) => Some(Err(error)),
            // It was open: what became of it since, the user's next call tells.
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
        config: Config,
        gather: Gather,
    ) -> Result<Arc<Listening>, ListenError> {
        if self.core.is_down.load(Ordering::SeqCst) {
            return Err(ListenError::Down);
        }
        let start = random::u64().map_err(ListenError::System)?;
        let node = self.core.directory.own();
        let mut listeners = self.core.listeners.write();
        // Who shuts the engine down says so before it looks for listeners.
        if self.core.is_down.load(Ordering::SeqCst) {
            return Err(ListenError::Down);
        }
        let port = match port {
            Some(port) if listeners.contains_key(&port) => return Err(ListenError::InUse(port)),
            Some(port) => port,
            None => (0..EPHEMERAL_PORTS)
                .map(|offset| ephemeral(start, offset))
                .find(|port| !listeners.contains_key(port))
                .ok_or(ListenError::NoPortFree)?,
        };
        let listening = Listening::new(Address { node, port }, config, self.core.mss(), gather, clock::now())
            .map_err(ListenError::System)?;
        let listening = Arc::new(listening);
        // [CDP-ST-2] → LISTEN
        listeners.insert(port, listening.clone());
        Ok(listening)
    }

    /// Takes the next connection that is open, if one waits.
    #[must_use]
    pub fn accept(&self, listening: &Listening) -> Option<Arc<Slot>> {
        listening.accept().or_else(|| {
            self.core.try_turn(self.core.port(0), Runner::User, clock::now());
            let accepted = listening.accept();
            if accepted.is_none() && listening.waiters.has_descriptor(Interest::Readable) {
                // What woke it may have been taken before it did.
                listening.waiters.lower(Interest::Readable);
                self.core.ports.iter().for_each(Port::watch);
            }
            accepted
        })
    }

    /// Blocks until a connection waits, or the listener is closed. False when the deadline passed first.
    #[must_use]
    pub fn wait_accept(&self, listening: &Listening, deadline: Option<Instant>) -> bool {
        let condition =
            Condition { waiters: &listening.waiters, interest: Interest::Readable, deadline, slot: None };
        // A listener hears on every port; the blocked thread looks after the first.
        self.core.wait(|| 0, condition, None)
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
}

/// Ports of the ephemeral range ([CDP-ADR-4]).
const EPHEMERAL_PORTS: u64 = u16::MAX as u64 - CdpPort::FIRST_EPHEMERAL as u64 + 1;

/// The `offset`th ephemeral port in an order that starts at random; each comes once.
fn ephemeral(start: u64, offset: u64) -> CdpPort {
    // An odd stride over a power of two visits every port.
    let stride = (start >> 16) | 1;
    let index = start.wrapping_add(offset.wrapping_mul(stride)) % EPHEMERAL_PORTS;
    u16::try_from(u64::from(CdpPort::FIRST_EPHEMERAL) + index)
        .ok()
        .and_then(CdpPort::new)
        .unwrap_or(CdpPort::CONTROL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// A turn wakes the descriptor of a listener behind its sends: what it is woken for may have been accepted before.
    #[test]
    fn a_descriptor_that_is_woken_late_is_not_readable_for_ever() {
        let bind = "127.0.0.1:0".parse().unwrap();
        let engine = Engine::open(crate::Settings { bind, ..crate::Settings::default() }).unwrap();
        let config = Config::new(weft_base::Service::Stream, engine.mss());
        let listening = engine.listen(None, config, Gather::Off).unwrap();
        let descriptor = engine.accept_readiness(&listening).unwrap();
        let (readable, mut wakes) = (Interest::Readable.bit(), Vec::new());
        listening.waiters.set(readable, readable, &mut wakes);
        listening.waiters.set(0, 0, &mut Vec::new());
        wakes.into_iter().for_each(crate::waiters::Wake::run);
        assert!(engine.accept(&listening).is_none());
        assert_eq!(weft_link::wait(&[descriptor.fd()], Some(std::time::Duration::ZERO)).unwrap(), 0);
    }

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
