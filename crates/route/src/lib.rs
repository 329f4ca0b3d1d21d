//! Where a node is reached, and which packets may claim to come from it (`docs/spec/cdp.md`, section 14).
//!
//! Three words are kept apart: a *name* is for people and never travels, a *node* number is what packets carry, and
//! an *underlay address* is where a link delivers. A [`Cluster`] maps them as its owner configured; a [`Directory`]
//! adds our own number, the nodes learned in open mode, and the decisions. Nodes that share no *network* reach each other
//! through I/O nodes: an [`IoSet`] is what a sender knows of those towards one side, a [`Forwarder`] what one of them does.
//!
//! This room must not know a link, a connection or a file: it is told what a configuration says and what was
//! validated, draws no random number of its own, and every table in it is bounded.
//!
//! ```
//! use weft_base::NodeId;
//! use weft_route::{Cluster, Directory, Member, Mode, NextHop, Source, Underlay};
//!
//! let node = |number| NodeId::new(number).unwrap();
//! let at = |text: &str| Underlay::Udp(text.parse().unwrap());
//!
//! let mut cluster = Cluster::default();
//! cluster.add(Member::direct(node(2), "two".parse().ok(), at("10.0.0.2:64064"))).unwrap();
//! let directory = Directory::new(node(1), Mode::Strict, cluster);
//!
//! assert_eq!(directory.next_hop(node(2)), Some(NextHop::Direct(at("10.0.0.2:64064"))));
//! assert_eq!(directory.accepts(node(2), at("10.0.0.3:64064")), Source::Contradicts);
//! assert_eq!(directory.cluster().find("two").map(|member| member.node), Some(node(2)));
//! ```

mod address_text;
mod cluster;
mod directory;
mod file;
mod forwarder;
mod io_set;
mod learned;
mod member;
mod mesh;
mod name;
mod near;
mod network;
mod resolve;
mod underlay;

pub use address_text::{AddressText, ParseAddressError, PortText};
pub use cluster::{AddError, CheckError, Cluster, Contradiction, FORWARDS_MAX};
pub use directory::{Directory, Identity, Mode, NextHop, Side, Source};
pub use file::{ClusterFile, FileError, WhichError};
pub use forwarder::{Forwarder, Hop, NotForwarded, Onward};
pub use io_set::{IoSet, LOSSES_MAX, MEMBERS_MAX, PROBE_INTERVAL};
pub use learned::LEARNED_MAX;
pub use member::{Attachment, Kind, Member};
pub use mesh::Coordinates;
pub use name::{Name, ParseNameError};
pub use network::NetworkId;
pub use resolve::{ResolveError, UnknownNode, UnknownService};
pub use underlay::Underlay;
