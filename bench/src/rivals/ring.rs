//! The bare packet socket: Ethernet frames sent by `send`, received by a `TPACKET_V2` ring, there and back.
//!
//! Both ends take the first interface that is not the loopback one. The client's first frame is a broadcast; each then knows the
//! other's Ethernet address.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::{Choices, Outcome, Request, Tally, say_ready};

/// Local experimental 2, as CDP has the first.
const ETHERTYPE: u16 = 0x88B6;
const HEAD_BYTES: usize = 14;
const SLOT_BYTES: usize = 2_048;
const BLOCK_BYTES: usize = 64 << 10;
/// Few slots, so that they stay in a core's cache.
const SLOTS: usize = 64;
/// The first byte of a message, and of the one that ends a test.
const MESSAGE: u8 = 0xA5;
const END: u8 = 0xEE;
const PATIENCE: Duration = Duration::from_millis(100);
const DESERTED: Duration = Duration::from_secs(5);
/// Looks between two questions for the time.
const LOOKS: usize = 256;

struct Ring {
    socket: OwnedFd,
    start: *mut u8,
    at: usize,
    own: [u8; 6],
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[allow(clippy::cast_possible_truncation)] // sizes of small types and rings
impl Ring {
    fn open() -> io::Result<Self> {
        let devices = std::fs::read_to_string("/proc/thread-self/net/dev")?;
        let names = devices.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim());
        let name = names.into_iter().find(|name| *name != "lo").ok_or(io::ErrorKind::NotFound)?;
        let name = std::ffi::CString::new(name)?;
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: the kernel has just given this descriptor.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let ring = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: (SLOTS * SLOT_BYTES / BLOCK_BYTES) as u32,
            tp_frame_size: SLOT_BYTES as u32,
            tp_frame_nr: SLOTS as u32,
        };
        set(fd, libc::PACKET_VERSION, &libc::tpacket_versions::TPACKET_V2)?;
        set(fd, libc::PACKET_RX_RING, &ring)?;
        set(fd, libc::PACKET_QDISC_BYPASS, &1i32)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (len, flags) = (SLOTS * SLOT_BYTES, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: no address is asked for, and the length is that of the ring.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: all bits zero are a value of this type.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = ETHERTYPE.to_be();
        // SAFETY: the name ends with a zero byte.
        address.sll_ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) }.cast_signed();
        let mut len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address lives and has the length given.
        check(unsafe { libc::bind(fd, (&raw const address).cast(), len) })?;
        // SAFETY: as above; the kernel adds the Ethernet address.
        check(unsafe { libc::getsockname(fd, (&raw mut address).cast(), &raw mut len) })?;
        let [a, b, c, d, e, f, ..] = address.sll_addr;
        Ok(Self { socket, start: start.cast(), at: 0, own: [a, b, c, d, e, f] })
    }

    /// A frame of `size` bytes of data to `target`; at least the shortest.
    fn frame(&self, target: [u8; 6], first: u8, size: usize) -> Vec<u8> {
        let mut frame = [&target[..], &self.own, &ETHERTYPE.to_be_bytes(), &[first]].concat();
        frame.resize((HEAD_BYTES + size).max(60), first);
        frame
    }

    fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the frame lives through the call and has the length given.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// What `read` makes of the next frame, if one is there.
    fn pop<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        // SAFETY: the slot lies within the ring.
        let slot = unsafe { self.start.add(self.at * SLOT_BYTES) };
        // SAFETY: a slot begins with its status, aligned, and lives as long as the process.
        let status = unsafe { AtomicU32::from_ptr(slot.cast()) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the kernel wrote the header before it gave the slot away.
        let header = unsafe { slot.cast::<libc::tpacket2_hdr>().read() };
        // SAFETY: the frame lies there within the slot.
        let first = unsafe { slot.add(usize::from(header.tp_mac)) };
        // SAFETY: the kernel wrote as many bytes, and they are ours until the status changes.
        let result = read(unsafe { std::slice::from_raw_parts(first, header.tp_snaplen as usize) });
        status.store(0, Ordering::Release);
        self.at = (self.at + 1) % SLOTS;
        Some(result)
    }

    /// Waits for a frame, for at most about `limit`: by looking at the ring, or asleep unless `spin`.
    fn wait<T>(&mut self, spin: bool, limit: Duration, read: impl Fn(&[u8]) -> T) -> io::Result<Option<T>> {
        let started = Instant::now();
        loop {
            for _ in 0..LOOKS {
                if let Some(result) = self.pop(&read) {
                    return Ok(Some(result));
                }
                if !spin {
                    let fd = self.socket.as_raw_fd();
                    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
                    // SAFETY: one descriptor, which lives through the call.
                    check(unsafe { libc::poll(&raw mut poll, 1, limit.as_millis() as i32) })?;
                    break;
                }
                std::hint::spin_loop();
            }
            if started.elapsed() > limit {
                return Ok(None);
            }
        }
    }
}

fn set<T>(fd: i32, name: i32, value: &T) -> io::Result<()> {
    let len = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    // SAFETY: the value lives through the call and has the length given.
    check(unsafe { libc::setsockopt(fd, libc::SOL_PACKET, name, std::ptr::from_ref(value).cast(), len) })?;
    Ok(())
}

/// The sender of a frame, and the first byte of its data.
fn look(frame: &[u8]) -> ([u8; 6], u8) {
    match frame {
        [_, _, _, _, _, _, a, b, c, d, e, f, _, _, first, ..] => ([*a, *b, *c, *d, *e, *f], *first),
        _ => ([0; 6], END),
    }
}

pub(super) fn serve(request: &Request, control: &TcpStream) -> io::Result<Tally> {
    let mut ring = Ring::open()?;
    say_ready(control, control.local_addr()?)?;
    let mut answer = ring.frame([0; 6], MESSAGE, request.size);
    let (started, mut tally) = (Instant::now(), Tally::default());
    while let Some((from, first)) = ring.wait(request.spin, DESERTED, look)? {
        if first == END {
            break;
        }
        answer[..6].copy_from_slice(&from);
        ring.send(&answer)?;
        tally.messages += 1;
        tally.bytes += request.size as u64;
    }
    tally.seconds = started.elapsed().as_secs_f64();
    Ok(tally)
}

pub(super) fn ping(request: &Request, choices: &Choices) -> io::Result<Outcome> {
    let mut ring = Ring::open()?;
    let mut frame = ring.frame([0xFF; 6], MESSAGE, request.size);
    let (started, mut round_trips_ns, mut sent) = (Instant::now(), Vec::new(), 0);
    while started.elapsed() < choices.time {
        let left = Instant::now();
        ring.send(&frame)?;
        sent += 1;
        if let Some((from, _)) = ring.wait(request.spin, PATIENCE, look)? {
            round_trips_ns.push(u64::try_from(left.elapsed().as_nanos()).unwrap_or(u64::MAX));
            frame[..6].copy_from_slice(&from);
        }
    }
    let end = ring.frame([0xFF; 6], END, request.size);
    (0..3).try_for_each(|_| ring.send(&end))?;
    Ok(Outcome { sent, round_trips_ns, ..Outcome::default() })
}
