//! A seeded network of real CDP machines: faults on the way, users with scripts, and checkers outside the code.
//!
//! A seed means a [`plan::Plan`]: two to four nodes, paths with loss, bursts, copies, replays, reordering, damage,
//! narrow queues and small MTUs, black holes, delay spikes, crashes and suspensions, and connections of both services
//! with all their options, whose users write, read, pause, close and abort. [`world::run`] plays it in virtual time
//! with the shipped [`weft_proto::Connection`] and [`weft_proto::Listener`], and on every event the checkers of
//! [`watch`] hold the invariants I1 to I12 against what they see on the wire and in the users' hands. The same seed
//! gives the same trace, so a failure is repeated by its number. The module [`model`]
//! searches the states of open and close exhaustively instead of at random, and [`sides`] puts I/O nodes between the ends.
//!
//! This room must not know a clock, a thread, a socket or a file; only its program runs seeds on several threads.
//!
//! ```
//! let report = weft_testnet::world::run(3, false).expect("no invariant is violated");
//! assert!(report.numbers.0 > 0, "something was sent");
//! assert_eq!(report.hash, weft_testnet::world::run(3, false).unwrap().hash, "and it repeats");
//! ```

pub mod content;
pub mod damage;
pub mod end;
pub mod journal;
pub mod model;
pub mod node;
pub mod path;
pub mod plan;
pub mod report;
pub mod script;
pub mod seeds;
pub mod sides;
pub mod user;
pub mod violation;
pub mod watch;
pub mod world;
