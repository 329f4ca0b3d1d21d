//! The ways from one side to another where I/O nodes lie between them (section 14.2).
//!
//! A connection is told how many ways there are and which is the default, never what they are. It says of each packet by
//! which of them it goes, and reports what became of the numbers that went by each. Who keeps the set of I/O nodes makes
//! of that which member is the default, for all connections to the same side (CDP-IO-7), and tells them.
//!
//! One number: first by the default; declared lost, probed or timed out, by the next member, and so on around; when the
//! default changes the round begins anew at the new one. [`Way`] is where a number is on that round. [`Tallies`] holds
//! what is to be reported. A connection with one path has no tallies.

mod report;

use std::time::Duration;

use weft_base::Instant;

pub use self::report::PathReport;
pub(crate) use self::report::Tallies;

/// Members of a set of I/O nodes at most: as many as the TLV IOSET has room for.
pub const PATHS_MAX: u8 = 16;
/// How many paths there are to the peer, and which is the default.
///
/// ```
/// use weft_proto::Paths;
///
/// let paths = Paths::new(3, 1).unwrap();
/// assert_eq!((paths.count(), paths.default_path()), (3, 1));
/// assert_eq!(Paths::new(3, 3), None, "paths are counted from 0");
/// assert_eq!(Paths::default().count(), 1, "a peer that is reached directly");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Paths {
    count: u8,
    default: u8,
}

impl Default for Paths {
    fn default() -> Self {
        Self { count: 1, default: 0 }
    }
}

impl Paths {
    /// `count` paths, 1 to [`PATHS_MAX`], of which number `default` is the default; `None` if there is no such path.
    #[must_use]
    pub const fn new(count: u8, default: u8) -> Option<Self> {
        if count <= PATHS_MAX && default < count { Some(Self { count, default }) } else { None }
    }

    /// How many there are.
    #[must_use]
    pub const fn count(self) -> u8 {
        self.count
    }

    /// The default.
    #[must_use]
    pub const fn default_path(self) -> u8 {
        self.default
    }

    /// Whether there is a choice.
    pub(crate) const fn are_several(self) -> bool {
        self.count > 1
    }

    /// The member before `path`.
    const fn before(self, path: u8) -> u8 {
        (path + self.count - 1) % self.count
    }

    /// The member after `path`.
    const fn after(self, path: u8) -> u8 {
        (path + 1) % self.count
    }

    /// The member `tries` after the default.
    #[allow(clippy::cast_possible_truncation)] // a remainder of 8 bits
    pub(crate) const fn nth(self, tries: u32) -> u8 {
        ((self.default as u32 + tries % self.count as u32) % self.count as u32) as u8
    }
}

/// Where something that is sent until it is acknowledged is on its round through the members.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Way {
    /// The member that the last transmission went through.
    last: u8,
    /// Transmissions under the present default.
    tries: u8,
}

impl Way {
    /// The first transmission.
    pub(crate) fn first(paths: Paths) -> Self {
        Self { last: paths.default, tries: 1 }
    }

    /// [CDP-IO-2] The first transmission goes through the default d, and retransmission k through (d + k) mod n, counted
    /// from the first one under this default.
    pub(crate) fn advance(&mut self, paths: Paths) -> u8 {
        self.last = if self.tries == 0 { paths.default } else { paths.after(self.last) };
        self.tries = self.tries.saturating_add(1);
        self.last
    }

    /// The default is another.
    pub(crate) fn restart(&mut self) {
        self.tries = 0;
    }

    pub(crate) fn last(self) -> u8 {
        self.last
    }

    /// The member that the transmission before the last went through, if it was under the present default.
    pub(crate) fn before_last(self, paths: Paths) -> Option<u8> {
        (self.tries > 1).then(|| paths.before(self.last))
    }

    /// Whether it was sent under the present default.
    pub(crate) fn is_present(self) -> bool {
        self.tries > 0
    }

    /// Whether the last transmission went through the present default.
    pub(crate) fn is_by_default(self, paths: Paths) -> bool {
        self.last == paths.default && self.is_present()
    }

    /// Whether each member has been tried under the present default.
    pub(crate) fn has_tried_all(self, paths: Paths) -> bool {
        self.tries >= paths.count
    }
}

/// By which paths the peer's packets come.
#[derive(Clone, Default, Debug)]
pub(crate) struct Arrivals {
    /// The path by which the packet came that is handled now.
    pub(crate) now: Option<u8>,
    /// The path by which the peer's latest current packet came.
    latest: Option<u8>,
}

impl Arrivals {
    /// The packet that is handled is the peer's and current.
    pub(crate) fn note_current(&mut self) {
        if self.now.is_some() {
            self.latest = self.now;
        }
    }

    pub(crate) fn latest(&self) -> Option<u8> {
        self.latest
    }

    /// The path for an answer: that of the peer's latest packet, as one that only acknowledges would never learn that its
    /// default is dead; without such knowledge the default.
    pub(crate) fn answer_by(&self, paths: Paths) -> u8 {
        self.latest.filter(|path| *path < paths.count).unwrap_or(paths.default)
    }
}

/// Stands in [`crate::Transmit::path`] for an address that is none of the paths: where the peer seems to be now.
pub const ELSEWHERE: u8 = PATHS_MAX;

/// Probes of paths, absent until one is asked for (CDP-IO-6).
#[derive(Clone, Default, Debug)]
pub(crate) struct Probes {
    /// One bit for each path whose probe is to be sent, and one for [`ELSEWHERE`].
    due: u32,
    /// The token of the latest probe of each path, 0 for none, and when it was asked for.
    latest: [(u32, Instant); PATHS_MAX as usize + 1],
}

impl Probes {
    /// A probe of `path` with this token, which is not 0, is due.
    pub(crate) fn ask(&mut self, now: Instant, path: u8, token: u32) {
        self.due |= 1 << path;
        self.latest[usize::from(path)] = (token, now);
    }

    /// The latest probe of `path` is due once more, if it was not answered. Whichever of them is answered counts.
    pub(crate) fn ask_again(&mut self, path: u8) -> bool {
        let is_open = self.latest[usize::from(path)].0 != 0;
        self.due |= u32::from(is_open) << path;
        is_open
    }

    /// The path and the token of a probe that is to be sent now.
    pub(crate) fn take_due(&mut self) -> Option<(u8, u32)> {
        let path = (self.due != 0).then_some(self.due.trailing_zeros() as usize)?;
        self.due &= self.due - 1;
        Some((u8::try_from(path).unwrap_or(0), self.latest[path].0))
    }

    /// A token came back; the path whose probe it answers, once, and how long that took.
    pub(crate) fn handle_echo(&mut self, now: Instant, token: u32) -> Option<(u8, Duration)> {
        let path = self.latest.iter().position(|(own, _)| *own == token)?;
        let (_, asked_at) = std::mem::take(&mut self.latest[path]);
        Some((u8::try_from(path).ok()?, now - asked_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(way: &mut Way, paths: Paths, count: usize) -> Vec<u8> {
        (0..count).map(|_| way.advance(paths)).collect()
    }

    /// [CDP-IO-2] First the default, then around; anew where the default changes.
    #[test]
    fn a_number_goes_around_and_begins_anew_at_a_new_default() {
        let paths = Paths::new(3, 1).unwrap();
        let mut way = Way::first(paths);
        assert_eq!(way.last(), 1);
        assert_eq!(round(&mut way, paths, 5), [2, 0, 1, 2, 0]);
        way.restart();
        assert!(!way.is_by_default(paths) && !way.has_tried_all(paths));
        let paths = Paths::new(3, 0).unwrap();
        assert_eq!(round(&mut way, paths, 2), [0, 1]);
        assert!(!way.has_tried_all(paths));
        assert_eq!(round(&mut way, paths, 300)[0], 2);
        assert!(way.has_tried_all(paths));
    }

    #[test]
    fn with_one_path_there_is_nothing_to_choose() {
        let mut way = Way::first(Paths::default());
        assert!(way.has_tried_all(Paths::default()));
        assert_eq!(round(&mut way, Paths::default(), 3), [0, 0, 0]);
        assert_eq!((Paths::new(0, 0), Paths::new(17, 0)), (None, None));
    }

    /// The way there may take longer than it is until the next question, so the answer to the first must count after the second.
    #[test]
    fn a_question_asked_again_keeps_its_token_until_it_is_answered() {
        let now = Instant::from_nanos(1);
        let mut probes = Probes::default();
        assert!(!probes.ask_again(ELSEWHERE));
        probes.ask(now, ELSEWHERE, 7);
        for _ in 0..2 {
            assert_eq!((probes.take_due(), probes.take_due()), (Some((ELSEWHERE, 7)), None));
            assert!(probes.ask_again(ELSEWHERE));
        }
        assert!(probes.handle_echo(now, 7).is_some());
        assert!(!probes.ask_again(ELSEWHERE));
    }
}
