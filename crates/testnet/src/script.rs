//! What the user of one end does: how much is written, how it is read, and how it ends.

use std::time::Duration;

/// The behaviour of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Lengths of what is written, in order: messages, or writes to a stream. In bytes.
    pub writes: Vec<usize>,
    /// Pause after each write.
    pub write_pause: Duration,
    /// What it waits for before it writes.
    pub writing: Writing,
    /// How reading is done.
    pub reading: Reading,
    /// How it ends.
    pub ending: Ending,
}

/// What a user waits for before it writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writing {
    /// For nothing.
    Freely,
    /// Until everything that the peer will write has been read.
    Last,
    /// For an answer: with each write one message more must have been read, after so many writes ahead of the first.
    InTurns {
        /// 1 for who begins the conversation.
        ahead: usize,
    },
}

/// How a user reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Bytes of the buffer given to `recv`; 0 takes loans by `recv_message`.
    pub buffer_bytes: usize,
    /// Reads in a row before a pause.
    pub burst: u32,
    /// The pause; zero for a reader that is always ready.
    pub pause: Duration,
}

/// How a user ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Closes as soon as everything is handed over for sending. Only sensible if the peer writes nothing.
    WhenWritten,
    /// Closes when everything is written and everything the peer will write has been read.
    WhenDone,
    /// Closes when the peer has closed.
    AfterPeer,
    /// Closes so long after the open began, whatever is going on.
    CloseAfter(Duration),
    /// Aborts so long after the open began.
    AbortAfter(Duration),
}

impl Script {
    /// Bytes written in all.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.writes.iter().map(|&len| len as u64).sum()
    }

    /// Whether this user never ends the connection before everything has arrived.
    #[must_use]
    pub fn is_patient(&self) -> bool {
        matches!(self.ending, Ending::WhenWritten | Ending::WhenDone | Ending::AfterPeer)
    }
}
