//! The I/O nodes towards one side: losses counted, the default promoted, the demoted probed
//! (`docs/spec/cdp.md`, section 14.2).
//!
//! [CDP-IO-7] One set serves all connections of a node to one side. Members are named by their index; the set knows no
//! addresses.

use std::time::Duration;

use weft_base::Instant;

/// Losses in a row of the default after which another member takes its place (CDP-IO-5).
pub const LOSSES_MAX: u32 = 3;
/// Members of a set at most: what an IOSET TLV holds.
pub const MEMBERS_MAX: usize = 16;
/// The shortest one that may be asked for.
const PROBE_INTERVAL_MIN: Duration = Duration::from_millis(1);
/// Time between two probes of a demoted member (IO_PROBE of section 12).
pub const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// Answers in a row after which a demoted member counts as well again (CDP-IO-6).
const ANSWERS: u32 = 3;
/// Answers asked of a member that was demoted again and again, at most.
const ANSWERS_MAX: u32 = 48;
/// A demotion this long after the last return has nothing to do with it.
const FORGIVEN_AFTER: Duration = Duration::from_secs(300);
/// An answer this many times later than usual, and this much, is none: the member is slow.
const SLOW_TIMES: u32 = 4;
const SLOW_AT_LEAST: Duration = Duration::from_millis(10);

/// One member.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Losses since it last delivered.
    losses: u32,
    /// When it last lost something.
    last_loss: Option<Instant>,
    probation: Option<Probation>,
    /// How many answers in a row it needs next time, 0 for [`ANSWERS`].
    answers_needed: u32,
    /// When it last came back.
    returned_at: Option<Instant>,
}

/// A demoted member on its way back.
#[derive(Clone, Copy, Debug)]
struct Probation {
    next_probe: Instant,
    answers: u32,
    is_asked: bool,
}

/// The members towards one side, and which of them is the default.
#[derive(Clone, Debug)]
pub struct IoSet {
    members: Vec<State>,
    default: usize,
    /// The default of the cluster file.
    preferred: usize,
    probe_interval: Duration,
    switches: u64,
}

impl IoSet {
    /// A set of `count` members, 1 to [`MEMBERS_MAX`], of which `preferred` is the default; values beyond are cut.
    #[must_use]
    pub fn new(count: usize, preferred: usize) -> Self {
        let count = count.clamp(1, MEMBERS_MAX);
        let preferred = preferred.min(count - 1);
        Self {
            members: vec![State::default(); count],
            default: preferred,
            preferred,
            probe_interval: PROBE_INTERVAL,
            switches: 0,
        }
    }

    /// Sets the time between two probes of a demoted member (IO_PROBE), of a millisecond at least.
    pub fn set_probe_interval(&mut self, interval: Duration) {
        self.probe_interval = interval.max(PROBE_INTERVAL_MIN);
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is none, which is never.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The member that first transmissions go through.
    #[must_use]
    pub const fn default_member(&self) -> usize {
        self.default
    }

    /// How often the default changed.
    #[must_use]
    pub const fn switches(&self) -> u64 {
        self.switches
    }

    /// Whether `member` was demoted and has not come back.
    #[must_use]
    pub fn is_demoted(&self, member: usize) -> bool {
        self.members.get(member).is_some_and(|state| state.probation.is_some())
    }

    /// Whether `member` has lost something since it last delivered.
    #[must_use]
    pub fn is_losing(&self, member: usize) -> bool {
        self.members.get(member).is_some_and(|state| state.losses > 0)
    }

    /// [CDP-IO-4] A number sent once through `member` was acknowledged.
    pub fn note_delivered(&mut self, member: usize) {
        if let Some(state) = self.members.get_mut(member) {
            state.losses = 0;
        }
    }

    /// [CDP-IO-4] `count` numbers were declared lost whose last transmission went through `member`. Tells whether the
    /// default changed.
    pub fn note_lost(&mut self, now: Instant, member: usize, count: u32) -> bool {
        let Some(state) = self.members.get_mut(member).filter(|_| count > 0) else { return false };
        state.losses = state.losses.saturating_add(count);
        state.last_loss = Some(now);
        if let Some(probation) = &mut state.probation {
            probation.answers = 0;
        }
        member == self.default && self.promote(now)
    }

    /// [CDP-IO-5] At a count of 3 the next member with a count of 0 becomes default, or else the one whose last loss is
    /// oldest.
    fn promote(&mut self, now: Instant) -> bool {
        let old = self.default;
        if self.members[old].losses < LOSSES_MAX {
            return false;
        }
        let oldest = || self.others().min_by_key(|&member| self.members[member].last_loss);
        let Some(next) = self.unharmed(now).or_else(oldest) else { return false };
        self.demote(old, now);
        self.switch(next);
        true
    }

    /// The members after the default, and around.
    fn others(&self) -> impl Iterator<Item = usize> {
        let (default, count) = (self.default, self.members.len());
        (1..count).map(move |step| (default + step) % count)
    }

    /// The next that has lost nothing. A loss on a member that is not the default is of the past after a while: too little
    /// goes through it for a delivery to end its count.
    fn unharmed(&self, now: Instant) -> Option<usize> {
        let is_past = |at: Instant| now - at >= self.probe_interval;
        self.others().find(|&member| {
            let state = &self.members[member];
            (state.losses == 0 || state.last_loss.is_some_and(is_past)) && state.probation.is_none()
        })
    }

    /// [CDP-IO-13] The host of `member` said that nobody is there. Tells whether the default changed: it does only where
    /// another has lost nothing, as hosts say so at once and the turn would go around as fast.
    pub fn note_gone(&mut self, now: Instant, member: usize) -> bool {
        let next = self.unharmed(now).filter(|_| member == self.default);
        let Some(state) = self.members.get_mut(member).filter(|_| member != self.default || next.is_some())
        else {
            return false;
        };
        state.losses = state.losses.saturating_add(1);
        state.last_loss = Some(now);
        if let Some(probation) = &mut state.probation {
            probation.answers = 0;
        }
        let Some(next) = next else { return false };
        self.demote(member, now);
        self.switch(next);
        true
    }

    fn demote(&mut self, member: usize, now: Instant) {
        let state = &mut self.members[member];
        let is_relapse = state.returned_at.is_some_and(|at| now - at < FORGIVEN_AFTER);
        let needed = state.answers_needed.max(ANSWERS);
        state.answers_needed = if is_relapse { (needed * 2).min(ANSWERS_MAX) } else { ANSWERS };
        state.probation =
            Some(Probation { next_probe: now + self.probe_interval, answers: 0, is_asked: false });
    }

    fn switch(&mut self, to: usize) {
        let state = &mut self.members[to];
        state.losses = 0;
        state.probation = None;
        self.default = to;
        self.switches += 1;
    }

    /// When [`IoSet::poll_probe`] has something to do next.
    #[must_use]
    pub fn next_probe(&self) -> Option<Instant> {
        self.members.iter().filter_map(|state| state.probation).map(|probation| probation.next_probe).min()
    }

    /// [CDP-IO-6] A demoted member that is to be probed now. One that did not answer the last probe starts anew.
    pub fn poll_probe(&mut self, now: Instant) -> Option<usize> {
        let interval = self.probe_interval;
        let due = |state: &State| state.probation.is_some_and(|probation| probation.next_probe <= now);
        let member = self.members.iter().position(due)?;
        let probation = self.members[member].probation.as_mut()?;
        if std::mem::replace(&mut probation.is_asked, true) {
            probation.answers = 0;
        }
        probation.next_probe = now + interval;
        Some(member)
    }

    /// [CDP-IO-6] `member` answered a probe after `took`, where the default takes `usual`. Tells whether the default
    /// changed, which it does when the default of the cluster file has come back.
    pub fn note_answer(&mut self, now: Instant, member: usize, took: Duration, usual: Duration) -> bool {
        let Some(state) = self.members.get_mut(member) else { return false };
        let needed = state.answers_needed.max(ANSWERS);
        let Some(probation) = state.probation.as_mut().filter(|probation| probation.is_asked) else {
            return false;
        };
        probation.is_asked = false;
        if took > (usual * SLOW_TIMES).max(usual + SLOW_AT_LEAST) {
            probation.answers = 0;
            return false;
        }
        probation.answers += 1;
        if probation.answers < needed {
            return false;
        }
        state.probation = None;
        state.losses = 0;
        state.returned_at = Some(now);
        let is_back = member == self.preferred && member != self.default;
        if is_back {
            self.switch(member);
        }
        is_back
    }
}

#[cfg(test)]
mod tests;
