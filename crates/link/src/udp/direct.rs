//! A second socket, connected to the one peer with whom single messages go to and fro, or who sends a flood.
//!
//! For a connected socket the kernel keeps the route of what leaves and knows the socket of what arrives; it looks both
//! up anew for each packet of a shared one. That is 0.8 µs of a round trip of 8 µs, at either end, and a tenth of what a
//! packet costs that is joined with no other. Such a socket takes all packets of its peer, and the kernel joins them for it where they are
//! messages of several packets; so it is used only while they come one message at a time, or in runs that the kernel did not join
//! (`rhythm`), or where packets for the peer leave from where they lie, which takes a connected socket.
//!
//! Nothing is lost on the way back: the socket is connected to a port of the peer that sends nothing, so that what the
//! peer sends from then on arrives at the shared socket, and is read until it is empty. A packet that the kernel was just
//! delivering to it may come later still: the socket is looked at now and then as long as it exists.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use socket2::Socket;

use super::options::{self, Beside};

/// What the second socket is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Mode {
    /// Nothing.
    Off,
    /// The messages of its peer, to and fro, which come one at a time.
    On,
    /// The packets of its peer, to and fro, which come in runs.
    Flood,
    /// Nothing: a flood goes round other sockets (see `basins`).
    Wide,
    /// What lies in it, or in those others, is still to be read.
    Ending,
}

/// Sends that would have left from where they lie, had their peer the second socket, before it is given to that peer for them.
const WISHES: u32 = 256;

/// The second socket, and what keeps its peer.
type Held<'a> = (BorrowedFd<'a>, MutexGuard<'a, Option<SocketAddr>>);

/// The second socket of a UDP link. Whoever receives decides when it is used.
#[derive(Debug)]
pub(super) struct Direct {
    /// Made when it is first wanted, and kept; `None` where the system does not give it.
    socket: OnceLock<Option<Socket>>,
    mode: AtomicU8,
    /// How often it was to be connected, to anybody; counted before.
    connecting: AtomicU32,
    /// Whom it is connected to. Held while a packet leaves, so that none goes to another.
    peer: Mutex<Option<SocketAddr>>,
    /// Bytes of the packets that the kernel cuts what is sent by it into, 0 for none. Changed by who holds the peer.
    cut_bytes: AtomicUsize,
    /// Whether the kernel may join what it brings.
    joins: AtomicBool,
    /// So often, up to [`WISHES`], somebody would have sent from where packets lie, and to whom.
    wishes: AtomicU32,
    wished: Mutex<Option<SocketAddr>>,
    /// Somebody has sent so since that was last asked.
    is_needed: AtomicBool,
}

impl Direct {
    /// A second socket that is made at need, or never.
    pub(super) fn new(is_wanted: bool) -> Self {
        let socket = if is_wanted { OnceLock::new() } else { OnceLock::from(None) };
        Self {
            socket,
            mode: AtomicU8::new(Mode::Off as u8),
            connecting: AtomicU32::new(0),
            peer: Mutex::default(),
            cut_bytes: AtomicUsize::new(0),
            joins: AtomicBool::new(false),
            wishes: AtomicU32::new(0),
            wished: Mutex::default(),
            is_needed: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(super) fn mode(&self) -> Mode {
        match self.mode.load(Ordering::Relaxed) {
            mode if mode == Mode::On as u8 => Mode::On,
            mode if mode == Mode::Flood as u8 => Mode::Flood,
            mode if mode == Mode::Wide as u8 => Mode::Wide,
            mode if mode == Mode::Ending as u8 => Mode::Ending,
            _ => Mode::Off,
        }
    }

    pub(super) fn set_mode(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    /// Which connecting of the socket this is.
    #[inline]
    pub(super) fn connecting(&self) -> u32 {
        self.connecting.load(Ordering::Acquire)
    }

    /// The descriptor, once there is one.
    pub(super) fn fd(&self) -> Option<RawFd> {
        self.socket.get()?.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Whether others may bind the port that [`Beside::All`] may be bound beside, as far as the second socket is concerned; without being of
    /// a group with it, as which of the two it would be in is up to the kernel.
    pub(super) fn share_port(&self, is_shared: bool) -> io::Result<()> {
        self.socket
            .get()
            .and_then(Option::as_ref)
            .map_or(Ok(()), |socket| socket.set_reuse_address(is_shared))
    }

    /// Gives `peer` the second socket, for packets that come as `mode` says and that the kernel `joins` or not, if the system has one.
    #[cold]
    pub(super) fn begin(
        &self,
        shared: &Socket,
        local: SocketAddr,
        buffer_bytes: usize,
        peer: SocketAddr,
        mode: Mode,
        joins: bool,
    ) {
        self.wishes.store(0, Ordering::Relaxed);
        let mut held = self.lock();
        let is_new = self.socket.get().is_none();
        let socket = self.socket.get_or_init(|| open(shared, local, buffer_bytes, peer).ok());
        self.connecting.fetch_add(1, Ordering::Release);
        let Some(socket) = socket else { return };
        if self.joins() != joins && options::set_gro(socket, joins).is_ok() {
            self.joins.store(joins, Ordering::Relaxed);
        }
        // A peer that cannot be reached just now does not answer either: the shared socket does.
        if is_new || connect(socket, local, peer) == Connected::ToPeer {
            *held = Some(peer);
            self.set_mode(mode);
        }
    }

    /// Sends the peer back to the shared socket. What lies in this one is still to be read. Where the system does not let it go it
    /// stays, and is sent back another time.
    #[cold]
    pub(super) fn end(&self, local: SocketAddr) {
        let mut held = self.lock();
        let (Some(Some(socket)), Some(peer)) = (self.socket.get(), *held) else { return };
        self.connecting.fetch_add(1, Ordering::Release);
        // with the interface that a link-local address has
        let mut silent = peer;
        silent.set_port(if peer.port() == 1 { 2 } else { 1 });
        if connect(socket, local, silent) != Connected::No {
            *held = None;
            self.set_mode(Mode::Ending);
        }
    }

    /// Whether a peer has it for what is sent there.
    #[inline]
    pub(super) fn is_used(&self) -> bool {
        matches!(self.mode(), Mode::On | Mode::Flood)
    }

    /// Packets for `to` would leave from where they lie if it had the second socket.
    pub(super) fn wish(&self, to: SocketAddr) {
        let Ok(mut wished) = self.wished.try_lock() else { return };
        if wished.replace(to) == Some(to) {
            let wishes = self.wishes.load(Ordering::Relaxed);
            self.wishes.store((wishes + 1).min(WISHES), Ordering::Relaxed);
        } else {
            self.wishes.store(0, Ordering::Relaxed);
        }
    }

    /// Whether that was so for long with the peer that a packet came from.
    #[inline]
    pub(super) fn is_wished(&self, from: SocketAddr) -> bool {
        self.wishes.load(Ordering::Relaxed) >= WISHES
            && self.wished.try_lock().is_ok_and(|wished| *wished == Some(from))
    }

    /// Packets have left by it from where they lie.
    #[inline]
    pub(super) fn note_needed(&self) {
        self.is_needed.store(true, Ordering::Relaxed);
    }

    /// Whether that was so since the last such question.
    pub(super) fn take_needed(&self) -> bool {
        self.is_needed.swap(false, Ordering::Relaxed)
    }

    /// Whether what it brings may be several packets.
    #[inline]
    pub(super) fn joins(&self) -> bool {
        self.joins.load(Ordering::Relaxed)
    }

    /// The socket to send to `to` by, for as long as the guard lives.
    #[inline]
    pub(super) fn way_to(&self, to: SocketAddr) -> Option<Held<'_>> {
        self.cut_way_to(to, 0, || true)
    }

    /// The same, if `is_wanted`, where the kernel cuts what is sent into packets of `bytes`, unless that is 0.
    #[inline]
    pub(super) fn cut_way_to(
        &self,
        to: SocketAddr,
        bytes: usize,
        is_wanted: impl FnOnce() -> bool,
    ) -> Option<Held<'_>> {
        if !self.is_used() {
            return None;
        }
        let held = self.peer.try_lock().ok()?;
        let socket = self.socket.get()?.as_ref()?.as_fd();
        if *held != Some(to) || !is_wanted() {
            return None;
        }
        if self.cut_bytes.load(Ordering::Relaxed) != bytes {
            options::cut(socket, bytes).ok()?;
            self.cut_bytes.store(bytes, Ordering::Relaxed);
        }
        Some((socket, held))
    }

    fn lock(&self) -> MutexGuard<'_, Option<SocketAddr>> {
        self.peer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whom the second socket is connected to after it was to be connected to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Connected {
    ToPeer,
    /// To a port that sends nothing, as there is no way to the peer.
    ToNobody,
    No,
}

/// Connects the second socket of a link at `local` to another peer.
fn connect(socket: &Socket, local: SocketAddr, peer: SocketAddr) -> Connected {
    let to = |peer| socket.connect(&options::target(peer, local.is_ipv6()).into()).is_ok();
    if !local.ip().is_unspecified() {
        return if to(peer) { Connected::ToPeer } else { Connected::No };
    }
    // The kernel keeps the address, and the interface, that it took for an earlier peer, to whom another may have led, and which this
    // host may have lost since. What comes before the next line is read with its address.
    let _ = rustix::net::connect_unspec(socket);
    if to(peer) {
        return Connected::ToPeer;
    }
    // What all peers send would come to a socket that is not connected.
    let nobody: IpAddr =
        if local.is_ipv6() { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
    if to(SocketAddr::new(nobody, 1)) { Connected::ToNobody } else { Connected::No }
}

/// A socket at the same address as `shared`, connected to `peer`: one that is not connected would take packets of all peers.
fn open(shared: &Socket, local: SocketAddr, buffer_bytes: usize, peer: SocketAddr) -> io::Result<Socket> {
    // In a group it gets nothing before it is connected (see `group`).
    let is_grouped = shared.reuse_port()?;
    if !is_grouped {
        // Only for the moment of binding, and only for this user: nobody is to share the port afterwards.
        shared.set_reuse_port(true)?;
    }
    let socket = options::open(local, Beside::Group).and_then(|socket| {
        socket.connect(&options::target(peer, local.is_ipv6()).into())?;
        socket.set_reuse_port(is_grouped)?;
        Ok(socket)
    });
    if !is_grouped {
        shared.set_reuse_port(false)?;
    }
    let socket = socket?;
    options::forbid_fragments(&socket, local.is_ipv6())?;
    options::enlarge_buffers(&socket, buffer_bytes);
    options::ask_for_reports(&socket, local.is_ipv6())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_for_one_peer_that_is_sent_much_in_a_row() {
        let (direct, peer) = (Direct::new(true), |port| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
        let wish = |times, port| (0..times).for_each(|_| direct.wish(peer(port)));
        wish(WISHES, 1);
        assert!(!direct.is_wished(peer(1)), "the first one says to whom");
        wish(1, 1);
        assert!(direct.is_wished(peer(1)) && !direct.is_wished(peer(2)));
        wish(1, 2);
        wish(WISHES, 1);
        assert!(!direct.is_wished(peer(1)) && !direct.is_wished(peer(2)), "others as well");
    }
}
