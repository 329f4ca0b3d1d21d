//! Sending: what lies in pages of its own from there, a lone one by `sendto` or `sendmsg`, everything else by groups that the kernel cuts.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::address::RawAddress;
use super::contest::Mark;
use super::scatter::Scatter;
use super::{Udp, options};
use crate::link::LONE_BYTES;
use crate::send_batch::{Cursor, InPages};
use crate::{Frame, SendBatch, monotonic_nanos, sys};

/// How often a call is made while its error may belong to a packet sent earlier.
const TRIES_MAX: usize = 4;

/// Errors that tell of a packet sent earlier, or of the present one; the same call made again shows which.
const REPORTED: [i32; 9] = [
    libc::EACCES,
    libc::EHOSTUNREACH,
    libc::ENETUNREACH,
    libc::EHOSTDOWN,
    libc::ENONET,
    libc::EPROTO,
    libc::ENOPROTOOPT,
    libc::EOPNOTSUPP,
    libc::EMSGSIZE,
];

impl Udp {
    pub(super) fn send_batch(&self, batch: &mut SendBatch) -> io::Result<usize> {
        batch.send_by(|batch, at, left| self.send_some(batch, at, left))
    }

    /// Sends, or drops, some of the `left` packets from `at` on, and returns how many.
    fn send_some(&self, batch: &SendBatch, at: Cursor, left: usize) -> io::Result<usize> {
        let frame = batch.at(at);
        if frame.may_fragment {
            return self.send_fragmentable(&frame);
        }
        let group_max = self.group_max.load(Ordering::Relaxed);
        if let Some(pages) = batch.in_pages(at, group_max)
            && self.send_in_place(frame.to, &pages)
        {
            self.count_sent(pages.count, pages.bytes.len());
            self.counters.sent_in_place.add(pages.count);
            return Ok(pages.count);
        }
        if left == 1 {
            return self.send_lone(&frame, true);
        }
        let mut scatter = Scatter::new();
        match self.persist(|| self.send_groups(&mut scatter, batch, at, group_max)) {
            Ok(count) => Ok(count),
            Err(error) if scatter.packets(1) > 1 && is_about_gso(&error) => {
                self.send_singly(batch, at, scatter.packets(1), &error)
            }
            Err(error) => self.handle_error(error, frame.to, scatter.packets(1)),
        }
    }

    /// Sends packets without a copy, if their target has a socket, the system takes them, and a copy is not faster.
    fn send_in_place(&self, to: SocketAddr, pages: &InPages<'_>) -> bool {
        if !self.direct.is_used() {
            if self.in_place.may_take(pages) {
                self.direct.wish(to);
            }
            return false;
        }
        let mark = || Mark { nanos: monotonic_nanos(), bytes: self.counters.sent_bytes.get() };
        let cut_bytes = if pages.count > 1 { pages.size } else { 0 };
        let way = self.direct.cut_way_to(to, cut_bytes, || self.in_place.takes(pages, mark));
        let Some((socket, _held)) = way else { return false };
        self.direct.note_needed();
        self.in_place.send(socket, pages).unwrap_or_else(|error| {
            // It is sent again, copied, whomever the error is about.
            self.may_belong_to_another(&error, None);
            false
        })
    }

    /// Packets of the first groups from `at` on; after an error none was sent.
    fn send_groups(
        &self,
        scatter: &mut Scatter,
        batch: &SendBatch,
        at: Cursor,
        group_max: usize,
    ) -> io::Result<usize> {
        let messages = scatter.fill(batch, at, group_max, self.local.is_ipv6());
        if let [one] = messages {
            // SAFETY: as below.
            let bytes = unsafe { self.send_group(batch.at(at).to, &one.msg_hdr) }?;
            let packets = scatter.packets(1);
            self.count_sent(packets, bytes);
            return Ok(packets);
        }
        // SAFETY: the messages point to addresses, control messages and pieces within `scatter` and to bytes of
        // `batch`, all of which live and stay where they are through the call.
        let sent = unsafe { sys::sendmmsg(self.fd(), messages, libc::MSG_DONTWAIT) };
        let sent = usize::try_from(sent).map_err(|_| io::Error::last_os_error())?;
        if sent < messages.len() {
            // The kernel does not tell the error that made it stop, and forgets it.
            self.has_reports.store(true, Ordering::Relaxed);
        }
        let bytes = messages[..sent].iter().map(|message| message.msg_len as usize).sum();
        let packets = scatter.packets(sent);
        self.count_sent(packets, bytes);
        Ok(packets)
    }

    /// One group for `to`, by the socket of its peer, if it has one.
    ///
    /// # Safety
    /// What `message` points to lives through the call.
    unsafe fn send_group(&self, to: SocketAddr, message: &libc::msghdr) -> io::Result<usize> {
        if let Some((socket, _held)) = self.direct.way_to(to) {
            let message = libc::msghdr { msg_name: ptr::null_mut(), msg_namelen: 0, ..*message };
            // SAFETY: passed on to the caller.
            let sent = unsafe { sys::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) };
            match usize::try_from(sent) {
                Ok(bytes) => return Ok(bytes),
                // As with a lone one: the shared socket may have room, or a way.
                Err(_) => self.may_belong_to_another(&io::Error::last_os_error(), None),
            };
        }
        // SAFETY: passed on to the caller.
        let sent = unsafe { sys::sendmsg(self.fd(), message, libc::MSG_DONTWAIT) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// One packet: no control message, no list of messages. `may_be_direct`: by the socket of its peer, if it has one.
    fn send_lone(&self, frame: &Frame<'_>, may_be_direct: bool) -> io::Result<usize> {
        self.try_lone(frame, may_be_direct).or_else(|error| self.handle_error(error, frame.to, 1))
    }

    /// The same, with whatever error it is that it did not leave for.
    fn try_lone(&self, frame: &Frame<'_>, may_be_direct: bool) -> io::Result<usize> {
        let mut sent = self.persist(|| self.send_one(frame, may_be_direct));
        if may_be_direct && sent.is_err() && self.direct.is_used() {
            // The shared socket may have room, and if not, it is its descriptor that tells when it has again. And it may have a way from
            // this host, whose address may be another than when the other was connected.
            sent = self.persist(|| self.send_one(frame, false));
        }
        self.count_sent(1, sent?);
        Ok(1)
    }

    /// What an error of `count` packets to `to` means for them.
    #[cold]
    fn handle_error(&self, error: io::Error, to: SocketAddr, count: usize) -> io::Result<usize> {
        self.no_way.note(to, &error);
        self.counters.handle_send_error(error, count)
    }

    pub(super) fn send_at_once(&self, to: SocketAddr, head: &[u8], body: &[u8]) -> bool {
        let mut packet = [0; LONE_BYTES];
        let len = head.len() + body.len();
        if len > LONE_BYTES {
            return false;
        }
        packet[..head.len()].copy_from_slice(head);
        packet[head.len()..len].copy_from_slice(body);
        let frame = Frame { to, head: &packet[..len], body: &[], may_fragment: false };
        let Ok(bytes) = self.persist(|| self.send_one(&frame, true)) else { return false };
        self.count_sent(1, bytes);
        true
    }

    /// Makes a call again while its error may belong to a packet sent earlier.
    fn persist<T>(&self, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let mut result = call();
        let mut last = None;
        for _ in 1..TRIES_MAX {
            match &result {
                Err(error) if self.may_belong_to_another(error, last) => last = error.raw_os_error(),
                _ => break,
            }
            result = call();
        }
        result
    }

    fn send_one(&self, frame: &Frame<'_>, may_be_direct: bool) -> io::Result<usize> {
        let way = may_be_direct.then(|| self.direct.way_to(frame.to)).flatten();
        let address = RawAddress::new(frame.to, self.local.is_ipv6());
        let (fd, address) = match &way {
            Some((socket, _)) => (socket.as_raw_fd(), None),
            None => (self.fd(), Some(&address)),
        };
        let sent = if frame.body.is_empty() {
            send_bytes(fd, frame.head, address)
        } else {
            send_pieces(fd, frame, address)
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// The kernel did not cut a group of `count` packets: they leave one by one. If any does, it will not be asked
    /// to cut again, unless it only said that the packets are too large.
    #[cold]
    fn send_singly(
        &self,
        batch: &SendBatch,
        mut at: Cursor,
        count: usize,
        refusal: &io::Error,
    ) -> io::Result<usize> {
        self.counters.gso_refused.add(1);
        let oversize = self.counters.dropped_oversize.get();
        let mut has_left = false;
        for done in 0..count {
            let frame = batch.at(at);
            let sent = self.try_lone(&frame, true);
            has_left |= sent.is_ok();
            match sent.or_else(|error| self.handle_error(error, frame.to, 1)) {
                Ok(_) => batch.advance(&mut at, 1),
                Err(error) if done == 0 => return Err(error),
                Err(_) => return Ok(done),
            }
        }
        let is_too_large = refusal.raw_os_error() == Some(libc::EMSGSIZE)
            || self.counters.dropped_oversize.get() != oversize;
        // Packets that are refused by themselves as well, such as for their target, say nothing of groups.
        if has_left && !is_too_large {
            self.group_max.store(1, Ordering::Relaxed);
        }
        Ok(count)
    }

    /// [CDP-MTU-6] A packet that was numbered when the limit was larger goes out in fragments. The socket allows them
    /// for the time of this call; a packet that another thread sends meanwhile may be cut as well, which harms nobody.
    #[cold]
    fn send_fragmentable(&self, frame: &Frame<'_>) -> io::Result<usize> {
        let one_at_a_time = self.fragmenting.lock().unwrap_or_else(PoisonError::into_inner);
        options::allow_fragments(&self.socket, self.local.is_ipv6())?;
        let sent = self.send_lone(frame, false);
        options::forbid_fragments(&self.socket, self.local.is_ipv6())?;
        drop(one_at_a_time);
        if sent.is_ok() {
            self.counters.sent_fragmentable.add(1);
        }
        sent
    }

    fn count_sent(&self, packets: usize, bytes: usize) {
        self.counters.sent_packets.add(packets);
        self.counters.sent_bytes.add(bytes);
        self.counters.send_calls.add(1);
    }

    /// Whether the error may tell of a packet sent earlier, so that the present one was not tried. One that comes again is
    /// about the present packet, unless it is such as only a peer causes.
    #[cold]
    fn may_belong_to_another(&self, error: &io::Error, last: Option<i32>) -> bool {
        let Some(number) = error.raw_os_error().filter(|number| *number != libc::EAGAIN) else {
            return false;
        };
        self.has_reports.store(true, Ordering::Relaxed);
        if number == libc::ECONNREFUSED {
            self.counters.send_refused.add(1);
        }
        matches!(number, libc::EINTR | libc::ECONNREFUSED)
            || (REPORTED.contains(&number) && last != Some(number))
    }
}

/// Where an address lies, and its length; of none where the socket is connected.
fn raw(address: Option<&RawAddress>) -> (*const libc::sockaddr, libc::socklen_t) {
    address.map_or((ptr::null(), 0), |address| (address.as_ptr(), address.len()))
}

fn send_bytes(fd: RawFd, bytes: &[u8], to: Option<&RawAddress>) -> isize {
    let (name, name_len) = raw(to);
    // SAFETY: the bytes and the address live through the call and have the lengths given.
    unsafe { sys::sendto(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT, name, name_len) }
}

fn send_pieces(fd: RawFd, frame: &Frame<'_>, to: Option<&RawAddress>) -> isize {
    let (name, name_len) = raw(to);
    let mut pieces = [frame.head, frame.body]
        .map(|piece| libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() });
    let message = libc::msghdr {
        msg_name: name.cast_mut().cast(),
        msg_namelen: name_len,
        msg_iov: pieces.as_mut_ptr(),
        msg_iovlen: pieces.len(),
        msg_control: ptr::null_mut(),
        msg_controllen: 0,
        msg_flags: 0,
    };
    // SAFETY: pieces and address live through the call.
    unsafe { sys::sendmsg(fd, &raw const message, libc::MSG_DONTWAIT) }
}

/// Whether a group may have been refused because it was to be cut: no checksum offload on the way out (`EIO`), cutting
/// not possible (`EINVAL`), or, on some kernels for the same reason as `EINVAL` on others, too large (`EMSGSIZE`).
fn is_about_gso(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP))
}
