//! What befalls the network: paths and nodes that fail and come back, and the end of all that.

use weft_base::Instant;

use super::{Happening, World};
use crate::journal::Entry;
use crate::plan::Trouble;
use crate::violation::Violation;

impl World {
    pub(super) fn trouble(&mut self, trouble: &Trouble) {
        let now = self.queue.now();
        match *trouble {
            Trouble::Black { path, is_black } => self.paths[path].set_black(is_black),
            Trouble::Delay { path, extra } => self.paths[path].set_extra_delay(extra),
            Trouble::Mtu { path, mtu_bytes } => self.paths[path].set_mtu(mtu_bytes),
            Trouble::Crash { node } => self.crash(node),
            Trouble::Restart { node } => self.restart(node),
            // what a node puts off until then must not come after the faults
            Trouble::Suspend { node, time } => {
                self.nodes[node].suspended_until = (now + time).min(Instant::ZERO + self.plan.heals_at);
            }
        }
    }

    fn crash(&mut self, node: usize) {
        self.nodes[node].crash();
        for end in self.ends.iter_mut().filter(|end| end.node == node) {
            end.connection = None;
            end.is_listed = false;
            end.timer_at = None;
            end.wake_at = None;
        }
    }

    fn restart(&mut self, node: usize) {
        if self.nodes[node].is_up {
            return;
        }
        self.nodes[node].is_up = true;
        for service in self.plan.services.iter().filter(|service| service.node == node) {
            self.nodes[node].listen(self.queue.now(), service);
        }
    }

    /// All faults stop: paths carry everything, nodes run, users make no more pauses.
    pub(super) fn heal(&mut self) -> Result<(), Violation> {
        let now = self.queue.now();
        self.has_healed = true;
        self.journal.note(now, Entry::Healed);
        for path in &mut self.paths {
            path.heal();
        }
        for node in 0..self.nodes.len() {
            self.restart(node);
        }
        for end in 0..self.ends.len() {
            self.ends[end].user.hurry();
            self.mark(end);
            self.drive(end)?;
        }
        self.queue.schedule(now + self.time_to_settle(), Happening::Deadline);
        Ok(())
    }
}
