//! Results as lines of JSON.

use std::fmt::Write as _;

/// One result: names and values, printed as one line of JSON.
#[derive(Clone, Debug, Default)]
pub struct Report(String);

impl Report {
    /// An empty result.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text that has no quotation marks.
    #[must_use]
    pub fn text(mut self, name: &str, value: &str) -> Self {
        self.field(name, &format_args!("\"{value}\""));
        self
    }

    /// Adds a whole number.
    #[must_use]
    pub fn count(mut self, name: &str, value: u64) -> Self {
        self.field(name, &value);
        self
    }

    /// Adds a number; its name ends with its unit.
    #[must_use]
    pub fn number(mut self, name: &str, value: f64) -> Self {
        self.field(name, &format_args!("{value:.3}"));
        self
    }

    /// Prints the line.
    pub fn print(self) {
        println!("{{{}}}", self.0);
    }

    fn field(&mut self, name: &str, value: &dyn std::fmt::Display) {
        let comma = if self.0.is_empty() { "" } else { ", " };
        // Writing to a string does not fail.
        let _ = write!(self.0, "{comma}\"{name}\": {value}");
    }
}

/// The value below which the part `rank` of `values` lies; 0 of none. Sorts them.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)] // an index
pub fn percentile(values: &mut [u64], rank: f64) -> u64 {
    values.sort_unstable();
    let at = (values.len() as f64 * rank) as usize;
    values.get(at.min(values.len().saturating_sub(1))).copied().unwrap_or(0)
}

/// Processor time of this process so far, user and system, in seconds.
#[must_use]
#[allow(clippy::cast_precision_loss)] // microseconds
pub fn cpu_seconds() -> f64 {
    // SAFETY: all bits zero are a value of this type.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a value of ours.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    [usage.ru_utime, usage.ru_stime].iter().map(|time| time.tv_sec as f64 + time.tv_usec as f64 / 1e6).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_a_line_of_json() {
        let report = Report::new().text("test", "bulk").count("packets", 3).number("seconds", 0.5);
        assert_eq!(report.0, "\"test\": \"bulk\", \"packets\": 3, \"seconds\": 0.500");
    }

    #[test]
    fn percentiles_of_little_or_nothing_are_what_there_is() {
        assert_eq!(percentile(&mut [], 0.5), 0);
        assert_eq!(percentile(&mut [7], 0.99), 7);
        let mut hundred: Vec<u64> = (1..=100).rev().collect();
        assert_eq!((percentile(&mut hundred, 0.5), percentile(&mut hundred, 0.99)), (51, 100));
    }
}
