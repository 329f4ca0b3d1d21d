//! Which faults, and how often.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Losses that come in bursts: the model of Gilbert (1960) and Elliott (1963), a channel with two states.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Burst {
    /// Probability per packet that a good channel turns bad.
    pub starts: f64,
    /// Probability per packet that a bad channel turns good; its inverse is the mean length of a burst.
    pub ends: f64,
    /// Probability that a packet is lost while the channel is bad.
    pub loss: f64,
}

/// Which faults happen to the packets of one direction, and how often. Probabilities are 0 to 1, per packet.
///
/// As text, a list of `name=value`: `loss=1%`, `burst=0.1%/20%` (starts/ends), `duplicate=1%`,
/// `reorder=2%/8` (at most 8 packets behind), `delay=10ms`, `jitter=2ms`, `corrupt=0.1%`, `truncate=0.1%`.
///
/// ```
/// use std::time::Duration;
/// use weft_link::Faults;
///
/// let faults: Faults = "loss=1%,reorder=2%/8,delay=1.5ms".parse().unwrap();
/// assert_eq!((faults.loss, faults.displacement, faults.delay), (0.01, 8, Duration::from_micros(1500)));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Faults {
    /// How often a packet is lost, each on its own.
    pub loss: f64,
    /// Losses in bursts, in addition.
    pub burst: Option<Burst>,
    /// How often a packet comes twice.
    pub duplicate: f64,
    /// How often a packet is overtaken by others.
    pub reorder: f64,
    /// By how many packets at most; each count from 1 is as likely as the others.
    pub displacement: u32,
    /// How long a packet that waits to be overtaken waits at most, if too few others come.
    pub hold: Duration,
    /// How long every packet is under way.
    pub delay: Duration,
    /// How much longer at most; each time is as likely as the others, so packets overtake one another.
    pub jitter: Duration,
    /// How often one to eight bits of a packet are inverted.
    pub corrupt: f64,
    /// How often a packet arrives without its end, which begins anywhere.
    pub truncate: f64,
}

impl Faults {
    /// No faults.
    pub const NONE: Self = Self {
        loss: 0.0,
        burst: None,
        duplicate: 0.0,
        reorder: 0.0,
        displacement: 4,
        hold: Duration::from_millis(5),
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        corrupt: 0.0,
        truncate: 0.0,
    };

    /// Every packet is lost.
    pub const BLACK_HOLE: Self = Self { loss: 1.0, ..Self::NONE };
}

impl Default for Faults {
    fn default() -> Self {
        Self::NONE
    }
}

/// A text that does not say which faults are wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseFaultsError {
    text: String,
    wanted: &'static str,
}

impl fmt::Display for ParseFaultsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" is no fault; give {}", self.text, self.wanted)
    }
}

impl std::error::Error for ParseFaultsError {}

const NAMES: &str =
    "name=value with one of loss, burst, duplicate, reorder, delay, jitter, corrupt, truncate";

impl FromStr for Faults {
    type Err = ParseFaultsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut faults = Self::NONE;
        for item in text.split([',', ' ']).filter(|item| !item.is_empty()) {
            let refused = |wanted| ParseFaultsError { text: item.to_owned(), wanted };
            let (name, value) = item.split_once('=').ok_or_else(|| refused(NAMES))?;
            faults.set(name, value).map_err(refused)?;
        }
        Ok(faults)
    }
}

impl Faults {
    fn set(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        match name {
            "loss" => self.loss = probability(value)?,
            "duplicate" => self.duplicate = probability(value)?,
            "corrupt" => self.corrupt = probability(value)?,
            "truncate" => self.truncate = probability(value)?,
            "delay" => self.delay = duration(value)?,
            "jitter" => self.jitter = duration(value)?,
            "burst" => {
                let (starts, ends) =
                    value.split_once('/').ok_or("burst=STARTS/ENDS, such as burst=0.1%/20%")?;
                self.burst =
                    Some(Burst { starts: probability(starts)?, ends: probability(ends)?, loss: 1.0 });
            }
            "reorder" => {
                let (often, far) = value.split_once('/').unwrap_or((value, "4"));
                self.reorder = probability(often)?;
                self.displacement = far.parse().ok().filter(|&far| far > 0).ok_or("a number of packets")?;
            }
            _ => return Err(NAMES),
        }
        Ok(())
    }
}

fn probability(text: &str) -> Result<f64, &'static str> {
    let value = match text.strip_suffix('%') {
        Some(percent) => percent.parse().map(|value: f64| value / 100.0),
        None => text.parse(),
    };
    let is_one = |value: &f64| (0.0..=1.0).contains(value);
    value.ok().filter(is_one).ok_or("a probability such as 1% or 0.01, at most 100%")
}

fn duration(text: &str) -> Result<Duration, &'static str> {
    let (digits, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let seconds = match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "ns" => 1e-9,
        _ => return Err("a time with its unit, such as 10ms or 250us"),
    };
    let value: f64 = digits.parse().map_err(|_| "a time such as 10ms or 250us")?;
    Duration::try_from_secs_f64(value * seconds).map_err(|_| "a time that is not negative and not endless")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_can_be_asked_for_by_name() {
        let text = "loss=1%,burst=0.1%/20%,duplicate=0.02,reorder=5%/16,delay=10ms,jitter=250us,corrupt=1%,truncate=2%";
        let faults: Faults = text.parse().unwrap();
        assert_eq!(
            (faults.loss, faults.duplicate, faults.corrupt, faults.truncate),
            (0.01, 0.02, 0.01, 0.02)
        );
        assert_eq!(faults.burst, Some(Burst { starts: 0.001, ends: 0.2, loss: 1.0 }));
        assert_eq!((faults.reorder, faults.displacement), (0.05, 16));
        assert_eq!((faults.delay, faults.jitter), (Duration::from_millis(10), Duration::from_micros(250)));
        assert_eq!("".parse(), Ok(Faults::NONE));
    }

    #[test]
    fn what_is_not_understood_is_named_with_what_would_be() {
        for (text, part) in [
            ("loss=200%", "at most 100%"),
            ("loss", "name=value"),
            ("lose=1%", "one of loss"),
            ("delay=10", "with its unit"),
            ("reorder=1%/0", "number of packets"),
            ("burst=1%", "STARTS/ENDS"),
            ("jitter=-1ms", "not negative"),
        ] {
            let error = text.parse::<Faults>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains(part), "{error}");
        }
    }
}
