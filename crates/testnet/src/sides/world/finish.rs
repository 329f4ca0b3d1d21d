//! The end of a run: everything has arrived, and every default is back.

use super::World;
use crate::violation::{Invariant, Violation, ensure};

impl World {
    /// All I/O nodes have been well for long: every default is back, and everything has arrived.
    pub(super) fn close_all(&mut self) -> Result<(), Violation> {
        let now = self.queue.now();
        for end in 0..self.ends.len() {
            let written = self.other(end).map_or(0, |other| self.ends[other].written);
            ensure(self.ends[end].read == written, Invariant::Liveness, || {
                format!("end {end} has read {} of {written} bytes", self.ends[end].read)
            })?;
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let is_used = self.ends.iter().any(|end| end.node == index);
            // [CDP-IO-6]
            ensure(!is_used || node.set.default_member() == node.side.default, Invariant::Return, || {
                format!("{} still uses I/O node {}", node.id, node.set.default_member())
            })?;
        }
        for end in 0..self.ends.len() {
            if self.ends[end].connection.is_client() {
                self.ends[end].connection.close(now);
                self.drive(end)?;
            }
        }
        Ok(())
    }

    pub(super) fn finish(&mut self) -> Result<(), Violation> {
        ensure(self.ends.len() == 2 * self.plan.sessions.len(), Invariant::Liveness, || {
            format!("{} ends of {} connections", self.ends.len(), self.plan.sessions.len())
        })?;
        for (index, end) in self.ends.iter().enumerate() {
            let result = end.connection.close_result();
            ensure(result.is_some_and(|result| result.confirmed), Invariant::Ending, || {
                format!("end {index} closed with {result:?}")
            })?;
        }
        Ok(())
    }
}
