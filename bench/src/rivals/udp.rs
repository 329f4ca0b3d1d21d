//! Kernel UDP: messages one by one, messages joined for the kernel to cut, copied or given as pages, and messages there and
//! back.

use std::io::{self, PipeReader, PipeWriter};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use super::{Choices, Outcome, Request, Tally, Test, any_port, say_ready};
use crate::sockets;

/// A datagram of this many bytes ends a test. No test sends any of its size.
const END_BYTES: usize = 3;
/// How long a lost round trip is waited for.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long a server waits for anything at all.
const DESERTED: Duration = Duration::from_secs(5);
/// Room for whatever arrives with one call.
const PIECE_BYTES: usize = 1 << 16;
/// A message of more bytes that goes there and back has several packets, each of so many, which the kernel cuts and joins.
const PACKET_BYTES: usize = 1472;
/// Of these the first are for the head that a transport needs.
const HEAD_BYTES: usize = 28;
/// As many of them as the kernel takes with one call.
const GROUP_BYTES: usize = 44 * PACKET_BYTES;
/// Pages that are given to the kernel in turn.
const PAGES_BYTES: usize = 64 * PIECE_BYTES;

pub(super) fn serve(request: &Request, control: &TcpStream) -> io::Result<Tally> {
    let socket = UdpSocket::bind(any_port(control)?)?;
    let ready = || say_ready(control, socket.local_addr()?);
    sockets::enlarge_buffers(&socket);
    socket.set_read_timeout(Some(DESERTED))?;
    socket.set_nonblocking(request.spin)?;
    if request.test == Test::UdpPing {
        join_packets(request, &socket)?;
        ready()?;
        return echo(request, &socket);
    }
    if is_joined(request) {
        sockets::set(&socket, libc::SOL_UDP, libc::UDP_GRO, 1)?;
    }
    ready()?;
    drain(request, &socket)
}

fn is_joined(request: &Request) -> bool {
    matches!(request.test, Test::UdpJoined | Test::UdpSpliced)
}

/// Bytes of all packets of a message that goes there and back.
fn packets_bytes(request: &Request) -> usize {
    if request.size <= PACKET_BYTES {
        return request.size;
    }
    request.size + request.size.div_ceil(PACKET_BYTES - HEAD_BYTES) * HEAD_BYTES
}

/// A message that is too long for one packet leaves and arrives in packets that are joined.
fn join_packets(request: &Request, socket: &UdpSocket) -> io::Result<()> {
    if request.size <= PACKET_BYTES {
        return Ok(());
    }
    sockets::set(
        socket,
        libc::SOL_UDP,
        libc::UDP_SEGMENT,
        i32::try_from(PACKET_BYTES).map_err(io::Error::other)?,
    )?;
    sockets::set(socket, libc::SOL_UDP, libc::UDP_GRO, 1)
}

/// Counts what arrives. A joined buffer is a whole number of messages, and the size tells how many.
fn drain(request: &Request, socket: &UdpSocket) -> io::Result<Tally> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut tally = Tally::default();
    let (mut first, mut last) = (None, Instant::now());
    loop {
        let len = match socket.recv(&mut piece) {
            Ok(END_BYTES) => break,
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && last.elapsed() < DESERTED => continue,
            Err(error) => return Err(error),
        };
        tally.bytes += len as u64;
        tally.messages += (len / request.size) as u64;
        // The clock is asked once for many messages; the end is exact to these.
        if first.is_none() || tally.messages.is_multiple_of(64) || len > request.size {
            last = Instant::now();
            first = first.or(Some(last));
        }
    }
    tally.seconds = first.map_or(0.0, |first| (last - first).as_secs_f64());
    Ok(tally)
}

fn echo(request: &Request, socket: &UdpSocket) -> io::Result<Tally> {
    let whole = packets_bytes(request);
    let mut message = vec![0; whole + PIECE_BYTES];
    let (mut messages, mut bytes, mut len) = (0, 0, 0);
    let (started, mut heard) = (Instant::now(), Instant::now());
    loop {
        match socket.recv_from(&mut message[len..]) {
            Ok((END_BYTES, _)) => break,
            Ok((more, _)) if len + more < whole => len += more,
            Ok((more, from)) => {
                len += more;
                request.code.run_before();
                for group in message[..len].chunks(GROUP_BYTES) {
                    socket.send_to(group, from)?;
                }
                request.code.run_behind();
                messages += 1;
                bytes += request.size as u64;
                len = 0;
                if messages % 1024 == 0 {
                    heard = Instant::now();
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && heard.elapsed() < DESERTED => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Tally { messages, bytes, seconds: started.elapsed().as_secs_f64(), cpu_seconds: 0.0 })
}

fn connect(data: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = if data.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    sockets::enlarge_buffers(&socket);
    socket.connect(data)?;
    Ok(socket)
}

/// Ends the test on the other side. Repeated, because one may be lost behind what still lies in the queue.
fn say_end(socket: &UdpSocket) {
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(10));
        // The server has gone when an earlier one arrived.
        let _ = socket.send(&[0; END_BYTES]);
    }
}

pub(super) fn send(request: &Request, choices: &Choices, data: SocketAddr) -> io::Result<Outcome> {
    let socket = connect(data)?;
    let per_call = if is_joined(request) {
        let size = i32::try_from(request.size).map_err(io::Error::other)?;
        sockets::set(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, size)?;
        (65_000 / request.size).clamp(1, 64)
    } else {
        1
    };
    let message = vec![0xA5; request.size * per_call];
    let mut pages = (request.test == Test::UdpSpliced).then(Pages::new).transpose()?;
    let (started, mut sent) = (Instant::now(), 0);
    while started.elapsed() < choices.time {
        // The clock is not asked for every message.
        for _ in 0..16 {
            let done = match &mut pages {
                Some(pages) => pages.send(&socket, &message),
                None => socket.send(&message),
            };
            match done {
                Ok(_) => sent += per_call as u64,
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) => return Err(error),
            }
        }
    }
    if per_call > 1 {
        sockets::set(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0)?;
    }
    say_end(&socket);
    Ok(Outcome { sent, ..Outcome::default() })
}

/// A pipe through which pages go to a socket: who receives copies from them, the sender's kernel does not.
///
/// They are written to again when all the others have been. What is under way then holds the new bytes, which are the same
/// here; a transport would have to wait for acknowledgements.
struct Pages {
    memory: Vec<u8>,
    next: usize,
    pipe: (PipeReader, PipeWriter),
}

impl Pages {
    fn new() -> io::Result<Self> {
        Ok(Self { memory: vec![0; PAGES_BYTES], next: 0, pipe: io::pipe()? })
    }

    /// Sends a copy of `message`, of one piece at most, from pages that stay where they are.
    fn send(&mut self, socket: &UdpSocket, message: &[u8]) -> io::Result<usize> {
        let piece = &mut self.memory[self.next..self.next + message.len()];
        piece.copy_from_slice(message);
        self.next = (self.next + PIECE_BYTES) % PAGES_BYTES;
        let pieces = libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: piece.len() };
        // SAFETY: the memory lives as long as `self`, which outlives what is under way by the end of the test.
        let given = unsafe { libc::vmsplice(self.pipe.1.as_raw_fd(), &raw const pieces, 1, 0) };
        let given = usize::try_from(given).map_err(|_| io::Error::last_os_error())?;
        let (from, to, no_place) = (self.pipe.0.as_raw_fd(), socket.as_raw_fd(), std::ptr::null_mut());
        // SAFETY: two descriptors of ours, and no places in files.
        let sent = unsafe { libc::splice(from, no_place, to, no_place, given, 0) };
        let sent = usize::try_from(sent).map_err(|_| io::Error::last_os_error());
        if !matches!(sent, Ok(bytes) if bytes == given) {
            // What is left in the pipe would be in the way of the next message.
            self.pipe = io::pipe()?;
        }
        sent
    }
}

pub(super) fn ping(request: &Request, choices: &Choices, data: SocketAddr) -> io::Result<Outcome> {
    let socket = connect(data)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_nonblocking(request.spin)?;
    join_packets(request, &socket)?;
    let whole = packets_bytes(request);
    let (message, mut answer) = (vec![0xA5; whole], vec![0; whole + PIECE_BYTES]);
    let (started, mut round_trips_ns, mut sent) = (Instant::now(), Vec::new(), 0);
    while started.elapsed() < choices.time {
        let left = Instant::now();
        request.code.run_before();
        for group in message.chunks(GROUP_BYTES) {
            socket.send(group)?;
        }
        request.code.run_behind();
        sent += 1;
        let mut len = 0;
        while len < message.len() && left.elapsed() < PATIENCE {
            match socket.recv(&mut answer[len..]) {
                Ok(more) => len += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        if len < message.len() && message.len() > PACKET_BYTES {
            let what = format!(
                "{} of {whole} bytes were lost, and later answers are not whole: try again where none is",
                whole - len
            );
            return Err(io::Error::other(what));
        }
        if len == message.len() {
            round_trips_ns.push(u64::try_from(left.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
    }
    say_end(&socket);
    Ok(Outcome { sent, round_trips_ns, ..Outcome::default() })
}
