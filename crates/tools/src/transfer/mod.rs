//! Bulk transfer of files and directories over any reliable stream of bytes.
//!
//! ```text
//! sender                                   receiver
//!   Hello, Entry …, ManifestEnd  ────────►   checks every name, looks what is there
//!                                ◄────────   Have (prefix and its hash) …, Exists …, PlanEnd
//!   Start, Data …, FileEnd       ────────►   writes NAME.weft-part; checks; fsync; rename
//!   Skip (the same is there)     ────────►
//!                                ◄────────   Done or Failed for each file
//!   End (digest of the whole)    ────────►   links, modes and times of directories
//!                                ◄────────   Complete (digest of the whole)
//! ```
//!
//! Both ends say `Busy` every second, so a silent peer is a dead one, and may say `Abort` with an exit code and a sentence at
//! any time. Nothing here knows CDP: the stream is generic, so that the tests run over a socket pair. Whoever brings the
//! stream gives it a time-out of more than a second for reading, and one of about a second for writing.

mod announced;
pub mod destination;
pub mod frame;
pub mod manifest;
pub mod name;
mod outward;
mod part;
mod pauses;
pub mod receiver;
mod resume;
pub mod sender;
mod survey;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::time::Duration;

pub use self::pauses::{Pause, PauseEvent, Pauses, now};
use crate::exit::{Code, Failure, peer_cause};
use crate::units::files;

/// Longest silence of an end that lives, by default: it says `Busy` every second.
pub const SILENCE_MAX: Duration = Duration::from_secs(15);
/// How often a write that waits for room shall look whether the other end still lives: the stream's time-out for writing.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of file data in one `Data` frame as the sender makes them.
pub const CHUNK_BYTES: usize = 256 << 10;

/// What an end of a transfer tells while it runs. All methods may be called from any thread.
pub trait Observer: Sync {
    /// Both ends agreed: `files` and `bytes` in all, of which `present_bytes` seem to be at the receiver already.
    fn planned(&self, files: u64, bytes: u64, present_bytes: u64) {
        let _ = (files, bytes, present_bytes);
    }
    /// `bytes` of those that were there are of another file, and are sent after all.
    fn differing(&self, bytes: u64) {
        let _ = bytes;
    }
    /// `bytes` more of the files were sent or stored.
    fn advanced(&self, bytes: u64) {
        let _ = bytes;
    }
    /// The receiver has the file under its final name.
    fn finished(&self, name: &Path) {
        let _ = name;
    }
    /// The file could not be sent or kept; the transfer goes on with the next.
    fn failed(&self, failure: &Failure) {
        let _ = failure;
    }
}

/// Watches nothing.
impl Observer for () {}

/// What a finished transfer did.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Files that are at the receiver now, those that were there already included.
    pub files: u64,
    /// Bytes of those files.
    pub bytes: u64,
    /// Bytes that the receiver had from an earlier try or from an equal file.
    pub present_bytes: u64,
    /// When nothing came while files were on their way; empty at the sender.
    pub pauses: Pauses,
    /// BLAKE3 digest over the digests of all files, hexadecimal.
    pub digest: String,
    /// Files that failed.
    pub failures: Failures,
}

/// How many files failed, and why the first did: the peer chooses how many there are and what it says of each.
#[derive(Clone, Debug, Default)]
pub struct Failures {
    /// So many.
    pub count: u64,
    /// The first of them.
    pub first: Option<Failure>,
}

impl Failures {
    fn add(&mut self, failure: Failure) {
        self.count += 1;
        self.first.get_or_insert(failure);
    }
}

impl Report {
    /// Whether all files were sent, or received, as `verb` says. Why one was not, an [`Observer`] was told when it failed.
    ///
    /// # Errors
    /// The code of the first failure.
    pub fn result(&self, verb: &str) -> Result<(), Failure> {
        let Some(first) = &self.failures.first else { return Ok(()) };
        let what = format!("{} could not be {verb}", files(self.failures.count));
        Err(Failure::new(first.code, what, "what failed is told above"))
    }
}

/// Why a transfer did not finish.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The stream broke or ended early: the peer died, or the way to it.
    #[error("the connection broke: {0}")]
    Stream(#[from] io::Error),
    /// The same before the peer said a word: it may be of another service.
    #[error("the connection broke before the peer said a word: {0}")]
    Unheard(io::Error),
    /// The peer sent what the protocol does not allow.
    #[error("the peer broke the protocol: {0}")]
    Protocol(String),
    /// The peer gave up and said why.
    #[error("the peer gave up: {0}")]
    Peer(Failure),
    /// This end cannot go on.
    #[error("{0}")]
    Local(#[from] Failure),
}

impl Error {
    /// The sentence and exit code for the user; `peer` is how the user knows the other end.
    #[must_use]
    pub fn into_failure(self, peer: &str) -> Failure {
        let meet = "check that `weft send` and `weft recv` of the same version meet";
        match self {
            Self::Stream(error) => {
                broken(peer, &error, "in mid-transfer", "repeat the command, it goes on where it stopped")
            }
            Self::Unheard(error) => broken(peer, &error, "before it said a word", meet),
            Self::Protocol(what) => Failure::new(
                Code::Protocol,
                format!("{peer} does not speak this transfer protocol: {what}"),
                meet,
            ),
            Self::Peer(failure) => Failure { what: format!("{peer} says: {}", failure.what), ..failure },
            Self::Local(failure) => failure,
        }
    }
}

fn broken(peer: &str, error: &io::Error, when: &str, next: &str) -> Failure {
    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
        return Failure::new(Code::NoAnswer, format!("{peer} fell silent {when}"), next);
    }
    Failure::new(Code::Lost, format!("lost {peer} {when}: {}", peer_cause(error)), next)
}
