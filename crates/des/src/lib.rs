//! Discrete-event kernel: a virtual clock, an event queue, seeded randomness, a trace hash.
//!
//! Whoever simulates (`testnet`) builds on these four and nothing else, so that a run is a function of its seed: the same seed
//! gives the same events in the same order and therefore the same [`TraceHash`]. This room must not know what its events mean,
//! nor a real clock, thread, file or socket.
//!
//! ```
//! use std::time::Duration;
//! use weft_base::Instant;
//! use weft_des::{Queue, Random, TraceHash};
//!
//! let mut random = Random::from_seed(1234);
//! let mut queue = Queue::new();
//! queue.schedule(Instant::ZERO + Duration::from_millis(2), "second");
//! queue.schedule(Instant::ZERO + Duration::from_millis(1), "first");
//! queue.schedule(Instant::ZERO + Duration::from_millis(2), "third, as it was scheduled later");
//!
//! let mut hash = TraceHash::new();
//! let mut order = Vec::new();
//! while let Some(event) = queue.pop() {
//!     hash.add(queue.now().as_nanos());
//!     hash.add(random.next_u64());
//!     order.push(event);
//! }
//! assert_eq!(order, ["first", "second", "third, as it was scheduled later"]);
//! assert_eq!(queue.now(), Instant::from_nanos(2_000_000));
//! ```

mod queue;
mod random;
mod trace;

pub use queue::Queue;
pub use random::Random;
pub use trace::TraceHash;
