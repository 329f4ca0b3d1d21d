//! What a connection gets: how large its packets may be, and how many of them its window has.
//!
//! Peers on this host are reached by an interface that carries more than others (decision 0045), and for certain (decision 0068); peers on
//! one of several networks maybe too (decision 0097). Packets of that size are for connections that fill packets. Within the host their
//! windows take no more memory than over an Ethernet.

use std::net::SocketAddr;

use weft_base::limits::{MSS_MIN, RECEIVE_SLOTS_MIN};
use weft_base::{NodeId, Service};
use weft_link::PeerMss;
use weft_proto::{Config, PeerWindow};

use crate::core::Core;
use crate::directory::Way;

/// What an Ethernet with an MTU of 1,500 carries: windows within a host take as much memory as with packets of this size (decision 0093).
const USUAL_MSS: u16 = 1_444;

impl Core {
    /// The largest data segment that all links carry everywhere, in bytes.
    pub(crate) fn mss(&self) -> u16 {
        self.ports.iter().map(|port| port.info.mss).min().unwrap_or(MSS_MIN)
    }

    /// Where packets to a node go straight whose first one came from `from`; `None` if they go through I/O nodes.
    pub(crate) fn straight_to(&self, node: NodeId, from: SocketAddr) -> Option<SocketAddr> {
        match self.way_to(node) {
            Some(Way::Side(_)) => None,
            Some(Way::Direct(at)) => Some(at),
            None => Some(from),
        }
    }

    /// What a connection with these settings gets if its packets go straight to `to`; `None` if it gets what others get.
    pub(crate) fn peer_window(&self, to: SocketAddr, wanted: &Config) -> Option<PeerWindow> {
        let everywhere = self.mss();
        let PeerMss { bytes, is_one_link } = self.ports.iter().map(|port| port.link.mss_to(to)).min()??;
        let there = bytes.min(wanted.link_mss);
        let is_more = there > everywhere;
        if is_more
            && (!fills_packets(wanted)
                || is_message_between(wanted, everywhere, there)
                || !self.budget.has_share(there.into()))
        {
            return None;
        }
        let most = wanted.receive_slots.min(self.budget.slots_max(there.into()));
        let slots =
            if is_one_link && fills_packets(wanted) { slots_within_host(wanted, there) } else { most };
        Some(PeerWindow { link_mss: there, is_one_link, receive_slots: slots.min(most) })
    }
}

/// As many slots of `mss` bytes as take the memory that those of an Ethernet take.
fn slots_within_host(wanted: &Config, mss: u16) -> u32 {
    let slots = u64::from(wanted.receive_slots) * u64::from(USUAL_MSS) / u64::from(mss.max(USUAL_MSS));
    u32::try_from(slots).unwrap_or(u32::MAX).max(RECEIVE_SLOTS_MIN)
}

/// Where messages do not share packets a window is so many messages, whatever their size.
fn fills_packets(wanted: &Config) -> bool {
    wanted.service == Service::Stream || wanted.coalesce
}

/// Whether the largest message fits a large packet and not a small one. [CDP-DG-3] The peer is told of it only where it fits none.
fn is_message_between(wanted: &Config, small: u16, large: u16) -> bool {
    let message = wanted.message_bytes.filter(|_| wanted.service == Service::Datagram);
    message.is_some_and(|bytes| bytes > small.into() && bytes <= large.into())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Engine, Settings};

    /// Also where all links carry large packets, as that of a node which is bound to a loopback address does.
    #[test]
    fn a_window_within_a_host_takes_no_more_memory_than_one_over_an_ethernet() {
        for bind in ["127.0.0.1:0", "0.0.0.0:0"] {
            let engine =
                Engine::open(Settings { bind: bind.parse().unwrap(), ..Settings::default() }).unwrap();
            let wanted = |service| Config::new(service, u16::MAX);
            let near = |wanted: &Config| engine.core().peer_window("127.0.0.1:9".parse().unwrap(), wanted);
            let stream = near(&wanted(Service::Stream)).unwrap();
            assert!(stream.link_mss > 60_000, "{} bytes at {bind}", stream.link_mss);
            assert!((16..=22).contains(&stream.receive_slots), "{} packets at {bind}", stream.receive_slots);
            let few = near(&Config { receive_slots: 4, ..wanted(Service::Stream) }).unwrap();
            assert_eq!(few.receive_slots, 4, "no more than were wanted");
            let apart = near(&Config { coalesce: false, ..wanted(Service::Datagram) });
            let is_shared_by_none = apart.is_none_or(|apart| apart.receive_slots > 22);
            assert!(is_shared_by_none, "where a message has a packet to itself a window is so many messages");
        }
    }
}
