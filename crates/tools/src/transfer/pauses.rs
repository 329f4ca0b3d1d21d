//! When a stream gave nothing, and for how long.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// So many pauses are kept, the longest.
const KEPT: usize = 32;
/// What is shorter is no pause.
const LEAST: Duration = Duration::from_millis(1);

/// A time in which nothing came, by the monotonic clock of the system, which all its processes share.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pause {
    /// When it ended, since the clock's zero.
    pub ended_at: Duration,
    /// How long it was.
    pub length: Duration,
}

/// A pause as JSON has it.
#[derive(Serialize)]
pub struct PauseEvent {
    ended_at_seconds: f64,
    seconds: f64,
}

/// The longest pauses of one stream.
#[derive(Clone, Default, Debug)]
pub struct Pauses {
    longest: Duration,
    /// Those of at least [`LEAST`], in the order in which they were.
    kept: Vec<Pause>,
}

impl Pauses {
    /// The stream gave nothing for `length`, until now.
    pub fn note(&mut self, length: Duration) {
        self.longest = self.longest.max(length);
        if length >= LEAST {
            self.keep(Pause { ended_at: now(), length });
        }
    }

    fn keep(&mut self, pause: Pause) {
        self.kept.push(pause);
        if self.kept.len() > KEPT {
            let shortest = (0..self.kept.len()).min_by_key(|&index| self.kept[index].length);
            shortest.map(|index| self.kept.remove(index));
        }
    }

    /// The longest time in which nothing came.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// The longest pauses, in the order in which they were, for scripts.
    pub fn events(&self) -> impl Iterator<Item = PauseEvent> {
        self.kept.iter().map(|pause| PauseEvent {
            ended_at_seconds: pause.ended_at.as_secs_f64(),
            seconds: pause.length.as_secs_f64(),
        })
    }
}

/// The present by the clock of [`Pause`].
#[must_use]
pub fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_are_kept_in_their_order() {
        let mut pauses = Pauses::default();
        for ms in (1..=100).rev().chain([200]) {
            pauses.keep(Pause {
                ended_at: Duration::from_millis(1_000 - ms),
                length: Duration::from_millis(ms),
            });
        }
        assert_eq!(pauses.kept.len(), KEPT);
        assert_eq!(pauses.kept[0].length, Duration::from_millis(100));
        assert_eq!(pauses.kept[KEPT - 1].length, Duration::from_millis(200));
        assert!(pauses.kept.iter().all(|pause| pause.length >= Duration::from_millis(70)));
    }

    #[test]
    fn what_is_short_counts_for_the_longest_alone() {
        let mut pauses = Pauses::default();
        pauses.note(Duration::from_micros(900));
        assert_eq!((pauses.longest(), pauses.events().count()), (Duration::from_micros(900), 0));
    }
}
