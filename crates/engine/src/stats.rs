//! Snapshots of what an engine counts.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weft_base::{Address, FlowKey, NodeId, Service};
use weft_link::LinkStats;
use weft_proto::{PathStats, State, Stats};

use crate::clock;
use crate::core::Core;
use crate::engine::Engine;
use crate::slot::Slot;

/// When and by which way the two ends of a connection last had to do with each other ([CDP-TMR-3]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contact {
    /// How long the peer has not been heard: until now, or until the connection ended.
    pub silence: Duration,
    /// Where the last packet to the peer went.
    pub sent_to: SocketAddr,
    /// The I/O node that it went through.
    pub sent_through: Option<NodeId>,
    /// The I/O node through which the peer was last heard.
    pub heard_through: Option<NodeId>,
}

/// One connection.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SlotStats {
    /// The two ends.
    pub key: FlowKey,
    /// Datagram or stream.
    pub service: Service,
    /// The state of section 10.
    pub state: State,
    /// Where packets go.
    pub to: SocketAddr,
    /// The last contact.
    pub contact: Contact,
    /// Counters.
    pub counters: Stats,
    /// Measures of the path and the windows.
    pub path: PathStats,
}

/// The I/O nodes that lead to some of the others ([CDP-IO-1]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SideStats {
    /// The I/O nodes in order.
    pub io_nodes: Vec<IoNodeStats>,
    /// How often the default changed.
    pub switches: u64,
}

/// One I/O node of a side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoNodeStats {
    /// Its number.
    pub node: NodeId,
    /// Where it is reached.
    pub at: SocketAddr,
    /// Whether first transmissions go through it.
    pub is_default: bool,
    /// Whether it was left and has not come back.
    pub is_demoted: bool,
    /// Packets sent through it.
    pub packets_sent: u64,
}

/// One port.
#[derive(Clone, PartialEq, Debug)]
pub struct PortStats {
    /// The link in words.
    pub link: String,
    /// Its underlay address.
    pub local: SocketAddr,
    /// Turns run.
    pub turns: u64,
    /// Turns that found packets.
    pub busy_turns: u64,
    /// Packets left at a slot that was busy.
    pub backlogged: u64,
    /// Times a thread slept on the link.
    pub sleeps: u64,
    /// Packets dropped because the link took no more.
    pub stuck_drops: u64,
    /// What the link counted.
    pub counters: LinkStats,
}

/// One listener.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListeningStats {
    /// Where it listens.
    pub address: Address,
    /// Datagram or stream.
    pub service: Service,
    /// Connections that wait for `accept`.
    pub waiting: usize,
    /// Embryos.
    pub half_open: usize,
    /// Connections accepted so far.
    pub accepted: u64,
}

/// A whole engine.
#[derive(Clone, PartialEq, Debug)]
pub struct EngineStats {
    /// The node.
    pub node: NodeId,
    /// The underlay address of the first link.
    pub underlay: SocketAddr,
    /// The ports.
    pub ports: Vec<PortStats>,
    /// Packets dropped, by reason ([CDP-CHK-3]).
    pub drops: Vec<(&'static str, u64)>,
    /// Echo-form RSTs sent.
    pub resets_sent: u64,
    /// Bytes promised as receive slots, or reserved for messages of several packets ([CDP-LIM-13]).
    pub promised_bytes: usize,
    /// Connections in QUIET.
    pub quiet: usize,
    /// The I/O nodes, side by side.
    pub sides: Vec<SideStats>,
    /// The listeners, by port.
    pub listeners: Vec<ListeningStats>,
    /// The connections, by their ends.
    pub connections: Vec<SlotStats>,
}

impl Engine {
    /// A snapshot of everything the engine counts.
    #[must_use]
    pub fn stats(&self) -> EngineStats {
        snapshot(self.core())
    }

    /// A snapshot of one connection.
    #[must_use]
    pub fn slot_stats(&self, slot: &Slot) -> SlotStats {
        of_slot(slot)
    }
}

fn of_slot(slot: &Slot) -> SlotStats {
    let live = slot.look();
    let now = clock::now();
    SlotStats {
        key: slot.key(),
        service: slot.service(),
        state: live.connection.state(),
        to: live.peer_at(),
        contact: live.last_contact(now),
        counters: live.connection.stats(now),
        path: live.connection.path_stats(),
    }
}

pub(crate) fn snapshot(core: &Core) -> EngineStats {
    let mut connections: Vec<SlotStats> = core.slots().iter().map(|slot| of_slot(slot)).collect();
    connections.sort_by_key(|connection| (connection.key.local, connection.key.remote));
    let mut listeners: Vec<ListeningStats> = core
        .listeners
        .read()
        .values()
        .map(|listening| ListeningStats {
            address: listening.address(),
            service: listening.service(),
            waiting: listening.waiting(),
            half_open: listening.half_open.load(Ordering::Relaxed),
            accepted: listening.accepted.load(Ordering::Relaxed),
        })
        .collect();
    listeners.sort_by_key(|listener| listener.address);
    EngineStats {
        node: core.directory.own(),
        underlay: core.ports[0].info.local,
        ports: core.ports.iter().map(of_port).collect(),
        drops: core.drops.snapshot(),
        resets_sent: core.resets_sent.load(Ordering::Relaxed),
        promised_bytes: core.budget.promised(),
        quiet: connections.iter().filter(|connection| connection.state == State::Quiet).count(),
        sides: core.directory.sides().iter().map(|side| side.stats()).collect(),
        listeners,
        connections,
    }
}

fn of_port(port: &crate::port::Port) -> PortStats {
    PortStats {
        link: port.info.name.clone(),
        local: port.info.local,
        turns: port.counters.turns.get(),
        busy_turns: port.counters.busy_turns.get(),
        backlogged: port.counters.backlogged.load(Ordering::Relaxed),
        sleeps: port.counters.sleeps.load(Ordering::Relaxed),
        stuck_drops: port.counters.stuck_drops.load(Ordering::Relaxed),
        counters: port.link.stats(),
    }
}
