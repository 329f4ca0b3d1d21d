//! One `weft` command of the testbed, and the JSON events that it prints.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::exit::{Code, Failure, cause};

/// A running command; it is killed when this value goes.
pub(super) struct Running {
    name: String,
    child: Child,
    events: Receiver<Value>,
}

impl Running {
    /// Starts `command`; `name` is how people know it.
    pub(super) fn start(name: &str, command: &mut Command) -> Result<Self, Failure> {
        let failed = |error: &std::io::Error| {
            Failure::new(Code::Other, format!("cannot start {name}: {}", cause(error)), "see `weft doctor`")
        };
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed(&error))?;
        let (tell, events) = mpsc::channel();
        if let Some(out) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    if let Ok(event) = serde_json::from_str(&line)
                        && tell.send(event).is_err()
                    {
                        break;
                    }
                }
            });
        }
        Ok(Self { name: name.to_owned(), child, events })
    }

    /// Waits for the event called `event`.
    ///
    /// # Errors
    /// [`Code::NoAnswer`] if it does not come within `limit`, [`Code::Other`] if the command says that it failed or ends.
    pub(super) fn wait_for(&mut self, event: &str, limit: Duration) -> Result<Value, Failure> {
        let deadline = Instant::now() + limit;
        loop {
            match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(value) if value["event"] == event => return Ok(value),
                Ok(value) if value["event"] == "error" => {
                    let what = format!(
                        "{} failed: {}",
                        self.name,
                        value["message"].as_str().unwrap_or("it does not say why")
                    );
                    return Err(Failure::new(Code::Other, what, ""));
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    let what = format!("{} did not tell of \"{event}\" within {limit:?}", self.name);
                    return Err(Failure::new(Code::NoAnswer, what, "try it again on a calmer machine"));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let words = self.last_words();
                    let what = format!("{} ended: {words}", self.name);
                    return Err(Failure::new(Code::Other, what, ""));
                }
            }
        }
    }

    /// What it printed on its standard error.
    fn last_words(&mut self) -> String {
        let mut words = String::new();
        if let Some(mut from) = self.child.stderr.take() {
            // It has ended, so this ends; words that are no text are lost.
            let _ = std::io::Read::read_to_string(&mut from, &mut words);
        }
        words.lines().last().unwrap_or("it does not say why").to_owned()
    }

    /// Ends it by SIGKILL, as a crash would.
    pub(super) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
