//! The right to hand a slot's packets to the link.
//!
//! Transmission keeps the order of numbers although the link is called without the lock: `transmitting` is claimed under
//! the lock by whoever polls packets out, and given back after the link took them. Who finds it claimed marks it, and the
//! claimant polls again. An answer that leaves before it is queued leaves under the lock, while nobody has the claim (see `answer`).

use std::sync::atomic::Ordering;

use weft_base::Instant;

use crate::slot::{Guard, Slot};

pub(crate) const IDLE: u8 = 0;
const CLAIMED: u8 = 1;
const CLAIMED_AGAIN: u8 = 2;

impl Slot {
    /// Claims the right to hand this slot's packets to the link. False if another thread has it, which then polls again on the
    /// caller's behalf. Claims are taken and marked under the lock, whose guard shows it; only the way back is without.
    #[inline]
    pub(crate) fn claim_transmit(&self, _held: &Guard<'_>) -> bool {
        if self.transmitting.load(Ordering::Acquire) != IDLE {
            let marked = self.transmitting.compare_exchange(
                CLAIMED,
                CLAIMED_AGAIN,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            if marked != Err(IDLE) {
                return false;
            }
        }
        self.transmitting.store(CLAIMED, Ordering::Relaxed);
        true
    }

    /// Whether nobody has the right to hand this slot's packets to the link; it stays so while the lock is held.
    #[inline]
    pub(crate) fn is_transmit_free(&self, _held: &Guard<'_>) -> bool {
        self.transmitting.load(Ordering::Acquire) == IDLE
    }

    /// Gives a claim back that nothing came of, under the same lock as it was taken: nobody can have marked it.
    #[inline]
    pub(crate) fn unclaim_transmit(&self, _held: &Guard<'_>) {
        self.transmitting.store(IDLE, Ordering::Release);
    }

    /// When the link last took packets of this slot: what is sent soon after gathers for a moment.
    #[inline]
    pub(crate) fn sent_at(&self) -> Instant {
        Instant::from_nanos(self.sent_at.load(Ordering::Relaxed))
    }

    /// The link took packets of this slot at `now`.
    #[inline]
    pub(crate) fn note_sent(&self, now: Instant) {
        self.sent_at.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Gives the claim back after the link took the packets at `now`. True if there may be more to poll.
    #[inline]
    pub(crate) fn release_sent(&self, now: Instant) -> bool {
        self.note_sent(now);
        self.transmitting.swap(IDLE, Ordering::AcqRel) == CLAIMED_AGAIN
    }
}
