//! What this machine gives a link: facts, what they are worth, and what to do about them.
//!
//! Nothing is changed by looking. A fact that cannot be had says so instead of guessing.

mod devices;
mod kernel;
mod limits;

use std::fmt;

/// What a fact means for speed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// Nothing to gain.
    Good,
    /// Works; something is to be gained.
    Fair,
    /// Costs much, or forbids a link.
    Poor,
    /// The machine does not tell.
    Unknown,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Good => "good",
            Self::Fair => "fair",
            Self::Poor => "poor",
            Self::Unknown => "unknown",
        })
    }
}

/// One fact about this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fact {
    /// What it is about, such as `udp segmentation offload` or `mtu of eth0`.
    pub name: String,
    /// The value, with its unit.
    pub value: String,
    /// What it means.
    pub verdict: Verdict,
    /// One sentence: what to change and how, or `None` where nothing is to be gained.
    pub remedy: Option<String>,
}

impl Fact {
    fn good(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into(), verdict: Verdict::Good, remedy: None }
    }

    fn with(name: impl Into<String>, value: impl Into<String>, verdict: Verdict, remedy: String) -> Self {
        Self { name: name.into(), value: value.into(), verdict, remedy: Some(remedy) }
    }

    fn unknown(name: impl Into<String>, why: impl fmt::Display) -> Self {
        Self { name: name.into(), value: why.to_string(), verdict: Verdict::Unknown, remedy: None }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.name, self.value, self.verdict)?;
        self.remedy.as_ref().map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

/// Everything there is to know, in the order in which a person wants to read it.
///
/// ```
/// for fact in weft_link::probe::facts() {
///     println!("{fact}");
/// }
/// ```
#[must_use]
pub fn facts() -> Vec<Fact> {
    [kernel::facts(), limits::facts(), devices::facts()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_has_a_value_and_what_is_not_good_has_a_remedy() {
        let all = facts();
        for name in
            ["kernel", "udp segmentation offload", "udp receive offload", "processors", "tcp controller"]
        {
            assert!(all.iter().any(|fact| fact.name == name), "nothing about {name}");
        }
        for fact in all {
            assert!(!fact.value.is_empty(), "{fact:?}");
            let needs_remedy = matches!(fact.verdict, Verdict::Fair | Verdict::Poor);
            assert_eq!(needs_remedy, fact.remedy.is_some(), "{fact}");
        }
    }
}
