//! What an engine is to be.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use weft_base::{NodeId, limits};
use weft_link::{Link, UdpOptions};
use weft_route::{Cluster, Mode, PROBE_INTERVAL};

use crate::stats::EngineStats;
use crate::table::Scheme;

/// Puts a snapshot into words.
pub type Describe = fn(&EngineStats) -> String;

/// Threads that do nothing but run turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Workers {
    /// How many; worker `i` serves port `i mod ports`. Several at one port share its connections (see `lanes`).
    pub threads: usize,
    /// Whether they poll without ever sleeping.
    pub spin: bool,
}

/// What an engine is to be; [`Settings::default`] is a node of its own on any UDP port.
#[derive(Clone)]
pub struct Settings {
    /// The number of the node; `None` takes a random unregistered one ([CDP-ADR-8]).
    pub node: Option<NodeId>,
    /// The UDP address to bind, where `links` is empty.
    pub bind: SocketAddr,
    /// Links to use instead of UDP sockets of the engine's own, a port each.
    pub links: Vec<Arc<dyn Link>>,
    /// UDP sockets that share the address, a port each, where `links` is empty. All packets of one remote address come in
    /// by one of them.
    pub ports: usize,
    /// UDP sockets with a port number of their own, a port each, where `links` is empty. Connections to nodes that the cluster does not
    /// name go out by them in turn ([CDP-ENC-7]), so that those to one peer share the cores of both; none by default.
    pub source_ports: usize,
    /// Bytes wanted for the kernel's send buffer and for its receive buffer of each of these sockets; the kernel may give less.
    pub socket_buffer_bytes: usize,
    /// Where other nodes are reached ([CDP-ADR-6]).
    pub peers: Vec<(NodeId, SocketAddr)>,
    /// Nodes, networks and I/O nodes; `node` is one of them, or on no network of theirs in particular.
    pub cluster: Cluster,
    /// Whether packets of nodes that are neither in the cluster nor among the peers are dropped ([CDP-ADR-7]).
    pub mode: Mode,
    /// Time between two probes of an I/O node that was left ([CDP-IO-6]).
    pub io_probe: Duration,
    /// How the socket table is locked.
    pub scheme: Scheme,
    /// Dedicated threads; none by default.
    pub workers: Workers,
    /// Longest time a blocked thread polls before it sleeps.
    pub spin: Duration,
    /// Bytes that receive windows may promise, and messages of several packets take, in all ([CDP-LIM-13]).
    pub memory_bytes: usize,
    /// Connections in QUIET; beyond that the oldest is freed ([CDP-LIM-12]).
    pub quiet_max: usize,
    /// How long the end of the engine waits for connections to close ([CDP-ST-H]).
    pub linger: Duration,
    /// The name under which statistics are offered to other programs, and the words for them.
    pub stat: Option<(String, Describe)>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            node: None,
            bind: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            links: Vec::new(),
            ports: 1,
            source_ports: 0,
            socket_buffer_bytes: UdpOptions::default().buffer_bytes,
            peers: Vec::new(),
            cluster: Cluster::default(),
            mode: Mode::Open,
            io_probe: PROBE_INTERVAL,
            scheme: Scheme::default(),
            workers: Workers::default(),
            spin: Duration::from_micros(150),
            memory_bytes: half_of_memory(),
            quiet_max: limits::QUIET_MAX,
            linger: Duration::from_secs(2),
            stat: None,
        }
    }
}

/// Half of the machine's memory, or 1 GiB where it does not say.
fn half_of_memory() -> usize {
    const FALLBACK: usize = 1 << 30;
    let Ok(text) = std::fs::read_to_string("/proc/meminfo") else { return FALLBACK };
    let kib =
        text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok());
    kib.map_or(FALLBACK, |kib: usize| kib * 512)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Engine;

    #[test]
    fn the_kernel_is_asked_for_the_buffers_that_are_wanted() {
        let bind = "127.0.0.1:0".parse().unwrap();
        let settings = Settings { bind, socket_buffer_bytes: 100_000, ..Settings::default() };
        let engine = Engine::open(settings).unwrap();
        // It counts twice as much, for what it needs itself.
        let info = &engine.core().port(0).info;
        assert_eq!((info.send_buffer_bytes, info.receive_buffer_bytes), (200_000, 200_000));
    }
}
