//! Packets that stay within this host: of no connection are more in flight than the caches hold on their way, nor of all of them more than
//! wait for their peers without loss (decisions 0036, 0101).

use std::time::Duration;

use super::Sender;
use crate::congestion::NEAR_PACKETS_MAX;

/// Packets from this size on only go about within a host, where the least round trip is not above [`RTT_MAX`] either.
const PACKET_BYTES: u16 = 32 << 10;
const RTT_MAX: Duration = Duration::from_micros(200);
/// What a connection may have in flight beside however many others: every second packet is acknowledged at once.
const PACKETS_MIN: u8 = 2;
/// Beside more connections than this each fills memory of the heap, which it uses again at once, and no pages: all that these would keep
/// is more than the caches hold.
const PAGED_MAX: u32 = 16;

impl Sender {
    /// Whether packets stay within this host, for all that their size and the time they take tell.
    #[inline]
    pub(crate) fn is_near(&self) -> bool {
        self.has_large_packets() && self.rtt.min_rtt().is_some_and(|least| least <= RTT_MAX)
    }

    /// Whether their size alone tells so.
    #[inline]
    pub(crate) fn has_large_packets(&self) -> bool {
        self.mtu.current() >= PACKET_BYTES
    }

    /// Whether packets are in flight that stay within this host, and would fill one.
    pub(crate) fn has_near_packet(&self) -> bool {
        self.is_near() && self.flight.bytes() >= self.mtu.current().into()
    }

    /// So many connections have packets in flight within this host, where there is room for `room` of them, and so many had some `lately`.
    pub(crate) fn share_near(&mut self, connections: u32, room: u32, lately: u32) {
        let each = if connections > 1 { room / connections } else { u32::MAX };
        self.congestion.near = u8::try_from(each).unwrap_or(u8::MAX).clamp(PACKETS_MIN, NEAR_PACKETS_MAX);
        if lately > PAGED_MAX {
            self.queue.put_off_pages();
        }
    }

    /// Whether as many are in flight as may be, and would fill so many: small ones are not held back.
    pub(super) fn has_near_share(&self) -> bool {
        self.flight.in_flight() >= self.congestion.near.into()
            && self.is_near()
            && self.flight.bytes() >= usize::from(self.congestion.near) * usize::from(self.mtu.current())
    }
}
