//! Limits and defaults that more than one room must agree on (`docs/spec/cdp.md`, sections 12 and 13).

use std::time::Duration;

/// The service of a socket, fixed when it is created (CDP-SVC-1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Service {
    /// Messages with boundaries (section 7, "Datagram service").
    #[default]
    Datagram,
    /// A stream of bytes (section 7, "Stream service").
    Stream,
}

/// Embryos a listener keeps before it answers with cookies (CDP-LIM-1).
pub const EMBRYOS_MAX: usize = 256;
/// Shortest time between two challenges of one connection (CDP-LIM-2).
pub const CHALLENGE_INTERVAL: Duration = Duration::from_millis(10);
/// Echo-form RSTs a process sends in a second (CDP-LIM-3).
pub const ECHO_RST_PER_SECOND: u32 = 1_000;
/// Echo-form RSTs a process sends to one source node in a second (CDP-LIM-3).
pub const ECHO_RST_PER_NODE_PER_SECOND: u32 = 100;
/// Greatest `accept_limit` (CDP-LIM-4).
pub const ACCEPT_LIMIT_MAX: usize = 4_096;
/// Default receive slots of a connection (CDP-LIM-5).
pub const RECEIVE_SLOTS: u32 = 1_024;
/// Receive slots that a connection gets when memory is short, unless it wants fewer; where there is less, it is refused
/// (CDP-LIM-13).
pub const RECEIVE_SLOTS_MIN: u32 = 16;
/// Greatest number of receive slots of a connection (CDP-LIM-5).
pub const RECEIVE_SLOTS_MAX: u32 = 65_535 << 14;
/// Numbers one SACK bitmap can tell of (CDP-LIM-7).
pub const SACK_BITS: u32 = 512;
/// Numbers one FARSACK can tell of (CDP-LIM-16).
pub const FAR_SACK_BITS: u32 = 1_984;
/// Bytes a send queue holds (CDP-LIM-8).
pub const SEND_QUEUE_BYTES: usize = 4 << 20;
/// Packets a send queue holds (CDP-LIM-8).
pub const SEND_QUEUE_PACKETS: usize = 1_024;
/// Default greatest message of the datagram service, in bytes (CDP-LIM-9).
pub const MESSAGE_BYTES: u32 = 16 << 20;
/// Greatest message that can be offered at all, in bytes (CDP-LIM-9).
pub const MESSAGE_BYTES_MAX: u32 = (1 << 31) - 1;
/// TLVs in one packet (CDP-LIM-10).
pub const TLVS_MAX: usize = 32;
/// Bytes of the longest packet (CDP-LIM-11).
pub const PACKET_BYTES_MAX: usize = 65_535;
/// QUIET connections of a process (CDP-LIM-12).
pub const QUIET_MAX: usize = 65_536;
/// Packets that wait at a port of a forwarder (CDP-LIM-14).
pub const FORWARD_QUEUE_PACKETS: usize = 1_024;
/// Answered PINs of a connection in a second (CDP-LIM-15).
pub const PIN_ANSWERS_PER_SECOND: u32 = 100;
/// Numbers in flight stay below this (CDP-ACK-6).
pub const IN_FLIGHT_MAX: u64 = 1 << 30;
/// Smallest MSS a peer may announce (CDP-SYN-5).
pub const MSS_MIN: u16 = 512;
/// Largest MSS (section 3.1).
pub const MSS_MAX: u16 = 65_507;
/// Shortest legal SYN, in bytes (CDP-SYN-3).
pub const SYN_BYTES_MIN: usize = 128;
/// Default UDP port (CDP-ENC-6).
pub const UDP_PORT: u16 = 64_064;
