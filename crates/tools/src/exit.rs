//! How a command ends: one sentence for the person, one number for the script.

use std::fmt;
use std::io;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

/// What is to be done before the program ends.
static LAST: Mutex<Vec<Box<dyn Fn() + Send>>> = Mutex::new(Vec::new());

/// Has `last` done before the program ends by [`end`].
pub fn before_end(last: impl Fn() + Send + 'static) {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(last));
}

/// Ends the program, wherever it is.
pub fn end(status: u8) -> ! {
    let all = std::mem::take(&mut *LAST.lock().unwrap_or_else(PoisonError::into_inner));
    all.iter().for_each(|last| last());
    std::process::exit(status.into())
}

/// Why a command failed, as its exit status. The numbers are part of the command line's contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Code {
    /// Anything the other codes do not name.
    Other = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The host name or address means nothing here, or there is no way to it.
    UnknownHost = 3,
    /// The host answered that nobody listens there.
    Refused = 4,
    /// Nothing answered in time.
    NoAnswer = 5,
    /// The peer died or broke the connection off, or something that was sent was not read.
    Lost = 6,
    /// A source cannot be read, or changed while it was read.
    Source = 7,
    /// The destination exists and may not be replaced.
    Exists = 8,
    /// The destination cannot be written, for instance because the disk is full.
    Destination = 9,
    /// What arrived is not what was sent.
    Digest = 10,
    /// The address or port is taken on this machine, or not permitted.
    Address = 11,
    /// The peer speaks something else.
    Protocol = 12,
    /// No running engine was found.
    NoEngine = 13,
    /// The check found something that should be changed.
    Findings = 14,
    /// The user interrupted the command.
    Interrupted = 130,
}

impl Code {
    /// Every code with the words that `--help` shows for it.
    pub const ALL: [(Self, &'static str); 15] = [
        (Self::Other, "any other failure"),
        (Self::Usage, "wrong command line"),
        (Self::UnknownHost, "unknown host, or no way to it"),
        (Self::Refused, "connection refused: nobody listens on that port"),
        (Self::NoAnswer, "no answer in time"),
        (Self::Lost, "the peer died, broke the connection off, or left something unread"),
        (Self::Source, "a source cannot be read, or changed meanwhile"),
        (Self::Exists, "the destination exists"),
        (Self::Destination, "the destination cannot be written (disk full, permissions)"),
        (Self::Digest, "digest mismatch: what arrived is not what was sent"),
        (Self::Address, "local address or port taken, or not permitted"),
        (Self::Protocol, "the peer speaks another protocol or version, or refused"),
        (Self::NoEngine, "no running engine found (stat)"),
        (Self::Findings, "something is wrong with this machine (doctor)"),
        (Self::Interrupted, "interrupted"),
    ];

    /// The exit status.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The code of `number`, as the peer reported it; unknown numbers are [`Code::Other`].
    #[must_use]
    pub fn from_number(number: u8) -> Self {
        Self::ALL.iter().map(|(code, _)| *code).find(|code| code.number() == number).unwrap_or(Self::Other)
    }

    /// The paragraph that `--help` ends with.
    #[must_use]
    pub fn help() -> String {
        let mut text = String::from("Exit status:\n    0  success\n");
        for (code, meaning) in Self::ALL {
            text.push_str(&format!("  {:>3}  {meaning}\n", code.number()));
        }
        text.push_str(
            "With --json a command that fails ends with an \"error\" event with this code, unless its command line\n\
             was wrong; `cat` says it on standard error.\n",
        );
        text
    }
}

/// A failed command: what went wrong with which value, and what the user can do next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The exit status.
    pub code: Code,
    /// The value and the cause, without a full stop.
    pub what: String,
    /// The next step, without a full stop; may be empty.
    pub next: String,
}

impl Failure {
    /// A failure that says `what` happened and what to do `next`.
    #[must_use]
    pub fn new(code: Code, what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { code, what: what.into(), next: next.into() }
    }

    /// A destination that could not be written.
    #[must_use]
    pub fn destination(path: &str, error: &io::Error) -> Self {
        let next = next_step(
            error,
            &[
                (
                    io::ErrorKind::StorageFull,
                    "free some space and repeat the command, it goes on where it stopped",
                ),
                (io::ErrorKind::QuotaExceeded, "delete something of yours and repeat the command"),
                (io::ErrorKind::PermissionDenied, "choose a directory that you may write"),
                (io::ErrorKind::ReadOnlyFilesystem, "choose a directory that you may write"),
                (io::ErrorKind::NotFound, "create it first"),
                (io::ErrorKind::NotADirectory, "name a directory"),
                (io::ErrorKind::IsADirectory, "move it away and repeat the command"),
            ],
        );
        Self::new(Code::Destination, format!("cannot write {path:?}: {}", cause(error)), next)
    }

    /// Standard output that could not be written.
    #[must_use]
    pub fn output(error: &io::Error) -> Self {
        let what = format!("cannot write to standard output: {}", cause(error));
        Self::new(Code::Destination, what, "make room where it goes, and repeat the command")
    }

    /// A thread that could not be had.
    #[must_use]
    pub fn thread(error: &io::Error) -> Self {
        let what = format!("cannot start a thread: {}", cause(error));
        Self::new(Code::Other, what, "raise the limit of threads and of memory")
    }

    /// A source that could not be read.
    #[must_use]
    pub fn source(path: &str, error: &io::Error) -> Self {
        let next = next_step(
            error,
            &[
                (io::ErrorKind::NotFound, "check the spelling of the path"),
                (io::ErrorKind::PermissionDenied, "make it readable, or leave it out"),
            ],
        );
        Self::new(Code::Source, format!("cannot read {path:?}: {}", cause(error)), next)
    }
}

fn next_step(error: &io::Error, steps: &[(io::ErrorKind, &'static str)]) -> &'static str {
    let step = steps.iter().find(|(kind, _)| *kind == error.kind());
    step.map_or("repair this and repeat the command", |(_, step)| step)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if !self.next.is_empty() {
            write!(f, "; {}", self.next)?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for ExitCode {
    fn from(failure: Failure) -> Self {
        Self::from(failure.code.number())
    }
}

/// The operating system's words for `error`, lower case and without the error number.
#[must_use]
pub fn cause(error: &io::Error) -> String {
    let text = error.to_string();
    let text = match text.find(" (os error") {
        Some(end) => &text[..end],
        None => &text,
    };
    let mut chars = text.chars();
    match (chars.next(), text.chars().nth(1)) {
        (Some(first), Some(second)) if second.is_lowercase() => first.to_lowercase().chain(chars).collect(),
        _ => text.to_owned(),
    }
}

/// Why a stream to a peer ended, as a clause: what to do next is for the command to say.
#[must_use]
pub fn peer_cause(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return "it closed the connection early".to_owned();
    }
    let text = cause(error);
    text.split_once("; ").map_or_else(|| text.clone(), |(what, _)| what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_distinct_and_survive_the_wire() {
        for (code, _) in Code::ALL {
            assert_eq!(Code::from_number(code.number()), code);
        }
        assert_eq!(Code::from_number(77), Code::Other);
    }

    #[test]
    fn a_failure_is_one_sentence_with_value_cause_and_next_step() {
        let failure = Failure::source("a.txt", &io::Error::from_raw_os_error(libc::EACCES));
        assert_eq!(
            failure.to_string(),
            "cannot read \"a.txt\": permission denied; make it readable, or leave it out"
        );
        assert_eq!(failure.code, Code::Source);
    }

    #[test]
    fn a_full_disk_is_told_as_such() {
        let failure = Failure::destination("d/x", &io::Error::from_raw_os_error(libc::ENOSPC));
        assert!(failure.to_string().contains("no space left on device"), "{failure}");
        assert!(failure.to_string().contains("free some space"), "{failure}");
    }
}
