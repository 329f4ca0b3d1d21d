//! PMIx, by the library `libpmix.so.2` of the machine.
//!
//! A process *puts* what all ranks are to know and *commits* it; after a *fence* everybody may *get* it. Each call into
//! the library runs in a thread of its own with a limit to the wait for it, because a call that waits for other ranks or
//! for a launcher that died need not come back.

mod layout;
mod library;
mod session;

pub(crate) use session::{Session, is_offered};
