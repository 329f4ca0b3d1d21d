//! The cluster file: `cluster.toml` as values, or one sentence about what is wrong with it.
//!
//! ```
//! use weft_base::NodeId;
//! use weft_route::ClusterFile;
//!
//! let file = ClusterFile::parse(
//!     r#"
//!     networks = ["lan", "mesh"]
//!
//!     [services]
//!     storage = 2000
//!
//!     [[node]]
//!     name = "login"
//!     number = 1
//!     at = { lan = "10.1.0.1" }
//!
//!     [[node]]
//!     name = "io-1"
//!     number = 2
//!     kind = "io"
//!     at = { lan = "10.1.0.2", mesh = "10.2.0.2" }
//!
//!     [[node]]
//!     name = "compute-17"
//!     number = 17
//!     kind = "compute"
//!     at = { mesh = "10.2.0.17:7000" }
//!     io-nodes = ["io-1"]
//!     "#,
//! )?;
//! assert_eq!(file.cluster.find("compute-17").map(|member| member.node), NodeId::new(17));
//! assert_eq!(file.service("storage").map(|port| port.get()), Some(2000));
//! # Ok::<(), weft_route::FileError>(())
//! ```

mod raw;
mod read;

use std::collections::BTreeMap;
use std::fmt;

use weft_base::Port;

use crate::{Cluster, Mode, Name, NetworkId};
use raw::RawFile;
use read::{Wrong, read};

/// What a cluster file says.
#[derive(Clone, Debug)]
pub struct ClusterFile {
    /// Whether nodes that it does not name may talk to ours; strict unless it says otherwise.
    pub mode: Mode,
    /// Its nodes.
    pub cluster: Cluster,
    /// The names of its networks; the first is the network with index 1.
    networks: Vec<Name>,
    services: BTreeMap<Name, Port>,
}

/// What is wrong with a cluster file, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    what: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.what)
    }
}

impl std::error::Error for FileError {}

impl ClusterFile {
    /// Reads the text of a cluster file.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place, its value and what would be accepted.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let raw: RawFile = toml::from_str(text).map_err(|error| {
            let what = error.message().to_owned();
            Wrong { at: error.span().unwrap_or(0..0), what }.in_file(text)
        })?;
        read(&raw).map_err(|wrong| wrong.in_file(text))
    }

    /// The name of a network.
    #[must_use]
    pub fn network_name(&self, network: NetworkId) -> Option<&Name> {
        self.networks.get(network.index().checked_sub(1)?)
    }

    /// The port of a service: one of the file, or else `echo` or `discard` ([CDP-ADR-4]).
    #[must_use]
    pub fn service(&self, name: &str) -> Option<Port> {
        let own = name.parse::<Name>().ok().and_then(|name| self.services.get(&name).copied());
        own.or_else(|| well_known(name))
    }

    /// The names of all services.
    pub fn services(&self) -> impl Iterator<Item = (&Name, Port)> {
        self.services.iter().map(|(name, &port)| (name, port))
    }
}

fn well_known(name: &str) -> Option<Port> {
    let number = match name {
        "echo" => 7,
        "discard" => 9,
        _ => return None,
    };
    Port::new(number)
}

#[cfg(test)]
mod tests;
