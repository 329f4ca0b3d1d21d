//! CDP in Ethernet frames of its own type: a packet socket, a ring for what arrives, no IP and no UDP.
//!
//! A packet starts right behind the Ethernet head, so 28 bytes more fit one frame than over UDP. Whether something
//! has arrived is a look at memory. Needs `CAP_NET_RAW`, and both ends on one Ethernet. Figures: `docs/adr/0012-packet-link.md`.

mod address;
mod error;
mod ethernet;
mod fanout;
mod recv;
mod ring;
mod send;
mod socket;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, Mutex};

use smallvec::smallvec;

use crate::counters::Counters;
use crate::interface::Device;
use crate::link::HEADER_BYTES;
use crate::{
    Encapsulation, Link, LinkInfo, LinkStats, PollFds, RecvBatch, SendBatch, Shown, interface, sockopt,
};
pub use address::{Mac, ParseMacError, UnderlayText};
pub use error::OpenError;
pub(crate) use ethernet::emit as frame_head;
use ring::{Layout, Ring};
pub(crate) use socket::permission;

/// Bytes of the largest packet: its LENGTH has 16 bits.
const PACKET_BYTES_MAX: u32 = 65_535;

/// What may be chosen when a packet link is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EthernetOptions {
    /// Bytes of the ring for frames that arrive.
    pub ring_bytes: usize,
    /// Bytes wanted for the kernel's send buffer; the kernel may give less.
    pub send_buffer_bytes: usize,
    /// Whether to send past the queueing discipline of the interface.
    pub bypass_queue: bool,
}

impl Default for EthernetOptions {
    fn default() -> Self {
        Self { ring_bytes: 4 << 20, send_buffer_bytes: 4 << 20, bypass_queue: true }
    }
}

/// An Ethernet interface as a [`Link`], by a packet socket.
///
/// Peers are named by their Ethernet address, see [`Mac::underlay`].
///
/// ```no_run
/// use weft_link::{Ethernet, Link, Mac, SendBatch};
///
/// let link = Ethernet::open("eth0")?;
/// let peer: Mac = "52:54:00:12:34:56".parse()?;
/// let mut out = SendBatch::new();
/// out.push_slice(peer.underlay(), &[0; 100]);
/// link.send(&mut out)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Ethernet {
    socket: OwnedFd,
    receiver: Mutex<Receiver>,
    own: Mac,
    mtu: u32,
    counters: Counters,
    receive_buffer_bytes: usize,
    /// Keeps other nodes off the interface; shared by the links of a group.
    _claim: Arc<UnixDatagram>,
}

/// What the one thread that receives owns.
#[derive(Debug)]
struct Receiver {
    ring: Ring,
    looks_in_vain: u32,
}

impl Ethernet {
    /// Opens a link on the interface `name` with the default options.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(name: &str) -> Result<Self, OpenError> {
        Self::open_with(name, &EthernetOptions::default())
    }

    /// Opens a link on the interface `name`.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_with(name: &str, wanted: &EthernetOptions) -> Result<Self, OpenError> {
        Self::at(&Place::take(name)?, wanted)
    }

    /// Opens `count` links on the interface `name`, at least one, which share what arrives: all that one Ethernet address sends
    /// comes by one of them. Each sends as the only one would, and has a ring of its own.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_group(name: &str, count: usize, wanted: &EthernetOptions) -> Result<Vec<Self>, OpenError> {
        let place = Place::take(name)?;
        let group: Vec<Self> =
            (0..count.max(1)).map(|_| Self::at(&place, wanted)).collect::<Result<_, _>>()?;
        let sockets: Vec<BorrowedFd<'_>> = group.iter().map(Self::as_fd).collect();
        fanout::join(&sockets).map_err(OpenError::system("a group of packet sockets"))?;
        Ok(group)
    }

    fn at(place: &Place, wanted: &EthernetOptions) -> Result<Self, OpenError> {
        let socket = socket::open().map_err(OpenError::system("a packet socket"))?;
        let mtu = place.device.mtu.min(PACKET_BYTES_MAX);
        let layout = Layout::new(mtu as usize, wanted.ring_bytes);
        let ring = Ring::new(socket.as_fd(), layout).map_err(OpenError::system("memory for a ring"))?;
        if wanted.bypass_queue {
            socket::bypass_queue(socket.as_fd());
        }
        sockopt::enlarge(socket.as_fd(), [libc::SO_SNDBUFFORCE, libc::SO_SNDBUF], wanted.send_buffer_bytes);
        socket::bind(socket.as_fd(), place.device.index)
            .map_err(OpenError::system("frames of the interface"))?;
        Ok(Self {
            socket,
            receiver: Mutex::new(Receiver { ring, looks_in_vain: 0 }),
            own: place.own,
            mtu,
            counters: Counters::default(),
            receive_buffer_bytes: layout.bytes(),
            _claim: place.claim.clone(),
        })
    }

    /// The Ethernet address of the interface.
    #[must_use]
    pub const fn mac(&self) -> Mac {
        self.own
    }

    fn local(&self) -> SocketAddr {
        self.own.underlay()
    }

    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// An interface that is up and this process's.
struct Place {
    device: Device,
    own: Mac,
    claim: Arc<UnixDatagram>,
}

impl Place {
    fn take(name: &str) -> Result<Self, OpenError> {
        let device = interface::device(name).map_err(OpenError::system("the interface's address"))?;
        let device = device.ok_or_else(|| OpenError::NoInterface(name.to_owned()))?;
        let own = device.ethernet.map(Mac).ok_or_else(|| OpenError::NotEthernet(name.to_owned()))?;
        permission().map_err(|error| {
            let is_refused = error.kind() == io::ErrorKind::PermissionDenied;
            if is_refused { OpenError::NotPermitted } else { OpenError::system("a packet socket")(error) }
        })?;
        if !device.is_up {
            return Err(OpenError::Down(name.to_owned()));
        }
        let claim = socket::claim(device.index).map_err(OpenError::system("a claim to the interface"))?;
        let claim = Arc::new(claim.ok_or_else(|| OpenError::InUse(name.to_owned()))?);
        Ok(Self { device, own, claim })
    }
}

impl Link for Ethernet {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        self.recv_batch(batch)
    }

    fn recv_lone(&self, looks: u32, take: &mut dyn FnMut(SocketAddr, &[u8]) -> bool) -> Shown {
        self.look(looks, take)
    }

    fn send(&self, batch: &mut SendBatch) -> io::Result<usize> {
        self.send_batch(batch)
    }

    fn send_lone(&self, to: SocketAddr, head: &[u8], body: &[u8]) -> bool {
        self.send_at_once(to, head, body)
    }

    fn info(&self) -> LinkInfo {
        LinkInfo {
            name: "packet".to_owned(),
            mss: u16::try_from(self.mtu.saturating_sub(HEADER_BYTES)).unwrap_or(u16::MAX),
            mtu: self.mtu,
            local: self.local(),
            encapsulation: Encapsulation::Ethernet,
            gso: false,
            gro: false,
            send_buffer_bytes: socket::send_buffer_bytes(self.fd()),
            receive_buffer_bytes: self.receive_buffer_bytes,
        }
    }

    fn poll_fds(&self) -> PollFds {
        smallvec![self.fd()]
    }

    fn stats(&self) -> LinkStats {
        // The kernel forgets what it has told.
        self.counters.receive_overflows.add(socket::take_overflows(self.fd()));
        self.counters.read()
    }
}

impl AsFd for Ethernet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
