//! Locks, parking, the busy-slot hand-over and grace periods, behind one face over std and loom; and where calls that block meet
//! a scheduler of fibers.
//!
//! This room must not know packets, sockets, clocks or links: it has atomics, the futex, and nothing else.
//! A wait takes a length of time; whoever owns the clock decides whether to wait again.
//!
//! Every primitive is written against [`face`], so that the very same source runs on the machine and, built
//! with `--cfg loom`, under a checker that tries every interleaving the memory model allows. The proofs live in
//! `tests/loom_*.rs`; this runs all of them in well under a minute:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p weft-sync --test 'loom_*'
//! ```
//!
//! | type | waits by | who needs it |
//! |---|---|---|
//! | [`Mutex`] | spinning briefly, then the futex | anything short that threads share |
//! | [`RwLock`] | the same | what is read often; the nodes of the `fine` table |
//! | [`SpinLock`] | spinning, then giving the processor away | the list heads of the `coarse` table |
//! | [`Slot`] | not at all, or spinning and the futex | a connection: who finds it busy leaves its packet |
//! | [`Grace`] | not at all: readers are counted | the lists of the `epoch` table, read without a lock |
//! | [`Parker`], [`Unparker`] | the futex, with a time-out | one thread that others wake |
//! | [`scheduler`] | parking a fiber | calls that block, on threads that run fibers |
//!
//! ```
//! use weft_sync::Mutex;
//!
//! static OPENED: Mutex<u32> = Mutex::new(0);
//!
//! *OPENED.lock() += 1;
//! assert_eq!(*OPENED.lock(), 1);
//! ```

pub mod face;
mod futex;
mod grace;
#[cfg(loom)]
pub mod models;
mod mutex;
mod parker;
mod rwlock;
pub mod scheduler;
mod slot;
mod spin;

pub use futex::Futex;
pub use grace::{Grace, Reading};
pub use mutex::{Mutex, MutexGuard};
pub use parker::{Parker, Unparker};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use slot::{Entry, Look, Slot, SlotGuard};
pub use spin::{SpinGuard, SpinLock};
