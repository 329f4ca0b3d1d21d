//! Memory that receive windows may promise, and that messages of several packets take, for the whole process ([CDP-LIM-13]).

use std::sync::atomic::{AtomicUsize, Ordering};

use weft_base::limits::RECEIVE_SLOTS_MIN;

/// One connection may take this share of what is left, so that windows grow smaller before anybody is refused.
const SHARE: usize = 512;

/// Windows leave one of so many parts to messages of several packets: what is promised is seldom used, and messages are there.
const PARTS: usize = 4;

/// Bytes promised so far, and the most there may be.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes_max: usize,
    promised: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, promised: AtomicUsize::new(0) }
    }

    /// Bytes promised so far.
    pub(crate) fn promised(&self) -> usize {
        self.promised.load(Ordering::Relaxed)
    }

    /// The most slots for packets of `packet_bytes` that one connection may get at present; where there is no memory for
    /// so few it is refused.
    pub(crate) fn slots_max(&self, packet_bytes: usize) -> u32 {
        self.share(packet_bytes).max(RECEIVE_SLOTS_MIN)
    }

    /// Whether a connection's share of what is left is a window of packets of `packet_bytes`.
    pub(crate) fn has_share(&self, packet_bytes: usize) -> bool {
        self.share(packet_bytes) >= RECEIVE_SLOTS_MIN
    }

    fn share(&self, packet_bytes: usize) -> u32 {
        let left = self.windows_max().saturating_sub(self.promised());
        u32::try_from(left / SHARE / packet_bytes).unwrap_or(u32::MAX)
    }

    /// Reserves exactly so many bytes for windows, or nothing.
    pub(crate) fn reserve_windows(&self, bytes: usize) -> bool {
        self.reserve_of(self.windows_max(), bytes)
    }

    /// Reserves exactly so many bytes for messages of several packets, or nothing.
    pub(crate) fn reserve_bytes(&self, bytes: usize) -> bool {
        self.reserve_of(self.bytes_max, bytes)
    }

    fn windows_max(&self) -> usize {
        self.bytes_max - self.bytes_max / PARTS
    }

    fn reserve_of(&self, bytes_max: usize, bytes: usize) -> bool {
        let mut promised = self.promised();
        while bytes <= bytes_max.saturating_sub(promised) {
            let next = promised + bytes;
            match self.promised.compare_exchange_weak(promised, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => promised = now,
            }
        }
        false
    }

    /// Reserves memory for up to `slots` packets of `packet_bytes`; returns the slots granted and the bytes to give
    /// back. [CDP-WND-2] Only slots for which memory is reserved are promised.
    pub(crate) fn reserve(&self, slots: u32, packet_bytes: usize) -> Option<(u32, usize)> {
        // [CDP-LIM-13] smaller windows, then refusal
        let granted = slots.min(self.slots_max(packet_bytes));
        let bytes = granted as usize * packet_bytes;
        self.reserve_windows(bytes).then_some((granted, bytes))
    }

    /// Gives back what was reserved.
    pub(crate) fn release(&self, bytes: usize) {
        self.promised.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [CDP-LIM-13] Smaller windows, then refusal. [CDP-WND-2] The sum never exceeds what is reserved.
    #[test]
    fn windows_shrink_before_anybody_is_refused() {
        let budget = Budget::new(64 << 20);
        let mut grants = Vec::new();
        while let Some((slots, _)) = budget.reserve(1024, 1500) {
            grants.push(slots);
        }
        assert!(grants.windows(2).all(|pair| pair[0] >= pair[1]), "{grants:?}");
        assert_eq!(grants.last(), Some(&RECEIVE_SLOTS_MIN));
        assert!(budget.promised() <= 64 << 20);
        assert!(grants.len() > 1000);
    }

    /// Windows leave a quarter to messages of several packets, which may take all that is left.
    #[test]
    fn windows_leave_some_to_messages() {
        let budget = Budget::new(1_000);
        assert!(!budget.reserve_windows(751));
        assert!(budget.reserve_windows(750));
        assert!(!budget.reserve_bytes(251));
        assert!(budget.reserve_bytes(250));
        budget.release(750);
        assert!(budget.reserve_bytes(750));
        assert!(!budget.reserve_windows(1));
    }

    #[test]
    fn large_packets_end_before_small_ones_do() {
        let budget = Budget::new(4 * 16 * SHARE * 1_000 / 3);
        assert!(budget.has_share(1_000) && !budget.has_share(1_001));
        assert!(budget.reserve_windows(1_000));
        assert!(!budget.has_share(1_000) && budget.has_share(999));
        assert_eq!(budget.slots_max(1_000), RECEIVE_SLOTS_MIN, "nobody is refused for it");
    }

    #[test]
    fn what_is_given_back_is_granted_again() {
        let budget = Budget::new(32_000);
        let (_, bytes) = budget.reserve(16, 1500).unwrap();
        assert_eq!(budget.reserve(16, 1500), None);
        budget.release(bytes);
        assert!(budget.reserve(16, 1500).is_some());
    }
}
