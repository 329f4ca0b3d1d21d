//! The limit has fallen: packets that have no number yet and are too long for it are cut again.

use weft_base::Service;
use weft_wire::records::Records;

use super::{Outgoing, SendQueue};

impl SendQueue {
    /// Cuts the packets again that wait and are too long, messages and their order unchanged. A stream is cut when it leaves.
    pub(super) fn cut_again(&mut self) {
        if self.service == Service::Stream {
            return;
        }
        self.finish_packet();
        // what is written anew lies behind all the rest, and must not be acknowledged before any of it: chunks are released in order
        let mut is_anew = false;
        for packet in std::mem::take(&mut self.ready) {
            is_anew |= self.coalesce && packet.piece.len() > self.mss();
            if is_anew {
                self.bytes -= packet.piece.len();
                self.write_again(packet);
                self.finish_packet();
            } else {
                self.cut_plain(packet);
            }
        }
    }

    /// A packet as it is, or, where it is too long, a message, or the end of one, that travelled plain, or a list of records, as
    /// records.
    fn write_again(&mut self, packet: Outgoing) {
        // it goes behind what is being filled, and may lie there itself
        let payload = self.chunks.get(packet.piece).to_vec();
        if payload.len() <= self.mss() {
            return self.push_packet(&payload, payload.len(), packet.eom);
        }
        if packet.eom {
            self.push_records(&payload, usize::MAX);
            return;
        }
        // what was put together here is well-formed
        for record in Records::new_checked(&payload, true).into_iter().flatten() {
            let data = &payload[record.range];
            if record.more {
                self.push_part_again(data);
            } else {
                self.push_records(data, usize::MAX);
            }
        }
    }

    /// [CDP-COA-3] [CDP-COA-4] A part of a message that goes on in the next packet.
    fn push_part_again(&mut self, mut data: &[u8]) {
        let coming = data.len();
        while !data.is_empty() {
            if !self.has_room(1) {
                self.finish_packet();
            }
            let (part, rest) = data.split_at(data.len().min(self.room()));
            self.append_record(true, part, coming);
            self.close_packet(false);
            data = rest;
        }
    }
}
