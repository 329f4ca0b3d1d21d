//! What a checker says when an invariant does not hold.

use std::fmt;

/// The invariants (`docs/ARCHITECTURE.md`), and the form of packets, which every one of them relies on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Invariant {
    /// I1: what is delivered is an exact prefix of what was sent, bytes and boundaries.
    Prefix,
    /// I2: nothing is delivered before ESTABLISHED or after QUIET.
    DeliveryState,
    /// I3: the right edge never moves left and is never exceeded.
    Edge,
    /// I4: numbers are used in order, and RCV.NXT never decreases.
    Order,
    /// I5: what is acknowledged was sent and has arrived; what was reported held stays held.
    Acknowledged,
    /// I6: memory stays within its budget.
    Memory,
    /// I7: every call and every turn ends.
    Termination,
    /// I8: every connection ends in a final state with a reason, and its result is honest.
    Ending,
    /// I9: a peer that has proved nothing is not sent more than it sent.
    Amplification,
    /// I10: the same seed gives the same trace.
    Repetition,
    /// I11: counters add up.
    Counters,
    /// I12: after the faults everything completes or ends with an error at both ends.
    Liveness,
    /// I13: no packet is forwarded a fourth time.
    Hops,
    /// I14: a default that has lost three numbers is left.
    Default,
    /// I15: an I/O node that has come back is used again.
    Return,
    /// Packets have the form that the specification demands.
    Form,
}

impl Invariant {
    /// The short name, as in the documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prefix => "I1 exact prefix",
            Self::DeliveryState => "I2 delivery only in open states",
            Self::Edge => "I3 right edge",
            Self::Order => "I4 order of numbers",
            Self::Acknowledged => "I5 acknowledgements",
            Self::Memory => "I6 memory budget",
            Self::Termination => "I7 termination",
            Self::Ending => "I8 honest end",
            Self::Amplification => "I9 amplification",
            Self::Repetition => "I10 repetition",
            Self::Counters => "I11 counters",
            Self::Liveness => "I12 liveness",
            Self::Hops => "I13 forwards",
            Self::Default => "I14 default I/O node",
            Self::Return => "I15 return",
            Self::Form => "form of packets",
        }
    }
}

/// An invariant that did not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// What was seen, in words.
    pub what: String,
}

impl Violation {
    /// A violation of `invariant`.
    #[must_use]
    pub fn new(invariant: Invariant, what: impl Into<String>) -> Self {
        Self { invariant, what: what.into() }
    }

    /// The same, said of `whom`.
    #[must_use]
    pub fn of(self, whom: impl fmt::Display) -> Self {
        Self { what: format!("{whom}: {}", self.what), ..self }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant.name(), self.what)
    }
}

impl std::error::Error for Violation {}

/// `Ok` if `holds`, else a violation whose words are made by `what`.
///
/// # Errors
///
/// The violation.
pub fn ensure(holds: bool, invariant: Invariant, what: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation::new(invariant, what())) }
}
