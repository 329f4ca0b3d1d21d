//! The CDP machine: lifecycle, sender, receiver, timers, congestion control and listener of the Cyclops Datagram
//! Protocol, as plain values (`docs/spec/cdp.md`).
//!
//! This room must not know a clock, a socket, a thread, a lock or a random source. It is told the time, handed
//! packets and asked for outputs, so the same machine runs in the product, in the seeded test network, in the
//! state search and under the fuzzer. [`Connection`] is one end of a connection, [`Listener`] the state LISTEN.
//!
//! ```
//! use weft_base::{Address, FlowKey, Instant, NodeId, Port, Seq, Service};
//! use weft_proto::{Config, Connection, Listener, Secret, Verdict};
//! use weft_wire::{Encapsulation, Packet};
//!
//! let end = |node, port| Address { node: NodeId::new(node).unwrap(), port: Port::new(port).unwrap() };
//! let flow = FlowKey { local: end(1, 50_000), remote: end(2, 7) };
//! let config = Config::new(Service::Datagram, 1444);
//! let now = Instant::ZERO;
//!
//! // carries every packet that is due from one end to the other
//! fn carry(now: Instant, from: &mut Connection, to: &mut Connection) {
//!     let mut head = Vec::new();
//!     while let Some(packet) = from.poll_transmit(now, &mut head) {
//!         let bytes = [&head[packet.head], &packet.body[..]].concat();
//!         to.handle_packet(now, Packet::new_checked(bytes.into(), Encapsulation::Udp).unwrap());
//!     }
//! }
//!
//! let mut client = Connection::connect(now, flow, &config, Secret { iss: Seq::new(7), entropy: 1 });
//! let mut listener = Listener::new(now, &config, [9; 32]);
//!
//! let mut head = Vec::new();
//! client.poll_transmit(now, &mut head).unwrap();
//! let syn = Packet::new_checked(head.into(), Encapsulation::Udp).unwrap();
//! let secret = Secret { iss: Seq::new(8), entropy: 2 };
//! let Verdict::Embryo(mut server) = listener.handle_packet(now, &syn, secret, &mut Vec::new()) else { panic!() };
//!
//! carry(now, &mut server, &mut client); // SYN|ACK
//! carry(now, &mut client, &mut server); // ACK
//! client.send(b"hello").unwrap();
//! carry(now, &mut client, &mut server);
//!
//! let mut buffer = [0; 16];
//! let received = server.recv(&mut buffer).unwrap();
//! assert_eq!(&buffer[..received.len], b"hello");
//! ```

mod close;
mod config;
mod connection;
mod error;
mod flight;
mod inbox;
mod jitter;
mod lifecycle;
mod listener;
mod message;
mod mtu;
mod numbers;
mod open;
mod paths;
mod queue;
mod receiver;
mod sender;
mod stats;
mod timers;

pub mod congestion;
pub mod cookie;
pub mod limiter;
pub mod pacer;
pub mod rate;
pub mod rtt;

pub use close::CloseResult;
pub use config::{Config, KeepAlive, PeerWindow, Secret};
pub use connection::{Connection, Event, INLINE_BYTES, PLACED_BYTES_MIN, Transmit};
pub use error::{Errno, Error, RecvError, SendError, Waited};
pub use inbox::Received;
pub use lifecycle::State;
pub use listener::{Listener, Verdict, refusal_of};
pub use message::Message;
pub use open::Agreed;
pub use paths::{ELSEWHERE, PATHS_MAX, PathReport, Paths};
pub use stats::{LimitedBy, PathStats, Stats};
