//! The C face: the functions that `include/cdp.h` and `include/fiber.h` declare, in a static and a shared library `cdp`.
//!
//! A descriptor is a number in a table of this library; a call looks it up, takes a share of what it names, and works
//! on that with no lock held. Every call runs behind one boundary (`boundary.rs`) that turns errors into errno
//! and a sentence, checks pointers, and lets no panic pass into C.
//!
//! This room must not know packets, timers or threads: it translates, and [`weft_socket`] and [`weft_fiber`] do the work.
//!
//! What a C program writes (`examples/echo.c` has the whole of it):
//!
//! ```c
//! struct cdp_addr peer;
//! int s = cdp_socket(CDP_STREAM);
//! if (cdp_resolve("192.0.2.7:1064", 0, &peer) < 0 || cdp_connect(s, &peer) < 0)
//!     fprintf(stderr, "%s\n", cdp_error());
//! cdp_send(s, "hello", 5, 0);
//! cdp_close(s);
//! ```
//!
//! The same functions from Rust, as the library's own tests call them:
//!
//! ```
//! let s = cdp::cdp_socket(cdp::CDP_DATAGRAM);
//! assert!(s > 0);
//! assert_eq!(cdp::cdp_close(s), 0);
//! assert_eq!(cdp::cdp_close(s), -1); // EBADF: it is closed already
//! ```

mod addr;
mod boundary;
mod connection;
mod descriptors;
mod entry;
mod fiber;
mod fiber_create;
mod fiber_errors;
mod fiber_list;
mod fiber_locks;
mod fiber_objects;
mod fiber_once;
mod fiber_storage;
mod node;
mod options;
mod progress;
mod socket;
mod stats;
mod words;

pub use addr::{
    CDP_UNDERLAY_IPV4, CDP_UNDERLAY_IPV6, CDP_UNDERLAY_NONE, CdpAddr, cdp_addr_text, cdp_resolve,
};
pub use connection::{
    CDP_CLOSED, CDP_DONTWAIT, CDP_READABLE, CDP_TRUNC, CDP_WRITABLE, CdpCloseResult, cdp_abort, cdp_close,
    cdp_close_result, cdp_flush, cdp_poll_fd, cdp_recv, cdp_send, cdp_shutdown,
};
pub use descriptors::CDP_DESCRIPTORS_MAX;
pub use fiber::{
    FiberConfig, fiber_attach, fiber_bind, fiber_cancel, fiber_detach, fiber_exit, fiber_high_water,
    fiber_init, fiber_join, fiber_park, fiber_self, fiber_set_poll, fiber_shutdown, fiber_sleep,
    fiber_unbind, fiber_unpark, fiber_wait_for_joiners, fiber_yield,
};
pub use fiber_create::{FIBER_ARGS_MAX, FIBER_DETACHED, FIBER_ROAMS, FiberAttr, fiber_create_array};
pub use fiber_list::{fiber_list, fiber_list_frames, fiber_list_on_signal};
pub use fiber_locks::{
    FIBER_EQUAL, FIBER_LESS, FIBER_NOT_EQUAL, FIBER_NOT_LESS, fiber_barrier_init, fiber_barrier_wait,
    fiber_cond_broadcast, fiber_cond_init, fiber_cond_signal, fiber_cond_wait, fiber_mutex_init,
    fiber_mutex_lock, fiber_mutex_unlock, fiber_sem_init, fiber_sem_post, fiber_sem_wait, fiber_wait_until,
    fiber_wait_words, fiber_word_lock, fiber_word_unlock,
};
pub use fiber_objects::FIBER_OBJECT_SIZE;
pub use fiber_once::{FiberOnce, fiber_once};
pub use fiber_storage::{FIBER_KEYS_MAX, fiber_key_create, fiber_key_get, fiber_key_set};
pub use node::{
    CDP_NODE_DEFAULT, CDP_NODE_NO_SPIN, CDP_NODE_OPEN, CDP_NODE_PORTS_BY_CORES, CDP_NODE_SPIN,
    CDP_NODE_STRICT, CDP_SCHEME_COARSE, CDP_SCHEME_DEFAULT, CDP_SCHEME_EPOCH, CDP_SCHEME_FINE, CdpNodeConfig,
    cdp_init, cdp_node_address, cdp_node_close, cdp_node_mode, cdp_node_open, cdp_node_peer,
    cdp_node_resolve,
};
pub use options::{CDP_COALESCE_BUSY, CDP_COALESCE_OFF, CDP_CUBIC, CDP_FIXED, CDP_MODEL, OPTIONS, OptionRow};
pub use progress::{cdp_progress, cdp_progress_fd};
pub use socket::{
    CDP_DATAGRAM, CDP_STREAM, cdp_accept, cdp_bind, cdp_connect, cdp_getpeername, cdp_getsockname,
    cdp_getsockopt, cdp_listen, cdp_setsockopt, cdp_socket, cdp_socket_on,
};
pub use stats::{CdpNodeStats, CdpStats, cdp_node_stats, cdp_stats};
pub use words::{cdp_error, cdp_reason_name, cdp_strerror, cdp_version};
