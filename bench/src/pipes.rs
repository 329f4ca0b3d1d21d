//! Ways to drive a UDP socket: this project's link as it is, the same made to leave every body where it lies, and
//! quinn-udp.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};

use bytes::Bytes;
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use weft_link::{Link, RecvBatch, SendBatch, Udp};

use crate::sockets;

/// Bytes of a head, as in the protocol.
pub const HEAD_BYTES: usize = 28;

/// A socket that sends runs of packets of one size, and hands over what arrives.
pub trait Pipe {
    /// Sends `count` packets that consist of `head` and consecutive parts of `data`, `body` bytes each.
    ///
    /// # Errors
    /// What the kernel says.
    fn send(
        &mut self,
        to: SocketAddr,
        head: &[u8; HEAD_BYTES],
        data: &Bytes,
        body: usize,
        count: usize,
    ) -> io::Result<()>;

    /// The address it is bound to.
    ///
    /// # Errors
    /// What the kernel says.
    fn local(&self) -> io::Result<SocketAddr>;

    /// Hands every packet that lies ready to `take`, in memory that its owner may keep.
    ///
    /// # Errors
    /// What the kernel says.
    fn recv(&mut self, take: &mut dyn FnMut(SocketAddr, Bytes)) -> io::Result<usize>;
}

/// This project's link.
pub struct Ours {
    link: Udp,
    out: SendBatch,
    packets: RecvBatch,
    is_gathered: bool,
}

impl Ours {
    /// Opens a link; with `is_gathered`, no body is laid behind its head, however small.
    ///
    /// # Errors
    /// What the kernel says of the address.
    pub fn open(local: SocketAddr, is_gathered: bool) -> io::Result<Self> {
        Ok(Self { link: Udp::bind(local)?, out: SendBatch::new(), packets: RecvBatch::new(), is_gathered })
    }
}

impl Pipe for Ours {
    fn send(
        &mut self,
        to: SocketAddr,
        head: &[u8; HEAD_BYTES],
        data: &Bytes,
        body: usize,
        count: usize,
    ) -> io::Result<()> {
        if self.is_gathered {
            // A body is laid behind its head only if that was appended last.
            self.out.heads_mut().extend_from_slice(&head.repeat(count + 1));
        }
        for n in 0..count {
            let part = data.slice(n * body..(n + 1) * body);
            let start = if self.is_gathered { n * HEAD_BYTES } else { self.out.heads_mut().len() };
            if !self.is_gathered {
                self.out.heads_mut().extend_from_slice(head);
            }
            self.out.push(to, start..start + HEAD_BYTES, part, false);
        }
        while let Err(error) = self.link.send(&mut self.out) {
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(error);
            }
        }
        Ok(())
    }

    fn local(&self) -> io::Result<SocketAddr> {
        Ok(self.link.info().local)
    }

    fn recv(&mut self, take: &mut dyn FnMut(SocketAddr, Bytes)) -> io::Result<usize> {
        let count = self.link.recv(&mut self.packets)?;
        for packet in self.packets.drain() {
            take(packet.from, packet.bytes.freeze());
        }
        Ok(count)
    }
}

/// quinn-udp: packets are staged in one piece; what arrives is copied out of its buffers, because they are used again.
pub struct Quinn {
    socket: UdpSocket,
    state: UdpSocketState,
    staged: Vec<u8>,
    buffers: Vec<u8>,
    metas: [RecvMeta; BATCH_SIZE],
}

impl Quinn {
    /// Opens a socket.
    ///
    /// # Errors
    /// What the kernel says of the address.
    pub fn open(local: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(local)?;
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new((&socket).into())?;
        sockets::enlarge_buffers(&socket);
        let (buffers, metas) = (vec![0; BATCH_SIZE << 16], [RecvMeta::default(); BATCH_SIZE]);
        Ok(Self { socket, state, staged: Vec::new(), buffers, metas })
    }
}

impl Pipe for Quinn {
    fn send(
        &mut self,
        to: SocketAddr,
        head: &[u8; HEAD_BYTES],
        data: &Bytes,
        body: usize,
        count: usize,
    ) -> io::Result<()> {
        self.staged.clear();
        for n in 0..count {
            self.staged.extend_from_slice(head);
            let part = data.slice(n * body..(n + 1) * body);
            self.staged.extend_from_slice(&part);
        }
        let most = self.state.max_gso_segments().min(65_000 / (HEAD_BYTES + body));
        for contents in self.staged.chunks(most * (HEAD_BYTES + body)) {
            let segment_size = Some(HEAD_BYTES + body);
            let transmit = Transmit { destination: to, ecn: None, contents, segment_size, src_ip: None };
            while let Err(error) = self.state.try_send((&self.socket).into(), &transmit) {
                if error.kind() != io::ErrorKind::WouldBlock {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn recv(&mut self, take: &mut dyn FnMut(SocketAddr, Bytes)) -> io::Result<usize> {
        let mut parts = self.buffers.chunks_mut(1 << 16).map(IoSliceMut::new);
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| parts.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
        let received = match self.state.recv((&self.socket).into(), &mut slices, &mut self.metas) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error),
        };
        let mut count = 0;
        for (meta, slice) in self.metas.iter().zip(&slices).take(received) {
            for packet in slice[..meta.len].chunks(meta.stride.max(1)) {
                take(meta.addr, Bytes::copy_from_slice(packet));
                count += 1;
            }
        }
        Ok(count)
    }
}
