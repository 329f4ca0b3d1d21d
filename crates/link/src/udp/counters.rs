//! What a UDP link counts. Relaxed: each is a sum that nobody orders anything by.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::LinkStats;

/// The atomics behind [`LinkStats`]; the fields mean the same.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) received_packets: Counter,
    pub(super) received_bytes: Counter,
    pub(super) receive_calls: Counter,
    pub(super) receive_truncated: Counter,
    pub(super) receive_errors: Counter,
    pub(super) sent_packets: Counter,
    pub(super) sent_bytes: Counter,
    pub(super) send_calls: Counter,
    pub(super) send_would_block: Counter,
    pub(super) dropped_oversize: Counter,
    pub(super) dropped_no_buffers: Counter,
    pub(super) dropped_unreachable: Counter,
    pub(super) send_refused: Counter,
    pub(super) gso_refused: Counter,
    pub(super) sent_fragmentable: Counter,
}

impl Counters {
    pub(super) fn read(&self) -> LinkStats {
        LinkStats {
            received_packets: self.received_packets.get(),
            received_bytes: self.received_bytes.get(),
            receive_calls: self.receive_calls.get(),
            receive_truncated: self.receive_truncated.get(),
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
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// As [`Counter::add`], where one thread at a time counts: the receive calls of one port.
    pub(super) fn add_alone(&self, count: usize) {
        self.0.store(self.get() + count as u64, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
