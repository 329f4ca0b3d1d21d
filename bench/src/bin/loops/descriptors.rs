//! A loop of the program's own about `epoll_wait`, with one connection at either end.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Instant;

use weft_bench::sockets;
use weft_socket::{Interest, Node, Progress, RecvError, Socket};

use super::{Contender, Failure, MORE, Outcome, PORT, Pace, Test, any, nanos_since, target};

/// What one thread sleeps on.
struct Events {
    epoll: OwnedFd,
}

/// A socket has something.
const SOCKET: u64 = 1;
/// A node has.
const PROGRESS: u64 = 2;

impl Events {
    fn new() -> io::Result<Self> {
        // SAFETY: it takes no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
        Ok(Self { epoll: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    fn add(&self, descriptor: &impl AsRawFd, name: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN.cast_unsigned(), u64: name };
        let (epoll, fd) = (self.epoll.as_raw_fd(), descriptor.as_raw_fd());
        // SAFETY: the event lives.
        let done = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Sleeps until one of them is readable, and tells which.
    fn wait(&self) -> io::Result<u64> {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: there is room for the one event that is asked for.
        match unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), &raw mut event, 1, -1) } {
            1 => Ok(event.u64),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// One end of a connection, and what its thread sleeps on.
struct End {
    events: Events,
    way: Way,
}

enum Way {
    Udp(UdpSocket),
    Tcp(TcpStream),
    Weft(Socket, Option<Progress>),
}

impl End {
    fn udp(socket: UdpSocket) -> Result<Self, Failure> {
        socket.set_nonblocking(true)?;
        let events = Events::new()?;
        events.add(&socket, SOCKET)?;
        Ok(Self { events, way: Way::Udp(socket) })
    }

    fn tcp(stream: TcpStream) -> Result<Self, Failure> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let events = Events::new()?;
        events.add(&stream, SOCKET)?;
        Ok(Self { events, way: Way::Tcp(stream) })
    }

    fn weft(socket: Socket, progress: Option<Progress>) -> Result<Self, Failure> {
        socket.set_nonblocking(true);
        let events = Events::new()?;
        events.add(&socket.readiness(Interest::Readable)?, SOCKET)?;
        if let Some(progress) = &progress {
            events.add(progress, PROGRESS)?;
        }
        Ok(Self { events, way: Way::Weft(socket, progress) })
    }

    fn send(&mut self, data: &[u8]) -> Result<(), Failure> {
        match &mut self.way {
            Way::Udp(socket) => drop(socket.send(data)?),
            Way::Tcp(stream) => stream.write_all(data)?,
            Way::Weft(socket, _) => drop(socket.send(data)?),
        }
        Ok(())
    }

    /// The bytes that came, after a sleep; 0 at the end.
    fn recv(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        loop {
            let ready = self.events.wait()?;
            let received = match &mut self.way {
                Way::Udp(socket) => socket.recv(buffer),
                Way::Tcp(stream) => stream.read(buffer),
                Way::Weft(_, Some(progress)) if ready == PROGRESS => {
                    progress.make();
                    continue;
                }
                Way::Weft(socket, _) => match socket.try_recv(buffer) {
                    Err(RecvError::WouldBlock) => Err(ErrorKind::WouldBlock.into()),
                    received => Ok(received?),
                },
            };
            match received {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                received => return Ok(received?),
            }
        }
    }
}

/// The node's progress, where the loop makes it.
fn progress(contender: Contender, node: &Node) -> io::Result<Option<Progress>> {
    (contender == Contender::WeftProgress).then(|| node.progress()).transpose()
}

pub(super) fn serve(contender: Contender, test: Test, address: SocketAddr) -> Result<(), Failure> {
    match contender {
        Contender::Udp => {
            let socket = UdpSocket::bind(address)?;
            let (_, client) = socket.peek_from(&mut [0; 1])?;
            socket.connect(client)?;
            echo(End::udp(socket)?, test)
        }
        Contender::Tcp => {
            let listener = TcpListener::bind(address)?;
            sockets::answer_by_cubic(&listener);
            listener.incoming().try_for_each(|stream| echo(End::tcp(stream?)?, test))
        }
        Contender::Weft | Contender::WeftProgress => {
            let node = super::node(address)?;
            let listener = node.listen(PORT.get(), &test.options())?;
            listener.incoming().try_for_each(|socket| {
                let progress = progress(contender, &node)?;
                echo(End::weft(socket?, progress)?, test)
            })
        }
    }
}

/// Until the client is gone.
fn echo(mut end: End, test: Test) -> Result<(), Failure> {
    let mut buffer = vec![0; test.load().bytes];
    loop {
        match end.recv(&mut buffer) {
            Ok(0) | Err(_) => return Ok(()),
            Ok(len) => end.send(&buffer[..len])?,
        }
    }
}

pub(super) fn run(
    contender: Contender,
    test: Test,
    address: SocketAddr,
    pace: Pace,
) -> Result<Outcome, Failure> {
    let load = test.load();
    if !load.is_echo {
        return Err("only tasks are measured with this load; add --tokio".into());
    }
    let mut end = match contender {
        Contender::Udp => {
            let socket = UdpSocket::bind(any())?;
            socket.connect(address)?;
            End::udp(socket)?
        }
        Contender::Tcp => End::tcp(sockets::connect_tcp(address, sockets::CUBIC)?)?,
        Contender::Weft | Contender::WeftProgress => {
            let node = super::node(any())?;
            let progress = progress(contender, &node)?;
            End::weft(node.connect(target(address), &test.options())?, progress)?
        }
    };
    let (message, mut buffer) = (vec![MORE; load.bytes], vec![0; load.bytes]);
    let (begin, mut round_trips_ns) = (Instant::now(), Vec::new());
    while begin.elapsed() < pace.time {
        let start = Instant::now();
        end.send(&message)?;
        let mut len = 0;
        while len < load.bytes {
            len += end.recv(&mut buffer[len..])?;
        }
        round_trips_ns.push(nanos_since(start));
        if !pace.pause.is_zero() {
            std::thread::sleep(pace.pause);
        }
    }
    Ok(Outcome { round_trips_ns, ..Outcome::default() })
}
