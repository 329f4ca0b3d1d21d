//! What the demonstration saw.

use std::time::Duration;

use serde_json::{Value, json};

use crate::exit::Failure;
use crate::units;

/// What became of one file.
pub(super) type Transferred = Result<Arrived, Failure>;

/// A transfer that ended well.
#[derive(Clone, Debug)]
pub(super) struct Arrived {
    bytes: u64,
    elapsed: Duration,
    /// The longest time in which nothing arrived.
    pub(super) longest_pause: Duration,
    digest: String,
}

/// A crash of the I/O node in use.
#[derive(Clone, Default, Debug)]
pub(super) struct Kill {
    /// The I/O node that was killed, and the one that took its place.
    pub(super) left: String,
    pub(super) taken: String,
    /// The retransmission time-out before.
    pub(super) rto: Duration,
    /// Until the sender had another default, as its counters show.
    pub(super) switched_after: Duration,
    /// The longest pause at the receiver, if the file arrived.
    pub(super) stall: Option<Duration>,
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

impl Kill {
    /// Whether anything was killed.
    pub(super) fn is_done(&self) -> bool {
        !self.left.is_empty()
    }

    pub(super) fn text(&self) -> String {
        let back = match self.back_after {
            Some(after) => format!("back as default {} after its start", units::duration(after)),
            None => "the transfer was over before it was back".to_owned(),
        };
        format!(
            "{} (default) killed by SIGKILL, left for {} after {}, {back}",
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
        let mut stalls: Vec<_> = self.kills.iter().filter_map(|kill| kill.stall).collect();
        stalls.sort_unstable();
        stalls
    }

    fn within_bound(&self) -> usize {
        self.kills.iter().filter(|kill| kill.stall.is_some_and(|stall| stall <= kill.bound())).count()
    }

    /// What people are told in the end.
    pub(super) fn lines(&self) -> Vec<String> {
        let stalls = self.stalls();
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
