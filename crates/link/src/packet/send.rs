//! Sending: a small lone packet by `send`, everything else by `sendmmsg`, each packet gathered where it lies.

use std::io;
use std::net::SocketAddr;
use std::ptr;

use super::ethernet::{self, FRAME_BYTES_MIN, HEAD_BYTES};
use super::{Ethernet, Mac};
use crate::link::LONE_BYTES;
use crate::send_batch::Cursor;
use crate::{SendBatch, sys};

/// Packets that leave with one system call.
const GROUP_PACKETS: usize = 32;
/// Pieces of a frame: its head, the packet's head, its body, padding.
const PIECES: usize = 4;
/// [CDP-ENC-3] What short frames end with.
static PADDING: [u8; FRAME_BYTES_MIN] = [0; FRAME_BYTES_MIN];

impl Ethernet {
    pub(super) fn send_batch(&self, batch: &mut SendBatch) -> io::Result<usize> {
        batch.send_by(|batch, at, left| self.send_some(batch, at, left))
    }

    /// Sends, or drops, some of the `left` packets from `at` on, and returns how many.
    fn send_some(&self, batch: &SendBatch, at: Cursor, left: usize) -> io::Result<usize> {
        let first = batch.at(at);
        let Some(target) = target(first.to) else {
            self.counters.dropped_unreachable.add(1);
            return Ok(1);
        };
        let sent = match first.len() {
            len if left == 1 && len <= LONE_BYTES => self.send_frame(target, first.head, first.body),
            _ => self.send_group(batch, at, left),
        };
        let (packets, bytes) = match sent {
            Ok(sent) => sent,
            Err(error) => return self.counters.handle_send_error(error, 1),
        };
        self.count_sent(packets, bytes);
        Ok(packets)
    }

    pub(super) fn send_at_once(&self, to: SocketAddr, head: &[u8], body: &[u8]) -> bool {
        let Some(target) = target(to).filter(|_| head.len() + body.len() <= LONE_BYTES) else { return false };
        let Ok((packets, bytes)) = self.send_frame(target, head, body) else { return false };
        self.count_sent(packets, bytes);
        true
    }

    #[inline]
    fn count_sent(&self, packets: usize, bytes: usize) {
        self.counters.sent_packets.add(packets);
        self.counters.sent_bytes.add(bytes);
        self.counters.send_calls.add(1);
    }

    /// Sends a packet of up to [`LONE_BYTES`] as one piece of memory.
    #[inline]
    fn send_frame(&self, target: Mac, head: &[u8], body: &[u8]) -> io::Result<(usize, usize)> {
        let mut frame = [0; HEAD_BYTES + LONE_BYTES];
        let (ethernet, rest) = frame.split_at_mut(HEAD_BYTES);
        ethernet.copy_from_slice(&ethernet::emit(target, self.own));
        let bytes = head.len() + body.len();
        rest[..head.len()].copy_from_slice(head);
        rest[head.len()..bytes].copy_from_slice(body);
        // [CDP-ENC-3] what lies behind the packet is zero
        let len = (HEAD_BYTES + bytes).max(FRAME_BYTES_MIN);
        // SAFETY: the frame lives through the call and is longer than `len`.
        let sent =
            unsafe { sys::sendto(self.fd(), frame.as_ptr().cast(), len, libc::MSG_DONTWAIT, ptr::null(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok((1, bytes)) }
    }

    /// As many packets as the kernel takes at once, and the bytes of these.
    fn send_group(&self, batch: &SendBatch, mut at: Cursor, left: usize) -> io::Result<(usize, usize)> {
        let mut heads = [[0; HEAD_BYTES]; GROUP_PACKETS];
        // SAFETY: all bits zero are a value of this type: no pieces.
        let mut pieces: [[libc::iovec; PIECES]; GROUP_PACKETS] = unsafe { std::mem::zeroed() };
        // SAFETY: all bits zero are a value of this type: messages to the bound interface, without pieces.
        let mut messages: [libc::mmsghdr; GROUP_PACKETS] = unsafe { std::mem::zeroed() };
        let mut sizes = [0; GROUP_PACKETS];
        let mut count = 0;
        for _ in 0..left.min(GROUP_PACKETS) {
            let packet = batch.at(at);
            let Some(target) = target(packet.to) else { break };
            heads[count] = ethernet::emit(target, self.own);
            let missing = FRAME_BYTES_MIN.saturating_sub(HEAD_BYTES + packet.len());
            let parts = [&heads[count][..], packet.head, packet.body, &PADDING[..missing]];
            let mut used = 0;
            for part in parts.into_iter().filter(|part| !part.is_empty()) {
                let base = part.as_ptr().cast_mut().cast();
                pieces[count][used] = libc::iovec { iov_base: base, iov_len: part.len() };
                used += 1;
            }
            messages[count].msg_hdr.msg_iov = pieces[count].as_mut_ptr();
            messages[count].msg_hdr.msg_iovlen = used;
            sizes[count] = packet.len();
            count += 1;
            batch.advance(&mut at, 1);
        }
        // SAFETY: the messages point to pieces, those to heads, padding and bytes of `batch`, all of which live and stay where
        // they are through the call.
        let sent = unsafe { sys::sendmmsg(self.fd(), &mut messages[..count], libc::MSG_DONTWAIT) };
        let Ok(sent) = usize::try_from(sent) else { return Err(io::Error::last_os_error()) };
        Ok((sent, sizes[..sent].iter().sum()))
    }
}

/// [CDP-ENC-4] The one interface that a frame is for.
#[inline]
fn target(to: SocketAddr) -> Option<Mac> {
    Mac::of_underlay(to).filter(|mac| mac.is_unicast())
}
