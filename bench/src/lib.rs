//! What the measuring programs share: one line of JSON per result, percentiles, processor time.
//!
//! It must not know the protocol: rivals stand for themselves, and Weft is measured through its own command.
//!
//! ```
//! let mut times = vec![5, 1, 3];
//! assert_eq!(weft_bench::percentile(&mut times, 0.5), 3);
//! ```

pub mod cable;
mod cores;
pub mod feed;
pub mod frames;
pub mod lane;
pub mod pipes;
mod report;
pub mod rivals;
pub mod sockets;
pub mod tube;

pub use cores::stay_on;
pub use report::{Report, cpu_seconds, percentile};
