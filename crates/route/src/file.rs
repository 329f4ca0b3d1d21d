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
//! let there = file.cluster.resolve("compute-17:storage")?;
//! assert_eq!((there.node, there.port.get()), (NodeId::new(17).unwrap(), 2000));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod raw;
mod read;

use std::fmt;
use std::net::IpAddr;

use crate::{Cluster, Member, Mode, Name, NetworkId};
use raw::RawFile;
use read::{Wrong, read};

/// What a cluster file says.
#[derive(Clone, Debug)]
pub struct ClusterFile {
    /// Whether nodes that it does not name may talk to ours; strict unless it says otherwise.
    pub mode: Mode,
    /// Its nodes and services.
    pub cluster: Cluster,
    /// The names of its networks; the first is the network with index 1.
    networks: Vec<Name>,
}

/// Names that a sentence lists at most.
const LISTED_MAX: usize = 8;

/// Why it is not clear which node of a cluster somebody is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WhichError {
    /// No node has an address of this host.
    Nobody,
    /// Several have one: their names, or else numbers.
    Several(Vec<String>),
}

impl fmt::Display for WhichError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody => {
                f.write_str("no node of the cluster has an address of this host; say which of them this is")
            }
            Self::Several(labels) => {
                let (listed, rest) = labels.split_at(labels.len().min(LISTED_MAX));
                write!(f, "{} nodes of the cluster have an address of this host; ", labels.len())?;
                write!(f, "say which of them this is: {}", listed.join(", "))?;
                if rest.is_empty() { Ok(()) } else { write!(f, " and {} more", rest.len()) }
            }
        }
    }
}

impl std::error::Error for WhichError {}

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

    /// The only node with an address of this host, whose addresses `is_here` knows; `None` in open mode if no node has one.
    ///
    /// # Errors
    /// When none has one, or several have.
    pub fn own(&self, is_here: impl Fn(IpAddr) -> bool) -> Result<Option<&Member>, WhichError> {
        let is_own = |member: &&Member| member.at.iter().any(|attachment| is_here(attachment.at.host()));
        let own: Vec<&Member> = self.cluster.iter().filter(is_own).collect();
        match own.as_slice() {
            [only] => Ok(Some(*only)),
            [] if self.mode == Mode::Open => Ok(None),
            [] => Err(WhichError::Nobody),
            several => Err(WhichError::Several(several.iter().map(|member| member.label()).collect())),
        }
    }
}

impl From<(Cluster, Mode)> for ClusterFile {
    /// What a file would say that describes these nodes, with networks that have no names.
    fn from((cluster, mode): (Cluster, Mode)) -> Self {
        Self { mode, cluster, networks: Vec::new() }
    }
}

#[cfg(test)]
mod tests;
