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
use std::sync::Arc;

use weft_engine::control::{self, Control};

/// Something else than a node that tells of itself, until this is dropped.
pub struct Offer {
    _control: Control,
}

impl std::fmt::Debug for Offer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Offer")
    }
}

/// Answers under `name` with what `describe` says, a JSON object: a runtime of fibers, for instance, which `weft stat --fibers`
/// shows.
///
/// ```
/// use weft_socket::stat;
///
/// let runtime = weft_fiber::Runtime::new()?;
/// let name = format!("doc-fibers-{}", std::process::id());
/// let handle = runtime.handle();
/// let offer = stat::offer(&name, move || handle.to_json())?;
/// assert!(stat::query(&name)?.contains("\"workers\":1"));
/// drop(offer);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When the name is no file name or is taken, or the system gives no socket or thread.
pub fn offer(name: &str, describe: impl Fn() -> String + Send + Sync + 'static) -> io::Result<Offer> {
    Ok(Offer { _control: Control::open(name, Arc::new(describe))? })
}

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
