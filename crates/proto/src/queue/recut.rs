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
        for packet in std::mem::take(&mut self.ready) {
            if packet.payload.len() <= self.mss() {
                self.ready.push_back(packet);
            } else if self.coalesce {
                self.bytes -= packet.payload.len();
                self.record_again(&packet);
                self.finish_packet();
            } else {
                self.split(packet);
            }
        }
    }

    /// [CDP-DG-4] EOM=0 in all parts but the last.
    fn split(&mut self, Outgoing { mut payload, eom }: Outgoing) {
        while payload.len() > self.mss() {
            self.ready.push_back(Outgoing { payload: payload.split_to(self.mss()), eom: false });
        }
        self.ready.push_back(Outgoing { payload, eom });
    }

    /// A message, or the end of one, that travelled plain, or a list of records, as records.
    fn record_again(&mut self, packet: &Outgoing) {
        if packet.eom {
            return self.append_parts(false, &packet.payload);
        }
        // what was put together here is well-formed
        for record in Records::new_checked(&packet.payload, true).into_iter().flatten() {
            self.append_parts(record.more, &packet.payload[record.range]);
        }
    }

    /// [CDP-COA-3] [CDP-COA-4] A part of a message that ends with it, or goes on in the next packet.
    fn append_parts(&mut self, more: bool, mut data: &[u8]) {
        while !self.has_room(data.len()) {
            if !self.has_room(1) {
                self.finish_packet();
                continue;
            }
            let (part, rest) = data.split_at(self.room());
            self.append_record(true, part);
            self.close_packet(false);
            data = rest;
        }
        self.append_record(more, data);
        if more {
            self.close_packet(false);
        }
    }
}
