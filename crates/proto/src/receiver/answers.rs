//! What the receiving half tells the peer: when to acknowledge, what, the window, and what is held out of order.

use weft_base::{Seq, limits};
use weft_wire::{FarSack, Sack};

use super::Receiver;

/// The first number after RCV.NXT that SACK does not reach.
const FAR: usize = limits::SACK_BITS as usize + 1;

/// When the next acknowledgement must go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum AckDue {
    /// None is owed.
    No,
    /// By ACK_DELAY.
    Later,
    /// At once, but that an answer which is on its way may bring it; what has come decides before anything is sent.
    Soon,
    /// With the next packet, or alone.
    Now,
}

impl Receiver {
    pub(crate) fn ce_count(&self) -> u32 {
        self.ce_count
    }

    /// Notes one DAT that must be acknowledged.
    pub(super) fn note_data(&mut self, at_once: bool) {
        self.dat_since_ack += 1;
        // [CDP-ACK-8] every second DAT at once; [CDP-ACK-9] any other within ACK_DELAY
        if at_once {
            self.ack_due = AckDue::Now;
        } else if self.dat_since_ack >= 2 {
            self.ack_due = self.ack_due.max(AckDue::Soon);
        } else if self.ack_due == AckDue::No {
            self.ack_due = AckDue::Later;
        }
    }

    /// A DAT whose number came before: acknowledge again.
    pub(crate) fn note_duplicate(&mut self) {
        self.ack_due = AckDue::Now;
    }

    /// An acknowledgement must go with the next turn.
    pub(crate) fn request_ack(&mut self) {
        self.ack_due = AckDue::Now;
    }

    /// What was to be acknowledged [soon](AckDue::Soon) is left to an answer, for ACK_DELAY at most.
    pub(crate) fn await_answer(&mut self) {
        self.ack_due = AckDue::Later;
    }

    /// How many DAT have come since an acknowledgement went.
    pub(crate) fn dat_since_ack(&self) -> u32 {
        self.dat_since_ack
    }

    pub(crate) fn ack_due(&self) -> AckDue {
        self.ack_due
    }

    /// A DAT came with or without CE.
    pub(crate) fn note_congestion(&mut self, ce: bool) {
        if ce {
            self.ce_count = self.ce_count.wrapping_add(1);
            // [CDP-CC-4] ECE is 1 in the next packet with ACK=1
            self.ece_due = true;
        }
        // [CDP-ACK-8] a change of CE is acknowledged at once
        if ce != self.ce_last {
            self.ce_last = ce;
            self.ack_due = AckDue::Now;
        }
    }

    /// The window to put into a packet that is being emitted and that acknowledges `acknowledged`, in the unit of the
    /// field (CDP-WND-1, -3, -4).
    pub(crate) fn grant(&mut self, acknowledged: Seq) -> u16 {
        let free = self.slots.saturating_sub(self.inbox.slots_used());
        // [CDP-WND-3] the right edge does not move back
        self.edge = self.edge.later(self.nxt + u64::from(free));
        let window = self.edge.distance_from(self.nxt);
        self.max_window = self.max_window.max(window);
        // [CDP-WND-4] rounded down
        let told = self.edge.distance_from(acknowledged);
        let field = u16::try_from(told >> self.scale).unwrap_or(u16::MAX);
        self.told_edge = self.told_edge.later(acknowledged + (u64::from(field) << self.scale));
        field
    }

    /// Whether the next packet must carry ECE.
    #[inline]
    pub(crate) fn owes_echo(&self) -> bool {
        self.ece_due
    }

    /// The number to acknowledge; `fin_held` keeps the FIN back (CDP-ST-F).
    pub(crate) fn ack_number(&self, fin_held: bool) -> Seq {
        if fin_held { self.nxt - 1 } else { self.nxt }
    }

    /// An acknowledgement has gone; returns whether it must carry ECE (CDP-CC-4).
    pub(crate) fn acknowledged(&mut self) -> bool {
        self.ack_due = AckDue::No;
        self.dat_since_ack = 0;
        self.take_echo()
    }

    /// Whether a packet that goes now must carry ECE, which the next one need not then (CDP-CC-4).
    pub(crate) fn take_echo(&mut self) -> bool {
        std::mem::take(&mut self.ece_due)
    }

    pub(crate) fn is_holding(&self) -> bool {
        !self.named.is_empty()
    }

    /// [CDP-SACK-2] The bitmap of numbers held after RCV.NXT; `None` if nothing is held within its reach.
    pub(crate) fn sack(&self) -> Option<Sack> {
        // [CDP-SACK-1] bit i stands for ACK number + 1 + i
        let sack = Sack::from_words(std::array::from_fn(|word| self.named.word(1 + 64 * word)));
        (!sack.is_empty()).then_some(sack)
    }

    /// [CDP-SACK-6] What is held further on; where that is more than one piece, [CDP-SACK-7] one after another.
    pub(crate) fn far_sack(&mut self) -> Option<FarSack> {
        let last = self.named.last().filter(|last| *last >= FAR)?;
        let next = usize::try_from(self.next_piece.distance_from(self.nxt)).unwrap_or(usize::MAX);
        let from = if (FAR..=last).contains(&next) { next } else { FAR };
        let words = ((last - from) / 64 + 1).min(FarSack::BITS_MAX as usize / 64);
        self.next_piece = self.nxt + (from + 64 * words) as u64;
        let offset = u32::try_from(from - 1).ok()?;
        Some(FarSack::new(offset, (0..words).map(|word| self.named.word(from + 64 * word))))
    }
}
