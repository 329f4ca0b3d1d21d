//! The ways a message goes to the other process: CDP, kernel TCP and kernel UDP, each with one call per message.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use socket2::{Domain, Protocol, Socket as KernelSocket, Type};
use weft_socket::Socket;

/// Bytes of a call in bulk; UDP has no larger datagram than [`UDP_BULK_BYTES`].
pub(super) const BULK_BYTES: usize = 128 << 10;
/// The largest UDP datagram over IPv4.
pub(super) const UDP_BULK_BYTES: usize = 65_507;
/// TCP's congestion control is set, so that the result does not depend on the machine's default.
const TCP_CONTROL: &[u8] = b"cubic";

/// Bytes and messages that arrived, for one contender.
#[derive(Debug, Default)]
pub(super) struct Arrived(AtomicU64);

impl Arrived {
    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) {
        // One thread writes.
        self.0.store(self.bytes() + bytes as u64, Ordering::Relaxed);
    }
}

/// Counts what arrives on a CDP connection until it ends.
pub(super) fn drain_cdp(socket: &Socket, arrived: &Arrived) {
    let mut buffer = vec![0; BULK_BYTES];
    loop {
        match socket.recv(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(len) => arrived.add(len),
        }
    }
}

/// Listens for one TCP connection and counts what arrives on it.
pub(super) fn serve_tcp(arrived: Arc<Arrived>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let at = listener.local_addr()?;
    thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else { return };
        let mut buffer = vec![0; BULK_BYTES];
        while let Ok(len @ 1..) = stream.read(&mut buffer) {
            arrived.add(len);
        }
    });
    Ok(at)
}

/// Counts the datagrams that arrive at a UDP port.
pub(super) fn serve_udp(arrived: Arc<Arrived>) -> io::Result<SocketAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let at = socket.local_addr()?;
    thread::spawn(move || {
        let mut buffer = vec![0; UDP_BULK_BYTES];
        while let Ok(len) = socket.recv(&mut buffer) {
            arrived.add(len);
        }
    });
    Ok(at)
}

/// Something that takes one message per call.
pub(super) trait Carrier: Send {
    /// Sends one message, waiting for room.
    fn send(&mut self, message: &[u8]) -> io::Result<()>;
}

impl Carrier for Socket {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        Socket::send(self, message)?;
        Ok(())
    }
}

pub(super) struct Tcp(TcpStream);

impl Tcp {
    /// A connection under CUBIC with the kernel's other defaults; the second value says which control it got.
    pub(super) fn connect(to: SocketAddr) -> io::Result<(Self, String)> {
        let socket = KernelSocket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        // Where the kernel lacks CUBIC it keeps its own; the report names it.
        let _ = socket.set_tcp_congestion(TCP_CONTROL);
        let name = socket.tcp_congestion().unwrap_or_default();
        let name: Vec<u8> = name.into_iter().take_while(|byte| *byte != 0).collect();
        socket.connect(&to.into())?;
        Ok((Self(socket.into()), String::from_utf8_lossy(&name).into_owned()))
    }
}

impl Carrier for Tcp {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.0.write_all(message)
    }
}

pub(super) struct Udp(UdpSocket);

impl Udp {
    pub(super) fn connect(to: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(to)?;
        Ok(Self(socket))
    }
}

impl Carrier for Udp {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self.0.send(message) {
            // The queue is full: the kernel dropped it, as the network would.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(()),
            result => result.map(drop),
        }
    }
}
