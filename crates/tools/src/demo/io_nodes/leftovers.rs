//! What a demonstration made, and takes away again in its end, by whatever that comes.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process};

use crate::exit::{Code, Failure};

/// A thing that was made, or is about to be.
pub(super) enum Kind {
    /// A network namespace with the processes in it.
    Namespace(String),
    File(PathBuf),
}

/// All that was made.
#[derive(Clone)]
pub(super) struct Leftovers(Arc<Mutex<Option<Vec<Kind>>>>);

impl Default for Leftovers {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Some(Vec::new()))))
    }
}

impl Leftovers {
    /// Adds what is made next.
    ///
    /// # Errors
    /// [`Code::Interrupted`] once all has been removed: nothing is to be made any more.
    pub(super) fn add(&self, kind: Kind) -> Result<(), Failure> {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(kinds) => kinds.push(kind),
            None => return Err(Failure::new(Code::Interrupted, "interrupted", "")),
        }
        Ok(())
    }

    /// Removes all of it. What cannot be removed was not made, or somebody else removed it.
    pub(super) fn remove(&self) {
        let kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        for kind in kinds.unwrap_or_default() {
            match kind {
                Kind::Namespace(name) => remove_namespace(&name),
                Kind::File(path) => drop(std::fs::remove_file(path)),
            }
        }
    }
}

fn remove_namespace(name: &str) {
    for pid in ip(&["netns", "pids", name]).split_whitespace().filter_map(|pid| pid.parse().ok()) {
        // It may have ended by itself.
        let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
    }
    ip(&["netns", "del", name]);
}

/// What `ip` says, if it works.
fn ip(arguments: &[&str]) -> String {
    let run = Command::new("ip").args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output();
    run.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_and_nothing_is_made_after_that() {
        let path = std::env::temp_dir().join(format!("weft-leftover-{}", std::process::id()));
        std::fs::write(&path, b"content").unwrap();
        let leftovers = Leftovers::default();
        leftovers.add(Kind::File(path.clone())).unwrap();
        leftovers.remove();
        assert!(!path.exists());
        assert!(leftovers.add(Kind::File(path)).is_err());
    }
}
