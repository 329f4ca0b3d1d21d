//! What must hold soon after the faults stop, and at the very end (I8, I11, I12).

use std::time::Duration;

use weft_proto::{Connection, State};

use super::World;
use crate::end::End;
use crate::plan::Target;
use crate::report::Report;
use crate::violation::{Invariant, Violation, ensure};
use crate::watch::{counters, ending};

/// Longest that a connection may live on after the faults: an expiry of 300 s, or a give-up of 100 s that begins
/// late, then a FIN of 60 s and 60 s of QUIET; and again as much for an end that opened late.
const LIVES_AT_MOST: Duration = Duration::from_secs(900);

impl World {
    /// Everything must be over so long after the faults stopped.
    pub(super) fn time_to_end(&self) -> Duration {
        LIVES_AT_MOST + self.plan.heals_at
    }

    /// I12: 4 × RTO_MAX, and what the slowest path needs to carry what may be queued.
    pub(super) fn time_to_settle(&self) -> Duration {
        let slowest = self.paths.iter().filter(|path| path.settings().rate_bytes_per_s > 1);
        let carry = slowest.map(|path| 4_000_000_000_000_000 / path.settings().rate_bytes_per_s.max(1)).max();
        self.plan.rto_max() * 4 + Duration::from_secs(1) + Duration::from_nanos(carry.unwrap_or(0))
    }

    /// Notes which numbers an end has used when the faults stop.
    pub(super) fn mark(&mut self, end: usize) {
        let opens = &self.opens;
        let at = &mut self.ends[end];
        let confirms = at.watch.iss().zip(at.watch.irs()).is_some_and(|(iss, irs)| opens.confirms(iss, irs));
        // [CDP-ST-F] the acknowledgement of a FIN may wait for the reader
        let fin = at.watch.fin().filter(|_| confirms);
        at.mark = Some(fin.unwrap_or(at.watch.next()));
    }

    /// I12: what was in flight when the faults stopped has been acknowledged, or its connection has ended.
    pub(super) fn check_deadline(&mut self) -> Result<(), Violation> {
        for (index, end) in self.ends.iter().enumerate() {
            let (Some(mark), Some(connection)) = (end.mark, &end.connection) else { continue };
            let state = connection.state();
            // An embryo sends nothing of its own accord ([CDP-CKE-4]); it lasts for SYN_TIME if its client is gone.
            let is_over =
                connection.is_embryo() || matches!(state, State::CloseWait | State::Quiet | State::Closed);
            ensure(is_over || end.watch.acked() >= mark, Invariant::Liveness, || {
                format!(
                    "end {index} ({state:?}): {} of {mark} numbers are acknowledged {:?} after the faults stopped",
                    end.watch.acked(),
                    self.time_to_settle()
                )
            })?;
        }
        Ok(())
    }

    /// Who is not over yet, in words.
    pub(super) fn stragglers(&self) -> String {
        let open =
            self.ends.iter().enumerate().filter(|(_, end)| {
                end.connection.as_ref().is_some_and(|connection| !connection.is_finished())
            });
        let names: Vec<String> = open
            .filter_map(|(index, end)| Some(format!("end {index} in {:?}", end.connection.as_ref()?.state())))
            .collect();
        format!("{:?} after the faults stopped these are not over: {}", self.time_to_end(), names.join(", "))
    }

    /// Nothing happens any more.
    pub(super) fn finish(&mut self) -> Result<(), Violation> {
        let now = self.queue.now();
        for path in &self.paths {
            ensure(path.counts().add_up(), Invariant::Counters, || format!("a path: {:?}", path.counts()))?;
        }
        for (index, end) in self.ends.iter().enumerate() {
            self.check_end(end).map_err(|violation| {
                violation.of(format_args!("end {index} (session {} role {})", end.session, end.role))
            })?;
            if let Some(connection) = &end.connection {
                counters::check_final(&connection.stats(now))?;
            }
        }
        for session in 0..self.plan.sessions.len() {
            self.check_session(session)
                .map_err(|violation| violation.of(format_args!("session {session}")))?;
        }
        Ok(())
    }

    fn check_end(&self, end: &End) -> Result<(), Violation> {
        let ended = end.ended(&self.opens);
        ending::check_final(&ended)?;
        let Some(peer) = end.peer.map(|peer| &self.ends[peer]) else { return Ok(()) };
        // Only ends that took each other for their peers can be compared.
        if peer.watch.irs() != end.watch.iss() || peer.connection.is_none() {
            return Ok(());
        }
        let other = peer.ended(&self.opens);
        ending::check_honest(&ended, &other)?;
        ending::check_discarded(&ended, &other)?;
        ending::check_agreement(&ended, &other)
    }

    /// An exchange that nothing should have kept from completing.
    fn check_session(&self, session: usize) -> Result<(), Violation> {
        let Some((one, two)) = self.undisturbed(session)? else { return Ok(()) };
        let is_calm =
            self.plan.troubles.is_empty() && self.paths.iter().all(|path| path.counts().dropped() == 0);
        ending::check_complete(&one.ended(&self.opens), two.user.written(), is_calm)
            .and_then(|()| ending::check_complete(&two.ended(&self.opens), one.user.written(), is_calm))?;
        for end in [one, two] {
            let wanted = end.user.script().writes.len();
            ensure(end.user.written_all() == wanted, Invariant::Liveness, || {
                format!("role {}: {} of {wanted} writes were made", end.role, end.user.written_all())
            })?;
        }
        Ok(())
    }

    /// The two ends of a session that had to complete: nobody crashed, nobody was in a hurry, no black hole outlasted
    /// a give-up, and no other connection used the same ports.
    ///
    /// Fails if the client of such a session found no server.
    fn undisturbed(&self, session: usize) -> Result<Option<(&End, &End)>, Violation> {
        let plan = &self.plan.sessions[session];
        let (far, service) = match &plan.target {
            Target::Service(service) => {
                let service = &self.plan.services[*service];
                (service.node, service.config.service)
            }
            Target::Peer { node, config, .. } => (*node, config.service),
        };
        let is_patient = plan.client_script.is_patient() && plan.server_script.is_patient();
        let shares_ports = self.plan.sessions.iter().enumerate().any(|(other, theirs)| {
            other != session && theirs.client == plan.client && theirs.client_port == plan.client_port
        });
        let is_usual = is_patient && !shares_ports && !self.plan.is_long && service == plan.config.service;
        if !is_usual || self.plan.crashes(plan.client) || self.plan.crashes(far) {
            return Ok(None);
        }
        let Some(one) = self.ends.iter().find(|end| end.session == session && end.role == 0) else {
            return Ok(None);
        };
        let meets = |end: &&End| end.watch.irs() == one.watch.iss() && one.watch.irs() == end.watch.iss();
        let two = self.ends.iter().filter(|end| end.session == session && end.role == 1).find(meets);
        // In a simultaneous open the one may be refused before the other begins; then they do not meet.
        let may_miss = matches!(plan.target, Target::Peer { .. });
        ensure(two.is_some() || may_miss, Invariant::Liveness, || {
            let error = one.connection.as_ref().and_then(Connection::error);
            format!("nothing kept the client from opening, and it met nobody: {error:?}")
        })?;
        Ok(two.map(|two| (one, two)))
    }

    pub(super) fn report(&self) -> Report {
        let mut report =
            Report::new(&self.plan, self.journal.hash(), self.journal.events(), self.queue.now());
        for path in &self.paths {
            report.paths.merge(path.counts());
        }
        for end in &self.ends {
            report.add_end(end);
        }
        for session in 0..self.plan.sessions.len() {
            if let Ok(Some((one, two))) = self.undisturbed(session) {
                let path = one.node * self.nodes.len() + two.node;
                report.add_transfer(self.plan.paths[path].loss, one, two);
            }
        }
        report
    }
}
