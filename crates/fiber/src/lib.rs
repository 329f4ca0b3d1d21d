//! User-level threads with opportunistic polling, after the SCALE Threads of the SCALE paper (section 2).
//!
//! A fiber is a function call that goes on beside others. Fibers are run by workers, which are OS threads; all switches are
//! voluntary. A fiber that waits says what for: an object of this library, whose owner hands it over in O(1), or a posted
//! condition, which a worker tests when it has the chance.
//!
//! This room must not know sockets, packets or engines: blocking calls of a transport park a fiber through
//! [`weft_sync::scheduler`], and whatever else makes progress gets a poll hook ([`Runtime::set_poll_hook`]) and a [`Waiter`].
//! It has the stacks, the workers' threads, and a clock for deadlines.
//!
//! | file | holds |
//! |---|---|
//! | `runtime`, `config`, `spawn` | what users start with |
//! | `fiber`, `join`, `control`, `exit`, `cancel` | what is done with a fiber, and by one |
//! | `worker/` | the scheduler: picks, wakes, steals, timers, posted conditions, sleep |
//! | `queue`, `lane`, `inbox` | run queues: private, for the taking, and from elsewhere |
//! | `sleep` | where a worker without a fiber sleeps, and how it is called |
//! | `stack/`, `block`, `shell`, `job` | regions, control blocks, and what runs in them |
//! | `switch/` | from a worker's stack to a fiber's, and back |
//! | `wait/`, `gate`, `latch`, `event`, `refs` | waiting for an object, and how long it lives |
//! | `mutex`, `semaphore`, `condvar`, `barrier`, `once` | the objects, for fibers and threads |
//! | `local`, `shared` | locks for one thread, and for several processes |
//! | `transport` | calls of a transport that wait, and idle workers that drive it |
//! | `condition`, `storage` | posted conditions, storage per fiber |
//! | `listing`, `report`, `trace` | names, states and spans |
//! | `frames`, `rendezvous` | the calls on parked fibers' stacks, and where workers stand still to have them looked at |
//!
//! ```
//! use weft_fiber::{Mutex, spawn, yield_now};
//!
//! static SUM: Mutex<u32> = Mutex::new(0);
//!
//! let last = weft_fiber::run(|| {
//!     let parts: Vec<_> = (1..=10)
//!         .map(|part| {
//!             spawn(move || {
//!                 yield_now();
//!                 *SUM.lock() += part;
//!                 part
//!             })
//!         })
//!         .collect();
//!     parts.into_iter().map(|part| part.unwrap().join().unwrap()).last()
//! })?;
//! assert_eq!((last, *SUM.lock()), (Some(10), 55));
//! # Ok::<(), weft_fiber::RunError>(())
//! ```

mod barrier;
mod cancel;
mod condvar;
mod gate;
mod inbox;
mod lane;
mod latch;
mod mutex;
mod once;
mod queue;
mod refs;
mod rendezvous;
mod semaphore;
mod sleep;
mod wait;
mod why;

#[cfg(not(loom))]
mod block;
#[cfg(not(loom))]
mod condition;
#[cfg(not(loom))]
mod config;
#[cfg(not(loom))]
mod control;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod event;
#[cfg(not(loom))]
mod exit;
#[cfg(not(loom))]
mod fiber;
#[cfg(not(loom))]
mod frames;
#[cfg(not(loom))]
mod job;
#[cfg(not(loom))]
mod join;
#[cfg(not(loom))]
mod listing;
#[cfg(not(loom))]
pub mod local;
#[cfg(not(loom))]
mod name;
#[cfg(not(loom))]
mod report;
#[cfg(not(loom))]
mod runtime;
#[cfg(not(loom))]
pub mod shared;
#[cfg(not(loom))]
mod shell;
#[cfg(not(loom))]
mod spawn;
#[cfg(not(loom))]
mod stack;
#[cfg(not(loom))]
mod storage;
#[cfg(not(loom))]
mod switch;
#[cfg(not(loom))]
mod trace;
#[cfg(not(loom))]
mod transport;
#[cfg(not(loom))]
mod worker;

pub use barrier::Barrier;
pub use condvar::Condvar;
pub use mutex::{Mutex, MutexGuard};
pub use once::OnceCell;
pub use semaphore::Semaphore;
pub use why::Why;

#[cfg(not(loom))]
pub use api::*;

/// What needs a stack to switch to, and so is not there under the model checker.
#[cfg(not(loom))]
mod api {
    pub use crate::cancel::is_cancellation;
    pub use crate::condition::{Condition, Operand, wait_for, wait_until, wait_until_deadline};
    pub use crate::config::Config;
    pub use crate::control::{
        Waiter, bind_here, check_cancelled, current_worker, deadline, is_cancelled, park, park_until,
        shielded, sleep, sleep_until, wait_for_joiners, yield_now,
    };
    pub use crate::error::{
        BindError, BuildError, ConditionError, DetachError, ExitError, JoinError, NotAFiber, Panic, RunError,
        SpawnError,
    };
    pub use crate::exit::exit;
    pub use crate::fiber::Fiber;
    pub use crate::frames::{Frame, NoFrames};
    pub use crate::join::{JoinHandle, Joiner};
    pub use crate::listing::{Deadlock, Listed, State, list_on_signal};
    pub use crate::runtime::{Handle, Runtime, run};
    pub use crate::spawn::{Spawn, spawn, spawn_local};
    pub use crate::storage::FiberLocal;
}
