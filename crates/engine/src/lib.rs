//! Ports, turns, socket table, timer wheel: drives the protocol machine over links.
//!
//! This file holds the outline the socket face is written against; the bodies follow.

pub mod wheel;

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::io;

use weft_base::{Address, FlowKey, Instant, NodeId, Service};
pub use weft_link as link;

/// How the socket table is locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scheme { /** One lock. */ Coarse, /** Locks per list. */ Fine, /** Readers take no lock. */ #[default] Epoch }

/// Dedicated threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Workers { /** How many. */ pub threads: usize, /** Never sleep. */ pub spin: bool }

/// What to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest { /** Data. */ Readable, /** Room. */ Writable, /** Open decided. */ Connected, /** Close decided. */ Closed }

/// What an engine is to be.
#[allow(missing_docs)]
pub struct Settings {
    pub node: Option<NodeId>, pub bind: SocketAddr, pub links: Vec<Arc<dyn link::Link>>, pub peers: Vec<(NodeId, SocketAddr)>,
    pub ports: usize, pub scheme: Scheme, pub workers: Workers, pub strict: bool, pub stat_name: Option<String>,
    pub spin: Duration, pub memory_bytes: usize, pub linger: Duration,
}

impl Default for Settings { fn default() -> Self { todo!() } }

/// An engine.
#[derive(Debug)]
pub struct Engine(());
/// A connection's place.
#[derive(Debug)]
pub struct Slot(());
/// A listener's place.
#[derive(Debug)]
pub struct Listening(());

#[allow(missing_docs, clippy::missing_errors_doc, unused_variables)]
impl Engine {
    pub fn open(settings: Settings) -> io::Result<Self> { todo!() }
    pub fn node(&self) -> NodeId { todo!() }
    pub fn mss(&self) -> u16 { todo!() }
    pub fn now(&self) -> Instant { todo!() }
    pub fn underlay(&self) -> SocketAddr { todo!() }
    pub fn add_peer(&self, node: NodeId, at: SocketAddr) { todo!() }
    pub fn shutdown(&self, limit: Duration) -> usize { todo!() }
    pub fn flush(&self, slot: &Arc<Slot>) { todo!() }
    pub fn close(&self, slot: &Arc<Slot>) { todo!() }
    pub fn abort(&self, slot: &Arc<Slot>) { todo!() }
    pub fn release(&self, slot: &Arc<Slot>) { todo!() }
    pub fn wait(&self, slot: &Arc<Slot>, interest: Interest, deadline: Option<Instant>) -> bool { todo!() }
    pub fn poll_ready(&self, slot: &Arc<Slot>, interest: Interest, context: &mut Context<'_>) -> Poll<()> { todo!() }
    pub fn readiness(&self, slot: &Arc<Slot>, interest: Interest) -> io::Result<Arc<link::Waker>> { todo!() }
    pub fn accept(&self, listening: &Arc<Listening>) -> Option<Arc<Slot>> { todo!() }
    pub fn wait_accept(&self, listening: &Arc<Listening>, deadline: Option<Instant>) -> bool { todo!() }
    pub fn poll_acceptable(&self, listening: &Arc<Listening>, context: &mut Context<'_>) -> Poll<()> { todo!() }
    pub fn accept_readiness(&self, listening: &Arc<Listening>) -> io::Result<Arc<link::Waker>> { todo!() }
    pub fn unlisten(&self, listening: &Arc<Listening>) { todo!() }
}

#[allow(missing_docs, unused_variables)]
impl Slot {
    pub fn key(&self) -> FlowKey { todo!() }
    pub fn service(&self) -> Service { todo!() }
    pub fn is_ready(&self, interest: Interest) -> bool { todo!() }
    pub fn peer_underlay(&self) -> SocketAddr { todo!() }
}

#[allow(missing_docs)]
impl Listening {
    pub fn address(&self) -> Address { todo!() }
    pub fn is_closed(&self) -> bool { todo!() }
}

/// Statistics for other processes.
#[allow(missing_docs, clippy::missing_errors_doc, unused_variables)]
pub mod control {
    use std::io;
    pub fn list() -> io::Result<Vec<String>> { todo!() }
    pub fn query(name: &str) -> io::Result<String> { todo!() }
}
