//! What a launcher (`mpirun`, `mpiexec`, `srun`, anything that speaks PMIx or PMI-1) tells a process of its job.
//!
//! A *job* is a number of processes started together; each has a *rank* from 0. [`Job::find`] finds the job of this
//! process, and [`Job::join`] gives every rank the name space of the job: which node number and which names each rank has,
//! and where it is reached. Below it are [`Launch`], which finds the launcher and carries bytes from every rank to all, and
//! [`places`], which makes a name space of them.
//!
//! This room must not know a node, a connection or a cluster file: it gives a plain list, and its caller says it on. The
//! library `libpmix.so.2` is loaded when a PMIx launcher is there, never linked.
//!
//! ```
//! use std::time::Duration;
//! use weft_launch::Job;
//! use weft_socket::{Node, Options};
//!
//! if let Some(job) = Job::find()? {
//!     let node = Node::builder().node(job.node()).bind(job.bind(false)?).open()?;
//!     let listener = node.listen(1064, &Options::stream())?;
//!     for place in job.join(node.underlay(), Duration::from_secs(60))? {
//!         node.add_peer(place.node, place.at);
//!         for name in place.names {
//!             node.add_name(name.parse()?, place.node)?;
//!         }
//!     }
//!     let socket = node.connect("rank-0:1064", &Options::stream())?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod card;
mod error;
mod host;
mod job;
mod launch;
mod pmi;
mod pmix;
mod reach;
mod space;
mod within;

pub use card::Card;
pub use error::{DetectError, ExchangeError, PlacesError, ReachError};
pub use job::{Job, JoinError};
pub use launch::{EXCHANGE_BYTES_MAX, Launch, Launcher, RANKS_MAX};
pub use reach::Reach;
pub use space::{Place, is_rank_name, node_of, places, rank_name};
