//! One end at a time: what it has learnt, probes, sends, and waits for.

use super::super::end::End;
use super::{Happening, World};
use crate::violation::Violation;

impl World {
    /// Reads, passes reports on, sends, and arms the timer.
    pub(super) fn drive(&mut self, end: usize) -> Result<(), Violation> {
        let now = self.queue.now();
        self.ends[end].read_all(now).map_err(|violation| violation.of(format_args!("end {end}")))?;
        let node = self.ends[end].node;
        let mut has_changed = false;
        while let Some(report) = self.ends[end].connection.take_path_report() {
            let srtt = self.ends[end].connection.path_stats().srtt;
            has_changed |= self.nodes[node].handle(now, &report, srtt)?;
        }
        let paths = self.nodes[node].paths()?;
        if has_changed {
            self.figures.switches += 1;
            self.say(|| format!("{}: default {}", self.nodes[node].id, paths.default_path()));
        }
        self.probe_by(end);
        // [CDP-IO-7] each connection learns of a new default when it has something to do next
        if self.ends[end].connection.paths() != paths {
            self.ends[end].connection.set_paths(now, paths);
        }
        self.flush(end)?;
        self.arm(end);
        self.arm_probes(node);
        Ok(())
    }

    pub(super) fn arm(&mut self, end: usize) {
        let at = &mut self.ends[end];
        let Some(due) = at.connection.poll_timeout() else { return };
        let due = due.max(self.queue.now());
        if at.timer_at.is_none_or(|set| due < set) {
            at.timer_at = Some(due);
            self.queue.schedule(due, Happening::Timer { end, at: due });
        }
    }

    pub(super) fn arm_probes(&mut self, node: usize) {
        let now = self.queue.now();
        let at = &mut self.nodes[node];
        // what is due already waits for a connection in touch
        let Some(due) = at.set.next_probe().filter(|due| now < *due) else { return };
        if at.probes_at.is_none_or(|set| due < set) {
            at.probes_at = Some(due);
            self.queue.schedule(due, Happening::Probe { node, at: due });
        }
    }

    /// [CDP-IO-6] A connection that has something to do probes what is due, if it is in touch with its peer.
    pub(super) fn probe_by(&mut self, end: usize) {
        let now = self.queue.now();
        let End { node, connection, .. } = &mut self.ends[end];
        let set = &mut self.nodes[*node].set;
        if set.next_probe().is_none_or(|due| now < due) || !connection.is_in_touch() {
            return;
        }
        while let Some(member) = set.poll_probe(now) {
            connection.probe_path(now, u8::try_from(member).unwrap_or(u8::MAX));
        }
    }

    /// No connection had anything to do when a probe was due: the one that heard its peer last has it now.
    pub(super) fn probe(&mut self, node: usize) -> Result<(), Violation> {
        self.nodes[node].probes_at = None;
        let fit = self.ends.iter().enumerate();
        let fit = fit.filter(|(_, end)| end.node == node && end.connection.is_in_touch());
        match fit.max_by_key(|(_, end)| end.connection.heard_at()) {
            Some((end, _)) => self.drive(end),
            None => Ok(()),
        }
    }
}
