//! Nodes and sockets as the command line describes them.

mod cluster;
mod failure;
mod flags;
mod job;
mod link;
mod listen;
mod open;
mod reach;

pub use cluster::{ClusterChoice, ClusterFlags, NodeName, ThisCluster};
pub use failure::{
    accept_failure, close_failure, connect_failure, listen_failure, listens, no_server, recv_failure,
    send_failure,
};
pub use flags::{NodeFlags, PeerFlags, SocketFlags, parse_congestion};
pub use job::{JobFlags, LauncherChoice};
pub use link::{LinkChoice, underlay_text};
pub use listen::ListenPort;
pub(crate) use open::told;
pub use open::{LocalNode, Role};
pub use reach::{Reached, reach};

/// Default CDP port of `weft recv` and `weft send`.
pub const TRANSFER_PORT: u16 = 1064;
/// Default CDP port of `weft perf`; the next one takes its datagram connections.
pub const PERF_PORT: u16 = 1066;
