//! Failures, and how long readers wait because of them.

use weft_proto::State;

use super::super::plan::{Illness, Trouble, io_number};
use super::{LIMITS_MAX, World};
use crate::violation::{Invariant, Violation, ensure};

impl World {
    pub(super) fn trouble(&mut self, index: usize, begins: bool) {
        let now = self.queue.now();
        let Trouble { io_node, what, .. } = self.plan.troubles[index];
        self.say(|| format!("I/O node {io_node}: {what:?} {}", if begins { "begins" } else { "ends" }));
        self.io_nodes[io_node].illness = begins.then_some(what);
        if !begins {
            return;
        }
        *self.figures.troubles.entry(what.name()).or_default() += 1;
        for end in 0..self.ends.len() {
            let Some(sender) = self.other(end) else { continue };
            let is_used = self.nodes[self.ends[sender].node].default_number() == Some(io_number(io_node));
            let is_open =
                self.ends[sender].connection.state() == State::Established && self.ends[end].read > 0;
            // drops are found by and by
            if is_used && is_open && !matches!(what, Illness::Drops(_)) {
                let rto = self.ends[sender].connection.path_stats().rto;
                self.ends[end].watch(now, rto);
            }
        }
    }

    pub(super) fn look_at_stalls(&mut self) -> Result<(), Violation> {
        let now = self.queue.now();
        for (index, end) in self.ends.iter_mut().enumerate() {
            let period = self.plan.sessions[end.session].period;
            let Some(stall) = end.take_stall(now, period) else { continue };
            if self.prints && stall.pause > stall.limit() {
                println!("              end {index} waited {:.1?}, RTO {:.1?}", stall.pause, stall.rto);
            }
            ensure(stall.pause < stall.limit() * LIMITS_MAX, Invariant::Liveness, || {
                format!("a reader waited {:?} where the RTO is {:?}", stall.pause, stall.rto)
            })?;
            self.figures.stalls.push(stall);
        }
        Ok(())
    }

    /// The other end of the connection.
    pub(super) fn other(&self, end: usize) -> Option<usize> {
        let flow = self.ends[end].connection.flow();
        let node = self.nodes.iter().position(|node| node.id == flow.remote.node)?;
        self.by_flow.get(&(node, flow.reversed())).copied()
    }
}
