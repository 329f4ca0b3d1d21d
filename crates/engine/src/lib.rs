//! Ports, turns, socket table, timer wheel: drives the protocol machine over links.
//!
//! The one room with a clock, threads and locks on the packet path. Any thread may make progress: whoever holds a port's
//! turn takes packets from its link, hands them to the connections they belong to, sends what those want sent, and wakes
//! who waits. That is a thread that would block otherwise, a service thread, or a dedicated worker.
//!
//! This room must not know what a packet's bytes mean beyond its flow, nor what a socket looks like to its user. It makes
//! no system call of its own but for its statistics socket: waiting and packets are the link's.
//!
//! | file | holds |
//! |---|---|
//! | `engine` | what users call |
//! | `turn`, `lanes`, `pump`, `outbox` | packets in, packets out |
//! | `reset`, `listening` | packets without a connection |
//! | `slot`, `waiters`, `messages` | a connection's entry; who waits there; what its long messages take |
//! | `port`, `progress`, `service`, `deference`, `attendance`, `gather` | who makes progress, and when |
//! | `table`, `wheel` | look-up, timers |
//! | `directory`, `budget`, `quiet`, `counters`, `stats`, `control` | names, limits, counters |
//!
//! ```
//! use weft_base::Service;
//! use weft_engine::{Config, Engine, Gather, Settings};
//!
//! let engine = Engine::open(Settings { bind: "127.0.0.1:0".parse().unwrap(), ..Settings::default() })?;
//! let listening = engine.listen(None, Config::new(Service::Datagram, engine.mss()), Gather::WhenBusy).unwrap();
//! assert!(engine.accept(&listening).is_none());
//! assert_eq!(engine.stats().listeners.len(), 1);
//! # Ok::<(), std::io::Error>(())
//! ```

mod answer;
mod arrival;
mod attendance;
mod binding;
mod budget;
mod claim;
mod clock;
pub mod control;
#[cfg(test)]
#[cfg(not(loom))]
mod conversation;
mod core;
mod counters;
mod deference;
mod directory;
mod engine;
mod fiber;
mod gather;
mod inflow;
mod lanes;
mod listening;
mod messages;
mod near;
mod offer;
mod outbox;
mod outflow;
mod port;
mod progress;
mod pump;
mod quiet;
mod random;
mod reset;
mod runner;
mod service;
mod settings;
mod settle;
mod side;
mod sleep;
mod slot;
mod stats;
pub mod table;
mod turn;
mod waiters;
pub mod wheel;
mod window;

pub use engine::{ConnectError, Engine, ListenError, Ready, Target};
pub use gather::Gather;
pub use listening::Listening;
pub use settings::{Describe, Settings, Workers};
pub use slot::Slot;
pub use stats::{Contact, EngineStats, IoNodeStats, ListeningStats, PortStats, SideStats, SlotStats};
pub use table::Scheme;
pub use waiters::Interest;

pub use weft_link as link;
pub use weft_proto::{
    CloseResult, Config, Error, KeepAlive, LimitedBy, Message, PathStats, Received, RecvError, SendError,
    State, Stats, Waited, congestion,
};
pub use weft_route as route;
pub use weft_wire::Reason;
