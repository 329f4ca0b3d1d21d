//! An I/O node: packets from the links of its networks to one another (`docs/spec/cdp.md`, section 14.2).
//!
//! It ends no connection and sends nothing of its own. What a packet may do is decided by [`weft_route::Forwarder`], what of
//! it changes by [`weft_wire::Transit`]; this room moves the packets: batches in, a queue for each network out, counters.
//! It must not know a connection, a flag or a seal.
//!
//! | file | holds |
//! |---|---|
//! | `io_node` | what users call; start and drain |
//! | `worker` | the thread of one network: turns, and sleep between them |
//! | `turn` | packets of one batch to the queues |
//! | `port`, `queue` | a network's link; what waits to leave by it |
//! | `relays` | which of the next I/O nodes are gone, and who carries a packet |
//! | `stats` | counters |
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use weft_base::NodeId;
//! use weft_forward::IoNode;
//! use weft_link::Hub;
//! use weft_route::{Cluster, Forwarder, NetworkId};
//!
//! let hub = Hub::new(1500);
//! let (near, far) = (NetworkId::new(1).unwrap(), NetworkId::new(2).unwrap());
//! let forwarder = Forwarder::new(NodeId::new(11).unwrap(), Cluster::default());
//!
//! let node = IoNode::start(forwarder, vec![(near, Arc::new(hub.endpoint()?)), (far, Arc::new(hub.endpoint()?))], Duration::ZERO)?;
//! let stats = node.stop(Duration::from_secs(1));
//! assert_eq!(stats.networks.iter().map(|network| network.departures.packets).sum::<u64>(), 0);
//! # Ok::<(), std::io::Error>(())
//! ```

mod io_node;
mod port;
mod queue;
mod relays;
mod stats;
mod turn;
mod worker;

pub use io_node::IoNode;
pub use relays::RelayStats;
pub use stats::{Arrivals, Departures, NetworkStats, Stats, TooFar};
