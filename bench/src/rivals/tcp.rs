//! Kernel TCP: a stream of messages, and messages there and back.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use super::{Choices, Outcome, Request, Tally, Test, any_port, say_ready};
use crate::sockets;

/// Bytes a receiver asks for with one call.
const PIECE_BYTES: usize = 256 << 10;

pub(super) fn serve(request: &Request, control: &TcpStream) -> io::Result<Tally> {
    let listener = TcpListener::bind(any_port(control)?)?;
    sockets::answer_by_cubic(&listener);
    say_ready(control, listener.local_addr()?)?;
    if request.test == Test::TcpPing {
        return echo(request, listener.accept()?.0);
    }
    let streams: Vec<_> = listener.incoming().take(request.streams).collect::<io::Result<_>>()?;
    let drains = streams.into_iter().map(|stream| move || drain(request, stream));
    let drained: Vec<_> = at_once(drains)?.into_iter().flatten().collect();
    Ok(together(request.size, &drained))
}

/// What all streams brought, from the first byte of any to the end of the last.
pub(super) fn together(size: usize, drained: &[Drained]) -> Tally {
    let bytes = drained.iter().map(|drained| drained.bytes).sum();
    let first = drained.iter().map(|drained| drained.first).min();
    let last = drained.iter().map(|drained| drained.last).max();
    let seconds = first.zip(last).map_or(0.0, |(first, last)| (last - first).as_secs_f64());
    Tally { messages: bytes / size as u64, bytes, seconds, cpu_seconds: 0.0 }
}

/// Runs each on a thread of its own, and tells what all returned.
fn at_once<T: Send>(
    tasks: impl Iterator<Item = impl FnOnce() -> io::Result<T> + Send>,
) -> io::Result<Vec<T>> {
    thread::scope(|scope| {
        let running: Vec<_> = tasks.map(|task| scope.spawn(task)).collect();
        let ended = running.into_iter().map(|task| task.join());
        ended.map(|result| result.unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))).collect()
    })
}

/// What came of a stream.
pub(super) struct Drained {
    pub(super) bytes: u64,
    pub(super) first: Instant,
    pub(super) last: Instant,
}

/// Reads a stream to its end; `None` if nothing came.
fn drain(request: &Request, mut stream: TcpStream) -> io::Result<Option<Drained>> {
    stream.set_nonblocking(request.spin)?;
    let mut piece = vec![0; PIECE_BYTES];
    let (mut bytes, mut started) = (0, None);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(more) => bytes += more as u64,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        }
        started = started.or_else(|| Some(Instant::now()));
    }
    Ok(started.map(|first| Drained { bytes, first, last: Instant::now() }))
}

fn echo(request: &Request, mut stream: TcpStream) -> io::Result<Tally> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(request.spin)?;
    let mut message = vec![0; request.size];
    let (started, mut messages) = (Instant::now(), 0);
    while read_whole(&mut stream, &mut message)? {
        stream.write_all(&message)?;
        messages += 1;
    }
    let bytes = messages * request.size as u64;
    Ok(Tally { messages, bytes, seconds: started.elapsed().as_secs_f64(), cpu_seconds: 0.0 })
}

/// Fills `message`, spinning if the stream does not block. False at the end of the stream.
fn read_whole(stream: &mut TcpStream, message: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < message.len() {
        match stream.read(&mut message[filled..]) {
            Ok(0) => return Ok(false),
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn connect(choices: &Choices, data: SocketAddr) -> io::Result<TcpStream> {
    let stream = sockets::connect_tcp(data, &choices.controller)?;
    stream.set_nodelay(choices.no_delay)?;
    Ok(stream)
}

pub(super) fn send(request: &Request, choices: &Choices, data: SocketAddr) -> io::Result<Outcome> {
    let streams = (0..request.streams).map(|_| connect(choices, data)).collect::<io::Result<Vec<_>>>()?;
    let sent = at_once(streams.into_iter().map(|stream| move || fill(request, choices, stream)))?;
    Ok(Outcome { sent: sent.iter().sum(), ..Outcome::default() })
}

/// Sends as long as is chosen, and tells how many messages that were.
fn fill(request: &Request, choices: &Choices, mut stream: TcpStream) -> io::Result<u64> {
    let message = vec![0xA5; request.size];
    let (started, mut sent) = (Instant::now(), 0);
    while started.elapsed() < choices.time {
        // The clock is not asked for every message.
        for _ in 0..16 {
            stream.write_all(&message)?;
        }
        sent += 16;
    }
    Ok(sent)
}

pub(super) fn ping(request: &Request, choices: &Choices, data: SocketAddr) -> io::Result<Outcome> {
    let mut stream = connect(&Choices { no_delay: true, ..choices.clone() }, data)?;
    stream.set_nonblocking(request.spin)?;
    let mut message = vec![0xA5; request.size];
    let (started, mut round_trips_ns) = (Instant::now(), Vec::new());
    while started.elapsed() < choices.time {
        let sent = Instant::now();
        stream.write_all(&message)?;
        if !read_whole(&mut stream, &mut message)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        round_trips_ns.push(u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(Outcome { sent: round_trips_ns.len() as u64, round_trips_ns, ..Outcome::default() })
}
