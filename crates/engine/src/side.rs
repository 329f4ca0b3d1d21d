//! The I/O nodes towards one side (`docs/spec/cdp.md`, section 14.2), for all connections that go through them
//! ([CDP-IO-7]).
//!
//! A connection says by which path each packet goes and what became of those before; a side knows which I/O node that is,
//! and which is the default. Lock order: a side's lock is taken alone or under one slot's; nothing is locked, sent or woken
//! under it. It is taken where something was lost, answered or is to be probed: that all is well, which each acknowledgement
//! says, is known without it.
//!
//! A member that was left is probed by the first connection in touch with its peer that has something to do when it is due, or,
//! where none has, by the one that heard its peer last: see [`Core::probe_sides`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use weft_base::{Instant, NodeId};
use weft_proto::{Connection, PathReport, Paths};
use weft_route::{IoSet, Underlay};
use weft_sync::SpinLock;

use crate::core::Core;
use crate::outbox::Outbox;
use crate::slot::Slot;
use crate::stats::{IoNodeStats, SideStats};

/// The I/O nodes towards one side.
#[derive(Debug)]
pub(crate) struct Side {
    io_nodes: Box<[IoNode]>,
    /// Packets that each was given.
    sent: Box<[Sent]>,
    default: AtomicU8,
    /// One bit for each I/O node that has lost something since it last delivered: a delivery by another is no news.
    losing: AtomicU16,
    /// When an I/O node that was left is to be probed next, in nanoseconds; `u64::MAX` for never.
    next_probe: AtomicU64,
    set: SpinLock<IoSet>,
}

#[derive(Debug)]
struct IoNode {
    node: NodeId,
    at: SocketAddr,
}

/// A counter on a line of its own, as all connections write it.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Sent(AtomicU64);

/// Packets in a row by one path, counted together.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Run {
    path: u8,
    packets: u64,
}

impl Side {
    /// A side whose I/O nodes, once left, are probed every `probe_interval`.
    pub(crate) fn new(side: &weft_route::Side, probe_interval: Duration) -> Self {
        let io_node = |&(node, Underlay::Udp(at)): &(NodeId, Underlay)| IoNode { node, at };
        let mut set = side.io_set();
        set.set_probe_interval(probe_interval);
        Self {
            io_nodes: side.io_nodes.iter().map(io_node).collect(),
            sent: side.io_nodes.iter().map(|_| Sent::default()).collect(),
            default: AtomicU8::new(narrow(set.default_member())),
            losing: AtomicU16::new(0),
            next_probe: AtomicU64::new(u64::MAX),
            set: SpinLock::new(set),
        }
    }

    /// What a connection is to know of it.
    #[inline]
    pub(crate) fn paths(&self) -> Paths {
        Paths::new(narrow(self.io_nodes.len()), self.default.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// The address of the I/O node that is path `path`, for so many packets more of `run`.
    #[inline]
    pub(crate) fn send_by(&self, path: u8, packets: u32, run: &mut Run) -> SocketAddr {
        if path != run.path {
            self.count(std::mem::replace(run, Run { path, packets: 0 }));
        }
        run.packets += u64::from(packets);
        self.io_nodes[usize::from(path) % self.io_nodes.len()].at
    }

    /// Counts the packets of a run.
    #[inline]
    pub(crate) fn count(&self, run: Run) {
        if run.packets > 0 {
            let sent = &self.sent[usize::from(run.path) % self.sent.len()];
            sent.0.fetch_add(run.packets, Ordering::Relaxed);
        }
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
    /// and has it probe what is due. Returns when a member that was left is to be probed next, if that is new.
    #[inline]
    pub(crate) fn consult(&self, connection: &mut Connection, now: Instant) -> Option<Instant> {
        let mut due = None;
        if let Some(report) = connection.take_path_report() {
            due = self.take_reports(connection, report, now);
        }
        if self.is_probe_due(now) {
            due = self.probe(connection, now).or(due);
        }
        let paths = self.paths();
        if connection.paths() != paths {
            connection.set_paths(now, paths);
        }
        due
    }

    /// [CDP-IO-4] [CDP-IO-5] Counts losses and deliveries, and promotes another member where they say so.
    fn take_reports(&self, connection: &mut Connection, first: PathReport, now: Instant) -> Option<Instant> {
        let mut set = None;
        let mut next = Some(first);
        while let Some(report) = next {
            if self.is_news(&report) {
                let set = set.get_or_insert_with(|| self.set.lock());
                take_report(set, &report, connection, now);
            }
            next = connection.take_path_report();
        }
        self.publish(&*set?)
    }

    /// [CDP-IO-13] The host at `to`, if it is that of an I/O node, said that nobody is there. Returns when a member that was
    /// left is to be probed next, if that is new.
    #[cold]
    pub(crate) fn note_gone(&self, to: SocketAddr, now: Instant) -> Option<Instant> {
        let path = self.path_from(to)?;
        let mut set = self.set.lock();
        set.note_gone(now, usize::from(path));
        self.publish(&set)
    }

    /// Whether there is more to a report than that a member which has lost nothing delivers.
    fn is_news(&self, report: &PathReport) -> bool {
        let is_losing = self.losing.load(Ordering::Relaxed) & bit(usize::from(report.path)) != 0;
        report.lost > 0 || report.answered_after.is_some() || (report.was_cleared && is_losing)
    }

    /// Whether a member that was left is to be probed by now.
    #[inline]
    fn is_probe_due(&self, now: Instant) -> bool {
        self.next_probe.load(Ordering::Relaxed) <= now.as_nanos()
    }

    /// [CDP-IO-6] Has the connection probe the members that were left, if it is one whose peer would answer.
    #[cold]
    fn probe(&self, connection: &mut Connection, now: Instant) -> Option<Instant> {
        if !connection.is_in_touch() {
            return None;
        }
        let mut set = self.set.lock();
        while let Some(member) = set.poll_probe(now) {
            connection.probe_path(now, narrow(member));
        }
        self.publish(&set)
    }

    /// Tells those who do not take the lock; only what has changed is written. Returns when a member is to be probed next, if
    /// that is new.
    fn publish(&self, set: &IoSet) -> Option<Instant> {
        let default = narrow(set.default_member());
        if self.default.load(Ordering::Relaxed) != default {
            self.default.store(default, Ordering::Relaxed);
        }
        let losing = (0..set.len()).filter(|member| set.is_losing(*member)).map(bit).sum();
        if self.losing.load(Ordering::Relaxed) != losing {
            self.losing.store(losing, Ordering::Relaxed);
        }
        let due = set.next_probe();
        let next = due.map_or(u64::MAX, Instant::as_nanos);
        let is_new = self.next_probe.load(Ordering::Relaxed) != next;
        if is_new {
            self.next_probe.store(next, Ordering::Relaxed);
        }
        due.filter(|_| is_new)
    }

    pub(crate) fn stats(&self) -> SideStats {
        let set = self.set.lock();
        let io_node = |(member, io_node): (usize, &IoNode)| IoNodeStats {
            node: io_node.node,
            at: io_node.at,
            is_default: member == set.default_member(),
            is_demoted: set.is_demoted(member),
            packets_sent: self.sent[member].0.load(Ordering::Relaxed),
        };
        SideStats {
            io_nodes: self.io_nodes.iter().enumerate().map(io_node).collect(),
            switches: set.switches(),
        }
    }
}

fn take_report(set: &mut IoSet, report: &PathReport, connection: &Connection, now: Instant) {
    let member = usize::from(report.path);
    if report.was_cleared {
        set.note_delivered(member);
    }
    set.note_lost(now, member, report.lost);
    if let Some(took) = report.answered_after {
        // where there is no round trip to compare with, none is too long
        let usual = connection.path_stats().srtt.unwrap_or(took);
        set.note_answer(now, member, took, usual);
    }
}

impl Core {
    /// [CDP-IO-6] The timer for probes: the members are due that were left, and no connection has had anything to do since. Those
    /// of a side without a connection in touch wait for one.
    #[cold]
    pub(crate) fn probe_sides(&self, now: Instant, out: &mut Outbox) {
        for side in self.directory.sides() {
            if side.is_probe_due(now)
                && let Some(slot) = self.most_in_touch(side)
            {
                let mut live = slot.lock();
                self.pump(&slot, &mut live, now, out);
                self.unlock(&slot, live, now, out);
            }
            let next = Instant::from_nanos(side.next_probe.load(Ordering::Relaxed));
            if now < next && next != Instant::MAX {
                self.arm_probe(next);
            }
        }
    }

    /// Sees to it that [`Core::probe_sides`] is called by `due`; one port does that for all.
    pub(crate) fn arm_probe(&self, due: Instant) {
        self.port(0).arm_probe(due);
    }

    /// The connection through `side` that heard its peer last, of those that are in touch.
    fn most_in_touch(&self, side: &Arc<Side>) -> Option<Arc<Slot>> {
        let heard_at = |slot: &Arc<Slot>| {
            let live = slot.look();
            let is_fit =
                live.side.as_ref().is_some_and(|own| Arc::ptr_eq(own, side)) && live.connection.is_in_touch();
            is_fit.then(|| live.connection.heard_at())
        };
        let fit = self.slots().into_iter().filter_map(|slot| Some((heard_at(&slot)?, slot)));
        fit.max_by_key(|(heard_at, _)| *heard_at).map(|(_, slot)| slot)
    }
}

fn bit(member: usize) -> u16 {
    1_u16.checked_shl(u32::try_from(member).unwrap_or(u32::MAX)).unwrap_or(0)
}

/// Members are at most as many as paths.
fn narrow(member: usize) -> u8 {
    u8::try_from(member).unwrap_or(0)
}

#[cfg(test)]
pub(crate) mod tests {
    use weft_base::{Address, FlowKey, Port, Seq, Service};
    use weft_proto::{Config, Secret};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(time: Duration) -> Instant {
        Instant::ZERO + time
    }

    fn side() -> Side {
        let io_node = |number| {
            let at = format!("10.0.0.{number}:1").parse().unwrap();
            (NodeId::new(number).unwrap(), Underlay::Udp(at))
        };
        Side::new(&weft_route::Side { io_nodes: vec![io_node(11), io_node(12)], default: 0 }, 20 * MS)
    }

    /// A connection that has taken no round trip yet.
    pub(crate) fn connection() -> Connection {
        let end = |node| Address { node: NodeId::new(node).unwrap(), port: Port::ECHO };
        let flow = FlowKey { local: end(1), remote: end(2) };
        let secret = Secret { iss: Seq::new(1), entropy: 1 };
        Connection::connect(Instant::ZERO, flow, Config::new(Service::Stream, 1_444), secret)
    }

    fn report(path: u8) -> PathReport {
        PathReport { path, was_cleared: false, lost: 0, answered_after: None }
    }

    fn take(side: &Side, report: &PathReport, now: Instant) -> Option<Instant> {
        let mut set = side.set.lock();
        take_report(&mut set, report, &connection(), now);
        side.publish(&set)
    }

    /// [CDP-IO-6] A connection that knows no round trip yet believes each answer.
    #[test]
    fn an_answer_counts_where_there_is_no_round_trip_to_compare_with() {
        let side = side();
        let due = take(&side, &PathReport { lost: 3, ..report(0) }, at(MS));
        assert_eq!((due, side.paths().default_path()), (Some(at(21 * MS)), 1));
        let mut now = at(21 * MS);
        for _ in 0..3 {
            assert!(side.is_probe_due(now));
            assert_eq!(side.set.lock().poll_probe(now), Some(0));
            take(&side, &PathReport { answered_after: Some(15 * MS), ..report(0) }, now);
            now += 20 * MS;
        }
        assert_eq!((side.paths().default_path(), side.is_probe_due(at(1_000 * MS))), (0, false));
    }

    /// That all is well, as each acknowledgement says, is no news and takes no lock.
    #[test]
    fn a_delivery_is_news_of_a_member_that_lost_something() {
        let side = side();
        let delivery = |path| PathReport { was_cleared: true, ..report(path) };
        assert!(!side.is_news(&delivery(0)) && side.is_news(&PathReport { lost: 1, ..report(0) }));
        take(&side, &PathReport { lost: 1, ..report(0) }, at(MS));
        assert!(side.is_news(&delivery(0)) && !side.is_news(&delivery(1)));
        take(&side, &delivery(0), at(MS));
        assert!(!side.is_news(&delivery(0)));
    }

    #[test]
    fn packets_are_counted_by_member() {
        let (side, mut run) = (side(), Run::default());
        let to: Vec<_> = [0, 0, 1, 0].map(|path| side.send_by(path, 1, &mut run).to_string()).into();
        side.count(run);
        assert_eq!(to, ["10.0.0.11:1", "10.0.0.11:1", "10.0.0.12:1", "10.0.0.11:1"]);
        let sent: Vec<_> = side.stats().io_nodes.iter().map(|io_node| io_node.packets_sent).collect();
        assert_eq!(sent, [3, 1]);
    }
}
