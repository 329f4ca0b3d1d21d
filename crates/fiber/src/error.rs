//! What can go wrong, one set per operation, each a sentence with value, cause and next step.

use std::any::Any;
use std::fmt;

/// Implements `Display` by a match from variant to sentence, and `Error`.
macro_rules! sentences {
    ($type:ty, $value:ident, $f:ident, $body:expr) => {
        impl fmt::Display for $type {
            fn fmt(&self, $f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let $value = self;
                $body
            }
        }
        impl std::error::Error for $type {}
    };
}

/// The call is for fibers, and the calling thread runs none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAFiber;
sentences!(
    NotAFiber,
    _value,
    f,
    f.write_str("this thread runs no fiber; make the call from within one, spawned with spawn or run")
);

/// Why a runtime could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// An option has a value that cannot be.
    Option {
        /// Its name.
        name: &'static str,
        /// The value given.
        value: usize,
        /// What would be accepted.
        accepted: &'static str,
    },
    /// The system refuses a thread.
    Thread(String),
}
sentences!(
    BuildError,
    error,
    f,
    match error {
        Self::Option { name, value, accepted } => write!(f, "{name} cannot be {value}; give {accepted}"),
        Self::Thread(cause) => write!(f, "a worker thread cannot be started: {cause}; use fewer workers"),
    }
);

/// Why a fiber was not spawned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpawnError {
    /// So many fibers live already.
    Limit {
        /// The limit.
        limit: usize,
    },
    /// No memory for its stack.
    Stack {
        /// The bytes of its region.
        size: usize,
        /// What the system said.
        cause: String,
    },
    /// The runtime is shutting down, or has.
    ShutDown,
    /// The calling thread belongs to no runtime.
    NotAFiber,
    /// It shall be bound to a worker that the runtime does not have.
    NoSuchWorker {
        /// The worker asked for.
        worker: usize,
        /// How many there are.
        workers: usize,
    },
}
sentences!(
    SpawnError,
    error,
    f,
    match error {
        Self::Limit { limit } => write!(
            f,
            "{limit} fibers live, which is the limit; join some, or raise fiber_limit of the runtime"
        ),
        Self::Stack { size, cause } => write!(
            f,
            "no memory for a stack of {size} bytes: {cause}; use smaller stacks or raise vm.max_map_count"
        ),
        Self::ShutDown => f.write_str("the runtime is shut down; spawn before that"),
        Self::NotAFiber => f.write_str("this thread belongs to no runtime; use Runtime::spawn"),
        Self::NoSuchWorker { worker, workers } =>
            write!(f, "there is no worker {worker}; the runtime has {workers}, counted from 0"),
    }
);

/// A fiber's panic.
pub struct Panic {
    pub(crate) message: String,
    pub(crate) payload: Option<Box<dyn Any + Send>>,
}

impl Panic {
    /// What the panic said.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The panic's payload, to be resumed with [`std::panic::resume_unwind`]; `None` if several fibers joined.
    #[must_use]
    pub fn into_payload(self) -> Option<Box<dyn Any + Send>> {
        self.payload
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Panic").field(&self.message).finish()
    }
}

/// Why a join has no value.
#[derive(Debug)]
#[non_exhaustive]
pub enum JoinError {
    /// The fiber panicked.
    Panicked(Panic),
    /// The fiber was cancelled.
    Cancelled,
    /// The fiber is detached, so its result is nobody's.
    Detached,
    /// The fiber came to the end of its stack.
    StackOverflow {
        /// Its name.
        name: String,
        /// The bytes of its stack.
        size: usize,
    },
    /// A fiber joins itself, and would wait for ever.
    Itself,
    /// The result has been taken already.
    Taken,
    /// It did not end before the deadline.
    TimedOut,
}
sentences!(
    JoinError,
    error,
    f,
    match error {
        Self::Panicked(panic) => write!(f, "the fiber panicked: {}", panic.message),
        Self::Cancelled => f.write_str("the fiber was cancelled before it had a result"),
        Self::Detached => f.write_str("the fiber is detached; attach it before joining"),
        Self::StackOverflow { name, size } =>
            write!(f, "the fiber {name} overflowed its stack of {size} bytes; spawn it with a larger one"),
        Self::Itself => f.write_str("a fiber cannot join itself; let another one join it"),
        Self::Taken => f.write_str("the fiber's result has been taken by an earlier join"),
        Self::TimedOut => f.write_str("the fiber did not end before the deadline; join again to wait longer"),
    }
);

/// Why a fiber could not be detached or attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DetachError {
    /// It is detached already.
    Detached,
    /// It is attached already.
    Attached,
    /// Somebody waits for its result.
    Joined,
    /// It has ended.
    Ended,
}
sentences!(
    DetachError,
    error,
    f,
    f.write_str(match error {
        Self::Detached => "the fiber is detached already; attach it first",
        Self::Attached => "the fiber is attached already; detach it first",
        Self::Joined => "somebody joins the fiber; detach it when nobody waits for its result",
        Self::Ended => "the fiber has ended; detach or attach it while it runs",
    })
);

/// Why a fiber could not be bound or unbound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BindError {
    /// The runtime has no such worker.
    NoSuchWorker {
        /// The worker asked for.
        worker: usize,
        /// How many there are.
        workers: usize,
    },
    /// The fiber has started and may not change threads.
    Started {
        /// Where it runs.
        home: usize,
    },
    /// The fiber's closure belongs to its thread.
    Local,
    /// The fiber is bound to no worker.
    NotBound,
}
sentences!(
    BindError,
    error,
    f,
    match error {
        Self::NoSuchWorker { worker, workers } =>
            write!(f, "there is no worker {worker}; the runtime has {workers}, counted from 0"),
        Self::Started { home } => write!(
            f,
            "the fiber has started on worker {home} and stays there; bind it before, or spawn it to roam"
        ),
        Self::Local => f.write_str("the fiber was spawned with spawn_local and never leaves its thread"),
        Self::NotBound => f.write_str("the fiber is not bound to a worker; bind it first"),
    }
);

/// Why [`exit`](crate::exit()) returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExitError {
    /// The calling thread runs no fiber.
    NotAFiber,
    /// The fiber's result has another type.
    OtherType {
        /// The type given.
        given: &'static str,
    },
    /// The fiber unwinds already.
    Unwinding,
}
sentences!(
    ExitError,
    error,
    f,
    match error {
        Self::NotAFiber =>
            f.write_str("this thread runs no fiber and cannot exit one; return from it instead"),
        Self::OtherType { given } =>
            write!(f, "the fiber's result is not of type {given}; exit with the type its closure returns"),
        Self::Unwinding => f.write_str("the fiber unwinds already; let it come to its end"),
    }
);

/// Why a posted condition was not waited for to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConditionError {
    /// The condition function panicked.
    Panicked(String),
    /// It did not become true before the deadline.
    TimedOut,
}
sentences!(
    ConditionError,
    error,
    f,
    match error {
        Self::Panicked(message) =>
            write!(f, "the condition function panicked: {message}; it must return true or false"),
        Self::TimedOut => f.write_str("the condition did not become true before the deadline"),
    }
);

/// Why [`run`](crate::run) has no value.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The runtime could not be started.
    Build(BuildError),
    /// The first fiber could not be spawned.
    Spawn(SpawnError),
    /// The first fiber ended without a value.
    Join(JoinError),
}
sentences!(
    RunError,
    error,
    f,
    match error {
        Self::Build(error) => error.fmt(f),
        Self::Spawn(error) => error.fmt(f),
        Self::Join(error) => error.fmt(f),
    }
);

impl From<BuildError> for RunError {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}

impl From<SpawnError> for RunError {
    fn from(error: SpawnError) -> Self {
        Self::Spawn(error)
    }
}

impl From<JoinError> for RunError {
    fn from(error: JoinError) -> Self {
        Self::Join(error)
    }
}
