//! The second socket: from a peer with whom messages go to and fro, or that was left.

use std::io;
use std::os::fd::RawFd;
use std::ptr;

use super::{Arrival, ERRORS_MAX, Udp};
use crate::udp::address::{self, Storage};
use crate::udp::direct::Mode;
use crate::udp::rhythm::Next;
use crate::{RecvBatch, recv_batch::REGION_BYTES, sys};

impl Udp {
    /// At most one packet, or some that were joined, by the cheapest call there is, from the socket of one peer.
    pub(super) fn recv_direct(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        let Some(fd) = self.direct.fd() else { return Ok(0) };
        let mut arrival = self.recv_own(fd, batch)?;
        for _ in 1..batch.looks() {
            let Arrival::Nothing = arrival else { break };
            batch.rhythm.note_direct_empty();
            arrival = self.recv_own(fd, batch)?;
        }
        match arrival {
            Arrival::Nothing => {
                batch.rhythm.note_direct_empty();
                Ok(0)
            }
            Arrival::Again => Ok(0),
            Arrival::Packets(count, _) => {
                match batch.rhythm.note_direct(self.counters.send_calls.get()) {
                    // What is lone comes by a cheaper call.
                    Next::Stop if self.direct.joins() && batch.rhythm.note_joins(count) => {
                        self.direct.end(self.local);
                    }
                    Next::Stop => {}
                    Next::Flood => self.direct.set_mode(Mode::Flood),
                    Next::End => self.direct.end(self.local),
                }
                Ok(count)
            }
        }
    }

    /// What lies in the socket of a peer that is to use the shared one again, and behind it what that one holds. What the kernel
    /// was just delivering may come to either: the second one is read first for some turns.
    #[cold]
    pub(super) fn recv_rest(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        let (count, is_empty) = match self.own_wide(batch) {
            Some(wide) => self.recv_basins(wide.basins(), batch)?,
            None => self.recv_until_empty(batch)?,
        };
        if !is_empty {
            return Ok(count);
        }
        self.note_wide_empty(batch);
        if batch.rhythm.note_rest_empty() {
            self.leave_wide();
            self.direct.set_mode(Mode::Off);
        }
        Ok(count + self.recv_shared(batch)?)
    }

    /// Reads the second socket until it is empty, which is told, or the batch full.
    pub(in crate::udp) fn recv_until_empty(&self, batch: &mut RecvBatch) -> io::Result<(usize, bool)> {
        let Some(fd) = self.direct.fd() else { return Ok((0, true)) };
        if let Some(from) = batch.origin.known(self.direct.connecting())
            && !self.direct.joins()
        {
            return self.recv_run(fd, from, batch);
        }
        let (mut count, mut errors) = (0, 0);
        while batch.room() > 0 && errors < ERRORS_MAX {
            match self.recv_own(fd, batch)? {
                Arrival::Nothing => return Ok((count, true)),
                Arrival::Again => errors += 1,
                Arrival::Packets(more, _) => count += more,
            }
        }
        Ok((count, false))
    }

    /// What the kernel was delivering to the second socket when that was found empty for the last time. Nobody else takes it,
    /// and who sleeps on the descriptors would find one of them readable for ever.
    pub(super) fn recv_late(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        if self.direct.fd().is_none() || !batch.rhythm.is_look_due(0) {
            return Ok(0);
        }
        Ok(self.recv_until_empty(batch)?.0)
    }

    /// What comes next of the second socket.
    #[inline]
    fn recv_own(&self, fd: RawFd, batch: &mut RecvBatch) -> io::Result<Arrival> {
        if self.direct.joins() { self.recv_own_joined(fd, batch) } else { self.recv_plain(fd, batch) }
    }

    fn recv_own_joined(&self, fd: RawFd, batch: &mut RecvBatch) -> io::Result<Arrival> {
        let connecting = self.direct.connecting();
        let arrival = self.recv_joined_from(fd, batch.origin.known(connecting), batch)?;
        if let Arrival::Packets(_, from) = arrival {
            batch.origin.note(connecting, from);
        }
        Ok(arrival)
    }

    /// One packet of the second socket, which the kernel did not join with others: no message header, no control room, which
    /// saves 250 ns, and no address where only one is possible.
    fn recv_plain(&self, fd: RawFd, batch: &mut RecvBatch) -> io::Result<Arrival> {
        let connecting = self.direct.connecting();
        let known = batch.origin.known(connecting);
        let mut from = Storage::uninit();
        let mut from_len = address::STORAGE_BYTES;
        let region = batch.region().as_mut_ptr().cast();
        let (name, name_len) = match known {
            Some(_) => (ptr::null_mut(), ptr::null_mut()),
            None => (from.as_mut_ptr().cast(), &raw mut from_len),
        };
        // SAFETY: the region, and the room for the address if that is asked for, live, are ours, and have the lengths given; a
        // region has at least REGION_BYTES.
        let len = unsafe { sys::recvfrom(fd, region, REGION_BYTES, libc::MSG_DONTWAIT, name, name_len) };
        let Ok(len) = usize::try_from(len) else {
            return self.handle_recv_error(&io::Error::last_os_error(), batch);
        };
        if let Some(from) = known {
            return Ok(self.deliver(batch, from, len, len));
        }
        match address::parse(&from, from_len) {
            Some(from) => {
                batch.origin.note(connecting, from);
                Ok(self.deliver(batch, from, len, len))
            }
            None => Ok(self.count_truncated()),
        }
    }
}
