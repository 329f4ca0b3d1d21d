//! Statistics of nodes that run in other processes of this user.
//!
//! A node opened with [`NodeBuilder::stat_name`](crate::NodeBuilder::stat_name) answers on a Unix socket under
//! `$XDG_RUNTIME_DIR/weft`, or `/tmp/weft-UID` where there is none; only this user may connect.
//!
//! ```
//! use weft_socket::{Node, stat};
//!
//! let name = format!("doc-{}", std::process::id());
//! let node = Node::builder().bind("127.0.0.1:0".parse()?).stat_name(&name).open()?;
//! assert!(stat::list()?.iter().any(|running| running == &name));
//! let json = stat::query(&name)?;
//! assert!(json.contains(&node.underlay().to_string()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::io;

use weft_engine::control;

/// Names of the nodes that answer, in order.
///
/// # Errors
/// When the directory cannot be read; that there is none is not an error.
pub fn list() -> io::Result<Vec<String>> {
    control::list()
}

/// The snapshot of the node `name`, as JSON (see [`NodeStats::to_json`](crate::NodeStats::to_json)).
///
/// # Errors
/// When no node of that name answers within a second.
pub fn query(name: &str) -> io::Result<String> {
    control::query(name)
}
