//! The I/O nodes towards one side (`docs/spec/cdp.md`, section 14.2), for all connections that go through them
//! ([CDP-IO-7]).
//!
//! A connection says by which path each packet goes and what became of those before; a side knows which I/O node that is,
//! and which is the default. Lock order: a side's lock is taken alone or under one slot's; nothing is locked, sent or woken
//! under it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use weft_base::{Instant, NodeId};
use weft_proto::{Connection, PathReport, Paths, State};
use weft_route::{IoSet, Underlay};
use weft_sync::SpinLock;

use crate::stats::{IoNodeStats, SideStats};

/// The I/O nodes towards one side.
#[derive(Debug)]
pub(crate) struct Side {
    io_nodes: Box<[IoNode]>,
    default: AtomicU8,
    /// When an I/O node that was left is to be probed next, in nanoseconds; `u64::MAX` for never.
    next_probe: AtomicU64,
    set: SpinLock<IoSet>,
}

#[derive(Debug)]
struct IoNode {
    node: NodeId,
    at: SocketAddr,
    packets: AtomicU64,
}

impl Side {
    /// A side whose I/O nodes, once left, are probed every `probe_interval`.
    pub(crate) fn new(side: &weft_route::Side, probe_interval: Duration) -> Self {
        let io_node =
            |&(node, Underlay::Udp(at)): &(NodeId, Underlay)| IoNode { node, at, packets: AtomicU64::new(0) };
        let mut set = side.io_set();
        set.set_probe_interval(probe_interval);
        Self {
            io_nodes: side.io_nodes.iter().map(io_node).collect(),
            default: AtomicU8::new(narrow(set.default_member())),
            next_probe: AtomicU64::new(u64::MAX),
            set: SpinLock::new(set),
        }
    }

    /// What a connection is to know of it.
    #[inline]
    pub(crate) fn paths(&self) -> Paths {
        Paths::new(narrow(self.io_nodes.len()), self.default.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// The address of the I/O node that is path `path`, for one packet more.
    #[inline]
    pub(crate) fn send_by(&self, path: u8) -> SocketAddr {
        let io_node = &self.io_nodes[usize::from(path) % self.io_nodes.len()];
        io_node.packets.fetch_add(1, Ordering::Relaxed);
        io_node.at
    }

    /// The I/O node that is path `path`, and where it is.
    pub(crate) fn io_node(&self, path: u8) -> (NodeId, SocketAddr) {
        let io_node = &self.io_nodes[usize::from(path) % self.io_nodes.len()];
        (io_node.node, io_node.at)
    }

    /// The address of the default.
    pub(crate) fn default_at(&self) -> SocketAddr {
        self.io_nodes[usize::from(self.default.load(Ordering::Relaxed)) % self.io_nodes.len()].at
    }

    /// The path by which packets from there come.
    #[inline]
    pub(crate) fn path_from(&self, from: SocketAddr) -> Option<u8> {
        self.io_nodes.iter().position(|io_node| io_node.at == from).map(narrow)
    }

    /// Before a connection is asked for packets: takes what it has learnt of its paths, tells it the default that follows,
    /// and has it probe what is due.
    #[inline]
    pub(crate) fn consult(&self, connection: &mut Connection, now: Instant) {
        if let Some(report) = connection.take_path_report() {
            self.take_reports(connection, report, now);
        }
        if self.next_probe.load(Ordering::Relaxed) <= now.as_nanos() {
            self.probe(connection, now);
        }
        let paths = self.paths();
        if connection.paths() != paths {
            connection.set_paths(now, paths);
        }
    }

    /// [CDP-IO-4] [CDP-IO-5] Counts losses and deliveries, and promotes another member where they say so.
    fn take_reports(&self, connection: &mut Connection, first: PathReport, now: Instant) {
        let mut set = self.set.lock();
        let mut next = Some(first);
        while let Some(report) = next {
            let member = usize::from(report.path);
            if report.was_cleared {
                set.note_delivered(member);
            }
            set.note_lost(now, member, report.lost);
            if let Some(took) = report.answered_after {
                let usual = connection.path_stats().srtt.unwrap_or_default();
                set.note_answer(now, member, took, usual);
            }
            next = connection.take_path_report();
        }
        self.publish(&set);
    }

    /// [CDP-IO-13] The host at `to`, if it is that of an I/O node, said that nobody is there.
    #[cold]
    pub(crate) fn note_gone(&self, to: SocketAddr, now: Instant) {
        let Some(path) = self.path_from(to) else { return };
        let mut set = self.set.lock();
        set.note_gone(now, usize::from(path));
        self.publish(&set);
    }

    /// [CDP-IO-6] Has the connection probe a member that was left.
    #[cold]
    fn probe(&self, connection: &mut Connection, now: Instant) {
        if connection.state() != State::Established {
            return;
        }
        let mut set = self.set.lock();
        while let Some(member) = set.poll_probe(now) {
            connection.probe_path(now, narrow(member));
        }
        self.publish(&set);
    }

    fn publish(&self, set: &IoSet) {
        self.default.store(narrow(set.default_member()), Ordering::Relaxed);
        let next = set.next_probe().map_or(u64::MAX, Instant::as_nanos);
        self.next_probe.store(next, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self) -> SideStats {
        let set = self.set.lock();
        let io_node = |(member, io_node): (usize, &IoNode)| IoNodeStats {
            node: io_node.node,
            at: io_node.at,
            is_default: member == set.default_member(),
            is_demoted: set.is_demoted(member),
            packets_sent: io_node.packets.load(Ordering::Relaxed),
        };
        SideStats {
            io_nodes: self.io_nodes.iter().enumerate().map(io_node).collect(),
            switches: set.switches(),
        }
    }
}

/// Members are at most as many as paths.
fn narrow(member: usize) -> u8 {
    u8::try_from(member).unwrap_or(0)
}
