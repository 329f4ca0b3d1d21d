//! Plain values that every room shares: time, serial numbers, node names, flow keys, limits.
//!
//! This room must not know a clock, a socket, a thread or a lock. Whoever needs the time is told it.
//!
//! ```
//! use weft_base::{Instant, Seq};
//! use std::time::Duration;
//!
//! let sent = Instant::from_nanos(1_000);
//! assert_eq!((sent + Duration::from_micros(5)) - sent, Duration::from_micros(5));
//!
//! // Sequence numbers compare in serial order, also across 2^64 (CDP-SEQ-1, CDP-SEQ-2).
//! let last = Seq::new(u64::MAX);
//! assert!(last.is_before(last + 1));
//! ```

mod address;
pub mod limits;
mod seq;
mod time;

pub use address::{Address, FlowKey, NodeId, ParseNodeIdError, Port};
pub use limits::Service;
pub use seq::Seq;
pub use time::Instant;
