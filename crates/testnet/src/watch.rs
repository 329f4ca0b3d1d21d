//! The checkers: each watches from outside, from packets on the wire and from what users get, and believes nothing
//! that a machine says of itself unless it compares it with what was seen.

pub mod amplification;
pub mod counters;
pub mod ending;
pub mod memory;
pub mod opens;
pub mod ranges;
pub mod reader;
pub mod wire;
