//! The testable part of the `weft` command: what each command does, apart from `main`.
//!
//! This room talks to people and scripts: command lines, progress, tables, sentences and exit codes. It must not know
//! packets, windows or timers; whatever it says about a connection it asks the socket room.
//!
//! ```
//! use weft_tools::{target::Target, units};
//!
//! let target: Target = "storage7:1064".parse()?;
//! assert_eq!(target.host, "storage7");
//! assert_eq!(units::bytes(3 << 20), "3.00 MiB");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod cat;
pub mod cli;
pub mod cpu;
pub mod demo;
pub mod doctor;
pub mod echo;
pub mod exit;
mod fibers;
pub mod io_node;
pub mod net;
pub mod perf;
pub mod ping;
mod plot;
pub mod progress;
pub mod recv;
pub mod say;
pub mod send;
pub mod signal;
pub mod stat;
pub mod table;
pub mod target;
pub mod transfer;
pub mod units;
