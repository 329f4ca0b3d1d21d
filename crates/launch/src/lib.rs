//! What a launcher (`mpirun`, `mpiexec`, `srun`, anything that speaks PMIx or PMI-1) tells a process of its job.
//!
//! A *job* is a number of processes started together; each has a *rank* from 0. [`Launch::detect`] finds the launcher of
//! this process, [`Launch::exchange`] gives every rank the bytes of all, and [`places`] makes of them the name space of
//! the job: which node number and which names each rank has, and where it is reached.
//!
//! This room must not know a node, a connection or a cluster file: it gives a plain list, and its caller says it on. The
//! library `libpmix.so.2` is loaded when a PMIx launcher is there, never linked.
//!
//! ```
//! use std::time::Duration;
//! use weft_launch::{Card, Launch, places};
//!
//! if let Some(launch) = Launch::detect()? {
//!     // Bind a socket, and say where it is.
//!     let rank = launch.rank();
//!     let card = Card::of_this_host("127.0.0.1:40000".parse()?);
//!     let cards = launch.exchange(&card.emit(), Duration::from_secs(60))?;
//!     for place in places(&cards)? {
//!         println!("{rank}: node {} is {:?} at {}", place.node, place.names, place.at);
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod card;
mod error;
mod host;
mod launch;
mod pmi;
mod pmix;
mod reach;
mod space;
mod within;

pub use card::Card;
pub use error::{DetectError, ExchangeError, PlacesError, ReachError};
pub use launch::{EXCHANGE_BYTES_MAX, Launch, Launcher, RANKS_MAX};
pub use reach::Reach;
pub use space::{Place, is_rank_name, node_of, places, rank_name};
