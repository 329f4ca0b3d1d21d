//! The trait every device implements, and what a device says of itself.

use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::{RecvBatch, SendBatch};

/// Bytes of a CDP header, which every data segment is sent behind (specification, section 2).
pub(crate) const HEADER_BYTES: u32 = 28;
/// Where a packet has a word that counts up from packet to packet of a flow (the lower half of SEQUENCE NUMBER, section 2).
pub(crate) const NUMBER_AT: usize = 20;

/// Most bytes of a packet that a device sends by itself ([`Link::send_lone`]): one piece of memory costs the kernel less than several, as long as it is small.
pub const LONE_BYTES: usize = 256;

/// Descriptors of a link ([`Link::poll_fds`]), in memory from the heap only where they are more than any link of this crate has.
pub type PollFds = SmallVec<[RawFd; POLL_FDS]>;

/// How many of them there are at most in this crate's own links: those of a UDP link whose flood goes round several sockets, and an alarm.
pub const POLL_FDS: usize = 9;

/// A device that carries CDP packets: three methods and a description.
///
/// Every method takes `&self` and may be called from any thread; memory that a call needs is in the batch, so a
/// link has no lock on the path of a packet, but for the one that a turn of a striped flood takes.
pub trait Link: Send + Sync {
    /// Appends the packets that lie ready to `batch` and returns how many; 0 means that nothing was there.
    ///
    /// Never blocks. Takes no more than the batch's budget, save that a buffer which the kernel joined from
    /// several packets is taken whole.
    ///
    /// # Errors
    /// Only what makes the device useless; errors that concern one packet or one peer are counted in
    /// [`Link::stats`].
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize>;

    /// As [`Link::recv`]. A link that can do so has the kernel copy the data of large packets to the beginning of `place`, one behind the
    /// other as long as whole ones fit, where it expects them to be of the stream that goes there: [`RecvBatch::settle_placed`]. Anything else
    /// may have been written there, too.
    ///
    /// # Errors
    /// As [`Link::recv`].
    fn recv_to(&self, batch: &mut RecvBatch, _place: &mut [u8]) -> io::Result<usize> {
        self.recv(batch)
    }

    /// Where a device can look at what has come and leave it there: looks up to so many times whether something has, as
    /// [`RecvBatch::set_looks`] tells, and hands the first packet to `take`, which tells whether it took it. What it did not take is
    /// left for [`Link::recv`].
    fn recv_lone(&self, _looks: u32, _take: &mut dyn FnMut(SocketAddr, &[u8]) -> bool) -> Shown {
        Shown::Left
    }

    /// Sends every packet of `batch`, clears it, and returns how many packets were taken from it.
    ///
    /// A packet that the device or the network refuses is dropped and counted, as a network would lose it.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when the device takes no more now: the packets that are still to be sent stay in
    /// the batch. Any other error means that the device is useless; the unsent rest stays too.
    fn send(&self, batch: &mut SendBatch) -> io::Result<usize>;

    /// Sends one packet at once, `head` and then `body`, and tells whether the device took it: none needs to take one of more than
    /// [`LONE_BYTES`]. What it did not take is for [`Link::send`], which also tells why. Never blocks.
    fn send_lone(&self, _to: SocketAddr, _head: &[u8], _body: &[u8]) -> bool {
        false
    }

    /// Whether a batch had better end where the packets in it fill their [pages](weft_frame::Pages): the link then takes these from where they
    /// lie. Asked when they do.
    fn prefers_whole_pages(&self) -> bool {
        false
    }

    /// What the device is. May ask the kernel; not for the packet path.
    fn info(&self) -> LinkInfo;

    /// The largest data segment of a packet to `peer`, where that is known to be more than [`LinkInfo::mss`], or to arrive for certain.
    /// Asked for each packet that may open a connection.
    fn mss_to(&self, _peer: SocketAddr) -> Option<PeerMss> {
        None
    }

    /// A connection with the peer whose packets come from there has begun; when it is over, [`Link::forget_peer`] tells. Links that share an
    /// address see to it that few peers have one each (decision 0054). Not for the packet path.
    fn note_peer(&self, _from: SocketAddr) {}

    /// A connection that [`Link::note_peer`] told of is over.
    fn forget_peer(&self, _from: SocketAddr) {}

    /// For how many packets the system had no way, as far as it said so when they were sent.
    fn no_ways(&self) -> u64 {
        0
    }

    /// Why it had none for a packet to `to` since there were `before` of these ([`Link::no_ways`]), if that was the last. What has no
    /// way now may have one later, so a connection lives on, but nobody needs to wait for an answer to the packet that opens one
    /// (decision 0057).
    fn no_way_since(&self, _before: u64, _to: SocketAddr) -> Option<io::Error> {
        None
    }

    /// Descriptors of which one is readable when [`Link::recv`] would give something, for [`crate::wait`]; none where a link is only
    /// asked. They may become more or fewer while the link receives, which says so then ([`RecvBatch::note_new_fds`]); the first stays.
    fn poll_fds(&self) -> PollFds;

    /// Bytes that the kernel keeps now for packets that come, where that may be more than [`LinkInfo::receive_buffer_bytes`]: it
    /// changes with [`Link::poll_fds`].
    fn room_bytes(&self) -> Option<usize> {
        None
    }

    /// A descriptor that is writable when [`Link::send`] would take more.
    fn send_fd(&self) -> Option<RawFd> {
        self.poll_fds().first().copied()
    }

    /// How long until the link itself has something to do, counted from now: `None` for a plain device.
    ///
    /// A link that delays packets wants [`Link::recv`] called again after this time, although nothing new arrived.
    /// One of its [`Link::poll_fds`] becomes readable then as well.
    fn next_due(&self) -> Option<Duration> {
        None
    }

    /// What the device counted since it was made.
    fn stats(&self) -> LinkStats {
        LinkStats::default()
    }
}

/// What became of a packet that was looked at by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// Nothing had come.
    Nothing,
    /// It was taken.
    Taken,
    /// It is still there; or there may be one.
    Left,
}

/// How packets are laid into what the underlay carries (specification, section 14.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encapsulation {
    /// One packet is the data of one UDP datagram.
    Udp,
    /// A packet starts at byte 14 of an Ethernet frame.
    Ethernet,
    /// One packet is one simulated frame.
    Simulated,
}

/// The largest data segment of a packet to one peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PeerMss {
    /// Its bytes, at least [`LinkInfo::mss`].
    pub bytes: u16,
    /// Whether nothing lies between that might carry less: such packets are known to arrive. Otherwise it is what the interface towards the
    /// peer carries.
    pub is_one_link: bool,
}

/// What a device is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkInfo {
    /// A word for people: `udp`, `loopback`, or `fault(udp)` for a wrapped one.
    pub name: String,
    /// The largest data segment that fits one packet to any peer, in bytes, for the MSS option.
    pub mss: u16,
    /// The largest packet of the underlay with the underlay's headers, in bytes.
    pub mtu: u32,
    /// The address that peers send to; a wildcard address if the device was bound to one.
    pub local: SocketAddr,
    /// How packets are laid into the underlay's.
    pub encapsulation: Encapsulation,
    /// Whether many packets of one size leave with one system call.
    pub gso: bool,
    /// Whether many packets of one size arrive with one system call.
    pub gro: bool,
    /// Bytes the kernel keeps for packets to be sent, 0 if it keeps none.
    pub send_buffer_bytes: usize,
    /// Bytes the kernel keeps for packets that arrived, 0 if it keeps none.
    pub receive_buffer_bytes: usize,
}

/// What a device counted since it was made. Counts wrap never: 64 bits last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkStats {
    /// Packets that arrived.
    pub received_packets: u64,
    /// Bytes of the packets that arrived, without the underlay's headers.
    pub received_bytes: u64,
    /// System calls, or looks at a ring, that brought at least one packet.
    pub receive_calls: u64,
    /// Packets whose data the kernel copied to where it was expected to be wanted ([`Link::recv_to`]).
    pub received_placed: u64,
    /// Packets that arrived cut off and were dropped.
    pub receive_truncated: u64,
    /// Packets that found the kernel's receive buffer, or the ring, full.
    pub receive_overflows: u64,
    /// Errors that the underlay reported while receiving, such as a peer's port being closed.
    pub receive_errors: u64,
    /// Packets handed to the underlay.
    pub sent_packets: u64,
    /// Bytes of the packets handed to the underlay, without its headers.
    pub sent_bytes: u64,
    /// System calls that took at least one packet.
    pub send_calls: u64,
    /// Calls of [`Link::send`] that ended with [`io::ErrorKind::WouldBlock`].
    pub send_would_block: u64,
    /// Packets dropped because the underlay has no room for their size (`EMSGSIZE`).
    pub dropped_oversize: u64,
    /// Packets dropped because the device's queue was full (`ENOBUFS`).
    pub dropped_no_buffers: u64,
    /// Packets dropped because there is no way to the target, or sending to it is forbidden.
    pub dropped_unreachable: u64,
    /// Errors of earlier packets that surfaced while sending (`ECONNREFUSED`); nothing is lost by them.
    pub send_refused: u64,
    /// Groups that the kernel refused to cut into packets and that were sent one by one instead.
    pub gso_refused: u64,
    /// Packets sent with fragmentation allowed.
    pub sent_fragmentable: u64,
    /// Packets that the kernel took from where they lay, without a copy.
    pub sent_in_place: u64,
}

/// For a link that is laid around another, `$inner` as seen from `$self`: the methods that it answers with the other's. Packets pass
/// by none of them. `all` has those too that a link with an alarm of its own answers itself.
macro_rules! pass_on {
    ($self:ident => $inner:expr) => {
        fn mss_to(&$self, peer: std::net::SocketAddr) -> Option<$crate::PeerMss> {
            $inner.mss_to(peer)
        }

        fn note_peer(&$self, from: std::net::SocketAddr) {
            $inner.note_peer(from);
        }

        fn forget_peer(&$self, from: std::net::SocketAddr) {
            $inner.forget_peer(from);
        }

        fn prefers_whole_pages(&$self) -> bool {
            $inner.prefers_whole_pages()
        }

        fn no_ways(&$self) -> u64 {
            $inner.no_ways()
        }

        fn no_way_since(&$self, before: u64, to: std::net::SocketAddr) -> Option<std::io::Error> {
            $inner.no_way_since(before, to)
        }

        fn room_bytes(&$self) -> Option<usize> {
            $inner.room_bytes()
        }

        fn send_fd(&$self) -> Option<std::os::fd::RawFd> {
            $inner.send_fd()
        }

        fn stats(&$self) -> $crate::LinkStats {
            $inner.stats()
        }
    };
    (all $self:ident => $inner:expr) => {
        $crate::link::pass_on!($self => $inner);

        fn poll_fds(&$self) -> $crate::PollFds {
            $inner.poll_fds()
        }

        fn next_due(&$self) -> Option<std::time::Duration> {
            $inner.next_due()
        }
    };
}

pub(crate) use pass_on;

impl<L: Link + ?Sized> Link for Arc<L> {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        (**self).recv(batch)
    }

    fn recv_to(&self, batch: &mut RecvBatch, place: &mut [u8]) -> io::Result<usize> {
        (**self).recv_to(batch, place)
    }

    fn send(&self, batch: &mut SendBatch) -> io::Result<usize> {
        (**self).send(batch)
    }

    fn recv_lone(&self, looks: u32, take: &mut dyn FnMut(SocketAddr, &[u8]) -> bool) -> Shown {
        (**self).recv_lone(looks, take)
    }

    fn send_lone(&self, to: SocketAddr, head: &[u8], body: &[u8]) -> bool {
        (**self).send_lone(to, head, body)
    }

    fn info(&self) -> LinkInfo {
        (**self).info()
    }

    pass_on!(all self => (**self));
}
