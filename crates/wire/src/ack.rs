//! From the low 32 bits of an ACK number back to all 64 (section 5).

use weft_base::Seq;

/// How far back an acknowledgement number still counts as old (CDP-ACK-4).
const OLD_MAX: u32 = 1 << 30;

/// What an acknowledgement number says to the sender of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acknowledgement {
    /// Every number before this one was received.
    Valid(Seq),
    /// It says less than is known: number, window and SACK are ignored, the rest of the packet is processed.
    Old,
    /// It names a number that was never sent: the packet is dropped and challenged.
    False,
}

/// Rebuilds the acknowledgement whose low 32 bits are `low`, when `una` is the oldest number not acknowledged
/// and `nxt` the next to use, at most 2^30 apart (CDP-ACK-6).
///
/// ```
/// use weft_base::Seq;
/// use weft_wire::ack::{Acknowledgement, rebuild};
///
/// let (una, nxt) = (Seq::new(u64::MAX), Seq::new(3));
/// assert_eq!(rebuild(una, nxt, 1), Acknowledgement::Valid(Seq::new(1)));
/// assert_eq!(rebuild(una, nxt, 4), Acknowledgement::False);
/// ```
#[must_use]
pub const fn rebuild(una: Seq, nxt: Seq, low: u32) -> Acknowledgement {
    // [CDP-ACK-2] rebuilt from SND.UNA, never from SND.NXT
    let ahead = low.wrapping_sub(una.low32());
    let full = Seq::new(una.get().wrapping_add(ahead as u64));
    if full.is_at_or_before(nxt) {
        // [CDP-ACK-3] full ≤ SND.NXT: valid
        Acknowledgement::Valid(full)
    } else if ahead.wrapping_neg() <= OLD_MAX {
        // [CDP-ACK-4] at most 2^30 back: old
        Acknowledgement::Old
    } else {
        // [CDP-ACK-5] otherwise it is false
        Acknowledgement::False
    }
}
