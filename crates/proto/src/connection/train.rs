//! Packets that came together and are alike: what is the same in all of them is asked of the first.

use weft_base::Instant;
use weft_wire::Train;

use super::{Connection, Event};
use crate::lifecycle::State;

impl Connection {
    /// As [`Connection::take_packet_by`], of all packets of a train, as if they came one by one.
    pub fn take_train_by(&mut self, now: Instant, train: &mut Train, path: u8) {
        while let Some(mut first) = train.split_first() {
            self.take_packet_by(now, &mut first, path);
            self.take_alike(now, train);
        }
    }

    /// Takes those packets of `train` that follow the one that was just taken. They acknowledge what that did, come by the same path
    /// at the same time, and have nothing to tell but their data.
    fn take_alike(&mut self, now: Instant, train: &mut Train) {
        // [CDP-SEQ-11] no further than the window; a change of CE, a gap and a FIN are for one packet after the other
        let room = if self.state == State::Established { self.receiver.room_in_order() } else { 0 };
        if room == 0 || train.is_empty() || train.header().ce {
            return;
        }
        // [CDP-CHK-4] what is damaged shows as another number
        let count = train.count_from(self.receiver.nxt(), self.agreed.sealed, room);
        if count == 0 {
            return;
        }
        self.read_ack(now);
        self.stats.packets_received += u64::from(count);
        match self.receiver.store_in_order(train.header().eom, train.take_segments(count)) {
            Ok(stored) => {
                self.stats.bytes_received += stored.bytes;
                self.raise(Event::Readable);
            }
            Err(reason) => self.end_for_violation(now, reason),
        }
    }
}
