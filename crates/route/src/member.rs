//! One node of a cluster, as its owner configured it.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use weft_base::NodeId;

use crate::network::NetworkSet;
use crate::{Coordinates, Name, NetworkId, Underlay};

/// What a node is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// It runs programs, outside of the mesh.
    #[default]
    Host,
    /// It forwards between networks.
    Io,
    /// It runs programs, in the mesh.
    Compute,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::Io => "io",
            Self::Compute => "compute",
        })
    }
}

/// Where a node is reached on one network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attachment {
    /// The network.
    pub network: NetworkId,
    /// The address there, to which replies go whatever port its packets came from (CDP-ENC-6).
    pub at: Underlay,
}

/// One node of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its number.
    pub node: NodeId,
    /// Its name, if it has one.
    pub name: Option<Name>,
    /// What it is for.
    pub kind: Kind,
    /// Where it is reached, one address for each network it is on.
    pub at: Vec<Attachment>,
    /// Its place in the mesh, if it has one.
    pub place: Option<Coordinates>,
    /// The I/O nodes it uses, in order (CDP-IO-1); if none are listed, all that have a way.
    pub io_nodes: Vec<NodeId>,
    /// Which of them is its default; otherwise its number picks one, so that the nodes spread.
    pub default_io: Option<NodeId>,
}

impl Member {
    /// A host on [`NetworkId::COMMON`], which everybody reaches directly.
    #[must_use]
    pub fn direct(node: NodeId, name: Option<Name>, at: Underlay) -> Self {
        Self {
            node,
            name,
            kind: Kind::Host,
            at: vec![Attachment { network: NetworkId::COMMON, at }],
            place: None,
            io_nodes: Vec::new(),
            default_io: None,
        }
    }

    /// Where it is reached on `network`.
    #[must_use]
    pub fn on(&self, network: NetworkId) -> Option<Underlay> {
        self.at.iter().find(|attachment| attachment.network == network).map(|attachment| attachment.at)
    }

    /// Whether a packet that it sent itself may come from `from`. [CDP-ENC-7] Its port does not count.
    #[must_use]
    pub fn is_at_host(&self, from: Underlay) -> bool {
        self.at.iter().any(|attachment| attachment.at.is_same_host(from))
    }

    /// What it binds by default: its address, or, if it is on several networks, the port of the first on all of them.
    #[must_use]
    pub fn bind_address(&self) -> Option<SocketAddr> {
        let Underlay::Udp(first) = self.at.first()?.at;
        if self.at.len() == 1 {
            return Some(first);
        }
        let all = if first.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        Some(SocketAddr::new(all, first.port()))
    }

    pub(crate) fn networks(&self) -> NetworkSet {
        self.at.iter().map(|attachment| attachment.network).collect()
    }

    /// Where a node on `networks` reaches it directly.
    pub(crate) fn reached_from(&self, networks: NetworkSet) -> Option<Underlay> {
        let shared = |attachment: &&Attachment| networks.meets(NetworkSet::only(attachment.network));
        self.at.iter().find(shared).map(|attachment| attachment.at)
    }

    /// Its name, or else its number.
    #[must_use]
    pub fn label(&self) -> String {
        self.name.as_ref().map_or_else(|| self.node.to_string(), |name| name.to_string())
    }
}
