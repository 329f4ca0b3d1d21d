//! Packets of one peer that floods: they are laid end to end, or their data goes straight to its reader.

use std::io;
use std::mem::{self, MaybeUninit};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::ptr;

use super::{Arrival, ERRORS_MAX, Udp};
use crate::recv_batch::{HEAD_BYTES, Placed, REGION_BYTES};
use crate::{RecvBatch, sys};

impl Udp {
    /// Reads the second socket until it is empty, which is told, or the batch full. All packets are known to be from one peer: they are laid
    /// end to end, and counted together.
    pub(super) fn recv_run(
        &self,
        fd: RawFd,
        from: SocketAddr,
        batch: &mut RecvBatch,
    ) -> io::Result<(usize, bool)> {
        let (mut count, mut bytes, mut errors) = (0, 0, 0);
        let end = loop {
            if batch.room() == 0 || errors == ERRORS_MAX {
                break Ok(false);
            }
            let region = batch.region_in_run().as_mut_ptr().cast();
            let (name, name_len) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: the region lives, is ours, and has at least REGION_BYTES; no address is asked for.
            let len = unsafe { sys::recvfrom(fd, region, REGION_BYTES, libc::MSG_DONTWAIT, name, name_len) };
            if let Ok(len) = usize::try_from(len) {
                // SAFETY: the kernel has just written `len` bytes to the region.
                unsafe { batch.push_in_run(from, len) };
                batch.note_alone(len);
                (count, bytes) = (count + 1, bytes + len);
                continue;
            }
            match self.handle_recv_error(&io::Error::last_os_error(), batch) {
                Ok(Arrival::Nothing) => break Ok(true),
                Ok(_) => errors += 1,
                Err(error) => break Err(error),
            }
        };
        batch.end_run();
        self.counters.received_packets.add_alone(count);
        self.counters.received_bytes.add_alone(bytes);
        self.counters.receive_calls.add_alone(count);
        end.map(|is_empty| (count, is_empty))
    }

    /// Receives packets of the peer whose second socket is connected, and has their data copied to `place`, as long as they are as long
    /// as the last. `None`, and nothing was received, where the next one cannot be expected to go there. What is left in the socket waits
    /// for the next turn, when the reader has room again.
    pub(super) fn recv_placed(&self, batch: &mut RecvBatch, place: &mut [u8]) -> io::Result<Option<usize>> {
        if place.is_empty() || self.direct.joins() {
            return Ok(None);
        }
        let Some(from) = batch.origin.known(self.direct.connecting()) else { return Ok(None) };
        let Some((fd, len)) = self.direct.fd().zip(batch.expected_data(place.len())) else {
            return Ok(None);
        };
        let (mut count, mut bytes, mut at, mut is_empty) = (0, 0, 0, false);
        while batch.room() > 0 && place.len() - at >= len {
            let mut head = [0; HEAD_BYTES];
            let is_in_one = at >= HEAD_BYTES && place.len() - at >= REGION_BYTES;
            let came = if is_in_one {
                recv_in_one(fd, &mut head, &mut place[at - HEAD_BYTES..])
            } else {
                // behind what is expected: no packet is longer than a region
                let rest = &mut batch.region()[HEAD_BYTES + len..];
                recv_in_parts(fd, &mut head, &mut place[at..at + len], rest)
            };
            let Ok(came) = usize::try_from(came) else {
                let told = self.handle_recv_error(&io::Error::last_os_error(), batch);
                is_empty = true;
                // what was placed is to be seen to in this turn: the next one meets an error that lasts
                if count == 0 {
                    told?;
                }
                break;
            };
            (count, bytes) = (count + 1, bytes + came);
            if came != HEAD_BYTES + len {
                let end = if is_in_one { place.len() } else { at + len };
                let data = &place[at..end.min(at + came.saturating_sub(HEAD_BYTES))];
                let head = &head[..came.min(HEAD_BYTES)];
                // SAFETY: the kernel has just written so many bytes: those that are in neither piece lie behind them in the region.
                unsafe { batch.push_split(from, head, data, came) };
                batch.note_alone(came);
                break;
            }
            batch.push_placed(Placed { from, head, len });
            at += len;
        }
        batch.note_cut(!is_empty);
        self.counters.received_packets.add_alone(count);
        self.counters.received_bytes.add_alone(bytes);
        self.counters.receive_calls.add_alone(count);
        self.counters.received_placed.add_alone(batch.placed());
        Ok(Some(count))
    }
}

/// Receives a packet: its head, its data, and what it has more than that. Its length, or a negative number.
fn recv_in_parts(
    fd: RawFd,
    head: &mut [u8; HEAD_BYTES],
    data: &mut [u8],
    rest: &mut [MaybeUninit<u8>],
) -> isize {
    let mut parts = [
        libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: HEAD_BYTES },
        libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() },
        libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() },
    ];
    let mut message = libc::msghdr {
        msg_name: ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: parts.as_mut_ptr(),
        msg_iovlen: parts.len(),
        msg_control: ptr::null_mut(),
        msg_controllen: 0,
        msg_flags: 0,
    };
    // SAFETY: the three parts live, are ours, and have the lengths given; no address and no control message is asked for.
    unsafe { sys::recvmsg(fd, &raw mut message, libc::MSG_DONTWAIT) }
}

/// The same, with the head where `place` begins for as long as the call takes: what lies there is put back (decision 0107).
fn recv_in_one(fd: RawFd, head: &mut [u8; HEAD_BYTES], place: &mut [u8]) -> isize {
    let (name, name_len) = (ptr::null_mut(), ptr::null_mut());
    let begin = place.first_chunk().copied();
    // SAFETY: the place lives, is ours, and is as long as said; no address is asked for.
    let came = unsafe {
        sys::recvfrom(fd, place.as_mut_ptr().cast(), place.len(), libc::MSG_DONTWAIT, name, name_len)
    };
    if let Some((at, begin)) = place.first_chunk_mut().zip(begin) {
        *head = mem::replace(at, begin);
    }
    came
}
