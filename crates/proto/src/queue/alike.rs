//! Packets that are alike leave together.

use weft_base::Seq;
use weft_wire::emit::DataHead;

use super::{Outgoing, Piece, SendQueue};

impl SendQueue {
    /// Takes packets that are like the one that was `last`, and lie behind it, at most `most`, and lays a head before each, of which
    /// the first has the number `seq`. Tells how many there are, and where they lie.
    pub(crate) fn lay_alike(
        &mut self,
        last: Outgoing,
        head: &DataHead,
        mut seq: Seq,
        most: u32,
    ) -> (u32, Piece) {
        let summed = head.summed();
        let mut waiting = self.ready.iter().take(most as usize);
        let mut count = 0;
        let frame = self.chunks.lay_heads(last.piece.next(), |piece, body| {
            let next = waiting.next().filter(|next| next.piece == piece && next.eom == last.eom)?;
            let head = next.sum.map_or_else(|| head.emit(seq, body), |sum| summed.emit(seq, sum));
            (seq, count) = (seq + 1, count + 1);
            Some(head)
        });
        self.ready.drain(..count as usize);
        self.bytes = self.bytes.saturating_sub(count as usize * last.piece.len());
        (count, frame)
    }
}
