//! A node that a descriptor names, and its progress by a program's own loop of events.

use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::time::Duration;

use weft_socket::{Node, Progress};

use crate::boundary::{self, Failure};
use crate::node;

/// A node with what C programs have of it.
pub(crate) struct OpenNode {
    pub(crate) node: Node,
    /// How long the end of the process waits for its connections to close.
    pub(crate) linger: Duration,
    /// Once a program has asked for it.
    progress: OnceLock<Progress>,
}

impl OpenNode {
    pub(crate) fn new(node: Node, linger: Duration) -> Self {
        Self { node, linger, progress: OnceLock::new() }
    }

    fn progress(&self) -> Result<&Progress, Failure> {
        if let Some(progress) = self.progress.get() {
            return Ok(progress);
        }
        let fresh = self.node.progress().map_err(Failure::no_descriptor)?;
        Ok(self.progress.get_or_init(|| fresh))
    }
}

/// Gives the descriptor that a loop of events waits for; see `cdp.h`.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_progress_fd(node: c_int) -> c_int {
    boundary::call(|| Ok(node::open(node)?.progress()?.as_raw_fd()))
}

/// Works off what has come for a node; see `cdp.h`.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_progress(node: c_int) -> c_int {
    boundary::call(|| Ok(node::open(node)?.progress()?.make().into()))
}
