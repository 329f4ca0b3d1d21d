//! Packets that came together and are alike: what is the same in all of them is asked of the first.

use weft_base::Instant;
use weft_wire::{Lone, Packet, Train};

use super::{Connection, Event};
use crate::lifecycle::State;

/// Bytes of data from which on a packet is copied to its reader as its checksum is taken, though it came alone or is the first of those
/// that came together; of smaller ones that is no gain.
pub const PLACED_BYTES_MIN: usize = if cfg!(test) { 64 } else { 16 << 10 };

impl Connection {
    /// As [`Connection::take_packet_by`], of all packets of a train, as if they came one by one. Of a stream what is in order goes to
    /// `to`, behind what had not been read before, as if it had been read right behind them; tells how many bytes. What does not fit
    /// waits to be read, and what lies behind them in `to` may have been written, too.
    pub fn take_train_by(&mut self, now: Instant, train: &mut Train, path: u8, to: &mut [u8]) -> usize {
        let mut done = 0;
        while let Some(mut first) = train.split_first() {
            let before = self.stats.packets_received;
            done += self.take_first(now, &mut first, path, &mut to[done..]);
            if self.stats.packets_received != before {
                done += self.take_alike(now, train, &mut to[done..]);
            }
        }
        done + self.read_unread(&mut to[done..])
    }

    /// Takes one packet. Large data of a stream that is in order goes to `to`, as if it had been read, where all before it was; tells how
    /// many bytes.
    fn take_first(&mut self, now: Instant, packet: &mut Packet, path: u8, to: &mut [u8]) -> usize {
        let (len, next, inbox) = (packet.payload_len(), self.receiver.nxt(), self.receiver.inbox());
        let may_place = len >= PLACED_BYTES_MIN
            && inbox.is_stream()
            && inbox.is_empty()
            // the low half is never sealed
            && packet.header().seq.low32() == next.low32();
        let place = to.get_mut(..len).filter(|_| may_place);
        // [CDP-CHK-4] what is damaged has another number
        let is_placed = place.is_some_and(|place| packet.copy_data(self.agreed.sealed, place) == next);
        self.take_packet_by(now, packet, path);
        if !is_placed || self.receiver.nxt() == next {
            return 0;
        }
        let read = self.receiver.read(|inbox| inbox.skip_first(len));
        self.after_read();
        read
    }

    /// Takes a packet whose data lies where its reader wants the bytes of the stream that come next: all is as if it had been read. Tells how
    /// many bytes; 0 where the packet was refused. `None`, and nothing has changed, where other data comes before, or it is not plain.
    pub fn take_placed(&mut self, now: Instant, packet: &Lone<'_>, path: u8) -> Option<usize> {
        let (len, next, inbox) = (packet.payload().len(), self.receiver.nxt(), self.receiver.inbox());
        let may_take = self.state == State::Established
            && self.receiver.room_in_order() > 0
            && inbox.is_stream()
            && inbox.is_empty()
            && (1..=usize::from(self.config.link_mss)).contains(&len)
            // the low half is never sealed
            && packet.seq_low32() == next.low32();
        // [CDP-CHK-4] what is damaged has another number
        let mut packet = may_take.then(|| packet.without_data(self.agreed.sealed))??;
        if packet.seq(self.agreed.sealed) != next {
            return None;
        }
        self.take_packet_by(now, &mut packet, path);
        if self.receiver.nxt() == next {
            return Some(0);
        }
        self.stats.bytes_received += len as u64;
        self.receiver.read(|_| ());
        self.after_read();
        Some(len)
    }

    /// What a user waited for was read by [`Connection::take_train_by`], [`Connection::take_placed`] and [`Connection::read_unread`]: counts
    /// as one message.
    pub fn note_read(&mut self) {
        self.stats.messages_received += 1;
    }

    /// Takes those packets of `train` that follow the one that was just taken, and was not refused. They acknowledge what that did, come by the same path
    /// at the same time, and have nothing to tell but their data.
    fn take_alike(&mut self, now: Instant, train: &mut Train, to: &mut [u8]) -> usize {
        // [CDP-SEQ-11] no further than the window; a change of CE, a gap and a FIN are for one packet after the other
        let room = if self.state == State::Established { self.receiver.room_in_order() } else { 0 };
        if room == 0 || train.is_empty() || train.header().ce {
            return 0;
        }
        let mut done = self.read_unread(to);
        let inbox = self.receiver.inbox();
        let free = if inbox.is_stream() && inbox.is_empty() { &mut to[done..] } else { &mut [] };
        // [CDP-CHK-4] what is damaged shows as another number
        let (count, copied) = train.copy_from(self.receiver.nxt(), self.agreed.sealed, room, free);
        if count == 0 {
            return done;
        }
        self.read_ack(now);
        self.stats.packets_received += u64::from(count);
        let mut segments = train.take_segments(count);
        let bytes = segments.bytes();
        segments.drop_first(copied);
        done += bytes - segments.bytes();
        match self.receiver.store_in_order(train.header().eom, copied, segments) {
            Ok(()) => {
                self.stats.bytes_received += bytes as u64;
                self.raise(Event::Readable);
            }
            Err(reason) => self.end_for_violation(now, reason),
        }
        done
    }

    /// Reads as much of a stream as is there and fits, as part of what [`Connection::note_read`] counts; tells how many bytes.
    pub fn read_unread(&mut self, to: &mut [u8]) -> usize {
        let inbox = self.receiver.inbox();
        if to.is_empty() || inbox.is_empty() || !inbox.is_stream() {
            return 0;
        }
        let received = self.receiver.read(|inbox| inbox.read(to));
        self.after_read();
        received.map_or(0, |received| received.len)
    }
}
