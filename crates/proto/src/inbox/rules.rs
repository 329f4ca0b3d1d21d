//! What a data segment may be: asked before its packet is acknowledged.

use weft_base::Service;
use weft_wire::Reason;
use weft_wire::records::Records;

use super::Inbox;

/// What the receiver knows of the messages it may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) service: Service,
    /// The largest message we announced (MESSAGE), if we did.
    pub(crate) message_bytes: Option<u32>,
    pub(crate) coalesce: bool,
}

impl Inbox {
    /// Whether a data segment that comes now is what is read next, as a whole and by itself.
    #[inline]
    pub(crate) fn hands_over(&self, eom: bool, bytes: usize) -> bool {
        let is_whole = match self.rules.service {
            Service::Stream => bytes > 0,
            Service::Datagram => eom && self.open.is_none() && self.check_size(bytes).is_ok(),
        };
        is_whole && self.is_empty()
    }

    /// The same of so many bytes of a message of several data segments, of which the reader has the first `ahead`.
    pub(crate) fn hands_over_parts(&self, ahead: u32, bytes: usize) -> bool {
        let is_all_read = match &self.open {
            Some(open) => ahead > 0 && self.ahead == ahead && open.message.is_empty(),
            None => ahead == 0,
        };
        // [CDP-DG-9] only with an announced MESSAGE
        is_all_read
            && self.is_empty()
            && !self.is_stream()
            && self.rules.message_bytes.is_some()
            && self.check_size(ahead as usize + bytes).is_ok()
    }

    /// Whether short messages share packets, and so the parts of a long one are records.
    pub(crate) fn coalesces(&self) -> bool {
        self.rules.coalesce
    }

    /// What must hold of a data segment before its packet is acknowledged.
    pub(crate) fn check(&self, eom: bool, payload: &[u8]) -> Result<(), Reason> {
        if self.rules.service == Service::Stream || eom {
            return Ok(());
        }
        if self.rules.coalesce {
            // [CDP-COA-5] a list that breaks the rules ends the connection, and this is checked before the ACK
            let announced = self.rules.message_bytes.is_some();
            return Records::new_checked(payload, announced).map(|_| ()).map_err(|_| Reason::PROTOCOL);
        }
        match self.rules.message_bytes {
            Some(_) => Ok(()),
            // [CDP-DG-9] EOM=0 without an announced MESSAGE and without COALESCE
            None => Err(Reason::PROTOCOL),
        }
    }

    /// [CDP-DG-8] A message that outgrows what we announced ends the connection.
    pub(super) fn check_size(&self, len: usize) -> Result<(), Reason> {
        let limit = self.rules.message_bytes.map_or(usize::MAX, |limit| limit as usize);
        if len > limit { Err(Reason::TOO_BIG) } else { Ok(()) }
    }
}
