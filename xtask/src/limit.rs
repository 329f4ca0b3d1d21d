//! A command that has a time to end in: what hangs in continuous integration must not take what follows with it.

use std::fs;
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long what is to end has to tidy up, as network namespaces that it made.
const GRACE: Duration = Duration::from_secs(5);
/// Time between two looks at the command.
const LOOK: Duration = Duration::from_millis(20);

/// Runs `command` to its end; `None` if it had not ended after `limit`, and was killed with all that it started.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn status(command: &mut Command, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    let begin = Instant::now();
    while begin.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(LOOK);
    }
    end(&mut child)?;
    Ok(None)
}

/// Ends a command and its descendants, and kills those that are still there some seconds later; the command last: until then the
/// others are found.
fn end(child: &mut Child) -> io::Result<()> {
    let own = child.id();
    let signal = |process: u32, signal| {
        if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
            // It may have ended by itself.
            let _ = kill_process(process, signal);
        }
    };
    let all = descendants(own);
    all.iter().chain([&own]).for_each(|&process| signal(process, Signal::TERM));
    let begin = Instant::now();
    while begin.elapsed() < GRACE
        && (child.try_wait()?.is_none() || all.iter().any(|&process| lives(process)))
    {
        thread::sleep(LOOK);
    }
    all.into_iter()
        .chain(descendants(own))
        .filter(|&process| lives(process))
        .for_each(|process| signal(process, Signal::KILL));
    if child.try_wait()?.is_none() {
        child.kill()?;
    }
    child.wait().map(drop)
}

/// Whether a process has not ended.
fn lives(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Behind the name, which may hold anything.
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

/// The processes that `process` has started, and those that they have.
fn descendants(process: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|word| word.parse().ok()) {
            found.extend(descendants(child));
            found.push(child);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_in_time_tells_how() {
        let status = status(&mut Command::new("false"), Duration::from_secs(60)).unwrap();
        assert!(!status.expect("it ended").success());
    }

    #[test]
    fn what_hangs_is_killed_with_its_children() {
        let note = std::env::temp_dir().join(format!("weft-limit-{}", std::process::id()));
        let script = format!("sleep 600 & echo $! > {}; wait", note.display());
        let ended = status(Command::new("sh").args(["-c", &script]), Duration::from_secs(1)).unwrap();
        assert!(ended.is_none());
        let grandchild = fs::read_to_string(&note).unwrap();
        fs::remove_file(&note).unwrap();
        let status = || fs::read_to_string(format!("/proc/{}/status", grandchild.trim())).unwrap_or_default();
        // It dies when it is next on a processor.
        let begin = Instant::now();
        while let status = status()
            && !status.is_empty()
            && !status.contains("State:\tZ")
        {
            assert!(begin.elapsed() < Duration::from_secs(60), "{status}");
            thread::sleep(LOOK);
        }
    }
}
