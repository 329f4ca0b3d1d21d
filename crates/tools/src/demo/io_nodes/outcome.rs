//! What the demonstration saw.

use std::time::Duration;

use serde_json::{Value, json};

use crate::exit::Failure;
use crate::transfer::Pause;
use crate::units;

/// What became of one file.
pub(super) type Transferred = Result<Arrived, Failure>;

/// A transfer that ended well.
#[derive(Clone, Debug)]
pub(super) struct Arrived {
    bytes: u64,
    elapsed: Duration,
    /// The longest time in which nothing arrived.
    longest_pause: Duration,
    pauses: Vec<Pause>,
    digest: String,
}

/// A crash of the I/O node in use.
#[derive(Clone, Default, Debug)]
pub(super) struct Kill {
    /// The I/O node that was killed, and the one that took its place.
    pub(super) left: String,
    pub(super) taken: String,
    /// When it was killed, by the clock of [`Pause`].
    pub(super) at: Duration,
    /// The retransmission time-out before.
    pub(super) rto: Duration,
    /// Until the sender had another default, as its counters show.
    pub(super) switched_after: Duration,
    /// The longest pause at the receiver by reason of the kill, and the longest other; if the file arrived.
    stall: Option<Duration>,
    other_pause: Option<Duration>,
    /// From its start until it was default again; `None` where the transfer ended before.
    pub(super) back_after: Option<Duration>,
}

/// The whole of it.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) kills: Vec<Kill>,
    arrived: Vec<Arrived>,
    pub(super) failures: Vec<Failure>,
}

impl Arrived {
    /// What a receiver's last event says.
    pub(super) fn new(done: &Value) -> Self {
        let seconds = |name: &str| Duration::from_secs_f64(done[name].as_f64().unwrap_or(0.0).max(0.0));
        Self {
            bytes: done["bytes"].as_u64().unwrap_or(0),
            elapsed: seconds("seconds"),
            longest_pause: seconds("longest_pause_seconds"),
            pauses: done["pauses"].as_array().into_iter().flatten().map(pause).collect(),
            digest: done["blake3"].as_str().unwrap_or_default().to_owned(),
        }
    }

    pub(super) fn text(&self) -> String {
        let rate = self.bytes as f64 / self.elapsed.as_secs_f64().max(1e-9);
        format!(
            "{} in {} ({}), longest pause {}, digest right",
            units::bytes(self.bytes),
            units::duration(self.elapsed),
            units::byte_rate(rate),
            units::duration(self.longest_pause)
        )
    }

    fn json(&self) -> Value {
        json!({
            "bytes": self.bytes,
            "seconds": self.elapsed.as_secs_f64(),
            "longest_pause_seconds": self.longest_pause.as_secs_f64(),
            "blake3": self.digest,
        })
    }
}

fn pause(event: &Value) -> Pause {
    let seconds = |name: &str| Duration::from_secs_f64(event[name].as_f64().unwrap_or(0.0).max(0.0));
    Pause { ended_at: seconds("ended_at_seconds"), length: seconds("seconds") }
}

impl Kill {
    /// Finds the stall among the pauses of the receiver: the longest that lies at least in part between the kill and one
    /// retransmission time-out after the sender had another default. If none of those does that the receiver tells, the
    /// stall was no longer than the shortest of them.
    pub(super) fn find_stall(&mut self, arrived: &Arrived) {
        let over = self.at + self.switched_after + self.rto;
        let is_of_kill =
            |pause: &&Pause| pause.ended_at > self.at && pause.ended_at.saturating_sub(pause.length) < over;
        let lengths = |pause: &Pause| pause.length;
        let stall = arrived.pauses.iter().filter(is_of_kill).map(lengths).max();
        let other = arrived.pauses.iter().filter(|pause| !is_of_kill(pause)).map(lengths);
        self.stall = stall.or_else(|| other.clone().min()).or(Some(arrived.longest_pause));
        self.other_pause = other.max();
    }

    /// Whether anything was killed.
    pub(super) fn is_done(&self) -> bool {
        !self.left.is_empty()
    }

    pub(super) fn text(&self) -> String {
        let back = match self.back_after {
            Some(after) => format!("back as default {} after its start", units::duration(after)),
            None => "the transfer was over before it was back".to_owned(),
        };
        let stall =
            self.stall.map_or_else(String::new, |stall| format!("stall {}, ", units::duration(stall)));
        format!(
            "{} (default) killed by SIGKILL, left for {} after {}, {stall}{back}",
            self.left,
            self.taken,
            units::duration(self.switched_after)
        )
    }

    /// How long a stall may be: one and a half retransmission time-outs and 10 ms.
    fn bound(&self) -> Duration {
        self.rto * 3 / 2 + Duration::from_millis(10)
    }

    fn json(&self) -> Value {
        json!({
            "killed": self.left,
            "taken": self.taken,
            "rto_seconds": self.rto.as_secs_f64(),
            "stall_seconds": self.stall.map(|stall| stall.as_secs_f64()),
            "other_pause_seconds": self.other_pause.map(|pause| pause.as_secs_f64()),
            "bound_seconds": self.bound().as_secs_f64(),
            "switched_after_seconds": self.switched_after.as_secs_f64(),
            "back_after_seconds": self.back_after.map(|after| after.as_secs_f64()),
        })
    }
}

impl Outcome {
    /// Counts a file that arrived or failed, and says so.
    pub(super) fn take(&mut self, transferred: Transferred) -> String {
        match transferred {
            Ok(arrived) => {
                let text = arrived.text();
                self.arrived.push(arrived);
                text
            }
            Err(failure) => {
                let text = format!("FAILED: {failure}");
                self.failures.push(failure);
                text
            }
        }
    }

    pub(super) fn take_all(&mut self, transferred: Vec<Transferred>) {
        for one in transferred {
            self.take(one);
        }
    }

    /// The stalls from the shortest to the longest.
    fn stalls(&self) -> Vec<Duration> {
        sorted(self.kills.iter().filter_map(|kill| kill.stall))
    }

    fn within_bound(&self) -> usize {
        self.kills.iter().filter(|kill| kill.stall.is_some_and(|stall| stall <= kill.bound())).count()
    }

    /// What people are told in the end.
    pub(super) fn lines(&self) -> Vec<String> {
        let stalls = self.stalls();
        let others = sorted(self.kills.iter().filter_map(|kill| kill.other_pause));
        let at = |per_cent| units::duration(quantile(&stalls, per_cent));
        vec![
            format!(
                "stall    median {}, p99 {}, longest {}; {} of {} within 1.5 retransmission time-outs and 10 ms",
                at(50),
                at(99),
                at(100),
                self.within_bound(),
                self.kills.len()
            ),
            format!(
                "beside   longest pause of the rest of each transfer: median {}, p99 {}",
                units::duration(quantile(&others, 50)),
                units::duration(quantile(&others, 99))
            ),
            format!(
                "errors   {}; {} files arrived, each with the right digest",
                self.failures.len(),
                self.arrived.len()
            ),
        ]
    }

    /// The same for scripts.
    pub(super) fn json(&self) -> Value {
        let stalls = self.stalls();
        json!({
            "kills": self.kills.iter().map(Kill::json).collect::<Vec<_>>(),
            "arrived": self.arrived.iter().map(Arrived::json).collect::<Vec<_>>(),
            "stall_median_seconds": quantile(&stalls, 50).as_secs_f64(),
            "stall_p99_seconds": quantile(&stalls, 99).as_secs_f64(),
            "within_bound": self.within_bound(),
            "errors": self.failures.iter().map(Failure::to_string).collect::<Vec<_>>(),
        })
    }
}

fn sorted(times: impl Iterator<Item = Duration>) -> Vec<Duration> {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    times
}

/// The least of the sorted `times` that so many per cent do not exceed; zero if there are none.
fn quantile(times: &[Duration], per_cent: usize) -> Duration {
    let rank = (times.len() * per_cent).div_ceil(100).max(1);
    times.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_times() {
        let times: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(quantile(&times, 50), Duration::from_millis(100));
        assert_eq!(quantile(&times, 99), Duration::from_millis(198));
        assert_eq!(quantile(&times[..1], 99), Duration::from_millis(1));
        assert_eq!(quantile(&[], 99), Duration::ZERO);
    }

    #[test]
    fn the_stall_is_the_longest_pause_about_the_kill() {
        let ms = Duration::from_millis;
        let pause = |ended_at, length| Pause { ended_at: ms(ended_at), length: ms(length) };
        let arrived = |pauses: &[Pause]| Arrived {
            bytes: 0,
            elapsed: ms(0),
            longest_pause: ms(90),
            pauses: pauses.to_vec(),
            digest: String::new(),
        };
        let found = |pauses: &[Pause]| {
            let mut kill = Kill { at: ms(1_000), switched_after: ms(5), rto: ms(10), ..Kill::default() };
            kill.find_stall(&arrived(pauses));
            (kill.stall, kill.other_pause)
        };
        // ended before, began before and lasted, began when another was default, began too late
        let all = [pause(999, 90), pause(1_003, 8), pause(1_020, 7), pause(1_030, 14)];
        assert_eq!(found(&all), (Some(ms(8)), Some(ms(90))));
        assert_eq!(found(&[all[0], all[3]]), (Some(ms(14)), Some(ms(90))), "no longer than the shortest");
        assert_eq!(found(&[]), (Some(ms(90)), None));
    }

    #[test]
    fn a_stall_is_held_against_its_own_time_out() {
        let kill = |stall| Kill {
            rto: Duration::from_millis(4),
            stall: Some(Duration::from_millis(stall)),
            ..Kill::default()
        };
        let outcome = Outcome { kills: vec![kill(3), kill(16), kill(17)], ..Outcome::default() };
        assert_eq!(outcome.within_bound(), 2);
        assert!(outcome.lines()[0].contains("2 of 3 within"));
    }
}
