//! What all ports and threads of an engine share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use weft_base::{NodeId, Port as CdpPort};
use weft_proto::Config;
use weft_proto::limiter::EchoResetLimiter;
use weft_sync::scheduler::Driver;
use weft_sync::{Mutex, RwLock, SpinLock};

use crate::attendance::Attendance;
use crate::budget::Budget;
use crate::counters::Drops;
use crate::directory::Directory;
use crate::listening::Listening;
use crate::near::Near;
use crate::port::Port;
use crate::quiet::QuietList;
use crate::slot::Slot;
use crate::table::Table;

/// The engine without its threads.
///
/// Lock order, outermost first: a port's turn or one of its lanes, one slot, a listener's machine, then the short locks of table, wheel,
/// waiters, backlog, queue, gathering, followers, service waker, resets, quiet, sides, directory, last settings and a link's own, each alone.
pub(crate) struct Core {
    pub(crate) directory: Directory,
    pub(crate) table: Box<dyn Table<Slot>>,
    pub(crate) ports: Box<[Port]>,
    /// The ports, as a scheduler of fibers drives them.
    pub(crate) drivers: Box<[Arc<dyn Driver>]>,
    pub(crate) listeners: RwLock<HashMap<CdpPort, Arc<Listening>>>,
    pub(crate) drops: Drops,
    pub(crate) budget: Budget,
    pub(crate) near: Near,
    /// Echo-form RSTs and their limits.
    pub(crate) resets: Mutex<EchoResetLimiter>,
    pub(crate) resets_sent: AtomicU64,
    /// Connections in QUIET.
    pub(crate) quiet: QuietList<Slot>,
    /// The settings of the last connect; those of the next with the same share them.
    pub(crate) last_config: SpinLock<Option<Arc<Config>>>,
    /// The first of the ports that only connections of this node go by; none if it is the number of all.
    pub(crate) first_source: usize,
    /// How many connects have chosen a port.
    pub(crate) next_port: AtomicUsize,
    /// Loops of events of the user's.
    pub(crate) attendance: Attendance,
    /// Longest spin of a blocked thread.
    pub(crate) spin_max: Duration,
    /// No new connections: the node goes down.
    pub(crate) is_down: AtomicBool,
    /// The threads are to end.
    pub(crate) is_stopping: AtomicBool,
}

impl Core {
    pub(crate) fn port(&self, index: usize) -> &Port {
        // A slot's home is always the index of a port, and there is at least one.
        self.ports.get(index).unwrap_or(&self.ports[0])
    }

    /// The port that a connection to `node` goes out by, in turn. A node of the cluster answers to our address there
    /// ([CDP-ENC-6]), whatever port it was asked by.
    pub(crate) fn port_to(&self, node: NodeId) -> usize {
        let (first, all) = (self.first_source, self.ports.len());
        let ports = if first == all || self.directory.is_peer(node) { 0..first } else { first..all };
        ports.start + self.next_port.fetch_add(1, Ordering::Relaxed) % ports.len()
    }

    /// The settings as many connections share them.
    pub(crate) fn share(&self, config: Config) -> Arc<Config> {
        let mut last = self.last_config.lock();
        match &*last {
            Some(last) if **last == config => last.clone(),
            _ => last.insert(Arc::new(config)).clone(),
        }
    }

    /// All connections. They are looked at afterwards: a slot's lock must not be taken while the table is walked.
    pub(crate) fn slots(&self) -> Vec<Arc<Slot>> {
        let mut slots = Vec::with_capacity(self.table.len());
        self.table.for_each(&mut |_, slot| slots.push(slot.clone()));
        slots
    }
}
