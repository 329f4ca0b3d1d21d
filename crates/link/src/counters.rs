//! What a link over a socket of the kernel counts. Relaxed: each is a sum that nobody orders anything by.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::LinkStats;

/// The atomics behind [`LinkStats`]; the fields mean the same.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) received_packets: Counter,
    pub(crate) received_bytes: Counter,
    pub(crate) receive_calls: Counter,
    pub(crate) received_placed: Counter,
    pub(crate) receive_truncated: Counter,
    pub(crate) receive_overflows: Counter,
    pub(crate) receive_errors: Counter,
    pub(crate) sent_packets: Counter,
    pub(crate) sent_bytes: Counter,
    pub(crate) send_calls: Counter,
    pub(crate) send_would_block: Counter,
    pub(crate) dropped_oversize: Counter,
    pub(crate) dropped_no_buffers: Counter,
    pub(crate) dropped_unreachable: Counter,
    pub(crate) send_refused: Counter,
    pub(crate) gso_refused: Counter,
    pub(crate) sent_fragmentable: Counter,
    pub(crate) sent_in_place: Counter,
}

impl Counters {
    pub(crate) fn read(&self) -> LinkStats {
        LinkStats {
            received_packets: self.received_packets.get(),
            received_bytes: self.received_bytes.get(),
            receive_calls: self.receive_calls.get(),
            received_placed: self.received_placed.get(),
            receive_truncated: self.receive_truncated.get(),
            receive_overflows: self.receive_overflows.get(),
            receive_errors: self.receive_errors.get(),
            sent_packets: self.sent_packets.get(),
            sent_bytes: self.sent_bytes.get(),
            send_calls: self.send_calls.get(),
            send_would_block: self.send_would_block.get(),
            dropped_oversize: self.dropped_oversize.get(),
            dropped_no_buffers: self.dropped_no_buffers.get(),
            dropped_unreachable: self.dropped_unreachable.get(),
            send_refused: self.send_refused.get(),
            gso_refused: self.gso_refused.get(),
            sent_fragmentable: self.sent_fragmentable.get(),
            sent_in_place: self.sent_in_place.get(),
        }
    }

    /// Decides what an error of a send call means for the `count` packets it is about: 0 to try them again, `count` to drop
    /// them, or an error to keep them.
    #[cold]
    pub(crate) fn handle_send_error(&self, error: io::Error, count: usize) -> io::Result<usize> {
        let dropped = match error.raw_os_error() {
            Some(libc::EINTR) => return Ok(0),
            Some(libc::EAGAIN) => {
                self.send_would_block.add(1);
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Some(libc::EMSGSIZE) => &self.dropped_oversize,
            Some(libc::ENOBUFS | libc::ENOMEM) => &self.dropped_no_buffers,
            Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT) => return Err(error),
            _ => &self.dropped_unreachable,
        };
        dropped.add(count);
        Ok(count)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// As [`Counter::add`], where one thread at a time counts: the receive calls of one port.
    pub(crate) fn add_alone(&self, count: usize) {
        self.0.store(self.get() + count as u64, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
