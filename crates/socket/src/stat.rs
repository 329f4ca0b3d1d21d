//! Statistics of nodes that run in other processes of this user.
//!
//! A node opened with [`NodeBuilder::stat_name`](crate::NodeBuilder::stat_name) answers on a Unix socket under
//! `$XDG_RUNTIME_DIR/weft`, or `/tmp/weft-UID` where that cannot be had; only this user may connect.
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
use std::path::PathBuf;
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
    offer_detailed(name, move |_| describe())
}

/// How much somebody wants to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detail {
    /// What is at hand.
    Usual,
    /// Of fibers also the calls on their stacks, for which the workers stand still for a moment.
    Frames,
}

impl Detail {
    /// As it is asked for.
    fn question(self) -> &'static str {
        match self {
            Self::Usual => "",
            Self::Frames => "frames",
        }
    }
}

/// The same, told how much is wanted.
///
/// ```
/// use weft_socket::stat::{self, Detail};
///
/// let runtime = weft_fiber::Runtime::new()?;
/// let name = format!("doc-frames-{}", std::process::id());
/// let handle = runtime.handle();
/// let offer = stat::offer_detailed(&name, move |detail| match detail {
///     Detail::Frames => handle.to_json_with_frames(),
///     Detail::Usual | _ => handle.to_json(),
/// })?;
/// assert!(stat::query_detailed(&name, Detail::Frames)?.contains("\"workers\":1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As for [`offer`].
pub fn offer_detailed(
    name: &str,
    describe: impl Fn(Detail) -> String + Send + Sync + 'static,
) -> io::Result<Offer> {
    let answer = move |question: &str| {
        let wants_frames = question == Detail::Frames.question();
        describe(if wants_frames { Detail::Frames } else { Detail::Usual })
    };
    Ok(Offer { _control: Control::open(name, Arc::new(answer))? })
}

/// The directory of the sockets.
///
/// # Errors
/// When there is none that is this user's alone, nor can be made: then no node can have a name for statistics.
pub fn directory() -> io::Result<PathBuf> {
    control::directory()
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
/// When no node of that name answers within five seconds.
pub fn query(name: &str) -> io::Result<String> {
    query_detailed(name, Detail::Usual)
}

/// The same, with so much detail as the other can tell.
///
/// # Errors
/// As for [`query`], but it has ten seconds to tell more than the usual.
pub fn query_detailed(name: &str, detail: Detail) -> io::Result<String> {
    control::query(name, detail.question())
}
