//! Type-length-value options of control packets (section 3), as a plain value.

pub(crate) mod emit;
pub(crate) mod parse;
pub mod registry;
#[cfg(test)]
mod tests;

use std::time::Duration;

use arrayvec::ArrayVec;
use weft_base::limits::{MESSAGE_BYTES_MAX, MSS_MAX};
use weft_base::{NodeId, Service};

pub use self::parse::{Overrun, RawTlv, RawTlvs};
use crate::{FarSack, Reason, Sack};

/// Bytes of the longest COOKIE.
pub const COOKIE_LEN_MAX: usize = 48;
/// Versions in the longest VERSIONS.
pub const VERSIONS_MAX: usize = 16;
/// Nodes in the longest IOSET.
pub const IOSET_MAX: usize = 16;
/// Greatest shift for windows (CDP-SYN-8).
pub const WSCALE_MAX: u8 = 14;

/// Server's state that a client returns.
pub type Cookie = ArrayVec<u8, COOKIE_LEN_MAX>;

/// The TLVs of one packet; `None` and `false` mean absent.
///
/// CRC and PAD do not appear: the parser checks them and the emitter makes them. [CDP-TLV-10] Nothing here depends
/// on the order in which the TLVs came.
///
/// ```
/// use weft_wire::Tlvs;
///
/// let offer = Tlvs { mss: Some(1444), sack_ok: true, ..Tlvs::default() };
/// assert_eq!(offer.mss_or_default(), 1444);
/// assert_eq!(Tlvs::default().mss_or_default(), 512);
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tlvs {
    /// VERSIONS: what the sender supports; absent: 1.
    pub versions: Option<ArrayVec<u8, VERSIONS_MAX>>,
    /// MSS: largest data segment its sender accepts, in bytes; absent: 512. Above 65507 it is read as 65507.
    pub mss: Option<u16>,
    /// SERVICE, as it is on the wire; see [`Tlvs::service`].
    pub service_code: Option<u8>,
    /// INTEGRITY: whether its sender asks for the seal; absent: yes.
    pub integrity: Option<bool>,
    /// COOKIE.
    pub cookie: Option<Cookie>,
    /// WSCALE: shift for the windows its sender sends. [CDP-SYN-8] Above 14 it is read as 14.
    pub wscale: Option<u8>,
    /// SACKOK: its sender understands SACK.
    pub sack_ok: bool,
    /// COALESCE.
    pub coalesce: bool,
    /// MESSAGE: largest message its sender accepts, in bytes. Above 2^31 − 1 it is read as that.
    pub message: Option<u32>,
    /// KEEPALIVE. [CDP-SYN-12] One whose expiry is shorter than twice its interval is read as absent.
    pub keepalive: Option<KeepAlive>,
    /// CONFIRM: confirmed close.
    pub confirm: bool,
    /// IOSET: I/O nodes that reach its sender. Numbers that no node may have are left out.
    pub ioset: Option<ArrayVec<NodeId, IOSET_MAX>>,
    /// SACK.
    pub sack: Option<Sack>,
    /// FARSACK.
    pub far_sack: Option<FarSack>,
    /// TIME.
    pub time: Option<Time>,
    /// CECOUNT: DAT packets received with CE=1 since the open, modulo 2^32.
    pub ce_count: Option<u32>,
    /// REASON and its detail.
    pub reason: Option<(Reason, Option<u16>)>,
    /// DISCARDED: packets acknowledged but never delivered, so far.
    pub discarded: Option<u32>,
    /// The least unknown critical type. [CDP-TLV-6] Outside SYN and SYN|ACK the packet is to be dropped for it,
    /// after the seal has been verified. Not emitted.
    pub unknown_critical: Option<u8>,
    /// Why a SYN or SYN|ACK must be refused (CDP-TLV-5, CDP-SYN-5): the code and the detail. Not emitted.
    pub refusal: Option<(Reason, u16)>,
}

/// KEEPALIVE.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeepAlive {
    /// Seconds without sending after which a client sends a PIN.
    pub interval_s: u16,
    /// Seconds without hearing from the peer after which the connection is dropped.
    pub expiry_s: u16,
}

impl KeepAlive {
    /// How long a client sends nothing before it sends a PIN.
    #[must_use]
    pub const fn interval(self) -> Duration {
        Duration::from_secs(self.interval_s as u64)
    }

    /// How long an end hears nothing before it drops the connection.
    #[must_use]
    pub const fn expiry(self) -> Duration {
        Duration::from_secs(self.expiry_s as u64)
    }
}

impl Default for KeepAlive {
    /// 60 and 300 seconds, which an absent KEEPALIVE stands for.
    fn default() -> Self {
        Self { interval_s: 60, expiry_s: 300 }
    }
}

impl KeepAlive {
    /// [CDP-SYN-12] Whether there is an interval, and the expiry is at least twice as long.
    #[must_use]
    pub const fn is_sound(self) -> bool {
        self.interval_s > 0 && self.expiry_s as u32 >= 2 * self.interval_s as u32
    }
}

/// TIME: tokens for round-trip times and probes; 0 means none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Time {
    /// A token of the sender, to be returned.
    pub own: u32,
    /// The token that the sender returns.
    pub echoed: u32,
}

impl Tlvs {
    /// What SERVICE says: datagram if absent, `None` for a code that stands for no service.
    #[must_use]
    pub const fn service(&self) -> Option<Service> {
        match self.service_code {
            None | Some(registry::DATAGRAM) => Some(Service::Datagram),
            Some(registry::STREAM) => Some(Service::Stream),
            Some(_) => None,
        }
    }

    /// Announces `service`.
    pub const fn set_service(&mut self, service: Service) {
        self.service_code = Some(match service {
            Service::Datagram => registry::DATAGRAM,
            Service::Stream => registry::STREAM,
        });
    }

    /// MSS, or 512 bytes if absent.
    #[must_use]
    pub fn mss_or_default(&self) -> u16 {
        self.mss.unwrap_or(weft_base::limits::MSS_MIN)
    }

    /// INTEGRITY, or sealed if absent.
    #[must_use]
    pub fn integrity_or_default(&self) -> bool {
        self.integrity.unwrap_or(true)
    }

    /// Whether nothing came, as in most ACKs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

const fn clamp_mss(value: u16) -> u16 {
    if value > MSS_MAX { MSS_MAX } else { value }
}

const fn clamp_message(value: u32) -> u32 {
    if value > MESSAGE_BYTES_MAX { MESSAGE_BYTES_MAX } else { value }
}
