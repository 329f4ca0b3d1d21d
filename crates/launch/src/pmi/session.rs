//! One process's talk with its PMI launcher, from the first line to the last.

use std::env;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use socket2::{SockRef, Socket, Type};

use super::line::{Line, hex, is_one_host, unhex};
use super::wire::{Wire, WireError};
use crate::launch::{DETECT_TIME, EXCHANGE_BYTES_MAX, FAREWELL_TIME, INQUIRY_TIME, Launcher, RANKS_MAX};
use crate::{DetectError, ExchangeError};

const FD: &str = "PMI_FD";
const RANK: &str = "PMI_RANK";
const SIZE: &str = "PMI_SIZE";
const PORT: &str = "PMI_PORT";
const ID: &str = "PMI_ID";

/// Whether the stream of this process has been taken over; its number may stand for another descriptor since.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Whether the launcher has handed this process a stream. A variable that an outer launcher left behind names none.
pub(crate) fn is_handed_down() -> bool {
    let fd = env::var(FD).ok().and_then(|text| text.parse().ok());
    !IS_TAKEN.load(Ordering::Relaxed) && fd.is_some_and(is_stream)
}

/// Whether the launcher waits for this process on a port.
pub(crate) fn is_offered() -> bool {
    env::var_os(PORT).is_some() && env::var_os(ID).is_some()
}

fn is_stream(fd: RawFd) -> bool {
    // SAFETY: the call looks at the number only.
    if fd < 0 || unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
        return false;
    }
    // SAFETY: it is open, and nobody closes it meanwhile: it is the launcher's, which this process has not yet spoken to.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let socket = SockRef::from(&fd);
    socket.r#type().is_ok_and(|kind| kind == Type::STREAM) && socket.peer_addr().is_ok()
}

/// A stream to the launcher after the first words.
#[derive(Debug)]
pub(crate) struct Session {
    wire: Wire,
    pub(crate) rank: u32,
    pub(crate) size: u32,
    /// The name of the job's table, which is the job's.
    pub(crate) job: String,
    pub(crate) is_one_host: bool,
    /// Bytes of the longest value.
    value_bytes_max: usize,
}

impl Session {
    /// The session of this process, by what its launcher left in the environment.
    pub(crate) fn start() -> Result<Self, DetectError> {
        let deadline = Instant::now() + DETECT_TIME;
        if is_handed_down() {
            let fd = number(FD)?;
            if IS_TAKEN.swap(true, Ordering::Relaxed) {
                return Err(refused("another thread of this process speaks with it"));
            }
            // SAFETY: the launcher handed this descriptor to this process for this use, and nobody took it before.
            let fd = unsafe { OwnedFd::from_raw_fd(fd) };
            return Self::open(Wire::new(Socket::from(fd)), number(RANK)?, number(SIZE)?, deadline);
        }
        let (stream, id) = (connect()?, variable(ID)?);
        let mut wire = Wire::new(stream);
        let (rank, size) = introduce(&mut wire, &id, deadline).map_err(told)?;
        Self::open(wire, rank, size, deadline)
    }

    fn open(mut wire: Wire, rank: u32, size: u32, deadline: Instant) -> Result<Self, DetectError> {
        if size > RANKS_MAX {
            return Err(DetectError::TooLarge(size));
        }
        if rank >= size {
            return Err(DetectError::Variable { name: RANK, value: rank.to_string() });
        }
        let mut ask = |text: &str, answer: &str| ask(&mut wire, text, answer, deadline).map_err(told);
        ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init").and_then(done)?;
        let maxes = ask("cmd=get_maxes", "maxes")?;
        let name = ask("cmd=get_my_kvsname", "my_kvsname")?;
        let job = name.field("kvsname").ok_or_else(|| refused("it does not name its table"))?.to_owned();
        let mapping = ask(&format!("cmd=get kvsname={job} key=PMI_process_mapping"), "get_result")?;
        let value_bytes_max = maxes.number("vallen_max").unwrap_or(0) as usize;
        let is_one_host = mapping.field("value").is_some_and(is_one_host);
        Ok(Self { wire, rank, size, job, is_one_host, value_bytes_max })
    }

    /// Gives every rank the bytes of all.
    pub(crate) fn exchange(&mut self, own: &[u8], limit: Duration) -> Result<Vec<Vec<u8>>, ExchangeError> {
        let value = hex(own);
        // The launcher counts the zero byte behind a value.
        if value.len() >= self.value_bytes_max {
            let limit = self.value_bytes_max.saturating_sub(1) / 2;
            return Err(ExchangeError::TooLong { len: own.len(), limit });
        }
        let deadline = Instant::now() + limit;
        let all = match self.trade(&value, deadline) {
            Ok(all) => all,
            Err(WireError::Late) => {
                return Err(ExchangeError::Missing { ranks: self.missing(), size: self.size, limit });
            }
            Err(WireError::Closed) => return Err(ExchangeError::Lost(Launcher::Pmi)),
            Err(WireError::Broken(why)) => {
                return Err(ExchangeError::Refused { launcher: Launcher::Pmi, why });
            }
        };
        let bytes = (0..).zip(all).map(|(rank, text)| {
            let bytes = unhex(&text).filter(|bytes| bytes.len() <= EXCHANGE_BYTES_MAX);
            bytes.ok_or(ExchangeError::Strange { rank })
        });
        bytes.collect()
    }

    /// Puts the value, waits for all, and gets the values of all.
    fn trade(&mut self, value: &str, deadline: Instant) -> Result<Vec<String>, WireError> {
        let (job, rank) = (self.job.clone(), self.rank);
        // Values are seen after the barrier only; a name is seen at once, and tells of who has come if not all do.
        // A launcher without names for all can still do the rest.
        self.ask(
            &format!("cmd=publish_name service={} port=0", self.presence(rank)),
            "publish_result",
            deadline,
        )?;
        let put = self.ask(
            &format!("cmd=put kvsname={job} key=weft-{rank} value={value}"),
            "put_result",
            deadline,
        )?;
        settled(&put)?;
        self.ask("cmd=barrier_in", "barrier_out", deadline)?;
        let mut all = Vec::new();
        for rank in 0..self.size {
            let got = self.ask(&format!("cmd=get kvsname={job} key=weft-{rank}"), "get_result", deadline)?;
            settled(&got)?;
            all.push(got.field("value").unwrap_or_default().to_owned());
        }
        Ok(all)
    }

    /// Ranks that have not come to the exchange.
    fn missing(&mut self) -> Vec<u32> {
        let deadline = Instant::now() + INQUIRY_TIME;
        let mut missing = Vec::new();
        for rank in 0..self.size {
            let question = format!("cmd=lookup_name service={}", self.presence(rank));
            match self.ask(&question, "lookup_result", deadline) {
                Ok(line) if line.is_done() => {}
                Ok(_) => missing.push(rank),
                Err(_) => break,
            }
        }
        // A launcher without names knows not even of this rank.
        if missing.contains(&self.rank) { Vec::new() } else { missing }
    }

    fn presence(&self, rank: u32) -> String {
        format!("weft-{}-{rank}", self.job)
    }

    fn ask(&mut self, text: &str, answer: &str, deadline: Instant) -> Result<Line, WireError> {
        ask(&mut self.wire, text, answer, deadline)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Without an answer there is nobody to tell.
        let _ = self.ask("cmd=finalize", "finalize_ack", Instant::now() + FAREWELL_TIME);
    }
}

/// Says `text` and waits for the line `answer`. Who gave up a barrier may hear of its end later.
fn ask(wire: &mut Wire, text: &str, answer: &str, deadline: Instant) -> Result<Line, WireError> {
    wire.say(text)?;
    loop {
        let line = wire.hear(deadline)?;
        if line.command() == answer {
            return Ok(line);
        }
        if line.command() != "barrier_out" {
            return Err(WireError::Broken(format!("it answered {:?} with {:?}", text, line.command())));
        }
    }
}

/// Tells a launcher that waits on a port who this is; its rank and the ranks in all.
fn introduce(wire: &mut Wire, id: &str, deadline: Instant) -> Result<(u32, u32), WireError> {
    ask(wire, &format!("cmd=initack pmiid={id}"), "initack", deadline)?;
    let (mut rank, mut size) = (None, None);
    loop {
        let line = wire.hear(deadline)?;
        (rank, size) = (rank.or(line.number("rank")), size.or(line.number("size")));
        // The last of its settings.
        if line.field("debug").is_some() {
            let both = rank.zip(size);
            return both.ok_or_else(|| WireError::Broken("it does not tell rank and size".to_owned()));
        }
    }
}

fn connect() -> Result<Socket, DetectError> {
    let at = variable(PORT)?;
    let wrong = || DetectError::Variable { name: PORT, value: at.clone() };
    let failed = |error: io::Error| refused(&format!("{at}: {error}"));
    let resolved = at
        .to_socket_addrs()
        .map_err(|error| if error.kind() == io::ErrorKind::InvalidInput { wrong() } else { failed(error) });
    first_that_answers(resolved?).map(Socket::from).map_err(|last| last.map_or_else(wrong, failed))
}

/// A name may stand for addresses of both families, of which the launcher listens on one. Else the error of the last one.
fn first_that_answers(addresses: impl Iterator<Item = SocketAddr>) -> Result<TcpStream, Option<io::Error>> {
    let deadline = Instant::now() + DETECT_TIME;
    let mut last = None;
    for address in addresses {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
    }
    Err(last)
}

fn variable(name: &'static str) -> Result<String, DetectError> {
    env::var(name).map_err(|_| DetectError::Variable { name, value: String::new() })
}

fn number<T: std::str::FromStr>(name: &'static str) -> Result<T, DetectError> {
    let value = variable(name)?;
    value.parse().map_err(|_| DetectError::Variable { name, value })
}

fn refused(why: &str) -> DetectError {
    DetectError::Refused { launcher: Launcher::Pmi, why: why.to_owned() }
}

fn told(error: WireError) -> DetectError {
    match error {
        WireError::Closed => {
            refused("it closed the stream; perhaps another program of this rank has used it up")
        }
        WireError::Late => DetectError::Silent { launcher: Launcher::Pmi, limit: DETECT_TIME },
        WireError::Broken(why) => refused(&why),
    }
}

fn done(line: Line) -> Result<Line, DetectError> {
    if line.is_done() { Ok(line) } else { Err(refused(&failure(&line))) }
}

fn settled(line: &Line) -> Result<(), WireError> {
    if line.is_done() { Ok(()) } else { Err(WireError::Broken(failure(line))) }
}

fn failure(line: &Line) -> String {
    format!("{} says {}", line.command(), line.field("msg").unwrap_or("no"))
}

#[cfg(test)]
mod tests;
