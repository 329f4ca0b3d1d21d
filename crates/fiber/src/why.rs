//! What a fiber waits for, as listings and deadlock reports say it.

/// What a fiber waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Why {
    /// A mutex that another one holds.
    Mutex = 1,
    /// A semaphore without permits.
    Semaphore,
    /// A condition variable.
    Condvar,
    /// A barrier that is not full.
    Barrier,
    /// A once cell that another fiber fills.
    Once,
    /// The end of another fiber.
    Join,
    /// Joiners: the fiber ends when enough of them have come.
    Joiners,
    /// Somebody who unparks it.
    Park,
    /// Time.
    Sleep,
    /// A posted condition, tested by its worker.
    Condition,
    /// Something to receive, or a connection to accept.
    Readable,
    /// Room to send.
    Writable,
    /// The outcome of a connect.
    Connected,
    /// The outcome of a close.
    Closed,
}

impl Why {
    /// Every reason.
    pub const ALL: [Self; 14] = [
        Self::Mutex,
        Self::Semaphore,
        Self::Condvar,
        Self::Barrier,
        Self::Once,
        Self::Join,
        Self::Joiners,
        Self::Park,
        Self::Sleep,
        Self::Condition,
        Self::Readable,
        Self::Writable,
        Self::Connected,
        Self::Closed,
    ];

    /// In words: "a mutex".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Mutex => "a mutex",
            Self::Semaphore => "a semaphore",
            Self::Condvar => "a condition variable",
            Self::Barrier => "a barrier",
            Self::Once => "a once cell",
            Self::Join => "a join",
            Self::Joiners => "its joiners",
            Self::Park => "an unpark",
            Self::Sleep => "time to pass",
            Self::Condition => "a posted condition",
            Self::Readable => "something to receive",
            Self::Writable => "room to send",
            Self::Connected => "a connect",
            Self::Closed => "a close",
        }
    }

    /// Whether only another fiber can end this wait, so that a wait of all fibers for such objects is a deadlock.
    #[must_use]
    pub fn is_owned(self) -> bool {
        !matches!(
            self,
            Self::Park
                | Self::Sleep
                | Self::Condition
                | Self::Readable
                | Self::Writable
                | Self::Connected
                | Self::Closed
        )
    }

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|why| *why as u8 == number)
    }
}
