//! CDP over UDP: many packets per system call, no copies of large packets; one socket, and at need a second one for the peer with whom
//! packets go to and fro (`direct`), or several for one that floods it (`basins`).
//!
//! Sending, a run of packets of one size to one peer is one `sendmsg` whose iovec list names heads and bodies where
//! they lie; the kernel, or the network card, cuts it into datagrams ([CDP-ENC-5] each holds one packet). Receiving,
//! the kernel joins datagrams of one size, and the buffer is cut by slicing. Figures: `docs/adr/0003-udp-link.md`.

mod address;
mod basins;
mod contest;
mod control;
mod course;
mod direct;
mod group;
mod in_place;
mod no_way;
mod options;
mod origin;
mod recv;
mod refusals;
mod reports;
mod rhythm;
mod scatter;
mod send;
mod splice;
mod wide;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use socket2::Socket;

use crate::counters::Counters;
use crate::interface::{self, Interface, OwnHost};
use crate::link::HEADER_BYTES;
use crate::routes::Routes;
use crate::{Encapsulation, Link, LinkInfo, LinkStats, PeerMss, PollFds, RecvBatch, SendBatch, sockopt};
use basins::Basins;
pub(crate) use basins::Stripe;
pub(crate) use course::Course;
use direct::Direct;
use group::Group;
use in_place::InPlace;
use no_way::NoWay;
use options::Beside;
pub(crate) use origin::Origin;
use reports::Reports;
pub(crate) use rhythm::Rhythm;
use wide::Wide;

/// Bytes of the largest UDP datagram's data over IPv4.
const DATAGRAM_BYTES_MAX: u32 = 65_507;
/// The largest MTU that matters: the length fields of IP have 16 bits.
const MTU_MAX: u32 = 65_535;
/// The MTU that is assumed where no interface tells.
const MTU_UNKNOWN: u32 = 1_500;
/// Packets that leave as one where frames are not joined.
const UNJOINED_MAX: usize = 32;
/// A socket that holds less than this, as the kernel counts, has others beside it for floods.
const ROOM_BYTES: usize = 3 << 19;
/// Floods at a time for which a group has such sockets.
const FLOODS_MAX: usize = 4;

/// What may be chosen when a UDP link is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UdpOptions {
    /// Whether to let the kernel cut runs of packets (`UDP_SEGMENT`), if it can.
    pub gso: bool,
    /// Whether to let the kernel join packets that arrive (`UDP_GRO`), if it can; by all sockets of the link.
    pub gro: bool,
    /// Whether a peer with whom single messages go to and fro, or whose packets come in runs that the kernel does not join,
    /// gets a connected socket beside the shared one.
    pub direct: bool,
    /// Whether the packets of a peer that floods the link may be striped over four more sockets, where the kernel gives less than 1.5 MiB for what
    /// comes and who receives tells that this is too little ([`RecvBatch::note_room`]).
    pub striping: bool,
    /// Bytes wanted for the kernel's send buffer and for its receive buffer; the kernel may give less.
    pub buffer_bytes: usize,
    /// The MTU to count on, in bytes, instead of what the interfaces tell.
    pub mtu: Option<u32>,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self { gso: true, gro: true, direct: true, striping: true, buffer_bytes: 8 << 20, mtu: None }
    }
}

/// A UDP socket as a [`Link`].
///
/// ```
/// use weft_link::{Link, RecvBatch, SendBatch, Udp, wait};
///
/// let (a, b) = (Udp::bind("127.0.0.1:0".parse().unwrap())?, Udp::bind("127.0.0.1:0".parse().unwrap())?);
/// let mut out = SendBatch::new();
/// out.push_slice(b.info().local, b"a packet");
/// a.send(&mut out)?;
///
/// wait(&b.poll_fds(), None)?;
/// let mut packets = RecvBatch::new();
/// assert_eq!(b.recv(&mut packets)?, 1);
/// assert_eq!(&packets.drain().next().unwrap().bytes[..], b"a packet");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Udp {
    socket: Socket,
    local: SocketAddr,
    mtu: u32,
    /// Peers on this host take larger packets than others, unless an MTU was asked for.
    own_host: Option<OwnHost>,
    /// And so do those that an interface leads to which carries more than others.
    routes: Option<Routes>,
    /// How many packets leave as one, for the kernel to cut: 1 for good when it refuses to.
    group_max: AtomicUsize,
    gro: bool,
    /// The links that share its address.
    group: Option<Arc<Group>>,
    /// Of the first of them.
    reports: Option<Reports>,
    /// Whether its socket holds little of what comes.
    is_narrow: bool,
    /// The sockets that what floods it goes round.
    wide: Mutex<Option<Wide>>,
    direct: Direct,
    in_place: InPlace,
    buffer_bytes: usize,
    /// A call of a sender failed: the kernel may have kept messages about packets sent earlier.
    has_reports: AtomicBool,
    /// Held while the socket allows fragmentation for one packet.
    fragmenting: Mutex<()>,
    no_way: NoWay,
    counters: Counters,
}

impl Udp {
    /// Opens a link at `local` with the default options; port 0 takes any free port.
    ///
    /// # Errors
    /// What the kernel says of the address: in use, not of this machine, not permitted.
    pub fn bind(local: SocketAddr) -> io::Result<Self> {
        Self::bind_with(local, &UdpOptions::default())
    }

    /// Opens a link at `local`.
    ///
    /// # Errors
    /// What the kernel says of the address. Offloads and buffer sizes that it does not give are no errors; ask
    /// [`Link::info`].
    pub fn bind_with(local: SocketAddr, wanted: &UdpOptions) -> io::Result<Self> {
        Self::over(options::open(local, Beside::Nothing)?, wanted)
    }

    /// Opens `count` links at one address, which share what arrives: one is picked for each remote address and port, and all
    /// that comes from there goes to it. Each sends as any link at `local` does.
    ///
    /// Other processes of the same user may join them, and get nothing; one that opens a link or links of its own is refused.
    ///
    /// They are to be dropped together: what is for one that is gone before the others, and what goes on to its place, is lost.
    ///
    /// # Errors
    /// As [`Udp::bind_with`]; and where the system cannot share an address (`SO_REUSEPORT`).
    pub fn bind_group(local: SocketAddr, count: usize, wanted: &UdpOptions) -> io::Result<Vec<Self>> {
        // The first takes the address for itself, so that one in use is noticed.
        let first = Self::bind_with(local, wanted)?;
        let local = first.local;
        if count > 1 {
            first.socket.set_reuse_port(true)?;
        }
        let mut group = vec![first];
        for _ in 1..count {
            group.push(Self::over(options::open(local, Beside::Group)?, wanted)?);
        }
        if count > 1 {
            let floods = if group[0].is_narrow { count.min(FLOODS_MAX) } else { 0 };
            // Where the system has no room for them a flood comes by one socket as else.
            let basins =
                Basins::open_all(local, wanted.buffer_bytes, group[0].gro, count, floods).unwrap_or_default();
            match Group::share(&group[0].socket, count, basins).map(Arc::new) {
                Ok(all) => {
                    group[0].reports = Reports::of(all.basins());
                    group.iter_mut().for_each(|link| link.group = Some(all.clone()));
                }
                // What joins later would get what is others'.
                Err(_) => group.iter_mut().for_each(|link| {
                    (link.direct, link.is_narrow) = (Direct::new(false), false);
                }),
            }
        }
        Ok(group)
    }

    /// A link over a bound socket.
    fn over(socket: Socket, wanted: &UdpOptions) -> io::Result<Self> {
        let local = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::Unsupported)?;
        options::forbid_fragments(&socket, local.is_ipv6())?;
        options::enlarge_buffers(&socket, wanted.buffer_bytes);
        options::ask_for_reports(&socket, local.is_ipv6())?;
        let is_narrow = wanted.striping && socket.recv_buffer_size()? < ROOM_BYTES;
        let gso = wanted.gso && options::has_gso(&socket);
        let gro = wanted.gro && options::enable_gro(&socket);
        let interfaces = interface::used_by(local.ip());
        let least_mtu = interfaces.iter().map(|interface| interface.mtu).min();
        let mtu = wanted.mtu.or(least_mtu).unwrap_or(MTU_UNKNOWN).min(MTU_MAX);
        Ok(Self {
            socket,
            local,
            mtu,
            own_host: if wanted.mtu.is_none() { OwnHost::look() } else { None },
            routes: if wanted.mtu.is_none() { Routes::look(&interfaces) } else { None },
            group_max: AtomicUsize::new(if gso { group_max(&interfaces) } else { 1 }),
            gro,
            group: None,
            reports: None,
            is_narrow,
            wide: Mutex::default(),
            direct: Direct::new(wanted.direct),
            in_place: InPlace::default(),
            buffer_bytes: wanted.buffer_bytes,
            has_reports: AtomicBool::new(false),
            fragmenting: Mutex::new(()),
            no_way: NoWay::default(),
            counters: Counters::default(),
        })
    }

    /// The largest data segment of one packet: what the underlay's headers and ours leave of `mtu`.
    fn mss(&self, mtu: u32) -> u16 {
        let underlay = if self.local.is_ipv6() { 40 + 8 } else { 20 + 8 };
        let datagram = mtu.saturating_sub(underlay).min(DATAGRAM_BYTES_MAX);
        u16::try_from(datagram.saturating_sub(HEADER_BYTES)).unwrap_or(u16::MAX)
    }

    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// How many packets may leave as one by these interfaces.
///
/// Where frames are not joined the kernel cuts a group for each of them to go its own way to the other end, over a veth pair into
/// the memory of another core, and takes the memory of their heads from what came back from there: some [`UNJOINED_MAX`] lie
/// ready, and those beyond cost the sender more. Other groups are the better the larger they are. Figures: `docs/performance.md`.
fn group_max(interfaces: &[Interface]) -> usize {
    if interface::join_nothing(interfaces) { UNJOINED_MAX } else { scatter::SEGMENTS_MAX }
}

impl Link for Udp {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        self.recv_batch(batch, &mut [])
    }

    fn recv_to(&self, batch: &mut RecvBatch, place: &mut [u8]) -> io::Result<usize> {
        self.recv_batch(batch, place)
    }

    fn send(&self, batch: &mut SendBatch) -> io::Result<usize> {
        self.send_batch(batch)
    }

    fn send_lone(&self, to: SocketAddr, head: &[u8], body: &[u8]) -> bool {
        self.send_at_once(to, head, body)
    }

    fn prefers_whole_pages(&self) -> bool {
        self.in_place.takes_groups()
    }

    fn info(&self) -> LinkInfo {
        LinkInfo {
            name: "udp".to_owned(),
            mss: self.mss(self.mtu),
            mtu: self.mtu,
            local: self.local,
            encapsulation: Encapsulation::Udp,
            gso: self.group_max.load(Ordering::Relaxed) > 1,
            gro: self.gro,
            send_buffer_bytes: self.socket.send_buffer_size().unwrap_or(0),
            receive_buffer_bytes: self.socket.recv_buffer_size().unwrap_or(0),
        }
    }

    fn mss_to(&self, peer: SocketAddr) -> Option<PeerMss> {
        let of = |mtu: u32, is_one_link| PeerMss { bytes: self.mss(mtu.min(MTU_MAX)), is_one_link };
        if let Some(host) = &self.own_host
            && host.has(peer.ip())
        {
            return (host.mtu.min(MTU_MAX) >= self.mtu).then(|| of(host.mtu, true));
        }
        let mtu = self.routes.as_ref()?.mtu_to(peer.ip())?;
        (mtu > self.mtu).then(|| of(mtu, false))
    }

    fn no_ways(&self) -> u64 {
        self.no_way.count()
    }

    fn no_way_since(&self, before: u64, to: SocketAddr) -> Option<io::Error> {
        self.no_way.since(before, to)
    }

    fn note_peer(&self, from: SocketAddr) {
        if let Some(group) = &self.group {
            group.note_peer(&self.socket, from);
        }
    }

    fn forget_peer(&self, from: SocketAddr) {
        if let Some(group) = &self.group {
            group.forget_peer(from);
        }
    }

    fn poll_fds(&self) -> PollFds {
        let of_flood = self.wide().and_then(|wide| wide.fds());
        let own = [self.fd()].into_iter().chain(self.direct.fd());
        own.chain(self.reports.as_ref().map(Reports::fd)).chain(of_flood.into_iter().flatten()).collect()
    }

    fn room_bytes(&self) -> Option<usize> {
        self.wide()?.room_bytes()
    }

    fn stats(&self) -> LinkStats {
        let fds = [Some(self.fd()), self.direct.fd()];
        let of_sockets: u64 = fds.into_iter().flatten().map(sockopt::overflows).sum();
        let of_flood = self.wide().map_or(0, |wide| wide.overflows());
        let counted = self.counters.read();
        LinkStats { receive_overflows: counted.receive_overflows + of_sockets + of_flood, ..counted }
    }
}

impl AsFd for Udp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
