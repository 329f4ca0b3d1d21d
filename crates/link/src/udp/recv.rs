//! Receiving: one call into a region that holds anything, then slices.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::Ordering;

use super::address::{self, Storage};
use super::control::{Control, segment_bytes};
use super::direct::Mode;
use super::rhythm::Flood;
use super::{Udp, refusals};
use crate::{RecvBatch, recv_batch::REGION_BYTES, sys};

mod own;
mod run;
#[cfg(test)]
mod tests;

/// Errors in a row after which a turn leaves the socket alone.
pub(super) const ERRORS_MAX: usize = 16;

/// Joined packets of more bytes are part of a message of which there may be more: the kernel joins up to 64 KiB.
const LONE_BYTES_MAX: usize = 32 << 10;

/// What one call brought.
pub(super) enum Arrival {
    /// So many packets, from there.
    Packets(usize, SocketAddr),
    Nothing,
    /// Something was reported or dropped; more may lie behind it.
    Again,
}

impl Udp {
    /// Receives until the socket is empty or the batch full; from the peer that has a socket of its own, one packet if
    /// they come one at a time.
    pub(super) fn recv_batch(&self, batch: &mut RecvBatch, place: &mut [u8]) -> io::Result<usize> {
        if let Some(reports) = &self.reports
            && batch.rhythm.is_report_look_due()
        {
            reports.read(|refusal| batch.push_refusal(refusal));
        }
        match self.direct.mode() {
            Mode::Off => {
                let count = self.recv_shared(batch)?;
                if count > 0 { Ok(count) } else { self.recv_late(batch) }
            }
            Mode::On => {
                let earlier = self.recv_earlier(batch)?;
                if batch.room() == 0 {
                    return Ok(earlier);
                }
                let count = earlier + self.recv_direct(batch)?;
                match self.direct.mode() {
                    Mode::Ending => Ok(count + self.recv_rest(batch)?),
                    Mode::On if batch.rhythm.is_look_due(count) => Ok(count + self.recv_others(batch)?),
                    Mode::On | Mode::Flood | Mode::Wide | Mode::Off => Ok(count),
                }
            }
            Mode::Flood => self.recv_flood(batch, place),
            Mode::Wide => self.recv_wide(batch),
            Mode::Ending => self.recv_rest(batch),
        }
    }

    /// A port on which packets come one at a time, each after a wait (a ping-pong), is not asked again behind a lone
    /// packet: the answer leaves one system call earlier. It stops being such a port when a packet lies there at once.
    pub(super) fn recv_shared(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        let (mut count, mut calls, mut errors) = (0, 0, 0);
        while batch.room() > 0 && errors < ERRORS_MAX {
            match self.recv_joined(self.fd(), batch)? {
                Arrival::Nothing => {
                    batch.rhythm.note_empty(calls);
                    batch.rhythm.note_drained();
                    break;
                }
                Arrival::Again => errors += 1,
                Arrival::Packets(1, from) if count == 0 && batch.rhythm.is_sparse() => {
                    if let Some(joins) = batch.rhythm.note_lone(from) {
                        self.begin_direct(batch, from, Mode::On, joins);
                    }
                    return Ok(1);
                }
                Arrival::Packets(more, from) => {
                    count += more;
                    calls += 1;
                    if batch.rhythm.note_run(from, more) {
                        self.begin_direct(batch, from, Mode::Flood, false);
                    } else if self.direct.is_wished(from) {
                        let joins = !batch.rhythm.are_singles();
                        self.begin_direct(batch, from, Mode::Flood, joins);
                    }
                    if batch.rhythm.is_short_of_room() && self.direct.mode() == Mode::Off {
                        self.begin_wide(batch);
                    }
                    if calls == 1 && batch.rhythm.take_sparse() && batch.bytes() <= LONE_BYTES_MAX {
                        if let Some(joins) = batch.rhythm.note_joined(from, self.counters.send_calls.get()) {
                            self.begin_direct(batch, from, Mode::On, joins);
                        }
                        break;
                    }
                }
            }
        }
        Ok(count)
    }

    fn begin_direct(&self, batch: &mut RecvBatch, peer: SocketAddr, mode: Mode, joins: bool) {
        if self.direct.mode() != Mode::Off {
            return;
        }
        let had = self.direct.fd();
        self.direct.begin(&self.socket, self.local, self.buffer_bytes, peer, mode, joins);
        if self.direct.fd() != had {
            batch.note_new_fds();
        }
        batch.rhythm.begin(self.direct.mode());
    }

    /// What the shared socket holds of the peer that has its own since a moment ago.
    #[inline]
    pub(super) fn recv_earlier(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        if !batch.rhythm.is_draining() {
            return Ok(0);
        }
        self.recv_shared(batch)
    }

    /// The shared socket's packets while a peer has a socket of its own.
    pub(super) fn recv_others(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        let others = self.recv_shared(batch)?;
        if batch.rhythm.note_others(others) {
            self.end_preference();
        }
        Ok(others)
    }

    /// The peer's packets come as all others.
    fn end_preference(&self) {
        match self.direct.mode() {
            Mode::Wide => self.end_wide(),
            Mode::Off | Mode::On | Mode::Flood | Mode::Ending => self.direct.end(self.local),
        }
    }

    /// A peer's packets, which come in runs, from its own socket. What the shared one holds of them came before.
    fn recv_flood(&self, batch: &mut RecvBatch, place: &mut [u8]) -> io::Result<usize> {
        let mut count = self.recv_earlier(batch)?;
        // Others come before it, as it may leave no room for them.
        if batch.rhythm.is_flood_look_due() {
            count += self.recv_others(batch)?;
            if self.direct.mode() != Mode::Flood {
                return Ok(count);
            }
        }
        let of_flood = match self.recv_placed(batch, place)? {
            Some(placed) => placed,
            None => self.recv_until_empty(batch)?.0,
        };
        count += of_flood;
        match batch.rhythm.note_flood(of_flood) {
            Flood::GoesOn if batch.rhythm.is_short_of_room() && self.is_narrow => {
                self.direct.end(self.local);
            }
            Flood::GoesOn => {}
            // who sends much there has it however packets come
            Flood::Ebbed if self.direct.take_needed() => {}
            Flood::Ebbed => self.direct.set_mode(Mode::On),
            Flood::Over if self.direct.joins() && self.direct.take_needed() => batch.rhythm.prolong_flood(),
            Flood::Over => self.direct.end(self.local),
        }
        Ok(count)
    }

    #[cold]
    fn count_truncated(&self) -> Arrival {
        self.counters.receive_truncated.add(1);
        Arrival::Again
    }

    /// A packet, or several that the kernel joined; the size of the pieces is in a control message.
    pub(super) fn recv_joined(&self, fd: RawFd, batch: &mut RecvBatch) -> io::Result<Arrival> {
        self.recv_joined_from(fd, None, batch)
    }

    /// The same, without the address where that is `known`.
    fn recv_joined_from(
        &self,
        fd: RawFd,
        known: Option<SocketAddr>,
        batch: &mut RecvBatch,
    ) -> io::Result<Arrival> {
        let mut from = Storage::uninit();
        let mut control = MaybeUninit::<Control>::uninit();
        let region = batch.region();
        let mut iov = libc::iovec { iov_base: region.as_mut_ptr().cast(), iov_len: REGION_BYTES };
        let mut message = libc::msghdr {
            msg_name: if known.is_some() { ptr::null_mut() } else { from.as_mut_ptr().cast() },
            msg_namelen: if known.is_some() { 0 } else { address::STORAGE_BYTES },
            msg_iov: &raw mut iov,
            msg_iovlen: 1,
            msg_control: control.as_mut_ptr().cast(),
            msg_controllen: size_of::<Control>(),
            msg_flags: 0,
        };
        // SAFETY: name, region and control room live, are ours, and have the lengths given; a region has at least
        // REGION_BYTES.
        let len = unsafe { sys::recvmsg(fd, &raw mut message, libc::MSG_DONTWAIT) };
        let Ok(len) = usize::try_from(len) else {
            return self.handle_recv_error(&io::Error::last_os_error(), batch);
        };
        match known.or_else(|| address::parse(&from, message.msg_namelen)) {
            Some(from) if message.msg_flags & libc::MSG_TRUNC == 0 => {
                let segment = segment_bytes(&message).unwrap_or(len);
                Ok(self.deliver(batch, from, len, segment))
            }
            _ => Ok(self.count_truncated()),
        }
    }

    fn deliver(&self, batch: &mut RecvBatch, from: SocketAddr, len: usize, segment: usize) -> Arrival {
        // SAFETY: the kernel has just written `len` bytes to the region.
        let packets = unsafe { batch.push_region(from, len, segment) };
        self.counters.received_packets.add_alone(packets);
        self.counters.received_bytes.add_alone(len);
        self.counters.receive_calls.add_alone(1);
        Arrival::Packets(packets, from)
    }

    #[cold]
    fn handle_recv_error(&self, error: &io::Error, batch: &mut RecvBatch) -> io::Result<Arrival> {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => {
                if self.has_reports.load(Ordering::Relaxed) {
                    self.read_reports(batch);
                }
                Ok(Arrival::Nothing)
            }
            Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT) | None => Err(io::Error::from(error.kind())),
            // What ICMP told of a packet sent earlier, by any of its codes; a datagram with a bad checksum; no memory. None harms the
            // socket, but what is told stays there until it is read, and the descriptor is ready as long.
            Some(_) => {
                self.counters.receive_errors.add(1);
                self.read_reports(batch);
                Ok(Arrival::Again)
            }
        }
    }

    /// Takes what hosts said of packets sent earlier. A message that comes while this reads fails the next call.
    #[cold]
    fn read_reports(&self, batch: &mut RecvBatch) {
        self.has_reports.store(false, Ordering::Relaxed);
        let of_flood = self.wide().map(|wide| wide.basins().fds());
        let own = [self.fd()].into_iter().chain(self.direct.fd());
        for fd in own.chain(of_flood.into_iter().flatten()) {
            if refusals::read(fd, |refusal| batch.push_refusal(refusal)) {
                self.has_reports.store(true, Ordering::Relaxed);
            }
        }
    }
}
