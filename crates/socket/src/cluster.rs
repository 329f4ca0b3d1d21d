//! Cluster files on disk, and which of their nodes a process is.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use weft_base::NodeId;
use weft_engine::link::interfaces;

use crate::reason::errno;
use crate::{ClusterFile, FileError, OpenError};

/// Why a cluster file could not be loaded.
#[derive(Debug)]
pub enum LoadError {
    /// It could not be read.
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// What it says is wrong.
    Wrong {
        /// The file.
        path: PathBuf,
        /// What, and in which line.
        source: FileError,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, source } => {
                write!(f, "cannot read the cluster file {}: {source}; give another", path.display())
            }
            Self::Wrong { path, source } => write!(f, "{}, {source}", path.display()),
        }
    }
}

impl LoadError {
    /// The errno of the operating system, or EINVAL.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::Read { source, .. } => source.raw_os_error().unwrap_or(errno::EINVAL),
            Self::Wrong { .. } => errno::EINVAL,
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } => Some(source),
            Self::Wrong { source, .. } => Some(source),
        }
    }
}

impl From<LoadError> for io::Error {
    fn from(error: LoadError) -> Self {
        Self::new(crate::error::kind_of(error.errno()), error)
    }
}

/// Reads a cluster file: nodes, networks, I/O nodes and services (`docs/cluster.md`). The text of one that is not on disk
/// is read by [`ClusterFile::parse`].
///
/// ```no_run
/// use weft_socket::{Node, Options, load_cluster};
///
/// let file = load_cluster("/etc/weft/cluster.toml")?;
/// let node = Node::builder().cluster(&file).open()?; // the node that has an address of this host
/// let socket = node.connect("compute-17:storage", &Options::stream())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When it cannot be read, or the first thing that is wrong in it, with line and value.
pub fn load_cluster(path: impl AsRef<Path>) -> Result<ClusterFile, LoadError> {
    let path = path.as_ref();
    let read = std::fs::read_to_string(path);
    let text = read.map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
    ClusterFile::parse(&text).map_err(|source| LoadError::Wrong { path: path.to_owned(), source })
}

/// The node of the file that is called `name`, or the only one with an address of this host; `None` in open mode if no
/// node has one. [`crate::NodeBuilder::open`] asks this.
///
/// # Errors
/// [`OpenError::Unknown`], [`OpenError::Which`], or [`OpenError::System`] if the kernel does not list its interfaces.
pub fn own_node(file: &ClusterFile, name: Option<&str>) -> Result<Option<NodeId>, OpenError> {
    let Some(name) = name else {
        let interfaces = interfaces()
            .map_err(|source| OpenError::System { what: "the addresses of this host", source })?;
        let own = file.own(|at| at.is_loopback() || interfaces.iter().any(|one| one.address == at));
        return Ok(own.map_err(OpenError::Which)?.map(|member| member.node));
    };
    file.cluster.member(name).map(|member| Some(member.node)).map_err(OpenError::Unknown)
}
