//! CDP packets: bytes to checked values and back (`docs/spec/cdp.md`, sections 2, 3, 5 to 8 and 16).
//!
//! This room must not know a connection, a clock or a link. It decides what bytes mean, and nothing about what to
//! do with them. On the way in [`Packet::new_checked`] makes every stateless check; on the way out [`emit`] writes
//! heads in place and leaves bodies where they lie. Neither allocates.
//!
//! ```
//! use bytes::Bytes;
//! use weft_base::{Address, FlowKey, NodeId, Port, Seq};
//! use weft_wire::{Encapsulation, Header, Kind, Packet, emit};
//!
//! let end = |node, port| Address { node: NodeId::new(node).unwrap(), port: Port::new(port).unwrap() };
//! let flow = FlowKey { local: end(0x010203, 49152), remote: end(0x00ABCD, 7) };
//! let header = Header { eom: true, seq: Seq::new(42), window: 1024, ..Header::new(Kind::Data, flow) };
//!
//! let mut bytes = Vec::new();
//! bytes.extend_from_slice(&emit::data_head(&header, b"hello", true));
//! bytes.extend_from_slice(b"hello");
//!
//! let packet = Packet::new_checked(Bytes::from(bytes), Encapsulation::Udp).unwrap();
//! assert_eq!(packet.flow(), flow.reversed());
//! assert_eq!(packet.payload(), "hello");
//! assert_eq!(packet.seq(true), Seq::new(42));
//! ```

pub mod ack;
pub mod emit;
mod far_sack;
mod header;
mod joined;
mod lone;
mod packet;
mod reason;
pub mod records;
mod sack;
mod seal;
pub mod tlv;
mod train;
mod transit;
mod words;

pub use emit::{Emit, Grease, Trigger};
pub use far_sack::FarSack;
pub use header::{Encapsulation, HEADER_LEN, Header, Kind, flow_hint};
pub use joined::JoinedParts;
pub use lone::Lone;
pub use packet::{DropReason, Packet, Refused};
pub use reason::Reason;
pub use sack::{Runs, Sack};
pub use seal::BodySum;
pub use tlv::{Cookie, KeepAlive, Time, Tlvs};
pub use train::{Segments, Train};
pub use transit::Transit;
