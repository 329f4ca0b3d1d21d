//! An answer that somebody waits for leaves before all that there is to do for it.

use std::sync::Arc;

use weft_link::LONE_BYTES;
use weft_wire::HEADER_LEN;

use crate::clock;
use crate::engine::Engine;
use crate::gather::Gather;
use crate::slot::{Guard, Slot};

/// Bytes of an answer that leaves so.
const ANSWER_BYTES: usize = LONE_BYTES - HEADER_LEN;

impl Engine {
    /// Sends `data` where it is an answer that goes before anything else: it is handed to the link first, and the connection notes that
    /// it has left. Gives back the slot if it did not leave, and may be sent as any other.
    #[inline(never)] // who sends many messages has no use for it
    pub(crate) fn answer<'a>(
        &self,
        slot: &'a Arc<Slot>,
        mut live: Guard<'a>,
        data: &[u8],
    ) -> Result<(), Guard<'a>> {
        live.stay();
        let may_leave = data.len() <= ANSWER_BYTES
            && live.side.is_none()
            && !live.is_gathering
            && !matches!(slot.gather, Gather::Delay(_))
            && slot.is_transmit_free(&live);
        if !may_leave {
            return Err(live);
        }
        let begin = clock::now();
        let Some(head) = live.connection.head_of_answer(begin, data) else { return Err(live) };
        if !self.core().port(slot.home()).link.send_lone(live.to, &head, data) {
            return Err(live);
        }
        live.connection.note_answered(begin, data);
        live.has_read = false;
        live.is_blocked = false;
        let end = clock::now();
        slot.note_sent(end);
        self.see_to(slot, live, end);
        Ok(())
    }
}
