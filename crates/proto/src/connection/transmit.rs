//! Packets with a number: data, copied behind its head or left where it lies, and the FIN.

use std::ops::Range;

use bytes::Bytes;
use weft_base::{Instant, Seq};
use weft_frame::FramesRef;
use weft_wire::emit::{DataHead, emit_control};
use weft_wire::{BodySum, Emit, HEADER_LEN, Header, Kind, Reason, Tlvs};

use super::{Connection, no_body};
use crate::queue::{Outgoing, Piece, SendQueue};
use crate::sender::Numbered;
use crate::timers::Timer;

/// Lent data segments of up to this many bytes are laid behind the head, so that such packets lie end to end in the caller's
/// buffer; larger ones stay where they are.
pub const INLINE_BYTES: usize = 2048;

/// Shorter data segments are laid behind their head in any case: a handle to where they lie costs as much.
const HERE_BYTES_MIN: usize = 512;

/// Where a data segment that leaves for the first time is to lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lay {
    /// Behind its head, in the caller's buffer.
    There,
    /// Where it is; its head is laid before it. Packets that are like it may follow, up to so many bytes in all.
    Here(usize),
}

/// One packet to be sent: its head lies in the buffer that was handed to `poll_transmit`, its body follows it. Or some that lie end
/// to end in memory of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where the head lies: the header and, in control packets, the TLVs; with a data segment that is not in `body`, the whole
    /// packet. Empty if all of it lies elsewhere: [`Connection::frame`].
    pub head: Range<usize>,
    /// A data segment of more than [`INLINE_BYTES`] that was lent.
    pub body: Bytes,
    /// The packet, if it lies in memory of the connection; all of them, if they are several.
    pub(super) frame: Option<Piece>,
    /// How many packets these are, all of one size.
    pub packets: u32,
    /// The packet exceeds the present limit of the path and may be cut by IP (CDP-MTU-6).
    pub may_fragment: bool,
    /// 0 for a first transmission, k for retransmission k.
    pub attempt: u32,
    /// The path it goes by, of those that [`Connection::set_paths`] told of (CDP-IO-2).
    pub path: u8,
    /// An echo-form RST, which counts against the limits of the process (CDP-LIM-3).
    pub is_echo_reset: bool,
}

impl Connection {
    /// The packet that [`Connection::poll_transmit_in_place`] has just returned, if it lies in memory of the connection, or the
    /// packets end to end. To be asked before anything else happens to the connection; a handle to it may be kept for as long as it
    /// takes.
    #[must_use]
    #[inline]
    pub fn frame(&self, transmit: &Transmit) -> Option<FramesRef<'_>> {
        self.sender.queue.frame(transmit.frame?)
    }

    pub(super) fn next_number(&mut self, now: Instant, is_answer: bool) -> Option<Numbered> {
        if self.cookie.is_some() {
            return None;
        }
        match self.sender.poll(now, is_answer, &mut self.timers, &mut self.stats) {
            Ok(numbered) => Some(numbered),
            Err(verdict) => {
                self.note_verdict(now, verdict);
                None
            }
        }
    }

    pub(super) fn transmit_number(
        &mut self,
        now: Instant,
        numbered: Numbered,
        head: &mut Vec<u8>,
        lay: Lay,
    ) -> Transmit {
        let kind = if numbered.fin { Kind::Fin } else { Kind::Data };
        let mut header = self.header(kind);
        header.seq = numbered.seq;
        header.eom = numbered.eom;
        // [CDP-SEQ-7] the present ACK number, window and ECE, RTX=1, and a fresh seal
        header.rtx = numbered.attempt > 0;
        header.ece = self.note_number_sent(now);
        let start = head.len();
        if numbered.fin {
            if numbered.attempt == 0 {
                self.timers.set(Timer::FinGiveUp, now + self.config.fin_give_up);
            }
            let tlvs = Tlvs {
                reason: Some((Reason::DONE, None)),
                discarded: self.told_discarded(),
                ..Tlvs::default()
            };
            emit_control(head, &header, &tlvs, &Emit::sealed(self.agreed.sealed));
        } else {
            return self.transmit_data(now, &header, numbered, head, lay);
        }
        self.stats.packets_sent += 1;
        Transmit { attempt: numbered.attempt, ..control_packet(start..head.len(), numbered.path) }
    }

    /// A packet with a number leaves, and with it our acknowledgement; returns whether it must carry ECE.
    #[inline]
    pub(super) fn note_number_sent(&mut self, now: Instant) -> bool {
        self.timers.stop(Timer::Ack);
        self.sent_at = now;
        self.note_answer(now);
        self.receiver.acknowledged()
    }

    fn transmit_data(
        &mut self,
        now: Instant,
        header: &Header,
        numbered: Numbered,
        head: &mut Vec<u8>,
        lay: Lay,
    ) -> Transmit {
        if self.sender.mtu.is_worth_a_search(self.stats.packets_sent, self.sender.queue.bytes()) {
            self.begin_mtu_search(now);
        }
        let start = head.len();
        // [CDP-MTU-6] one that exceeds the present limit of its path may be cut by IP, all others may not
        let is_default = numbered.path == self.paths().default_path();
        let piece = self.sender.flight.piece(numbered.at);
        let may_fragment = piece.len() > usize::from(self.sender.mtu.limit(is_default));
        let packet = Outgoing { piece, eom: numbered.eom, sum: numbered.sum };
        let queue = &mut self.sender.queue;
        let first =
            emit_head(&DataHead::new(header, piece.len(), self.agreed.sealed), header.seq, packet, queue);
        let (mut frame, mut packets, mut body) = (None, 1, no_body());
        if let Lay::Here(room) = lay
            && piece.len() >= HERE_BYTES_MIN
        {
            frame = queue.lay_head(piece, &first);
            if let Some(frame) = &mut frame
                && numbered.attempt == 0
                && self.unread.is_none()
            {
                packets += self.transmit_alike(now, header, packet, frame, room);
            }
        }
        let queue = &mut self.sender.queue;
        if frame.is_none() {
            head.extend_from_slice(&first);
            match queue.lent(piece) {
                Some(lent) if lent.len() > INLINE_BYTES => body = lent,
                _ => head.extend_from_slice(queue.get(piece)),
            }
            queue.freeze(piece);
        }
        self.stats.packets_sent += u64::from(packets);
        Transmit {
            head: start..head.len(),
            body,
            frame,
            packets,
            may_fragment,
            attempt: numbered.attempt,
            path: numbered.path,
            is_echo_reset: false,
        }
    }

    /// Packets that follow `last`, which leaves for the first time in `frame`, are like it, and may leave as well: of all that is
    /// asked before a packet leaves only windows and pacing can have changed. They join the frame, up to `room` bytes in all.
    fn transmit_alike(
        &mut self,
        now: Instant,
        header: &Header,
        last: Outgoing,
        frame: &mut Piece,
        room: usize,
    ) -> u32 {
        let most = (room / frame.len()).saturating_sub(1);
        if most == 0 {
            return 0;
        }
        let most = self.sender.room(now).min(u32::try_from(most).unwrap_or(u32::MAX));
        // [CDP-CC-4] ECE is told once
        let head = DataHead::new(&Header { ece: false, ..*header }, last.piece.len(), self.agreed.sealed);
        let (count, laid) = self.sender.queue.lay_alike(last, &head, header.seq + 1, most);
        if count > 0 {
            frame.join(laid);
            self.sender.note_alike(now, last, count, &mut self.timers, &mut self.stats);
        }
        count
    }
}

#[inline]
fn emit_head(head: &DataHead, seq: Seq, packet: Outgoing, queue: &SendQueue) -> [u8; HEADER_LEN] {
    match packet.sum {
        Some(sum) => emit_summed(head, seq, sum),
        None => head.emit(seq, queue.get(packet.piece)).bytes(),
    }
}

#[inline(never)] // what leaves without is what somebody waits for, and is the faster the less code lies in its way
fn emit_summed(head: &DataHead, seq: Seq, sum: BodySum) -> [u8; HEADER_LEN] {
    head.summed().emit(seq, sum).bytes()
}

pub(super) fn control_packet(head: Range<usize>, path: u8) -> Transmit {
    Transmit {
        head,
        body: no_body(),
        frame: None,
        packets: 1,
        may_fragment: false,
        attempt: 0,
        path,
        is_echo_reset: false,
    }
}
