//! Batches of packets over devices: UDP with segmentation offload, Ethernet, a loopback hub, and wrappers that disturb or record.
//!
//! The one room with system calls for packets. It must not know what the bytes mean: no connection, no retransmission; a lost
//! packet is lost. Of the header it knows the length, and where a number lies that counts up (decision 0056).
//!
//! ```
//! use weft_link::{Link, RecvBatch, SendBatch, Udp, wait};
//!
//! let (here, there) = (Udp::bind("127.0.0.1:0".parse().unwrap())?, Udp::bind("127.0.0.1:0".parse().unwrap())?);
//! let mut out = SendBatch::new();
//! for number in 0..3u8 {
//!     out.push_slice(there.info().local, &[number; 100]);
//! }
//! here.send(&mut out)?; // one system call
//!
//! let (mut packets, mut seen) = (RecvBatch::new(), 0);
//! while seen < 3 {
//!     wait(&there.poll_fds(), None)?;
//!     there.recv(&mut packets)?;
//!     seen += packets.drain().map(|packet| assert_eq!(packet.bytes.len(), 100)).count();
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

mod alarm;
mod any_readable;
mod arena;
mod clock;
mod counters;
pub mod fault;
mod interface;
mod link;
pub mod loopback;
pub mod packet;
pub mod pcap;
mod preemption;
pub mod probe;
mod recv_batch;
mod routes;
mod send_batch;
mod sockopt;
mod steer;
mod sys;
mod trace;
pub mod udp;
mod wait;
mod waker;

pub use alarm::Alarm;
pub use any_readable::AnyReadable;
pub use clock::monotonic_nanos;
pub use fault::{Burst, Fault, FaultCounts, Faults, ParseFaultsError};
pub use interface::{Interface, interfaces};
pub use link::{Encapsulation, LONE_BYTES, Link, LinkInfo, LinkStats, POLL_FDS, PeerMss, PollFds, Shown};
pub use loopback::{Endpoint, Hub};
pub use packet::{Ethernet, EthernetOptions, Mac, ParseMacError, UnderlayText};
pub use pcap::Pcap;
pub use preemption::Preemption;
pub use recv_batch::{BUDGET_PACKETS, COPYBREAK_BYTES, Placed, REGION_BYTES, Received, RecvBatch, Refusal};
pub use send_batch::{Frame, GROUP_BYTES_MAX, INLINE_BYTES, SendBatch};
pub use trace::Trace;
pub use udp::{Udp, UdpOptions};
pub use wait::{Interest, doze, wait, wait_for, with_slack};
pub use waker::Waker;
